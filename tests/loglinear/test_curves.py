"""Scores that rise or fall: their transform, their bounds, their optimum."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import Bounds, minimize

from tanager.codes import Domain, Rows
from tanager.engines import FitContext
from tanager.loglinear import joining
from tanager.loglinear.cells import Terms, by_class
from tanager.loglinear.curves import (
    basis,
    can_hold,
    column_bounds,
    corner_matrix,
    step_matrix,
    with_line,
)
from tanager.loglinear.fits import CLASS_PRECISION, Settings, fit_scores
from tanager.loglinear.joining import Columns
from tanager.loglinear.rows import LocatedTerms

FAMILIES = [(0,), (1,), (2,), (0, 1), (1, 0, 2), (2, 0)]


def make_problem(n_classes: int, signs, n_rows: int = 80):
    """Three features, the second ordered, with a value that does not stand in the order."""
    generator = np.random.default_rng(n_rows)
    arities = np.array([3, 5, 2])
    codes = np.stack([generator.integers(0, a, n_rows) for a in arities]).astype(np.uint8)
    codes[1, (codes[1] == 2) & (codes[0] == 1)] = 0  # a hole along the order
    labels = generator.integers(0, n_classes, n_rows).astype(np.uint16)
    domain = Domain(("a", "b", "c"), arities, n_classes, (0, 4, 0))
    rows = Rows.in_memory(domain, codes, labels)
    known = {1: np.array(signs, np.int8)}
    terms = Terms(FAMILIES, Columns.of(domain), rows, FitContext(), known)
    return terms, LocatedTerms(terms, rows, FitContext()), codes, labels


@pytest.mark.parametrize("mass", [np.ones(7), np.array([40.0, 9, 3, 1, 1, 5, 2])])
def test_a_curve_with_a_line_has_the_prior_of_their_sum(mass):
    line = np.array([-2.0, -1.0, -0.5, 0.5, 1.0, 4.0])
    codes = np.repeat(np.arange(7), mass.astype(int)).astype(np.uint8)[None]
    labels = np.arange(codes.shape[1]).astype(np.uint16) % 2
    domain = Domain(("x",), np.array([7]), 2, (6,))
    rows = Rows.in_memory(domain, codes, labels)
    terms = Terms([(0,)], Columns.of(domain, lines={0: line}), rows, FitContext())
    cells = terms.cells(0)
    scores = np.stack([terms.scores(one[:, None])[cells, 0] for one in np.eye(terms.n_cells)])
    expected = basis(7, 6) @ basis(7, 6).T
    expected[:6, :6] += np.outer(line, line)
    np.testing.assert_allclose(scores.T @ scores, expected, atol=1e-12)


def test_a_line_adds_nothing_but_itself():
    line = np.arange(5.0) - 1.0
    both, alone = with_line(basis(6, 5), line), basis(6, 5)
    assert np.linalg.matrix_rank(both @ both.T - alone @ alone.T, tol=1e-9) == 1
    np.testing.assert_array_equal(both[5], alone[5])  # the value outside of the order


@pytest.fixture(params=[False, True], ids=["each for itself", "joined"])
def joined(request, monkeypatch):
    """Whether families share look-ups, as they do where rows are many."""
    monkeypatch.setattr(joining, "FEWEST_ROWS", 0 if request.param else 1000)
    monkeypatch.setattr(joining, "ROWS_PER_VALUE", 0.001)


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("k", [2, 3, 8, 32])
def test_steps_span_all_scores_and_vary_as_free_or_smooth_ones(k, smooth):
    matrix = step_matrix(k + 1, k, smooth=smooth)
    assert np.linalg.matrix_rank(matrix) == k + 1
    assert (matrix @ matrix.T).diagonal()[:k].mean() == pytest.approx(1.0)
    np.testing.assert_array_equal(matrix[k, :k], 0.0)
    steps = np.diff(matrix[:k, :k], axis=0)
    # Parameter j moves the scores up once, between values j - 1 and j.
    assert (np.abs(steps[:, 0]) < 1e-12).all()
    moved = steps[:, 1:]
    np.testing.assert_allclose(moved, np.diag(moved.diagonal()), atol=1e-12)
    assert (moved.diagonal() > 0).all()
    if smooth and k > 2:
        level = (matrix[:k, 0] ** 2).mean()
        assert level == pytest.approx((basis(k, k)[:, 0] ** 2).mean())


@pytest.mark.parametrize("opposite", [False, True])
@pytest.mark.parametrize("shape", [(2, 2), (5, 3), (8, 8)])
def test_corners_span_all_tables_and_rise_along_both_features(shape, opposite):
    matrix = corner_matrix(*shape, opposite=opposite)
    assert np.linalg.matrix_rank(matrix) == shape[0] * shape[1]
    assert (matrix @ matrix.T).diagonal().mean() == pytest.approx(1.0)
    tables = matrix.reshape(*shape, -1)[..., 1:]
    assert np.diff(tables, axis=0).min() >= -1e-12
    assert ((-1 if opposite else 1) * np.diff(tables, axis=1)).min() >= -1e-12


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([0, 1], [-1, 0], True),
        ([0, 1], [1, 0], True),
        ([0, 0, 1], [0, 0, -1], True),
        ([0, 0, 1], [0, 1, 0], False),
        ([-1, 0, 1], [0, 0, 1], False),
    ],
)
def test_two_features_share_a_table_where_they_ask_the_same_or_the_opposite(
    first, second, expected
):
    signs = {0: np.array(first, np.int8), 2: np.array(second, np.int8), 3: np.array(first, np.int8)}
    assert can_hold((0, 1, 2), signs) is expected
    assert can_hold((0, 1), signs)
    assert not can_hold((0, 2, 3), signs)


@pytest.mark.usefixtures("joined")
def test_pull_is_the_transpose_of_expand():
    terms, _, _, _ = make_problem(3, [1, 0, 0])
    generator = np.random.default_rng(2)
    free = generator.normal(size=(terms.n_cells, 3))
    slopes = generator.normal(size=(terms.joint.n_cells, 3))
    free[terms.blank] = 0.0
    left = float((terms.expand(free) * slopes).sum())
    right = float((free * terms.pull(slopes.copy())).sum())
    assert left == pytest.approx(right, rel=1e-12)


@pytest.mark.usefixtures("joined")
@pytest.mark.parametrize(
    "signs", [[0, 1], [0, -1], [-1, 0], [0, 0, 1], [0, -1, 0], [1, 0, -1], [0, 1, 0, -1]]
)
def test_the_optimum_is_that_of_a_general_solver(signs):
    n_classes = len(signs)
    terms, rows, codes, labels = make_problem(n_classes, signs)
    strengths, shares = [0.5, 1.0, 2.0], np.full(n_classes, 1 / n_classes)
    fit = fit_scores(terms, rows, strengths, shares, settings=Settings(3000, 1e-13))
    half = 0.5 if terms.n_columns == 1 else 1.0
    precision = np.array([CLASS_PRECISION, *strengths])[terms.depths + 1][:, None] * half
    low, high = column_bounds(np.array(signs, np.int8), terms.n_columns)

    def slow(vector):
        free = vector.reshape(terms.n_cells, terms.n_columns)
        scores = terms.scores(free)
        total = by_class(scores[:1]).repeat(len(labels), axis=0)
        for family, part in zip(FAMILIES, terms.family_scores(scores), strict=True):
            total += part[tuple(codes[list(family)])]
        own = total[np.arange(len(labels)), labels]
        loss = (np.logaddexp.reduce(total, axis=1) - own).sum()
        return loss + 0.5 * (precision * free * free).sum()

    bounds = Bounds(terms.steps.low.ravel(), terms.steps.high.ravel())
    # No feasible direction goes down: small steps of single parameters, within the bounds.
    best = slow(fit.free.ravel())
    assert best == pytest.approx(fit.objective, rel=1e-9)
    for at in range(fit.free.size):
        for step in (3e-3, -3e-3):
            moved = fit.free.ravel().copy()
            moved[at] = np.clip(moved[at] + step, bounds.lb[at], bounds.ub[at])
            assert slow(moved) >= best - 1e-7
    if n_classes == 2:
        start = np.zeros(fit.free.size)
        found = minimize(slow, start, method="SLSQP", bounds=bounds, options={"maxiter": 500})
        assert best <= found.fun + 1e-5
    for family, scores in zip(FAMILIES, terms.family_scores(terms.scores(fit.free)), strict=True):
        if 1 not in family:
            continue
        axis = family.index(1)
        steps = np.diff(np.take(scores, range(4), axis=axis), axis=axis)
        for c, sign in enumerate(signs):
            # Against every other class: so the probability rises, too.
            assert (sign * (steps[..., c, None] - steps)).min() >= -1e-12
    assert (low <= high).all()
