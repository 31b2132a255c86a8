"""The formats: BIF and Hugin's NET, parsed token by token; XMLBIF 0.3 and GeNIe's XDSL.

XML is parsed without expanding or fetching entities.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any, NoReturn, TypeAlias
from xml.parsers import expat

import numpy as np

from tanager.errors import ModelFileError
from tanager.network.exports.bif import NOTE
from tanager.network.readers.draft import Draft, Word

MAX_DEPTH = 50  # of nested XML elements


class Tokens:
    r"""A tokeniser: each of `signs` is a token, text that matches `comments` is skipped.

    >>> tokens = Tokens(b'node "a b" { }', "{}", "%[^\n]*")
    >>> [tokens.next().text for _ in range(4)]
    ['node', 'a b', '{', '}']
    """

    def __init__(self, data: bytes, signs: str, comments: str) -> None:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:  # anything else is Latin-1, which older programs write
            text = data.decode("latin-1")
        end = re.escape(signs)
        self._pattern = re.compile(
            rf'(?:\s+|{comments})*+(?:(?P<sign>[{end}])|"(?P<quoted>(?:[^"\\]|\\.)*+)"'
            rf'|(?P<word>[^\s"{end}]++)|(?P<bad>"))?',
            re.DOTALL,
        )
        self._scan = self._tokens(text)
        self.ahead = next(self._scan)

    def _tokens(self, text: str) -> Iterator[Word]:
        line, before = 1, -1  # the line of `counted`, and the end of the previous line
        at = counted = 0
        while True:
            found = self._pattern.match(text, at)
            assert found is not None  # the pattern is entirely optional
            kind = found.lastgroup or "end"
            start = found.end() if kind == "end" else found.start(kind) - (kind == "quoted")
            if n_lines := text.count("\n", counted, start):
                line, before = line + n_lines, text.rindex("\n", counted, start)
            word = "" if kind == "end" else found[kind]
            if kind == "quoted":
                word = re.sub(r"(?s)\\(.)", r"\1", word)
            token = Word(word, line, start - before, kind in ("sign", "end"))
            if kind == "bad":
                token.refuse("a quotation mark is never closed")
            yield token
            at, counted = found.end(), start

    def next(self) -> Word:
        """Return the next token."""
        token, self.ahead = self.ahead, next(self._scan)
        return token

    def expect(self, sign: str) -> None:
        """Skip the next token, which must be the given sign or keyword."""
        if not self.accept(sign):
            _expect(self.ahead, repr(sign))

    def accept(self, sign: str) -> bool:
        """Skip the next token if it's the given sign or keyword."""
        return self.ahead.text == sign and bool(self.next())

    def word(self, what: str) -> Word:
        """Return the next token, which must be a word; `what` describes it in errors."""
        token = self.next()
        if token.is_sign:
            _expect(token, what)
        return token

    def words_until(self, end: str, between: str = "") -> list[Word]:
        """Return the words up to and including a sign; signs in `between` are skipped."""
        found = []
        while not (token := self.next()).is_sign or token.text != end:
            if not token.is_sign:
                found.append(token)
            elif not token.text or token.text not in between:
                _expect(token, f"a word or {end!r}")
        return found

    def skip_until(self, end: str, without: str = "") -> None:
        """Skip everything up to and including a sign; raise if the sign `without` comes before."""
        while not self.accept(end):
            token = self.next()
            if token.text in ("", without):
                _expect(token, repr(end))


def _expect(token: Word, wanted: str) -> NoReturn:
    """Reject the file because something else is expected here."""
    found = repr(token.text[:40]) if token.text else "the end of the file"
    token.refuse(f"{wanted} is expected here, not {found}")


def read_bif(data: bytes) -> Draft:
    """Read a network; tables are parsed once all variables are known."""
    tokens, draft = Tokens(data, "{}()[],;|", r"//[^\n]*|/\*.*?\*/"), Draft()
    tables = []
    while (token := tokens.next()).text:
        if token.text == "network":
            while not tokens.accept("{"):
                tokens.word("a name or '{'")
            tokens.skip_until("}", without="{")
        elif token.text == "variable":
            _read_variable(tokens, draft)
        elif token.text == "probability":
            tables.append(_read_table(tokens))
        else:
            _expect(token, "'network', 'variable' or 'probability'")
    for members, rows in tables:
        _add_table(draft, members, rows)
    return draft


def _read_variable(tokens: Tokens, draft: Draft) -> None:
    name = tokens.word("the variable's name")
    tokens.expect("{")
    states: list[Word] = []
    while not tokens.accept("}"):
        if tokens.word("'type', 'property' or '}'").text != "type":
            tokens.skip_until(";")
            continue
        kind = tokens.word("'discrete'")
        if kind.text != "discrete":
            kind.refuse(f"{name.text!r} is {kind.text!r}; only discrete nodes can be read")
        tokens.expect("[")
        size = tokens.word("the number of states")
        tokens.expect("]")
        tokens.expect("{")
        states = tokens.words_until("}", between=",")
        tokens.expect(";")
        if size.text != str(len(states)):
            size.refuse(f"{name.text!r} has {len(states)} states, not {size.text[:20]}")
    draft.add_node(name, states)


# '(', 'table' or 'default'; the states of the parents; the numbers.
_Row: TypeAlias = tuple[Word, list[Word], list[Word]]


def _read_members(tokens: Tokens, between: str, what: str) -> list[Word]:
    """Return the child, then the parents."""
    tokens.expect("(")
    members = tokens.words_until(")", between)
    if not members:
        _expect(tokens.ahead, what)
    return members


def _read_table(tokens: Tokens) -> tuple[list[Word], list[_Row]]:
    """Return the members, and the rows as written."""
    members = _read_members(tokens, "|,", "a variable's name")
    tokens.expect("{")
    rows = []
    while not tokens.accept("}"):
        token = tokens.next()
        if token.text == "property":
            tokens.skip_until(";")
        elif token.text in ("(", "table", "default"):
            states = tokens.words_until(")", between=",") if token.text == "(" else []
            rows.append((token, states, tokens.words_until(";", between=",")))
        else:
            _expect(token, "'(', 'table', 'default' or '}'")
    return members, rows


def _add_table(draft: Draft, members: list[Word], rows: list[_Row]) -> None:
    child, *parents = members
    shape = draft.shape(child, parents)
    values, default = np.full(shape, np.nan), None
    for start, states, numbers in rows:
        if start.text == "table":
            # The child's state varies slowest here, unlike in all other formats.
            flat = draft.numbers(child, numbers, prod(shape))
            values = np.moveaxis(flat.reshape(shape[-1], *shape[:-1]), 0, -1)
            continue
        row = draft.numbers(child, numbers, shape[-1])
        if start.text == "default":
            default = row
            continue
        if (n := len(states)) != len(parents):
            start.refuse(f"{n} states are given for {len(parents)} parents of {child.text!r}")
        at = tuple(draft.state(p.text, state) for p, state in zip(parents, states, strict=True))
        if not np.isnan(values[at]).all():
            start.refuse(f"this row of {child.text!r} is there already")
        values[at] = row
    empty = np.isnan(values).any(axis=-1)
    if empty.any() and default is None:
        child.refuse(f"the table of {child.text!r} lacks {empty.sum():,} of its rows")
    values[empty] = default
    draft.add_table(child, parents, np.ascontiguousarray(values))


_FOREIGN = ("continuous", "utility", "decision", "function", "interval", "boolean", "numbered")
_KINDS = ("discrete", "labelled", *_FOREIGN)


def read_net(data: bytes) -> Draft:
    """Read a network; tables are parsed once all nodes are known."""
    tokens, draft = Tokens(data, "{}()|=;", r"%[^\n]*"), Draft()
    potentials, inside = [], 0
    while (token := tokens.next()).text:
        if token.text == "class":  # encloses an entire network in newer files
            tokens.word("the class's name")
            tokens.expect("{")
            inside += 1
        elif token.text == "}" and inside:
            inside -= 1
        elif inside and tokens.accept("="):  # attributes of the class written by other programs
            tokens.words_until(";", between="()")
        elif token.text == "net":
            _read_block(tokens)
        elif token.text == "potential":
            potentials.append(_read_potential(tokens))
        elif token.text == "node" or token.text in _KINDS:
            _read_node(tokens, token, draft)
        else:
            _expect(token, "'net', 'node' or 'potential'")
    for (child, *parents), numbers in potentials:
        draft.add_numbers(child, parents, numbers)
    return draft


def _read_node(tokens: Tokens, token: Word, draft: Draft) -> None:
    """Declare a node; raise if it isn't discrete."""
    kind = token.text
    while kind != "node" and tokens.ahead.text in ("node", *_KINDS):
        kind = tokens.next().text if kind not in _FOREIGN else kind
        if kind in _FOREIGN:
            tokens.accept("node")
            break
    name = tokens.word("the node's name")
    if kind in _FOREIGN:
        name.refuse(f"{name.text!r} is a {kind} node; only discrete ones can be read")
    draft.add_node(name, _read_block(tokens).get("states", []))


def _read_potential(tokens: Tokens) -> tuple[list[Word], list[Word]]:
    """Return the members of a table, and its numbers."""
    members = _read_members(tokens, "|", "a node's name")
    block = _read_block(tokens)
    if "data" not in block:
        why = f"the table of {members[0].text!r} has no data"
        members[0].refuse(why, "Save the network with its tables spelled out.")
    return members, block["data"]


def _read_block(tokens: Tokens) -> dict[str, list[Word]]:
    """Return the words of each entry of a block, by key."""
    tokens.expect("{")
    entries: dict[str, list[Word]] = {}
    while not tokens.accept("}"):
        key = tokens.word("a key or '}'")
        tokens.expect("=")
        entries[key.text] = tokens.words_until(";", between="()")
    return entries


@dataclass
class Element:
    """An element of XML: its name, attributes, text and children."""

    name: Word
    attributes: dict[str, str]
    children: list[Element] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)  # pieces of the text, as the parser gives them

    def all(self, name: str) -> list[Element]:
        """Return the children with a given name."""
        return [child for child in self.children if child.name.text == name]

    def text(self) -> Word:
        """Return the text, stripped."""
        return self.name._replace(text="".join(self.parts).strip())

    def words(self) -> list[Word]:
        """Return the words of the text."""
        return [self.name._replace(text=word) for word in "".join(self.parts).split()]

    def one(self, name: str) -> Element:
        """Return the only child with a given name."""
        found = self.all(name)
        if len(found) != 1:
            self.name.refuse(f"<{self.name.text}> has {len(found)} <{name}>, where one is expected")
        return found[0]

    def attribute(self, name: str) -> Word:
        """Return a required attribute."""
        if name not in self.attributes:
            self.name.refuse(f"<{self.name.text}> lacks the attribute {name!r}")
        return self.name._replace(text=self.attributes[name])


def read_elements(data: bytes, kind: str, name: str) -> Element:
    """Return the root of an XML file, which has this name; raise if it declares entities."""
    parser: Any = expat.ParserCreate()
    parser.buffer_text = True
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    top = Element(Word("", 1, 1), {})
    path = [top]

    def here(text: str = "") -> Word:
        return Word(text, parser.CurrentLineNumber, parser.CurrentColumnNumber + 1)

    def start(name: str, attributes: dict[str, str]) -> None:
        if len(path) > MAX_DEPTH:
            here().refuse(f"elements are nested more than {MAX_DEPTH} deep")
        element = Element(here(name), attributes)
        path[-1].children.append(element)
        path.append(element)

    def entity(*_: Any) -> None:
        here().refuse("the file declares an entity, which networks do not need")

    parser.StartElementHandler, parser.EndElementHandler = start, lambda _: path.pop()
    parser.CharacterDataHandler = lambda part: path[-1].parts.append(part)
    parser.EntityDeclHandler = entity
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        place = Word("", error.lineno, error.offset + 1)
        place.refuse(f"this is not XML ({expat.ErrorString(error.code)})")
    except (ValueError, LookupError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"the encoding of the file cannot be read ({error}).") from error
    root = top.children[0]
    if root.name.text != name:
        root.name.refuse(f"the file begins with <{root.name.text}>; {kind} begins with <{name}>")
    return root


def read_xdsl(data: bytes) -> Draft:
    """Read a network."""
    root, draft, nodes = read_elements(data, "xdsl", "smile"), Draft(), list[Element]()
    for node in root.one("nodes").children:
        if node.name.text == "submodel":  # a visual group of nodes
            continue
        name = node.attribute("id")
        kind = node.name.text
        if kind not in ("cpt", "deterministic"):
            why = f"{name.text!r} is a <{kind}> node; <cpt> and <deterministic> can be read"
            node.name.refuse(why, "Change the node's type to a general table in GeNIe.")
        draft.add_node(name, [state.attribute("id") for state in node.all("state")])
        nodes.append(node)
    # In files written by aGrUM, the first parent varies fastest.
    genie = [g for extensions in root.all("extensions") for g in extensions.all("genie")]
    reverse = any(element.attributes.get("app", "").startswith("aGrUM") for element in genie)
    for node in nodes:
        _add_xdsl_table(draft, node, reverse=reverse)
    return draft


def _add_xdsl_table(draft: Draft, node: Element, *, reverse: bool) -> None:
    child = node.attribute("id")
    parents = [word for element in node.all("parents") for word in element.words()]
    if reverse:
        parents = parents[::-1]
    if node.name.text == "cpt":
        draft.add_numbers(child, parents, node.one("probabilities").words())
        return
    shape = draft.shape(child, parents)
    words, n_contexts = node.one("resultingstates").words(), prod(shape[:-1])
    if (n := len(words)) != n_contexts:
        child.refuse(f"{child.text!r} has {n} resulting states where {n_contexts} are expected")
    certain = np.eye(shape[-1])[[draft.state(child.text, word) for word in words]]
    draft.add_table(child, parents, certain.reshape(shape))


def read_xmlbif(data: bytes) -> Draft:
    """Read a network, and the note of one that Tanager wrote."""
    draft, network = Draft(), read_elements(data, "xmlbif", "BIF").one("NETWORK")
    for variable in network.all("VARIABLE"):
        name = variable.one("NAME").text()
        kind = variable.attributes.get("TYPE", "nature")
        if kind != "nature":
            variable.name.refuse(f"{name.text!r} is a {kind} node; only chance nodes can be read")
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
                note.name.refuse(f"Tanager's own property is not JSON ({str(error)[:80]})")
            draft.notes = found if isinstance(found, dict) else {}
    return draft


# File suffixes, and the reader of the content.
FORMATS: dict[str, tuple[tuple[str, ...], Callable[[bytes], Draft]]] = {
    "bif": ((".bif",), read_bif),
    "xmlbif": ((".xml", ".xmlbif", ".bifxml"), read_xmlbif),
    "xdsl": ((".xdsl",), read_xdsl),
    "net": ((".net",), read_net),
}
