r"""Scores that never fall, or never rise, along the order of a feature.

With the other members of a family fixed, the scores of k ordered values
are a level and k - 1 steps,

.. math:: s_b = z_0 \sigma_0 + \sum_{j=1}^{k-1} z_j \sigma (1[b \ge j] - (k - j) / k)

with independent z of variance one. If all steps have the same sign, the score
rises or falls; and so do sums of such scores, whatever the other features. A
table of the feature and others loses no generality: if the sum of a curve
and tables rises, the smallest slope over the tables' contexts can be moved to the
curve, and all of them rise.

A table of two such features has corners instead of steps: parameters that apply
where both features are past some value, or where either is, alternately; all of
them rise along both features.

For the probability of a class to rise, its score must rise
relative to that of every other class. Adding the same to all classes' scores has no
effect, so the other classes' steps are at most zero; with one class that rises and one
that falls, those of all others are zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from tanager.loglinear.curves import basis_variances
from tanager.numerics import Floats, Ints

TRACE = 1e-30  # weight of a value without rows if other ordered values have some
# By column: the sign of each class, shape (n_classes,); 0 for no constraint.
Signs = Mapping[int, NDArray[np.int8]]


@lru_cache(maxsize=256)
def step_matrix(arity: int, n_ordered: int, *, smooth: bool) -> Floats:
    """Return the scores for unit parameters, shape (arity, arity): a level, then steps.

    Values past the first `n_ordered` are free. The level's share of the variance is that of a
    `smooth` curve, or that of free scores.

    >>> step_matrix(3, 3, smooth=False).round(2).tolist()
    [[0.58, -0.82, -0.41], [0.58, 0.41, -0.41], [0.58, 0.41, 0.82]]
    """
    variances = basis_variances(n_ordered) if smooth else np.ones(n_ordered)
    level = variances[0] / variances.sum()
    out = np.eye(arity)
    part = out[:n_ordered, :n_ordered]
    part[:, 0] = np.sqrt(level)
    if n_ordered > 1:
        j, b = np.arange(1, n_ordered), np.arange(n_ordered)
        after = (n_ordered - j) / n_ordered
        spread = (after * (1.0 - after)).sum()
        part[:, 1:] = ((b[:, None] >= j) - after) * np.sqrt((1.0 - level) / spread)
    out.setflags(write=False)
    return out


def column_bounds(signs: NDArray[np.int8], n_columns: int) -> tuple[Floats, Floats]:
    """Return the smallest and the largest step of each column of scores.

    >>> low, high = column_bounds(np.array([0, 1, 0], np.int8), 3)
    >>> low.tolist(), high.tolist()
    ([-inf, 0.0, -inf], [0.0, inf, 0.0])
    """
    if n_columns == 1:  # the second class's score minus the first's
        known = np.array([signs[1] or -signs[0]])
    else:
        known = signs.astype(np.int64)
        others = known == 0
        if others.any() and known.any():
            both = known.max() > 0 > known.min()
            low = np.where(known < 0, -np.inf, 0.0)
            high = np.where(known > 0, np.inf, 0.0)
            if not both:
                rising = known.max() > 0
                low[others] = -np.inf if rising else 0.0
                high[others] = 0.0 if rising else np.inf
            return low, high
    return np.where(known > 0, 0.0, -np.inf), np.where(known < 0, 0.0, np.inf)


@lru_cache(maxsize=256)
def corner_matrix(n_first: int, n_second: int, *, opposite: bool) -> Floats:
    """Return the scores for unit parameters of two ordered features: a level, steps and corners.

    Shape (n_first * n_second, n_first * n_second). Every column but the first
    never falls along the first feature, nor along the second; with `opposite` it
    never rises along the second.
    """
    first, second = _marks(n_first), _marks(n_second)
    if opposite:
        second = second[::-1]
    both = np.einsum("xi,yj->xyij", first, second)
    either = first[:, None, :, None] + second[None, :, None, :] - both
    i, j = np.indices((n_first, n_second))
    by_turns = (i > 0) & (j > 0) & ((i + j) % 2 == 1)
    size = n_first * n_second
    out = np.where(by_turns, either, both).reshape(size, size)
    out[:, 1:] -= out[:, 1:].mean(axis=0)
    level = 1.0 / size
    out[:, 0] = np.sqrt(level)
    spread = float((out[:, 1:] ** 2).mean(axis=0).sum())
    out[:, 1:] *= np.sqrt((1.0 - level) / spread)
    out.setflags(write=False)
    return out


def _marks(size: int) -> Floats:
    """Return indicators of a value being at least 0, 1, 2, ..., (size, size)."""
    return (np.arange(size)[:, None] >= np.arange(size)).astype(np.float64)


def signed_axes(family: Sequence[int], signs: Signs) -> tuple[int, ...]:
    """Return the axes of the members of a family along which its scores rise or fall."""
    return tuple(axis for axis, column in enumerate(family) if column in signs)


def relation(first: NDArray[np.int8], second: NDArray[np.int8]) -> int:
    """Return 1 if two features have the same signs for the classes, -1 if opposite, else 0."""
    if len(first) == 2:
        return int((first[1] or -first[0]) * (second[1] or -second[0]))
    if np.array_equal(first, second):
        return 1
    return -1 if np.array_equal(first, -second) else 0


def can_hold(members: Sequence[int], signs: Signs) -> bool:
    """Return whether a table of some features can satisfy the signs of all of them."""
    asked = [signs[one] for one in members if one in signs]
    return len(asked) < 2 or (len(asked) == 2 and relation(*asked) != 0)


def fill_order(mass: Floats, axis: int, n_ordered: int) -> Floats:
    """Return the weight of joint values, with a tiny one along the order where any has some."""
    out = mass.copy()
    inside = np.moveaxis(out, axis, -1)[..., :n_ordered]
    inside[...] = np.where((inside > 0).any(axis=-1, keepdims=True), np.maximum(inside, TRACE), 0.0)
    return out


class TableSteps:
    """The cells of tables whose scores are levels and steps.

    `low` and `high`, (n_cells, n_columns), bound all parameters; infinite if unbounded.
    """

    def __init__(self, n_cells: int, n_columns: int) -> None:
        self._parts: list[tuple[Ints, Floats]] = []
        self.low = np.full((n_cells, n_columns), -np.inf)
        self.high = np.full((n_cells, n_columns), np.inf)

    def bound(self, cells: Ints, signs: NDArray[np.int8]) -> None:
        """Bound all but the first of some cells, shape (n_contexts, n_ordered), by their sign."""
        low, high = column_bounds(signs, self.low.shape[1])
        self.low[cells[:, 1:]] = low
        self.high[cells[:, 1:]] = high

    def add_table(
        self, places: Ints, n_ordered: Sequence[int], asked: Sequence[NDArray[np.int8]]
    ) -> None:
        """Add a table of one or two features along which scores rise or fall as in `asked`.

        `places` are its cells, with those features' axes last; -1 for none. The first `n_ordered`
        values of each are ordered.
        """
        sizes = places.shape[-len(asked) :]
        choices = [[slice(k), *range(k, size)] for k, size in zip(n_ordered, sizes, strict=True)]
        for chosen in product(*choices):
            # A value outside the order has its own level; along the other feature there are steps.
            inside = [at for at, one in enumerate(chosen) if isinstance(one, slice)]
            if not inside:
                continue
            size = prod(n_ordered[at] for at in inside)
            cells = places[(..., *chosen)].reshape(-1, size)
            if len(inside) == 1:
                matrix = step_matrix(size, size, smooth=False)
            else:
                matrix = corner_matrix(*n_ordered, opposite=relation(*asked) < 0)
            cells = cells[cells[:, 0] >= 0]
            self._parts.append((cells, matrix))
            self.bound(cells, asked[inside[0]])

    def expand(self, values: Floats) -> None:
        """Turn parameters into scores, in place."""
        for cells, matrix in self._parts:
            values[cells] = np.einsum("bj,njc->nbc", matrix, values[cells])

    def pull(self, slopes: Floats) -> None:
        """Turn the gradient w.r.t. scores into that w.r.t. parameters, in place."""
        for cells, matrix in self._parts:
            slopes[cells] = np.einsum("bj,nbc->njc", matrix, slopes[cells])

    def pull_mass(self, mass: Floats) -> None:
        """Turn second derivatives w.r.t. scores, (n_cells,), into those w.r.t. parameters."""
        for cells, matrix in self._parts:
            mass[cells] = mass[cells] @ (matrix * matrix)
