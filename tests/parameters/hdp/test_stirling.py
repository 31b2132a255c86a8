"""Stirling ratios against exact integers, closed forms and large counts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tanager.parameters.hdp._stirling_kernels import growth, table_ratio
from tanager.parameters.hdp.stirling import DENSE, MAX_TABLES, stirling_ratios
from tests.oracles.hdp_exact import stirling


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
