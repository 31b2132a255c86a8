"""Cuts of pairs against a slow, obvious search."""

from __future__ import annotations

import numpy as np
import pytest

from tanager.codes import Domain
from tanager.loglinear.residuals import SHRINK, Residuals, cut_pairs, refine_groups


def gain(rows: Residuals, inside: np.ndarray) -> np.ndarray:
    """Return the gain of each class by a score for some rows."""
    g = rows.residuals[inside].sum(axis=0)
    h = rows.spreads[inside].sum(axis=0)
    chance = (rows.spreads * rows.weights[:, None])[inside].sum(axis=0)
    return (g * g - chance) / (h + SHRINK)


def slow_quadrants(rows: Residuals, i: int, j: int) -> tuple[float, tuple[int, int]]:
    x, z = rows.codes[i], rows.codes[j]
    known = (x < 6) & (z < 5)
    best = (0.0, (-1, -1))
    for a in range(5):
        for b in range(4):
            four = sum(
                gain(rows, known & one & other)
                for one in (x <= a, x > a)
                for other in (z <= b, z > b)
            )
            first = gain(rows, known & (x <= a)) + gain(rows, known & (x > a))
            second = gain(rows, known & (z <= b)) + gain(rows, known & (z > b))
            total = 0.5 * (four - np.maximum(first, 0) - np.maximum(second, 0)).sum()
            if total > best[0]:
                best = (total, (a, b))
    return best


def slow_cut(rows: Residuals, i: int, j: int) -> tuple[float, int]:
    x, z = rows.codes[i], rows.codes[j]
    known = (x < 6) & (z < 4)
    best = (0.0, -1)
    for a in range(5):
        sides = (known & (x <= a), known & (x > a))
        cells = sum(gain(rows, side & (z == v)) for side in sides for v in range(4))
        values = sum(gain(rows, known & (z == v)) for v in range(4))
        alone = gain(rows, sides[0]) + gain(rows, sides[1])
        total = 0.5 * (cells - np.maximum(values, 0) - np.maximum(alone, 0)).sum()
        if total > best[0]:
            best = (total, a)
    return best


DOMAIN = Domain(("x", "z", "v"), np.array([7, 5, 4]), 3, (6, 5, 0))


@pytest.fixture
def rows() -> Residuals:
    generator = np.random.default_rng(3)
    n = 800
    codes = np.stack([generator.integers(0, high, n) for high in (8, 6, 5)]).astype(np.uint8)
    by_order, by_value = (codes[0] > 2) ^ (codes[1] > 1), (codes[0] > 3) ^ (codes[2] > 1)
    labels = np.where((generator.random(n) < 0.5) & by_value, 2, by_order)
    probability = generator.dirichlet([3, 3, 3], n)
    weights = generator.uniform(0.5, 2.0, n)
    indicator = np.eye(3)[labels]
    spreads = probability * (1 - probability) * weights[:, None]
    return Residuals(codes, (indicator - probability) * weights[:, None], spreads, weights)


def test_quadrants_are_those_of_a_slow_search(rows: Residuals) -> None:
    gains, cuts = cut_pairs(rows, DOMAIN, np.array([[0, 1], [1, 0]]))
    wanted, (a, b) = slow_quadrants(rows, 0, 1)
    assert wanted > 3
    np.testing.assert_allclose(gains, wanted)
    assert cuts.tolist() == [[a, b], [b, a]]


def test_a_cut_within_categories_is_that_of_a_slow_search(rows: Residuals) -> None:
    gains, cuts = cut_pairs(rows, DOMAIN, np.array([[0, 2], [2, 0]]))
    wanted, a = slow_cut(rows, 0, 2)
    assert wanted > 0
    np.testing.assert_allclose(gains, wanted)
    assert cuts.tolist() == [[a, -1], [-1, a]]


def test_a_pair_without_order_is_not_cut(rows: Residuals) -> None:
    domain = Domain(DOMAIN.names, DOMAIN.arities, 3, (0, 0, 0))
    gains, cuts = cut_pairs(rows, domain, np.array([[0, 1]]))
    assert gains.tolist() == [0.0]
    assert cuts.tolist() == [[-1, -1]]


def test_groups_are_divided_where_the_pair_asks_for_it(rows: Residuals) -> None:
    whole = [np.zeros(7, np.uint16), np.zeros(5, np.uint16), np.arange(4, dtype=np.uint16)]
    whole[0][6] = 1  # "missing" keeps a group of its own
    x, z, v = refine_groups(whole, rows, DOMAIN, [(0,), (1, 0), (2,)], 1 << 16)
    assert x.tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert z.tolist() == [0, 0, 1, 1, 1]
    assert v.tolist() == [0, 1, 2, 3]


def test_groups_stay_where_a_table_would_grow_beyond_the_limit(rows: Residuals) -> None:
    whole = [np.zeros(7, np.uint16), np.zeros(5, np.uint16), np.arange(4, dtype=np.uint16)]
    kept = refine_groups(whole, rows, DOMAIN, [(0,), (1, 0), (2,)], 3)
    assert all(np.array_equal(a, b) for a, b in zip(kept, whole, strict=True))
