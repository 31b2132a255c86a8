"""Which concentration each node of a context tree uses, beside the tree's own arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.counts import ContextTree
from tanager.errors import ConfigurationError

__all__ = ["TYINGS", "TiedTree", "spell_unseen", "tie"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

TYINGS = ("level", "parent", "single")


class TiedTree(NamedTuple):
    """A `ContextTree` as the kernels read it, with its concentrations.

    Attributes
    ----------
    level_node, level_cell : (depth + 2,)
        Nodes of level d are ``level_node[d]:level_node[d+1]``; cells likewise.
    node_start : (n_nodes + 1,)
        Cells of node u are ``node_start[u]:node_start[u+1]``.
    node_group : (n_nodes,)
        Which concentration the node's Dirichlet uses; the root's entry is not read.
    node_parent : (n_nodes,)
    cell_parent : (n_cells,)
        The cell with the same value in the parent node; not read for the root.
    cell_count : (n_cells,)
        Counts of the data; the estimators read those of the leaves.
    n_groups : int
        Number of distinct concentrations.
    class_group : int
        The one that only the class level's nodes use; -1 where there is none.
    """

    level_node: Ints
    level_cell: Ints
    node_start: Ints
    node_group: Ints
    node_parent: Ints
    cell_parent: Ints
    cell_count: Floats
    n_groups: int
    class_group: int


def tie(tree: ContextTree, tying: str) -> TiedTree:
    """Tie the concentrations of a tree's nodes.

    Parameters
    ----------
    tree : ContextTree
    tying : {'level', 'parent', 'single'}
        One concentration for the nodes of a level, for the children of a node,
        or for the whole tree (the root apart).
    """
    group = np.zeros(tree.n_nodes, np.int64)
    n_groups = 1
    if tying == "level":
        for d in range(1, tree.depth + 1):
            group[tree.nodes(d)] = d - 1
        n_groups = tree.depth
    elif tying == "parent":
        group = tree.node_parent
        n_groups = int(tree.level_node[-2])
    elif tying != "single":
        allowed = ", ".join(map(repr, TYINGS))
        raise ConfigurationError(
            f"tying={tying!r} is not known. Allowed: {allowed}. Use 'level' unless you compare."
        )
    return TiedTree(
        tree.level_node,
        tree.level_cell,
        tree.node_start,
        group,
        tree.node_parent,
        tree.cell_parent,
        tree.cell_count,
        n_groups,
        -1 if tying == "single" else 0,
    )


def spell_unseen(tree: ContextTree) -> ContextTree:
    """Give every node a cell, with count 0 where need be, for each value that the root saw.

    An inference that averages over samples needs them: the mean of a product
    (a node's spare mass times its parent's estimate) is not the product of the
    means. Cells become number of nodes times number of values.
    """
    values = tree.cell_value[: tree.node_start[1]]
    width = values.shape[0]
    counts = np.zeros((tree.n_nodes, width))
    counts[tree.cell_nodes(), np.searchsorted(values, tree.cell_value)] = tree.cell_count
    above = tree.node_parent[:, None] * width + np.arange(width)
    above[0] = 0
    return replace(
        tree,
        node_start=np.arange(tree.n_nodes + 1) * width,
        cell_value=np.tile(values, tree.n_nodes),
        cell_count=counts.ravel(),
        cell_parent=above.ravel(),
    )
