"""Hugin's NET, as Hugin, bnlearn, pgmpy and pyAgrum write it."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from tanager.network.readers.draft import Draft, Word, fail
from tanager.network.readers.tokens import Token, Tokens

__all__ = ["read_net"]

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
