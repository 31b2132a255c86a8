r"""Ratios of generalised Stirling numbers of the first kind.

The sampler needs :math:`V(n, t) = S(n, t+1) / S(n, t)` only, never the numbers
themselves, which leave the range of floats at n = 170. With discount d

.. math::
   V(n+1, t) = \frac{(n - (t+1)d)\, V(n, t) + 1}{(n - t d) + 1 / V(n, t-1)},

which for d = 0 is the recurrence of the ordinary unsigned numbers. Rows are
kept for every n up to `DENSE`, above that on a geometric grid: V is almost
linear in log n, so what lies between is interpolated. Above `EXACT` the
recurrence is followed as a differential equation in log n: weights may be
large, and the work grows with their logarithm only.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DENSE = 1024  # rows 0 .. DENSE are all kept
GRID = 1.02  # ratio of neighbouring rows above that; interpolation errs by less than 1e-5
EXACT = 4096  # the recurrence runs up to here, the differential equation from here on
NEAR = 66  # columns of the near tables; not a power of two, which would crowd few cache sets
MAX_TABLES = 1024  # columns; more tables than that in one cell are not sampled


class Ratios(NamedTuple):
    """V(n, t) for the sampler's kernels."""

    rows: Floats  # (n_rows, n_columns): ``rows[i, t]`` is V(n_i, t); column 0 is not used
    log_count: Floats  # (n_rows - DENSE,): log n_i from row `DENSE` on
    dense: int  # rows up to this number have n_i = i
    discount: float
    near: Floats  # (<= DENSE + 1, NEAR): the first columns again, read most, in little cache
    growth: Floats  # likewise: S(n + 1, t) / S(n, t) = n - t d + 1 / V(n, t - 1)

    def row(self, n: int) -> NDArray[np.float64]:
        """Return V(n, t) for all t, shape (n_columns,); zero where t >= n."""
        if n <= self.dense:
            return self.rows[n]
        place = np.log(float(n))
        at = min(max(int(np.searchsorted(self.log_count, place)), 1), len(self.log_count) - 1)
        low = self.log_count[at - 1]
        share = (place - low) / (self.log_count[at] - low)
        below, above = self.rows[self.dense + at - 1 : self.dense + at + 1]
        return np.asarray((1.0 - share) * below + share * above)


@lru_cache(maxsize=24)
def stirling_ratios(max_count: int, discount: float = 0.0) -> Ratios:
    """Tabulate V(n, t) for counts up to `max_count`, once for all families.

    Takes 11 MB at a million.
    """
    top = max(max_count, 2)
    counts = [*range(min(top, DENSE) + 1)]
    while counts[-1] < top:
        counts.append(min(top, int(np.ceil(counts[-1] * GRID))))
    rows = np.zeros((len(counts), min(top, MAX_TABLES) + 1))
    _fill(counts, discount, rows[:, 1:])
    near = rows[: DENSE + 1, :NEAR].copy()
    log_count = np.log(np.array(counts[DENSE:], np.float64))
    return Ratios(rows, log_count, DENSE, discount, near, _kept_counts(near, discount))


def _fill(counts: list[int], discount: float, rows: Floats) -> None:
    """Write V(n, t), t = 1, 2, ..., for increasing counts n to rows (n_counts, n_columns)."""
    place = {n: at for at, n in enumerate(counts)}
    ratio, n = np.zeros(rows.shape[1]), 1
    while n < min(counts[-1], EXACT):
        some = ratio[:n]  # past t = n all numbers vanish
        some += _step(n, some, discount)
        n += 1
        if n in place:
            rows[place[n]] = ratio
    for after in (m for m in counts if m > min(counts[-1], EXACT)):
        ratio = _follow(ratio, n, after, discount)
        rows[place[after]], n = ratio, after


def _step(n: float, ratio: Floats, discount: float) -> Floats:
    """Return V(n + 1, t) - V(n, t), t = 1, 2, ..., from V(n, t)."""
    inverse = np.zeros_like(ratio)  # 1 / V(n, t - 1)
    np.divide(1.0, ratio[:-1], out=inverse[1:])
    rest = n - discount * np.arange(1, len(ratio) + 1)
    return np.asarray((1.0 - (discount + inverse) * ratio) / (rest + inverse))


def _follow(ratio: Floats, low: int, high: int, discount: float) -> Floats:
    """Return V(high, t) from V(low, t) by Runge and Kutta's steps of fourth order in log n.

    A difference is the slope in the middle of its step, so the slope at n is the
    difference half a step before.
    """

    def slope(place: float, ratio: Floats) -> Floats:
        n = np.exp(place) - 0.5
        before = ratio - 0.5 * _step(n, ratio, discount)
        return _step(n, before, discount) * (n + 0.5)

    place, distance = np.log(low), np.log(high / low)
    # Errors decay at rates of up to 1 / V and move on to larger t: like upwind differences of
    # a transport equation they are stable for steps of up to 1.39 V.
    n_steps = int(np.ceil(distance * (1.0 / ratio[-1] + 1.0)))
    h = distance / n_steps
    for at in range(n_steps):
        x = place + at * h
        a = slope(x, ratio)
        b = slope(x + h / 2, ratio + h / 2 * a)
        c = slope(x + h / 2, ratio + h / 2 * b)
        d = slope(x + h, ratio + h * c)
        ratio = ratio + h / 6 * (a + 2 * b + 2 * c + d)
    return ratio


def _kept_counts(near: Floats, discount: float) -> Floats:
    """Return S(n + 1, t) / S(n, t) for the near columns; zero where t > n."""
    count, tables = np.ogrid[: near.shape[0], : near.shape[1]]
    more = np.where((tables >= 1) & (tables <= count), count - tables * discount, 0.0)
    seen = (tables[:, 2:] <= count) & (near[:, 1:-1] > 0)
    more[:, 2:] += np.divide(1.0, near[:, 1:-1], out=np.zeros_like(near[:, 2:]), where=seen)
    return more
