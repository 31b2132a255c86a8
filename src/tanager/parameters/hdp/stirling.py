r"""Ratios of generalised Stirling numbers of the first kind.

The sampler needs :math:`V(n, t) = S(n, t+1) / S(n, t)` only, never the numbers
themselves, which leave the range of floats at n = 170. With discount d

.. math::
   V(n+1, t) = \frac{(n - (t+1)d)\, V(n, t) + 1}{(n - t d) + 1 / V(n, t-1)},

which for d = 0 is the recurrence of the ordinary unsigned numbers. Rows are
kept for every n up to `DENSE`, above that on a geometric grid: V is almost
linear in log n, so what lies between is interpolated.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ratios", "stirling_ratios"]

DENSE = 1024  # rows 0 .. DENSE are all kept
GRID = 1.02  # ratio of neighbouring rows above that; interpolation errs by less than 1e-5
NEAR = 66  # columns of the near tables; not a power of two, which would crowd few cache sets
MAX_TABLES = 1024  # columns; more tables than that in one cell are not sampled


class Ratios(NamedTuple):
    """V(n, t) for the sampler's kernels.

    Attributes
    ----------
    rows : (n_rows, n_columns)
        ``rows[i, t]`` is V(n_i, t); column 0 is not used.
    log_count : (n_rows - DENSE,)
        log n_i from row `DENSE` on.
    dense : int
        Rows up to this number have n_i = i.
    discount : float
    near : (<= DENSE + 1, NEAR)
        The first columns again: what is read most, in a fraction of the cache.
    growth : (<= DENSE + 1, NEAR)
        S(n + 1, t) / S(n, t) = n - t d + 1 / V(n, t - 1), likewise.
    """

    rows: NDArray[np.float64]
    log_count: NDArray[np.float64]
    dense: int
    discount: float
    near: NDArray[np.float64]
    growth: NDArray[np.float64]


def stirling_ratios(max_count: int, discount: float = 0.0) -> Ratios:
    """Tabulate V(n, t) for counts up to `max_count`.

    Costs max_count * min(max_count, MAX_TABLES) steps of the recurrence (half
    a second at a million) and 11 MB at most.
    """
    from tanager.parameters.hdp._stirling_kernels import fill_ratios

    top = max(max_count, 2)
    counts = [*range(min(top, DENSE) + 1)]
    while counts[-1] < top:
        counts.append(min(top, int(np.ceil(counts[-1] * GRID))))
    wanted = np.array(counts, np.int64)
    rows = np.zeros((wanted.shape[0], min(top, MAX_TABLES) + 1))
    fill_ratios(wanted, discount, rows)
    near = rows[: DENSE + 1, :NEAR].copy()
    log_count = np.log(wanted[DENSE:].astype(np.float64))
    return Ratios(rows, log_count, DENSE, discount, near, _kept_counts(near, discount))


def _kept_counts(near: NDArray[np.float64], discount: float) -> NDArray[np.float64]:
    """Return S(n + 1, t) / S(n, t) for the near columns; zero where t > n."""
    count, tables = np.ogrid[: near.shape[0], : near.shape[1]]
    more = np.where((tables >= 1) & (tables <= count), count - tables * discount, 0.0)
    seen = (tables[:, 2:] <= count) & (near[:, 1:-1] > 0)
    more[:, 2:] += np.divide(1.0, near[:, 1:-1], out=np.zeros_like(near[:, 2:]), where=seen)
    return more
