"""Networks as JavaScript: the scorer, and the model as JSON."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from tanager.errors import ConfigurationError
from tanager.network.exports.json import to_json

if TYPE_CHECKING:
    from tanager.network.network import Network

__all__ = ["scorer_source", "to_javascript"]

_ENDS = {
    "script": (
        'if (typeof module === "object") module.exports = model; '
        "else globalThis.tanagerModel = model;"
    ),
    "module": "export default model;",
}


@cache
def scorer_source() -> str:
    """Return the scorer: a plain script that defines ``tanager``, with ``tanager.load(json)``."""
    return files("tanager.network.exports").joinpath("scorer.js").read_text(encoding="utf-8")


def to_javascript(network: Network, *, kind: str = "script", unknowns: bool = True) -> str:
    """Return the model and its scorer as one JavaScript file without dependencies.

    Parameters
    ----------
    network : Network
    kind : {'script', 'module'}
        A script is for ``require`` and, as the global ``tanagerModel``, for a
        page; a module is for ``import``, which gives the model by default.
    unknowns : bool, default=True
        As in `to_json`.
    """
    if kind not in _ENDS:
        raise ConfigurationError(f"kind={kind!r} is not known. Allowed: {', '.join(_ENDS)}.")
    model = to_json(network, unknowns=unknowns)
    parts = [_compact(scorer_source()), f"const model = tanager.load({model});"]
    if kind == "script":  # what a page loads must not fill its global scope
        parts = ["(() => {", *parts, _ENDS[kind], "})();"]
    else:
        parts.append(_ENDS[kind])
    return "\n".join(parts) + "\n"


def _compact(source: str) -> str:
    """Return the scorer without its comments and indentation."""
    bare = re.sub(r"(?s:/\*.*?\*/)|//[^\n]*", "", source)
    lines = [line.strip() for line in bare.splitlines() if line.strip()]
    return "\n".join(
        ["/* Tanager's scorer: model.proba(row), model.predict(row) and more. */", *lines]
    )
