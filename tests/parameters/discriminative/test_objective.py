"""Loss and gradient: against plain loops, finite differences, any chunking."""

from __future__ import annotations

import numpy as np
import pytest

from tanager.codes.rows import exact_weights
from tanager.counts import Counts
from tanager.engines import FitContext, LocalEngine
from tanager.parameters import Discriminative
from tanager.parameters import scores as layout_module
from tanager.parameters.discriminative import problem as problem_module
from tanager.parameters.discriminative.problem import Problem, Strengths
from tanager.structure import FitPlan
from tests.oracles import conditional_likelihood as oracle
from tests.parameters.discriminative.problems import in_blocks, make_rows, make_structure


def pose(learner, rows, name, n_jobs=None):
    context = FitContext(engine=LocalEngine(n_jobs))
    return Problem.of(learner, make_structure(rows, name), Counts(rows, context), FitPlan(context))


@pytest.fixture(params=["grouped", "wide", "sparse"])
def storage(request, monkeypatch):
    """Hold families jointly, apart with every context, or apart with the seen contexts."""
    if request.param == "wide":
        monkeypatch.setattr(problem_module, "MAX_JOINT", 0)
    if request.param == "sparse":
        monkeypatch.setattr(layout_module, "SMALL_CELLS", 0)
        monkeypatch.setattr(layout_module, "LARGE_CELLS", 0)
    return request.param


@pytest.mark.parametrize("kind", ["cll", "mse"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", ["naive", "tree", "immoral"])
def test_loss_agrees_with_plain_loops(storage, kind, n_classes, name):
    weights = np.random.default_rng(3).integers(0, 5, 80) / 4
    rows = make_rows(1, 80, n_classes=n_classes, unknown=0.1, weights=weights)
    problem = pose(Discriminative("direct", objective=kind), rows, name)
    form, tables = problem.final()
    free = np.random.default_rng(2).normal(size=form.n_free) * 2
    value, _ = problem.objective(form, tables, None)(free)
    scores = form.expand(free)[0]
    families = []
    for family in problem.layout.families:
        table = np.full((*family.shape, n_classes), np.nan)
        cells = scores[family.cells].reshape(-1, family.arity, n_classes)
        for context, values in enumerate(family.prefix_values(family.depth).T):
            table[tuple(values)] = cells[context]
        families.append((family.members.tolist(), table))
    codes, labels, _ = rows.gather()[:3]
    arities = rows.domain.arities
    expected = oracle.loss(codes, arities, labels, weights, scores[0], families, kind)
    assert value == pytest.approx(expected, rel=1e-12)


FORMS = {
    "direct": {"form": "direct"},
    "extended": {"form": "extended"},
    **{f"level {n}": {"level": n, "crossfit": 0} for n in (1, 2, 3, 4)},
    **{f"crossfit level {n}": {"level": n, "crossfit": 3} for n in (1, 2, 3, 4)},
    "correction": {"level": 1, "correction": 0.3},
    "fixed prior": {"level": 2, "fit_prior": False, "correction": 0.1},
    "towards zero": {"form": "direct", "towards": "zero"},
    "squared error": {"form": "direct", "objective": "mse"},
}


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("options", FORMS.values(), ids=FORMS)
def test_gradient_agrees_with_finite_differences(storage, options, n_classes):
    rows = make_rows(5, 70, n_classes=n_classes, unknown=0.05)
    problem = pose(Discriminative(**options), rows, "clique")
    form, tables = problem.final()
    objective = problem.objective(form, tables, Strengths(0.7, 0.3))
    rng = np.random.default_rng(1)
    free = form.generative + rng.normal(size=form.n_free) * 0.3
    _, gradient = objective(free)
    frozen = problem.frozen(form)
    for _ in range(4):
        direction = rng.normal(size=form.n_free)
        if frozen is not None:
            direction[frozen] = 0
        step = 1e-5
        ahead, behind = objective(free + step * direction)[0], objective(free - step * direction)[0]
        assert (ahead - behind) / (2 * step) == pytest.approx(gradient @ direction, rel=1e-6)


def test_certain_rows_keep_their_loss():
    rows = make_rows(0, 20, n_classes=2)
    problem = pose(Discriminative("direct"), rows, "naive")
    form, tables = problem.final()
    objective = problem.objective(form, tables, None)
    free = np.zeros(form.n_free).reshape(-1, 2)
    free[0, 1] = 30.0  # every row is given to class 1
    value, gradient = objective(free.ravel())
    labels = rows.gather().labels
    ones = int(labels.sum())
    assert value == pytest.approx(30.0 * (20 - ones) + 20 * np.log1p(np.exp(-30.0)), rel=1e-14)
    assert gradient[1] == pytest.approx((20 - ones) - 20 * np.exp(-30.0), rel=1e-14)


def test_result_depends_neither_on_chunks_nor_on_threads(storage):
    weights = np.random.default_rng(0).random(500)
    weights = exact_weights(weights, weights.sum())
    rows = make_rows(2, 500, n_classes=4, unknown=0.02, weights=weights)
    answers = []
    for block_rows, n_jobs in ((65_536, 1), (7, 1), (64, 3)):
        problem = pose(Discriminative(level=3), in_blocks(rows, block_rows), "tree", n_jobs)
        form, tables = problem.final()
        free = np.random.default_rng(9).normal(size=form.n_free)
        answers.append(problem.objective(form, tables, None)(free))
    for value, gradient in answers[1:]:
        assert value == answers[0][0]
        np.testing.assert_array_equal(gradient, answers[0][1])


def test_small_weights_keep_their_precision():
    weights = np.full(60, 2.0**-40)
    light, plain = make_rows(4, weights=weights), make_rows(4)
    values = []
    for rows in (light, plain):
        problem = pose(Discriminative("direct"), rows, "tree")
        form, tables = problem.final()
        values.append(problem.objective(form, tables, None)(np.ones(form.n_free)))
    np.testing.assert_allclose(values[0][0] * 2.0**40, values[1][0], rtol=1e-14)
    np.testing.assert_allclose(values[0][1] * 2.0**40, values[1][1], atol=1e-12)
