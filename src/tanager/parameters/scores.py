"""The parameters of a structure as one vector of cells, each with one number per class.

::

    cell 0            the class node
    family 0          (n_contexts, arity) cells: context major, the feature's value minor
    family 1          ...
    last cell         zeros, used by rows with an unknown member

A family with few possible contexts has them all, in the order of a `DenseTable`. A larger one has
only the contexts seen in training (with any class): the prefix tree of the parents' values, in
which a context is looked up level by level, so that no key can overflow.

Training doesn't move unseen cells, so `fill_tables` fills them:

- ``"generative"``: from the generative tables, with their own back-off;
- ``"coarser"``: with the count-weighted mean of the trained parameters of the same value under the
  longest prefix of the parents with which it was seen, or else from the generative tables;
- ``"nothing"``: with the same value for all classes, so that they have no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Codes, Domain
from tanager.counts import Contexts, ContextTree
from tanager.engines import FitContext
from tanager.errors import MemoryBoundError
from tanager.numerics import Floats, Ints
from tanager.parameters.tables import (
    DENSE_FACTOR,
    LARGE_CELLS,
    SMALL_CELLS,
    DenseTable,
    FamilyTable,
    Tables,
    TreeTable,
    family_members,
)
from tanager.structure import Structure

MAX_NUMBER = (1 << 31) - 1  # largest cell number: stored as int32
GRID_ROWS = 1 << 18  # contexts enumerated at a time when reading a table
UNSEEN = ("generative", "coarser", "nothing")


@dataclass(frozen=True)
class FamilyCells:
    """The cells of one family."""

    members: Ints  # the features of its parents, then its own
    shape: tuple[int, ...]  # arities of the members
    start: int  # its first cell
    # The prefix tree of the parents' values seen with any class; None if all contexts have cells.
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
        """Number of contexts with cells."""
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
        """Return the contexts with one more parent, from those of `depth` and its values, or -1."""
        arity = self.shape[depth]
        wanted, known = prefix * arity + value, (prefix >= 0) & (value < arity)
        if self.contexts is None:
            return np.where(known, wanted, -1)
        nodes = self.contexts.nodes(depth + 1)
        keys = self.prefix_parents(depth + 1) * arity + self.contexts.node_value[nodes]
        found = np.searchsorted(keys, wanted)
        known &= np.append(keys, -1)[found] == wanted
        return np.where(known, found, -1)

    def find(self, values: Iterable[NDArray[np.integer]], blank: int) -> NDArray[np.int32]:
        """Return each row's cell given the members' values, (n_members, n_rows), or `blank`."""
        *parents, own = values
        context = np.zeros(len(own), np.int64)
        for depth, value in enumerate(parents):
            context = self.step(context, depth, value.astype(np.int64))
        known = (context >= 0) & (own < self.arity)
        return np.where(known, context * self.arity + own, blank).astype(np.int32)

    def read(self, table: FamilyTable) -> Floats:
        """Return a table's log-probabilities for these cells, shape (n_cells, n_classes)."""
        if self.contexts is None:
            return table.to_dense().log_prob.reshape(-1, table.n_classes)
        return _read_rows(table, self.prefix_values(self.depth), self.shape)


@dataclass(frozen=True)
class Layout:
    """All cells of a structure; see the module's drawing."""

    structure: Structure
    domain: Domain
    families: tuple[FamilyCells, ...]  # aligned with ``structure.selected``

    @classmethod
    def of(cls, structure: Structure, domain: Domain, trees: list[ContextTree]) -> Layout:
        """Choose for each family whether all contexts have cells or only those seen."""
        families: list[FamilyCells] = []
        start = 1
        for at, tree in enumerate(trees):
            members = family_members(structure, at)
            shape = tuple(int(domain.arities[m]) for m in members)
            family = FamilyCells(members, shape, start, None)
            n_cells = prod(shape) * domain.n_classes
            if n_cells > SMALL_CELLS:
                tree_family = replace(family, contexts=tree.without_class()[0])
                seen = tree_family.n_contexts * family.arity * domain.n_classes
                if n_cells > min(LARGE_CELLS, DENSE_FACTOR * seen) and n_cells != seen:
                    family = tree_family
            families.append(family)
            start = family.cells.stop
        if start + 1 > MAX_NUMBER:
            raise MemoryBoundError(
                f"The structure has {start:,} parameters per class, more than {MAX_NUMBER:,}. "
                "Use fewer parents per feature, or a generative parameter learner."
            )
        return cls(structure, domain, tuple(families))

    def check_memory(self, context: FitContext, copies: int) -> None:
        """Refuse so many copies of all scores beyond the memory limit."""
        each = 8 * copies * self.n_classes
        numbers = (each * family.n_contexts * family.arity for family in self.families)
        sizes = dict(zip(self.structure.features, numbers, strict=True))
        context.check_tables(sizes, self.n_classes)

    @property
    def n_cells(self) -> int:
        """Number of cells, including the class node and the last cell of zeros."""
        return (self.families[-1].cells.stop if self.families else 1) + 1

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.domain.n_classes

    def locate(self, codes: Codes) -> NDArray[np.int32]:
        """Return each row's cell in every family, (n_families, n_rows); the last if it has none."""
        cells = np.empty((len(self.families), codes.shape[1]), np.int32)
        for at, family in enumerate(self.families):
            blank = self.n_cells - 1 - family.start
            cells[at] = family.start + family.find(codes[family.members], blank)
        return cells

    def read(self, tables: Tables) -> Floats:
        """Return the tables' logarithms for all cells, shape (n_cells, n_classes)."""
        flat = np.zeros((self.n_cells, self.n_classes))
        flat[0] = tables.log_prior
        for family, table in zip(self.families, tables.families, strict=True):
            flat[family.cells] = family.read(table)
        return flat

    def counts(self, trees: list[ContextTree]) -> Floats:
        """Return N(value, parents) for every cell, summed over classes, shape (n_cells,)."""
        out = np.zeros(self.n_cells)
        for family, tree in zip(self.families, trees, strict=True):
            last = tree.levels[-1]
            context = np.zeros(len(last.value), np.int64)
            for depth, value in enumerate(tree.values(tree.depth)[1:]):
                context = family.step(context, depth, value)
            cell = context[last.cell_nodes()] * family.arity + last.cell_value
            np.add.at(out, family.start + cell, last.cell_count)
        return out


def _read_rows(table: FamilyTable, contexts: Ints, shape: tuple[int, ...]) -> Floats:
    """Return a table's rows for the given contexts, shape (n_contexts * arity, n_classes)."""
    arity, own = shape[-1], np.arange(shape[-1])
    out = np.zeros((contexts.shape[1] * arity, table.n_classes))
    step = max(1, GRID_ROWS // arity)
    for low in range(0, contexts.shape[1], step):
        part = contexts[:, low : low + step]
        grid = np.vstack([np.repeat(part, arity, axis=1), np.tile(own, part.shape[1])])
        rows = slice(low * arity, low * arity + grid.shape[1])
        given = grid.astype(np.uint16), np.array(shape), np.arange(len(shape))
        table.add_terms(*given, out[rows])
    return out


def fill_tables(
    layout: Layout,
    flat: Floats,
    counts: Floats,
    base: Tables,
    unseen: str,
    *,
    normalized: bool = False,
    shared: bool = False,
) -> Tables:
    """Turn trained cells, (n_cells, n_classes), into tables that cover every context.

    `counts`, (n_cells,), is how often each cell was seen. With `normalized` each context's cells
    sum to one. With `shared` parameters only contexts without cells are filled.
    """
    families: list[FamilyTable] = []
    for family, table in zip(layout.families, base.families, strict=True):
        cells = flat[family.cells].reshape(family.n_contexts, family.arity, layout.n_classes)
        seen = counts[family.cells].reshape(family.n_contexts, family.arity)
        if normalized:
            seen = np.repeat(seen.sum(axis=1, keepdims=True), family.arity, axis=1)
        levels = _fill(family, cells, seen, table, unseen, shared=shared)
        if normalized:
            levels = [rows - np.logaddexp.reduce(rows, axis=1, keepdims=True) for rows in levels]
        if family.contexts is not None:
            families.append(_tree_table(family, levels))
        else:
            dense = levels[-1].reshape(*family.shape, layout.n_classes)
            families.append(DenseTable(np.ascontiguousarray(dense)))
    return Tables(flat[0].copy(), tuple(families), normalized=normalized)


def _fill(
    family: FamilyCells,
    cells: Floats,
    counts: Floats,
    base: FamilyTable,
    unseen: str,
    *,
    shared: bool,
) -> list[Floats]:
    """Return rows (n_nodes, arity, n_classes) for shorter contexts, then for full ones."""
    if unseen == "nothing":
        sizes = map(family.n_prefixes, range(family.depth + 1))
        *upper, own = (np.zeros((size, *cells.shape[1:])) for size in sizes)
    else:
        *upper, own = _read_levels(family, base)
    if unseen == "coarser" and family.depth > 0:
        upper, own = _coarser(family, cells, counts, upper, own)
    return [*upper, np.where((counts[:, :, None] > 0) | shared, cells, own)]


def _read_levels(family: FamilyCells, table: FamilyTable) -> list[Floats]:
    """Return a table's rows: for shorter contexts if the family has them, then for full ones."""
    levels = []
    for depth in range(family.depth if family.contexts is None else 0, family.depth + 1):
        shorter = table if depth == family.depth else _truncate(table, depth)
        shape = (*family.shape[:depth], family.arity)
        found = _read_rows(shorter, family.prefix_values(depth), shape)
        levels.append(found.reshape(-1, family.arity, table.n_classes))
    return levels


def _truncate(table: FamilyTable, depth: int) -> FamilyTable:
    """Return a table's estimates where the values of the later parents were never seen."""
    if not isinstance(table, TreeTable):
        # A dense table has no shorter contexts: use the mean over the longer ones.
        drop = tuple(range(depth, len(table.member_arities) - 1))
        return DenseTable(np.ascontiguousarray(table.to_dense().log_prob.mean(axis=drop)))
    if table.backoff:
        return table.shorter(depth)
    *above, arity = table.member_arities
    return DenseTable(np.full((*above[:depth], arity, table.n_classes), -np.log(arity)))


def _coarser(
    family: FamilyCells, cells: Floats, counts: Floats, upper: list[Floats], own: Floats
) -> tuple[list[Floats], Floats]:
    """Average trained cells towards the root, then pass the means down to unseen cells."""
    sums, masses = [cells * counts[:, :, None]], [counts]
    for depth in range(family.depth, 0, -1):
        for levels in (sums, masses):
            total = np.zeros((family.n_prefixes(depth - 1), *levels[0].shape[1:]))
            np.add.at(total, family.prefix_parents(depth), levels[0])
            levels.insert(0, total)
    # A value never seen: the same for all classes, unless the base knows better.
    default, rows = upper[0] if upper else own.mean(axis=0, keepdims=True), list[Floats]()
    for d, (total, mass) in enumerate(zip(sums[:-1], masses[:-1], strict=True)):
        mean = total / np.maximum(mass, np.finfo(float).tiny)[:, :, None]
        rows.append(np.where(mass[:, :, None] > 0, mean, default))
        default = rows[d][family.prefix_parents(d + 1)]
    return rows, default


def _tree_table(family: FamilyCells, rows: Sequence[Floats]) -> TreeTable:
    """Attach a copy of the seen contexts to each class, with full rows at every node."""
    assert family.contexts is not None
    n_classes = rows[0].shape[2]
    sizes, classes = [len(one) for one in rows], np.arange(n_classes)[:, None]
    # The nodes of a level: classes major, contexts minor; the root is a level of its own.
    child: list[Ints] = [np.array([1])]
    value: list[Ints] = [np.zeros(1, np.int64), np.arange(n_classes)]
    parent: list[Ints] = [np.zeros(n_classes + 1, np.int64)]
    low = 1
    for depth in range(1, len(rows)):
        below = low + n_classes * sizes[depth - 1]
        above = family.prefix_parents(depth)
        first = np.searchsorted(above, np.arange(sizes[depth - 1]))
        child.append((below + classes * sizes[depth] + first).ravel())
        value.append(np.tile(family.contexts.node_value[family.contexts.nodes(depth)], n_classes))
        parent.append((low + classes * sizes[depth - 1] + above).ravel())
        low = below
    n_nodes = low + n_classes * sizes[-1]
    child.append(np.full(n_classes * sizes[-1] + 1, n_nodes))
    # The root is never reached, since every class has a node: it has no cells.
    start = np.append(0, np.arange(n_nodes) * family.arity)
    values = np.tile(np.arange(family.arity), n_nodes - 1)
    nodes = np.concatenate(value), np.concatenate(parent), np.concatenate(child)
    arities = n_classes, *family.shape[:-1]
    contexts = Contexts.from_nodes(family.arity, arities, *nodes, start, values)
    log_prob = np.concatenate([row.transpose(2, 0, 1).ravel() for row in rows])
    uniform = np.full(n_nodes, -np.log(family.arity))  # of the root; the others have all values
    return TreeTable(contexts, log_prob, uniform, inherit=False)
