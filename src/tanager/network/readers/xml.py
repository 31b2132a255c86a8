"""XML formats, XMLBIF 0.3 and GeNIe's XDSL, parsed without expanding or fetching entities."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any
from xml.parsers import expat

import numpy as np

from tanager.errors import ModelFileError
from tanager.network.exports.bif import NOTE
from tanager.network.readers.draft import Draft, Position, Word, fail

MAX_DEPTH = 50


@dataclass
class Element:
    """An element: its name, attributes, text and children."""

    name: str
    attributes: dict[str, str]
    place: Position
    children: list[Element] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)  # pieces of the text, as the parser gives them

    def all(self, name: str) -> Iterator[Element]:
        """Iterate over the children with a given name."""
        return (child for child in self.children if child.name == name)

    def text(self) -> Word:
        """Return the text, stripped."""
        return Word("".join(self.parts).strip(), self.place)

    def words(self) -> list[Word]:
        """Return the words of the text."""
        return [Word(word, self.place) for word in "".join(self.parts).split()]

    def one(self, name: str) -> Element:
        """Return the only child with a given name."""
        found = list(self.all(name))
        if len(found) != 1:
            fail(self.place, f"<{self.name}> has {len(found)} <{name}>, where one is expected")
        return found[0]

    def attribute(self, name: str) -> Word:
        """Return a required attribute."""
        if name not in self.attributes:
            fail(self.place, f"<{self.name}> lacks the attribute {name!r}")
        return Word(self.attributes[name], self.place)


def read_elements(data: bytes) -> Element:
    """Return the root of an XML file; raise if it declares entities."""
    parser: Any = expat.ParserCreate()
    parser.buffer_text = True
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    top = Element("", {}, Position(1, 1))
    path = [top]

    def here() -> Position:
        return Position(parser.CurrentLineNumber, parser.CurrentColumnNumber + 1)

    def start(name: str, attributes: dict[str, str]) -> None:
        if len(path) > MAX_DEPTH:
            fail(here(), f"elements are nested more than {MAX_DEPTH} deep")
        element = Element(name, attributes, here())
        path[-1].children.append(element)
        path.append(element)

    def end(_: str) -> None:
        path.pop()

    def entity(*_: Any) -> None:
        fail(here(), "the file declares an entity, which networks do not need")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = lambda part: path[-1].parts.append(part)
    parser.EntityDeclHandler = entity
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        place = Position(error.lineno, error.offset + 1)
        fail(place, f"this is not XML ({expat.ErrorString(error.code)})")
    except (ValueError, LookupError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"the encoding of the file cannot be read ({error}).") from error
    return top.children[0]


def read_xdsl(root: Element) -> Draft:
    """Read a network from the element ``<smile>``."""
    draft, nodes = Draft(), []
    for node in root.one("nodes").children:
        if node.name == "submodel":  # a visual group of nodes
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
    # In files written by aGrUM, the first parent varies fastest.
    genie = [g for extensions in root.all("extensions") for g in extensions.all("genie")]
    reverse = any(element.attributes.get("app", "").startswith("aGrUM") for element in genie)
    for node in nodes:
        _add_table(draft, node, reverse=reverse)
    return draft


def _add_table(draft: Draft, node: Element, *, reverse: bool) -> None:
    child = node.attribute("id")
    parents = [word for element in node.all("parents") for word in element.words()]
    if reverse:
        parents = parents[::-1]
    if node.name == "cpt":
        draft.add_numbers(child, parents, node.one("probabilities").words())
        return
    shape = draft.shape(child, parents)
    words, n_contexts = node.one("resultingstates").words(), prod(shape[:-1])
    if len(words) != n_contexts:
        found = f"{len(words)} resulting states where {n_contexts} are expected"
        fail(child.place, f"{child.text!r} has {found}")
    certain = np.eye(shape[-1])[[draft.state(child.text, word) for word in words]]
    draft.add_table(child, parents, certain.reshape(shape))


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
        draft.add_numbers(child, parents, definition.one("TABLE").words())
    for note in network.all("PROPERTY"):
        if note.text().text.startswith(NOTE):
            try:
                found = json.loads(note.text().text.removeprefix(NOTE))
            except (ValueError, RecursionError) as error:
                fail(note.place, f"Tanager's own property is not JSON ({str(error)[:80]})")
            draft.notes = found if isinstance(found, dict) else {}
    return draft
