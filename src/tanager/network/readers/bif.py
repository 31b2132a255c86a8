"""The Bayesian Interchange Format, as bnlearn, pgmpy, pyAgrum, GeNIe and JavaBayes write it."""

from __future__ import annotations

from math import prod

import numpy as np

from tanager.network.readers.draft import Draft, Word, fail
from tanager.network.readers.tokens import Token, Tokens

__all__ = ["read_bif"]

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
