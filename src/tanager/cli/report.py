"""``tanager draw``, ``report`` and ``drift``: figures and HTML reports of models and new rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tanager.atomic import replacing
from tanager.cli.console import console, human_size, print_json, watching
from tanager.cli.options import (
    Data,
    Existing,
    Force,
    Json,
    Model,
    TableOptions,
    Threads,
    given_flags,
    read_costs_file,
)
from tanager.cli.output import PICTURES, check_ending, check_output, ending
from tanager.errors import ConfigurationError
from tanager.network import Network


def draw(
    context: typer.Context,
    model: Model,
    output: Path,
    table: str | None = None,
    sort: str = "context",
    leaves: bool = False,
    force: Force = False,
) -> None:
    """Plot the network, or one of its probability tables.

    Options:
        output (-o): The output file: .svg, .png or .pdf.
        table: Plot this feature's probability table instead.
        sort: Order of the table's rows: context, parents or center.
        leaves: Draw all leaves instead of folding them.
    """
    if given_flags(context, "sort") and table is None:
        raise ConfigurationError("--sort needs --table FEATURE.")
    if leaves and table is not None:
        raise ConfigurationError(
            "--leaves applies to the network, not to a table. Leave out --leaves or --table."
        )
    check_ending(output, PICTURES, " Graphviz: tanager export." if output.suffix == ".dot" else "")
    check_output(output, [model], force=force)
    network = Network.load(model)
    from tanager import report as plots

    if table is None:
        save_figure(plots.plot_network(network, fold=not leaves), output)
    else:
        save_figure(plots.plot_table(network, table, sort=sort), output)
    print(f"{output}: {human_size(output.stat().st_size)}")


def save_figure(ax: Any, output: Path) -> None:
    """Write the figure of an axis, in the format given by the file's extension."""
    kind = ending(output)[1:]
    signed = {"Software" if kind == "png" else "Creator": "Tanager"}
    with replacing(output) as part:
        ax.figure.savefig(part, format=kind, bbox_inches="tight", dpi=150, metadata=signed)


OF_DATA = ("target", "folds", "refits", "na_values", "encoding", "decimal", "header", "drop")


def report(
    context: typer.Context,
    model: Model,
    reading: TableOptions,
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DATA]", help="Rows to evaluate the model on: Parquet, Arrow or CSV."
        ),
    ] = None,
    target: str | None = None,
    html: Path = Path("report.html"),
    card: Existing = None,
    title: str | None = None,
    folds: int | None = None,
    refits: bool = False,
    costs: str | None = None,
    force: Force = False,
) -> None:
    """Write an HTML report of a model.

    The page shows the model's performance, its network and every feature's effect, and answers
    what-if queries. It's one file that loads nothing. With DATA, the model is also evaluated;
    training rows are recognised and predicted by cross-validation. The page holds aggregates,
    never rows.

    Options:
        target (-t): The column of true classes in DATA. [default: the model's target]
        html (--output, -o): The HTML page; with .md, only the model card, as Markdown.
        card: A text file with notes for the model card.
        title: Title of the page.
        folds: Cross-validation folds if DATA is the training data; 0: none. [default: 5, or the
            number of rows]
        refits: Refit on subsets of the columns, to compare with unknown features.
        costs: A TOML file as for tanager decide: the page also shows decisions.
    """
    from tanager.report import write_report
    from tanager.report.rendering import check_ending

    check_ending(html, "--output", card=True)
    check_output(html, [model, *(data or ()), *([card] if card else ())], force=force)
    strange = [] if data else given_flags(context, *OF_DATA)
    if strange:
        raise ConfigurationError(
            f"{', '.join(strange)} needs DATA. Pass the rows too, or leave these options out."
        )
    network, table = Network.load(model), reading.open(data) if data else None
    if table is not None and target is None:
        target = network.codebook.target.name
        if target not in table.names:
            raise ConfigurationError(
                f"DATA has no column {target!r}, which the model predicts. Name the column of "
                "the true classes with --target."
            )
    priced, prices = (None, {}) if costs is None else read_costs_file(network, costs)
    write_report(
        model,
        html,
        table,
        target,
        title=title,
        notes=card.read_text(encoding="utf-8") if card is not None else None,
        folds=folds,
        with_refits=refits,
        costs=priced,
        prices=prices,
        progress=_tell if sys.stderr.isatty() else None,
    )
    print(f"{html}: {human_size(html.stat().st_size)}")


def _tell(text: str) -> None:
    print(f"tanager: {text} …", file=sys.stderr)


LOOK = 3  # the exit code if anything drifted


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
        found = network.drift(
            table, target, alpha=alpha, least=least, n_jobs=jobs, progress=progress
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
