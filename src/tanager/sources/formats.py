"""How Parquet and Arrow IPC files are read; `text` has CSV."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from tanager.errors import DataError
from tanager.sources.plain import plain_schema
from tanager.sources.remote import RemoteFile
from tanager.sources.source import BATCH_ROWS

_BUFFER_BYTES = 1 << 20  # a column, while a Parquet file is read


class TableFile(ABC):
    """One file: its schema, its number of rows, its parts. Small and picklable."""

    path: Path | RemoteFile
    schema: pa.Schema
    n_rows: int
    named = True  # whether the names of the columns came with the file

    def parts(self) -> list[tuple[int, Any]]:
        """Return what may be read on its own: the number of rows, and what `read` is told."""
        return [(self.n_rows, None)]

    @abstractmethod
    def read(self, part: Any, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows of a part."""

    def as_text(self, columns: Collection[str]) -> TableFile:  # noqa: ARG002
        """Return the file with some columns as text, where its types are guesses."""
        return self


def open_bytes(path: Path | RemoteFile) -> pa.NativeFile:
    """Open a file's bytes, wherever it is, to be read at any place."""
    return path.open() if isinstance(path, RemoteFile) else pa.OSFile(str(path), "rb")


def open_unpacked(path: Path | RemoteFile) -> pa.NativeFile:
    """Open a file's bytes to be read once, unpacked by its ending."""
    codec = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
    ending = path.suffixes[-1].lower() if path.suffixes else ""
    stream = open_bytes(path)
    return pa.CompressedInputStream(stream, codec[ending]) if ending in codec else stream


@contextmanager
def reading(path: Path | RemoteFile) -> Iterator[None]:
    """Turn Arrow's errors about a file into ours."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError) as error:
        text = " ".join(str(error).split()).rstrip(".")
        if isinstance(error, UnicodeError) or "invalid UTF8" in text:
            known = isinstance(error, UnicodeDecodeError) or "invalid UTF8" in text
            encoding = "utf-8" if known else "that encoding"
            raise DataError(
                f"{path} is not written in {encoding} ({text}). "
                "Name its encoding, for example latin-1 or cp1252."
            ) from error
        if isinstance(path, RemoteFile) and type(error) in (OSError, TimeoutError, ConnectionError):
            raise DataError(
                f"{path} cannot be read: {text}. Check the connection and the store's credentials, "
                "then try again."
            ) from error
        raise DataError(
            f"{path} cannot be read: {text}. "
            "The file may be truncated, damaged or of another format; write it again."
        ) from error


class ParquetTable(TableFile):
    """A Parquet file; string columns come as dictionaries, so their codes are kept."""

    def __init__(self, path: Path | RemoteFile) -> None:
        import pyarrow.parquet as pq

        self.path = path
        with open_bytes(path) as bytes_of_file:
            plain = pq.read_schema(bytes_of_file)
        strings = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
        self._dictionaries = [field.name for field in plain if field.type in strings]
        with (
            open_bytes(path) as bytes_of_file,
            pq.ParquetFile(bytes_of_file, read_dictionary=self._dictionaries) as file,
        ):
            self.schema = plain_schema(file.schema_arrow)
            self.n_rows = file.metadata.num_rows
            groups = range(file.metadata.num_row_groups)
            self._group_rows = [file.metadata.row_group(i).num_rows for i in groups]
        if sum(self._group_rows) != self.n_rows or min(self._group_rows, default=0) < 0:
            raise pa.ArrowInvalid("its groups of rows do not add up to its number of rows")

    def parts(self) -> list[tuple[int, Any]]:
        """Return groups of rows; small ones together."""
        found: list[tuple[int, Any]] = []
        chosen: list[int] = []
        n_rows = 0
        for i, rows in enumerate(self._group_rows):
            chosen.append(i)
            n_rows += rows
            if n_rows >= BATCH_ROWS or i == len(self._group_rows) - 1:
                found.append((n_rows, chosen))
                chosen, n_rows = [], 0
        return found

    def read(self, part: Any, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows, page by page."""
        import pyarrow.parquet as pq

        # Pages are read through small buffers, not whole row groups ahead of time; but from a
        # store in as few requests as there are row groups.
        with (
            open_bytes(self.path) as bytes_of_file,
            pq.ParquetFile(
                bytes_of_file,
                read_dictionary=self._dictionaries,
                pre_buffer=isinstance(self.path, RemoteFile),
                buffer_size=_BUFFER_BYTES,
            ) as file,
        ):
            # Threads come from the engine alone; and one thread keeps one batch in memory.
            if sum(self._group_rows[group] for group in part) <= 2 * batch_rows:
                # All of a few rows at once costs a sixth less than in batches.
                table = file.read_row_groups(part, columns=list(columns), use_threads=False)
                yield from table.to_batches(batch_rows)
                return
            yield from file.iter_batches(
                batch_rows, row_groups=part, columns=list(columns), use_threads=False
            )


class IpcTable(TableFile):
    """An Arrow IPC file (also Feather) or stream.

    Its bytes are not mapped into memory: a file that another program cuts short
    while it is mapped ends the process.
    """

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
                whole = ds.IpcFileFormat().make_fragment(handle)
                self.n_rows = int(whole.count_rows())
        else:
            # Only reading tells how many rows a stream has.
            self.n_rows = sum(batch.num_rows for batch in self.read(None, self._stored[:1], 0))

    def _open(self, columns: Sequence[str] | None = None) -> Any:
        source = open_bytes(self.path)
        places = None if columns is None else sorted(map(self._stored.index, columns))
        options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=places)
        if self._is_file:
            return pa.ipc.open_file(source, options=options)
        return pa.ipc.open_stream(source, options=options)

    def read(self, part: Any, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Iterate over the stored batches."""
        with self._open(columns) as reader:
            if self._is_file:
                stored = (reader.get_batch(i) for i in range(reader.num_record_batches))
            else:
                stored = iter(reader)
            for batch in stored:
                yield batch.select(list(columns))
