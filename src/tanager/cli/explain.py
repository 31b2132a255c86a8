"""``tanager explain``: why a model says what it says of a row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tanager.cli.console import console, plain, plain_table, print_json
from tanager.cli.options import (
    Data,
    Decimal,
    Drop,
    Encoding,
    Header,
    Json,
    Model,
    NaValues,
    open_data,
    read_class,
)
from tanager.cli.safety import Force, check_output
from tanager.errors import ConfigurationError, DataError

if TYPE_CHECKING:
    from tanager.network import Network
    from tanager.network.explanation import Explanation
    from tanager.sources import Source

__all__ = ["explain", "print_explanation"]

BAR_WIDTH = 12


def explain(
    model: Model,
    data: Data,
    row: Annotated[int, typer.Option("--row", "-r", help="Which row; the first is 0.")] = 0,
    target: Annotated[
        str | None, typer.Option("--class", help="The class to explain; else the most probable.")
    ] = None,
    against: Annotated[
        str | None, typer.Option("--against", help="The other class; else the next most probable.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Draw it: .svg, .png or .pdf.")
    ] = None,
    na_values: NaValues = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    header: Header = None,
    drop: Drop = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Explain one row: how each feature moves the odds between two classes."""
    inputs: list[str | Path] = [model, *data]
    check_output(output, inputs, force=force)
    from tanager.network import Network
    from tanager.network.explanation import explain_row

    network = Network.load(model)
    labels = network.codebook.classes.tolist()
    named = {"target": (target, "--class"), "against": (against, "--against")}
    classes = {
        role: labels[read_class(network, text, option)]
        for role, (text, option) in named.items()
        if text is not None
    }
    explanation = explain_row(
        network,
        _read_row(network, open_data(data, na_values, encoding, decimal, drop, header), row),
        **classes,
    )
    if output is not None:
        from tanager.cli.draw import save_figure
        from tanager.report import plot_explanation

        save_figure(plot_explanation(explanation), output)
    if as_json:
        print_json(explanation.to_dict())
    else:
        print_explanation(explanation)


def _read_row(network: Network, source: Source, row: int) -> Any:
    from tanager.cli.predict import match_input

    matched = match_input(network, source, ignore_extra=True)
    before = 0
    for batch in matched.source.batches(matched.features) if row >= 0 else ():
        if row < before + batch.num_rows:
            one = batch.slice(row - before, 1)
            return one.rename_columns(list(network.codebook.domain.names))
        before += batch.num_rows
    if row < 0:
        raise ConfigurationError(f"--row {row}: rows are counted from 0.")
    raise DataError(f"There is no row {row}: the table has {before} rows, counted from 0.")


def print_explanation(explanation: Explanation, most: int = 20) -> None:
    """Print the waterfall of log-odds from prior to posterior."""
    from tanager.network.explanation import SPOKEN_FOR

    out = console()
    odds = [
        (f"{label}", float(p))
        for label, p in zip(explanation.classes, explanation.probabilities, strict=True)
    ]
    odds.sort(key=lambda pair: -pair[1])
    shown = ", ".join(f"{label} {p:.3f}" for label, p in odds[:6])
    out.print(f"P(class | row): {shown}", markup=False)
    out.print(
        f"log-odds of {explanation.target} against {explanation.against}, by feature:", markup=False
    )
    columns = ("", "value", "adds", "", "so far", f"P({explanation.target})")
    table = plain_table(*columns, left=(0, 1, 3))
    top = max(map(abs, explanation.contributions), default=1.0) or 1.0
    for at, step in enumerate(explanation.steps(most)):
        colour = "green" if step.adds > 0 else "red"
        bar = f"[{colour}]{'█' * round(BAR_WIDTH * abs(step.adds) / top)}[/]" if step.value else ""
        adds = f"{step.adds:+.3f}" if at else ""
        end = (f"{step.log_odds:+.3f}", f"{step.probability:.3f}")
        table.add_row(plain(step.feature), plain(step.value), adds, bar, *end)
    out.print(table)
    out.print(explanation.why_silent() or SPOKEN_FOR, markup=False)
    if len(explanation.classes) > 2:
        out.print(f"P: of {explanation.target} against {explanation.against} alone", markup=False)
