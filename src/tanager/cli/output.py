"""Output of commands: to the terminal, and to files: complete, and never over an input."""

from __future__ import annotations

import errno
import glob
import json
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tanager.atomic import replacing
from tanager.errors import ConfigurationError
from tanager.escaping import STEERING, inert, visible
from tanager.progress import Progress, RichProgress
from tanager.sources.files import is_table_file
from tanager.sources.remote import exists, upload, without_credentials

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tanager.network import Network

TABLES = (".parquet", ".arrow", ".csv")
PICTURES = (".svg", ".png", ".pdf")
PAGES = (".html", ".htm")
Write = Callable[[pa.RecordBatch], None]


def console() -> Console:
    """Return a console, wide unless it's a terminal, that escapes control characters in names."""
    from rich.console import Console
    from rich.text import Text

    class Terminal(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(visible(text), **options)

        def on_broken_pipe(self) -> None:
            # Rich would exit with 1, but a closed pipe, as with `head`, isn't a failure.
            raise BrokenPipeError

    return Terminal(highlight=False, width=None if sys.stdout.isatty() else 160)


def plain_table(*columns: str, left: Collection[int] = (0,), title: str = "") -> Table:
    """Return an empty table without lines; all columns but those at `left` are right-aligned."""
    from rich.table import Table

    look: dict[str, Any] = {"box": None, "padding": (0, 2, 0, 0), "pad_edge": False}
    table = Table(title=plain(title) or None, title_justify="left", **look)
    for at, column in enumerate(columns):
        table.add_column(plain(column), justify="left" if at in left else "right", overflow="fold")
    return table


def plain(text: str) -> str:
    """Return a text on one line, its brackets escaped so that Rich prints them."""
    from rich.markup import escape

    return escape(" ".join(text.splitlines()))


def say(text: str) -> None:
    """Print a text in lines of its own, not wrapped, so that it can be copied."""
    console().print(text, markup=False, soft_wrap=True)


def tell(found: Any, *, as_json: bool) -> None:
    """Print a finding as text, or its plain data as JSON."""
    if as_json:
        print_json(found.to_dict())
    else:
        say(str(found))


def tell_written(path: Path) -> None:
    """Print the name and the size of a file that was written."""
    print(f"{path}: {human_size(path.stat().st_size)}")


def print_json(content: Any) -> None:
    """Print JSON for scripts."""
    text = json.dumps(content, ensure_ascii=False, indent=1)
    # JSON escapes the first 32 characters itself; the other control characters are escaped here.
    print(STEERING.sub(lambda found: f"\\u{ord(found.group()):04x}", text))


@contextmanager
def watching() -> Iterator[Progress]:
    """Show progress bars in an interactive terminal, and nothing otherwise."""
    with RichProgress() if sys.stderr.isatty() else nullcontext(Progress()) as progress:
        yield progress


def report_model(network: Network, output: Path, seconds: float | None, *, as_json: bool) -> None:
    """Print what was written to a model file."""
    structure, n_bytes = network.structure, output.stat().st_size
    took = {} if seconds is None else {"seconds": seconds}
    facts = {
        "model": str(output),
        "bytes": n_bytes,
        **took,
        "classes": [str(label) for label in network.codebook.classes],
        "features": network.codebook.domain.n_features,
        "selected": list(structure.features),
        "parents": {name: list(above) for name, above in structure.parents.items()},
    }
    if as_json:
        print_json(facts)
    else:
        after = "" if seconds is None else f", {seconds:.1f} s"
        print(f"{output}: {network.summary()}; {human_size(n_bytes)}{after}")


def human_size(n_bytes: float) -> str:
    """Return a human-readable size, in powers of ten."""
    for unit in ("B", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} GB"


def check_output(
    output: Path | str | None,
    inputs: Iterable[str | Path],
    allowed: Sequence[str] = (),
    *,
    force: bool = False,
    option: str = "--output",
    hint: str = "",
) -> None:
    """Reject outputs up front that would destroy data, or fail only after the work.

    An output that is one of the inputs (files, folders, globs), under whatever name, is rejected
    even with `force`; any other existing file only without it. So is an extension that isn't one of
    those `allowed`, if there are any. A str is a URL; None is no output.
    """
    if output is None:
        return
    shown = without_credentials(output) if isinstance(output, str) else str(output)
    if allowed and ending(output) not in allowed:
        raise ConfigurationError(
            f"{option} {shown}: the extension {ending(output)!r} isn't supported. "
            f"Allowed: {', '.join(allowed)}.{hint}"
        )
    if str(output) == "-":
        raise ConfigurationError(
            f"{option} -: only predict and decide can write to standard output. Pass a file name."
        )
    if isinstance(output, str):
        if output in map(str, inputs):
            raise ConfigurationError(
                f"{option} {shown} is also an input and would be overwritten. Choose another name."
            )
        there = exists(output)
    else:
        folder = output.parent
        if not folder.is_dir():
            raise FileNotFoundError(errno.ENOENT, "The output folder doesn't exist", str(folder))
        if output.is_dir():
            raise IsADirectoryError(errno.EISDIR, "It's a folder; pass a file name", str(output))
        if there := output.exists():
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


def ending(output: Path | str) -> str:
    """Return the extension of a path or URL, in its usual spelling."""
    name = output.partition("?")[0] if isinstance(output, str) else str(output)
    found = PurePath(name).suffix.lower()
    return {".pq": ".parquet", ".feather": ".arrow", ".ipc": ".arrow"}.get(found, found)


@contextmanager
def open_output(path: Path | str | None) -> Iterator[Write]:
    """Yield a function that writes batches in the path's format, or CSV to standard output."""
    if isinstance(path, str):
        # Uploaded when complete; unnamed, so that nothing is left behind whatever happens.
        with tempfile.TemporaryFile(prefix="tanager-") as nameless:
            with _table_writer(nameless, ending(path)) as write:
                yield write
            upload(nameless, path)
    elif path is None:
        sys.stdout.flush()
        with _table_writer(sys.stdout.buffer, ".csv") as write:
            yield write
    else:
        kind = ending(path)
        with replacing(path) as part, part.open("wb") as file, _table_writer(file, kind) as write:
            yield write


@contextmanager
def _table_writer(file: Any, kind: str) -> Iterator[Write]:
    """Yield a function that writes batches; the first batch determines the columns."""
    writer: Any = None

    def write(batch: pa.RecordBatch) -> None:
        nonlocal writer
        if kind != ".parquet":
            # CSV has no dictionaries, and an Arrow file allows only one for all batches.
            is_coded = pa.types.is_dictionary
            arrays = [c.dictionary_decode() if is_coded(c.type) else c for c in batch.columns]
            batch = pa.RecordBatch.from_arrays(arrays, batch.schema.names)
        if kind == ".csv":
            batch = _shown(inert(batch)) if file.isatty() else inert(batch)
        if writer is None:
            writer = _WRITERS[kind](file, batch.schema)
        writer.write_batch(batch)

    yield write
    # Not after a failure: the file is then discarded, and closing would only write more.
    if writer is not None:
        writer.close()


def _csv(file: Any, schema: pa.Schema) -> Any:
    import pyarrow.csv as pacsv

    return pacsv.CSVWriter(file, schema, write_options=pacsv.WriteOptions(quoting_style="needed"))


def _parquet(file: Any, schema: pa.Schema) -> Any:
    import pyarrow.parquet as pq

    # Probabilities are all different: dictionary encoding would only cost time.
    codes = [field.name for field in schema if not pa.types.is_floating(field.type)]
    return pq.ParquetWriter(file, schema, use_dictionary=codes, compression="lz4")


_WRITERS = dict(zip(TABLES, (_parquet, pa.ipc.new_file, _csv), strict=True))


def _shown(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch for a terminal, its control characters escaped."""
    arrays = [
        pa.array([None if v is None else visible(v) for v in column.to_pylist()])
        if pa.types.is_string(column.type)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, [visible(name) for name in batch.schema.names])
