"""The program: its commands, and what it says when one fails."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tanager import __version__
from tanager.cli import laboratory
from tanager.errors import TanagerError

__all__ = ["app", "main"]

app = typer.Typer(
    name="tanager",
    help="Bayesian network classifiers: calibrated, explainable probabilities from any table.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
laboratory.register(app)


def _print_version(value: bool) -> None:
    if value:
        print(f"tanager {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Bayesian network classifiers: calibrated, explainable probabilities from any table."""


def main() -> None:
    """Run the program: exit code 0 done, 1 failed, 2 wrong usage."""
    try:
        app()
    except (TanagerError, OSError) as error:
        # Read from the arguments, since an error may come before they are parsed.
        if "--debug" in sys.argv:
            raise
        print(f"tanager: {error}", file=sys.stderr)
        sys.exit(1)
