"""Read networks written by other programs: BIF, XMLBIF, XDSL and NET."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path
from typing import Any

from tanager.errors import ConfigurationError, ModelFileError, invalid
from tanager.network.exports.bif import Variable
from tanager.network.readers.formats import FORMATS

__all__ = ["FORMATS", "open_network", "parse_network"]

MAX_BYTES = 1 << 28  # of a decompressed file


def open_network(
    path: str | os.PathLike[str], kind: str | None = None
) -> tuple[list[Variable], dict[str, Any]]:
    """Return the nodes of a file, and the notes that Tanager wrote to it.

    The file's suffix determines the format unless `kind` is passed; ``.gz`` is decompressed.
    """
    path = Path(path)
    packed = path.suffix.lower() == ".gz"
    if kind is None:
        kind = _find_kind(path.with_suffix("") if packed else path)
    elif not isinstance(kind, str) or kind not in FORMATS:
        raise invalid("format", kind, ", ".join(FORMATS))
    try:
        with gzip.open(path) if packed else path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ModelFileError(f"{path}: the file cannot be unpacked ({error}).") from error
    try:
        return parse_network(data, kind)
    except (ModelFileError, ConfigurationError) as error:
        raise ModelFileError(f"{path}, {error}") from error


def parse_network(data: bytes, kind: str) -> tuple[list[Variable], dict[str, Any]]:
    """Return the nodes in a file's content, and the notes that Tanager wrote to it."""
    if len(data) > MAX_BYTES:
        raise ModelFileError(f"the file is larger than {MAX_BYTES:,} bytes.")
    draft = FORMATS[kind][1](data)
    return draft.finish(), draft.notes


def _find_kind(path: Path) -> str:
    known = {ending: name for name, (endings, _) in FORMATS.items() for ending in endings}
    if path.suffix.lower() not in known:
        raise ConfigurationError(
            f"{path}: the extension {path.suffix!r} is unknown. Known: {', '.join(known)}. "
            f"Or name the format: {', '.join(FORMATS)}.",
            parameter="format",
        )
    return known[path.suffix.lower()]
