r"""The context tree: all that the estimators of one family read.

For a feature X with parents :math:`(p_1, \dots, p_k)` it is the prefix tree
over :math:`(y, p_1, \dots, p_k)` with a sparse count vector over X's values in
every node, held in flat arrays level by level::

    level 0   root                      N(x)
    level 1   one node per class        N(x, y)
    level 2   one per (y, p1) seen      N(x, y, p1)
    ...
    level k+1 one per full context      N(x, y, p1, ..., pk)

Nodes of a level are sorted by (parent node, value), so the children of a node
stand side by side; cells of a node are sorted by value. Only contexts and
cells with a count exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["ContextTree", "Level"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Level(NamedTuple):
    """The nodes with contexts of one length, and their cells.

    Attributes
    ----------
    parent : (n_nodes,)
        Each node's parent, an index into the level above; 0 for the root.
    value : (n_nodes,)
        The code (of the class on level 1, of parent feature d-2 on level d)
        that leads from the parent to the node; 0 for the root.
    child : (n_nodes + 1,)
        Children of node u are nodes ``child[u]:child[u+1]`` of the level below;
        all zero on the last level.
    start : (n_nodes + 1,)
        Cells of node u are ``start[u]:start[u+1]``.
    cell_value : (n_cells,)
        The feature's value of each cell, increasing within a node.
    cell_count : (n_cells,) of float64
        Its count; exact (integers, or sums of `exact_weights`).
    cell_parent : (n_cells,)
        The cell of the parent node with the same value, an index into the
        cells of the level above; 0 for the root's.
    """

    parent: Ints
    value: Ints
    child: Ints
    start: Ints
    cell_value: Ints
    cell_count: Floats
    cell_parent: Ints

    @property
    def n_nodes(self) -> int:
        """Number of contexts seen."""
        return int(self.parent.shape[0])

    @property
    def n_cells(self) -> int:
        """Number of (context, value) pairs seen."""
        return int(self.cell_value.shape[0])

    def node_counts(self) -> Floats:
        """Return N(context) for every node, shape (n_nodes,)."""
        sums = np.zeros(self.n_nodes)
        np.add.at(sums, self.cell_nodes(), self.cell_count)
        return sums

    def cell_nodes(self) -> Ints:
        """Return the node of every cell, shape (n_cells,)."""
        return np.repeat(np.arange(self.n_nodes), np.diff(self.start))


@dataclass(frozen=True, eq=False)
class ContextTree:
    """Counts of one family; see the module's drawing.

    Attributes
    ----------
    arity : int
        Number of values of the feature.
    context_arities : tuple of int
        Number of classes, then of values of each parent, in back-off order.
    levels : tuple of Level
        ``len(context_arities) + 1`` of them, root first. The root level always
        has exactly one node, even where nothing was counted.
    """

    arity: int
    context_arities: tuple[int, ...]
    levels: tuple[Level, ...]

    @property
    def depth(self) -> int:
        """Length of a full context: one for the class and one per parent."""
        return len(self.context_arities)

    @property
    def total(self) -> float:
        """Total count."""
        return float(self.levels[0].cell_count.sum())

    def truncate(self, depth: int) -> ContextTree:
        """Return the tree of the first `depth` context variables (at least the class)."""
        last = self.levels[depth]._replace(child=np.zeros(self.levels[depth].n_nodes + 1, np.int64))
        return ContextTree(self.arity, self.context_arities[:depth], (*self.levels[:depth], last))
