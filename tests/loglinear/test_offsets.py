"""Class offsets: every class is predicted as often as the rows have it."""

from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize

from tanager.codes import Domain, Rows
from tanager.engines import FitContext, LocalEngine
from tanager.loglinear import rows as rows_module
from tanager.loglinear.rows import fit_offsets


def look_up(table, codes):
    return table[codes[0]].copy()


def make(n_rows, labels, weights=None, block_rows=1 << 16, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(7, n_classes)) * 3
    codes = rng.integers(0, 7, (1, n_rows)).astype(np.uint8)
    domain = Domain(("a",), np.array([7]), n_classes)
    rows = Rows.in_memory(domain, codes, labels.astype(np.uint16), weights, block_rows=block_rows)
    return rows, table, codes


def posterior(scores):
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("counts", [(500, 300, 200), (998, 1, 1), (400, 599, 1), (0, 10, 990)])
def test_every_class_is_predicted_as_often_as_it_is_there(counts, weighted):
    labels = np.repeat(np.arange(3), counts)
    weights = np.random.default_rng(1).random(1000) if weighted else None
    rows, table, codes = make(1000, labels, weights)
    known = np.ones(1000) if weights is None else weights
    totals = np.bincount(labels, known, minlength=3)
    offsets = fit_offsets(rows, partial(look_up, table), totals, FitContext())
    seen = totals > 0
    assert (offsets[~seen] == 0).all()
    never = np.where(seen, 0.0, -np.inf)
    found = (posterior(table[codes[0]] + offsets + never) * known[:, None]).sum(axis=0)
    np.testing.assert_allclose(found, totals, rtol=1e-3)

    # The oracle: a general optimiser of the same likelihood, over the classes with rows.
    def loss(free):
        b = never.copy()
        b[seen] = free
        logs = np.log(posterior(table[codes[0]] + b)[np.arange(1000), labels])
        return -(known * logs).sum()

    best = minimize(loss, offsets[seen], method="BFGS", options={"gtol": 1e-4})
    assert loss(offsets[seen]) <= best.fun + 1e-5


def test_of_scores_without_information_they_are_the_log_shares():
    labels = np.r_[np.zeros(9_999), 1]
    rows, _, _ = make(10_000, labels, n_classes=2)
    counts = np.array([9_999.0, 1.0])
    offsets = fit_offsets(rows, partial(look_up, np.zeros((7, 2))), counts, FitContext())
    np.testing.assert_allclose(offsets[1] - offsets[0], -np.log(9_999), rtol=1e-4)


def test_they_are_the_same_on_any_number_of_threads_and_chunks():
    labels = np.random.default_rng(2).integers(0, 3, 5_000)
    found = []
    for block_rows, n_jobs in ((1 << 16, 1), (333, 1), (1_000, 2)):
        rows, table, _ = make(5_000, labels, block_rows=block_rows)
        counts = np.bincount(labels).astype(float)
        context = FitContext(LocalEngine(n_jobs))
        found.append(fit_offsets(rows, partial(look_up, table), counts, context))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_scores_in_blocks_give_the_same_offsets(monkeypatch):
    labels = np.random.default_rng(2).integers(0, 3, 5_000)
    rows, table, _ = make(5_000, labels, np.random.default_rng(3).random(5_000))
    totals, asked, found = np.bincount(labels).astype(float), [], []

    def log_joint(codes):
        asked.append(codes.shape[1])
        return look_up(table, codes)

    for cells, most in ((1 << 19, 5_000), (3_000, 1_000)):
        monkeypatch.setattr(rows_module, "BLOCK_CELLS", cells)
        asked.clear()
        found.append(fit_offsets(rows, log_joint, totals, FitContext()))
        assert max(asked) == most
    assert np.array_equal(*found)
