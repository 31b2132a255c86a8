r"""A tree table as prediction reads it: one walk a row, all classes together.

The tree of a family branches on the class first, so a look-up for every class
walks it as often as there are classes. Here the contexts are those of the
parents alone, and each lists the classes that were seen in it::

    first parents     a dense table (p1, ..., pj, x, class): one look-up, all classes
    each one more     the context's entries: classes seen there, and their cells

A class that a context did not see keeps the answer of the next shorter one, so
deep contexts, which saw few rows, cost little.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tanager.counts import Contexts
    from tanager.parameters.tables import TreeTable

__all__ = ["TreeRows"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Cells of the dense part: little in itself, or little beside the cells of the tree.
SMALL_CELLS = 1 << 14
LARGE_CELLS = 1 << 20
DENSE_FACTOR = 4


class TreeRows(NamedTuple):
    """The arrays of one family, as the kernel takes them.

    Attributes
    ----------
    dense : (first arities..., arity, n_classes), flat
    first : (number of first contexts,) of int32
        The context of each combination of the first parents, -1 where none was seen.
    child : (n_contexts + 1,) of int32
        Contexts with one more parent are ``child[c]:child[c+1]``, sorted by value.
    value : (n_contexts,) of uint16
        The code of the last parent.
    entry_start : (n_contexts + 1,) of int32
        Classes seen in context c are entries ``entry_start[c]:entry_start[c+1]``.
    entry_class : (n_entries,) of uint16
    entry_log_escape : (n_entries,)
        What `TreeTable.node_log_escape` is.
    cell_start : (n_entries + 1,) of int32
    cell_value : (n_cells,) of uint16
    cell_log_prob : (n_cells,)
    """

    dense: Floats
    first: NDArray[np.int32]
    child: NDArray[np.int32]
    value: NDArray[np.uint16]
    entry_start: NDArray[np.int32]
    entry_class: NDArray[np.uint16]
    entry_log_escape: Floats
    cell_start: NDArray[np.int32]
    cell_value: NDArray[np.uint16]
    cell_log_prob: Floats

    @classmethod
    def of(cls, table: TreeTable) -> tuple[TreeRows, int]:
        """Lay a table out; also return the number of parents that the dense part reads."""
        tree = table.contexts
        n_dense = _dense_parents(tree)
        levels = list(_levels(tree, n_dense))
        contexts = np.cumsum([0] + [level.n_contexts for level in levels])
        child = [level.child + contexts[at + 1] for at, level in enumerate(levels[:-1])]
        child.append(np.full(levels[-1].n_contexts, contexts[-1]))
        entries = np.concatenate([level.node for level in levels])
        n_entries = np.concatenate([level.n_entries for level in levels])
        sizes = np.diff(tree.node_start)[entries]
        cell_start = _starts(sizes)
        # The cells of the entries, one entry after the other.
        cells = np.arange(cell_start[-1]) + np.repeat(
            tree.node_start[entries] - cell_start[:-1], sizes
        )
        rows = cls(
            table.shorter(n_dense).to_dense().log_prob.ravel(),
            levels[0].first.astype(np.int32),
            np.append(np.concatenate(child), contexts[-1]).astype(np.int32),
            np.concatenate([level.value for level in levels]).astype(np.uint16),
            _starts(n_entries).astype(np.int32),
            np.concatenate([level.label for level in levels]).astype(np.uint16),
            table.node_log_escape[entries],
            cell_start.astype(np.int32),
            tree.cell_value[cells].astype(np.uint16),
            table.cell_log_prob[cells],
        )
        return rows, n_dense


class _Level(NamedTuple):
    """Contexts of so many parents."""

    n_contexts: int
    first: Ints  # see TreeRows; of the level that the dense part ends with
    value: Ints
    child: Ints  # where the children of each context begin on the next level
    n_entries: Ints  # of each context
    node: Ints  # the tree's node of each entry
    label: Ints  # its class


def _dense_parents(tree: Contexts) -> int:
    """Return how many parents the dense part has: as many as its size allows."""
    most = max(SMALL_CELLS, min(LARGE_CELLS, DENSE_FACTOR * tree.n_cells))
    parents = tree.context_arities[1:]
    sizes = [prod(parents[:n]) * tree.arity * tree.context_arities[0] for n in range(tree.depth)]
    return max(0, sum(size <= most for size in sizes) - 1)


def _levels(tree: Contexts, n_dense: int) -> Iterator[_Level]:
    """Iterate over the levels, from the one that the dense part ends with."""
    none = np.zeros(0, np.int64)
    label = tree.node_value[tree.nodes(1)]
    context = np.zeros(label.shape[0], np.int64)  # of each node of the level above
    made: _Level | None = None
    for n_parents in range(tree.depth):
        arity = tree.context_arities[n_parents]  # of the last parent
        nodes = tree.nodes(n_parents + 1)
        if n_parents:
            above = tree.node_parent[nodes] - tree.level_node[n_parents]
            label = label[above]
            context = context[above] * arity + tree.node_value[nodes]
        if n_parents < n_dense:
            continue
        n_above = prod(tree.context_arities[1 : n_parents + 1])
        if made is not None:
            n_above = made.n_contexts * arity
        context, keys = _number(context, n_above)
        if made is None:
            first = np.full(n_above, -1)
            first[keys] = np.arange(keys.shape[0])
            zeros = np.zeros(keys.shape[0], np.int64)
            made = _Level(keys.shape[0], first, zeros, none, zeros, none, none)
            continue
        yield made._replace(child=np.searchsorted(keys // arity, np.arange(made.n_contexts)))
        # Nodes stand by class: a stable sort leaves the classes of a context in order.
        order = np.argsort(context, kind="stable")
        size = np.bincount(context, minlength=keys.shape[0])
        made = _Level(
            keys.shape[0], none, keys % arity, none, size, nodes.start + order, label[order]
        )
    assert made is not None
    yield made


def _number(keys: Ints, n_possible: int) -> tuple[Ints, Ints]:
    """Return the rank of each key among the distinct ones, and the distinct ones, sorted."""
    if n_possible > max(64 * keys.shape[0], 1 << 20):
        distinct, ranks = np.unique(keys, return_inverse=True)
        return ranks, distinct
    # Marking them costs a fraction of sorting where they lie close together.
    present = np.zeros(n_possible, np.bool_)
    present[keys] = True
    return (np.cumsum(present) - 1)[keys], np.flatnonzero(present)


def _starts(sizes: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(sizes)])
