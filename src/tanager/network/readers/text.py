"""Text formats, BIF and Hugin's NET, parsed token by token."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import NamedTuple

import numpy as np

from tanager.network.readers.draft import Draft, Position, Word, fail


class Token(NamedTuple):
    """A word (quotes removed), a sign such as ``{``, or the end of the file (empty text)."""

    text: str
    place: Position
    is_word: bool

    def refuse(self, wanted: str) -> None:
        """Reject the file because something else is expected here."""
        found = repr(self.text[:40]) if self.text else "the end of the file"
        fail(self.place, f"{wanted} is expected here, not {found}")


class Tokens:
    r"""A tokeniser: each of `signs` is a token, text that matches `comments` is skipped.

    >>> tokens = Tokens('node "a b" { }', "{}", "%[^\n]*")
    >>> [tokens.next().text for _ in range(4)]
    ['node', 'a b', '{', '}']
    """

    def __init__(self, text: str, signs: str, comments: str) -> None:
        end = re.escape(signs)
        self._pattern = re.compile(
            rf'(?:\s+|{comments})*+(?:(?P<sign>[{end}])|"(?P<quoted>(?:[^"\\]|\\.)*+)"'
            rf'|(?P<word>[^\s"{end}]++)|(?P<bad>"))?',
            re.DOTALL,
        )
        self._scan = self._tokens(text)
        self._ahead: Token | None = None

    def _tokens(self, text: str) -> Iterator[Token]:
        line, before = 1, -1  # the line of `counted`, and the end of the previous line
        at = counted = 0
        while True:
            found = self._pattern.match(text, at)
            assert found is not None  # the pattern is entirely optional
            kind = found.lastgroup or "end"
            start = found.end() if kind == "end" else found.start(kind) - (kind == "quoted")
            if n_lines := text.count("\n", counted, start):
                line, before = line + n_lines, text.rindex("\n", counted, start)
            place = Position(line, start - before)
            if kind == "bad":
                fail(place, "a quotation mark is never closed")
            word = "" if kind == "end" else found[kind]
            if kind == "quoted":
                word = re.sub(r"(?s)\\(.)", r"\1", word)
            yield Token(word, place, kind in ("quoted", "word"))
            at, counted = found.end(), start

    def peek(self) -> Token:
        """Return the next token without consuming it."""
        if self._ahead is None:
            self._ahead = next(self._scan)
        return self._ahead

    def next(self) -> Token:
        """Return the next token."""
        token, self._ahead = self.peek(), None
        return token

    def expect(self, sign: str) -> Token:
        """Return the next token, which must be the given sign or keyword."""
        token = self.next()
        if token.text != sign:
            token.refuse(repr(sign))
        return token

    def accept(self, sign: str) -> bool:
        """Skip the next token if it's the given sign or keyword."""
        return self.peek().text == sign and bool(self.next())

    def word(self, what: str) -> Word:
        """Return the next token, which must be a word; `what` describes it in errors."""
        token = self.next()
        if not token.is_word:
            token.refuse(what)
        return Word(token.text, token.place)

    def words_until(self, end: str, between: str = "") -> list[Word]:
        """Return the words up to and including a sign; signs in `between` are skipped."""
        found = []
        while (token := self.next()).is_word or token.text != end:
            if token.is_word:
                found.append(Word(token.text, token.place))
            elif not token.text or token.text not in between:
                token.refuse(f"a word or {end!r}")
        return found

    def skip_until(self, end: str, without: str = "") -> None:
        """Skip everything up to and including a sign; raise if the sign `without` comes before."""
        while not self.accept(end):
            token = self.next()
            if token.text in ("", without):
                token.refuse(repr(end))


def read_bif(text: str) -> Draft:
    """Read a network; tables are parsed once all variables are known."""
    tokens, draft = Tokens(text, "{}()[],;|", r"//[^\n]*|/\*.*?\*/"), Draft()
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
            token.refuse("'network', 'variable' or 'probability'")
    for members, rows in tables:
        _add_table(draft, members, rows)
    return draft


def _read_variable(tokens: Tokens, draft: Draft) -> None:
    name = tokens.word("the variable's name")
    tokens.expect("{")
    states: list[Word] = []
    while not tokens.accept("}"):
        key = tokens.word("'type', 'property' or '}'")
        if key.text != "type":
            tokens.skip_until(";")
            continue
        kind = tokens.word("'discrete'")
        if kind.text != "discrete":
            fail(kind.place, f"{name.text!r} is {kind.text!r}; only discrete nodes can be read")
        tokens.expect("[")
        size = tokens.word("the number of states")
        tokens.expect("]")
        tokens.expect("{")
        states = tokens.words_until("}", between=",")
        tokens.expect(";")
        if size.text != str(len(states)):
            fail(size.place, f"{name.text!r} has {len(states)} states, not {size.text[:20]}")
    draft.add_node(name, states)


class _Row(NamedTuple):
    start: Token  # '(', 'table' or 'default'
    states: list[Word]  # of the parents
    numbers: list[Word]


def _read_members(tokens: Tokens, between: str, what: str) -> list[Word]:
    """Return the child, then the parents."""
    tokens.expect("(")
    members = tokens.words_until(")", between)
    if not members:
        tokens.peek().refuse(what)
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
            rows.append(_Row(token, states, tokens.words_until(";", between=",")))
        else:
            token.refuse("'(', 'table', 'default' or '}'")
    return members, rows


def _add_table(draft: Draft, members: list[Word], rows: list[_Row]) -> None:
    child, *parents = members
    shape = draft.shape(child, parents)
    values = np.full(shape, np.nan)
    default = None
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
        if len(states) != len(parents):
            fail(
                start.place,
                f"{len(states)} states are given for {len(parents)} parents of {child.text!r}",
            )
        at = tuple(draft.state(p.text, state) for p, state in zip(parents, states, strict=True))
        if not np.isnan(values[at]).all():
            fail(start.place, f"this row of {child.text!r} is there already")
        values[at] = row
    empty = np.isnan(values).any(axis=-1)
    if empty.any():
        if default is None:
            n_empty = int(empty.sum())
            fail(child.place, f"the table of {child.text!r} lacks {n_empty:,} of its rows")
        values[empty] = default
    draft.add_table(child, parents, np.ascontiguousarray(values))


_FOREIGN = ("continuous", "utility", "decision", "function", "interval", "boolean", "numbered")
_KINDS = ("discrete", "labelled", *_FOREIGN)


def read_net(text: str) -> Draft:
    """Read a network; tables are parsed once all nodes are known."""
    tokens, draft = Tokens(text, "{}()|=;", r"%[^\n]*"), Draft()
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
            token.refuse("'net', 'node' or 'potential'")
    for (child, *parents), numbers in potentials:
        draft.add_numbers(child, parents, numbers)
    return draft


def _read_node(tokens: Tokens, token: Token, draft: Draft) -> None:
    """Declare a node; raise if it isn't discrete."""
    kind = token.text
    while kind != "node" and tokens.peek().text in ("node", *_KINDS):
        kind = tokens.next().text if kind not in _FOREIGN else kind
        if kind in _FOREIGN:
            tokens.accept("node")
            break
    name = tokens.word("the node's name")
    if kind in _FOREIGN:
        fail(name.place, f"{name.text!r} is a {kind} node; only discrete ones can be read")
    draft.add_node(name, _read_block(tokens).get("states", []))


def _read_potential(tokens: Tokens) -> tuple[list[Word], list[Word]]:
    """Return the members of a table, and its numbers."""
    members = _read_members(tokens, "|", "a node's name")
    block = _read_block(tokens)
    if "data" not in block:
        why = f"the table of {members[0].text!r} has no data"
        fail(members[0].place, why, "Save the network with its tables spelled out.")
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
