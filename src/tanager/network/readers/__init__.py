"""Networks as other programs write them: BIF, XMLBIF, XDSL and NET."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tanager.errors import ConfigurationError, ModelFileError
from tanager.network.exports.bif import Variable
from tanager.network.readers.draft import Draft, fail
from tanager.network.readers.text import read_bif, read_net
from tanager.network.readers.xml import Element, read_elements, read_xdsl, read_xmlbif

__all__ = ["FORMATS", "open_network", "parse_network"]

MAX_BYTES = 1 << 28  # of a file, unpacked

FORMATS = {
    "bif": (".bif",),
    "xmlbif": (".xml", ".xmlbif", ".bifxml"),
    "xdsl": (".xdsl",),
    "net": (".net",),
}
_TEXTS: dict[str, Callable[[str], Draft]] = {"bif": read_bif, "net": read_net}
_ROOTS: dict[str, tuple[str, Callable[[Element], Draft]]] = {
    "xmlbif": ("BIF", read_xmlbif),
    "xdsl": ("smile", read_xdsl),
}


def open_network(
    path: str | os.PathLike[str], kind: str | None = None
) -> tuple[list[Variable], dict[str, Any]]:
    """Return the nodes of a file, and what Tanager noted in it.

    The file's ending says the format, unless `kind` does; ``.gz`` after it that it is packed.
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
    """Return the nodes of a file's content, and what Tanager noted in it."""
    if len(data) > MAX_BYTES:
        raise ModelFileError(f"the file is larger than {MAX_BYTES:,} bytes.")
    if kind in _TEXTS:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:  # what is no UTF-8 is Latin-1, which older programs write
            text = data.decode("latin-1")
        draft = _TEXTS[kind](text)
    else:
        name, read = _ROOTS[kind]
        root = read_elements(data)
        if root.name != name:
            fail(root.place, f"the file begins with <{root.name}>; {kind} begins with <{name}>")
        draft = read(root)
    return draft.finish(), draft.notes


def _kind_of(path: Path, kind: str | None) -> str:
    if kind is None:
        for name, endings in FORMATS.items():
            if path.suffix.lower() in endings:
                return name
        known = ", ".join(ending for endings in FORMATS.values() for ending in endings)
        raise ConfigurationError(
            f"{path}: the ending {path.suffix!r} says no format. Known: {known}. Or name it: "
            f"format={' or '.join(map(repr, FORMATS))}."
        )
    if kind not in FORMATS:
        raise ConfigurationError(f"format={kind!r} is not known. Allowed: {', '.join(FORMATS)}.")
    return kind
