"""Context trees of many families, by one pass over the rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.codes import Chunk, Domain, Rows
from tanager.counts.folds import FoldPass, FoldPlan
from tanager.counts.runs import Radix, RunStack, collapse, recode
from tanager.counts.tree import ContextTree, Level, tree_from_dense
from tanager.engines import FitContext

__all__ = ["Family", "FamilyCounts", "build_trees", "count_families", "merge_trees"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Family = tuple[int, tuple[int, ...]]  # a feature and its parents in back-off order

DENSE_CELLS = 1 << 18  # a family up to this size is counted in an array of all its cells
TREE_CELLS = 1 << 26  # seen cells of all families together: 1 GiB of runs
LEAST_CELLS = 1 << 16  # what one family may always have


class FamilyCounts(NamedTuple):
    """Counts of one family by label, which is the class, or fold and class.

    Attributes
    ----------
    arities : tuple of int
        Of the label, the parents in back-off order, the feature.
    dense : ndarray of that shape, or None
    codes : (n_variables, n_cells)
        Where not dense: the cells seen, sorted; possibly without the last parents.
    cells : (n_cells,)
        Their counts.
    """

    arities: tuple[int, ...]
    dense: Floats | None
    codes: Ints
    cells: Floats

    @classmethod
    def from_dense(cls, counts: Floats) -> FamilyCounts:
        """Wrap counts (label, *parents, feature)."""
        return cls(counts.shape, counts, np.zeros((0, 0), np.int64), np.zeros(0))

    def tree(self, n_folds: int = 1, left_out: int | None = None) -> ContextTree:
        """Return the tree of all rows, or of all but those of one fold."""
        n_classes = self.arities[0] // n_folds
        if self.dense is not None:
            by_fold = self.dense.reshape(n_folds, n_classes, *self.arities[1:])
            total = by_fold.sum(axis=0) if n_folds > 1 else by_fold[0]
            return tree_from_dense(total if left_out is None else total - by_fold[left_out])
        if n_folds == 1:
            return _tree(self.codes, self.cells, self.arities)
        fold, label = np.divmod(self.codes[0], n_classes)
        kept = np.ones(fold.shape[0], np.bool_) if left_out is None else fold != left_out
        codes = np.concatenate([label[None, kept], self.codes[1:, kept]])
        arities = (n_classes, *self.arities[1:])
        radix = Radix((*arities[: codes.shape[0] - 1], arities[-1]), tuple(range(len(codes) - 1)))
        keys, cells = collapse(radix.keys(codes), self.cells[kept])
        return _tree(radix.decode(keys), cells, arities)


def count_families(
    rows: Rows,
    families: Sequence[Family],
    context: FitContext,
    plan: FoldPlan | None = None,
    max_cells: int | None = None,
) -> list[FamilyCounts]:
    """Count the given families in one pass.

    Memory is bounded: a family with more than `max_cells` distinct (context,
    value) pairs is counted without its last parents, which is said in a
    warning; the tree then has no nodes at those depths, and every estimator
    backs off.
    """
    if max_cells is None:
        max_cells = max(LEAST_CELLS, TREE_CELLS // max(1, len(families)))
    domain = rows.domain
    gather: Any = FamilyPass(domain if plan is None else plan.domain(domain), families, max_cells)
    if plan is not None:
        gather = FoldPass(gather, plan, domain.n_classes)
    found: list[FamilyCounts] = context.engine.run(gather, rows, context.progress, "family counts")
    for (feature, parents), counts in zip(families, found, strict=True):
        depth = len(counts.codes) - 2
        if counts.dense is None and depth < len(parents):
            warnings.warn(
                f"Feature {domain.names[feature]!r}: more than {max_cells:,} combinations of "
                f"its value with the class and {len(parents)} parents occur; only the first "
                f"{depth} parents were counted. Merge rare values of its parents, or lower k.",
                UserWarning,
                stacklevel=2,
            )
    return found


def build_trees(
    rows: Rows,
    families: Sequence[Family],
    context: FitContext,
    max_cells: int | None = None,
) -> list[ContextTree]:
    """Count the given families in one pass and return their context trees."""
    counted = count_families(rows, families, context, max_cells=max_cells)
    return [counts.tree() for counts in counted]


class FamilyPass:
    """Counts families: in dense arrays where they are small, in sorted runs elsewhere."""

    def __init__(self, domain: Domain, families: Sequence[Family], max_cells: int) -> None:
        arities = domain.arities
        self.radices = [
            Radix(
                (domain.n_classes, *(int(arities[m]) for m in (*parents, feature))),
                (*parents, feature),
            )
            for feature, parents in families
        ]
        self.max_cells = max_cells

    def zero(self) -> list[Floats | RunStack]:
        """Return no counts."""
        return [
            np.zeros(prod(radix.arities))
            if prod(radix.arities) <= DENSE_CELLS
            else RunStack(radix, self.max_cells)
            for radix in self.radices
        ]

    def update(self, state: list[Floats | RunStack], chunk: Chunk) -> list[Floats | RunStack]:
        """Add a chunk."""
        for radix, counts in zip(self.radices, state, strict=True):
            keys, weights = radix.encode(chunk)
            if isinstance(counts, RunStack):
                run = collapse(keys, weights)
                if len(counts.radix.members) < len(radix.members):
                    run = recode(radix, counts.radix, *run)
                counts.add(*run)
            else:
                native.count_keys(keys[0], weights, counts)
        return state

    def merge(
        self, a: list[Floats | RunStack], b: list[Floats | RunStack]
    ) -> list[Floats | RunStack]:
        """Add up."""
        for mine, other in zip(a, b, strict=True):
            if isinstance(mine, RunStack):
                mine.absorb(cast(RunStack, other))
            else:
                mine += cast(Floats, other)
        return a

    def finish(self, state: list[Floats | RunStack]) -> list[FamilyCounts]:
        """Wrap the counts."""
        found = []
        for radix, counts in zip(self.radices, state, strict=True):
            if isinstance(counts, RunStack):
                keys, cells = counts.total()
                codes = counts.radix.decode(keys)
                found.append(FamilyCounts(radix.arities, None, codes, cells))
            else:
                found.append(FamilyCounts.from_dense(counts.reshape(radix.arities)))
        return found


def merge_trees(a: ContextTree, b: ContextTree) -> ContextTree:
    """Return the tree of the rows of both; where one is less deep, so is the result."""
    if not (a.total and b.total):
        return a if a.total else b
    depth = min(a.seen_depth, b.seen_depth)
    parts = [_cells(tree, depth) for tree in (a, b)]
    codes = np.concatenate([part[0] for part in parts], axis=1)
    arities = (*a.context_arities[:depth], a.arity)
    radix = Radix(arities, tuple(range(depth)))
    keys, cells = collapse(radix.keys(codes), np.concatenate([part[1] for part in parts]))
    return _tree(radix.decode(keys), cells, (*a.context_arities, a.arity))


def _cells(tree: ContextTree, depth: int) -> tuple[Ints, Floats]:
    """Return the codes (context..., value) and counts of the cells of one level."""
    level = tree.levels[depth]
    codes = np.concatenate([tree.values(depth)[:, level.cell_nodes()], level.cell_value[None]])
    return codes, level.cell_count


def _tree(codes: Ints, cells: Floats, arities: tuple[int, ...]) -> ContextTree:
    """Build the tree from cells in lexicographic order.

    codes (n_variables, n_cells): class, parents, feature; possibly without the
    last parents, whose levels then stay empty.
    """
    arity = arities[-1]
    n_cells = cells.shape[0]
    depth = codes.shape[0] - 1
    none, zero = np.zeros(0, np.int64), np.zeros(1, np.int64)
    levels = [Level(none, none, zero, none, np.zeros(0), none)] * (len(arities) - 1 - depth)
    # new[d] marks the cells that open a node of depth d: a change among the first d variables.
    new = np.zeros((depth + 1, n_cells), np.bool_)
    new[:, :1] = True
    for d in range(1, depth + 1):
        new[d, 1:] = new[d - 1, 1:] | (codes[d - 1, 1:] != codes[d - 1, :-1])
    opens = [np.flatnonzero(row) for row in new]
    start = np.append(opens[depth], n_cells)
    value, count = np.ascontiguousarray(codes[-1]), cells
    for d in range(depth, 0, -1):
        node_of = np.cumsum(new[d - 1]) - 1
        parent = node_of[opens[d]]
        child = np.searchsorted(parent, np.arange(opens[d - 1].shape[0] + 1))
        up_start = np.empty(child.shape[0], np.int64)
        up_value, up_count = np.empty_like(value), np.empty(value.shape[0])
        cell_parent = np.empty(value.shape[0], np.int64)
        n = native.gather_level(
            child, start, value, count, arity, up_start, up_value, up_count, cell_parent
        )
        levels.append(Level(parent, codes[d - 1][opens[d]], start, value, count, cell_parent))
        start, value, count = up_start, up_value[:n].copy(), up_count[:n].copy()
    if n_cells == 0:  # the root stands even where nothing was counted
        start = np.zeros(2, np.int64)
    levels.append(Level(zero, zero, start, value, count, np.zeros(value.shape[0], np.int64)))
    return ContextTree.from_levels(arity, tuple(arities[:-1]), levels[::-1])
