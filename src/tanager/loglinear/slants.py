r"""Curves across the table of two numbers: along their sum, difference, ratio, product, ...

A direction assigns an addend to each ordered value of either number; joint values with about the
same sum share a score. Addends are multiples of ranks, of standardised numbers, or of logarithms,
whose sums are products and differences ratios. Each pair gets the directions whose curves would
gain most on the residuals of an additive model (see `residuals`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tanager.codes import Domain, Groups
from tanager.codes.groups import group_codes, grouped_domain
from tanager.loglinear.curves import TRACE, Slant
from tanager.loglinear.residuals import SHRINK, Residuals
from tanager.numerics import Floats, Ints

MOST_SLANTS = 2  # per pair
LEAST_GAIN = 1.0  # nats in total: the best of many directions may gain less than that by chance
MOST_RESIDUALS = 1 << 21  # rows times classes considered
LEAST_SLANTED = 4  # minimum number of ordered values of either number
WEIGHTS = ((1, 1), (1, -1), (2, 1), (2, -1), (1, 2), (1, -2))


class Slants:
    """Finds the slants of pairs of grouped features.

    weights: the weights of each feature's values.
    numbers: the numbers behind each feature's ordered values; None if it isn't numeric.
    """

    def __init__(
        self,
        residuals: Residuals,
        domain: Domain,
        groups: Sequence[Groups],
        weights: Sequence[Floats],
        numbers: Sequence[Floats | None],
    ) -> None:
        # With very many classes fewer rows, evenly spread, are enough.
        step = -(-residuals.residuals.size // MOST_RESIDUALS)
        residuals = (
            residuals if step < 2 else residuals.take(np.arange(0, len(residuals.weights), step))
        )
        self._orders = grouped_domain(domain, groups).n_ordered
        self._codes = group_codes(residuals.codes, groups).astype(np.int64)
        own = slice(1 if domain.n_classes == 2 else 0, None)  # for two classes one suffices
        spreads = residuals.spreads[:, own]
        said = residuals.residuals[:, own], spreads, spreads * residuals.weights[:, None]
        self._said = np.hstack([*said, residuals.weights[:, None]])
        known = numbers or (None,) * domain.n_features
        given = zip(groups, domain.n_ordered, weights, known, strict=True)
        self._scales = [scales(group[:n], weight[:n], one) for group, n, weight, one in given]

    def find(self, pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], tuple[Slant, ...]]:
        """Return the slants that gain most, best first, for pairs of ordered features."""
        return {pair: self._find(*pair) for pair in pairs}

    def _find(self, first: int, second: int) -> tuple[Slant, ...]:
        both = zip(self._scales[first], self._scales[second], strict=True)
        scaled = [(a, b) for a, b in both if a is not None and b is not None]
        slants = [
            Slant(tuple((u * a).tolist()), tuple((v * b).tolist()))
            for a, b in scaled
            for u, v in WEIGHTS
        ]
        sums = self._cells(first, second)
        mass, n = sums[:, -1].reshape(len(slants[0].first), -1), (sums.shape[1] - 1) // 3
        left, spread = sums[:, :n].copy(), sums[:, n : 2 * n]
        bins = [_Binned.of(*slant.in_order(mass)) for slant in slants]
        fixed = [np.split(one.sum(sums[:, n : 3 * n]), 2, axis=1) for one in bins]
        chosen: list[Slant] = []
        for _ in range(MOST_SLANTS):
            steps = [one.sum(left) for one in bins]
            gains = [
                0.5 * float(((step**2 - chance) / (steep + SHRINK)).sum())
                for step, (steep, chance) in zip(steps, fixed, strict=True)
            ]
            best = int(np.argmax(gains))
            if gains[best] < LEAST_GAIN:
                break
            chosen.append(slants[best])
            step = steps[best] / (fixed[best][0] + SHRINK)
            left -= spread * step[bins[best].places]
        return tuple(chosen)

    def _cells(self, first: int, second: int) -> Floats:
        """Return the sums over the rows with each joint value, (n_joint, n_sums)."""
        from scipy.sparse import csr_array

        (a, b), (n, m) = self._codes[[first, second]], (self._orders[first], self._orders[second])
        known = np.flatnonzero((a < n) & (b < m))
        at, ends = a[known] * m + b[known], np.arange(len(known) + 1)
        inside = csr_array((np.ones(len(known)), at, ends), (len(known), n * m))
        return np.asarray(inside.T @ self._said[known])


class _Binned(NamedTuple):
    """Joint values in the order of their bins."""

    places: Ints  # (n_joint,): each one's bin, among the non-empty ones
    order: Ints  # (n_joint,)
    starts: Ints  # (n_bins,)

    @classmethod
    def of(cls, order: Ints, bins: Ints) -> _Binned:
        first = np.append(True, bins[1:] != bins[:-1])
        places = np.empty_like(order)
        places[order] = np.cumsum(first) - 1
        return cls(places, order, np.flatnonzero(first))

    def sum(self, values: Floats) -> Floats:
        """Return the sums of values, (n_joint, n), in each bin."""
        return np.add.reduceat(values[self.order], self.starts, axis=0)


def scales(groups: Groups, weights: Floats, numbers: Floats | None) -> list[Floats | None]:
    """Return the ranks, standardised numbers and logarithms of groups of ordered values.

    None where undefined: for values that aren't numbers, or numbers that aren't positive.

    >>> groups, weights = np.array([0, 0, 1]), np.array([1.0, 1.0, 2.0])
    >>> [one.round(2).tolist() for one in scales(groups, weights, np.array([1.0, 3.0, 4.0]))]
    [[0.25, 0.75], [-1.0, 1.0], [0.55, 1.39]]
    """
    if not len(groups):
        return [None] * 3
    known = weights + TRACE
    mass = np.bincount(groups, known)
    total = mass.sum()
    ranks = (np.cumsum(mass) - 0.5 * mass) / total
    if numbers is None:
        return [ranks, None, None]
    means = np.bincount(groups, known * numbers) / mass
    away = means - (mass * means).sum() / total
    spread = float(np.sqrt((mass * away**2).sum() / total))
    logs = np.bincount(groups, known * np.log(numbers)) / mass if numbers[0] > 0.0 else None
    return [ranks, away / spread if spread > 0.0 else None, logs]
