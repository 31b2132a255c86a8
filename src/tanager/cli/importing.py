"""``tanager import``: a model from another program's network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tanager.cli.console import human_size, print_json
from tanager.cli.options import Json
from tanager.cli.safety import Force, check_output

__all__ = ["import_network"]


def import_network(
    network: Annotated[
        Path,
        typer.Argument(
            help="A network in BIF, XMLBIF, GeNIe's XDSL or Hugin's NET: .bif, .xml, .xmlbif, "
            ".bifxml, .xdsl or .net, with .gz where it is packed."
        ),
    ],
    target: Annotated[str, typer.Option("--target", "-t", help="The node to predict.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file.")],
    hidden: Annotated[
        list[str] | None,
        typer.Option(
            "--hidden", help="A node that no table has as a column: summed out; once for each."
        ),
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option("--format", help="Instead of the ending: bif, xmlbif, xdsl or net."),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Turn another program's network into a model file: a classifier for one of its nodes.

    The joint distribution is kept exactly; columns that a table lacks are summed out.
    """
    check_output(output, [network], force=force)
    from tanager.classifiers import read_network, save

    estimator = read_network(network, target=target, hidden=hidden or (), format=format_)
    save(estimator, output)
    n_bytes = output.stat().st_size
    if as_json:
        structure = estimator.network_.structure
        print_json(
            {
                "model": str(output),
                "bytes": n_bytes,
                "classes": [str(label) for label in estimator.classes_],
                "features": len(structure.selected),
                "parents": {name: list(above) for name, above in structure.parents.items()},
            }
        )
        return
    print(f"{output}: {estimator.network_.summary()}; {human_size(n_bytes)}")
