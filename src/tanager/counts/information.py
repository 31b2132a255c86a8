"""Scores of features and of pairs: mutual information, and how much of it is chance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from math import lgamma

import numpy as np

from tanager import native
from tanager.counts.pairs import PairCells, PairCounts
from tanager.numerics import Floats, Ints

DECIMALS = 10  # information is rounded, so that ties don't depend on summation order
BLOCK_CELLS = 1 << 22  # block size of the matrix over pairs: 32 MiB
EXACT = 16  # sum exactly up to this smaller margin of a cell
MOST = 1024  # distinct counts; beyond that they're rounded
MOST_FACTORIALS = 1 << 20  # entries in the table of factorials
STEPS = 32  # per octave when rounding: to about 1%


def information(joint: Floats) -> float:
    """Return I(X; Y) in nats from counts (arity, n_classes)."""
    total = joint.sum()
    if total <= 0:
        return 0.0
    expected = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True) / total
    seen = joint > 0
    return float((joint[seen] * np.log(joint[seen] / expected[seen])).sum() / total)


class PairScore:
    """A function of N(x_i, x_j, y), for `Counts.score_pairs`."""

    symmetric = True  # whether swapping the features leaves it unchanged

    def joints(self, pairs: PairCounts) -> Floats:
        """Return the scores of (i, j), shape (n_pairs,), followed by (j, i) if not symmetric."""
        out = np.empty((1 if self.symmetric else 2, len(pairs.left)))
        for at in range(len(pairs.left)):
            joint = pairs.joint(at)
            self.joint(joint, out[:1, at])
            if not self.symmetric:
                self.joint(np.ascontiguousarray(joint.transpose(1, 0, 2)), out[1:, at])
        return out.ravel()

    def joint(self, joint: Floats, out: Floats) -> None:
        """Write the score of a dense pair, from (arity_i, arity_j, n_classes), to out (1,)."""
        raise NotImplementedError

    def cells(self, cells: PairCells) -> float:
        """Return the score of a wide pair from the cells seen."""
        raise NotImplementedError


class ConditionalInformation(PairScore):
    """I(X_i; X_j | Y) in nats: the plug-in estimate, skipping cells without a count."""

    def joints(self, pairs: PairCounts) -> Floats:
        """Return the scores of dense pairs, all at once."""
        out = np.empty(pairs.left.shape[0])
        arities, n_classes = pairs.domain.arities, pairs.domain.n_classes
        sizes = arities[pairs.left], arities[pairs.right], n_classes
        native.score_information(pairs.flat, pairs.start, *sizes, out)
        return out

    def cells(self, cells: PairCells) -> float:
        """Return the score of a wide pair."""
        if cells.counts.shape[0] == 0:
            return 0.0
        with_left = cells.margin(cells.left, cells.label)
        with_right = cells.margin(cells.right, cells.label)
        ratio = cells.counts * cells.margin(cells.label) / (with_left * with_right)
        return float((cells.counts * np.log(ratio)).sum() / cells.counts.sum())


class ExplainingAway(PairScore):
    """I(X_i; X_j | Y) - I(X_i; X_j) in nats: Bilmes, "Dynamic Bayesian multinets", UAI 2000."""

    def joint(self, joint: Floats, out: Floats) -> None:
        """Write the score of a dense pair."""
        native.score_explaining_away(joint, out)

    def cells(self, cells: PairCells) -> float:
        """Return the score of a wide pair, as sums of n log n over the margins of its cells."""
        if cells.counts.shape[0] == 0:
            return 0.0
        left, right, label, count, _ = cells
        with_class = (left, right, label), (left, label), (right, label), (label,)
        margins = *with_class, (left, right), (left,), (right,)
        signs = zip((1, -1, -1, 1, -1, 1, 1), margins, strict=True)
        # Summed over the cells, the log of a margin is n log n of that margin.
        terms = sum(
            sign * float((count * np.log(cells.margin(*columns))).sum()) for sign, columns in signs
        )
        total = float(count.sum())
        return (terms - total * float(np.log(total))) / total


def chance_cmi(classes: Floats, values: Sequence[Floats]) -> Iterator[tuple[slice, Floats]]:
    """Yield rows of the mean plug-in I(X_i; X_j | Y) over columns shuffled within classes.

    The plug-in estimate is never negative and grows with the number of values: in 4,000 rows a
    column of 4,000 names "explains" every other one. The mean is over all permutations (Vinh, Epps
    and Bailey, JMLR 11, 2010, equation 24), computed from N(y) and N(x_i, y), without a pass.
    """
    n, total = len(values), float(classes.sum())
    parts = []
    for label, n_class in enumerate(classes):
        if n_class > 0:
            levels, many = _levels([_sizes(joint[:, label]) for joint in values])
            parts.append((many, _excess(levels, levels, float(n_class))))
    step = max(1, BLOCK_CELLS // max(n, 1))
    for low in range(0, n, step):
        rows, excess = slice(low, low + step), np.zeros((min(step, n - low), n))
        for many, one in parts:
            excess += many[rows] @ one @ many.T
        # Rounded like all information values: summing in another order must not break a tie.
        excess /= max(total, 1e-300)
        yield rows, excess.round(DECIMALS, out=excess)


def chance_mi(classes: Floats, values: Sequence[Floats]) -> Floats:
    """Return the mean plug-in I(X_i; Y) over columns shuffled across all rows."""
    total = float(classes.sum())
    if total <= 0:
        return np.zeros(len(values))
    levels, many = _levels([_sizes(joint.sum(axis=1)) for joint in values])
    return many @ _excess(levels, _sizes(classes), total).sum(axis=1) / total


def _sizes(counts: Floats) -> Floats:
    """Return the counts of the observed values, as whole rows."""
    return np.maximum(np.rint(counts[counts > 0]), 1.0)


def _levels(sizes: list[Floats]) -> tuple[Floats, Floats]:
    """Return the distinct sizes, and each feature's frequency of each, (n_features, n_levels)."""
    every = np.concatenate(sizes)
    levels, place = np.unique(every, return_inverse=True)
    if len(levels) > MOST:
        octave = np.rint(np.log2(np.maximum(every, 256.0) / 256.0) * STEPS) / STEPS
        every = np.where(every <= 256, every, 256.0 * 2.0**octave)
        levels, place = np.unique(every, return_inverse=True)
    feature = np.repeat(np.arange(len(sizes)), [len(s) for s in sizes])
    cells = np.bincount(feature * len(levels) + place, minlength=len(sizes) * len(levels))
    return levels, cells.reshape(len(sizes), len(levels)).astype(np.float64)


def _excess(a: Floats, b: Floats, n: float) -> Floats:
    r"""Return E[k log k] - m log m of cells with margins a and b among n rows, (n_a, n_b).

    k is the cell's count when one column is shuffled, m = ab/n its mean. With a small
    margin the hypergeometric distribution of k is summed exactly; with a large one it's
    close to a Poisson with reduced variance, which the two factors account for.
    """
    mean = np.minimum(np.outer(a, b) / n, np.minimum.outer(a, b))
    share_a, share_b = np.minimum(a / n, 1.0), np.minimum(b / n, 1.0)
    grid, values = _poisson_excess()
    excess = np.interp(np.log(np.maximum(mean, np.exp(grid[0]))), grid, values)
    excess *= np.outer(1.0 - share_a, 1.0 - share_b)
    for few, other, target in ((a, b, excess), (b, a, excess.T)):
        for size in np.unique(few[few <= EXACT]):
            wider = other >= size  # sum over the smaller margin of a cell
            found = _exact_excess(int(size), other[wider], n)
            target[np.ix_(few == size, wider)] = found
            if a is b:
                target.T[np.ix_(few == size, wider)] = found
        if a is b:
            break
    return excess


def _exact_excess(size: int, other: Floats, n: float) -> Floats:
    """Return E[k log k] - m log m of k ~ Hypergeometric(n, other, size), for each other margin."""
    whole = max(round(n), size)
    drawn = np.minimum(np.rint(other), whole).astype(np.int64)[:, None]
    k = np.arange(1, size + 1)
    rest = whole - drawn - size + k  # rows in neither margin
    possible = (k <= drawn) & (rest >= 0)
    log_factorial = _log_factorials(whole)
    log_choices = log_factorial(drawn) - log_factorial(np.where(possible, drawn - k, 0))
    log_choices += log_factorial(whole - drawn) - log_factorial(np.where(possible, rest, 0))
    log_choices += log_factorial(np.array(size)) - log_factorial(k) - log_factorial(size - k)
    log_all = log_factorial(np.array(whole)) - log_factorial(np.array(whole - size))
    # Impossible counts have a meaningless logarithm, which might overflow.
    probability = np.exp(np.where(possible, log_choices - log_all, -np.inf))
    mean = size * drawn[:, 0] / whole
    return probability @ (k * np.log(k)) - mean * np.log(mean)


def _log_factorials(most: int) -> Callable[[Ints], Floats]:
    """Return a function that maps integers up to `most` to their log-factorials."""
    if most > MOST_FACTORIALS:
        from scipy.special import gammaln

        return lambda number: np.asarray(gammaln(number + 1.0))
    return _factorial_table(max(most, 255).bit_length()).__getitem__


@lru_cache(maxsize=8)
def _factorial_table(n_bits: int) -> Floats:
    """Return the log-factorials of all integers of so many bits; SciPy takes longer to load."""
    return np.array([lgamma(number + 1.0) for number in range(1 << n_bits)])


@lru_cache(maxsize=1)
def _poisson_excess() -> tuple[Floats, Floats]:
    """Return log m and E[k log k] - m log m of k ~ Poisson(m): 1/2 for large m, 0 at zero."""
    grid = np.linspace(np.log(1e-9), np.log(500.0), 800)
    mean, k = np.exp(grid), np.arange(2, 701)
    log_factorial = _log_factorials(int(k[-1]))
    probability = np.exp(np.outer(grid, k) - log_factorial(k) - mean[:, None])
    expected = probability @ (k * np.log(k))
    return grid, expected - mean * np.log(mean)
