"""The learner as a whole: laws, equivalences with other software, options."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from tanager import BayesNetClassifier
from tanager.codes import Domain, Rows
from tanager.codes.hashing import folds_of
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.parameters import DFE, PARAMETERS, Discriminative, MEstimate, TreeTable
from tanager.parameters import scores as layout_module
from tanager.parameters.discriminative.problem import Problem, Strengths
from tanager.structure import FitPlan, Structure
from tests.oracles import conditional_likelihood as oracle
from tests.parameters.discriminative.problems import (
    in_blocks,
    learn,
    make_rows,
    make_structure,
    posterior,
)

FORMS = ("direct", "extended", "weighted")


def one_hot(rows):
    codes = rows.gather().codes
    return np.concatenate(
        [np.eye(a)[c] for a, c in zip(rows.domain.arities, codes, strict=True)], axis=1
    )


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("form", FORMS)
def test_naive_structure_is_logistic_regression(form, n_classes):
    rows = make_rows(11, 400, n_classes=n_classes)
    tables, info = learn(Discriminative(form, tol=1e-14), rows, make_structure(rows, "naive"))
    peer = LogisticRegression(C=np.inf, tol=1e-10, max_iter=5000)
    peer.fit(one_hot(rows), rows.gather().labels)
    expected = peer.predict_proba(one_hot(rows))
    np.testing.assert_allclose(
        posterior(tables, make_structure(rows, "naive"), rows), expected, atol=2e-5
    )
    labels = rows.gather().labels
    nll = -np.log(expected[np.arange(rows.n_rows), labels]).sum()
    assert info["loss"][-1] == pytest.approx(nll, rel=1e-8)


@pytest.mark.parametrize("name", ["tree", "clique", "immoral"])
def test_posterior_of_the_tables_is_the_objectives(name):
    rows = make_rows(2, 300, n_classes=3)
    structure = make_structure(rows, name)
    labels = rows.gather().labels
    for form in FORMS:
        tables, info = learn(Discriminative(form, l2=0.1), rows, structure)
        p = posterior(tables, structure, rows)
        nll = -np.log(p[np.arange(rows.n_rows), labels]).sum()
        assert nll == pytest.approx(info["loss"][-1], rel=1e-9)
        assert tables.normalized == (form == "extended" or name != "immoral")


def test_all_forms_reach_the_same_optimum():
    rows = make_rows(8, 500, n_classes=2)
    structure = make_structure(rows, "tree")
    best = [
        learn(Discriminative(form, init=init, tol=1e-13), rows, structure)[1]["loss"][-1]
        for form in FORMS
        for init in ("zero", "generative")
    ]
    np.testing.assert_allclose(best, min(best), rtol=1e-6)


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_levels_nest(level):
    rows = make_rows(6, 200, n_classes=3)
    structure = make_structure(rows, "tree")
    learner = Discriminative(level=level, crossfit=0, tol=1e-10, max_iter=20_000)
    _, info = learn(learner, rows, structure)
    arities = rows.domain.arities
    cells = 3 + 2 * 3 + 4 * 2 + 2 * 3
    expected = {1: 1 + 4, 2: 3 + arities.sum(), 3: 3 * (1 + arities.sum()), 4: 3 * (1 + cells)}
    assert info["n_parameters"] == expected[level]
    if level > 1:
        _, coarse = learn(clone(learner).set_params(level=level - 1), rows, structure)
        assert info["loss"][-1] <= coarse["loss"][-1] * (1 + 1e-6)


def test_level_one_on_naive_bayes_weights_features_alone():
    """WANBIA-CLL: one weight a feature, the class prior as it is."""
    rows = make_rows(3, 200, n_classes=2)
    structure = make_structure(rows, "naive")
    learner = Discriminative(level=1, crossfit=0, fit_prior=False, tol=1e-13)
    context = FitContext()
    problem = Problem.of(learner, structure, Counts(rows, context), FitPlan(context))
    tables, _ = learn(learner, rows, structure)
    terms = problem.base.terms(structure, rows.gather().codes, rows.domain.arities)
    logit = np.log(posterior(tables, structure, rows))
    logit = logit[:, 1] - logit[:, 0]
    prior = problem.base.log_prior[1] - problem.base.log_prior[0]
    weights, error, _, _ = np.linalg.lstsq(
        terms[:, :, 1] - terms[:, :, 0], logit - prior, rcond=None
    )
    assert error.sum() < 1e-15
    assert np.abs(weights - 1).max() > 0.05


def test_shared_weights_reach_unseen_cells():
    rows, new = make_rows(3, 40, (5, 4, 6, 4), 2), make_rows(8, 300, (5, 4, 6, 4), 2)
    structure = make_structure(rows, "tree")
    learner = Discriminative(level=1, l2=1.0)
    tables, _ = learn(learner, rows, structure)
    base, _ = learn(MEstimate(m=1.0), rows, structure)
    terms = base.terms(structure, new.gather().codes, new.domain.arities)
    logit = np.log(posterior(tables, structure, new))
    logit = logit[:, 1] - logit[:, 0]
    differences = np.column_stack([terms[:, :, 1] - terms[:, :, 0], np.ones(300)])
    _, error, _, _ = np.linalg.lstsq(differences, logit, rcond=None)
    assert error.sum() < 1e-15


def test_a_strong_prior_gives_the_generative_tables():
    rows = make_rows(4, 100)
    structure = make_structure(rows, "tree")
    base, _ = learn(MEstimate(m=1.0), rows, structure)
    for form in FORMS:
        tables, _ = learn(Discriminative(form, l2=1e12), rows, structure)
        np.testing.assert_allclose(
            posterior(tables, structure, rows), posterior(base, structure, rows), atol=1e-6
        )


def test_towards_zero_makes_the_posterior_uniform():
    rows = make_rows(4, 100)
    structure = make_structure(rows, "tree")
    for form in ("direct", "weighted"):
        tables, _ = learn(Discriminative(form, l2=1e12, towards="zero"), rows, structure)
        np.testing.assert_allclose(posterior(tables, structure, rows), 1 / 3, atol=1e-6)


def test_generative_gauge_is_kept():
    """Scores determine P(y | x); what they leave open is the generative model's P(x)."""
    rows = make_rows(4, 300, n_classes=2)
    structure = make_structure(rows, "naive")
    base, _ = learn(MEstimate(m=1.0), rows, structure)
    tables, _ = learn(Discriminative("direct", init="zero", l2=1e9), rows, structure)
    np.testing.assert_allclose(
        np.exp(tables.families[0].log_prob), np.exp(base.families[0].log_prob), atol=0.1
    )


@pytest.mark.parametrize("options", [{"form": "direct"}, {"level": 1}, {"l2": "cv"}], ids=str)
def test_chunks_and_threads_do_not_matter(options):
    rows = make_rows(7, 300)
    structure = make_structure(rows, "tree")
    learner = Discriminative(**{"l2": 0.5} | options)
    first, _ = learn(learner, rows, structure)
    again, _ = learn(learner, in_blocks(rows, 32), structure, n_jobs=2)
    for a, b in zip(first.families, again.families, strict=True):
        np.testing.assert_array_equal(a.log_prob, b.log_prob)


@pytest.mark.parametrize("form", FORMS)
def test_weight_two_is_a_repeated_row(form):
    weights = np.random.default_rng(1).integers(1, 4, 80).astype(float)
    heavy = make_rows(5, 80, weights=weights)
    codes, labels, _ = heavy.gather()[:3]
    times = weights.astype(int)
    repeated = Rows.in_memory(
        heavy.domain, np.repeat(codes, times, axis=1), np.repeat(labels, times)
    )
    structure = make_structure(heavy, "tree")
    a, _ = learn(Discriminative(form, l2=0.2), heavy, structure)
    b, _ = learn(Discriminative(form, l2=0.2), repeated, structure)
    np.testing.assert_allclose(
        posterior(a, structure, heavy), posterior(b, structure, heavy), atol=1e-5
    )


def test_crossfit_tables_never_saw_their_rows():
    rows = make_rows(9, 90)
    structure = make_structure(rows, "tree")
    context = FitContext()
    learner = Discriminative(level=1, crossfit=3)
    problem = Problem.of(learner, structure, Counts(rows, context), FitPlan(context))
    seed, n_folds = problem.counts.folds
    folds = folds_of(seed, np.arange(rows.n_rows), n_folds)
    for fold in range(3):
        alone = rows.subset((folds != fold).__getitem__)
        tables, _ = learn(MEstimate(m=1.0), alone, structure)
        np.testing.assert_array_equal(problem.crossfitted[fold], problem.layout.read(tables))
        assert 0 < (folds == fold).sum() < rows.n_rows / 2


def test_strengths_by_cross_validation():
    """Without anything to learn the strongest prior wins; with many rows it does not."""
    rng = np.random.default_rng(0)
    noise = make_rows(1, 150, n_classes=2)
    noise = Rows.in_memory(
        noise.domain, noise.gather().codes, rng.integers(0, 2, 150).astype(np.uint16)
    )
    structure = make_structure(noise, "tree")
    _, info = learn(Discriminative(l2="cv", towards="zero"), noise, structure)
    assert info["l2"] >= 10
    signal = make_rows(1, 3000, n_classes=2)
    learner = Discriminative(level=1, l2="cv", correction="cv", base="hdp")
    _, info = learn(learner, signal, structure)
    assert info["l2"] < 1e4
    assert info["correction"] > 0
    assert info["converged"]


def test_convergence_is_reported():
    rows = make_rows(0, 100)
    structure = make_structure(rows, "tree")
    with pytest.warns(ConvergenceWarning, match="3 iterations"):
        _, info = learn(Discriminative("direct", max_iter=3), rows, structure)
    assert info["iterations"] == 3
    assert not info["converged"]
    assert len(info["loss"]) == len(info["gradient_norm"]) == len(info["objective"]) == 4
    assert info["passes"] >= 4
    assert all(np.diff(info["objective"]) <= 0)
    _, info = learn(Discriminative("direct", l2=1.0, tol=1e-14), rows, structure)
    assert info["converged"]
    assert info["gradient_norm"][-1] < 1e-3


def test_sparse_and_dense_families_agree(monkeypatch):
    rows = make_rows(3, 120)
    structure = make_structure(rows, "immoral")
    dense, _ = learn(Discriminative("direct", l2=0.3), rows, structure)
    monkeypatch.setattr(layout_module, "SMALL_CELLS", 0)
    monkeypatch.setattr(layout_module, "LARGE_CELLS", 0)
    sparse, _ = learn(Discriminative("direct", l2=0.3), rows, structure)
    new = make_rows(77, 500)
    np.testing.assert_allclose(
        posterior(dense, structure, new), posterior(sparse, structure, new), atol=1e-5
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"form": "d"}, "form='d'"),
        ({"level": 5}, "level=5"),
        ({"form": "direct", "level": 2}, "form='weighted'"),
        ({"form": "extended", "correction": 1.0}, "correction=1.0"),
        ({"form": "direct", "crossfit": 5}, "crossfit=5"),
        ({"l2": -1.0}, "l2=-1.0"),
        ({"l2": "auto"}, "l2='auto'"),
        ({"l2": np.inf}, "l2=inf"),
        ({"correction": np.nan}, "correction=nan"),
        ({"crossfit": 1}, "crossfit=1"),
        ({"objective": "auc"}, "objective='auc'"),
        ({"unseen": "zero"}, "unseen='zero'"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"base": "none"}, "'none' isn't valid"),
    ],
)
def test_options_are_checked(options, text):
    rows = make_rows(0, 30)
    with pytest.raises(ConfigurationError, match=text.replace("(", r"\(")):
        learn(Discriminative(**options), rows, make_structure(rows, "naive"))


def test_a_strength_is_any_real_number():
    rows = make_rows(0, 30)
    structure = make_structure(rows, "naive")
    whole, real = (learn(Discriminative(l2=l2), rows, structure)[0] for l2 in (np.int64(2), 2.0))
    np.testing.assert_array_equal(whole.log_prior, real.log_prior)


@pytest.mark.parametrize("name", ["naive", "immoral"])
def test_dfe_agrees_with_plain_loops(name):
    rows = make_rows(12, 80)
    structure = make_structure(rows, name)
    tables, info = learn(DFE(n_passes=3, m=0.5), in_blocks(rows, 9), structure)
    codes, labels, _ = rows.gather()[:3]
    families = [
        (*ps, i) for i, ps in zip(structure.selected, structure.parent_indices, strict=True)
    ]
    arities = rows.domain.arities.tolist()
    prior, counts = oracle.frequency_estimates(codes, labels, 3, families, arities, 3, 0.5)
    expected = (np.array(prior) + 0.5 / 3) / (sum(prior) + 0.5)
    np.testing.assert_allclose(np.exp(tables.log_prior), expected)
    members, table = families[-1], np.exp(tables.families[-1].to_dense().log_prob)
    for row in range(rows.n_rows):
        key = tuple(int(codes[m, row]) for m in members)
        for c in range(3):
            rest = [counts[-1].get(((*key[:-1], x), c), 0.0) for x in range(arities[members[-1]])]
            share = (rest[key[-1]] + 0.5 / len(rest)) / (sum(rest) + 0.5)
            assert table[(*key, c)] == pytest.approx(share)
    assert tables.normalized
    assert info["mean_miss"][-1] < info["mean_miss"][0]


@pytest.mark.parametrize("learner", [DFE(), Discriminative("extended", l2=0.5, tol=1e-2)])
def test_features_of_many_values_give_a_network(learner):
    rng = np.random.default_rng(0)
    X = np.stack([rng.integers(0, arity, 700) for arity in (90, 60, 4)], axis=1).astype(str)
    clf = BayesNetClassifier("kdb(k=2)", learner, categorical_features="all")
    network = clf.fit(X, rng.integers(0, 2, 700)).network_
    assert any(isinstance(table, TreeTable) for table in network.tables.families)
    for table in network.tables.families:
        np.testing.assert_allclose(np.exp(table.to_dense().log_prob).sum(axis=-2), 1.0)


def test_dfe_options_are_checked():
    rows = make_rows(0, 30)
    with pytest.raises(ConfigurationError, match="n_passes=0"):
        learn(DFE(n_passes=0), rows, make_structure(rows, "naive"))


@pytest.mark.parametrize(
    "learner",
    [
        Discriminative(l2=0.1),
        Discriminative("extended", l2=0.1),
        Discriminative(level=1, base="hdp", l2="cv", towards="zero"),
        DFE(),
    ],
    ids=["weighted", "extended", "weights", "dfe"],
)
@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_next_to_nothing_to_learn_from(learner, n_rows):
    labels = (np.arange(n_rows) % 2).astype(np.uint16)
    domain = Domain(("a", "b"), np.array([2, 3]), 2)
    rows = Rows.in_memory(domain, np.zeros((2, n_rows), np.uint8), labels)
    for structure in (
        Structure(("a", "b"), (), ()),
        Structure.from_parents(("a", "b"), [(), (0,)]),
    ):
        tables, _ = learn(learner, rows, structure)
        assert np.isfinite(tables.log_prior).all()
        assert tables.normalized
    alone = Rows.in_memory(Domain(("a", "b"), np.array([2, 3]), 1), rows.gather().codes, labels * 0)
    tables, _ = learn(learner, alone, structure)
    assert tables.log_prior == pytest.approx([0.0])


def test_many_features_of_one_value():
    """A feature whose values were all joined tells nothing, however many there are."""
    few = make_rows(3, 200, n_classes=2)
    codes, labels, _ = few.gather()[:3]
    names = tuple(f"x{i}" for i in range(100))
    domain = Domain(names, np.array([*few.domain.arities, *[1] * 96]), 2)
    many = Rows.in_memory(domain, np.concatenate([codes, np.zeros((96, 200), np.uint8)]), labels)
    wide = Structure.from_parents(names, [()] * 100)
    a, _ = learn(Discriminative("direct", l2=0.1, towards="zero"), many, wide)
    narrow = make_structure(few, "naive")
    b, _ = learn(Discriminative("direct", l2=0.1, towards="zero"), few, narrow)
    np.testing.assert_allclose(posterior(a, wide, many), posterior(b, narrow, few), atol=0.02)


def test_registry():
    assert isinstance(PARAMETERS.resolve("discriminative"), Discriminative)
    assert isinstance(PARAMETERS.resolve("dfe"), DFE)


@pytest.mark.parametrize("optimiser", ["cg", "gradient", "sgd"])
@pytest.mark.parametrize(
    "options",
    [
        {"form": "direct", "crossfit": 0},
        {"form": "weighted", "level": 1, "crossfit": 0},
        {"form": "weighted", "level": 2, "crossfit": 5},
    ],
)
def test_every_optimiser_reaches_the_same_minimum(optimiser, options):
    rows = make_rows(3, 200)
    structure = make_structure(rows, "tree")
    known = {**options, "l2": 1.0}
    _, best = learn(Discriminative(**known, tol=1e-12), rows, structure)
    tol = 1e-8 if optimiser == "sgd" else 1e-12
    _, found = learn(Discriminative(**known, optimiser=optimiser, tol=tol), rows, structure)
    assert found["converged"]
    near = 1e-5 if optimiser == "sgd" else 1e-6
    assert found["objective"][-1] == pytest.approx(best["objective"][-1], rel=near)
    assert (np.diff(found["objective"]) <= 0).all()
    assert len(found["objective"]) == found["iterations"] + 1


def test_the_batches_of_stochastic_descent_sum_to_the_objective():
    rows = make_rows(3, 200)
    options = Discriminative("direct", l2=1.0, optimiser="sgd")
    plan = FitPlan(FitContext())
    problem = Problem.of(options, make_structure(rows, "tree"), Counts(rows, plan.context), plan)
    form, sets = problem.final()
    free = np.random.default_rng(0).normal(size=form.n_free)
    whole = problem.objective(form, sets, Strengths(1.0))(free)
    parts = [problem.objective(form, sets, Strengths(1.0), b)(free) for b in range(50)]
    assert sum(value for value, _ in parts) == pytest.approx(whole[0])
    np.testing.assert_allclose(sum(slope for _, slope in parts), whole[1], atol=1e-9)
    assert len({round(value, 6) for value, _ in parts}) > 20


def test_steps_along_the_gradient_end_with_their_budget():
    rows = make_rows(3, 200)
    learner = Discriminative(optimiser="gradient", max_iter=20, tol=0.0)
    with pytest.warns(UserWarning, match="did not converge in 20"):
        _, info = learn(learner, rows, make_structure(rows, "tree"))
    assert info["iterations"] == 20
    assert info["objective"][-1] < info["objective"][0]
