"""Variances of tables with many classes: the plain formulas, in little memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from tanager.loglinear.rows import RowCells
from tanager.parameters.spread import (
    LEAST,
    ROUNDS,
    STEADY,
    of_log_odds,
    of_scores,
    scale_entries,
)

N_ROWS, N_CLASSES, N_ENTRIES, N_TERMS = 1_000, 400, 31, 6


@pytest.fixture
def made():
    rng = np.random.default_rng(0)
    chances = rng.dirichlet(np.ones(N_CLASSES), N_ROWS)
    wanted = rng.random((N_ROWS, N_CLASSES)) + 0.1
    entries = rng.random((N_ENTRIES, N_CLASSES)) + 0.1
    # Each term has its own entries, and so does the class node.
    places = rng.integers(0, N_ENTRIES // N_TERMS, (N_TERMS, N_ROWS))
    places += 1 + np.arange(N_TERMS)[:, None] * (N_ENTRIES // N_TERMS)
    return chances, wanted, entries, places.astype(np.int32)


def peak_of(call, *arguments):
    """Return a result, and the arrays (n_rows, n_classes) held while it was computed."""
    tracemalloc.start()
    try:
        found = call(*arguments)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return found, peak / (8 * N_ROWS * N_CLASSES)


def plain_log_odds(variances, chances):
    others = 1.0 - np.eye(N_CLASSES)
    return variances + (chances**2 * variances) @ others / (chances @ others) ** 2


def test_variances_of_log_odds_and_of_scores(made):
    chances, wanted, _, _ = made
    found, held = peak_of(of_log_odds, wanted, chances)
    np.testing.assert_allclose(found, plain_log_odds(wanted, chances), rtol=1e-10)
    # The result, and temporaries for a third of the rows.
    assert held < 1.0 + 7 / 3
    found, held = peak_of(of_scores, wanted, chances)
    expected = 0.5 * wanted
    for _ in range(ROUNDS):
        expected = expected * np.sqrt(wanted / plain_log_odds(expected, chances))
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert held < 1.0 + 9 / 3


def test_entries_are_scaled_with_one_array_of_rows_besides(made):
    _, wanted, entries, places = made
    rows = RowCells.of(np.ascontiguousarray(places.T, np.int32))
    expected = entries[0] + entries[places].sum(axis=0)
    np.testing.assert_allclose(rows.totals(entries), expected)
    found, held = peak_of(scale_entries, entries, rows, wanted)
    uses = np.zeros((N_ENTRIES, N_ROWS))
    uses[0] = 1.0  # the class node's
    for place in places:
        uses[place, np.arange(N_ROWS)] = 1.0
    expected = entries.copy()
    for _ in range(ROUNDS):
        down = 1.0 / np.maximum(uses.T @ expected, LEAST)
        steady = STEADY * down.mean(axis=0)
        expected *= np.sqrt((uses @ (wanted * down**2) + steady) / (uses @ down + steady))
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert held < 1.6
