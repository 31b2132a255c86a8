"""What a trained model says of contexts and values that training never showed.

No row moves the parameters of an unseen cell, so it must be told what to say:

- ``"generative"``: what the generative tables say there, by their own back-off;
- ``"coarser"``: the mean, weighted by counts, of the trained parameters of the
  same value under the longest prefix of the parents with which it was seen,
  and what the generative tables say where it was never seen at all;
- ``"nothing"``: the same for all classes, so that it does not count.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tanager.counts import Contexts
from tanager.parameters.scores.layout import FamilyCells, Layout, read_rows
from tanager.parameters.tables import DenseTable, FamilyTable, Tables, TreeTable

__all__ = ["UNSEEN", "fill_tables", "read_levels", "to_table"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

UNSEEN = ("generative", "coarser", "nothing")


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
    """Turn trained cells into tables that answer every context.

    Parameters
    ----------
    layout : Layout
    flat : ndarray of float64, shape (n_cells, n_classes)
        The trained parameters.
    counts : ndarray of float64, shape (n_cells,)
        How often each cell was seen, whatever the class.
    base : Tables
        The generative tables.
    unseen : {"generative", "coarser", "nothing"}
    normalized : bool
        Whether each context's cells sum to one and shall go on to do so: then
        a context that was seen keeps all its cells.
    shared : bool
        Whether cells share parameters, so that a cell without rows is trained
        too: then only contexts without cells are filled.
    """
    families = []
    for family, table in zip(layout.families, base.families, strict=True):
        cells = flat[family.cells].reshape(family.n_contexts, family.arity, layout.n_classes)
        seen = counts[family.cells].reshape(family.n_contexts, family.arity)
        if normalized:
            seen = np.repeat(seen.sum(axis=1, keepdims=True), family.arity, axis=1)
        levels = _fill(family, cells, seen, table, unseen, shared=shared)
        if normalized:
            levels = [rows - np.logaddexp.reduce(rows, axis=1, keepdims=True) for rows in levels]
        families.append(to_table(family, levels))
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
    """Return rows (n_nodes, arity, n_classes) of shorter contexts, then of full ones."""
    depth = family.depth
    seen = (counts[:, :, None] > 0) | shared
    if unseen == "nothing":
        upper = [np.zeros((family.n_prefixes(d), *cells.shape[1:])) for d in range(depth)]
        return [*upper, np.where(seen, cells, 0.0)]
    *upper, own = read_levels(family, base)
    if unseen == "coarser" and depth > 0:
        upper, own = _coarser(family, cells, counts, upper, own)
    return [*upper, np.where(seen, cells, own)]


def read_levels(family: FamilyCells, table: FamilyTable) -> list[Floats]:
    """Return a table's rows for `to_table`: of shorter contexts where they are kept, then of full.

    The table may have fewer parents than the family: the first of them.
    """
    n_parents = len(table.member_arities) - 1
    first = family.depth if family.contexts is None else 0
    levels = []
    for depth in range(first, family.depth + 1):
        seen = min(depth, n_parents)
        found = read_rows(
            table if seen == n_parents else _truncate(table, seen),
            family.prefix_values(depth)[:seen],
            (*family.shape[:seen], family.arity),
        )
        levels.append(found.reshape(-1, family.arity, table.n_classes))
    return levels


def to_table(family: FamilyCells, levels: list[Floats]) -> FamilyTable:
    """Make a table of rows (n_contexts, arity, n_classes), the full contexts' last."""
    if family.contexts is not None:
        return _tree_table(family, levels)
    return DenseTable(np.ascontiguousarray(levels[-1].reshape(*family.shape, -1)))


def _truncate(table: FamilyTable, depth: int) -> FamilyTable:
    """Return what a table answers where the values of the later parents were never seen."""
    if not isinstance(table, TreeTable):
        # A dense table has no shorter contexts: what it says in the mean of the longer.
        drop = tuple(range(depth, len(table.member_arities) - 1))
        return DenseTable(np.ascontiguousarray(table.to_dense().log_prob.mean(axis=drop)))
    tree = table.contexts
    if not table.backoff:
        shape = (*tree.context_arities[1 : depth + 1], tree.arity, table.n_classes)
        return DenseTable(np.full(shape, -np.log(tree.arity)))
    return table.shorter(depth)


def _coarser(
    family: FamilyCells, cells: Floats, counts: Floats, upper: list[Floats], own: Floats
) -> tuple[list[Floats], Floats]:
    """Average trained cells towards the root, then hand the means down to unseen cells."""
    depth = family.depth
    sums, masses = [cells * counts[:, :, None]], [counts]
    for d in range(depth, 0, -1):
        above = family.prefix_parents(d)
        total = np.zeros((family.n_prefixes(d - 1), *cells.shape[1:]))
        mass = np.zeros(total.shape[:2])
        np.add.at(total, above, sums[0])
        np.add.at(mass, above, masses[0])
        sums.insert(0, total)
        masses.insert(0, mass)
    rows: list[Floats] = []
    for d in range(depth):
        default = rows[d - 1][family.prefix_parents(d)] if d else None
        mean = sums[d] / np.maximum(masses[d], np.finfo(float).tiny)[:, :, None]
        known = masses[d][:, :, None] > 0
        if default is None:
            # A value seen nowhere: the same for all classes unless the base knows better.
            default = upper[0] if upper else own.mean(axis=0, keepdims=True)
        rows.append(np.where(known, mean, default))
    return rows, rows[-1][family.prefix_parents(depth)]


def _tree_table(family: FamilyCells, rows: Sequence[Floats]) -> TreeTable:
    """Hang one copy of the seen contexts below each class, with full rows at every node."""
    assert family.contexts is not None
    n_classes = rows[0].shape[2]
    sizes = [r.shape[0] for r in rows]
    classes = np.arange(n_classes)[:, None]
    # The nodes of a level: classes major, contexts minor; the root stands alone.
    child: list[Ints] = [np.array([1])]
    value: list[Ints] = [np.zeros(1, np.int64), np.arange(n_classes)]
    parent: list[Ints] = [np.zeros(n_classes + 1, np.int64)]
    low = 1
    for depth in range(1, len(rows)):
        below = low + n_classes * sizes[depth - 1]
        above = family.prefix_parents(depth)
        first = np.searchsorted(above, np.arange(sizes[depth - 1]))
        child.append((below + classes * sizes[depth] + first).ravel())
        codes = family.contexts.node_value[family.contexts.nodes(depth)]
        value.append(np.tile(codes, n_classes))
        parent.append((low + classes * sizes[depth - 1] + above).ravel())
        low = below
    n_nodes = low + n_classes * sizes[-1]
    child.append(np.full(n_classes * sizes[-1] + 1, n_nodes))
    # The root is never reached, since every class has a node: it holds no cells.
    start = np.concatenate([[0], np.arange(n_nodes) * family.arity])
    contexts = Contexts.from_nodes(
        family.arity,
        (n_classes, *family.shape[:-1]),
        np.concatenate(value),
        np.concatenate(parent),
        np.concatenate(child),
        start.astype(np.int64),
        np.tile(np.arange(family.arity), n_nodes - 1),
    )
    log_prob = np.concatenate([row.transpose(2, 0, 1).ravel() for row in rows])
    return TreeTable(contexts, log_prob, np.zeros(n_nodes), inherit=False)
