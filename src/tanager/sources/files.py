"""Files on disk, streamed in batches and never read whole."""

from __future__ import annotations

import glob
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tanager.errors import DataError
from tanager.sources.source import BATCH_ROWS, Source, cast_batch, check_names, plain_schema

__all__ = ["FileSource", "open_files"]

# Suffix (after .gz, .bz2, .zst are taken off, which only CSV may have) to format.
FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "ipc",
    ".arrows": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
}
_BUFFER_BYTES = 1 << 20  # a column, while a Parquet file is read
_PACKED = (".gz", ".bz2", ".zst", ".lz4")


class TableFile(ABC):
    """One file: its schema, its number of rows if it says so, its batches."""

    path: Path
    schema: pa.Schema
    n_rows: int | None

    @abstractmethod
    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Iterate over the file's rows."""

    def as_text(self, columns: Collection[str]) -> TableFile:  # noqa: ARG002
        """Return the file with some columns as text, where its types are guesses."""
        return self


class FileSource(Source):
    """Files of one format with the same columns, one after the other."""

    def __init__(self, files: Sequence[TableFile]) -> None:
        first = files[0]
        for file in files:
            check_names(file.schema.names)
            if set(file.schema.names) != set(first.schema.names):
                odd = sorted(set(file.schema.names) ^ set(first.schema.names))
                raise DataError(
                    f"{file.path} and {first.path} differ in the column(s) "
                    f"{', '.join(map(repr, odd))}. Files of one table need the same columns."
                )
        if len(files) > 1:
            files = [file.as_text(_disputed_columns(files)) for file in files]
        self._files = files
        schema = files[0].schema if len(files) == 1 else _common_schema(files)
        rows = [file.n_rows for file in files]
        total = None if None in rows else sum(n for n in rows if n is not None)
        if total == 0:
            raise DataError(
                f"{first.path} has a header but no rows (0 sample(s)). "
                "Pass a file with at least one row."
            )
        super().__init__(schema, total)

    def batches(
        self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows of all files."""
        names = list(self.names if columns is None else columns)
        schema = pa.schema([self.schema.field(name) for name in names])
        for file in self._files:
            with reading(file.path):
                for batch in file.batches(names, batch_rows):
                    for start in range(0, batch.num_rows, batch_rows):
                        yield cast_batch(batch.slice(start, batch_rows), schema)

    def as_text(self, columns: Collection[str]) -> Source:
        """Return the files with some columns as the text they were written in."""
        return FileSource([file.as_text(columns) for file in self._files])


class reading:  # noqa: N801
    """Turns Arrow's errors about a file into ours."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, pa.ArrowException | OSError | UnicodeDecodeError):
            if isinstance(error, DataError):
                return
            text = " ".join(str(error).split()).rstrip(".")
            if isinstance(error, UnicodeDecodeError) or "invalid UTF8" in text:
                raise DataError(
                    f"{self._path} is not text in UTF-8 ({text}). Save it in that encoding."
                ) from error
            raise DataError(
                f"{self._path} cannot be read: {text}. "
                "The file may be truncated, damaged or of another format; write it again."
            ) from error


def open_files(paths: Sequence[str | Path]) -> FileSource:
    """Open paths, globs or folders as one table."""
    found = [file for path in paths for file in _expand(str(path))]
    kinds = {_format(path) for path in found}
    if len(kinds) > 1:
        raise DataError(
            f"The files are of several formats ({', '.join(sorted(map(str, kinds)))}). "
            "Pass files of one format, for example with a glob like 'folder/*.parquet'."
        )
    opener = _OPENERS[kinds.pop()]
    files = []
    for path in found:
        with reading(path):
            files.append(opener(path))
    return FileSource(files)


def _expand(path: str) -> list[Path]:
    place = Path(path)
    if place.is_dir():
        found = [p for p in sorted(place.rglob("*")) if p.is_file() and _suffix(p) in FORMATS]
        if not found:
            raise DataError(
                f"No Parquet, Arrow or CSV file in the folder {path}. "
                f"Known endings: {', '.join(FORMATS)}."
            )
        split = next((p for p in found if "=" in str(p.parent.relative_to(place))), None)
        if split is not None:
            raise DataError(
                f"{split} lies in a partitioned folder, whose columns are in the folders' names. "
                "Pass pyarrow.dataset.dataset(folder, partitioning='hive') instead of the path."
            )
        return found
    if place.is_file():
        return [place]
    if any(mark in path for mark in "*?["):
        matched = [Path(p) for p in sorted(glob.glob(path, recursive=True))]  # noqa: PTH207 - takes absolute patterns
        matched = [p for p in matched if p.is_file()]
        if matched:
            return matched
        raise DataError(f"No file matches {path}. Check the folder and the pattern.")
    raise DataError(f"No such file or folder: {path}. Check the path.")


def _suffix(path: Path) -> str:
    ends = [end.lower() for end in path.suffixes]
    while ends and ends[-1] in _PACKED:
        ends.pop()
    return ends[-1] if ends else ""


def _format(path: Path) -> str:
    suffix = _suffix(path)
    if suffix not in FORMATS:
        raise DataError(
            f"{path} has an unknown ending {suffix!r}. Known endings: {', '.join(FORMATS)}."
        )
    return FORMATS[suffix]


def _disputed_columns(files: Sequence[TableFile]) -> list[str]:
    """Return the columns for whose types in the files only text is wide enough."""
    numbers = {pa.int64(), pa.float64()}
    kinds = {
        name: {file.schema.field(name).type for file in files} - {pa.null()}
        for name in files[0].schema.names
    }
    return [name for name, found in kinds.items() if len(found) > 1 and found != numbers]


def _common_schema(files: Sequence[TableFile]) -> pa.Schema:
    names = files[0].schema.names
    schemas = [pa.schema([file.schema.field(name) for name in names]) for file in files]
    if all(schema.equals(schemas[0]) for schema in schemas):
        return schemas[0]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(
            f"The files disagree on a column's type: {error} Convert them to one type."
        ) from error


class ParquetTable(TableFile):
    """A Parquet file; string columns come as dictionaries, so their codes are kept."""

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq

        self.path = path
        plain = pq.read_schema(path)
        strings = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
        self._dictionaries = [field.name for field in plain if field.type in strings]
        with pq.ParquetFile(path, read_dictionary=self._dictionaries) as file:
            self._raw = file.schema_arrow
            self.n_rows = file.metadata.num_rows
        self.schema = plain_schema(self._raw)

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows, page by page."""
        import pyarrow.parquet as pq

        # Pages are read through small buffers, not whole row groups ahead of time.
        with pq.ParquetFile(
            self.path,
            read_dictionary=self._dictionaries,
            pre_buffer=False,
            buffer_size=_BUFFER_BYTES,
        ) as file:
            # Threads come from the engine alone; and one thread keeps one batch in memory.
            yield from file.iter_batches(batch_rows, columns=list(columns), use_threads=False)


class IpcTable(TableFile):
    """An Arrow IPC file (also Feather) or stream."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as handle:
            self._is_file = handle.read(6) == b"ARROW1"
        with self._reader() as reader:
            self.schema = plain_schema(reader.schema)
        self.n_rows = None

    def _reader(self, columns: Sequence[str] | None = None) -> Any:
        # Read, not mapped into memory: a file that another program cuts short
        # while it is mapped ends the process.
        source = pa.OSFile(str(self.path))
        options = pa.ipc.IpcReadOptions(use_threads=False)
        if columns is not None:
            names = self.schema.names
            options.included_fields = sorted(names.index(name) for name in columns)
        if self._is_file:
            return pa.ipc.open_file(source, options=options)
        return pa.ipc.open_stream(source, options=options)

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Iterate over the stored batches; of other columns only headers are read."""
        with self._reader(columns) as reader:
            if self._is_file:
                stored = (reader.get_batch(i) for i in range(reader.num_record_batches))
            else:
                stored = iter(reader)
            for batch in stored:
                yield batch.select(list(columns))


def _open_csv(path: Path) -> TableFile:
    from tanager.sources.text import CsvTable

    return CsvTable(path)


_OPENERS: dict[str, Callable[[Path], TableFile]] = {
    "parquet": ParquetTable,
    "ipc": IpcTable,
    "csv": _open_csv,
}
