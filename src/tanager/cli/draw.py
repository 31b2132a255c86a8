"""``tanager draw``: a model for other eyes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tanager.atomic import replacing, write_text
from tanager.cli.console import human_size
from tanager.cli.options import Model
from tanager.cli.safety import Force, check_output, is_signed
from tanager.errors import ConfigurationError

__all__ = ["register", "save_figure"]

PICTURES = (".svg", ".png", ".pdf")


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(draw)


def draw(
    model: Model,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The picture: .svg, .png, .pdf, or .dot.")
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
    _check_ending(output, (*PICTURES, ".dot") if table is None else PICTURES)
    check_output(output, [model], ours=is_signed, kind="picture of Tanager's", force=force)
    from tanager.network import Network

    network = Network.load(model)
    if output.suffix == ".dot":
        write_text(output, network.to_dot())
        print(f"Hint: tanager export {model} -o {output} writes the same.", file=sys.stderr)
        return
    if table is None:
        from tanager.report import plot_network

        save_figure(plot_network(network, fold=not leaves), output)
    else:
        from tanager.report import plot_table

        save_figure(plot_table(network, table, sort=sort), output)
    print(f"{output}: {human_size(output.stat().st_size)}")


def save_figure(ax: Any, output: Path) -> None:
    """Write the figure of an axis, in the format of the file's ending."""
    _check_ending(output, PICTURES)
    signed = {"Software" if output.suffix == ".png" else "Creator": "Tanager"}
    with replacing(output) as part:
        ax.figure.savefig(
            part, format=output.suffix[1:], bbox_inches="tight", dpi=150, metadata=signed
        )


def _check_ending(output: Path, allowed: tuple[str, ...]) -> None:
    if output.suffix not in allowed:
        raise ConfigurationError(
            f"--output {output}: the ending {output.suffix!r} is not known. "
            f"Allowed: {', '.join(allowed)}."
        )
