"""Where the parameters of a structure are: one vector of cells, each with a number per class.

::

    cell 0            the class node
    family 0          (n_contexts, arity) cells: context major, the feature's value minor
    family 1          ...
    last cell         zeros, read by rows with an unknown member

A family of few possible contexts has them all, in the order of a `DenseTable`.
A larger one has only the contexts seen in training (under any class), found
through the prefix tree of their parents' values, so that no key can overflow.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Codes, Domain
from tanager.counts import ContextTree
from tanager.errors import MemoryBoundError
from tanager.parameters.tables import FamilyTable, Tables, family_members
from tanager.structure import Structure

__all__ = ["FamilyCells", "Layout", "SeenContexts", "read_rows"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SMALL_CELLS = 1 << 14
LARGE_CELLS = 1 << 22
DENSE_FACTOR = 4
MAX_CELLS = (1 << 31) - 1  # cells of a row are held as int32
GRID_ROWS = 1 << 18  # contexts spelled out at a time where a table is read


@dataclass(frozen=True)
class SeenContexts:
    """The prefix tree of the parents' values seen in training, whatever the class.

    Attributes
    ----------
    keys : tuple of ndarray of int64
        Per depth the sorted (node above) * arity + value of its nodes.
    arities : tuple of int
        The parents' arities, in back-off order.
    """

    keys: tuple[Ints, ...]
    arities: tuple[int, ...]

    @classmethod
    def from_tree(cls, tree: ContextTree) -> SeenContexts:
        """Join the contexts of all classes of a family's tree."""
        arities = tree.context_arities[1:]
        node = np.zeros(tree.levels[1].n_nodes, np.int64)
        keys: list[Ints] = []
        for level, arity in zip(tree.levels[2:], arities, strict=True):
            found, node = np.unique(node[level.parent] * arity + level.value, return_inverse=True)
            keys.append(found)
        return cls(tuple(keys), arities)

    def size(self, depth: int) -> int:
        """Return the number of nodes at a depth; depth 0 is the one empty context."""
        return 1 if depth == 0 else self.keys[depth - 1].shape[0]

    def values(self, depth: int) -> Ints:
        """Return the parents' values of the nodes at a depth, shape (depth, n_nodes)."""
        out = np.empty((depth, self.size(depth)), np.int64)
        node = np.arange(self.size(depth))
        for d in range(depth - 1, -1, -1):
            node, out[d] = np.divmod(self.keys[d][node], self.arities[d])
        return out

    def find(self, codes: Codes, arities: Ints, parents: Ints) -> NDArray[np.int32]:
        """Return each row's full context, -1 where it was never seen."""
        from tanager.parameters.discriminative._kernels import find_contexts

        ids = np.empty(codes.shape[1], np.int32)
        starts = np.cumsum([0] + [k.shape[0] for k in self.keys])
        find_contexts(codes, arities, parents, np.concatenate(self.keys), starts, ids)
        return ids


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
    contexts : SeenContexts or None
        None where every possible context has cells.
    """

    members: Ints
    shape: tuple[int, ...]
    start: int
    contexts: SeenContexts | None

    @property
    def arity(self) -> int:
        """Number of values of the feature."""
        return self.shape[-1]

    @property
    def n_contexts(self) -> int:
        """Number of contexts that have cells."""
        if self.contexts is None:
            return prod(self.shape[:-1])
        return self.contexts.size(len(self.shape) - 1)

    @property
    def cells(self) -> slice:
        """Its cells in the vector."""
        return slice(self.start, self.start + self.n_contexts * self.arity)

    def context_values(self) -> Ints:
        """Return the parents' values of each context, shape (n_parents, n_contexts)."""
        depth = len(self.shape) - 1
        if self.contexts is not None:
            return self.contexts.values(depth)
        return np.indices(self.shape[:-1]).reshape(depth, self.n_contexts)

    def find(self, codes: Codes, arities: Ints) -> NDArray[np.int32]:
        """Return the context of each row, -1 where it has no cells."""
        parents = self.members[:-1]
        if self.contexts is not None:
            return self.contexts.find(codes, arities, parents)
        at = np.zeros(codes.shape[1], np.int32)
        for parent, arity in zip(parents, self.shape, strict=False):
            column = codes[parent].astype(np.int32)
            at = np.where((at < 0) | (column >= arity), np.int32(-1), at * arity + column)
        return at

    def read(self, table: FamilyTable) -> Floats:
        """Return a table's log-probabilities of these cells, shape (n_cells, n_classes)."""
        if self.contexts is None:
            return table.to_dense().log_prob.reshape(-1, table.n_classes)
        return read_rows(table, self.context_values(), self.shape)

    def read_prefix(self, table: FamilyTable, depth: int) -> Floats:
        """Return the same of a table under the first `depth` parents alone."""
        shape = (*self.shape[:depth], self.arity)
        return read_rows(table, self.context_values()[:depth], shape)


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
            contexts = SeenContexts.from_tree(tree)
            n_cells = prod(shape) * domain.n_classes
            seen = contexts.size(len(shape) - 1) * shape[-1] * domain.n_classes
            dense = n_cells <= SMALL_CELLS or n_cells <= min(LARGE_CELLS, DENSE_FACTOR * seen)
            dense |= n_cells == seen
            families.append(FamilyCells(members, shape, start, None if dense else contexts))
            start = families[-1].cells.stop
        if start + 1 > MAX_CELLS:
            raise MemoryBoundError(
                f"The structure has {start:,} parameters a class, more than {MAX_CELLS:,}. "
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
        from tanager.parameters.discriminative._kernels import find_slots

        cells = np.empty((len(self.families), codes.shape[1]), np.int32)
        for at, family in enumerate(self.families):
            context, column = family.find(codes, self.domain.arities), codes[family.members[-1]]
            find_slots(context, column, family.arity, family.start, self.n_cells - 1, cells[at])
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
            node = _class_free(tree, family)[last.cell_nodes()]
            np.add.at(out, family.start + node * family.arity + last.cell_value, last.cell_count)
        return out


def _class_free(tree: ContextTree, family: FamilyCells) -> Ints:
    """Return the context of each node of the tree's last level, by its place in `family`."""
    node = np.zeros(tree.levels[1].n_nodes, np.int64)
    for depth, level in enumerate(tree.levels[2:]):
        node = node[level.parent] * tree.context_arities[depth + 1] + level.value
        if family.contexts is not None:
            node = np.searchsorted(family.contexts.keys[depth], node)
    return node


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
