"""Output of commands: never over an input, tables batch by batch, complete or not at all."""

from __future__ import annotations

import errno
import glob
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from tanager.atomic import replacing
from tanager.errors import ConfigurationError
from tanager.escaping import inert, visible
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


PICTURES = (".svg", ".png", ".pdf")
Write = Callable[[pa.RecordBatch], None]


def ending(output: Path | str) -> str:
    """Return the extension of a path or URL, in its usual spelling."""
    name = output.partition("?")[0] if isinstance(output, str) else str(output)
    found = PurePath(name).suffix.lower()
    return {".pq": ".parquet", ".feather": ".arrow", ".ipc": ".arrow"}.get(found, found)


def check_ending(output: Path | str | None, allowed: Iterable[str] = (), hint: str = "") -> None:
    """Reject a file whose extension isn't one of those `allowed`, by default those of tables."""
    known = tuple(allowed) or tuple(_WRITERS)
    if output is not None and ending(output) not in known:
        raise ConfigurationError(
            f"--output {output}: the extension {ending(output)!r} isn't supported. "
            f"Allowed: {', '.join(known)}.{hint}"
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
            with _table_writer(nameless, ending(path)) as write:
                yield write
            upload(nameless, path)
        return
    if path is None:
        sys.stdout.flush()
        with _table_writer(sys.stdout.buffer, ".csv") as write:
            yield write
        return
    kind = ending(path)
    with replacing(path) as part, part.open("wb") as file, _table_writer(file, kind) as write:
        yield write


@contextmanager
def _table_writer(file: Any, kind: str) -> Iterator[Write]:
    """Yield a function that writes batches; the first batch determines the columns.

    After a failure the file is discarded: closing the writer would only write more.
    """
    writer: Any = None

    def write(batch: pa.RecordBatch) -> None:
        nonlocal writer
        if kind != ".parquet":
            # CSV has no dictionaries, and an Arrow file allows only one for all batches.
            arrays = [
                column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
                for column in batch.columns
            ]
            batch = pa.RecordBatch.from_arrays(arrays, batch.schema.names)
        if kind == ".csv":
            batch = _shown(inert(batch)) if file.isatty() else inert(batch)
        if writer is None:
            writer = _WRITERS[kind](file, batch.schema)
        writer.write_batch(batch)

    yield write
    if writer is not None:
        writer.close()


def _csv(file: Any, schema: pa.Schema) -> Any:
    return pacsv.CSVWriter(file, schema, write_options=pacsv.WriteOptions(quoting_style="needed"))


def _parquet(file: Any, schema: pa.Schema) -> Any:
    # Probabilities are all different: dictionary encoding would only cost time.
    codes = [field.name for field in schema if not pa.types.is_floating(field.type)]
    return pq.ParquetWriter(file, schema, use_dictionary=codes, compression="lz4")


_WRITERS = {
    ".parquet": _parquet,
    ".arrow": pa.ipc.new_file,
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
