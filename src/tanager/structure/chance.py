"""Mutual information that features appear to have by chance alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from math import lgamma

import numpy as np

from tanager.counts import Counts
from tanager.counts.statistics import DECIMALS
from tanager.engines.keeping import release, scratch_array
from tanager.numerics import Floats, Ints

BLOCK_CELLS = 1 << 22  # block size of the matrix over pairs: 32 MiB
EXACT = 16  # sum exactly up to this smaller margin of a cell
MOST = 1024  # distinct counts; beyond that they're rounded
MOST_FACTORIALS = 1 << 20  # entries in the table of factorials
STEPS = 32  # per octave when rounding: to about 1%


def adjusted_cmi(counts: Counts, among: Ints | None = None) -> Floats:
    """Return I(X_i; X_j | Y) minus its expectation under independence, at least zero.

    The plug-in estimate is never negative and grows with the number of values: in 4,000 rows
    a column of 4,000 names "explains" every other one. The expectation is over all
    permutations of a column within each class (Vinh, Epps and Bailey, JMLR 11, 2010, equation 24),
    computed from the counts N(x, y): no pass, no random numbers. `among`: only these features.
    """
    plain = counts.cmi(among)
    found = scratch_array(plain.shape, counts.context.work_limit)
    for rows, chance in chance_cmi(counts, among):
        found[rows] = np.maximum(plain[rows] - chance, 0.0).round(DECIMALS)
        release(plain)
        release(found)
    return found


def adjusted_mi(counts: Counts) -> Floats:
    """Return I(X_i; Y) minus its expectation under independence of the class, at least zero."""
    return np.maximum(counts.mi() - chance_mi(counts), 0.0).round(DECIMALS)


def chance_cmi(counts: Counts, among: Ints | None = None) -> Iterator[tuple[slice, Floats]]:
    """Yield rows of the mean plug-in I(X_i; X_j | Y) over columns shuffled within classes."""
    values = counts.values if among is None else [counts.values[feature] for feature in among]
    n, total = len(values), float(counts.classes.sum())
    parts = []
    for label, n_class in enumerate(counts.classes):
        if n_class > 0:
            levels, many = _levels([_sizes(joint[:, label]) for joint in values])
            parts.append((many, _excess(levels, levels, float(n_class))))
    step = max(1, BLOCK_CELLS // max(n, 1))
    for low in range(0, n, step):
        rows = slice(low, low + step)
        excess = np.zeros((min(step, n - low), n))
        for many, one in parts:
            excess += many[rows] @ one @ many.T
        # Rounded like all information values: summing in another order must not break a tie.
        excess /= max(total, 1e-300)
        yield rows, excess.round(DECIMALS, out=excess)


def chance_mi(counts: Counts) -> Floats:
    """Return the mean plug-in I(X_i; Y) over columns shuffled across all rows."""
    total = float(counts.classes.sum())
    if total <= 0:
        return np.zeros(counts.domain.n_features)
    levels, many = _levels([_sizes(joint.sum(axis=1)) for joint in counts.values])
    labels = _sizes(counts.classes)
    return many @ _excess(levels, labels, total).sum(axis=1) / total


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
    excess = _poisson_excess(mean) * np.outer(1.0 - share_a, 1.0 - share_b)
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


def _poisson_excess(mean: Floats) -> Floats:
    """Return E[k log k] - m log m of k ~ Poisson(m): 1/2 for large m, 0 at zero."""
    grid, values = _poisson_table()
    return np.interp(np.log(np.maximum(mean, np.exp(grid[0]))), grid, values)


@lru_cache(maxsize=1)
def _poisson_table() -> tuple[Floats, Floats]:
    grid = np.linspace(np.log(1e-9), np.log(500.0), 800)
    mean = np.exp(grid)
    k = np.arange(2, 701)
    log_factorial = _log_factorials(int(k[-1]))
    probability = np.exp(np.outer(grid, k) - log_factorial(k) - mean[:, None])
    expected = probability @ (k * np.log(k))
    return grid, expected - mean * np.log(mean)
