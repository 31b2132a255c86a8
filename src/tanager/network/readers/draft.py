"""The nodes and tables that the readers of all formats fill in, checked as they are added."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple, NoReturn

import numpy as np

from tanager.errors import ModelFileError, listed, nearest
from tanager.network.exports.bif import Variable
from tanager.numerics import Floats
from tanager.structure import Structure

MAX_CELLS = 1 << 24  # of one table: 128 MiB
TOLERANCE = 1e-3  # largest deviation of a rounded distribution's sum from one


class Position(NamedTuple):
    """A position in a file, counted from 1."""

    line: int
    column: int


class Word(NamedTuple):
    """A piece of text and its position."""

    text: str
    place: Position


def fail(place: Position, why: str, hint: str = "") -> NoReturn:
    """Reject the file at a position."""
    end = f" {hint}" if hint else ""
    raise ModelFileError(f"line {place.line}, column {place.column}: {why}.{end}")


class _Node(NamedTuple):
    states: list[Word]
    place: Position


class _Table(NamedTuple):
    parents: list[str]
    values: Floats  # (*parent states, states)


class Draft:
    """A network under construction.

    Tables may refer to nodes that are declared later, so a reader declares all nodes
    first and then adds the tables. `notes` contains additional data written by Tanager.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._tables: dict[str, _Table] = {}
        self.notes: dict[str, Any] = {}

    def add_node(self, name: Word, states: Sequence[Word]) -> None:
        """Declare a node."""
        if name.text in self._nodes:
            fail(name.place, f"the node {name.text!r} is declared twice")
        if not states:
            fail(name.place, f"the node {name.text!r} has no states")
        seen: set[str] = set()
        for state in states:
            if state.text in seen:
                fail(state.place, f"{name.text!r} has the state {state.text!r} twice")
            seen.add(state.text)
        self._nodes[name.text] = _Node(list(states), name.place)

    def shape(self, child: Word, parents: Sequence[Word]) -> tuple[int, ...]:
        """Return the shape of a table, parents first; raise if one is unknown, repeated or huge."""
        members = [*parents, child]
        for member in members:
            if member.text not in self._nodes:
                hint = nearest(member.text, list(self._nodes)).strip()
                fail(member.place, f"the node {member.text!r} is not declared", hint)
        names = [member.text for member in members]
        if len(set(names)) != len(names):
            fail(child.place, f"the table of {child.text!r} names a node twice")
        if child.text in self._tables:
            fail(child.place, f"the node {child.text!r} has two tables")
        shape = tuple(len(self._nodes[name].states) for name in names)
        if prod(shape) > MAX_CELLS:
            n_cells = f"{prod(shape):,} cells, beyond the limit of {MAX_CELLS:,}"
            fail(child.place, f"the table of {child.text!r} has {n_cells}")
        return shape

    def state(self, node: str, state: Word) -> int:
        """Return the index of a node's state."""
        known = [word.text for word in self._nodes[node].states]
        if state.text not in known:
            fail(state.place, f"{node!r} has no state {state.text!r}; its states: {listed(known)}")
        return known.index(state.text)

    def add_table(self, child: Word, parents: Sequence[Word], values: Floats) -> None:
        """Set the table of a node, (*parent states, states), as `shape` returns it."""
        names = [parent.text for parent in parents]
        if not (np.isfinite(values).all() and (values >= 0).all()):
            fail(child.place, f"the table of {child.text!r} has a number that isn't a probability")
        totals = values.sum(axis=-1, keepdims=True)
        off = np.argwhere(np.abs(totals[..., 0] - 1.0) > TOLERANCE)
        if off.size:
            known = zip(names, off[0], strict=True)
            told = [f"{name}={self._nodes[name].states[int(s)].text}" for name, s in known]
            context = f" given {', '.join(told)}" if told else ""
            total = float(totals[tuple(off[0])][0])
            why = f"the probabilities of {child.text!r}{context} sum to {total:.6g}"
            fail(child.place, why, "They must sum to one.")
        self._tables[child.text] = _Table(names, values / totals)

    def add_numbers(self, child: Word, parents: Sequence[Word], words: Sequence[Word]) -> None:
        """Set the table of a node from words in the order of its axes."""
        shape = self.shape(child, parents)
        self.add_table(child, parents, self.numbers(child, words, prod(shape)).reshape(shape))

    def numbers(self, child: Word, words: Sequence[Word], n_wanted: int) -> Floats:
        """Convert `n_wanted` words to numbers."""
        if len(words) != n_wanted:
            found = f"{len(words):,} numbers where {n_wanted:,} are expected"
            place = words[-1].place if words else child.place
            fail(place, f"the table of {child.text!r} has {found}")
        values = np.empty(n_wanted)
        for at, word in enumerate(words):
            try:
                values[at] = float(word.text)
            except ValueError:
                fail(word.place, f"{word.text[:40]!r} is not a number")
        return values

    def finish(self) -> list[Variable]:
        """Return the nodes with their tables; raise if one has no table, or if there is a cycle."""
        names = list(self._nodes)
        if not names:
            raise ModelFileError("the file declares no nodes.")
        for name, node in self._nodes.items():
            if name not in self._tables:
                fail(node.place, f"the node {name!r} has no table")
        index = {name: at for at, name in enumerate(names)}
        parents = [tuple(index[p] for p in self._tables[name].parents) for name in names]
        Structure.from_parents(names, parents)  # raises if there is a cycle, and names it
        states = [tuple(word.text for word in node.states) for node in self._nodes.values()]
        tables = [self._tables[name].values for name in names]
        return list(map(Variable, names, states, parents, tables))
