"""The file name of a page."""

from __future__ import annotations

import os
from pathlib import Path

from tanager.errors import ConfigurationError

__all__ = ["check_ending"]


def check_ending(path: str | os.PathLike[str], option: str = "", *, card: bool = False) -> None:
    """Refuse a file name that promises another format than HTML, or Markdown where a card may be.

    >>> check_ending("report.pdf")
    Traceback (most recent call last):
        ...
    tanager.errors.ConfigurationError: report.pdf: a page is HTML. Let its name end in .html.
    """
    if Path(path).suffix.lower() not in (".html", ".htm", *([".md"] if card else [])):
        given = f"{option} {path}" if option else os.fspath(path)
        also = ", or in .md for a model card as Markdown" if card else ""
        raise ConfigurationError(f"{given}: a page is HTML. Let its name end in .html{also}.")
