"""Output of commands: never over an input, tables batch by batch, complete or not at all."""

from __future__ import annotations

import errno
import glob
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from tanager.atomic import replacing, replacing_folder
from tanager.errors import ConfigurationError
from tanager.escaping import inert, visible
from tanager.sources import Fragment, Source
from tanager.sources.files import is_table_file
from tanager.sources.remote import exists, upload, without_credentials


def check_output(
    output: Path | str | None,
    inputs: Iterable[str | Path],
    *,
    force: bool = False,
    option: str = "--output",
) -> None:
    """Reject outputs up front that would destroy data, or fail only after the work.

    An output that is one of the inputs (files, folders, globs), under whatever name, is rejected
    even with `force`; any other existing file only without it. A str is a URL; None is no output.
    """
    if output is None:
        return
    if str(output) == "-":
        raise ConfigurationError(
            f"{option} -: only predict and decide can write to standard output. Pass a file name."
        )
    shown = str(output)
    if isinstance(output, str):
        shown = without_credentials(output)
        if output in map(str, inputs):
            raise ConfigurationError(
                f"{option} {shown} is also an input and would be overwritten. Choose another name."
            )
        there = exists(output)
    else:
        if not output.parent.is_dir():
            raise FileNotFoundError(
                errno.ENOENT, "The output folder doesn't exist", str(output.parent)
            )
        if output.is_dir():
            raise IsADirectoryError(errno.EISDIR, "It's a folder; pass a file name", str(output))
        there = output.exists()
        if there:
            refuse_input(output, inputs, option)
    if there and not force:
        raise ConfigurationError(f"{option} {shown} already exists. Pass --force to overwrite it.")


def refuse_input(output: Path, inputs: Iterable[str | Path], option: str) -> None:
    """Reject an existing output that is one of the inputs, under whatever name."""
    for path in _files(inputs):
        if path.samefile(output):  # links are followed, as writing does
            raise ConfigurationError(
                f"{option} {output} is the input {path} and would be overwritten. Choose another "
                "name."
            )


def _files(inputs: Iterable[str | Path]) -> Iterator[Path]:
    for given in inputs:
        path = Path(given)
        if path.is_dir():
            yield from (p for p in path.rglob("*") if p.is_file() and is_table_file(p))
        elif path.exists():
            yield path
        else:
            yield from map(Path, glob.glob(str(given), recursive=True))  # noqa: PTH207


Write = Callable[[pa.RecordBatch], None]


def ending(output: Path | str) -> str:
    """Return the extension of a path or URL; empty for a folder."""
    name = str(output).partition("?")[0] if isinstance(output, str) else str(output)
    return PurePath(name).suffix.lower()


def check_ending(output: Path | str | None) -> None:
    """Reject a file whose extension isn't that of a supported format."""
    if output is not None and ending(output) not in _WRITERS:
        raise ConfigurationError(
            f"--output {output}: the extension {ending(output)!r} isn't supported. "
            f"Allowed: {', '.join(_WRITERS)}."
        )


@contextmanager
def open_output(path: Path | str | None) -> Iterator[Write]:
    """Yield a function that writes batches in the output's format, or CSV to standard output.

    Output for a URL is written to a local file first and uploaded when complete.
    """
    check_ending(path)
    if isinstance(path, str):
        # An unnamed temporary file, so that nothing is left behind whatever happens.
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
    """Opens its writer with the first batch, which determines the columns."""

    def __init__(self, file: Any, make: Callable[[Any, pa.Schema], Any]) -> None:
        self._file = file
        self._make = make
        self._writer: Any = None
        self._terminal = file.isatty()

    def write(self, batch: pa.RecordBatch) -> None:
        if self._make is not _parquet:
            # CSV has no dictionaries, and an Arrow file allows only one for all batches.
            arrays = [
                column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
                for column in batch.columns
            ]
            batch = pa.RecordBatch.from_arrays(arrays, batch.schema.names)
        if self._make is _csv:
            batch = _shown(inert(batch)) if self._terminal else inert(batch)
        if self._writer is None:
            self._writer = self._make(self._file, batch.schema)
        self._writer.write_batch(batch)

    def __enter__(self) -> _TableWriter:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        # After a failure the file is discarded: closing it would only write more.
        if self._writer is not None and kind is None:
            self._writer.close()


def _csv(file: Any, schema: pa.Schema) -> Any:
    return pacsv.CSVWriter(file, schema, write_options=pacsv.WriteOptions(quoting_style="needed"))


def _parquet(file: Any, schema: pa.Schema) -> Any:
    # Probabilities are all different: dictionary encoding would only cost time.
    codes = [field.name for field in schema if not pa.types.is_floating(field.type)]
    writer = pq.ParquetWriter(file, schema, use_dictionary=codes, compression="lz4")
    return _RowGroups(writer)


class _RowGroups:
    """Collects batches into row groups large enough to be read efficiently."""

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


def _shown(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch for a terminal, its control characters escaped."""
    arrays = [
        pa.array([None if v is None else visible(v) for v in column.to_pylist()])
        if pa.types.is_string(column.type)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, [visible(name) for name in batch.schema.names])


def check_folder(output: Path | str) -> None:
    """Reject a folder that isn't empty, or whose parent doesn't exist."""
    if isinstance(output, str):
        if exists(output):
            raise ConfigurationError(
                f"--output {without_credentials(output)} already exists. Name a new folder, or "
                "a file with an extension: .parquet, .arrow, .csv."
            )
        return
    if not output.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "The output folder doesn't exist", str(output.parent))
    if output.is_file() or (output.is_dir() and any(output.iterdir())):
        raise ConfigurationError(
            f"--output {output} already exists and isn't an empty folder. Name a new folder, or "
            "a file with an extension: .parquet, .arrow, .csv."
        )


def write_rows(
    source: Source, output: Path | str | None, score: Callable[[Source], Iterator[Any]]
) -> Iterator[int]:
    """Write the rows' predictions by `score`, and yield the number of rows of each batch.

    A folder gets one Parquet file per input file, with the same name, and appears when
    everything is written. Object stores can't do that: a folder that is a URL fills file
    by file, each one complete.
    """
    if output is None or ending(output):
        with open_output(output) as write:
            for batch in score(source):
                write(batch)
                yield batch.num_rows
        return
    fragments = source.fragments()
    paths = [_path(fragment) for fragment in fragments]
    known = [path for path in paths if path is not None]
    root = Path(os.path.commonpath([path.parent for path in known])) if known else Path()
    grouped = [
        (path, [fragment for _, fragment in pairs])
        for path, pairs in groupby(zip(paths, fragments, strict=True), key=lambda pair: pair[0])
    ]
    names = [
        Path(f"part-{number:05}") if path is None else path.relative_to(root).with_suffix("")
        for number, (path, _) in enumerate(grouped)
    ]
    twins = [name for name, number in Counter(names).items() if number > 1]
    if twins:
        raise ConfigurationError(
            f"Several input files have the same name, such as {str(twins[0])!r}, so their "
            "predictions would overwrite each other. Rename the files, or give --output the name "
            "of one file: .parquet, .arrow, .csv."
        )
    with _opened(output) as place:
        for name, (_, chosen) in zip(names, grouped, strict=True):
            part = source.take(chosen)
            with open_output(place(name.with_name(f"{name.name}.parquet"))) as write:
                for batch in score(part):
                    write(batch)
                    yield batch.num_rows


@contextmanager
def _opened(output: Path | str) -> Iterator[Callable[[Path], Path | str]]:
    """Yield a function from the name of a part to its path in the folder."""
    if isinstance(output, str):
        address, mark, query = output.partition("?")
        yield lambda name: f"{address.rstrip('/')}/{name.as_posix()}{mark}{query}"
        return
    with replacing_folder(output) as folder:

        def place(name: Path) -> Path:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            return folder / name

        yield place


def _path(fragment: Fragment) -> Path | None:
    """Return the file that a fragment is read from, or None if it isn't read from one."""
    path = fragment.part.path
    if path is None or isinstance(path, Path):
        return path and path.resolve()
    return Path("/", path.path)
