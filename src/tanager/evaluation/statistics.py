"""Significance tests of classifiers by losses: lower is better, a *win* is a smaller number."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tanager.errors import DataError

Alternative = Literal["two-sided", "less", "greater"]


class Outcome(NamedTuple):
    """A test's statistic and p-value."""

    statistic: float
    p_value: float


class WinDrawLoss(NamedTuple):
    """How often the first of two classifiers has a lower loss than the second."""

    wins: int
    draws: int
    losses: int

    @property
    def p_value(self) -> float:
        """Two-tailed sign test of wins against losses."""
        return sign_test(self.wins, self.losses)

    def __str__(self) -> str:
        return f"{self.wins}–{self.draws}–{self.losses}"


def win_draw_loss(a: ArrayLike, b: ArrayLike, decimals: int | None = None) -> WinDrawLoss:
    """Count the datasets on which the loss `a` is lower than, equal to and higher than `b`.

    To count negligible differences as draws, round both to `decimals` first.

    >>> result = win_draw_loss([0.1, 0.2, 0.3], [0.2, 0.2, 0.4])
    >>> print(result, result.p_value)
    2–1–0 0.5
    """
    x, y = _pair(a, b)
    if decimals is not None:
        x, y = x.round(decimals), y.round(decimals)
    return WinDrawLoss(int((x < y).sum()), int((x == y).sum()), int((x > y).sum()))


def sign_test(wins: int, losses: int) -> float:
    """Two-tailed binomial test that a win is as likely as a loss; draws are left out.

    The first line of table 4 in Zaidi et al. (2017), 45/4/23:

    >>> round(sign_test(45, 23), 3)
    0.01
    """
    from scipy.stats import binomtest

    if wins + losses == 0:
        return 1.0
    return float(binomtest(wins, wins + losses).pvalue)


def average_ranks(scores: ArrayLike) -> NDArray[np.float64]:
    """Mean rank of each classifier (datasets × classifiers), 1 is best; ties share their mean."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(_matrix(scores), axis=1).mean(axis=0), np.float64)


class FriedmanTest(NamedTuple):
    """Friedman's test."""

    chi_square: float
    p_value: float


def friedman(scores: ArrayLike) -> FriedmanTest:
    r"""Test whether three or more classifiers (datasets × classifiers) have equal ranks.

    :math:`\chi^2_F = \frac{12N}{k(k+1)}[\sum_j R_j^2 - \frac{k(k+1)^2}{4}]`, divided
    by the correction for ties as in SciPy (Demšar, 2006, JMLR 7, section 3.2.2).
    """
    from scipy.stats import friedmanchisquare

    values = _matrix(scores)
    k = values.shape[1]
    if k < 3:
        raise DataError(f"Friedman's test needs 3 classifiers or more; got {k}. For two: wilcoxon.")
    if not np.ptp(values, axis=1).any():
        return FriedmanTest(0.0, 1.0)
    return FriedmanTest(*map(float, friedmanchisquare(*values.T)))


def critical_difference(n_classifiers: int, n_datasets: int, alpha: float = 0.05) -> float:
    r"""Difference in average ranks that is significant by Nemenyi's test.

    :math:`q_\alpha\sqrt{k(k+1)/6N}`, with :math:`q_\alpha` the studentised range
    for infinite degrees of freedom over :math:`\sqrt 2` (Demšar, 2006, section 3.2.2).
    In Zaidi et al. (2017), appendix C:

    >>> round(critical_difference(3, 72), 2)
    0.39
    """
    from scipy.stats import studentized_range

    q = studentized_range.ppf(1.0 - alpha, n_classifiers, np.inf) / np.sqrt(2.0)
    return float(q * np.sqrt(n_classifiers * (n_classifiers + 1) / (6.0 * n_datasets)))


class Nemenyi(NamedTuple):
    """Nemenyi's test of all pairs."""

    ranks: NDArray[np.float64]  # (n_classifiers,): average ranks, 1 is best
    critical_difference: float  # ranks further apart than this differ significantly
    p_values: NDArray[np.float64]  # (n_classifiers, n_classifiers): of each pair
    # Maximal sets of classifiers, adjacent in rank, that don't differ significantly: the
    # bars of a critical-difference diagram.
    groups: list[tuple[int, ...]]


def nemenyi(scores: ArrayLike, alpha: float = 0.05) -> Nemenyi:
    """Compare all pairs of classifiers (datasets × classifiers) by average rank."""
    from scipy.stats import studentized_range

    values = _matrix(scores)
    n, k = values.shape
    ranks = average_ranks(values)
    distance = np.abs(ranks[:, None] - ranks[None, :])
    p_values = studentized_range.sf(distance / np.sqrt(k * (k + 1) / (12.0 * n)), k, np.inf)
    difference = critical_difference(k, n, alpha)
    return Nemenyi(ranks, difference, np.asarray(p_values), _groups(ranks, difference))


def _groups(ranks: NDArray[np.float64], difference: float) -> list[tuple[int, ...]]:
    order = np.argsort(ranks, kind="stable")
    groups: list[tuple[int, ...]] = []
    last_end = 0
    for start, first in enumerate(order):
        end = int(np.flatnonzero(ranks[order] - ranks[first] < difference).max())
        if end > max(start, last_end):
            groups.append(tuple(order[start : end + 1].tolist()))
            last_end = end
    return groups


def wilcoxon(a: ArrayLike, b: ArrayLike, alternative: Alternative = "two-sided") -> Outcome:
    """Wilcoxon's signed-rank test over datasets, by the normal approximation.

    The statistic is z, positive if `a` has the lower losses. Equal pairs are left out (Carvalho et
    al., 2013, tables 1 and 2).
    """
    from scipy import stats

    x, y = _pair(a, b)
    if np.array_equal(x, y):
        return Outcome(0.0, 1.0)
    # The smaller loss wins, but SciPy's z is positive if the first is larger. Only its one-sided
    # z has a sign.
    found = stats.wilcoxon(x, y, alternative=alternative, method="approx")
    sided = stats.wilcoxon(x, y, alternative="greater", method="approx")
    return Outcome(-float(sided.zstatistic), float(found.pvalue))


def corrected_t(a: ArrayLike, b: ArrayLike, test_ratio: float) -> Outcome:
    r"""Test two classifiers over the cells of one table, by Nadeau and Bengio's corrected t.

    `a` and `b` are losses on the same splits of the table; `test_ratio` is test rows over training
    rows: 1 for two folds, 1/9 for ten. Training sets share rows, so the differences are correlated
    and a plain t-test is too liberal. The variance of the mean of J differences is taken as
    :math:`(1/J + n_{test}/n_{train})\hat\sigma^2`, with J - 1 degrees of freedom (2003, equation
    15, doi:10.1023/A:1024068626366); for rounds of k folds see Bouckaert and Frank (2004).

    >>> result = corrected_t([0.2, 0.3, 0.1, 0.2], [0.3, 0.5, 0.3, 0.3], test_ratio=1.0)
    >>> round(result.p_value, 3)
    0.103
    """
    from scipy import stats

    x, y = _pair(a, b)
    n = len(x)
    if n < 2:
        raise DataError(f"a test over cells needs 2 cells or more; got {n}.")
    difference = x - y
    # Differences that are equal up to rounding have negligible variance.
    if np.ptp(difference) <= 1e-12 * max(1.0, float(np.abs(difference).max())):
        mean = float(difference.mean())
        same = abs(mean) <= 1e-12
        return Outcome(0.0, 1.0) if same else Outcome(float(np.sign(mean)) * np.inf, 0.0)
    variance = (1.0 / n + test_ratio) * float(difference.var(ddof=1))
    t = float(difference.mean() / np.sqrt(variance))
    return Outcome(t, float(2.0 * stats.t.sf(abs(t), n - 1)))


def geometric_mean_ratio(a: ArrayLike, b: ArrayLike) -> float:
    """Geometric mean of a/b over datasets; datasets where either is 0 are left out.

    >>> geometric_mean_ratio([1.0, 4.0], [2.0, 2.0])
    1.0
    """
    x, y = _pair(a, b)
    kept = (x > 0) & (y > 0)
    if not kept.any():
        raise DataError("every ratio contains a zero. The geometric mean needs positive losses.")
    return float(np.exp(np.mean(np.log(x[kept] / y[kept]))))


def _pair(a: ArrayLike, b: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1:
        raise DataError(f"two vectors of equal length are needed; got {x.shape} and {y.shape}.")
    return _finite(x), _finite(y)


def _matrix(scores: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2 or values.shape[0] < 1 or values.shape[1] < 2:
        raise DataError(
            f"scores has shape {values.shape}. Allowed: (datasets, classifiers), with one dataset "
            "and two classifiers or more."
        )
    return _finite(values)


def _finite(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    if not np.isfinite(losses).all():
        raise DataError("losses must be finite. Leave out the datasets where a classifier failed.")
    return losses
