"""A prior on differences of neighbours, against dense matrices and finite differences."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from tanager import BayesNetClassifier
from tanager.codes import Rows
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.loglinear.objective import reached
from tanager.parameters import Discriminative
from tanager.parameters import scores as layouts
from tanager.parameters.discriminative.problem import Problem, Strengths
from tanager.parameters.scores import cell_pairs
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


def slow_pairs(layout) -> set[tuple[int, int]]:
    """Neighbours by the definition: cells of a family that differ in one place of one order."""
    found = set()
    for family in layout.families:
        cells = {}
        contexts = family.prefix_values(family.depth).T.tolist()
        for at, (context, value) in enumerate(product(contexts, range(family.arity))):
            cells[(*context, value)] = family.start + at
        for key, cell in cells.items():
            for axis, member in enumerate(family.members.tolist()):
                up = (*key[:axis], key[axis] + 1, *key[axis + 1 :])
                if key[axis] + 1 < N_ORDERED[member] and up in cells:
                    found.add((cell, cells[up]))
    return found


@pytest.mark.parametrize("structure", ["naive", "tree", "clique", "immoral"])
@pytest.mark.parametrize("sparse", [False, True])
def test_pairs_are_those_of_the_definition(structure, sparse, monkeypatch):
    if sparse:
        monkeypatch.setattr(layouts, "SMALL_CELLS", 0)
        monkeypatch.setattr(layouts, "DENSE_FACTOR", 0)
    layout = make_problem(Discriminative("direct", smooth=1.0), structure, n_rows=25).layout
    pairs = cell_pairs(layout)
    assert set(zip(*pairs.tolist(), strict=True)) == slow_pairs(layout)
    assert pairs.shape[1] == len(slow_pairs(layout))


@pytest.mark.parametrize(
    "learner",
    [
        Discriminative("direct", smooth=2.0),
        Discriminative("direct", towards="zero", smooth=2.0),
        Discriminative(level=1, correction=0.5, smooth=2.0),
    ],
    ids=["direct", "zero", "corrections"],
)
def test_the_gradient_is_that_of_finite_differences(learner):
    problem = make_problem(learner)
    form, tables = problem.final()
    objective = problem.objective(form, tables, Strengths(0.7, 0.3, 2.0))
    plain = problem.objective(form, tables, Strengths(0.7, 0.3))
    free = form.generative + np.random.default_rng(1).normal(size=form.n_free)
    value, gradient = objective(free)
    assert value > plain(free)[0]
    for at in range(0, form.n_free, 5):
        step = np.zeros(form.n_free)
        step[at] = 1e-5
        numeric = (objective(free + step)[0] - objective(free - step)[0]) / 2e-5
        assert gradient[at] == pytest.approx(numeric, abs=2e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_optimum_is_that_of_a_dense_ridge(n_classes):
    rows = ordered_rows(n_classes=n_classes)
    structure = make_structure(rows, "naive")
    learner = Discriminative("direct", l2=0.5, towards="zero", smooth=3.0, tol=1e-12)
    tables = learner.learn(structure, Counts(rows, FitContext()), FitPlan())
    codes, labels = rows.gather()[:2]
    arities = rows.domain.arities.tolist()
    design = np.concatenate([np.eye(a)[c] for a, c in zip(arities, codes, strict=True)], axis=1)
    design = np.concatenate([np.ones((len(labels), 1)), design], axis=1)
    precision, start = 0.5 * np.eye(design.shape[1]), 1
    for arity, k in zip(arities, N_ORDERED, strict=True):
        differences = np.diff(np.eye(max(k, 1)), axis=0)
        part = slice(start, start + differences.shape[1])
        precision[part, part] += 3.0 * differences.T @ differences
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
    counts = np.array([9.0, 5.0, 0.0, 4.0, 0.0])
    found = reached(np.array([[1, 2], [2, 3]]), counts)
    assert (found > 0).tolist() == [True, True, True, True, False]
    np.testing.assert_allclose(found, counts, atol=1e-6)


def test_strengths_are_chosen_and_smooth_scores_are_better_on_fine_intervals():
    generator = np.random.default_rng(5)
    X = generator.normal(size=(700, 2))
    y = (generator.random(700) < 1 / (1 + np.exp(-2 * np.sin(2 * X[:, 0]) - X[:, 1]))).astype(int)
    losses = {}
    for smooth in (None, "cv"):
        learner = Discriminative("direct", l2="cv", towards="zero", smooth=smooth)
        clf = BayesNetClassifier("naive", learner, bins="fine").fit(X[:300], y[:300])
        said = clf.predict_proba(X[300:])[np.arange(400), y[300:]]
        losses[smooth] = -np.log(said).mean()
        assert (clf.info_["parameters"]["smooth"] > 0) == (smooth == "cv")
    assert losses["cv"] < losses[None]


@pytest.mark.parametrize(
    "options",
    [
        {"form": "extended", "smooth": 1.0},
        {"form": "weighted", "smooth": 1.0},
        {"form": "direct", "smooth": -1.0},
        {"form": "direct", "smooth": "strong"},
    ],
)
def test_options_that_are_not_allowed(options):
    with pytest.raises(ConfigurationError, match="smooth="):
        BayesNetClassifier("naive", Discriminative(**options)).fit([["a"], ["b"]], [0, 1])
