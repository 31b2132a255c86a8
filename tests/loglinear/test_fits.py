"""Additive scores: their basis, their derivatives and their optimum, against slow twins."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.linear_model import LogisticRegression

from tanager.codes import Domain, Rows
from tanager.codes.hashing import Fold
from tanager.engines import FitContext, LocalEngine
from tanager.loglinear import fits, joining
from tanager.loglinear.cells import Terms, by_class
from tanager.loglinear.curves import SMOOTHNESS, Slant, align, basis
from tanager.loglinear.fits import Fit, Settings, cell_precisions, fit_scores, relative_precisions
from tanager.loglinear.joining import Columns
from tanager.loglinear.optimiser import minimise
from tanager.loglinear.rows import LocatedTerms

EXACT = Settings(max_iter=2000, tol=1e-14)
FAMILIES = [(0,), (1,), (2,), (0, 1), (2, 1), (1, 0, 2)]
DOMAIN = Domain(("a", "b", "c"), np.array([3, 6, 4]), 3, (0, 5, 4))


def make_problem(n_classes: int, seed: int = 0, n_rows: int = 120):
    """Three features, two of them ordered, one with a value that does not stand in the order."""
    generator = np.random.default_rng(seed)
    codes = np.stack([generator.integers(0, a, n_rows) for a in DOMAIN.arities]).astype(np.uint8)
    labels = generator.integers(0, n_classes, n_rows).astype(np.uint16)
    return replace(DOMAIN, n_classes=n_classes), codes, labels


def make_terms(
    domain, codes, labels, families=FAMILIES, weights=None, fold=None, slants=(), **options
):
    """Return terms and located rows; options are those of `Rows.in_memory`."""
    rows = Rows.in_memory(domain, codes, labels, weights, **options)
    terms = Terms(families, Columns.of(domain), rows, FitContext(), slants=slants)
    return terms, LocatedTerms(terms, rows, FitContext(engine=LocalEngine(2)), fold)


def shares_of(labels, n_classes):
    return np.bincount(labels, minlength=n_classes) / len(labels)


@pytest.fixture(params=[False, True], ids=["each for itself", "joined"])
def joined(request, monkeypatch):
    """Whether families share look-ups, as they do where rows are many."""
    monkeypatch.setattr(joining, "FEWEST_ROWS", 0 if request.param else 1000)
    monkeypatch.setattr(joining, "ROWS_PER_VALUE", 0.001)
    return request.param


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


@pytest.mark.parametrize("n_classes", [2, 3, 11])
@pytest.mark.parametrize("weighted", [False, True])
def test_loss_and_slopes_are_those_of_the_definition(n_classes, weighted, joined):
    domain, codes, labels = make_problem(n_classes)
    codes[0, :5] = 3  # unknown
    generator = np.random.default_rng(1)
    weights = generator.integers(1, 9, len(labels)) / 4 if weighted else None
    left_out = Fold(7, 3, 1)
    terms, rows = make_terms(
        domain, codes, labels, weights=weights, fold=replace(left_out, inside=False)
    )
    assert (terms.joint.n_cells != terms.n_cells) == joined
    free = generator.normal(size=(terms.n_cells, terms.n_columns))
    free[terms.blank] = 0.0
    loss, slopes = rows.evaluate(free)
    each = np.where(left_out(np.arange(len(labels))), 0.0, 1.0 if weights is None else weights)

    def total(free):
        scores = terms.scores(free)
        out = by_class(scores[:1]).repeat(len(labels), axis=0)
        for family, table in zip(FAMILIES, terms.family_scores(scores), strict=True):
            known = (codes[list(family)] < domain.arities[list(family)][:, None]).all(axis=0)
            out[known] += table[tuple(codes[list(family)][:, known])]
        return out

    def slow(free):
        return -(each * np.log(softmax(total(free))[np.arange(len(labels)), labels])).sum()

    assert loss == pytest.approx(slow(free), rel=1e-9)
    for cell in range(0, terms.n_cells, 7):
        step = np.zeros_like(free)
        step[cell, 0] = 1e-5 * (cell not in terms.blank)
        numeric = (slow(free + step) - slow(free - step)) / 2e-5
        assert slopes[cell, 0] == pytest.approx(numeric, abs=1e-5)
    np.testing.assert_allclose(softmax(rows.log_joint(free)), softmax(total(free)), atol=1e-12)
    held = left_out(np.arange(len(labels)))
    found = rows.log_joint(free, left_out=True)
    np.testing.assert_array_equal(found, rows.log_joint(free)[held])


def test_sums_are_the_same_bits_in_any_chunking_and_on_any_threads(joined):
    domain, codes, labels = make_problem(3)
    weights = np.random.default_rng(1).integers(1, 1000, len(labels)) / 64
    given = np.arange(len(labels))
    first, second, third = (
        make_terms(domain, codes[:, order], labels[order], weights=weights[order], block_rows=size)
        for order, size in ((given, 1000), (given, 7), (given[::-1].copy(), 11))
    )
    free = np.random.default_rng(2).normal(size=(first[0].n_cells, 3))
    loss, slopes = first[1].evaluate(free)
    for terms, rows in (second, third):
        assert terms.n_cells == first[0].n_cells
        other_loss, other_slopes = rows.evaluate(free)
        assert other_loss == loss
        np.testing.assert_array_equal(other_slopes, slopes)


def test_a_pair_with_a_category_is_smooth_along_the_other_side():
    domain, codes, labels = make_problem(3)
    terms, rows = make_terms(domain, codes, labels, [(0, 1)])
    arity = int(domain.arities[0])
    free = np.zeros((terms.n_cells, 3))
    parameters = np.random.default_rng(2).normal(size=(arity * 6, 3))
    cells = terms.cells(0).ravel()
    free[cells] = parameters
    second = align(basis(6, 5), np.bincount(codes[1], minlength=6).astype(float))
    expected = np.kron(np.eye(arity), second) @ parameters
    (table,) = terms.family_scores(terms.scores(free))
    np.testing.assert_allclose(table.reshape(-1, 3), expected, atol=1e-12)
    read = expected.reshape(arity, 6, 3)[codes[0], codes[1]]
    np.testing.assert_allclose(rows.log_joint(free), read, atol=1e-12)


def test_a_pair_of_ordered_features_has_a_basis_along_either_side():
    domain, codes, labels = make_problem(3)
    terms, rows = make_terms(domain, codes, labels, [(2, 1)])
    free = np.zeros((terms.n_cells, 3))
    parameters = np.random.default_rng(2).normal(size=(4 * 6, 3))
    cells = terms.cells(0).ravel()
    free[cells] = parameters
    first = align(basis(4, 4), np.bincount(codes[2], minlength=4).astype(float))
    second = align(basis(6, 5), np.bincount(codes[1], minlength=6).astype(float))
    expected = np.kron(first, second) @ parameters
    (table,) = terms.family_scores(terms.scores(free))
    np.testing.assert_allclose(table.reshape(-1, 3), expected, atol=1e-12)
    read = expected.reshape(4, 6, 3)[codes[2], codes[1]]
    np.testing.assert_allclose(rows.log_joint(free), read, atol=1e-12)
    unknown = Rows.in_memory(domain, np.array([[0], [6], [1]], np.uint8), labels[:1])
    place, _ = terms.joint.places.locate(unknown.gather().codes)
    assert not terms.scores(free)[terms.starts[0] + place].any()


@pytest.mark.parametrize(
    "mass", [[1.0] * 6, [90.0, 3.0, 0.0, 0.0, 6.0, 1.0]], ids=["even", "heavy"]
)
def test_an_aligned_basis_has_the_same_prior(mass):
    given = basis(6, 5)
    turned = align(given, np.array(mass))
    np.testing.assert_allclose(turned @ turned.T, given @ given.T, atol=1e-12)


def test_pull_is_the_transpose_of_expand(joined):
    domain, codes, labels = make_problem(3)
    terms, _ = make_terms(domain, codes, labels)
    generator = np.random.default_rng(2)
    free = generator.normal(size=(terms.n_cells, 3))
    slopes = generator.normal(size=(terms.joint.n_cells, 3))
    free[terms.blank] = 0.0
    left = float((terms.expand(free) * slopes).sum())
    right = float((free * terms.pull(slopes.copy())).sum())
    assert left == pytest.approx(right, rel=1e-12)


@pytest.mark.parametrize("weights", [(1, 1), (1, -1), (2, 1), (1, -2)])
def test_a_slanted_pair_has_one_curve_along_sums(weights, joined):
    domain, codes, labels = make_problem(3, n_rows=400)
    numbers = np.array([0.0, 1.0, 3.0, 4.0]), np.array([0.0, 1.0, 2.0, 5.0, 9.0])
    slant = Slant(tuple(weights[0] * numbers[0]), tuple(weights[1] * numbers[1]))
    families, slants = [(1,), (2, 1), (2, 1)], [None, None, slant]
    terms, rows = make_terms(domain, codes, labels, families, slants=slants)
    generator = np.random.default_rng(1)
    free = generator.normal(size=(terms.n_cells, terms.n_columns))
    slopes = generator.normal(size=terms.expand(free).shape)
    pulled = float((terms.pull(slopes.copy()) * free).sum())
    free[terms.blank] = 0.0  # no parameters
    assert float((slopes * terms.expand(free)).sum()) == pytest.approx(pulled)
    slanted = terms.family_scores(terms.scores(free))[2]
    # The value of b outside its order, the last of six, is nowhere along the slant.
    np.testing.assert_array_equal(slanted[:, 5], 0.0)
    sums = weights[0] * numbers[0][codes[2]] + weights[1] * np.append(numbers[1], 0)[codes[1]]
    known = codes[1] < 5
    bins = np.zeros((4, 5), int)
    for x, z in np.ndindex(4, 5):  # the share of rows before a sum, and half of those that have it
        own = weights[0] * numbers[0][x] + weights[1] * numbers[1][z]
        before = (sums < own)[known].sum() + 0.5 * (sums == own)[known].sum()
        bins[x, z] = int(8 * before / known.sum())
    for one in np.unique(bins):
        here = slanted[:, :5][bins == one]
        np.testing.assert_array_equal(here, np.tile(here[:1], (len(here), 1)))
    assert len(np.unique(slanted[:, :5, 0])) == len(np.unique(bins))
    asked = rows.log_joint(free)
    parts = terms.family_scores(terms.scores(free))
    told = parts[0][codes[1]] + parts[1][codes[2], codes[1]] + parts[2][codes[2], codes[1]]
    told = told + by_class(terms.scores(free)[:1])
    np.testing.assert_allclose(
        asked - asked.mean(1, keepdims=True), told - told.mean(1, keepdims=True)
    )


def test_parameters_are_carried_to_deeper_terms(joined):
    domain, codes, labels = make_problem(3)
    shallow, _ = make_terms(domain, codes, labels, FAMILIES[:3])
    deep, rows = make_terms(domain, codes, labels, [(1, 0, 2), *FAMILIES[:3]])
    free = np.random.default_rng(2).normal(size=(shallow.n_cells, 3))
    free[shallow.blank] = 0.0
    _, alone = make_terms(domain, codes, labels, FAMILIES[:3])
    found = rows.log_joint(deep.carry(free, shallow))
    np.testing.assert_allclose(found, alone.log_joint(free), atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_optimum_of_free_scores_is_that_of_logistic_regression(n_classes, joined):
    domain, codes, labels = make_problem(n_classes)
    domain = replace(domain, n_ordered=(0, 0, 0))
    terms, rows = make_terms(domain, codes, labels, FAMILIES[:3])
    fit = fit_scores(terms, rows, [2.0], shares_of(labels, n_classes), settings=EXACT)
    one_hot = np.concatenate([np.eye(a)[c] for a, c in zip(domain.arities, codes, strict=True)], 1)
    # Two classes have one vector of coefficients, the difference of two with half the prior.
    strength = 1.0 if n_classes == 2 else 2.0
    peer = LogisticRegression(C=1 / strength, tol=1e-10, max_iter=5000).fit(one_hot, labels)
    found = softmax(rows.log_joint(fit.free))
    np.testing.assert_allclose(found, peer.predict_proba(one_hot), atol=2e-4)


def test_a_row_of_weight_two_is_two_rows():
    domain, codes, labels = make_problem(3)
    weights = np.ones(len(labels))
    weights[:30] = 2.0
    twice = np.concatenate([np.arange(30), np.arange(len(labels))])
    shares, strengths = shares_of(labels, 3), [1.0, 2.0, 3.0]
    said = []
    for given in (codes, labels, FAMILIES, weights), (codes[:, twice], labels[twice]):
        terms, rows = make_terms(domain, *given)
        fit = fit_scores(terms, rows, strengths, shares, settings=EXACT)
        said.append(softmax(rows.log_joint(fit.free))[-len(labels) :])
    np.testing.assert_allclose(said[0], said[1], atol=1e-5)


def test_relative_precisions_are_those_of_the_greatest_evidence(monkeypatch):
    """Of three families of independent normal parameters, by maximising their evidence directly."""
    monkeypatch.setattr(fits, "FAMILY_PRIOR", 0.0)
    n, generator, shares = 40, np.random.default_rng(5), np.array([0.5, 0.5])
    mass = np.append(1.0, generator.uniform(50, 200, 3 * n))
    terms = SimpleNamespace(
        families=((0,), (1,), (2,)),
        owners=np.append(-1, np.repeat(np.arange(3), n)),
        n_parents=np.zeros(3, np.int64),
        depths=np.append(-1, np.zeros(3 * n, np.int64)),
        n_columns=1,
        parameter_mass=mass,
    )
    steep = (0.5 * mass * (0.25 + 0.01))[1:].reshape(3, n)
    sizes = np.array([0.2, 1.0, 3.0])[:, None]  # standard deviations of the true parameters
    seen = generator.normal(0, np.sqrt(sizes**2 + 1 / steep))

    def evidence(precision, at):
        spread = 1 / precision + 1 / steep[at]
        return 0.5 * float((np.log(spread) + seen[at] ** 2 / spread).sum())

    def best(at):
        found = minimize_scalar(lambda p: evidence(np.exp(p), at), bounds=(-6, 8), method="bounded")
        return float(np.exp(found.x))

    wanted = np.array([best(at) for at in range(3)])
    strengths, relative = [2 * np.median(wanted)], np.ones(3)  # a single column has half of it
    for _ in range(200):
        own = cell_precisions(terms, strengths, relative)[1:].reshape(3, n)
        free = np.append(0.0, steep * seen / (steep + own))[:, None]
        fit = Fit(free, 0.0, 0, True)
        relative = relative_precisions(terms, fit, strengths, shares, relative)
    np.testing.assert_allclose(relative, wanted / np.median(wanted), rtol=1e-3)


def test_a_family_of_noise_gets_a_stronger_prior_than_one_that_tells():
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 8, (3, 300)).astype(np.uint8)
    labels = (generator.random(300) < 0.05 + 0.45 * (codes[1:] % 2).sum(0)).astype(np.uint16)
    domain = Domain(("a", "b", "c"), np.array([8, 8, 8]), 2, (0, 0, 8))
    terms, rows = make_terms(domain, codes, labels, [(0,), (1,), (2,)])
    shares = shares_of(labels, 2)
    alike = fit_scores(terms, rows, [1.0], shares, settings=EXACT)
    fit = fit_scores(terms, rows, [1.0], shares, settings=EXACT, adapt=True)
    assert fit.relative[0] > 2 * max(fit.relative[1:])
    sizes = [np.abs(one.free).max(axis=1) for one in (alike, fit)]
    told = [np.abs(size[terms.cells(1)]).max() for size in sizes]
    noise = [np.abs(size[terms.cells(0)]).max() for size in sizes]
    assert noise[1] / told[1] < 0.9 * noise[0] / told[0]
    assert alike.relative is None


def test_neighbours_speak_for_an_ordered_value_without_rows():
    codes = np.array([[0, 1, 2, 4, 5, 6] * 20], np.uint8)
    labels = np.array([0, 0, 0, 1, 1, 1] * 20, np.uint16)
    domain = Domain(("x",), np.array([7]), 2, (7,))
    terms, rows = make_terms(domain, codes, labels, [(0,)])
    fit = fit_scores(terms, rows, [0.1], shares_of(labels, 2), settings=EXACT)
    (curve,) = terms.family_scores(terms.scores(fit.free))
    steps = np.diff(curve[:, 1] - curve[:, 0])
    assert (steps[1:5] > 0).all()


def test_joint_values_without_rows_add_nothing():
    domain, codes, labels = make_problem(3)
    seen = codes[:, :4]
    terms, _ = make_terms(domain, seen, labels[:4], [(1, 0, 2)])
    scores = np.arange(terms.n_cells * 3.0).reshape(-1, 3)
    scores[terms.blank] = 0.0
    (table,) = terms.family_scores(scores)
    rows = {tuple(row) for row in seen[[1, 0, 2]].T.tolist()}
    for joint in np.ndindex(table.shape[:-1]):
        assert (joint in rows) == bool(table[joint].any())


def test_the_optimiser_finds_the_minimum_of_a_convex_function():
    generator = np.random.default_rng(4)
    matrix = generator.normal(size=(40, 12))
    goal = generator.normal(size=40)

    def objective(x):
        away = matrix @ x - goal
        far = np.sqrt(1.0 + away * away)
        return float(far.sum()), matrix.T @ (away / far)

    found = minimise(objective, np.zeros(12), max_iter=500, tol=0.0)
    assert found.converged
    assert np.abs(objective(found.at)[1]).max() < 1e-5
    assert minimise(objective, np.zeros(12), max_iter=2, tol=0.0).iterations == 2


def test_a_short_step_that_gains_little_is_no_minimum():
    def objective(x):
        return 1.0 + float(x @ x), 2 * x

    found = minimise(objective, np.ones(3), max_iter=50, tol=1e-3, first_step=1e-6)
    assert found.converged
    assert np.abs(found.at).max() < 0.05


def test_a_descent_goes_on_from_the_curvature_of_another():
    generator = np.random.default_rng(5)
    bends = np.exp(generator.normal(size=60) * 2)

    def objective(x):
        return float((bends * x * x).sum()) / 2, bends * x

    start = generator.normal(size=60)
    first = minimise(objective, start, max_iter=12, tol=0.0)
    assert first.curvature.steps.shape == (10, 60)
    np.testing.assert_allclose(first.curvature.changes, bends * first.curvature.steps)
    told = minimise(objective, first.at, max_iter=8, tol=0.0, curvature=first.curvature)
    whole = minimise(objective, start, max_iter=20, tol=0.0)
    np.testing.assert_allclose(told.at, whole.at, rtol=1e-9)  # as if it had never stopped


def test_what_a_fit_knows_of_the_loss_holds_for_other_strengths():
    domain, codes, labels = make_problem(3)
    terms, rows = make_terms(domain, codes, labels, FAMILIES)
    shares, few = shares_of(labels, 3), Settings(12, 0.0)
    fit = fit_scores(terms, rows, [1.0, 1.0, 1.0], shares, settings=few)
    # Of the loss alone: without a prior, by the parameters as they are.
    given = np.zeros((terms.n_cells, 1)), np.ones(fit.free.shape)
    steps, changes = fit.curvature.under(*given).in_order()
    before = rows.evaluate(fit.free - steps[-1].reshape(fit.free.shape))[1].ravel()
    after = rows.evaluate(fit.free)[1].ravel()  # the last step ended here
    np.testing.assert_allclose(changes[-1], after - before, atol=1e-7)
    others = [10.0, 3.0, 0.1]
    exact = fit_scores(terms, rows, others, shares, settings=EXACT)
    near = fit_scores(terms, rows, others, shares, start=fit, settings=EXACT)
    np.testing.assert_allclose(near.objective, exact.objective, rtol=1e-9)


def test_a_descent_that_cannot_go_on_has_not_converged():
    def descend(objective, tol=1e-6):
        return minimise(objective, np.ones(2), max_iter=9, tol=tol)

    wrong = descend(lambda x: (float(x @ x), -2 * x))
    assert (wrong.value, wrong.iterations, wrong.converged) == (2.0, 0, False)
    lost = descend(lambda x: (float(x @ x), np.full(2, np.nan)))
    assert (lost.value, lost.iterations, lost.converged) == (2.0, 0, False)
    for value in (np.nan, np.inf):
        assert not descend(lambda x, value=value: (value, 0 * x)).converged


@pytest.mark.parametrize("far", [0.0, 1e-7])
def test_a_descent_that_starts_at_the_minimum_has_converged(far):
    """Where the value no longer tells two points apart, no step is found to be better."""

    def objective(x):
        away = x - 1.0 - far
        return 1e6 + float(away @ away), 2 * away

    found = minimise(objective, np.ones(2), max_iter=9, tol=0.0)
    assert found.converged
    assert found.iterations <= 1
