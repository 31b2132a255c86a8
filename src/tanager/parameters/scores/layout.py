"""Where the parameters of a structure are: one vector of cells, each with a number per class.

::

    cell 0            the class node
    family 0          (n_contexts, arity) cells: context major, the feature's value minor
    family 1          ...
    last cell         zeros, read by rows with an unknown member

A family of few possible contexts has them all, in the order of a `DenseTable`.
A larger one has only the contexts seen in training (under any class): the
prefix tree of the parents' values, on which a context is found level by level,
so that no key can overflow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Codes, Domain
from tanager.counts import Contexts, ContextTree
from tanager.errors import MemoryBoundError
from tanager.parameters.tables import (
    DENSE_FACTOR,
    LARGE_CELLS,
    SMALL_CELLS,
    FamilyTable,
    Tables,
    family_members,
)
from tanager.structure import Structure

__all__ = ["FamilyCells", "Layout", "by_class", "cell_pairs", "read_rows", "value_pairs"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_NUMBER = (1 << 31) - 1  # of a cell: they are held as int32
GRID_ROWS = 1 << 18  # contexts spelled out at a time where a table is read


@dataclass(frozen=True)
class FamilyCells:
    """The cells of one family.

    Attributes
    ----------
    members : ndarray of int64
        The features of its parents, then its own.
    shape : tuple of int
        Arities of the members.
    start : int
        Its first cell.
    contexts : Contexts or None
        The prefix tree of the parents' values seen, whatever the class; None
        where every possible context has cells.
    """

    members: Ints
    shape: tuple[int, ...]
    start: int
    contexts: Contexts | None

    @property
    def arity(self) -> int:
        """Number of values of the feature."""
        return self.shape[-1]

    @property
    def depth(self) -> int:
        """Number of parents."""
        return len(self.shape) - 1

    @property
    def n_contexts(self) -> int:
        """Number of contexts that have cells."""
        return self.n_prefixes(self.depth)

    @property
    def cells(self) -> slice:
        """Its cells in the vector."""
        return slice(self.start, self.start + self.n_contexts * self.arity)

    def n_prefixes(self, depth: int) -> int:
        """Return the number of contexts of the first `depth` parents."""
        if self.contexts is None:
            return prod(self.shape[:depth])
        return int(np.diff(self.contexts.level_node)[depth])

    def prefix_parents(self, depth: int) -> Ints:
        """Return for each context of the first `depth` parents the one without the last."""
        if self.contexts is None:
            return np.arange(self.n_prefixes(depth)) // self.shape[depth - 1]
        nodes = self.contexts.nodes(depth)
        return self.contexts.node_parent[nodes] - self.contexts.level_node[depth - 1]

    def prefix_values(self, depth: int) -> Ints:
        """Return the parents' values of those contexts, shape (depth, n_prefixes)."""
        if self.contexts is not None:
            return self.contexts.values(depth)
        return np.indices(self.shape[:depth]).reshape(depth, self.n_prefixes(depth))

    def step(self, prefix: Ints, depth: int, value: Ints) -> Ints:
        """Return the contexts of one parent more, from those of `depth` and its values.

        Both are of one shape; -1 in, or a context that has no cells, gives -1.
        """
        arity = self.shape[depth]
        wanted = prefix * arity + value
        known = (prefix >= 0) & (value < arity)
        if self.contexts is None:
            return np.where(known, wanted, -1)
        nodes = self.contexts.nodes(depth + 1)
        keys = self.prefix_parents(depth + 1) * arity + self.contexts.node_value[nodes]
        found = np.searchsorted(keys, wanted)
        known &= np.append(keys, -1)[found] == wanted
        return np.where(known, found, -1)

    def find(self, codes: Codes, blank: int) -> NDArray[np.int32]:
        """Return the cell of each row, counted from the family's first; `blank` for none."""
        context = np.zeros(codes.shape[1], np.int64)
        for depth, parent in enumerate(self.members[:-1]):
            context = self.step(context, depth, codes[parent].astype(np.int64))
        value = codes[self.members[-1]]
        known = (context >= 0) & (value < self.arity)
        return np.where(known, context * self.arity + value, blank).astype(np.int32)

    def read(self, table: FamilyTable) -> Floats:
        """Return a table's log-probabilities of these cells, shape (n_cells, n_classes)."""
        if self.contexts is None:
            return table.to_dense().log_prob.reshape(-1, table.n_classes)
        return read_rows(table, self.prefix_values(self.depth), self.shape)

    def read_prefix(self, table: FamilyTable, depth: int) -> Floats:
        """Return the same of a table under the first `depth` parents alone."""
        shape = (*self.shape[:depth], self.arity)
        return read_rows(table, self.prefix_values(self.depth)[:depth], shape)


@dataclass(frozen=True)
class Layout:
    """All cells of a structure; see the module's drawing.

    Attributes
    ----------
    structure : Structure
    domain : Domain
    families : tuple of FamilyCells
        Aligned with ``structure.selected``.
    """

    structure: Structure
    domain: Domain
    families: tuple[FamilyCells, ...]

    @classmethod
    def of(cls, structure: Structure, domain: Domain, trees: list[ContextTree]) -> Layout:
        """Choose for each family whether all contexts or only the seen have cells."""
        families: list[FamilyCells] = []
        start = 1
        for at, tree in enumerate(trees):
            members = family_members(structure, at)
            shape = tuple(int(domain.arities[m]) for m in members)
            family = FamilyCells(members, shape, start, None)
            n_cells = prod(shape) * domain.n_classes
            if n_cells > SMALL_CELLS:
                tree_family = replace(family, contexts=tree.without_class())
                seen = tree_family.n_contexts * family.arity * domain.n_classes
                if n_cells > min(LARGE_CELLS, DENSE_FACTOR * seen) and n_cells != seen:
                    family = tree_family
            families.append(family)
            start = family.cells.stop
        if start + 1 > MAX_NUMBER:
            raise MemoryBoundError(
                f"The structure has {start:,} parameters a class, more than {MAX_NUMBER:,}. "
                "Hint: use fewer parents a feature, or a generative parameter learner."
            )
        return cls(structure, domain, tuple(families))

    @property
    def n_cells(self) -> int:
        """Number of cells, the class node and the last cell of zeros included."""
        return (self.families[-1].cells.stop if self.families else 1) + 1

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.domain.n_classes

    def locate(self, codes: Codes) -> NDArray[np.int32]:
        """Return every family's cell of each row, shape (n_families, n_rows).

        A row with an unknown member, or with a context without cells, has the last.
        """
        cells = np.empty((len(self.families), codes.shape[1]), np.int32)
        for at, family in enumerate(self.families):
            cells[at] = family.start + family.find(codes, self.n_cells - 1 - family.start)
        return cells

    def read(self, tables: Tables) -> Floats:
        """Return the tables' logarithms of all cells, shape (n_cells, n_classes)."""
        flat = np.zeros((self.n_cells, self.n_classes))
        flat[0] = tables.log_prior
        for family, table in zip(self.families, tables.families, strict=True):
            flat[family.cells] = family.read(table)
        return flat

    def counts(self, trees: list[ContextTree]) -> Floats:
        """Return N(value, parents) of every cell, all classes together, shape (n_cells,)."""
        out = np.zeros(self.n_cells)
        for family, tree in zip(self.families, trees, strict=True):
            last = tree.levels[-1]
            context = np.zeros(last.n_nodes, np.int64)
            for depth, value in enumerate(tree.values(tree.depth)[1:]):
                context = family.step(context, depth, value)
            cell = context[last.cell_nodes()] * family.arity + last.cell_value
            np.add.at(out, family.start + cell, last.cell_count)
        return out


def read_rows(table: FamilyTable, contexts: Ints, shape: tuple[int, ...]) -> Floats:
    """Return a table's rows of given contexts, shape (n_contexts * arity, n_classes)."""
    arity, depth = shape[-1], len(shape) - 1
    out = np.zeros((contexts.shape[1] * arity, table.n_classes))
    step = max(1, GRID_ROWS // arity)
    for low in range(0, contexts.shape[1], step):
        part = contexts[:, low : low + step]
        grid = np.empty((depth + 1, part.shape[1] * arity), np.uint16)
        grid[:depth] = np.repeat(part, arity, axis=1)
        grid[depth] = np.tile(np.arange(arity, dtype=np.uint16), part.shape[1])
        rows = slice(low * arity, low * arity + grid.shape[1])
        table.add_terms(grid, np.array(shape), np.arange(depth + 1), out[rows])
    return out


def cell_pairs(layout: Layout) -> Ints:
    """Return all pairs of neighbouring cells, shape (2, n_pairs).

    A family without cells for every context has no pairs across those that lack them.
    """
    found = [np.zeros((2, 0), np.int64)]
    for family in layout.families:
        contexts = family.prefix_values(family.depth)
        grid = np.arange(family.n_contexts * family.arity)
        values = np.concatenate(
            [np.repeat(contexts, family.arity, axis=1), (grid % family.arity)[None]]
        )
        for axis, member in enumerate(family.members.tolist()):
            n_ordered = layout.domain.n_ordered[member]
            below = np.flatnonzero(values[axis] < n_ordered - 1)
            moved = values[:, below].copy()
            moved[axis] += 1
            place = _find(family, moved)
            known = place >= 0
            found.append(family.start + np.stack([below[known], place[known]]))
    return np.concatenate(found, axis=1)


def _find(family: FamilyCells, values: Ints) -> Ints:
    """Return the cells of members' values (n_members, n), from the family's first; -1 for none."""
    context = np.zeros(values.shape[1], np.int64)
    for depth in range(family.depth):
        context = family.step(context, depth, values[depth])
    return np.where(context >= 0, context * family.arity + values[-1], -1)


def value_pairs(layout: Layout) -> Ints:
    """Return pairs of neighbouring values, as corrections number them without their classes."""
    found, start = [np.zeros((2, 0), np.int64)], 1
    for family in layout.families:
        below = start + np.arange(max(layout.domain.n_ordered[int(family.members[-1])] - 1, 0))
        found.append(np.stack([below, below + 1]))
        start += family.arity
    return np.concatenate(found, axis=1)


def by_class(pairs: Ints, n_classes: int) -> Ints:
    """Return pairs of parameters, one a class, from pairs of cells."""
    return (pairs[:, :, None] * n_classes + np.arange(n_classes)).reshape(2, -1)
