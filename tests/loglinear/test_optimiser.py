"""Our optimiser against SciPy's, on many small problems."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import Bounds, minimize

from tanager.loglinear.optimiser import minimise, solve_linear

SEEDS = range(25)


def logistic(seed):
    """A penalised logistic regression, badly scaled, with up to 60 parameters."""
    rng = np.random.default_rng(seed)
    n_rows, n = int(rng.integers(30, 200)), int(rng.integers(2, 60))
    rows = rng.standard_normal((n_rows, n)) * 10.0 ** rng.uniform(-1, 1, n)
    signs = np.where(rows @ rng.standard_normal(n) + rng.standard_normal(n_rows) > 0, 1.0, -1.0)
    ridge = 10.0 ** rng.uniform(-2, 1)

    def objective(free):
        margins = signs * (rows @ free)
        value = np.logaddexp(0.0, -margins).sum() + 0.5 * ridge * free @ free
        pull = -signs / (1.0 + np.exp(np.minimum(margins, 500.0)))
        return float(value), rows.T @ pull + ridge * free

    return objective, np.zeros(n), rng


def least(objective, start, bounds=None):
    box = None if bounds is None else Bounds(*bounds)
    options = {"ftol": 0.0, "gtol": 1e-9, "maxiter": 20_000, "maxfun": 50_000}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=box, options=options)
    return found.x, float(found.fun)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("method", ["lbfgs", "cg"])
def test_the_minimum_is_scipys(seed, method):
    objective, start, _ = logistic(seed)
    found = minimise(objective, start, max_iter=20_000, tol=1e-13, method=method, first_step=None)
    assert found.converged
    assert found.value <= least(objective, start)[1] * (1 + 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_minimum_within_bounds_is_scipys(seed):
    objective, start, rng = logistic(seed)
    kinds = rng.integers(0, 4, start.size)
    low = np.where(kinds % 2 == 1, 0.0, -np.inf)
    high = np.where(kinds >= 2, rng.uniform(0.0, 0.05, start.size), np.inf)
    at, value = least(objective, start, (low, high))
    found = minimise(
        objective, start, max_iter=20_000, tol=1e-13, first_step=None, bounds=(low, high)
    )
    assert found.converged
    assert (found.at >= low).all()
    assert (found.at <= high).all()
    assert found.value <= value * (1 + 1e-9)
    np.testing.assert_allclose(found.at, at, atol=2e-4 * np.abs(at).max() + 1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_passes_are_no_more_than_scipys(seed):
    """At the same tolerance, within a handful: SciPy may stop by chance."""
    objective, start, _ = logistic(seed)
    options = {"ftol": 1e-9, "gtol": 0.0, "maxcor": 10, "maxiter": 9_999, "maxfun": 99_999}
    theirs = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    ours = minimise(objective, start, max_iter=9_999, tol=1e-9, first_step=None, sharp=0.9)
    assert ours.evaluations <= 1.2 * theirs.nfev + 5


def test_bounds_may_hold_everything():
    bounds = np.ones(3), np.ones(3)
    found = minimise(
        lambda x: (float(x @ x), 2 * x), np.ones(3), max_iter=9, tol=0.0, bounds=bounds
    )
    assert found.converged
    assert found.at.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("seed", SEEDS)
def test_rest_at_a_bound_is_left_where_another_parameter_moves(seed):
    """A parabola whose axes are far from the bounds': the set of bounds that hold must change."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    turn = np.linalg.qr(rng.standard_normal((n, n)))[0]
    matrix = turn @ np.diag(10.0 ** rng.uniform(-2, 2, n)) @ turn.T
    goal = rng.standard_normal(n)

    def objective(x):
        pull = matrix @ (x - goal)
        return 0.5 * float((x - goal) @ pull), pull

    bounds = np.zeros(n), np.full(n, np.inf)
    at, value = least(objective, np.zeros(n), bounds)
    found = minimise(
        objective, np.zeros(n), max_iter=999, tol=1e-14, first_step=None, bounds=bounds
    )
    assert found.value <= value + 1e-9 * max(abs(value), 1.0)
    assert ((at == 0) == (found.at < 1e-9)).mean() > 0.8


def test_systems_that_rounding_has_solved_are_left_alone():
    wanted = np.array([[1e50, 1.0], [0.0, 2.0]])
    found = solve_linear(lambda x: np.where(x > 1e40, 0.0, 2.0 * x), wanted, np.ones((2, 1)), 5)
    np.testing.assert_allclose(found, [[0.0, 0.5], [0.0, 1.0]])
