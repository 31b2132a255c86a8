"""Networks as JSON with a documented, versioned schema, and as JavaScript with their scorer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tanager.errors import invalid
from tanager.network.decisions import read_costs
from tanager.network.exports.recipe import SAFE_INTEGER, Input, Recipe, make_recipe
from tanager.network.reference import LEVELS, Reference

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tanager.network.network import Network

FORMAT = "tanager-scorer"
VERSION = 2
MAX_STEP_CELLS = 1 << 22  # also the limit of the scorer, see scorer.js


def to_json(network: Network, *, unknowns: bool = True, costs: Any = None) -> str:
    """Return the network as JSON text for `scorer.js` and other programs.

    The text is plain ASCII without ``<``, so it can be embedded in a web page.

    Parameters
    ----------
    network : Network
    unknowns : bool, default=True
        Whether to support rows with any unknown values. False also allows a network for which
        that isn't possible; the scorer then has no result for rows that it can't sum out.
    costs : optional
        As for `Network.decide`, used by the scorer's ``decide``.
    """
    recipe = make_recipe(network)
    if unknowns:
        recipe.check_sums(MAX_STEP_CELLS, "Export with unknowns=False to score complete rows.")
    facts = describe(recipe)
    if network.reference is not None:
        _describe_reference(network, network.reference, facts)
    if costs is not None:
        table = read_costs(network, costs)
        plain = [a if isinstance(a, str | int | float) else str(a) for a in table.actions]
        facts["costs"] = {"actions": _exact(plain), "matrix": table.matrix.tolist()}
    return json.dumps(facts, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def describe(recipe: Recipe) -> dict[str, Any]:
    """Return the content of `to_json` as plain data."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "target": recipe.target,
        "classes": _exact(recipe.classes),
        "log_prior": recipe.log_prior.tolist(),
        "normalized": recipe.normalized,
        "features": list(map(_feature, recipe.inputs)),
        "order": list(recipe.order),
        "elimination": [step.input for step in recipe.steps],
        "ignored": list(recipe.ignored),
        "history": [edit.to_dict() for edit in recipe.history],
    }


def _describe_reference(network: Network, reference: Reference, facts: dict[str, Any]) -> None:
    """Add what is needed to distinguish familiar rows from strange ones."""
    if len(reference.scores):
        facts["familiarity"] = {"levels": LEVELS.tolist(), "scores": _shorten(reference.scores)}
    for feature in facts["features"]:
        at = network.codebook.domain.names.index(feature["name"])
        feature["log_unseen"] = reference.log_unseen(at)
        if len(reference.ends[at]):
            feature["range"] = reference.ends[at][[0, -1]].tolist()


def _feature(given: Input) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": given.name, "kind": given.kind}
    facts |= {"arity": given.arity, "missing": given.missing}
    if given.kind == "number":
        facts |= {"cuts": list(given.cuts), "temporal": bool(given.temporal)}
    else:
        facts["values"] = _exact(given.values)
        facts |= {} if given.unlisted == given.arity else {"other": given.unlisted}
    facts |= {"labels": list(given.labels), "parents": list(given.parents)}
    facts["log_prob"] = _shorten(given.log_prob)
    if given.groups is not None and given.log_within is not None:
        facts |= {"groups": list(given.groups), "log_within": _shorten(given.log_within)}
    return facts


def _exact(values: Iterable[Any]) -> list[Any]:
    """Return values that any JSON reader can represent: integers past 2^53 become texts."""
    return [str(v) if isinstance(v, int) and abs(v) > SAFE_INTEGER else v for v in values]


def _shorten(logs: NDArray[Any]) -> list[float]:
    """Round logs to 15 digits: the error is far below the promised accuracy, the text shorter."""
    return [float(f"{value:.15g}") for value in logs.ravel().tolist()]


_ENDS = {
    "script": 'if (typeof module === "object") module.exports = model; '
    "else globalThis.tanagerModel = model;",
    "module": "export default model;",
}


@cache
def scorer_source() -> str:
    """Return the scorer: a plain script that defines ``tanager``, with ``tanager.load(json)``."""
    return Path(__file__).with_name("scorer.js").read_text(encoding="utf-8")


def to_javascript(
    network: Network, *, kind: str = "script", unknowns: bool = True, costs: Any = None
) -> str:
    """Return the model and its scorer as one JavaScript file without dependencies.

    Parameters
    ----------
    network : Network
    kind : {'script', 'module'}
        A script can be used by ``require`` and in a page, as the global ``tanagerModel``; a module
        has the model as its default export.
    unknowns, costs
        As in `to_json`.
    """
    if not isinstance(kind, str) or kind not in _ENDS:
        raise invalid("kind", kind, ", ".join(_ENDS))
    model = to_json(network, unknowns=unknowns, costs=costs)
    parts = [_compact(scorer_source()), f"const model = tanager.load({model});", _ENDS[kind]]
    if kind == "script":  # a page's global scope must not be polluted
        parts = ["(() => {", *parts, "})();"]
    return "\n".join(parts) + "\n"


def _compact(source: str) -> str:
    """Return the scorer without its comments and indentation."""
    bare = re.sub(r"(?s:/\*.*?\*/)|//[^\n]*", "", source)
    head = "/* Tanager's scorer: model.proba(row), model.predict(row) and more. */"
    return "\n".join([head, *filter(None, map(str.strip, bare.splitlines()))])
