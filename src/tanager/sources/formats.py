"""Readers for single files: Parquet and Arrow IPC in pieces, JSON lines and Excel as a whole."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyarrow as pa

from tanager.errors import DataError, explaining, one_line, requiring
from tanager.sources.plain import cast_schema, check_columns, plain_schema
from tanager.sources.remote import RemoteFile, local_copy
from tanager.sources.source import BATCH_ROWS, Batches, Source, check_names

_BUFFER_BYTES = 1 << 20  # per column while reading a Parquet file
# Limits for decompressed data, all of which is held in memory: real text compresses to a
# twentieth, a decompression bomb to a thousandth.
MOST_BYTES, MOST_CELLS = 1 << 28, 10_000_000  # of a small file; of a large one, per byte:
MOST_OF_A_BYTE = 100
ADDRESSABLE = 1 << 47  # bytes, by any current process
ROW_COST = 100  # cells that each row counts as, so that empty rows can't bypass the limit
_STRINGS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
_NETWORK = (OSError, TimeoutError, ConnectionError)
_MAGIC = {  # the first bytes of a format, and a suffix that denotes it
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"\xff\xff\xff\xff": ".arrow",
    b"PK\x03\x04": ".xlsx",
    b"\x1f\x8b": ".csv.gz",
    b"{": ".jsonl",
}


class TableFile(ABC):
    """A single file: its schema, number of rows and pieces. Small and picklable."""

    path: Path | RemoteFile
    schema: pa.Schema
    n_rows: int
    named = True  # whether the column names came with the file
    guessed = False  # whether the types are inferred, and `read` returns any types requested

    def pieces(self) -> list[tuple[int, Any]]:
        """Return what can be read independently: the number of rows and the argument for `read`."""
        return [(self.n_rows, None)]

    @abstractmethod
    def read(self, piece: Any, schema: pa.Schema) -> Batches:
        """Iterate over some columns of a piece."""


def open_bytes(path: Path | RemoteFile) -> pa.NativeFile:
    """Open a file's bytes for random access, wherever it is."""
    return path.open() if isinstance(path, RemoteFile) else pa.OSFile(str(path), "rb")


def open_unpacked(path: Path | RemoteFile) -> pa.NativeFile:
    """Open a file's bytes for sequential access, decompressed according to its suffix."""
    codec = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
    ending = path.suffixes[-1].lower() if path.suffixes else ""
    stream = open_bytes(path)
    return pa.CompressedInputStream(stream, codec[ending]) if ending in codec else stream


def _is_absurd(error: MemoryError, path: Path | RemoteFile) -> bool:
    """Return whether more bytes were requested than can exist, due to a corrupt size."""
    # That is, than can be addressed, or decompressed: no codec compresses 2^17 bytes into one.
    asked = re.search(r"size (\d+)", str(error))
    most = path.stat().st_size << 17 if isinstance(path, Path) else ADDRESSABLE
    return asked is not None and int(asked[1]) > min(most, ADDRESSABLE)


@contextmanager
def reading(path: Path | RemoteFile) -> Iterator[None]:
    """Convert Arrow's errors about a file to our own."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError, MemoryError) as error:
        if isinstance(error, MemoryError) and not _is_absurd(error, path):
            raise  # also an ArrowException, but the file is fine
        text = one_line(error)
        what = f"{path} cannot be read: {text}. "
        hint = "The file may be truncated, damaged or of another format; write it again."
        if isinstance(error, UnicodeError) or "invalid UTF8" in text:
            known = isinstance(error, UnicodeDecodeError) or "invalid UTF8" in text
            what = f"{path} is not written in {'utf-8' if known else 'that encoding'} ({text}). "
            hint = "Name its encoding, for example latin-1 or cp1252."
        elif isinstance(path, RemoteFile) and type(error) in _NETWORK:
            hint = "Check the connection and the store's credentials, then try again."
        raise DataError(what + hint) from error


class ParquetTable(TableFile):
    """A Parquet file; string columns are read as dictionaries, so their codes are kept."""

    def __init__(self, path: Path | RemoteFile) -> None:
        import pyarrow.parquet as pq

        self.path = path
        with open_bytes(path) as bytes_of_file, pq.ParquetFile(bytes_of_file) as file:
            stored, metadata = file.schema_arrow, file.metadata
        texts = [field for field in stored if field.type in _STRINGS]
        self._dictionaries = {one.name: pa.dictionary(pa.int32(), one.type) for one in texts}
        self.schema = plain_schema(cast_schema(stored, self._dictionaries))
        self.n_rows = metadata.num_rows
        self._group_rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        if sum(self._group_rows) != self.n_rows or min(self._group_rows, default=0) < 0:
            raise pa.ArrowInvalid("its groups of rows do not add up to its number of rows")

    def pieces(self) -> list[tuple[int, Any]]:
        """Return groups of row groups; small ones are combined."""
        return [(sum(self._group_rows[i] for i in one), one) for one in batched(self._group_rows)]

    def read(self, piece: Any, schema: pa.Schema) -> Batches:
        """Iterate over the rows, page by page."""
        import pyarrow.parquet as pq

        # Pages are read through small buffers, instead of loading row groups in advance; but
        # remote files are read in only as many requests as there are row groups.
        dictionaries, remote = list(self._dictionaries), isinstance(self.path, RemoteFile)
        how = {"read_dictionary": dictionaries, "buffer_size": _BUFFER_BYTES, "pre_buffer": remote}
        # Only the engine starts threads, and a single thread keeps one batch in memory.
        what = {"columns": schema.names, "use_threads": False}
        with open_bytes(self.path) as bytes_of_file, pq.ParquetFile(bytes_of_file, **how) as file:
            if sum(self._group_rows[group] for group in piece) <= 2 * BATCH_ROWS:
                # Reading a few rows at once takes a sixth less time than in batches.
                yield from file.read_row_groups(piece, **what).to_batches(BATCH_ROWS)
            else:
                yield from file.iter_batches(BATCH_ROWS, row_groups=piece, **what)


class IpcTable(TableFile):
    """An Arrow IPC file or stream. It's never memory-mapped: truncation would crash the process."""

    def __init__(self, path: Path | RemoteFile) -> None:
        self.path = path
        with open_bytes(path) as handle:
            self._is_file = handle.read(6) == b"ARROW1"
        with self._open() as reader:
            self._stored = reader.schema.names
            self.schema = plain_schema(reader.schema)
        if self._is_file:
            import pyarrow.dataset as ds

            with open_bytes(path) as handle:
                self.n_rows = int(ds.IpcFileFormat().make_fragment(handle).count_rows())
        else:
            # The number of rows of a stream is only known after reading it.
            first = pa.schema([self.schema.field(0)])
            self.n_rows = sum(batch.num_rows for batch in self.read(None, first))

    def _open(self, columns: Sequence[str] | None = None) -> Any:
        source = open_bytes(self.path)
        places = None if columns is None else sorted(map(self._stored.index, columns))
        options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=places)
        if self._is_file:
            return pa.ipc.open_file(source, options=options)
        return pa.ipc.open_stream(source, options=options)

    def read(self, piece: Any, schema: pa.Schema) -> Batches:  # noqa: ARG002
        """Iterate over the stored batches."""
        with self._open(schema.names) as reader:
            if self._is_file:
                yield from (reader.get_batch(i) for i in range(reader.num_record_batches))
            else:
                yield from reader


def batched(sizes: Sequence[int]) -> list[list[int]]:
    """Return the indices of consecutive groups of rows, joined until they fill a batch."""
    found, n_rows = [list[int]()], 0
    for at, size in enumerate(sizes):
        if n_rows >= BATCH_ROWS:
            found.append([])
            n_rows = 0
        found[-1].append(at)
        n_rows += size
    return [one for one in found if one]


def read_whole(paths: Sequence[Path | RemoteFile], kind: str) -> Source:
    """Read files of JSON lines or Excel into memory as one table."""
    read = _read_json if kind == "json lines" else _read_excel
    tables = []
    for path in paths:
        with reading(path), local_copy(path) as here:
            tables.append(read(here))
    unify_schemas([table.schema for table in tables], "The files")
    return Source.of_table(pa.concat_tables(tables, promote_options="permissive"))


def unify_schemas(schemas: Sequence[pa.Schema], parts: str) -> pa.Schema:
    """Return types that can hold the data of all parts of a table."""
    what = f"{parts} have different types in a column"
    with explaining(what, "Convert it to one type.", pa.ArrowException):
        return pa.unify_schemas(schemas, promote_options="permissive")


def _read_json(path: Path) -> pa.Table:
    from pyarrow import json

    try:
        with reading(path):
            n_bytes, most = 0, _most(MOST_BYTES, path)
            with pa.input_stream(str(path), compression="detect") as stream:
                while n_bytes <= most and (part := stream.read(1 << 20)):
                    n_bytes += len(part)
            _check_unpacked(path, n_bytes)
            table = json.read_json(pa.input_stream(str(path), compression="detect"))
            check_columns(table)  # also that texts are valid UTF-8, which the reader doesn't check
            return table
    except DataError as error:
        raise DataError(f"{error} It must hold one JSON object per line.") from error.__cause__


def _most(least: int, path: Path) -> int:
    return max(least, MOST_OF_A_BYTE * path.stat().st_size)


def _check_unpacked(path: Path, n_bytes: int) -> None:
    if n_bytes > _most(MOST_BYTES, path):
        raise DataError(
            f"{path} unpacks to far more than a file of its size holds. Unpack it, look at it, and "
            "pass the unpacked file or Parquet."
        )


def _read_excel(path: Path) -> pa.Table:
    with requiring(f"{path}, an Excel file,", "openpyxl"):
        from openpyxl import load_workbook
    # Corrupt archives raise all kinds of errors.
    with explaining(f"{path} cannot be read", "Save the sheet again.", Exception):
        with ZipFile(path) as parts:  # which never reads more of a part than declared here
            _check_unpacked(path, sum(part.file_size for part in parts.infolist()))
        with closing(load_workbook(path, read_only=True, data_only=True)) as book:
            rows = _cells(path, book.worksheets)
    if not rows:
        raise DataError(f"{path} is empty: no header and no rows. Pass a file with both.")
    names = ["" if name is None else str(name) for name in rows[0]]
    check_names(names)
    wide = next((row for row in rows if len(row) > len(names)), None)
    if wide is not None:
        shown = ", ".join(str(cell)[:20] for cell in wide[:4])
        raise DataError(
            f"{path}: a row has more cells than the header ({shown}). Name every column."
        )
    columns = list(zip_longest(*rows))
    return pa.table([_column(values[1:]) for values in columns], names=names)


def _cells(path: Path, sheets: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the non-empty rows of the first sheet, without trailing empty cells."""
    if not sheets:
        raise DataError(f"{path} has no sheet of cells. Pass a file with one.")
    sheets[0].reset_dimensions()  # the size declared in a file may be wrong, which would lose rows
    rows: list[tuple[Any, ...]] = []
    left = _most(MOST_CELLS, path)
    for row in sheets[0].iter_rows(values_only=True):
        left -= len(row) + ROW_COST
        if left < 0:
            raise DataError(
                f"{path} has far more cells than a file of its size can fill. Delete empty rows "
                "and columns, or save the sheet as CSV."
            )
        filled = [at for at, cell in enumerate(row) if cell is not None]
        if filled:
            rows.append(row[: filled[-1] + 1])
    return rows


def _column(values: Sequence[Any]) -> pa.Array:
    try:
        return pa.array(list(values))
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        # Numbers mixed with texts: as text, for the audit to judge.
        return pa.array([None if value is None else str(value) for value in values])


def save_stdin() -> Path:
    """Copy standard input to a temporary file, deleted at exit; its suffix reflects the format."""
    stream = sys.stdin.buffer
    start = stream.read(6)
    endings = (end for magic, end in _MAGIC.items() if start.lstrip().startswith(magic))
    handle, name = tempfile.mkstemp(prefix="tanager-", suffix=next(endings, ".csv"))
    atexit.register(Path(name).unlink, missing_ok=True)
    with os.fdopen(handle, "wb") as file:
        file.write(start)
        shutil.copyfileobj(stream, file)
    return Path(name)
