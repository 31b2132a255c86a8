"""``tanager drift``: whether new rows are like those a model was trained on."""

from __future__ import annotations

from pathlib import Path

import typer

from tanager.cli.console import console, human_size, print_json, watching
from tanager.cli.options import Data, Force, Json, Model, TableOptions, Threads
from tanager.cli.output import check_output
from tanager.engines import LocalEngine
from tanager.network import Network
from tanager.network.drift import measure_drift

LOOK = 3  # the exit code where something should be looked at


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
        from tanager.report.page import write_drift

        write_drift(found, output, title=f"Drift: {', '.join(map(str, data))}")
    if as_json:
        print_json(found.to_dict())
    else:
        console().print(str(found), markup=False, soft_wrap=True)
        if output is not None:
            print(f"{output}: {human_size(output.stat().st_size)}")
    if found.moved:
        raise typer.Exit(LOOK)
