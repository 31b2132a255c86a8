"""A context tree in one row of arrays, with the concentration that each node uses.

Levels stand one after the other, root first, as in `TreeTable`::

    nodes   | root | level 1 ... | level 2 ........... | leaves ............ |
    cells   | root's cells | cells of level 1 ... | ...| cells of the leaves |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.counts import ContextTree
from tanager.counts.tree import Level
from tanager.errors import ConfigurationError

__all__ = ["TYINGS", "FlatTree", "flatten", "spell_unseen"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

TYINGS = ("level", "parent", "single")


class FlatTree(NamedTuple):
    """All levels of a tree end to end.

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


def flatten(tree: ContextTree, tying: str) -> FlatTree:
    """Lay a tree out flat and tie the concentrations of its nodes.

    Parameters
    ----------
    tree : ContextTree
    tying : {'level', 'parent', 'single'}
        One concentration for the nodes of a level, for the children of a node,
        or for the whole tree (the root apart).
    """
    levels = tree.levels
    nodes = np.cumsum([0] + [level.n_nodes for level in levels])
    cells = np.cumsum([0] + [level.n_cells for level in levels])
    starts = [level.start[:-1] + cells[d] for d, level in enumerate(levels)]
    parents = [level.cell_parent + cells[max(d - 1, 0)] for d, level in enumerate(levels)]
    group = np.zeros(int(nodes[-1]), np.int64)
    n_groups = 1
    if tying == "level":
        for d in range(1, tree.depth + 1):
            group[nodes[d] : nodes[d + 1]] = d - 1
        n_groups = tree.depth
    elif tying == "parent":
        for d in range(1, tree.depth + 1):
            group[nodes[d] : nodes[d + 1]] = levels[d].parent + nodes[d - 1]
        n_groups = int(nodes[-2])
    elif tying != "single":
        allowed = ", ".join(map(repr, TYINGS))
        raise ConfigurationError(
            f"tying={tying!r} is not known. Allowed: {allowed}. Use 'level' unless you compare."
        )
    return FlatTree(
        nodes,
        cells,
        np.concatenate([*starts, cells[-1:]]),
        group,
        np.concatenate([lv.parent + nodes[max(d - 1, 0)] for d, lv in enumerate(levels)]),
        np.concatenate(parents),
        np.concatenate([level.cell_count for level in levels]),
        n_groups,
        -1 if tying == "single" else 0,
    )


def spell_unseen(tree: ContextTree) -> ContextTree:
    """Give every node a cell, with count 0 where need be, for each value that the root saw.

    An inference that averages over samples needs them: the mean of a product
    (a node's spare mass times its parent's estimate) is not the product of the
    means. Cells become number of nodes times number of values.
    """
    values = tree.levels[0].cell_value
    width = values.shape[0]
    levels: list[Level] = []
    for level in tree.levels:
        places = level.cell_nodes() * width + np.searchsorted(values, level.cell_value)
        counts = np.zeros(level.n_nodes * width)
        counts[places] = level.cell_count
        above = np.zeros((level.n_nodes, width), np.int64)
        if levels:
            above = level.parent[:, None] * width + np.arange(width)
        levels.append(
            Level(
                level.parent,
                level.value,
                level.child,
                np.arange(level.n_nodes + 1) * width,
                np.tile(values, level.n_nodes),
                counts,
                above.ravel(),
            )
        )
    return ContextTree(tree.arity, tree.context_arities, tuple(levels))
