"""Predictions of many files as a folder of Parquet files, whole or not at all."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

from tanager.atomic import replacing_folder
from tanager.cli.output import open_output
from tanager.errors import ConfigurationError
from tanager.sources import Fragment, Source
from tanager.sources.source import MappedFragment

__all__ = ["check_folder", "write_parts"]


def check_folder(output: Path | str) -> None:
    """Refuse a folder that has something in it, or that has no place."""
    if isinstance(output, str):
        from tanager.sources.remote import exists

        if exists(output):
            raise ConfigurationError(
                f"--output {output} is there already. Give a new folder, or a file with an ending: "
                ".parquet, .arrow, .csv."
            )
        return
    if not output.parent.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, "The folder to write into is not there", str(output.parent)
        )
    if output.is_file() or (output.is_dir() and any(output.iterdir())):
        raise ConfigurationError(
            f"--output {output} is there already, and is not an empty folder. Give a new folder, "
            "or a file with an ending: .parquet, .arrow, .csv."
        )


def write_parts(
    source: Source, output: Path | str, score: Callable[[Source], Iterator[Any]]
) -> Iterator[int]:
    """Write one Parquet file for every file of the source, under its name; yield rows written.

    The folder appears when all of it is written. Stores know no such thing: a folder that is a
    URL fills file by file, each whole.
    """
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
    _refuse_twins(names)
    with _opened(output) as place:
        for name, (_, chosen) in zip(names, grouped, strict=True):
            part = _Part(source, chosen)
            with open_output(place(name.with_name(f"{name.name}.parquet"))) as write:
                for batch in score(part):
                    write(batch)
                    yield batch.num_rows


@contextmanager
def _opened(output: Path | str) -> Iterator[Callable[[Path], Path | str]]:
    """Give a function from the name of a part to its place in the folder."""
    if isinstance(output, str):
        address, mark, query = output.partition("?")
        yield lambda name: f"{address.rstrip('/')}/{name.as_posix()}{mark}{query}"
        return
    with replacing_folder(output) as folder:

        def place(name: Path) -> Path:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            return folder / name

        yield place


def _refuse_twins(names: Sequence[Path]) -> None:
    """Refuse two files of one name: the predictions of one would replace the other's."""
    twins = [name for name, number in Counter(names).items() if number > 1]
    if twins:
        raise ConfigurationError(
            f"{len(twins)} name(s) of input files come twice, such as {str(twins[0])!r}, and the "
            "predictions of one would replace the other's. Rename the files, or give --output the "
            "name of one file: .parquet, .arrow, .csv."
        )


class _Part(Source):
    """Some fragments of a source."""

    def __init__(self, source: Source, fragments: Sequence[Fragment]) -> None:
        super().__init__(source.schema, sum(fragment.n_rows for fragment in fragments))
        self._fragments = list(fragments)

    def fragments(self) -> list[Fragment]:
        return self._fragments


def _path(fragment: Fragment) -> Path | None:
    """Return the file that a fragment is read from; None where it is no file's."""
    while isinstance(fragment, MappedFragment):
        fragment = fragment.fragment
    opened = getattr(fragment, "opened", None)
    if opened is None:
        return None
    path = opened.file.path
    return path.resolve() if isinstance(path, Path) else Path("/", path.path)
