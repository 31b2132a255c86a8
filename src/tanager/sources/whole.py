"""Formats that are read whole: JSON lines, Excel, and whatever comes on standard input."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tanager.errors import DataError
from tanager.sources.source import Source, TableSource

__all__ = ["read_whole", "save_stdin"]


def read_whole(paths: Sequence[Path], kind: str) -> Source:
    """Read files of JSON lines or Excel into memory, as one table."""
    read = _read_json if kind == "json lines" else _read_excel
    tables = [read(path) for path in paths]
    try:
        return TableSource(pa.concat_tables(tables, promote_options="permissive"))
    except pa.ArrowException as error:
        raise DataError(
            f"The files disagree on a column's type: {error} Convert them to one type."
        ) from error


def _read_json(path: Path) -> pa.Table:
    from pyarrow import json

    try:
        return json.read_json(pa.input_stream(str(path), compression="detect"))
    except pa.ArrowInvalid as error:
        raise DataError(
            f"{path} cannot be read: {error}. It must hold one JSON object a line."
        ) from error


def _read_excel(path: Path) -> pa.Table:
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise DataError(
            f"{path}: Excel files need openpyxl. Install it (pip install openpyxl), or save the "
            "sheet as CSV."
        ) from error
    try:
        book = load_workbook(path, read_only=True, data_only=True)
    except Exception as error:  # whatever a damaged archive makes it raise
        raise DataError(f"{path} cannot be read: {error}. Save the sheet again.") from error
    rows = list(book.worksheets[0].iter_rows(values_only=True))
    book.close()
    if not rows:
        raise DataError(f"{path} is empty: no header and no rows. Pass a file with both.")
    names = ["" if name is None else str(name) for name in rows[0]]
    columns = list(zip(*rows[1:], strict=False)) if len(rows) > 1 else [() for _ in names]
    return pa.table([_column(values) for values in columns], names=names)


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
