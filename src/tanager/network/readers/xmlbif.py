"""XMLBIF 0.3, as Tanager, pgmpy, pyAgrum, Weka and JavaBayes write it."""

from __future__ import annotations

import json
from math import prod

from tanager.network.exports.xmlbif import NOTE
from tanager.network.readers.draft import Draft, fail
from tanager.network.readers.elements import Element

__all__ = ["read_xmlbif"]


def read_xmlbif(root: Element) -> Draft:
    """Read a network from the element ``<BIF>``."""
    draft, network = Draft(), root.one("NETWORK")
    for variable in network.all("VARIABLE"):
        name = variable.one("NAME").text()
        kind = variable.attributes.get("TYPE", "nature")
        if kind != "nature":
            fail(variable.place, f"{name.text!r} is a {kind} node; only chance nodes can be read")
        draft.add_node(name, [state.text() for state in variable.all("OUTCOME")])
    for definition in [*network.all("DEFINITION"), *network.all("PROBABILITY")]:
        child = definition.one("FOR").text()
        parents = [given.text() for given in definition.all("GIVEN")]
        shape = draft.shape(child, parents)
        words = definition.one("TABLE").words()
        draft.add_table(child, parents, draft.numbers(child, words, prod(shape)).reshape(shape))
    for note in network.all("PROPERTY"):
        if note.text().text.startswith(NOTE):
            try:
                found = json.loads(note.text().text.removeprefix(NOTE))
            except (ValueError, RecursionError) as error:
                fail(note.place, f"Tanager's own property is not JSON ({str(error)[:80]})")
            draft.notes = found if isinstance(found, dict) else {}
    return draft
