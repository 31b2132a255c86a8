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


class Word(NamedTuple):
    """A piece of a file's text and its position, counted from 1."""

    text: str
    line: int
    column: int
    is_sign: bool = False  # such as ``{``, or the end of the file, whose text is empty

    def refuse(self, why: str, hint: str = "") -> NoReturn:
        """Reject the file at this position."""
        end = f" {hint}" if hint else ""
        raise ModelFileError(f"line {self.line}, column {self.column}: {why}.{end}")


class Draft:
    """A network under construction.

    Tables may refer to nodes that are declared later, so a reader declares all nodes first.
    """

    def __init__(self) -> None:
        self._names: dict[str, Word] = {}
        self._states: dict[str, dict[str, int]] = {}  # their indices
        self._tables: dict[str, tuple[list[str], Floats]] = {}  # parents, as `shape` says
        self.notes: dict[str, Any] = {}  # additional data written by Tanager

    def add_node(self, name: Word, states: Sequence[Word]) -> None:
        """Declare a node."""
        if name.text in self._names:
            name.refuse(f"the node {name.text!r} is declared twice")
        if not states:
            name.refuse(f"the node {name.text!r} has no states")
        self._names[name.text], self._states[name.text] = name, {}
        for at, state in enumerate(states):
            if self._states[name.text].setdefault(state.text, at) != at:
                state.refuse(f"{name.text!r} has the state {state.text!r} twice")

    def shape(self, child: Word, parents: Sequence[Word]) -> tuple[int, ...]:
        """Return the shape of a table, parents first; raise if one is unknown, repeated or huge."""
        for member in (*parents, child):
            if member.text not in self._names:
                hint = nearest(member.text, list(self._names)).strip()
                member.refuse(f"the node {member.text!r} is not declared", hint)
        names = [member.text for member in (*parents, child)]
        if len(set(names)) != len(names):
            child.refuse(f"the table of {child.text!r} names a node twice")
        if child.text in self._tables:
            child.refuse(f"the node {child.text!r} has two tables")
        shape = tuple(len(self._states[name]) for name in names)
        if prod(shape) > MAX_CELLS:
            n_cells = f"{prod(shape):,} cells, beyond the limit of {MAX_CELLS:,}"
            child.refuse(f"the table of {child.text!r} has {n_cells}")
        return shape

    def state(self, node: str, state: Word) -> int:
        """Return the index of a node's state."""
        known = self._states[node]
        if state.text not in known:
            state.refuse(f"{node!r} has no state {state.text!r}; its states: {listed(known)}")
        return known[state.text]

    def add_table(self, child: Word, parents: Sequence[Word], values: Floats) -> None:
        """Set the table of a node, (*parent states, states), as `shape` returns it."""
        names = [parent.text for parent in parents]
        if not (np.isfinite(values).all() and (values >= 0).all()):
            child.refuse(f"the table of {child.text!r} has a number that isn't a probability")
        totals = values.sum(axis=-1, keepdims=True)
        off = np.argwhere(np.abs(totals[..., 0] - 1.0) > TOLERANCE)
        if off.size:
            known = zip(names, off[0].tolist(), strict=True)
            told = [f"{name}={list(self._states[name])[s]}" for name, s in known]
            context = f" given {', '.join(told)}" if told else ""
            total = float(totals[tuple(off[0])][0])
            why = f"the probabilities of {child.text!r}{context} sum to {total:.6g}"
            child.refuse(why, "They must sum to one.")
        self._tables[child.text] = names, values / totals

    def add_numbers(self, child: Word, parents: Sequence[Word], words: Sequence[Word]) -> None:
        """Set the table of a node from words in the order of its axes."""
        shape = self.shape(child, parents)
        self.add_table(child, parents, self.numbers(child, words, prod(shape)).reshape(shape))

    def numbers(self, child: Word, words: Sequence[Word], n_wanted: int) -> Floats:
        """Convert `n_wanted` words to numbers."""
        if len(words) != n_wanted:
            found = f"{len(words):,} numbers where {n_wanted:,} are expected"
            (words or [child])[-1].refuse(f"the table of {child.text!r} has {found}")
        values = np.empty(n_wanted)
        for at, word in enumerate(words):
            try:
                values[at] = float(word.text)
            except ValueError:
                word.refuse(f"{word.text[:40]!r} is not a number")
        return values

    def finish(self) -> list[Variable]:
        """Return the nodes with their tables; raise if one has no table, or if there is a cycle."""
        if not self._names:
            raise ModelFileError("the file declares no nodes.")
        for name, word in self._names.items():
            if name not in self._tables:
                word.refuse(f"the node {name!r} has no table")
        index, found = {name: at for at, name in enumerate(self._names)}, []
        for name, states in self._states.items():
            parents, values = self._tables[name]
            places = tuple(index[parent] for parent in parents)
            found.append(Variable(name, tuple(states), places, values))
        # Raises if there is a cycle, and names it.
        Structure.from_parents(list(index), [variable.parents for variable in found])
        return found
