"""Training rows with gaps, against EM by enumeration and against the truth."""

from __future__ import annotations

import numpy as np
import pytest

from tanager import BayesNetClassifier, native
from tanager.classifiers import gaps
from tanager.classifiers.gaps import complete_rows, expect_and_maximise
from tanager.codes import Domain, Rows
from tanager.codes.rows import exact_weights
from tanager.counts import Counts
from tanager.engines import FitContext, LocalEngine
from tanager.errors import ApproximationWarning
from tanager.parameters import (
    HDP,
    ACLLParameters,
    Friedman,
    Laplace,
    MaximumLikelihood,
    MEstimate,
)
from tanager.parameters.unknown import Unknown
from tanager.structure import FitPlan, Fixed, Structure
from tests.oracles import em

STRUCTURES = {
    "naive": [(), (), (), ()],
    "tree": [(), (0,), (0,), (1,)],
    "two parents": [(), (0,), (1, 0), (2, 1)],
    "immoral": [(), (), (0, 1), (2, 0)],
}
LEARNERS = [
    MaximumLikelihood(),
    Laplace(),
    MEstimate(m=1.0),
    Friedman(),
    HDP(),
    ACLLParameters(),
]
MECHANISMS = ["at random", "by the class and a known column", "where a column says so"]


def make(parents, mechanism="at random", seed=0, n_rows=80):
    """Return a structure and rows of a random network with gaps."""
    rng = np.random.default_rng(seed)
    arities = np.array([2, 3, 2, 3])
    labels = rng.integers(0, 2, n_rows).astype(np.uint16)
    codes = np.zeros((4, n_rows), np.uint8)
    for feature, held in enumerate(parents):
        table = rng.dirichlet(np.ones(arities[feature]), (2, *(arities[p] for p in held)))
        chances = table[(labels, *(codes[p] for p in held))]
        codes[feature] = (rng.random(n_rows)[:, None] > chances.cumsum(1)[:, :-1]).sum(axis=1)
    if mechanism == "at random":
        gaps = rng.random(codes.shape) < 0.3
    elif mechanism == "where a column says so":
        gaps = np.zeros(codes.shape, bool)
        gaps[1:3] = codes[3] == 1
    else:
        gaps = np.zeros(codes.shape, bool)
        gaps[0] = rng.random(n_rows) < np.where((codes[3] == 1) | (labels == 1), 0.7, 0.1)
    codes = np.where(gaps, arities[:, None], codes).astype(np.uint8)
    weights = rng.integers(1, 4, n_rows) / 2.0
    names = tuple("abcd")
    return Structure.from_parents(names, parents), Domain(names, arities, 2), codes, labels, weights


def context_of(n_jobs=1):
    return FitContext(engine=LocalEngine(n_jobs))


def dense(tables):
    return [np.exp(table.to_dense().log_prob) for table in tables.families]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
@pytest.mark.parametrize("parents", STRUCTURES.values(), ids=STRUCTURES)
def test_em_is_that_of_enumeration(parents, learner, mechanism):
    structure, domain, codes, labels, weights = make(parents, mechanism)
    counts = Counts(Rows.in_memory(domain, codes, labels, weights), context_of())
    got, expected, record = expect_and_maximise(
        learner, structure, counts, FitPlan(context_of()), rounds=3, tol=-1.0
    )
    by = learner if learner.generative else HDP()
    tables, trace = em.maximise(by, structure, domain, codes, labels, weights, 3)
    if by is not learner:
        rows, filled, shares, _ = em.expectation(
            em.maximise(by, structure, domain, codes, labels, weights, 2)[0],
            *(structure, domain.arities, codes, labels, weights),
        )
        completed = Counts(Rows.in_memory(domain, filled, labels[rows], shares), context_of())
        tables = learner.learn(structure, completed, FitPlan(context_of()))
    assert record["rounds"] == 3
    assert record["log_likelihood"][:3] == pytest.approx(trace, rel=1e-9)
    for mine, theirs in zip(dense(got), dense(tables), strict=True):
        assert mine == pytest.approx(theirs, rel=2e-4, abs=1e-6)
    assert sum(tree.total for tree in expected.trees(structure)) == pytest.approx(4 * weights.sum())


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("seed", range(4))
def test_the_log_likelihood_of_frequencies_never_falls(mechanism, seed):
    for parents in STRUCTURES.values():
        structure, domain, codes, labels, weights = make(parents, mechanism, seed, 300)
        counts = Counts(Rows.in_memory(domain, codes, labels, weights), context_of())
        learner = MaximumLikelihood(epsilon=1e-12)
        record = expect_and_maximise(learner, structure, counts, FitPlan(context_of()))[2]
        assert (np.diff(record["log_likelihood"]) > -1e-6).all()


def test_draws_are_as_frequent_as_they_are_likely():
    structure, domain, codes, labels, _ = make(STRUCTURES["immoral"], n_rows=200)
    counts = Counts(Rows.in_memory(domain, codes, labels), context_of())
    tables = Laplace().learn(structure, counts, FitPlan(context_of()))
    unknown = Unknown(structure, tables, domain.arities)
    chunk = counts.rows.gather()
    source, drawn = unknown.draw(chunk, 512, seed=3)
    rows, filled, shares, _ = em.expectation(
        tables, structure, domain.arities, codes, labels, np.ones(200)
    )
    radix = np.array([1, 2, 6, 12])
    for r in np.flatnonzero((codes >= domain.arities[:, None]).any(axis=0)):
        wanted = np.zeros(36)
        wanted[radix @ filled[:, rows == r]] = shares[rows == r]
        got = np.bincount(radix @ drawn[:, source == r], minlength=36) / 512
        # Evenly spaced numbers: each completion has its share to within two draws.
        assert np.abs(got - wanted).max() <= 2 / 512
    assert (
        np.bincount(source) == np.where((codes >= domain.arities[:, None]).any(0), 512, 1)
    ).all()


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("parents", STRUCTURES.values(), ids=STRUCTURES)
def test_rows_that_are_alike_are_summed_once_and_count_as_each_on_its_own(
    parents, mechanism, monkeypatch
):
    structure, domain, codes, labels, weights = make(parents, mechanism, n_rows=400)
    weights = exact_weights(weights / 3, weights.sum())
    plan = FitPlan(context_of())
    rows = Rows.in_memory(domain, codes, labels, weights)
    counts = Counts(rows, plan.context)
    tables = Laplace().learn(structure, counts, plan)
    summed, found = [], native.sum_unknown
    monkeypatch.setattr(
        native, "sum_unknown", lambda *args: (summed.append(len(args[1]) - 1), found(*args))
    )
    alike, log_likelihood, _ = gaps.add_expected(counts, structure, tables)
    n_alike, summed[:] = sum(summed), []
    single = Counts(Rows.in_memory(domain, codes, labels, weights, block_rows=1), plan.context)
    apart, each_alone, _ = gaps.add_expected(single, structure, tables)
    assert n_alike < sum(summed) / 2
    assert log_likelihood == each_alone
    for mine, theirs in zip(alike.trees(structure), apart.trees(structure), strict=True):
        assert np.array_equal(mine.cell_count, theirs.cell_count)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("parents", STRUCTURES.values(), ids=STRUCTURES)
def test_rows_that_are_alike_are_summed_once_and_drawn_like_each_on_its_own(
    parents, mechanism, monkeypatch
):
    structure, domain, codes, labels, _ = make(parents, mechanism, n_rows=400)
    counts = Counts(Rows.in_memory(domain, codes, labels), context_of())
    tables = Laplace().learn(structure, counts, FitPlan(context_of()))
    summed, found = [], native.sum_unknown
    monkeypatch.setattr(
        native, "sum_unknown", lambda *args: (summed.append(len(args[1]) - 1), found(*args))
    )
    unknown = Unknown(structure, tables, domain.arities)
    source, drawn = unknown.draw(counts.rows.gather(), 4, seed=3)
    assert sum(summed) < (codes >= domain.arities[:, None]).any(axis=0).sum() / 2
    single = Rows.in_memory(domain, codes, labels, block_rows=1)
    alone = [unknown.draw(chunk, 4, seed=3)[1] for chunk in single.chunks()]
    assert np.array_equal(drawn, np.hstack(alone))
    assert np.array_equal(np.bincount(source), [one.shape[1] for one in alone])
    assert (drawn < domain.arities[:, None]).all()


@pytest.mark.parametrize("parents", STRUCTURES.values(), ids=STRUCTURES)
def test_threads_and_chunks_change_no_bit(parents):
    structure, domain, codes, labels, weights = make(parents, n_rows=60)
    found = []
    for block_rows, n_jobs in [(1000, 1), (7, 1), (13, 3)]:
        rows = Rows.in_memory(domain, codes, labels, weights, block_rows)
        plan = FitPlan(context_of(n_jobs))
        counts = Counts(rows, plan.context)
        tables, _, record = expect_and_maximise(HDP(), structure, counts, plan)
        completed = complete_rows(counts, plan).gather()
        found.append(
            [*dense(tables), np.array(record["log_likelihood"]), *completed[:3], completed.indices]
        )
    for other in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], other, strict=True))


def test_completed_rows_keep_what_is_known_and_share_the_weight():
    _, domain, codes, labels, weights = make(STRUCTURES["tree"])
    plan = FitPlan(context_of())
    counts = Counts(Rows.in_memory(domain, codes, labels, weights), plan.context)
    done = complete_rows(counts, plan).gather()
    known = codes[:, done.indices] < domain.arities[:, None]
    assert (done.codes < domain.arities[:, None]).all()
    assert (done.codes == codes[:, done.indices])[known].all()
    assert (done.labels == labels[done.indices]).all()
    assert np.bincount(done.indices, done.weights) == pytest.approx(weights)
    record = plan.context.info["gaps"]
    assert (record["draws"], record["completed_rows"]) == (4, done.n_rows)


def test_rows_that_judge_are_completed_without_their_class():
    structure, domain, codes, labels, weights = make(STRUCTURES["tree"])
    plan = FitPlan(context_of())
    rows = Rows.in_memory(domain, codes, labels, weights)
    tables = Laplace().learn(structure, Counts(rows, plan.context), plan)
    unknown = Unknown(structure, tables, domain.arities)
    groups = tuple(np.arange(a, dtype=np.uint16) for a in domain.arities)
    complete = gaps._Completion(unknown, groups, (None,) * 4, 5, 4, weights.sum(), blind=True)
    flipped = Rows.in_memory(domain, codes, 1 - labels, weights)
    one, other = (complete.rows(some, plan.context).gather() for some in (rows, flipped))
    assert np.array_equal(one.codes, other.codes)
    assert np.array_equal(one.labels, 1 - other.labels)
    assert np.array_equal(one.labels, labels[one.indices])


def test_rows_too_entangled_are_left_out_with_a_warning(monkeypatch):
    structure, domain, codes, labels, weights = make(STRUCTURES["two parents"])
    monkeypatch.setattr(Unknown, "max_cells", 4)
    monkeypatch.setattr(Unknown.__init__, "__defaults__", (4,))
    plan = FitPlan(context_of())
    counts = Counts(Rows.in_memory(domain, codes, labels, weights), plan.context)
    with pytest.warns(ApproximationWarning, match=r"\d+ training rows lack so many features"):
        tables, expected, _ = expect_and_maximise(Laplace(), structure, counts, plan)
    assert all(np.isfinite(table).all() for table in dense(tables))
    assert expected.trees(structure)[0].total < weights.sum()


# The truth of made tables. Seven rows in eight of the rare class are measured, half of the others.


def laboratory(n_rows=2_000):
    rng = np.random.default_rng(0)
    rare = rng.random(n_rows) < 0.08
    measured = rng.random(n_rows) < np.where(rare, 7 / 8, 0.5)
    lab = np.where(measured, rng.normal(2.0 * rare, 1.0), np.nan)
    other = rng.normal(size=n_rows)
    return np.column_stack([measured, lab, other]), rare, rare[~measured].mean()


@pytest.mark.parametrize(
    ("structure", "parameters"),
    [
        *(("auto", "layered"), ("ktree", "hdp"), ("skdb", "hdp"), ("tan", "m-estimate")),
        *(("kdb", "laplace"), ("tan", "discriminative"), ("kdb", "ml")),
    ],
)
def test_a_column_missing_where_another_says_so_tells_nothing_more(structure, parameters):
    X, y, share = laboratory()
    clf = BayesNetClassifier(structure, parameters, missing="marginalize").fit(X, y)
    said = clf.predict_proba([[0.0, np.nan, np.nan]])[0, 1]
    assert said == pytest.approx(share, abs=0.006)


@pytest.mark.parametrize("parameters", ["hdp", "ml", "laplace", "m-estimate", "layered", "dfe"])
def test_values_missing_by_another_columns_value_keep_the_marginals(parameters):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 3_000)
    a = rng.random(3_000) < np.where(y, 0.8, 0.2)
    b = rng.random(3_000) < np.where(a, 0.9, 0.1)
    gap = b & (rng.random(3_000) < 0.8)
    X = np.column_stack([np.where(gap, None, a.astype(str)), b.astype(str)])
    clf = BayesNetClassifier("tan", parameters, missing="marginalize").fit(X, y)
    for name, column, tol in (("x1", b, 0.004), ("x0", a, 0.03)):
        said = clf.network_.query(name).to_dict()
        share = said["probabilities"][said["values"][0].index("True")]
        assert share == pytest.approx(column.mean(), abs=tol)


def test_the_record_says_how_em_went():
    X, y, _ = laboratory(400)
    info = BayesNetClassifier("tan", "hdp", missing="marginalize").fit(X, y).info_
    record = info["parameters"]["em"]
    assert record["converged"]
    assert len(record["log_likelihood"]) == record["rounds"] + 1
    assert "gaps" not in BayesNetClassifier("tan", "hdp").fit(X, y).info_


@pytest.mark.parametrize("parameters", ["hdp", "layered"])
def test_without_gaps_both_policies_learn_the_same(parameters):
    X, y, _ = laboratory(300)
    X = np.nan_to_num(X)
    one, other = (
        BayesNetClassifier("tan", parameters, missing=missing).fit(X, y)
        for missing in ("value", "marginalize")
    )
    assert np.array_equal(one.predict_proba(X), other.predict_proba(X))


def test_a_weight_of_two_is_a_row_twice():
    X, y, _ = laboratory(300)
    structure = Fixed({"x0": (), "x1": ("x0",), "x2": ("x1",)})
    weights = np.arange(300) % 3
    whole = BayesNetClassifier(structure, "hdp", missing="marginalize", bins=3)
    once = whole.fit(X, y, sample_weight=weights).predict_proba(X)
    again = whole.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights)).predict_proba(X)
    assert once == pytest.approx(again, rel=1e-4)


def test_more_rows_with_gaps_are_counted_as_the_network_expects_them():
    X, y, share = laboratory()
    clf = BayesNetClassifier("tan", "hdp", missing="marginalize").fit(X[:1000], y[:1000])
    clf.partial_fit(X[1000:], y[1000:])
    assert clf.predict_proba([[0.0, np.nan, np.nan]])[0, 1] == pytest.approx(share, abs=0.006)


@pytest.mark.parametrize("parameters", ["hdp", "ml", "layered", "discriminative"])
@pytest.mark.filterwarnings("ignore::tanager.errors.ColumnWarning")
def test_a_column_without_a_value_and_one_class_are_no_obstacle(parameters):
    X, y, _ = laboratory(200)
    X = np.column_stack([X, np.full(200, np.nan)])
    clf = BayesNetClassifier("tan", parameters, missing="marginalize").fit(X, y)
    assert np.isfinite(clf.predict_proba(X)).all()
    alone = BayesNetClassifier("tan", parameters, missing="marginalize").fit(X, np.zeros(200))
    assert (alone.predict_proba(X) == 1.0).all()


@pytest.mark.parametrize("parameters", ["layered", "discriminative"])
def test_a_rare_class_is_predicted_as_often_as_it_is_there(parameters):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5))
    y = np.zeros(3000, int)
    y[np.argsort(X[:, 0] + X[:, 1] * (X[:, 2] > 0) + 0.7 * rng.normal(size=3000))[-15:]] = 1
    X[rng.random(X.shape) < 0.2] = np.nan
    options = {} if parameters == "layered" else {"structure": "tan", "parameters": parameters}
    model = BayesNetClassifier(missing="marginalize", random_state=0, **options).fit(X, y)
    assert model.predict_proba(X)[:, 1].sum() == pytest.approx(15, rel=0.01)
    assert model.predict_proba(np.full((1, 5), np.nan))[0, 1] == pytest.approx(0.005, abs=0.005)


def test_the_likelihood_of_many_columns_is_not_cut_off():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 12, (500, 60)).astype(np.uint8)
    codes[rng.random(codes.shape) < 0.1] = 12
    labels = (np.arange(60) % 2).astype(np.uint16)
    names = tuple(f"x{i}" for i in range(len(codes)))
    structure = Structure.from_parents(names, [()] * len(codes))
    rows = Rows.in_memory(Domain(names, np.full(len(codes), 12), 2), codes, labels)
    plan = FitPlan(context_of())
    tables, _, record = expect_and_maximise(Laplace(), structure, Counts(rows, plan.context), plan)
    found = record["log_likelihood"]
    assert found[-1] < -1000 * len(labels)
    known = tables.log_prior[labels].sum()
    for column, table in zip(codes, tables.families, strict=True):
        there = column < 12
        known += table.to_dense().log_prob[column[there], labels[there]].sum()
    assert found[-1] == pytest.approx(known, rel=1e-9)
