r"""How the scores of values depend on one another: smooth curves, slants, and steps.

**Curves.** The scores of a categorical feature are free. Those of k ordered values are a sum of
cosines of the value's rank,

.. math:: s_b = \sum_j z_j \sigma_j \sqrt{2} \cos(\pi j (b + \tfrac12) / k)

with independent z of variance one and :math:`\sigma_j^2` decreasing as
:math:`1 / (1 + \tau (2 k \sin(\pi j / 2 k))^2)`: the eigenvectors of a ridge on the
scores and on the differences of adjacent ones. In this basis the prior is a plain ridge, and the
fit is well conditioned. The mean variance of the scores is one, like that of free scores.

**Slants.** A curve may also run across a table of two numbers, along their sum, difference, ratio,
product, ... A direction assigns an addend to each ordered value of either number; joint values with
about the same sum share a score. Addends are multiples of ranks, of standardised numbers, or of
logarithms, whose sums are products and differences ratios. Each pair gets the directions whose
curves would gain most on the residuals of an additive model. With many rows all pairs get the same
number of curves: the prior shrinks those that turn out to be useless, whereas a test of their gain
against chance, over all bins and classes, has little power. With few rows the test stays, since its
loss of accuracy is small and the curves take time.

**Steps.** Scores that never fall, or never rise, along the order of a feature are a level and
k - 1 steps, with the other members of a family fixed:

.. math:: s_b = z_0 \sigma_0 + \sum_{j=1}^{k-1} z_j \sigma (1[b \ge j] - (k - j) / k)

If all steps have the same sign, the score rises or falls; and so do sums of such scores, whatever
the other features. A table of the feature and others loses no generality: if the sum of a curve
and tables rises, the smallest slope over the tables' contexts can be moved to the curve, and all of
them rise. A table of two such features has corners instead of steps: parameters that apply where
both features are past some value, or where either is, alternately; all of them rise along both.

For the probability of a class to rise, its score must rise relative to that of every other class.
Adding the same to all classes' scores has no effect, so the other classes' steps are at most zero;
with one class that rises and one that falls, those of all others are zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.codes import Domain, Groups
from tanager.codes.groups import group_codes
from tanager.numerics import Floats, Ints

if TYPE_CHECKING:
    from tanager.loglinear.fits import Residuals

SMOOTHNESS = 0.3  # tau: weight of differences relative to the scores themselves
LEAST_ORDERED = 3  # two values have a single difference, nothing to smooth
EVEN = 1.5  # largest weight of a value, in mean weights, that needs no alignment
MOST_ORDERED = 256  # beyond that, matrices cost more than smoothing gains: free scores

N_SLANTS = 4  # per pair, if there are many rows
MOST_SLANTS = 2  # per pair, if there are few
LEAST_GAIN = 1.0  # nats in total, of few rows: less is chance
SHRINK = 5.0  # shrinkage of a cell's gain, in rows
MOST_RESIDUALS = 1 << 21  # rows times classes considered
LEAST_SLANTED = 4  # minimum number of ordered values of either number
WEIGHTS = ((1, 1), (1, -1), (2, 1), (2, -1), (1, 2), (1, -2))
DIGITS = 9  # significant digits of sums, so that ties don't depend on units
TRACE = 1e-9  # weight that gives a value without rows a bin
FILLED = 1e-30  # weight of a value without rows if other ordered values have some

# By column: the sign of each class, shape (n_classes,); 0 for no constraint.
Signs = Mapping[int, NDArray[np.int8]]

# Bases in use, by content: members of all depths have the same curves.
_ALIGNED: WeakValueDictionary[bytes, Floats] = WeakValueDictionary()


@lru_cache(maxsize=256)
def basis(arity: int, n_ordered: int) -> Floats | None:
    """Return the scores for unit parameters, shape (arity, arity); None for free scores.

    The first `n_ordered` of the values are ordered; "missing" isn't.

    >>> basis(4, 0) is None
    True
    >>> matrix = basis(5, 4)
    >>> (matrix @ matrix.T).diagonal().round(2).tolist()
    [1.1, 0.9, 0.9, 1.1, 1.0]
    """
    if not LEAST_ORDERED <= n_ordered <= MOST_ORDERED:
        return None
    out = np.eye(arity)
    out[:n_ordered, :n_ordered] = curve_basis(n_ordered)
    out.setflags(write=False)
    return out


@lru_cache(maxsize=256)
def curve_basis(n_ordered: int) -> Floats:
    """Return the cosines of values that are all ordered, shape (n_ordered, n_ordered)."""
    j = b = np.arange(n_ordered)
    waves = np.cos(np.pi * j * (b[:, None] + 0.5) / n_ordered) * np.where(j == 0, 1, np.sqrt(2.0))
    variance = basis_variances(n_ordered)
    out: Floats = waves * np.sqrt(variance / variance.sum())
    out.setflags(write=False)
    return out


def with_line(matrix: Floats, line: Floats) -> Floats:
    """Return a `basis` with one more independent term: a multiple of a straight line.

    `line` has an addend per ordered value. The scores are those of `matrix` plus the line times a
    parameter of variance one, with no parameter more: :math:`B B^T + l l^T` is the square of
    :math:`B + c l a^T`, where :math:`B a = l`.

    >>> line, matrix = np.array([-1.5, -0.5, 0.5, 1.5]), basis(5, 4)
    >>> both = with_line(matrix, line)
    >>> bool(np.allclose((both @ both.T - matrix @ matrix.T)[:4, :4], np.outer(line, line)))
    True
    """
    n_ordered = len(line)
    waves = curve_basis(n_ordered)
    own = (waves.T @ line) / (waves**2).sum(axis=0)  # the cosines are orthogonal
    size, out = float(own @ own), matrix.copy()
    out[:n_ordered, :n_ordered] += (np.sqrt(1.0 + size) - 1.0) / size * np.outer(line, own)
    return out


def basis_variances(n_ordered: int) -> Floats:
    """Return the approximate variance of each cosine, the constant first, shape (n_ordered,)."""
    rough = (2 * n_ordered * np.sin(np.pi * np.arange(n_ordered) / (2 * n_ordered))) ** 2
    return 1.0 / (1.0 + SMOOTHNESS * rough)


def align(matrix: Floats, mass: Floats) -> Floats:
    """Rotate a basis, (arity, arity), so that its parameters do not interact.

    A rotation of the parameters leaves their prior unchanged. This one makes the Hessian of a loss
    that is uniform over the rows diagonal: if some values are much more frequent than others, a fit
    takes a fifth of the passes. `mass` is the weight of each value.

    >>> mass = np.array([90.0, 5.0, 4.0, 1.0])
    >>> turned = align(basis(4, 4), mass)
    >>> bends = turned.T @ (mass[:, None] * turned)
    >>> bool(np.abs(bends - np.diag(bends.diagonal())).max() < 1e-12)
    True
    """
    if mass.max() <= EVEN * mass.mean():
        return matrix
    key = matrix.diagonal().tobytes() + mass.tobytes()
    turned = _ALIGNED.get(key)
    if turned is None:
        _, rotation = np.linalg.eigh(matrix.T @ (mass[:, None] * matrix))
        turned = matrix @ rotation
        turned.setflags(write=False)
        _ALIGNED[key] = turned
    return turned


class Slant(NamedTuple):
    """A direction: the addend of each ordered value of either member of a pair."""

    first: tuple[float, ...]
    second: tuple[float, ...]

    def bins(self, mass: Floats) -> Ints:
        """Return the bin of each joint value, (n_first, n_second), from low sums to high.

        They have about equal `mass`, the weight of each joint value; equal sums share one.
        """
        sums = np.add.outer(self.first, self.second).ravel().round(DIGITS)
        order = np.argsort(sums, kind="stable")
        sums = sums[order]
        starts = np.flatnonzero(np.append(True, sums[1:] != sums[:-1]))
        own = np.add.reduceat(mass.ravel()[order] + TRACE, starts)
        ranks = (np.cumsum(own) - 0.5 * own) / own.sum()
        lengths = np.diff(np.append(starts, len(sums)))
        out = np.empty(len(sums), np.int64)
        out[order] = np.repeat((self.n_bins * ranks).astype(np.int64), lengths)
        return out.reshape(mass.shape)

    @property
    def n_bins(self) -> int:
        """Number of bins, some of which may be empty."""
        return len(self.first) + len(self.second) - 1


def find_slants(
    pairs: Sequence[tuple[int, int]],
    residuals: Residuals,
    domain: Domain,
    groups: Sequence[Groups],
    weights: Sequence[Floats],
    numbers: Sequence[Floats | None],
    *,
    has_many_rows: bool,
) -> dict[tuple[int, ...], tuple[Slant, ...]]:
    """Return the slants that gain most on residuals, best first, for pairs of ordered features.

    Their values are in `groups`; `weights` are those of the values, and `numbers` what is behind
    the ordered ones, None for a feature that isn't numeric.
    """
    # With very many classes fewer rows, evenly spread, are enough.
    step = -(-residuals.residuals.size // MOST_RESIDUALS)
    if step > 1:
        residuals = residuals.take(np.arange(0, len(residuals.weights), step))
    n_classes = 1 if domain.n_classes == 2 else domain.n_classes  # of two, one suffices
    own, rows = slice(domain.n_classes - n_classes, None), residuals.weights[:, None]
    spreads = residuals.spreads[:, own]
    said = np.hstack([residuals.residuals[:, own], spreads, spreads * rows, rows])
    codes, known = group_codes(residuals.codes, groups), numbers or (None,) * domain.n_features
    given = zip(groups, domain.n_ordered, weights, known, strict=True)
    scaled = [scales(group[:n], weight[:n], one) for group, n, weight, one in given]
    most, least = (N_SLANTS, -np.inf) if has_many_rows else (MOST_SLANTS, LEAST_GAIN)
    found: dict[tuple[int, ...], tuple[Slant, ...]] = {}
    for pair in pairs:
        both = zip(*(scaled[one] for one in pair), strict=True)
        defined = [(a, b) for a, b in both if a is not None and b is not None]
        along = np.array([u * a for a, _ in defined for u, _ in WEIGHTS])
        across = np.array([v * b for _, b in defined for _, v in WEIGHTS])
        best = np.empty(min(most, len(along)), np.int64)
        native.choose_slants(codes, *pair, said, along, across, n_classes, SHRINK, least, best)
        kept = best[best >= 0]
        slants = zip(along[kept].tolist(), across[kept].tolist(), strict=True)
        found[pair] = tuple(Slant(tuple(a), tuple(b)) for a, b in slants)
    return found


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


@lru_cache(maxsize=256)
def step_matrix(arity: int, n_ordered: int, *, smooth: bool) -> Floats:
    """Return the scores for unit parameters, shape (arity, arity): a level, then steps.

    Values past the first `n_ordered` are free. The level's share of the variance is that of a
    `smooth` curve, or that of free scores.

    >>> step_matrix(3, 3, smooth=False).round(2).tolist()
    [[0.58, -0.82, -0.41], [0.58, 0.41, -0.41], [0.58, 0.41, 0.82]]
    """
    variances = basis_variances(n_ordered) if smooth else np.ones(n_ordered)
    level, out = variances[0] / variances.sum(), np.eye(arity)
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
    # Of two classes: the second's score minus the first's.
    known = signs if n_columns > 1 else np.array([signs[1] or -signs[0]])
    rises, falls, free = known > 0, known < 0, known == 0
    low = np.where(rises | (free & falls.any()), 0.0, -np.inf)
    return low, np.where(falls | (free & rises.any()), 0.0, np.inf)


@lru_cache(maxsize=256)
def corner_matrix(n_first: int, n_second: int, *, opposite: bool) -> Floats:
    """Return the scores for unit parameters of two ordered features: a level, steps and corners.

    Shape (n_first * n_second, n_first * n_second). Every column but the first never falls along
    the first feature, nor along the second; with `opposite` it never rises along the second.
    """
    first, second = np.tri(n_first), np.tri(n_second)[:: -1 if opposite else 1]
    both = np.einsum("xi,yj->xyij", first, second)
    either = first[:, None, :, None] + second[None, :, None, :] - both
    i, j = np.indices((n_first, n_second))
    by_turns = (i > 0) & (j > 0) & ((i + j) % 2 == 1)
    size = n_first * n_second
    out, level = np.where(by_turns, either, both).reshape(size, size), 1.0 / size
    out[:, 0] = np.sqrt(level)
    out[:, 1:] -= out[:, 1:].mean(axis=0)
    out[:, 1:] *= np.sqrt((1.0 - level) / float((out[:, 1:] ** 2).mean(axis=0).sum()))
    out.setflags(write=False)
    return out


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
    some = (inside > 0).any(axis=-1, keepdims=True)
    inside[...] = np.where(some, np.maximum(inside, FILLED), 0.0)
    return out
