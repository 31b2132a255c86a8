"""The explaining-away residual: the dependence that the class makes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tanager.counts import Counts, build_trees
from tanager.counts.pairs import pair_groups

__all__ = ["explaining_away_residual"]

DECIMALS = 10  # as all information: ties are ties whatever the summation


def explaining_away_residual(counts: Counts) -> NDArray[np.float64]:
    r"""Return :math:`I(X_i; X_j \mid Y) - I(X_i; X_j)` in nats, shape (n, n), symmetric.

    From the pair counts: one pass over the rows, and one more for every pair
    too wide to be counted densely.

    References
    ----------
    J. Bilmes, "Dynamic Bayesian multinets", UAI 2000.
    """
    from tanager.structure._information_kernels import explaining_away

    residual = counts.map_pairs(explaining_away)
    for i, j in pair_groups(counts.domain)[1]:
        tree = build_trees(counts.rows, [(j, (i,))], counts.context, "pair counts")[0]
        leaf = tree.levels[2]
        node = leaf.cell_nodes()
        label = tree.levels[1].value[leaf.parent[node]]
        residual[i, j] = residual[j, i] = _sparse_residual(
            leaf.value[node], leaf.cell_value, label, leaf.cell_count
        )
    return residual.round(DECIMALS)


def _sparse_residual(
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    label: NDArray[np.int64],
    count: NDArray[np.float64],
) -> float:
    """Return the residual from the cells seen, as sums of n log n over their margins."""
    if count.shape[0] == 0:
        return 0.0
    signs = (
        (1, (left, right, label)),
        (-1, (left, label)),
        (-1, (right, label)),
        (1, (label,)),
        (-1, (left, right)),
        (1, (left,)),
        (1, (right,)),
    )
    terms = 0.0
    for sign, columns in signs:
        _, cell = np.unique(np.stack(columns), axis=1, return_inverse=True)
        n = np.bincount(cell.ravel(), count)
        terms += sign * float((n * np.log(n)).sum())
    total = float(count.sum())
    return (terms - total * float(np.log(total))) / total
