"""The explaining-away residual: the dependence that the class makes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.counts import Counts, PairCells, PairCounts

__all__ = ["explaining_away_residual"]

Floats = NDArray[np.float64]


def explaining_away_residual(counts: Counts) -> Floats:
    r"""Return :math:`I(X_i; X_j \mid Y) - I(X_i; X_j)` in nats, shape (n, n), symmetric.

    References
    ----------
    J. Bilmes, "Dynamic Bayesian multinets", UAI 2000.
    """
    return counts.score_pairs(_Residual())


class _Residual:
    symmetric = True

    def joints(self, pairs: PairCounts) -> Floats:
        joints = [joint for _, _, joint in pairs.joints()]
        out = np.empty((len(joints), 1))
        for joint, score in zip(joints, out, strict=True):
            native.score_explaining_away(joint, score)
        return out[:, 0]

    def cells(self, cells: PairCells) -> float:
        """Return the residual from the cells seen, as sums of n log n over their margins."""
        if cells.counts.shape[0] == 0:
            return 0.0
        left, right, label, count, _ = cells
        signs = (
            (1, (left, right, label)),
            (-1, (left, label)),
            (-1, (right, label)),
            (1, (label,)),
            (-1, (left, right)),
            (1, (left,)),
            (1, (right,)),
        )
        # Summed over the cells, log of a margin is n log n of that margin.
        terms = sum(
            sign * float((count * np.log(cells.margin(*columns))).sum()) for sign, columns in signs
        )
        total = float(count.sum())
        return (terms - total * float(np.log(total))) / total
