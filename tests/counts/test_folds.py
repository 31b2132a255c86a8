"""Counts by fold: leaving a fold out is the same as never having counted its rows."""

from __future__ import annotations

import numpy as np
import pytest

from tanager.codes.hashing import folds_of
from tanager.counts import Counts, FoldPlan, families, pairs
from tanager.engines import FitContext
from tests.counts.test_counts import family_of, make_rows

PLAN = FoldPlan(seed=11, n_folds=3)
FAMILIES = family_of((0, ()), (1, (0,)), (3, (2, 0)), (2, (3, 1, 0)))


def assert_same(counts, expected):
    assert np.array_equal(counts.classes, expected.classes)
    for mine, wanted in zip(counts.values, expected.values, strict=True):
        assert np.array_equal(mine, wanted)
    assert np.array_equal(counts.mi(), expected.mi())
    assert np.array_equal(counts.cmi(), expected.cmi())
    assert np.array_equal(counts.pair(1, 3), expected.pair(1, 3))
    for mine, wanted in zip(counts.trees(FAMILIES), expected.trees(FAMILIES), strict=True):
        assert mine == wanted


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dense_cells", [0, 1 << 18])
def test_a_fold_left_out_equals_counts_of_the_other_rows(weighted, dense_cells, monkeypatch):
    monkeypatch.setattr(families, "DENSE_CELLS", dense_cells)
    rows = make_rows(21, 90, weighted=weighted, block_rows=25)
    counts = Counts(rows, FitContext(), PLAN)
    fold = folds_of(PLAN.seed, np.arange(90), PLAN.n_folds)
    assert_same(counts, Counts(rows, FitContext()))
    for left_out in range(PLAN.n_folds):
        others = Counts(rows.subset((fold != left_out).__getitem__), FitContext())
        assert_same(counts.without(left_out), others)


def test_wide_pairs_know_folds_too(monkeypatch):
    monkeypatch.setattr(pairs, "PAIR_CELLS", 30)
    rows = make_rows(22, 400, n_features=4, top=9)
    assert pairs.pair_tiles(PLAN.domain(rows.domain))[1]
    counts = Counts(rows, FitContext(), PLAN)
    fold = folds_of(PLAN.seed, np.arange(400), PLAN.n_folds)
    for left_out in range(PLAN.n_folds):
        others = Counts(rows.subset((fold != left_out).__getitem__), FitContext()).cmi()
        assert counts.without(left_out).cmi() == pytest.approx(others, abs=2e-10)


def test_folds_cost_no_pass_of_their_own():
    context = FitContext()
    counts = Counts(make_rows(23, 50), context, PLAN)
    counts.cmi(), counts.trees(FAMILIES), counts.classes
    passes = context.engine.n_passes
    for left_out in range(PLAN.n_folds):
        view = counts.without(left_out)
        view.cmi(), view.trees(FAMILIES), view.classes
    assert context.engine.n_passes == passes
