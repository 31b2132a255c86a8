"""Formats that are read whole: JSON lines, Excel, and whatever comes on standard input."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from itertools import zip_longest
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyarrow as pa

from tanager.errors import DataError
from tanager.sources.formats import reading
from tanager.sources.plain import check_columns
from tanager.sources.remote import RemoteFile, local_copy
from tanager.sources.source import Source, TableSource

# What a packed file may unpack to, all of which is held in memory: real text packs to a
# twentieth, a file that was made to fill a memory to a thousandth.
MOST_BYTES = 1 << 28  # of a small file; of a large one so many for each byte:
MOST_BYTES_OF_A_BYTE = 100
MOST_CELLS = 10_000_000  # of a sheet in a small file; in a large one so many for each byte:
MOST_CELLS_OF_A_BYTE = 100
ROW_COST = 100  # cells that a row counts for, so that empty ones are no way around it


def read_whole(paths: Sequence[Path | RemoteFile], kind: str) -> Source:
    """Read files of JSON lines or Excel into memory, as one table."""
    read = _read_json if kind == "json lines" else _read_excel
    tables = []
    for path in paths:
        with reading(path), local_copy(path) as here:
            tables.append(read(here))
    try:
        return TableSource(pa.concat_tables(tables, promote_options="permissive"))
    except pa.ArrowException as error:
        raise DataError(
            f"The files disagree on a column's type: {error} Convert them to one type."
        ) from error


def _read_json(path: Path) -> pa.Table:
    from pyarrow import json

    try:
        with reading(path):
            _check_unpacked(path, _unpacked_bytes(path))
            table = json.read_json(pa.input_stream(str(path), compression="detect"))
            check_columns(table)  # also that texts are utf-8: the reader does not
            return table
    except DataError as error:
        raise DataError(f"{error} It must hold one JSON object a line.") from error.__cause__


def _check_unpacked(path: Path, n_bytes: int) -> None:
    if n_bytes > _most_bytes(path):
        raise DataError(
            f"{path} unpacks to far more than a file of its size holds. Unpack it, look at it, and "
            "pass the unpacked file or Parquet."
        )


def _most_bytes(path: Path) -> int:
    return max(MOST_BYTES, MOST_BYTES_OF_A_BYTE * path.stat().st_size)


def _unpacked_bytes(path: Path) -> int:
    """Return how many bytes a packed file unpacks to, or some that are too many."""
    n_bytes, most = 0, _most_bytes(path)
    with pa.input_stream(str(path), compression="detect") as stream:
        while n_bytes <= most and (part := stream.read(1 << 20)):
            n_bytes += len(part)
    return n_bytes


def _read_excel(path: Path) -> pa.Table:
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise DataError(
            f"{path}: Excel files need openpyxl. Install it (pip install openpyxl), or save the "
            "sheet as CSV."
        ) from error
    try:
        with ZipFile(path) as parts:  # which gives no more of a part than is said here
            _check_unpacked(path, sum(part.file_size for part in parts.infolist()))
        with closing(load_workbook(path, read_only=True, data_only=True)) as book:
            rows = _cells(path, book.worksheets)
    except DataError:
        raise
    except Exception as error:  # whatever a damaged archive makes it raise
        raise DataError(
            f"{path} cannot be read: {str(error)[:200]}. Save the sheet again."
        ) from error
    if not rows:
        raise DataError(f"{path} is empty: no header and no rows. Pass a file with both.")
    names = ["" if name is None else str(name) for name in _trimmed(rows[0])]
    for row in rows[1:]:
        if any(cell is not None for cell in row[len(names) :]):
            raise DataError(
                f"{path}: a row has more cells than the header ({_shown(row)}). Name every column."
            )
    columns = list(zip_longest(*(row[: len(names)] for row in rows)))
    return pa.table([_column(values[1:]) for values in columns], names=names)


def _cells(path: Path, sheets: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the rows of the first sheet; some may be short. Empty ones are left out, as in CSV.

    One cell at the far end of a row makes all before it exist, so that a small file could ask
    for any memory.
    """
    if not sheets:
        raise DataError(f"{path} has no sheet of cells. Pass a file with one.")
    sheets[0].reset_dimensions()  # what a file says of its size may be wrong, and rows be lost
    rows: list[tuple[Any, ...]] = []
    left = max(MOST_CELLS, MOST_CELLS_OF_A_BYTE * path.stat().st_size)
    for row in sheets[0].iter_rows(values_only=True):
        left -= len(row) + ROW_COST
        if left < 0:
            raise DataError(
                f"{path} has far more cells than a file of its size can fill. Delete empty rows "
                "and columns, or save the sheet as CSV."
            )
        if _trimmed(row):
            rows.append(row)
    return rows


def _shown(row: tuple[Any, ...]) -> str:
    """Return the first cells of a row, for a message."""
    return ", ".join(str(cell)[:20] for cell in row[:4])


def _trimmed(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row without the empty cells at its end."""
    end = len(row)
    while end and row[end - 1] is None:
        end -= 1
    return row[:end]


def _column(values: Sequence[Any]) -> pa.Array:
    try:
        return pa.array(list(values))
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        # Numbers with stray texts: as text, for the audit to judge.
        return pa.array([None if value is None else str(value) for value in values])


def save_stdin() -> Path:
    """Copy standard input to a temporary file whose ending says what it is; gone at exit."""
    stream = sys.stdin.buffer
    start = stream.read(6)
    if start.startswith(b"PAR1"):
        ending = ".parquet"
    elif start.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        ending = ".arrow"
    elif start.startswith(b"PK\x03\x04"):
        ending = ".xlsx"
    elif start.startswith(b"\x1f\x8b"):
        ending = ".csv.gz"
    else:
        ending = ".jsonl" if start.lstrip().startswith(b"{") else ".csv"
    handle, name = tempfile.mkstemp(prefix="tanager-", suffix=ending)
    atexit.register(Path(name).unlink, missing_ok=True)
    with os.fdopen(handle, "wb") as file:
        file.write(start)
        shutil.copyfileobj(stream, file)
    return Path(name)
