"""Stirling ratios against exact integers, closed forms and large counts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.special import digamma, gamma
from tests.oracles.hdp_exact import stirling
from tests.oracles.kernels import gibbs

from tanager_papers.hdp_sampler import DENSE, MAX_TABLES, stirling_ratios


def row(ratios, n):
    """Return V(n, t) for all t, between rows by interpolation in log n, as the kernels do."""
    if n <= ratios.dense:
        return ratios.rows[n]
    place = np.log(float(n))
    at = min(max(int(np.searchsorted(ratios.log_count, place)), 1), len(ratios.log_count) - 1)
    low = ratios.log_count[at - 1]
    share = (place - low) / (ratios.log_count[at] - low)
    below, above = ratios.rows[ratios.dense + at - 1 : ratios.dense + at + 1]
    return (1.0 - share) * below + share * above


def table_ratio(ratios, n, t):
    assert row(ratios, n)[t] == pytest.approx(gibbs.Ratios(*ratios[:4]).ratio(n, t), rel=1e-12)
    return row(ratios, n)[t]


def growth(ratios, n, t):
    found = gibbs.Ratios(*ratios[:4]).growth(n, t)
    if n < ratios.growth.shape[0] and t < ratios.growth.shape[1]:
        assert ratios.growth[n, t] == pytest.approx(found, rel=1e-12)
        assert ratios.near[n, t] == row(ratios, n)[t]
    return found


def test_ratios_equal_exact_integers():
    ratios = stirling_ratios(120)
    for n in (2, 3, 10, 60, 120):
        for t in range(1, n):
            exact = float(Fraction(stirling(n, t + 1), stirling(n, t)))
            assert table_ratio(ratios, n, t) == pytest.approx(exact, rel=1e-12)
        for t in range(1, n + 1):
            exact = float(Fraction(stirling(n + 1, t), stirling(n, t)))
            assert growth(ratios, n, t) == pytest.approx(exact, rel=1e-12)
        assert table_ratio(ratios, n, n) == 0.0


@pytest.mark.parametrize("discount", [0.1, 0.5, 0.9])
def test_generalised_ratios(discount):
    ratios = stirling_ratios(40, discount)
    for n in (2, 5, 40):
        for t in range(1, n):
            exact = stirling(n, t + 1, discount) / stirling(n, t, discount)
            assert table_ratio(ratios, n, t) == pytest.approx(exact, rel=1e-10)


def test_a_million_rows_in_bounded_memory():
    ratios = stirling_ratios(1_000_000)
    assert ratios.rows.nbytes < 16e6
    assert ratios.rows.shape[1] == MAX_TABLES + 1
    inverse = 1.0 / np.arange(1, 1_000_000)
    for n in (DENSE, DENSE + 1, 5_000, 123_457, 1_000_000):
        harmonic, squares = inverse[: n - 1].sum(), (inverse[: n - 1] ** 2).sum()
        # S(n, 2) / S(n, 1) = H(n - 1); S(n, 3) / S(n, 2) = (H^2 - H2) / (2 H).
        assert table_ratio(ratios, n, 1) == pytest.approx(harmonic, rel=1e-6)
        second = (harmonic**2 - squares) / (2 * harmonic)
        assert table_ratio(ratios, n, 2) == pytest.approx(second, rel=1e-5)
    assert np.isfinite(ratios.rows).all()


@pytest.mark.parametrize("discount", [0.0, 0.3, 0.95])
def test_the_differential_equation_goes_on_as_the_recurrence_does(discount):
    # V(., t) needs V(., 1 ... t) only, so that few columns are exact by themselves.
    n_columns, last = 96, 40_000
    ratio, tables = np.zeros(n_columns), np.arange(2.0, n_columns + 1)
    for n in range(1, last):
        above = ratio[:-1].copy()
        new = (n - (tables + 1) * discount) * ratio[1:] + 1.0
        ratio[1:] = new * above / ((n - tables * discount) * above + 1.0)
        ratio[0] = ((n - 2 * discount) * ratio[0] + 1.0) / (n - discount)
    found = stirling_ratios(last, discount).rows[-1, 1 : n_columns + 1]
    np.testing.assert_allclose(found, ratio, rtol=1e-8)


@pytest.mark.parametrize("count", [10**5, 10**15])
def test_counts_of_any_size_have_their_ratio(count):
    found = stirling_ratios(count)
    counts = np.exp(found.log_count)  # of every row above the dense ones
    assert counts[-1] == pytest.approx(count, rel=1e-12)
    np.testing.assert_allclose(found.rows[DENSE:, 1], digamma(counts) + np.euler_gamma, rtol=1e-9)
    for discount in (0.05, 0.3, 0.9):
        # S(n, 1) = G(n - d) / G(1 - d), S(n, 2) = [S(n, 1) - G(n - 2d) / G(1 - 2d)] / d.
        ratios = stirling_ratios(count, discount)
        shares = (counts - (3 * discount + 1) / 2) ** -discount  # G(n - 2d) / G(n - d)
        shares *= gamma(1 - discount) / gamma(1 - 2 * discount)
        expected = (1 - shares) / discount
        np.testing.assert_allclose(ratios.rows[DENSE:, 1], expected, rtol=1e-6)
        assert (np.diff(ratios.rows[-1, 1:]) < 0).all()
    assert ratios.rows.nbytes < 32e6
