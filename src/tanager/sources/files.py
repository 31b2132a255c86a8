"""Files, local or remote, streamed in batches and never loaded as a whole."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn
from urllib.parse import unquote

import pyarrow as pa

from tanager.errors import DataError, explaining, listed
from tanager.escaping import cut
from tanager.sources import formats
from tanager.sources.remote import RemoteFile, Stamp, find_remote, is_url, local_path
from tanager.sources.source import BATCH_ROWS, Batches, Source, StoredPart, blank_table, check_names
from tanager.sources.text import CsvTable, TextStyle, apply_style, widest_type

# By format; after removing .gz, .bz2, .zst, which are only allowed for CSV.
_SUFFIXES = {
    "parquet": (".parquet", ".pq"),
    "ipc": (".arrow", ".arrows", ".feather", ".ipc"),
    "csv": (".csv", ".tsv", ".txt"),
    "json lines": (".jsonl", ".ndjson"),
    "excel": (".xlsx",),
}
FORMATS = {suffix: kind for kind, suffixes in _SUFFIXES.items() for suffix in suffixes}
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"  # the value of a partition folder that means null
_PACKED = (".gz", ".bz2", ".zst", ".lz4")


Found = tuple[Path | RemoteFile, tuple[str, ...]]  # a file, and the folders it was found in


@dataclass(frozen=True, eq=False)
class FilePart(StoredPart):
    """A piece of a file; raises if the file has changed since it was opened."""

    file: formats.TableFile
    stamp: Stamp
    folders: dict[str, Any]  # the columns derived from folder names, constant in every row
    piece: Any
    n_rows: int

    @property
    def name(self) -> str:  # type: ignore[override]
        """Its path, for messages."""
        return str(self.file.path)

    def read(self, schema: pa.Schema) -> Batches:
        """Iterate over the rows, which are decoded here."""
        self.stamp.check()
        yield from super().read(schema)
        self.stamp.check()

    def stream(self, schema: pa.Schema) -> Batches:
        """Iterate over the stored rows, with the columns derived from folder names."""
        stored = [field for field in schema if field.name not in self.folders]
        read = iter(blank_table(self.n_rows).to_batches(BATCH_ROWS))
        if stored:
            read = self.file.read(self.piece, pa.schema(stored))
        for batch in read:
            given = dict(zip(batch.schema.names, batch.columns, strict=True))
            values = self.folders.items()
            given |= {name: pa.repeat(pa.scalar(value), batch.num_rows) for name, value in values}
            yield pa.RecordBatch.from_pydict(given) if self.folders else batch

    def explained(self) -> AbstractContextManager[None]:
        """Convert errors while reading to our own."""
        return formats.reading(self.file.path)


def _open_all(paths: Sequence[Found], kind: str, style: TextStyle | None) -> Source:
    """Open files of one format with the same columns, concatenated."""
    values, folders = read_folders(paths)
    csv: Any = partial(CsvTable, style=style)
    opener = {"csv": csv, "parquet": formats.ParquetTable, "ipc": formats.IpcTable}[kind]
    files, parts = list[formats.TableFile](), list[FilePart]()
    for (path, _), given in zip(paths, values, strict=True):
        with formats.reading(path):
            stamp = Stamp.of(path)
            files.append(file := opener(path))
        check_names([*file.schema.names, *folders.names])
        odd = sorted(set(file.schema.names) ^ set(files[0].schema.names))
        if odd:
            raise DataError(
                f"{path} and {files[0].path} differ in the column(s) {listed(odd)}. Files of one "
                "table need the same columns."
            )
        parts += [FilePart(file, stamp, given, piece, n) for n, piece in file.pieces()]
    if not any(part.n_rows for part in parts):
        raise DataError(f"{files[0].path} has a header but no rows. Pass a file with some rows.")
    schema, named = _common_schema(files), all(file.named for file in files)
    guessed = schema.names if files[0].guessed else ()
    return Source(pa.schema([*schema, *folders]), parts, named=named, guessed=guessed)


def open_files(paths: Sequence[str | Path], style: TextStyle | None = None) -> Source:
    """Open paths, globs or folders as one table; ``-`` is standard input."""
    if [str(path) for path in paths] == ["-"]:
        paths = [formats.save_stdin()]
    if any(str(path) == "" for path in paths):
        raise DataError("The path is empty. Give a file, a glob or a folder; '.' is this folder.")
    found = [file for path in paths for file in find_files(path)]
    kinds = {_format(path) for path, _ in found}
    if len(kinds) > 1:
        raise DataError(
            f"The files are of several formats ({', '.join(sorted(map(str, kinds)))}). "
            "Pass files of one format, for example with a glob like 'folder/*.parquet'."
        )
    kind = kinds.pop()
    if kind in ("json lines", "excel"):
        source = formats.read_whole([path for path, _ in found], kind)
    else:
        source = _open_all(found, kind, style)
    return source if style is None or kind == "csv" else apply_style(source, style)


def find_files(given: str | Path) -> Sequence[Found]:
    """Return the files of a path, URL, glob or folder, each with the names of its folders."""
    path = str(given)
    if isinstance(given, str) and is_url(given):
        place = local_path(given)
        if place is None:
            return find_remote(given, is_table_file) or _refuse_folder(given)
        path = str(place)
    place = Path(path)
    if os.path.isdir(place):  # noqa: PTH112 (Path.is_dir raises if the name is too long)
        hint = "Name the folder of one table, and check its permissions."
        with explaining(f"The folder {path} cannot be read", hint, OSError):
            found = [p for p in sorted(place.rglob("*")) if p.is_file() and is_table_file(p)]
        files = [(file, file.relative_to(place).parent.parts) for file in found]
        return files or _refuse_folder(path)
    if os.path.isfile(place):  # noqa: PTH113
        return [(place, ())]
    if any(mark in path for mark in "*?["):
        matched = map(Path, sorted(glob.glob(path, recursive=True)))  # noqa: PTH207 - takes absolute patterns
        if files := [(file, ()) for file in matched if file.is_file()]:
            return files
        raise DataError(f"No file matches {path}. Check the folder and the pattern.")
    raise DataError(f"No such file or folder: {cut(path, 300)}. Check the path.")


def _refuse_folder(folder: str) -> NoReturn:
    raise DataError(
        f"No Parquet, Arrow or CSV file in the folder {folder}. "
        f"Supported extensions: {', '.join(FORMATS)}."
    )


def read_folders(files: Sequence[Found]) -> tuple[list[dict[str, Any]], pa.Schema]:
    """Return the columns that the names of partition folders (``year=2020``) add to each file."""
    pairs = [[one.partition("=")[::2] for one in folders if "=" in one] for _, folders in files]
    names = [name for name, _ in pairs[0]]
    odd = next((i for i, one in enumerate(pairs) if [name for name, _ in one] != names), 0)
    if odd:
        raise DataError(
            f"{files[odd][0]} and {files[0][0]} lie in folders that name other columns. "
            "Partitioned folders need the same columns, in the same order."
        )
    columns = dict[str, pa.Array]()
    for name, texts in zip(names, zip(*pairs, strict=True), strict=True):
        given = [None if text == NULL_FOLDER else unquote(text) for _, text in texts]
        columns[name] = pa.array(given, pa.string())
        with suppress(pa.ArrowInvalid):
            columns[name] = columns[name].cast(pa.int64())
    values = [
        {name: column[i].as_py() for name, column in columns.items()} for i in range(len(files))
    ]
    return values, pa.schema([(name, column.type) for name, column in columns.items()])


def is_table_file(path: Path | PurePosixPath) -> bool:
    """Return whether a file in a folder is part of the table, based on its suffix."""
    return _suffix(path) in FORMATS


def _suffix(path: Path | PurePosixPath | RemoteFile) -> str:
    ends = [end.lower() for end in path.suffixes]
    while ends and ends[-1] in _PACKED:
        ends.pop()
    return ends[-1] if ends else ""


def _format(path: Path | RemoteFile) -> str:
    suffix = _suffix(path)
    if suffix not in FORMATS:
        raise DataError(f"{path}: unknown extension {suffix!r}. Known: {', '.join(FORMATS)}.")
    return FORMATS[suffix]


def _common_schema(files: Sequence[formats.TableFile]) -> pa.Schema:
    """Return types that can hold the data of all files; CSV types widen, if necessary to text."""
    names = files[0].schema.names
    schemas = [pa.schema([file.schema.field(name) for name in names]) for file in files]
    if all(schema.equals(schemas[0]) for schema in schemas):
        return schemas[0]
    if files[0].guessed:
        kinds = zip(*(schema.types for schema in schemas), strict=True)
        return pa.schema(list(zip(names, map(widest_type, kinds), strict=True)))
    return formats.unify_schemas(schemas, "The files")
