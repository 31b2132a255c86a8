"""Tables written a batch at a time, whole or not at all."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa

from tanager.atomic import replacing
from tanager.errors import ConfigurationError
from tanager.escaping import inert, visible

__all__ = ["check_ending", "ending", "open_output"]

Write = Callable[[pa.RecordBatch], None]


def ending(output: Path | str) -> str:
    """Return the ending of a path or URL; none where it is a folder."""
    name = str(output).partition("?")[0] if isinstance(output, str) else str(output)
    return PurePath(name).suffix.lower()


def check_ending(output: Path | str | None) -> None:
    """Refuse a file whose ending says no format."""
    if output is not None and ending(output) not in _WRITERS:
        raise ConfigurationError(
            f"--output {output}: the ending {ending(output)!r} is not known. "
            f"Allowed: {', '.join(_WRITERS)}."
        )


@contextmanager
def open_output(path: Path | str | None) -> Iterator[Write]:
    """Give a function that writes batches by the output's ending, or CSV to standard output.

    What goes to a URL is written here first and sent when it is whole.
    """
    check_ending(path)
    if isinstance(path, str):
        from tanager.sources.remote import upload

        # Without a name, so that nothing is left of it whatever happens.
        with tempfile.TemporaryFile(prefix="tanager-") as nameless:
            with _TableWriter(nameless, _WRITERS[ending(path)]) as table:
                yield table.write
            upload(nameless, path)
        return
    if path is None:
        sys.stdout.flush()
        with _TableWriter(sys.stdout.buffer, _csv) as table:
            yield table.write
        return
    make = _WRITERS[path.suffix.lower()]
    with replacing(path) as part, part.open("wb") as file, _TableWriter(file, make) as table:
        yield table.write


class _TableWriter:
    """Opens its writer with the first batch, whose columns it takes."""

    def __init__(self, file: Any, make: Callable[[Any, pa.Schema], Any]) -> None:
        self._file = file
        self._make = make
        self._writer: Any = None
        self._terminal = file.isatty()

    def write(self, batch: pa.RecordBatch) -> None:
        if self._make is not _parquet:
            batch = _decoded(batch)
        if self._make is _csv:
            batch = _shown(inert(batch)) if self._terminal else inert(batch)
        if self._writer is None:
            self._writer = self._make(self._file, batch.schema)
        self._writer.write_batch(batch)

    def __enter__(self) -> _TableWriter:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        # After a failure the file is thrown away: closing it would only write more.
        if self._writer is not None and kind is None:
            self._writer.close()


def _csv(file: Any, schema: pa.Schema) -> Any:
    import pyarrow.csv as pacsv

    return pacsv.CSVWriter(file, schema, write_options=pacsv.WriteOptions(quoting_style="needed"))


def _parquet(file: Any, schema: pa.Schema) -> Any:
    import pyarrow.parquet as pq

    # Probabilities are all different: a dictionary of them only costs time.
    codes = [field.name for field in schema if not pa.types.is_floating(field.type)]
    writer = pq.ParquetWriter(file, schema, use_dictionary=codes, compression="lz4")
    return _RowGroups(writer)


class _RowGroups:
    """Collects batches into row groups of a size that readers like."""

    max_rows = 1 << 19
    max_bytes = 1 << 26

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._batches: list[pa.RecordBatch] = []

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        rows = sum(b.num_rows for b in self._batches)
        if rows >= self.max_rows or sum(b.nbytes for b in self._batches) >= self.max_bytes:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._batches:
            self._writer.write_table(pa.Table.from_batches(self._batches))
        self._batches = []


def _arrow(file: Any, schema: pa.Schema) -> Any:
    return pa.ipc.new_file(file, schema)


_WRITERS = {
    ".parquet": _parquet,
    ".pq": _parquet,
    ".arrow": _arrow,
    ".feather": _arrow,
    ".ipc": _arrow,
    ".csv": _csv,
}


def _decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch without dictionaries.

    Text has no use for them, and an Arrow file allows only one for all batches.
    """
    arrays = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names)


def _shown(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch for a person's eyes: no character in it steers the terminal."""
    arrays = [
        pa.array([None if v is None else visible(v) for v in column.to_pylist()])
        if pa.types.is_string(column.type)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, [visible(name) for name in batch.schema.names])
