"""Read networks written by other programs: BIF, XMLBIF, XDSL and NET."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tanager.errors import ConfigurationError, ModelFileError, invalid
from tanager.network.exports.bif import Variable
from tanager.network.readers.draft import Draft, fail
from tanager.network.readers.text import read_bif, read_net
from tanager.network.readers.xml import Element, read_elements, read_xdsl, read_xmlbif

__all__ = ["FORMATS", "open_network", "parse_network"]

MAX_BYTES = 1 << 28  # of a decompressed file


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:  # anything else is Latin-1, which older programs write
        return data.decode("latin-1")


def _root(data: bytes, kind: str, name: str) -> Element:
    root = read_elements(data)
    if root.name != name:
        fail(root.place, f"the file begins with <{root.name}>; {kind} begins with <{name}>")
    return root


# File suffixes, and the reader of the content.
FORMATS: dict[str, tuple[tuple[str, ...], Callable[[bytes], Draft]]] = {
    "bif": ((".bif",), lambda data: read_bif(_decode(data))),
    "xmlbif": (
        (".xml", ".xmlbif", ".bifxml"),
        lambda data: read_xmlbif(_root(data, "xmlbif", "BIF")),
    ),
    "xdsl": ((".xdsl",), lambda data: read_xdsl(_root(data, "xdsl", "smile"))),
    "net": ((".net",), lambda data: read_net(_decode(data))),
}


def open_network(
    path: str | os.PathLike[str], kind: str | None = None
) -> tuple[list[Variable], dict[str, Any]]:
    """Return the nodes of a file, and the notes that Tanager wrote to it.

    The file's suffix determines the format unless `kind` is passed; ``.gz`` is decompressed.
    """
    path = Path(path)
    packed = path.suffix.lower() == ".gz"
    kind = _kind_of(path.with_suffix("") if packed else path, kind)
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


def _kind_of(path: Path, kind: str | None) -> str:
    if kind is None:
        known = {ending: name for name, (endings, _) in FORMATS.items() for ending in endings}
        if path.suffix.lower() in known:
            return known[path.suffix.lower()]
        raise ConfigurationError(
            f"{path}: the extension {path.suffix!r} is unknown. Known: {', '.join(known)}. "
            f"Or name the format: {', '.join(FORMATS)}.",
            parameter="format",
        )
    if not isinstance(kind, str) or kind not in FORMATS:
        raise invalid("format", kind, ", ".join(FORMATS))
    return kind
