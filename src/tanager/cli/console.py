"""What commands share: where they print, and when they show progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tanager.escaping import STEERING, visible

if TYPE_CHECKING:
    from rich.console import Console

    from tanager.progress import Progress
    from tanager.sources import Source

__all__ = [
    "Bins",
    "Categorical",
    "Data",
    "Dates",
    "Decimal",
    "Drop",
    "Encoding",
    "Json",
    "Model",
    "NaValues",
    "console",
    "human_size",
    "open_data",
    "print_json",
    "read_bins",
    "read_categorical",
    "watching",
]

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file.", exists=True)]
Data = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA",
        help="Parquet, Arrow, CSV, JSON lines or Excel: files, a glob, a folder, or - for "
        "standard input.",
    ),
]
NaValues = Annotated[
    list[str] | None,
    typer.Option("--na-values", help="A text that means missing, as '?'; may be repeated."),
]
Encoding = Annotated[str, typer.Option("--encoding", help="CSV: such as latin-1 or cp1252.")]
Decimal = Annotated[str, typer.Option("--decimal", help="CSV: the decimal mark, . or ,")]
Drop = Annotated[
    list[str] | None, typer.Option("--drop", help="A column to leave out; may be repeated.")
]
Categorical = Annotated[
    list[str] | None,
    typer.Option(
        "--categorical", help="A column to take as categories, as it is; may be repeated. Or: all."
    ),
]
Dates = Annotated[
    list[str] | None,
    typer.Option(
        "--dates",
        help="A column of text that is dates; may be repeated. In doubt with how they are "
        "written: --dates when=%d/%m/%Y",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Bins = Annotated[
    str,
    typer.Option(
        "--bins", help="How numbers are cut: auto, mdl, fine, or also into so many equal bins."
    ),
]


def console(*, stderr: bool = False) -> Console:
    """Return where a command prints; wide where that is a file or another program.

    Names and labels come from tables and model files of unknown origin, so
    nothing in them may steer the terminal.
    """
    from rich.console import Console
    from rich.text import Text

    class Terminal(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(visible(text), **options)

    stream = sys.stderr if stderr else sys.stdout
    return Terminal(stderr=stderr, highlight=False, width=None if stream.isatty() else 160)


def open_data(
    data: list[str],
    na_values: list[str] | None,
    encoding: str,
    decimal: str,
    drop: list[str] | None = None,
) -> Source:
    """Open the table that a command was given."""
    from tanager.sources import open_table

    return open_table(
        list(data), na_values=na_values or (), encoding=encoding, decimal=decimal, drop=drop or ()
    )


def read_categorical(names: list[str] | None) -> str | list[str]:
    """Return what ``--categorical`` says, as `BayesNetClassifier` takes it."""
    if not names:
        return "from_dtype"
    return "all" if names == ["all"] else names


def print_json(content: Any) -> None:
    """Print JSON for scripts."""
    text = json.dumps(content, ensure_ascii=False, indent=1)
    # JSON escapes the first 32 characters itself; the other ones that steer here.
    print(STEERING.sub(lambda found: f"\\u{ord(found.group()):04x}", text))


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
