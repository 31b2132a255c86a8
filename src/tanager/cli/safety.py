"""What a command may write over: never what it reads, and nothing at all unless told so."""

from __future__ import annotations

import errno
import glob
from collections.abc import Iterable, Iterator
from pathlib import Path

from tanager.errors import ConfigurationError
from tanager.sources.files import is_table_file
from tanager.sources.remote import exists, without_credentials


def check_output(
    output: Path | str | None,
    inputs: Iterable[str | Path],
    *,
    force: bool = False,
    option: str = "--output",
) -> None:
    """Refuse at once what would destroy data, or fail only after the work.

    An output that is one of the inputs (files, folders, globs), under whatever name, is refused,
    `force` or not; any other that exists unless `force` allows it. A str is a URL, None nothing.
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
            raise IsADirectoryError(errno.EISDIR, "It is a folder; give a file's name", str(output))
        there = output.exists()
        if there:
            refuse_input(output, inputs, option)
    if there and not force:
        raise ConfigurationError(f"{option} {shown} already exists. Pass --force to overwrite it.")


def refuse_input(output: Path, inputs: Iterable[str | Path], option: str) -> None:
    """Refuse an existing output that is one of the inputs, under whatever name."""
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
