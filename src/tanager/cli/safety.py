"""What a command may write over: never what it reads, nothing foreign unless told so."""

from __future__ import annotations

import errno
import glob
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from tanager.errors import ConfigurationError

__all__ = [
    "Force",
    "check_output",
    "is_cells",
    "is_model",
    "is_page",
    "is_prediction",
    "is_run",
    "is_signed",
]

Force = Annotated[
    bool, typer.Option("--force", help="Write over an existing file of another kind.")
]
Recognize = Callable[[Path], bool]


def check_output(
    output: Path | None,
    inputs: Iterable[str | Path],
    *,
    ours: Recognize,
    kind: str,
    force: bool = False,
    option: str = "--output",
) -> None:
    """Refuse at once what would destroy data, or fail only after the work.

    Parameters
    ----------
    output : Path or None
        What will be written; None: nothing.
    inputs : iterable of str or Path
        Files, folders and globs that the command reads. An output that is one of
        them, under whatever name, is refused: `force` or not.
    ours : function of a path
        Whether an existing file is of the kind that the command writes, and may
        be replaced without `force`.
    kind : str
        What `ours` recognizes, in words.
    """
    if output is None:
        return
    if str(output) == "-":
        raise ConfigurationError(
            f"{option} -: only the rows of predict can go to standard output. Give a file's name."
        )
    if not output.parent.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, "The folder to write into is not there", str(output.parent)
        )
    if output.is_dir():
        raise IsADirectoryError(errno.EISDIR, "It is a folder; give a file's name", str(output))
    if not output.exists():
        return
    place = _identity(output)
    for path in _files(inputs):
        if _identity(path) == place:
            raise ConfigurationError(
                f"{option} {output} is the input {path}, and would be destroyed. Give another name."
            )
    if force or output.stat().st_size == 0 or ours(output):
        return
    raise ConfigurationError(
        f"{option} {output} exists and is no {kind}. "
        "Give another name, or --force to write over it."
    )


def _files(inputs: Iterable[str | Path]) -> Iterator[Path]:
    for given in inputs:
        path = Path(given)
        if path.is_dir():
            from tanager.sources.files import is_table_file

            yield from (p for p in path.rglob("*") if p.is_file() and is_table_file(p))
        elif path.exists():
            yield path
        else:
            yield from map(Path, glob.glob(str(given), recursive=True))  # noqa: PTH207


def _identity(path: Path) -> tuple[int, int]:
    """Return what a file is whatever it is called: links have the same."""
    facts = os.stat(path)  # noqa: PTH116 - follows links, as writing does
    return facts.st_dev, facts.st_ino


def is_model(path: Path) -> bool:
    """Return whether a file is one of Tanager's model files, by its first bytes."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        start = file.read(min(length, 1 << 20)) if length < 1 << 32 else b""
    return start.lstrip()[:1] == b"{" and b'"format":"tanager"' in start.replace(b" ", b"")


def is_prediction(path: Path) -> bool:
    """Return whether a file is a table with a column `prediction`."""
    return "prediction" in _columns(path)


def is_cells(path: Path) -> bool:
    """Return whether a file is a table of an experiment's cells."""
    return {"dataset", "classifier", "round", "fold"} <= set(_columns(path))


def is_page(path: Path) -> bool:
    """Return whether a file is a page that Tanager wrote."""
    with path.open("rb") as file:
        return b"Tanager" in file.read(1 << 16)


def is_signed(path: Path) -> bool:
    """Return whether a file names Tanager near its start or its end: an export, a picture."""
    with path.open("rb") as file:
        start = file.read(1 << 16)
        file.seek(max(0, path.stat().st_size - (1 << 16)))
        return b"tanager" in start.lower() or b"tanager" in file.read().lower()


def is_run(path: Path) -> bool:
    """Return whether a file is a run of the laboratory."""
    from tanager.evaluation.runs import FORMAT

    with path.open("rb") as file:
        return FORMAT.encode() in file.readline(1 << 20)


def _columns(path: Path) -> list[str]:
    from tanager.errors import DataError
    from tanager.sources import open_source

    try:
        return list(open_source(path).names)
    except (DataError, OSError, UnicodeDecodeError):
        return []
