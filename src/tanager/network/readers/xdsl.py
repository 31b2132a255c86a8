"""GeNIe's XDSL, as GeNIe, pgmpy and pyAgrum write it."""

from __future__ import annotations

from math import prod

import numpy as np

from tanager.network.readers.draft import Draft, Word, fail
from tanager.network.readers.elements import Element

__all__ = ["read_xdsl"]

_PASSED_OVER = ("submodel",)  # a frame around nodes in the drawing


def read_xdsl(root: Element) -> Draft:
    """Read a network from the element ``<smile>``."""
    draft, nodes = Draft(), []
    for node in root.one("nodes").children:
        if node.name in _PASSED_OVER:
            continue
        name = node.attribute("id")
        if node.name not in ("cpt", "deterministic"):
            fail(
                node.place,
                f"{name.text!r} is a <{node.name}> node; <cpt> and <deterministic> can be read",
                "Change the node's type to a general table in GeNIe.",
            )
        draft.add_node(name, [state.attribute("id") for state in node.all("state")])
        nodes.append(node)
    reverse = _is_agrum(root)
    for node in nodes:
        _add_table(draft, node, reverse=reverse)
    return draft


def _is_agrum(root: Element) -> bool:
    """Return whether aGrUM wrote the file: there the first parent varies fastest."""
    genie = [g for extensions in root.all("extensions") for g in extensions.all("genie")]
    return any(element.attributes.get("app", "").startswith("aGrUM") for element in genie)


def _add_table(draft: Draft, node: Element, *, reverse: bool) -> None:
    child = node.attribute("id")
    parents = [word for element in node.all("parents") for word in element.words()]
    if reverse:
        parents = parents[::-1]
    shape = draft.shape(child, parents)
    if node.name == "cpt":
        words = node.one("probabilities").words()
        values = draft.numbers(child, words, prod(shape)).reshape(shape)
    else:
        words = node.one("resultingstates").words()
        values = _results(draft, child, words, prod(shape[:-1]), shape[-1]).reshape(shape)
    draft.add_table(child, parents, values)


def _results(
    draft: Draft, child: Word, words: list[Word], n_contexts: int, n_states: int
) -> np.ndarray:
    if len(words) != n_contexts:
        fail(
            child.place,
            f"{child.text!r} has {len(words)} resulting states where {n_contexts} are expected",
        )
    values = np.zeros((n_contexts, n_states))
    values[np.arange(n_contexts), [draft.state(child.text, word) for word in words]] = 1.0
    return values
