"""``tanager drift``: whether new rows are like those a model was trained on."""

from __future__ import annotations

from pathlib import Path

import typer

from tanager.cli.console import console, human_size, plain, plain_table, print_json, watching
from tanager.cli.options import Data, Force, Json, Model, TableOptions, Threads
from tanager.cli.safety import check_output
from tanager.engines import LocalEngine
from tanager.network import Network
from tanager.network.drift import Drift, measure_drift

LOOK = 3  # the exit code where something should be looked at
SHOWN = 20  # tests that are printed


def drift(
    model: Model,
    data: Data,
    reading: TableOptions,
    target: str | None = None,
    output: Path | None = None,
    least: float = 0.02,
    alpha: float = 0.05,
    jobs: Threads = 1,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Detect drift: compare new rows with a model's training data.

    Reports which columns and dependences changed, whether the class frequencies did (estimated
    without labels) and, with --target, whether the probabilities are still calibrated. DATA is
    read once. The exit code is 3 if anything drifted.

    Options:
        target (-t): The column of true classes, if DATA has one.
        output (-o): Also write an HTML report.
        least: Smallest effect to report, 0 to 1.
        alpha: Significance level: the probability of a false alarm when nothing changed.
    """
    if output is not None:
        from tanager.report.rendering import check_ending

        check_ending(output, "--output")
        check_output(output, [model, *data], force=force)
    network, table = Network.load(model), reading.open(data)
    with watching() as progress:
        found = measure_drift(
            network,
            table,
            target,
            LocalEngine(jobs),
            alpha=alpha,
            least=least,
            progress=progress,
        )
    if output is not None:
        from tanager.report.drift_page import write_drift

        write_drift(found, output, title=f"Drift: {', '.join(map(str, data))}")
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found)
        if output is not None:
            print(f"{output}: {human_size(output.stat().st_size)}")
    if found.moved:
        raise typer.Exit(LOOK)


def _print(found: Drift) -> None:
    out = console()
    moved = found.moved
    head = f"{found.n_rows:,} rows compared with {found.n_training:,} training rows: "
    if not moved:
        out.print(f"{head}no drift found in {len(found.shifts)} tests.", markup=False)
        return
    out.print(f"{head}{len(moved)} of {len(found.shifts)} tests found drift.", markup=False)
    table = plain_table("what", "how", "effect", "p", "", left=(0, 1, 4))
    for shift in moved[:SHOWN]:
        p = "< 0.001" if shift.p_value < 0.001 else f"{shift.p_value:.3f}"
        name = plain(" × ".join(shift.columns))
        table.add_row(name, shift.kind, f"{shift.effect:.3f}", p, plain(shift.words))
    out.print(table)
    if len(moved) > SHOWN:
        out.print(f"... {len(moved) - SHOWN:,} more: --json has all", markup=False)
