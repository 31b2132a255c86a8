"""Variances of discriminative tables: draws against a dense inverse, and coverage of the truth."""

from __future__ import annotations

import numpy as np
import pytest

from tanager import BayesNetClassifier
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.loglinear.optimiser import solve_linear
from tanager.loglinear.rows import RowCells
from tanager.parameters import Discriminative, discriminative
from tanager.parameters.discriminative.problem import Problem, Strengths
from tanager.parameters.tables import posterior
from tanager.structure import FitPlan
from tests.parameters.discriminative.problems import make_rows, make_structure
from tests.parameters.discriminative.test_objective import FORMS, pose


@pytest.mark.parametrize("options", FORMS.values(), ids=FORMS)
def test_push_is_the_derivative_that_pull_transposes(options):
    problem = pose(Discriminative(**options), make_rows(5, 70, n_classes=3, unknown=0.05), "clique")
    form, _ = problem.final()
    rng = np.random.default_rng(1)
    free = form.generative + 0.3 * rng.normal(size=form.n_free)
    step = rng.normal(size=form.n_free)
    moved = form.push(free, step)
    ahead, behind = form.expand(free + 1e-5 * step), form.expand(free - 1e-5 * step)
    np.testing.assert_allclose(moved, (ahead - behind) / 2e-5, atol=1e-7)
    slopes = rng.normal(size=moved.shape)
    slopes[:, -1] = 0.0
    assert (slopes * moved).sum() == pytest.approx(form.pull(free, slopes) @ step, rel=1e-10)


@pytest.mark.parametrize(
    "options",
    [
        {"level": 4},
        {"level": 2},
        {"level": 1, "correction": 1.0},
        {"form": "direct"},
        {"form": "direct", "l2": 1.0, "smooth": True},
    ],
)
def test_squares_are_those_of_the_derivative(options):
    problem = pose(Discriminative(**options, crossfit=0), make_rows(3, 40, n_classes=2), "tree")
    form, _ = problem.final()
    curvature = np.random.default_rng(0).random(problem.all_rows.shape)
    curvature[:, -1] = 0.0
    columns = (form.push(form.generative, one) for one in np.eye(form.n_free))
    expected = [(curvature * column**2).sum() for column in columns]
    np.testing.assert_allclose(form.pull_squares(curvature), expected, rtol=1e-12)


def test_linear_systems_are_solved():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6))
    matrix, wanted = root @ root.T + np.eye(6), rng.normal(size=(6, 3))
    scale = 1.0 / np.diag(matrix)[:, None]
    found = solve_linear(lambda x: matrix @ x, wanted, scale, 12)
    np.testing.assert_allclose(found, np.linalg.solve(matrix, wanted), rtol=1e-8)


class OneOfMany:
    """Draws zeros, but for a single one."""

    def __init__(self, at=-1):
        self.at, self.n_drawn = at, 0

    def standard_normal(self, shape):
        drawn = np.zeros(shape)
        if 0 <= self.at - self.n_drawn < drawn.size:
            drawn.flat[self.at - self.n_drawn] = 1.0
        self.n_drawn += drawn.size
        return drawn


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("options", [{"form": "direct"}, {"level": 4}, {"form": "extended"}])
def test_draws_have_the_inverse_of_the_curvature(options, n_classes):
    rows = make_rows(4, 80, n_classes=n_classes)
    learner = Discriminative(**options, l2=0.5, towards="zero")
    context = FitContext()
    plan = FitPlan(context)
    problem = Problem.of(learner, make_structure(rows, "tree"), Counts(rows, context), plan)
    form, strengths = problem.form(problem.all_rows), Strengths(0.5)
    free, layout = form.generative, problem.layout
    chunk = rows.gather()
    cells = np.concatenate([np.zeros((1, 80), np.int32), layout.locate(chunk.codes)])
    chances = posterior(form.expand(free)[0][cells].sum(axis=0))
    base = problem.base.spread
    located = RowCells.of(np.ascontiguousarray(layout.locate(chunk.codes).T))
    found = discriminative._Curvature(problem, free, strengths, located, chances, np.ones(80), base)
    found.generative[:] = 0.0  # its own part is not in the dense curvature
    # E (E' (sum M' W M + e I) E + L)^-1 E', spelled out.
    size = layout.n_cells * n_classes
    inner = discriminative.LEAST_PRECISION * np.eye(size)
    for row, chance in enumerate(chances):
        reads = np.zeros((n_classes, layout.n_cells, n_classes))
        for c in range(n_classes):
            np.add.at(reads[c], (cells[:, row], c), 1.0)
        flat = reads.reshape(n_classes, size)
        inner += flat.T @ (np.diag(chance) - np.outer(chance, chance)) @ flat
    push = np.stack([form.push(free, one)[0].ravel() for one in np.eye(form.n_free)], axis=1)
    covariance = push @ np.linalg.inv(push.T @ inner @ push + 0.5 * np.eye(form.n_free)) @ push.T
    # A draw is linear in its numbers: what each of them alone gives adds up to the covariance.
    noise = OneOfMany()
    assert not found.draw(noise).any()
    drawn = np.stack([found.draw(OneOfMany(at)).ravel() for at in range(noise.n_drawn)])
    np.testing.assert_allclose(drawn.T @ drawn, covariance, rtol=1e-3, atol=1e-3 * covariance.max())


@pytest.mark.parametrize("options", [{}, {"l2": 1.0}, {"form": "direct"}, {"level": 1}])
def test_intervals_cover_what_is_true(options):
    inside = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        tables = rng.dirichlet(np.full(3, 5.0), (2, 4))
        y = rng.integers(2, size=1300)
        sums = np.cumsum(tables[y], axis=-1)
        X = np.minimum((rng.random((1300, 4, 1)) > sums).sum(axis=-1), 2)
        logs = sum(np.log(tables[:, f, X[:, f]].T) for f in range(4))
        truth = np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None])[1000:]
        values = np.array(["u", "v", "w"])[X]
        clf = BayesNetClassifier("naive", Discriminative(**options)).fit(values[:1000], y[:1000])
        low, high = np.moveaxis(clf.predict_interval(values[1000:]), -1, 0)
        inside.append(((low <= truth) & (truth <= high)).mean())
    error = np.std(inside) / np.sqrt(len(inside))
    assert abs(np.mean(inside) - 0.9) < 0.03 + 2.0 * error


def test_more_rows_make_intervals_narrower_and_a_ridge_does_too():
    rng = np.random.default_rng(1)
    X = rng.choice(list("abc"), (4000, 3))
    y = (X[:, 0] == "a").astype(int) ^ (rng.random(4000) < 0.3)

    def width(n, **options):
        clf = BayesNetClassifier("tan", Discriminative(**options)).fit(X[:n], y[:n])
        return np.ptp(clf.predict_interval(X[:200])[:, 1], axis=-1).mean()

    assert width(4000) < 0.6 * width(500)
    assert width(500, form="direct", towards="zero", l2=30.0) < 0.9 * width(500, form="direct")


def test_a_squared_error_has_no_intervals():
    X, y = [["a"], ["b"], ["b"]] * 20, [0, 1, 0] * 20
    clf = BayesNetClassifier("naive", Discriminative(objective="mse")).fit(X, y)
    assert clf.network_.tables.spread is None
