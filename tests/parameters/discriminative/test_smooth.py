"""Smooth scores, against dense matrices and finite differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from tanager import BayesNetClassifier
from tanager.codes import Rows
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.loglinear.curves import basis
from tanager.parameters import Discriminative
from tanager.parameters import scores as layouts
from tanager.parameters.discriminative.problem import Problem, Strengths
from tanager.structure import FitPlan
from tests.parameters.discriminative.problems import make_rows, make_structure

N_ORDERED = (3, 0, 3, 2)  # of 3, 2, 4 and 2 values: the third has one that stands in no order


def ordered_rows(**options) -> Rows:
    rows = make_rows(**options)
    codes, labels, weights = rows.gather()[:3]
    return Rows.in_memory(replace(rows.domain, n_ordered=N_ORDERED), codes, labels, weights)


def make_problem(learner, structure="clique", **options):
    rows = ordered_rows(**options)
    context = FitContext()
    return Problem.of(
        learner, make_structure(rows, structure), Counts(rows, context), FitPlan(context)
    )


@pytest.mark.parametrize(
    "learner",
    [
        Discriminative("direct", l2=0.7, smooth=True),
        Discriminative("direct", l2=0.7, towards="zero", smooth=True),
        Discriminative(level=1, correction=0.5, smooth=True),
    ],
    ids=["direct", "zero", "corrections"],
)
def test_the_gradient_is_that_of_finite_differences(learner):
    problem = make_problem(learner)
    form, tables = problem.final()
    objective = problem.objective(form, tables, Strengths(0.7, 0.3))
    free = form.generative + np.random.default_rng(1).normal(size=form.n_free)
    _, gradient = objective(free)
    for at in range(0, form.n_free, 5):
        step = np.zeros(form.n_free)
        step[at] = 1e-5
        numeric = (objective(free + step)[0] - objective(free - step)[0]) / 2e-5
        assert gradient[at] == pytest.approx(numeric, abs=2e-4)


@pytest.mark.parametrize("structure", ["naive", "tree", "clique", "immoral"])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_generative_scores_are_those_of_the_free_parameters(structure, sparse, monkeypatch):
    if sparse:
        monkeypatch.setattr(layouts, "SMALL_CELLS", 0)
        monkeypatch.setattr(layouts, "DENSE_FACTOR", 0)
    problem = make_problem(Discriminative("direct", l2=1.0, smooth=True), structure, n_rows=25)
    form = problem.form(problem.all_rows)
    assert not np.array_equal(form.generative, problem.all_rows[0, :-1].ravel())
    np.testing.assert_allclose(
        form.expand(form.generative)[0, :-1], problem.all_rows[0, :-1], atol=1e-9
    )
    free, slopes = np.random.default_rng(2).normal(size=(2, form.n_free))
    step = np.append(slopes.reshape(-1, 3), np.zeros((1, 3)), axis=0)[None]
    assert (form.push(free, free) * step).sum() == pytest.approx(free @ form.pull(free, step))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_optimum_is_that_of_a_dense_ridge(n_classes):
    rows = ordered_rows(n_classes=n_classes)
    structure = make_structure(rows, "naive")
    learner = Discriminative("direct", l2=0.5, towards="zero", smooth=True, tol=1e-12)
    tables = learner.learn(structure, Counts(rows, FitContext()), FitPlan())
    codes, labels = rows.gather()[:2]
    arities = rows.domain.arities.tolist()
    design = np.concatenate([np.eye(a)[c] for a, c in zip(arities, codes, strict=True)], axis=1)
    design = np.concatenate([np.ones((len(labels), 1)), design], axis=1)
    precision, start = 0.5 * np.eye(design.shape[1]), 1
    for arity, k in zip(arities, N_ORDERED, strict=True):
        matrix = basis(arity, k)
        if matrix is not None:  # scores are the matrix times z: their precision, from that of z
            part = slice(start, start + arity)
            precision[part, part] = 0.5 * np.linalg.inv(matrix @ matrix.T)
        start += arity

    def slow(flat):
        beta = flat.reshape(-1, n_classes)
        scores = design @ beta
        chances = np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
        loss = -np.log(chances[np.arange(len(labels)), labels]).sum()
        gradient = design.T @ (chances - np.eye(n_classes)[labels]) + precision @ beta
        return loss + 0.5 * float((beta * (precision @ beta)).sum()), gradient.ravel()

    found = minimize(slow, np.zeros(design.shape[1] * n_classes), jac=True, tol=1e-10)
    expected = design @ found.x.reshape(-1, n_classes)
    joint = tables.log_joint(structure, codes, rows.domain.arities)
    posterior, wanted = (
        np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
        for scores in (joint, expected)
    )
    np.testing.assert_allclose(posterior, wanted, atol=1e-5)


def test_neighbours_speak_for_an_interval_without_rows():
    rows = ordered_rows(arities=(5, 2, 4, 2))
    codes, labels = rows.gather()[:2]
    kept = (codes[0] != 2) & (codes[0] != 4)
    domain = replace(rows.domain, n_ordered=(4, 0, 3, 2))
    rows = Rows.in_memory(domain, np.ascontiguousarray(codes[:, kept]), labels[kept])
    learner = Discriminative("direct", l2=1.0, smooth=True)
    counts = Counts(rows, FitContext())
    problem = Problem.of(learner, make_structure(rows, "naive"), counts, FitPlan())
    first = problem.layout.families[0].cells
    assert (problem.seen()[first] > 0).tolist() == [True, True, True, True, False]
    np.testing.assert_allclose(problem.seen(), problem.layout.counts(problem.trees), atol=1e-6)


def test_smooth_scores_are_better_on_fine_intervals():
    generator = np.random.default_rng(5)
    X = generator.normal(size=(700, 2))
    y = (generator.random(700) < 1 / (1 + np.exp(-2 * np.sin(2 * X[:, 0]) - X[:, 1]))).astype(int)
    losses = {}
    for smooth in (False, True):
        learner = Discriminative("direct", l2="cv", towards="zero", smooth=smooth)
        clf = BayesNetClassifier("naive", learner, bins="fine").fit(X[:300], y[:300])
        said = clf.predict_proba(X[300:])[np.arange(400), y[300:]]
        losses[smooth] = -np.log(said).mean()
    assert losses[True] < losses[False]


@pytest.mark.parametrize(
    "options",
    [
        {"form": "extended", "l2": 1.0, "smooth": True},
        {"form": "weighted", "l2": 1.0, "smooth": True},
        {"form": "direct", "smooth": True},
        {"form": "direct", "l2": 1.0, "smooth": "strong"},
    ],
)
def test_options_that_are_not_allowed(options):
    with pytest.raises(ConfigurationError, match="smooth="):
        BayesNetClassifier("naive", Discriminative(**options)).fit([["a"], ["b"]], [0, 1])
