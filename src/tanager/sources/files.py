"""Files, on disk or behind a URL, streamed in batches and never read whole."""

from __future__ import annotations

import glob
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from tanager.engines.keeping import default_memory_limit
from tanager.errors import DataError, listed
from tanager.sources.formats import IpcTable, ParquetTable, TableFile, reading
from tanager.sources.plain import cast_batch
from tanager.sources.remote import ByteBudget, RemoteFile, find_remote, is_url, local_path
from tanager.sources.source import BATCH_ROWS, Batches, Fragment, Source, check_names
from tanager.sources.styled import apply_style

if TYPE_CHECKING:
    from tanager.sources.text import TextStyle

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
    ".jsonl": "json lines",
    ".ndjson": "json lines",
    ".xlsx": "excel",
}
_PACKED = (".gz", ".bz2", ".zst", ".lz4")


class Stamp(NamedTuple):
    """What tells whether a file is still the one that was opened."""

    n_bytes: int
    modified: int | str  # in nanoseconds; of an object its ETag

    @classmethod
    def of(cls, path: Path | RemoteFile) -> Stamp:
        """Return the stamp of a file as it is now."""
        if isinstance(path, RemoteFile):
            return cls(*path.version())
        status = path.stat()
        return cls(status.st_size, status.st_mtime_ns)


class OpenedFile(NamedTuple):
    """A file with its stamp, and the columns that its folders' names give."""

    file: TableFile
    stamp: Stamp
    folders: dict[str, Any]  # column name to value, the same in every row

    def schema(self, kinds: pa.Schema | None) -> pa.Schema:
        """Return all columns."""
        return self.file.schema if kinds is None else pa.schema([*self.file.schema, *kinds])


class FileSource(Source):
    """Files of one format with the same columns, one after the other."""

    def __init__(self, files: Sequence[OpenedFile], folders: pa.Schema | None = None) -> None:
        first = files[0].file
        for opened in files:
            file = opened.file
            check_names(opened.schema(folders).names)
            if set(file.schema.names) != set(first.schema.names):
                odd = sorted(set(file.schema.names) ^ set(first.schema.names))
                raise DataError(
                    f"{file.path} and {first.path} differ in the column(s) "
                    f"{listed(odd)}. Files of one table need the same columns."
                )
        if len(files) > 1:
            disputed = _disputed_columns([opened.file for opened in files])
            files = [one._replace(file=one.file.as_text(disputed)) for one in files]
        self._files = files
        self._folders = folders
        self.named = all(opened.file.named for opened in files)
        schema = _common_schema([opened.schema(folders) for opened in files])
        n_rows = sum(opened.file.n_rows for opened in files)
        if n_rows == 0:
            raise DataError(
                f"{first.path} has a header but no rows (0 sample(s)). "
                "Pass a file with at least one row."
            )
        super().__init__(schema, n_rows)

    def fragments(self) -> list[Fragment]:
        """Return the files' parts: groups of rows of Parquet, else whole files."""
        found: list[Fragment] = []
        start = 0
        for opened in self._files:
            for n_rows, part in opened.file.parts():
                if n_rows:
                    found.append(FileFragment(opened, part, self.schema, start, n_rows))
                start += n_rows
        return found

    @property
    def bytes_read(self) -> int:
        """Bytes fetched from stores by this process."""
        return sum(file.n_read for file in self._remote())

    def keep(self, limit: int) -> None:
        """Keep up to so many bytes of what is fetched from stores, for the next read."""
        budget = ByteBudget(limit)
        for file in self._remote():
            file.keep(budget)

    def _remote(self) -> list[RemoteFile]:
        paths = (opened.file.path for opened in self._files)
        return [path for path in paths if isinstance(path, RemoteFile)]

    def as_text(self, columns: Collection[str]) -> Source:
        """Return the files with some columns as the text they were written in."""
        files = [one._replace(file=one.file.as_text(columns)) for one in self._files]
        return FileSource(files, self._folders)


@dataclass(frozen=True, eq=False)
class FileFragment(Fragment):
    """A part of a file; refuses to read a file that is no longer the one that was opened."""

    opened: OpenedFile
    part: Any
    schema: pa.Schema
    start: int
    n_rows: int

    def batches(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Batches:
        """Iterate over the rows, decoded here."""
        file, _, folders = self.opened
        schema = pa.schema([self.schema.field(name) for name in columns])
        stored = [name for name in columns if name not in folders]
        n_rows = 0
        self._check()
        with reading(file.path):
            # A file without any of the columns still tells how many rows there are.
            for batch in file.read(self.part, stored or file.schema.names[:1], batch_rows):
                n_rows += batch.num_rows
                for start in range(0, batch.num_rows, batch_rows):
                    part = batch.slice(start, batch_rows)
                    yield cast_batch(_with_folders(part, folders, self.schema), schema)
        self._check()
        if n_rows != self.n_rows:
            raise _changed(file.path)

    def _check(self) -> None:
        path, stamp = self.opened.file.path, self.opened.stamp
        try:
            now = Stamp.of(path)
        except OSError as error:
            raise DataError(
                f"{path} is gone since it was opened ({error.strerror or error}). "
                "Keep the files of a table in place until the work is done."
            ) from error
        if now != stamp:
            raise _changed(path)


def _changed(path: Path | RemoteFile) -> DataError:
    return DataError(
        f"{path} has changed since it was opened. Rows of before and after would be mixed: "
        "leave the files of a table alone until the work is done, then try again."
    )


def _with_folders(
    batch: pa.RecordBatch, folders: dict[str, Any], schema: pa.Schema
) -> pa.RecordBatch:
    """Return the batch with the columns that the folders' names give."""
    if not folders:
        return batch
    arrays, names = list(batch.columns), list(batch.schema.names)
    for name, value in folders.items():
        arrays.append(pa.repeat(pa.scalar(value, schema.field(name).type), batch.num_rows))
        names.append(name)
    return pa.RecordBatch.from_arrays(arrays, names)


def open_files(paths: Sequence[str | Path], style: TextStyle | None = None) -> Source:
    """Open paths, globs or folders as one table; ``-`` is standard input."""
    if [str(path) for path in paths] == ["-"]:
        from tanager.sources.formats import save_stdin

        paths = [save_stdin()]
    if any(str(path) == "" for path in paths):
        raise DataError("The path is empty. Give a file, a glob or a folder; '.' is this folder.")
    found = [file for path in paths for file in _expand(path)]
    kinds = {_format(path) for path, _ in found}
    if len(kinds) > 1:
        raise DataError(
            f"The files are of several formats ({', '.join(sorted(map(str, kinds)))}). "
            "Pass files of one format, for example with a glob like 'folder/*.parquet'."
        )
    kind = kinds.pop()
    if kind in ("json lines", "excel"):
        from tanager.sources.formats import read_whole

        return apply_style(read_whole([path for path, _ in found], kind), style)
    opener = partial(_open_csv, style=style) if kind == "csv" else _OPENERS[kind]
    values, schema = read_folders(found)
    files = []
    # A CSV is read once more than other files, to settle its types.
    budget = ByteBudget(default_memory_limit()) if kind == "csv" else ByteBudget(0)
    for (path, _), folders in zip(found, values, strict=True):
        with reading(path):
            if isinstance(path, RemoteFile) and budget.limit:
                path.keep(budget)
            stamp = Stamp.of(path)
            files.append(OpenedFile(opener(path), stamp, folders))
    source = FileSource(files, schema)
    return source if kind == "csv" else apply_style(source, style)


Found = tuple[Path | RemoteFile, tuple[str, ...]]  # a file, and the folders it was found in


def _expand(given: str | Path) -> Sequence[Found]:
    """Return the files of a path, URL, glob or folder, each with the names of its folders."""
    path = str(given)
    if isinstance(given, str) and is_url(given):
        place = local_path(given)
        if place is None:
            return _checked(find_remote(given, is_table_file), given)
        path = str(place)
    place = Path(path)
    if place.is_dir():
        try:
            found = [p for p in sorted(place.rglob("*")) if p.is_file() and is_table_file(p)]
        except OSError as error:
            raise DataError(
                f"The folder {path} cannot be read ({error.strerror}). Name the folder of one "
                "table, and check its permissions."
            ) from error
        return _checked([(file, file.relative_to(place).parent.parts) for file in found], path)
    if place.is_file():
        return [(place, ())]
    if any(mark in path for mark in "*?["):
        matched = [Path(p) for p in sorted(glob.glob(path, recursive=True))]  # noqa: PTH207 - takes absolute patterns
        matched = [p for p in matched if p.is_file()]
        if matched:
            return [(file, ()) for file in matched]
        raise DataError(f"No file matches {path}. Check the folder and the pattern.")
    raise DataError(f"No such file or folder: {path}. Check the path.")


def _checked(found: Sequence[Found], folder: str) -> Sequence[Found]:
    """Refuse a folder without a file that can be read."""
    if not found:
        raise DataError(
            f"No Parquet, Arrow or CSV file in the folder {folder}. "
            f"Known endings: {', '.join(FORMATS)}."
        )
    return found


def read_folders(
    files: Sequence[Found],
) -> tuple[list[dict[str, Any]], pa.Schema | None]:
    """Return the columns that the names of partition folders (``year=2020``) give each file."""
    parts = [tuple(folder for folder in folders if "=" in folder) for _, folders in files]
    names = [part.partition("=")[0] for part in parts[0]]
    odd = next((i for i, one in enumerate(parts) if [p.partition("=")[0] for p in one] != names), 0)
    if odd:
        raise DataError(
            f"{files[odd][0]} and {files[0][0]} lie in folders that name other columns. "
            "Partitioned folders need the same columns, in the same order."
        )
    if not names:
        return [{} for _ in files], None
    import pyarrow.dataset as ds

    texts = ds.HivePartitioning(pa.schema([(name, pa.string()) for name in names]))
    values = [
        {**dict.fromkeys(names), **ds.get_partition_keys(texts.parse("/".join([*one, "file"])))}
        for one in parts
    ]
    kinds = []
    for name in names:
        found = pa.array([row[name] for row in values], pa.string())
        try:
            numbers = found.cast(pa.int64())
        except pa.ArrowInvalid:
            kinds.append((name, pa.string()))
            continue
        kinds.append((name, pa.int64()))
        for row, number in zip(values, numbers.to_pylist(), strict=True):
            row[name] = number
    return values, pa.schema(kinds)


def is_table_file(path: Path | PurePosixPath) -> bool:
    """Return whether a file in a folder is taken for a part of the table, by its ending."""
    return _suffix(path) in FORMATS


def _suffix(path: Path | PurePosixPath | RemoteFile) -> str:
    ends = [end.lower() for end in path.suffixes]
    while ends and ends[-1] in _PACKED:
        ends.pop()
    return ends[-1] if ends else ""


def _format(path: Path | RemoteFile) -> str:
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


def _common_schema(schemas: Sequence[pa.Schema]) -> pa.Schema:
    names = schemas[0].names
    schemas = [pa.schema([schema.field(name) for name in names]) for schema in schemas]
    if all(schema.equals(schemas[0]) for schema in schemas):
        return schemas[0]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(
            f"The files disagree on a column's type: {error} Convert them to one type."
        ) from error


def _open_csv(path: Path | RemoteFile, style: TextStyle | None = None) -> TableFile:
    from tanager.sources.text import CsvTable

    return CsvTable(path, style)


_OPENERS: dict[str, Callable[[Path | RemoteFile], TableFile]] = {
    "parquet": ParquetTable,
    "ipc": IpcTable,
}
