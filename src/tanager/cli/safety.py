"""What a command may write over: never what it reads, nothing foreign unless told so."""

from __future__ import annotations

import errno
import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tanager.errors import ConfigurationError, DataError

if TYPE_CHECKING:
    from tanager.sources import Source

__all__ = [
    "SIGNED_SQL",
    "Force",
    "check_output",
    "is_cells",
    "is_export",
    "is_model",
    "is_page",
    "is_picture",
    "is_prediction",
    "is_run",
]

Force = Annotated[
    bool, typer.Option("--force", help="Write over an existing file of another kind.")
]
Recognize = Callable[[Any], bool]  # of a path; those of predictions also of a URL

NEAR = 1 << 16  # bytes from the start, or from the end, in which a signature stands
FIRST_ROWS = 100  # of a table, which tell whether it is one of predictions
UNREADABLE = (DataError, OSError, UnicodeDecodeError)
SIGNED_SQL = "-- A Bayesian network classifier, written by Tanager.\n"

# A file is ours by what its writer puts there and nobody else does; that it names
# Tanager is not enough. The bytes are those of the writers, word for word.
_EXPORTS = (
    SIGNED_SQL.encode(),
    b'{"format":"tanager-scorer","version":',
    b"/* Tanager's scorer: model.proba(row), model.predict(row) and more. */\n",
    b"(() => {\n/* Tanager's scorer: model.proba(row), model.predict(row) and more. */\n",
    b"/* A Bayesian network classifier, written by Tanager.\n *\n",
    b"network tanager {\n}\nvariable ",
    b'<?xml version="1.0" encoding="UTF-8"?>\n<BIF VERSION="0.3">\n<NETWORK>\n'
    b"<NAME>tanager</NAME>\n",
    b"digraph tanager {\n  graph [label=",
)
_ONNX = re.compile(rb"\x08[\x01-\x7f]\x12\x07tanager")  # the version, then the producer
_PAGE = re.compile(
    rb"(?s)<!doctype html>\r?\n.*?\n(?:"
    rb'<meta name="generator" content="Tanager [^"\n]*">'
    rb'|<p class="muted">Tanager, report of an experiment</p>'
    rb"|<p class=\"muted\">Tanager, a paper's experiments run again</p>"
    rb")\r?\n"
)
_SVG = re.compile(
    rb"(?s)<\?xml .*?<dc:creator>\s*<cc:Agent>\s*<dc:title>Tanager</dc:title>\s*</cc:Agent>"
    rb"\s*</dc:creator>"
)
_PNG = re.compile(rb"(?s)\x89PNG\r\n\x1a\n.{25,512}?\x00\x00\x00\x10tEXtSoftware\x00Tanager")
_PDF = b"<< /Creator (Tanager) /Producer (Matplotlib pdf backend "


def check_output(
    output: Path | str | None,
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
    output : Path, str or None
        What will be written; a str is a URL. None: nothing.
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
    if isinstance(output, str):
        _check_url(output, inputs, ours=ours, kind=kind, force=force, option=option)
        return
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
    if not (force or output.stat().st_size == 0 or ours(output)):
        raise _foreign(output, kind, option)


def _check_url(
    output: str,
    inputs: Iterable[str | Path],
    *,
    ours: Recognize,
    kind: str,
    force: bool,
    option: str,
) -> None:
    """Do the same for a URL."""
    from tanager.sources.remote import exists

    if output in map(str, inputs):
        raise ConfigurationError(
            f"{option} {output} is an input, and would be destroyed. Give another name."
        )
    if exists(output) and not (force or ours(output)):
        raise _foreign(output, kind, option)


def _foreign(output: Path | str, kind: str, option: str) -> ConfigurationError:
    return ConfigurationError(
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


def is_prediction(path: Path | str) -> bool:
    """Return whether a file is a table that predict wrote.

    After the label stand one probability ``p_CLASS`` a class, and nothing else; they
    sum to one. A table of labels alone cannot be told from a foreign one.
    """
    source = _open(path)
    if source is None or "prediction" not in source.names:
        return False
    columns = source.names[source.names.index("prediction") + 1 :]
    return bool(columns) and all(c.startswith("p_") for c in columns) and _add_up(source, columns)


def _add_up(source: Source, columns: Iterable[str]) -> bool:
    """Return whether some columns are numbers that sum to one in each of the first rows."""
    import numpy as np
    import pyarrow as pa

    from tanager.sources.plain import plain_numbers

    try:
        batch = next(source.batches(list(columns), FIRST_ROWS))
    except UNREADABLE:
        return False
    kinds = (pa.float64(), pa.int64())  # whole numbers: a CSV file with no others
    if any(column.null_count or column.type not in kinds for column in batch.columns):
        return False
    total = np.sum([plain_numbers(column) for column in batch.columns], axis=0)
    return bool(np.allclose(total, 1.0))


def is_cells(path: Path) -> bool:
    """Return whether a file is a table of an experiment's cells, by its first and last columns."""
    source = _open(path)
    return source is not None and (
        source.names[:6] == ("dataset", "classifier", "round", "fold", "n_train", "n_test")
        and source.names[-3:] == ("status", "error", "version")
    )


def is_page(path: Path) -> bool:
    """Return whether a file is a page that Tanager wrote."""
    return _PAGE.match(_ends(path)[0]) is not None


def is_export(path: Path) -> bool:
    """Return whether a file is an export of Tanager's, by its first bytes."""
    start = _ends(path)[0]
    return start.startswith(_EXPORTS) or _ONNX.match(start) is not None


def is_picture(path: Path) -> bool:
    """Return whether a file is a picture that Tanager drew."""
    start, end = _ends(path)
    if start.startswith(b"%PDF-"):
        return _PDF in end
    return _SVG.match(start) is not None or _PNG.match(start) is not None


def _ends(path: Path) -> tuple[bytes, bytes]:
    """Return what stands near the start of a file, and near its end."""
    with path.open("rb") as file:
        start = file.read(NEAR)
        file.seek(max(0, path.stat().st_size - NEAR))
        return start, file.read(NEAR)


def is_run(path: Path) -> bool:
    """Return whether a file is a run of the laboratory."""
    from tanager.evaluation.runs import FORMAT

    return _ends(path)[0].startswith(f'{{"format": "{FORMAT}", "experiment": '.encode())


def _open(path: Path | str) -> Source | None:
    """Open a table; None where the file is none."""
    from tanager.sources import open_source

    try:
        return open_source(path)
    except UNREADABLE:
        return None
