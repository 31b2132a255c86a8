"""Additive scores: their basis, their derivatives and their optimum, against slow twins."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from tanager import native
from tanager.additive import LocatedRows, Settings, Terms, basis, by_class, fit_scores, log_joint
from tanager.additive.bases import SMOOTHNESS
from tanager.codes import Domain

EXACT = Settings(max_iter=2000, tol=1e-14)
FAMILIES = [(0,), (1,), (2,), (0, 1), (1, 0, 2)]


def make_problem(n_classes: int, seed: int = 0, n_rows: int = 120):
    """Three features, the second ordered with a value that does not stand in the order."""
    generator = np.random.default_rng(seed)
    arities = np.array([3, 6, 2])
    codes = np.stack([generator.integers(0, a, n_rows) for a in arities]).astype(np.uint8)
    labels = generator.integers(0, n_classes, n_rows).astype(np.uint16)
    return Domain(("a", "b", "c"), arities, n_classes, (0, 5, 0)), codes, labels


def softmax(scores):
    out = np.exp(scores - scores.max(axis=1, keepdims=True))
    return out / out.sum(axis=1, keepdims=True)


def test_the_basis_is_that_of_a_ridge_on_scores_and_their_differences():
    k = 7
    differences = np.diff(np.eye(k), axis=0)
    covariance = np.linalg.inv(np.eye(k) + SMOOTHNESS * k**2 * differences.T @ differences)
    matrix = basis(k + 1, k)
    expected = np.eye(k + 1)
    expected[:k, :k] = covariance * k / np.trace(covariance)
    np.testing.assert_allclose(matrix @ matrix.T, expected, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_loss_and_slopes_are_those_of_the_definition(n_classes, weighted):
    domain, codes, labels = make_problem(n_classes)
    codes[0, :5] = 3  # unknown
    generator = np.random.default_rng(1)
    weights = generator.uniform(0, 2, len(labels)) if weighted else np.zeros(0)
    terms = Terms(FAMILIES, domain, codes)
    scores = generator.normal(size=(terms.n_cells, terms.n_columns))
    cells, slopes = terms.locate(codes), np.empty((terms.n_cells, terms.n_columns))
    found = np.empty(1)
    native.evaluate_sums(cells, terms.starts, labels, weights, scores, slopes, found)
    loss = float(found[0])

    each = weights if weighted else np.ones(len(labels))

    def slow(scores):
        total = by_class(scores[:1]).repeat(len(labels), axis=0)
        for at, start in enumerate(terms.starts):
            total = total + by_class(scores[start + cells[:, at].astype(int)])
        return -(each * np.log(softmax(total)[np.arange(len(labels)), labels])).sum()

    assert loss == pytest.approx(slow(scores), rel=1e-12)
    for cell in range(0, terms.n_cells, 7):
        step = np.zeros_like(scores)
        step[cell, 0] = 1e-5
        numeric = (slow(scores + step) - slow(scores - step)) / 2e-5
        assert slopes[cell, 0] == pytest.approx(numeric, abs=1e-5)


def test_pull_is_the_transpose_of_expand():
    domain, codes, _ = make_problem(3)
    terms = Terms(FAMILIES, domain, codes)
    generator = np.random.default_rng(2)
    free, slopes = generator.normal(size=(2, terms.n_cells, 3))
    free[terms._blank] = 0.0
    left = float((terms.expand(free) * slopes).sum())
    right = float((free * terms.pull(slopes.copy())).sum())
    assert left == pytest.approx(right, rel=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_optimum_of_free_scores_is_that_of_logistic_regression(n_classes):
    _, codes, labels = make_problem(n_classes)
    domain = Domain(("a", "b", "c"), np.array([3, 6, 2]), n_classes)
    terms = Terms([(0,), (1,), (2,)], domain, codes)
    rows = LocatedRows(terms.locate(codes), labels, np.zeros(0))
    fit = fit_scores(terms, rows, [2.0], settings=EXACT)
    one_hot = np.concatenate([np.eye(a)[c] for a, c in zip(domain.arities, codes, strict=True)], 1)
    # Two classes have one vector of coefficients, the difference of two with half the prior.
    strength = 1.0 if n_classes == 2 else 2.0
    peer = LogisticRegression(C=1 / strength, tol=1e-10, max_iter=5000).fit(one_hot, labels)
    found = softmax(log_joint(terms, rows.cells, fit.free))
    np.testing.assert_allclose(found, peer.predict_proba(one_hot), atol=2e-4)


def test_a_row_of_weight_two_is_two_rows():
    domain, codes, labels = make_problem(3)
    terms = Terms(FAMILIES, domain, codes)
    weights = np.ones(len(labels))
    weights[:30] = 2.0
    once = LocatedRows(terms.locate(codes), labels, weights)
    twice = np.concatenate([np.arange(30), np.arange(len(labels))])
    repeated = LocatedRows(terms.locate(codes[:, twice]), labels[twice], np.zeros(0))
    strengths = [1.0, 2.0, 3.0]
    first = fit_scores(terms, once, strengths, settings=EXACT)
    second = fit_scores(terms, repeated, strengths, settings=EXACT)
    said = [softmax(log_joint(terms, once.cells, fit.free)) for fit in (first, second)]
    np.testing.assert_allclose(said[0], said[1], atol=1e-5)


def test_neighbours_speak_for_an_ordered_value_without_rows():
    codes = np.array([[0, 1, 2, 4, 5, 6] * 20], np.uint8)
    labels = np.array([0, 0, 0, 1, 1, 1] * 20, np.uint16)
    terms = Terms([(0,)], Domain(("x",), np.array([7]), 2, (7,)), codes)
    rows = LocatedRows(terms.locate(codes), labels, np.zeros(0))
    fit = fit_scores(terms, rows, [0.1], settings=EXACT)
    (curve,) = terms.family_scores(terms.expand(fit.free))
    steps = np.diff(curve[:, 1] - curve[:, 0])
    assert (steps[1:5] > 0).all()


def test_joint_values_without_rows_add_nothing():
    domain, codes, _ = make_problem(3)
    seen = codes[:, :4]
    terms = Terms([(1, 0, 2)], domain, seen)
    scores = np.arange(terms.n_cells * 3.0).reshape(-1, 3)
    scores[terms._blank] = 0.0
    (table,) = terms.family_scores(scores)
    rows = {tuple(row) for row in seen[[1, 0, 2]].T.tolist()}
    for joint in np.ndindex(table.shape[:-1]):
        assert (joint in rows) == bool(table[joint].any())
