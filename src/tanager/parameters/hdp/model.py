"""The hierarchical model of one family: its prior, its tree with concentrations, its estimate."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.counts import ContextTree
from tanager.errors import ConfigurationError
from tanager.parameters.tables import TreeTable

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

TYINGS = ("level", "parent", "single")


class Prior(NamedTuple):
    """Gamma(shape, rate) on every concentration below the root, whose own is fixed."""

    shape: float
    rate: float
    root_concentration: float
    class_rate: float | None = None  # for the class level's concentration; None: as the others
    # Of a Pitman-Yor process; zero is the Dirichlet process, None is drawn with the tables.
    discount: float | None = 0.0
    # Share of the root's Dirichlet in the sampler's weights: one marginalises it as
    # the paper writes; the authors' program has zero (one table per value at the root).
    root_share: float = 1.0

    def rates(self, n_groups: int, class_group: int) -> Floats:
        """Return the rate for each concentration, with that of the class level's own, if any."""
        rates = np.full(n_groups, float(self.rate))
        if self.class_rate is not None and class_group >= 0:
            rates[class_group] = self.class_rate
        return rates


class TiedTree(NamedTuple):
    """A `ContextTree` as the kernels read it, with the concentration that each node uses.

    Nodes of level d are ``level_node[d]:level_node[d+1]``, cells of node u are
    ``node_start[u]:node_start[u+1]``.
    """

    level_node: Ints  # (depth + 2,)
    level_cell: Ints  # (depth + 2,)
    node_start: Ints  # (n_nodes + 1,)
    node_group: Ints  # (n_nodes,): which concentration; the root's entry is not read
    node_parent: Ints  # (n_nodes,)
    cell_parent: Ints  # (n_cells,): the same value in the parent node; not read for the root
    cell_count: Floats  # (n_cells,): the estimators read those of the leaves
    n_groups: int  # number of distinct concentrations
    class_group: int  # the one that only the class level's nodes use; -1 where there is none


def tie(tree: ContextTree, tying: str) -> TiedTree:
    """Give one concentration to a level's nodes, a node's children, or all but the root."""
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
    nodes = tree.level_node, tree.level_cell, tree.node_start, group, tree.node_parent
    class_group = -1 if tying == "single" else 0
    return TiedTree(*nodes, tree.cell_parent, tree.cell_count, n_groups, class_group)


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


@dataclass(frozen=True)
class Estimate:
    """What an inference gives for every node of one family's tree."""

    log_prob: Floats  # (n_cells,): of every (context, value) seen, contexts of every length
    log_escape: Floats  # (n_nodes,): log share of the parent's estimate in unseen values
    converged: bool
    info: dict[str, Any] = field(default_factory=dict)  # concentrations, sweeps and the trace

    def table(self, tree: ContextTree) -> TreeTable:
        """Return the estimates as a table on the tree."""
        return TreeTable(tree.without_counts(), self.log_prob, self.log_escape, inherit=True)
