"""What commands share: where they print, and when they show progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from tanager.progress import Progress

__all__ = [
    "Bins",
    "Data",
    "Json",
    "Model",
    "console",
    "human_size",
    "print_json",
    "read_bins",
    "watching",
]

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file.", exists=True)]
Data = Annotated[
    list[str],
    typer.Argument(metavar="DATA", help="Parquet, Arrow or CSV: files, a glob or a folder."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Bins = Annotated[
    str,
    typer.Option("--bins", help="How numbers are cut: auto, mdl, or also into so many equal bins."),
]


def console() -> Console:
    """Return standard output; wide where it goes to a file or another program."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else 160)


def print_json(content: Any) -> None:
    """Print JSON for scripts."""
    print(json.dumps(content, ensure_ascii=False, indent=1))


@contextmanager
def watching() -> Iterator[Progress]:
    """Give progress bars where a person watches, silence otherwise."""
    from tanager.progress import Progress, RichProgress

    if not sys.stderr.isatty():
        yield Progress()
        return
    with RichProgress() as progress:
        yield progress


def human_size(n_bytes: float) -> str:
    """Return a size to read, in powers of ten."""
    for unit in ("B", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} GB"


def read_bins(text: str) -> str | int:
    """Return what ``--bins`` says."""
    return int(text) if text.isdecimal() else text
