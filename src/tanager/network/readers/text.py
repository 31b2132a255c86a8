"""The formats that are texts: BIF and Hugin's NET, read token by token."""

from __future__ import annotations

import re
from bisect import bisect_right
from math import prod
from typing import NamedTuple

import numpy as np

from tanager.network.readers.draft import Draft, Place, Word, fail


class Token(NamedTuple):
    """A word (quotes removed), a sign such as ``{``, or the end of the file (empty text)."""

    text: str
    start: int
    is_word: bool


class Tokens:
    r"""A reader over a text: `signs` stand alone, what matches `comments` is passed over.

    >>> tokens = Tokens('node "a b" { }', "{}", "%[^\n]*")
    >>> [tokens.next().text for _ in range(4)]
    ['node', 'a b', '{', '}']
    """

    def __init__(self, text: str, signs: str, comments: str) -> None:
        self._text = text
        end = re.escape(signs)
        self._pattern = re.compile(
            rf'(?:\s+|{comments})*+(?:(?P<sign>[{end}])|"(?P<quoted>(?:[^"\\]|\\.)*+)"'
            rf'|(?P<word>[^\s"{end}]++)|(?P<bad>"))?',
            re.DOTALL,
        )
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]
        self._at = 0
        self._ahead: Token | None = None

    def peek(self) -> Token:
        """Return the next token, and stay before it."""
        if self._ahead is None:
            self._ahead = self._read()
        return self._ahead

    def next(self) -> Token:
        """Return the next token."""
        token = self.peek()
        self._ahead = None
        return token

    def _read(self) -> Token:
        found = self._pattern.match(self._text, self._at)
        assert found is not None  # all of the pattern is optional
        self._at = found.end()
        kind = found.lastgroup
        if kind is None:
            return Token("", self._at, is_word=False)
        start = found.start(kind)
        if kind == "bad":
            fail(self.place(start), "a quotation mark is never closed")
        text = found[kind]
        if kind == "quoted":
            return Token(re.sub(r"(?s)\\(.)", r"\1", text), start - 1, is_word=True)
        return Token(text, start, is_word=kind == "word")

    def place(self, start: int) -> Place:
        """Return the line and column of an offset."""
        line = bisect_right(self._lines, start)
        return Place(line, start - self._lines[line - 1] + 1)

    def located(self, token: Token) -> Word:
        """Return a token with its line and column."""
        return Word(token.text, self.place(token.start))

    def expect(self, sign: str) -> Token:
        """Return the next token, which must be a given sign or keyword."""
        token = self.next()
        if token.text != sign:
            self.refuse(token, repr(sign))
        return token

    def accept(self, sign: str) -> bool:
        """Pass over the next token if it is a given sign or keyword."""
        if self.peek().text == sign:
            self.next()
            return True
        return False

    def word(self, what: str) -> Word:
        """Return the next token, which must be a word; `what` it is."""
        token = self.next()
        if not token.is_word:
            self.refuse(token, what)
        return self.located(token)

    def words_until(self, *ends: str, between: str = "") -> list[Token]:
        """Return the words up to a sign, which is read too; `between` them may be other signs."""
        found = []
        while True:
            token = self.next()
            if token.is_word:
                found.append(token)
            elif token.text in ends and token.text:
                return found
            elif not token.text or token.text not in between:
                self.refuse(token, f"a word or {' or '.join(map(repr, ends))}")

    def refuse(self, token: Token, wanted: str) -> None:
        """Refuse the file: something else is expected here."""
        found = repr(token.text[:40]) if token.text else "the end of the file"
        fail(self.place(token.start), f"{wanted} is expected here, not {found}")


_COMMENTS = r"//[^\n]*|/\*.*?\*/"


def read_bif(text: str) -> Draft:
    """Read a network; the tables are read once all variables are known."""
    tokens, draft = Tokens(text, "{}()[],;|", _COMMENTS), Draft()
    tables = []
    while (token := tokens.next()).text:
        if token.text == "network":
            _skip_block(tokens)
        elif token.text == "variable":
            _read_variable(tokens, draft)
        elif token.text == "probability":
            tables.append(_read_table(tokens))
        else:
            tokens.refuse(token, "'network', 'variable' or 'probability'")
    for members, rows in tables:
        _add_table(draft, tokens, members, rows)
    return draft


def _skip_block(tokens: Tokens) -> None:
    while not tokens.accept("{"):
        tokens.word("a name or '{'")
    while not tokens.accept("}"):
        token = tokens.next()
        if not token.text or token.text == "{":
            tokens.refuse(token, "'}'")


def _read_variable(tokens: Tokens, draft: Draft) -> None:
    name = tokens.word("the variable's name")
    tokens.expect("{")
    states: list[Word] | None = None
    while not tokens.accept("}"):
        key = tokens.word("'type', 'property' or '}'")
        if key.text != "type":
            _skip_line(tokens)
            continue
        kind = tokens.word("'discrete'")
        if kind.text != "discrete":
            fail(kind.place, f"{name.text!r} is {kind.text!r}; only discrete nodes can be read")
        tokens.expect("[")
        size = tokens.word("the number of states")
        tokens.expect("]")
        tokens.expect("{")
        states = [tokens.located(token) for token in tokens.words_until("}", between=",")]
        tokens.expect(";")
        if size.text != str(len(states)):
            fail(size.place, f"{name.text!r} has {len(states)} states, not {size.text[:20]}")
    draft.add_node(name, states or [])


def _skip_line(tokens: Tokens) -> None:
    while not tokens.accept(";"):
        token = tokens.next()
        if not token.text:
            tokens.refuse(token, "';'")


_Row = tuple[Token, list[Token], list[Token]]  # its beginning, the parents' states, numbers


def _read_table(tokens: Tokens) -> tuple[list[Word], list[_Row]]:
    """Return the child, then the parents; and the rows as they stand."""
    tokens.expect("(")
    members = [tokens.located(t) for t in tokens.words_until(")", between="|,")]
    brace = tokens.expect("{")
    if not members:
        tokens.refuse(brace, "a variable's name")
    rows: list[_Row] = []
    while not tokens.accept("}"):
        token = tokens.next()
        if token.text == "(":
            states = tokens.words_until(")", between=",")
            rows.append((token, states, tokens.words_until(";", between=",")))
        elif token.text in ("table", "default"):
            rows.append((token, [], tokens.words_until(";", between=",")))
        elif token.text == "property":
            _skip_line(tokens)
        else:
            tokens.refuse(token, "'(', 'table', 'default' or '}'")
    return members, rows


def _add_table(draft: Draft, tokens: Tokens, members: list[Word], rows: list[_Row]) -> None:
    child, *parents = members
    shape = draft.shape(child, parents)
    values = np.full(shape, np.nan)
    default = None
    for start, states, words in rows:
        numbers = [tokens.located(word) for word in words]
        if start.text == "table":
            # The child's state is the slowest here, unlike in all other formats.
            flat = draft.numbers(child, numbers, prod(shape))
            values = np.moveaxis(flat.reshape(shape[-1], *shape[:-1]), 0, -1)
            continue
        row = draft.numbers(child, numbers, shape[-1])
        if start.text == "default":
            default = row
            continue
        if len(states) != len(parents):
            fail(
                tokens.place(start.start),
                f"{len(states)} states are given for {len(parents)} parents of {child.text!r}",
            )
        pairs = zip(parents, map(tokens.located, states), strict=True)
        at = tuple(draft.state(parent.text, state) for parent, state in pairs)
        if not np.isnan(values[at]).all():
            fail(tokens.place(start.start), f"this row of {child.text!r} is there already")
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


class _Potential(NamedTuple):
    members: list[Word]
    data: list[Token]


def read_net(text: str) -> Draft:
    """Read a network; the tables are read once all nodes are known."""
    tokens, draft = Tokens(text, "{}()|=;", r"%[^\n]*"), Draft()
    potentials, inside = [], 0
    while (token := tokens.next()).text:
        if token.text == "class":  # wraps a whole network in newer files
            tokens.word("the class's name")
            tokens.expect("{")
            inside += 1
        elif token.text == "}" and inside:
            inside -= 1
        elif inside and tokens.peek().text == "=":  # what other programs keep of the class
            tokens.next()
            _read_value(tokens)
        elif token.text == "net":
            _read_block(tokens)
        elif token.text == "potential":
            potentials.append(_read_potential(tokens))
        elif token.text == "node" or token.text in _KINDS:
            _read_node(tokens, token, draft)
        else:
            tokens.refuse(token, "'net', 'node' or 'potential'")
    for potential in potentials:
        child, *parents = potential.members
        shape = draft.shape(child, parents)
        words = [tokens.located(token) for token in potential.data]
        numbers = draft.numbers(child, words, prod(shape))
        draft.add_table(child, parents, numbers.reshape(shape))
    return draft


def _read_node(tokens: Tokens, token: Token, draft: Draft) -> None:
    """Declare a node; nodes without states of their own are refused by name."""
    kind = token.text
    while kind != "node" and tokens.peek().text in ("node", *_KINDS):
        kind = tokens.next().text if kind not in _FOREIGN else kind
        if kind in _FOREIGN:
            tokens.accept("node")
            break
    name = tokens.word("the node's name")
    if kind in _FOREIGN:
        fail(name.place, f"{name.text!r} is a {kind} node; only discrete ones can be read")
    states = _read_block(tokens).get("states", [])
    draft.add_node(name, [tokens.located(state) for state in states])


def _read_potential(tokens: Tokens) -> _Potential:
    tokens.expect("(")
    members = [tokens.located(token) for token in tokens.words_until(")", between="|")]
    brace = tokens.peek()
    if not members:
        tokens.refuse(brace, "a node's name")
    block = _read_block(tokens)
    if "data" not in block:
        fail(
            members[0].place,
            f"the table of {members[0].text!r} has no data",
            "Save the network with its tables spelled out.",
        )
    return _Potential(members, block["data"])


def _read_block(tokens: Tokens) -> dict[str, list[Token]]:
    """Return the words of every entry of a block, by its key."""
    tokens.expect("{")
    entries: dict[str, list[Token]] = {}
    while not tokens.accept("}"):
        key = tokens.word("a key or '}'")
        tokens.expect("=")
        entries[key.text] = _read_value(tokens)
    return entries


def _read_value(tokens: Tokens) -> list[Token]:
    return tokens.words_until(";", between="()")
