r"""The context tree: everything the estimators of one family need.

For a feature X with parents :math:`(p_1, \dots, p_k)` it is the prefix tree over
:math:`(y, p_1, \dots, p_k)`, with the values of X seen in every node (its *cells*). All levels are
stored one after the other in flat arrays::

    nodes   | root | a node per class | a node per (y, p1) seen | ... | full contexts |
    cells   | N(x) | N(x, y) ........ | N(x, y, p1) ........... | ... | N(x, y, p1..pk) |

Nodes of a level are sorted by (parent node, value), so the children of a node are contiguous; cells
of a node are sorted by value. Only contexts and cells with a count exist. Everything known about a
family (its counts, smoothed probabilities, concentrations) is an array over its nodes or cells.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from tanager import native
from tanager.codes.rows import EqualByArrays
from tanager.numerics import Floats, Ints, rank_distinct, starts_of


@dataclass(frozen=True, eq=False)
class Contexts(EqualByArrays):
    """The contexts seen for one family, and the values seen in each; see the module's drawing."""

    arity: int  # number of values of the feature
    context_arities: tuple[int, ...]  # of the class, then of each parent in back-off order
    # (depth + 2,); nodes of level d are ``level_node[d]:level_node[d+1]``; level 0 always has one
    level_node: Ints
    # (n_nodes,); the code (of the class on level 1, of parent d-2 on level d) that leads here; or 0
    node_value: Ints
    node_parent: Ints  # (n_nodes,); 0 for the root
    node_child: Ints  # (n_nodes + 1,); children of u are nodes ``node_child[u]:node_child[u+1]``
    node_start: Ints  # (n_nodes + 1,); cells of node u are ``node_start[u]:node_start[u+1]``
    cell_value: Ints  # (n_cells,); the feature's value of each cell, increasing within a node

    @classmethod
    def from_nodes(cls, arity: int, context_arities: tuple[int, ...], *nodes: Ints) -> Contexts:
        """Find the levels of nodes stored level by level: the arrays from `node_value` on."""
        ends, child = [0, 1], nodes[2]
        for _ in context_arities:
            ends.append(int(child[min(ends[-1], len(child) - 1)]))
        return cls(arity, context_arities, np.array(ends), *nodes)

    @property
    def depth(self) -> int:
        """Length of a full context: one for the class and one per parent."""
        return len(self.context_arities)

    @property
    def seen_depth(self) -> int:
        """Length of the longest context with a node."""
        return int(np.count_nonzero(np.diff(self.level_node))) - 1

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.node_value.shape[0])

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return int(self.cell_value.shape[0])

    @property
    def level_cell(self) -> Ints:
        """Cells of level d are ``level_cell[d]:level_cell[d+1]``."""
        return self.node_start[self.level_node]

    def nodes(self, level: int) -> slice:
        """Return the slice of the nodes of a level."""
        return slice(int(self.level_node[level]), int(self.level_node[level + 1]))

    def truncate(self, depth: int) -> Self:
        """Return the tree of the first `depth` context variables (at least the class)."""
        n_nodes = int(self.level_node[depth + 1])
        n_cells = int(self.node_start[n_nodes])
        cells = {k: array[:n_cells] for k, array in vars(self).items() if k.startswith("cell_")}
        return replace(
            self,
            context_arities=self.context_arities[:depth],
            level_node=self.level_node[: depth + 2],
            node_value=self.node_value[:n_nodes],
            node_parent=self.node_parent[:n_nodes],
            node_child=np.minimum(self.node_child[: n_nodes + 1], n_nodes),
            node_start=self.node_start[: n_nodes + 1],
            **cells,
        )

    def cell_nodes(self) -> Ints:
        """Return the node of every cell, shape (n_cells,)."""
        return np.repeat(np.arange(self.n_nodes), np.diff(self.node_start))

    def values(self, level: int) -> Ints:
        """Return the codes that lead to the nodes of a level, shape (level, n_nodes)."""
        out = np.empty((level, int(self.level_node[level + 1] - self.level_node[level])), np.int64)
        node = np.arange(self.level_node[level], self.level_node[level + 1])
        for variable in range(level - 1, -1, -1):
            out[variable] = self.node_value[node]
            node = self.node_parent[node]
        return out

    def without_class(self) -> tuple[Contexts, Ints]:
        """Return the prefix tree of the parents' values, ignoring the class, and nodes' places.

        It has no cells; its root is the empty context, and level d has the first d parents. The
        places in it, (n_nodes,), are those of this tree's nodes.
        """
        none, one = np.zeros(0, np.int64), np.zeros(1, np.int64)
        ends, values, parents, place = [0, 1], [one], [one], np.zeros(self.n_nodes, np.int64)
        for level, arity in enumerate(self.context_arities[1:], 2):
            nodes, low, high = self.nodes(level), ends[-2], ends[-1]
            keys = (place[self.node_parent[nodes]] - low) * arity + self.node_value[nodes]
            ranks, distinct = rank_distinct(keys, (high - low) * arity)
            place[nodes] = high + ranks
            values.append(distinct % arity)
            parents.append(low + distinct // arity)
            ends.append(high + len(distinct))
        parent = np.concatenate(parents)
        start = np.zeros(len(parent) + 1, np.int64)
        tree = np.array(ends), np.concatenate(values), parent, _first_children(parent), start, none
        return Contexts(self.arity, self.context_arities[1:], *tree), place


class Level(NamedTuple):
    """A level of a tree; positions are relative to its first, those of parents to the one above."""

    parent: Ints  # (n_nodes,); 0 for the root
    value: Ints  # (n_nodes,)
    start: Ints  # (n_nodes + 1,); cells of node u are ``start[u]:start[u+1]``
    cell_value: Ints  # (n_cells,)
    cell_count: Floats
    cell_parent: Ints  # (n_cells,); the parent node's cell with the same value; 0 for the root's

    def node_counts(self) -> Floats:
        """Return N(context) for every node, shape (n_nodes,)."""
        return _sums(self.cell_nodes(), self.cell_count, len(self.value))

    def cell_nodes(self) -> Ints:
        """Return the node of every cell, shape (n_cells,)."""
        return np.repeat(np.arange(len(self.value)), np.diff(self.start))


@dataclass(frozen=True, eq=False)
class ContextTree(Contexts):
    """Counts of one family on its seen contexts.

    >>> from tanager.counts import FamilyCounts
    >>> tree = FamilyCounts.from_dense(np.array([[3.0, 1.0], [0.0, 2.0]])).tree()  # (class, value)
    >>> tree.node_counts()  # the root, then one node per class
    array([6., 4., 2.])
    >>> tree.cell_count
    array([3., 3., 3., 1., 2.])
    """

    cell_count: Floats  # the count of every cell; exact (integers, or sums of `exact_weights`)
    cell_parent: Ints  # (n_cells,); the parent node's cell with the same value; 0 for the root's

    @property
    def total(self) -> float:
        """Total count."""
        return float(self.cell_count[: self.node_start[1]].sum())

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The levels one by one, root first: ``depth + 1`` of them."""
        levels, ends = [], self.level_cell
        for d in range(self.depth + 1):
            nodes, cells = self.nodes(d), slice(int(ends[d]), int(ends[d + 1]))
            up = max(0, d - 1)
            level = Level(
                self.node_parent[nodes] - self.level_node[up],
                self.node_value[nodes],
                self.node_start[nodes.start : nodes.stop + 1] - cells.start,
                self.cell_value[cells],
                self.cell_count[cells],
                self.cell_parent[cells] - ends[up],
            )
            levels.append(level)
        return tuple(levels)

    def node_counts(self) -> Floats:
        """Return N(context) for every node, shape (n_nodes,)."""
        return _sums(self.cell_nodes(), self.cell_count, self.n_nodes)

    def without_counts(self) -> Contexts:
        """Return the contexts only."""
        return Contexts(*(getattr(self, field.name) for field in fields(Contexts)))


def _sums(node: Ints, counts: Floats, n_nodes: int) -> Floats:
    return np.bincount(node, counts, n_nodes).astype(np.float64, copy=False)


def tree_from_cells(codes: Ints, cells: Floats, arities: tuple[int, ...]) -> ContextTree:
    """Build the tree of sorted cells: codes of class, parents, feature, (n_variables, n_cells)."""
    arity, n_cells, depth = arities[-1], cells.shape[0], codes.shape[0] - 1
    none, zero = np.zeros(0, np.int64), np.zeros(1, np.int64)
    # Parents that weren't counted have empty levels.
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
    if n_cells == 0:  # there's a root even if nothing was counted
        start = np.zeros(2, np.int64)
    levels.append(Level(zero, zero, start, value, count, np.zeros(value.shape[0], np.int64)))
    levels.reverse()
    level_node = starts_of([len(level.value) for level in levels])
    level_cell = starts_of([len(level.cell_value) for level in levels])
    above, cell_above = np.append(0, level_node), np.append(0, level_cell)  # the root has its own
    parents, values, starts, cell_values, counts, cell_parents = zip(*levels, strict=True)
    node_parent = np.concatenate([*map(np.add, parents, above)])
    firsts = [start[:-1] + at for start, at in zip(starts, level_cell, strict=False)]
    return ContextTree(
        arity,
        tuple(arities[:-1]),
        level_node,
        np.concatenate(values),
        node_parent,
        _first_children(node_parent),
        np.concatenate([*firsts, level_cell[-1:]]),
        np.concatenate(cell_values),
        np.concatenate(counts),
        np.concatenate([*map(np.add, cell_parents, cell_above)]),
    )


def _first_children(node_parent: Ints) -> Ints:
    """Return where each node's children start: they follow their parents' order."""
    return 1 + np.searchsorted(node_parent[1:], np.arange(len(node_parent) + 1))
