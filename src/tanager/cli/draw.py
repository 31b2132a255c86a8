"""``tanager draw``: the network, or a table of it, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tanager.atomic import replacing
from tanager.cli.console import human_size
from tanager.cli.options import Model, given_flags
from tanager.cli.safety import Force, check_output
from tanager.errors import ConfigurationError

__all__ = ["draw", "save_figure"]

PICTURES = (".svg", ".png", ".pdf")


def draw(
    context: typer.Context,
    model: Model,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The picture: .svg, .png or .pdf.")
    ],
    table: Annotated[
        str | None, typer.Option("--table", help="Draw this feature's probabilities instead.")
    ] = None,
    sort: Annotated[
        str, typer.Option(help="Order of the table's rows: context, parents or center.")
    ] = "context",
    leaves: Annotated[
        bool, typer.Option("--leaves", help="Draw every leaf, however many a parent has.")
    ] = False,
    force: Force = False,
) -> None:
    """Draw the network, or one of its tables."""
    if given_flags(context, "sort") and table is None:
        raise ConfigurationError(
            "--sort is the order of the rows of --table. Name a feature with --table."
        )
    if leaves and table is not None:
        raise ConfigurationError(
            "--leaves is of the network; a table has none. Leave out --leaves, or --table."
        )
    _check_ending(output)
    check_output(output, [model], force=force)
    from tanager.network import Network

    network = Network.load(model)
    if table is None:
        from tanager.report import plot_network

        save_figure(plot_network(network, fold=not leaves), output)
    else:
        from tanager.report import plot_table

        save_figure(plot_table(network, table, sort=sort), output)
    print(f"{output}: {human_size(output.stat().st_size)}")


def save_figure(ax: Any, output: Path) -> None:
    """Write the figure of an axis, in the format of the file's ending."""
    _check_ending(output)
    signed = {"Software" if output.suffix == ".png" else "Creator": "Tanager"}
    with replacing(output) as part:
        ax.figure.savefig(
            part, format=output.suffix[1:], bbox_inches="tight", dpi=150, metadata=signed
        )


def _check_ending(output: Path) -> None:
    if output.suffix not in PICTURES:
        graphviz = " Graphviz: tanager export." if output.suffix == ".dot" else ""
        raise ConfigurationError(
            f"--output {output}: the ending {output.suffix!r} is not known. "
            f"Allowed: {', '.join(PICTURES)}.{graphviz}"
        )
