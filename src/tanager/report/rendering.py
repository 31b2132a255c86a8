"""Rendering of pages from templates, each page one file that loads nothing."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from typing import Any

from tanager import __version__
from tanager.errors import ConfigurationError
from tanager.escaping import abridged, cut_list, template_environment
from tanager.evaluation.summary import p_text


def check_ending(path: str | os.PathLike[str], *, card: bool = False) -> None:
    """Reject a file name whose extension isn't that of HTML, or of Markdown for a card.

    >>> check_ending("report.pdf")
    Traceback (most recent call last):
        ...
    tanager.errors.ConfigurationError: report.pdf: the report is HTML. Use the extension .html.
    """
    if Path(path).suffix.lower() not in (".html", ".htm", *([".md"] if card else [])):
        also = ", or .md for a model card as Markdown" if card else ""
        raise ConfigurationError(f"{path}: the report is HTML. Use the extension .html{also}.")


def page_environment(*packages: str) -> Any:
    """Return the environment for page templates, those of other packages before ours."""
    environment = template_environment(*packages, "tanager.report")
    environment.filters["fit"] = abridged
    environment.filters["sentence"] = lambda text: text[:1].upper() + text[1:]
    environment.filters["p_value"] = p_text
    environment.filters["plain"] = str  # names; the card escapes Markdown's characters
    environment.filters["names"] = cut_list
    return environment


def render_page(template: str, *, script: str = "", **parts: Any) -> str:
    """Return a page; its security policy allows this one script and nothing from elsewhere."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page: str = (
        page_environment()
        .get_template(template)
        .render(version=__version__, script=script, script_hash=f"'sha256-{digest}'", **parts)
    )
    return page
