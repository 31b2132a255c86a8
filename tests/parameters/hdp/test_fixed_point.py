"""The deterministic estimate: special functions, the equations, laws and reference trees."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from tanager import native
from tanager.counts import FamilyCounts
from tanager.engines import FitContext, LocalEngine
from tanager.errors import ConfigurationError
from tanager.parameters.hdp import HDP
from tests.oracles import hdp as oracle
from tests.oracles.kernels import hdp as twin
from tests.parameters.hdp.trees import dense_log_prob, dictionary, random_counts, random_tree


@given(
    mass=st.floats(1e-9, 1e4),
    count=st.one_of(st.integers(1, 400).map(float), st.floats(0.01, 500.0)),
)
@example(mass=1e-9, count=1e8)
@example(mass=1e4, count=1e8)
@example(mass=7.999, count=17.0)
def test_one_sweep_equals_its_twin_for_any_mass_and_count(mass, count):
    """Of one cell below the root: its tables, their slope and the node's decide the step."""
    place = np.array([0, 1, 2])
    outcomes = []
    for solve in (native.solve_fixed_point, twin.solve_fixed_point):
        alpha, phi, escape, trace = np.array([mass]), np.zeros(2), np.zeros(2), np.zeros(1)
        solve(
            *(place, place, place, np.zeros(2, np.int64), np.zeros(2, np.int64)),
            *(np.array([0.0, count]), 3, 1.5, 2.0, np.ones(1), 0.0, 1, alpha, phi, escape, trace),
        )
        outcomes.append(np.concatenate([alpha, phi, escape, trace]))
    np.testing.assert_allclose(*outcomes, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("tying", ["level", "parent", "single"])
@pytest.mark.parametrize("fraction", [False, True])
def test_estimates_solve_the_equations(tying, fraction):
    counts = random_counts(2, (2, 3, 4), fraction=fraction)
    phi, _ = oracle.fixed_point(
        dictionary(counts), 2, 4, oracle.group_by(tying), shape=2.0, rate=1.0, root_mass=1.5
    )
    learner = HDP(
        tying=tying,
        shape=2.0,
        rate=1.0,
        class_rate=None,
        root_concentration=1.5,
        tolerance=1e-13,
        max_sweeps=5000,
    )
    tree = FamilyCounts.from_dense(counts).tree()
    found = np.exp(dense_log_prob(learner.family(tree), tree))
    for context in np.ndindex(2, 3):
        known = next(context[:d] for d in (2, 1, 0) if context[:d] in phi)
        np.testing.assert_allclose(found[context], phi[known], atol=1e-8)


@pytest.mark.parametrize("tying", ["level", "parent", "single"])
@given(seed=st.integers(0, 1000), rows=st.integers(1, 200))
@settings(max_examples=25)
def test_every_context_sums_to_one(tying, seed, rows):
    tree = random_tree(seed, (3, 2, 3, 4), rows=rows)
    log_prob = dense_log_prob(HDP(tying=tying).family(tree), tree)
    assert np.isfinite(log_prob).all()
    np.testing.assert_allclose(np.exp(log_prob).sum(-1), 1.0, rtol=1e-9)


def test_unseen_contexts_answer_as_their_longest_seen_prefix():
    counts = random_counts(4, (2, 3, 3), rows=100)
    counts[0, 1] = 0
    counts[1] = 0
    tree = FamilyCounts.from_dense(counts).tree()
    found = dense_log_prob(HDP().family(tree), tree)
    # (0, 1) was never seen: the class's own estimate, a blend of what it saw.
    assert (found[0, 1] > found[0, [0, 2]].min(0) - 1e-9).all()
    # Class 1 was never seen: one answer, the marginal's, whatever the parent.
    np.testing.assert_allclose(found[1, 0], found[1, 2])


def test_nothing_counted_gives_the_uniform():
    tree = FamilyCounts.from_dense(np.zeros((2, 3, 4))).tree()
    found = dense_log_prob(HDP().family(tree), tree)
    np.testing.assert_allclose(np.exp(found), 0.25)


def test_neighbours_are_believed_where_they_agree():
    alike = np.array([[2.0, 0.0], [200.0, 50.0], [160.0, 40.0], [80.0, 20.0]])
    apart = np.array([[2.0, 0.0], [200.0, 50.0], [40.0, 160.0], [10.0, 90.0]])
    near, far = (
        np.exp(dense_log_prob(HDP().family(tree), tree))
        for tree in (FamilyCounts.from_dense(counts).tree() for counts in (alike, apart))
    )
    assert near[0, 0] == pytest.approx(0.8, abs=0.07)
    assert far[0, 0] > apart.sum(0)[0] / apart.sum() + 0.15  # not pulled to the pooled share


def test_threads_change_nothing_and_the_trace_is_kept():
    trees = [random_tree(seed, (2, 3, 4), rows=300) for seed in range(6)]
    class_counts = np.array([100.0, 200.0])
    tables = []
    for n_jobs in (1, 3):
        context = FitContext(engine=LocalEngine(n_jobs))
        tables.append(HDP().from_counts(class_counts, trees, context))
        record = context.info["parameters"]
        assert record["converged"]
        assert len(record["families"]) == 6
        for family in record["families"]:
            assert family["trace"].shape == (family["sweeps"],)
            assert family["concentration"].shape == (2,)
    for one, three in zip(tables[0].families, tables[1].families, strict=True):
        np.testing.assert_array_equal(one.log_prob, three.log_prob)
    np.testing.assert_allclose(np.exp(tables[0].log_prior), [100.5 / 301, 200.5 / 301])


def test_too_few_sweeps_warn():
    with pytest.warns(ConvergenceWarning, match="max_sweeps=2"):
        HDP(max_sweeps=2, tolerance=1e-9).from_counts(
            np.ones(2), [random_tree(1, (2, 3, 4))], FitContext()
        )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tying", "none"),
        ("shape", -1.0),
        ("rate", -1.0),
        ("class_rate", -1.0),
        ("root_concentration", 0.0),
        ("tolerance", 0.0),
        ("max_sweeps", 0),
    ],
)
def test_bad_parameters_are_named(name, value):
    with pytest.raises(ConfigurationError, match=name):
        HDP(**{name: value}).family(random_tree(1, (2, 3, 4)))


def test_learner_clones():
    learner = HDP(tying="parent", shape=2.0)
    assert clone(learner).get_params() == learner.get_params()


@pytest.mark.shared
def test_adult_trees_beat_five_thousand_sweeps(shared):
    folder = shared / "reference" / "hdp"
    reference = json.loads((folder / "adult_trees.json").read_text())
    train, test = np.load(folder / "adult25k.npy"), np.load(folder / "adult_test.npy")
    arities = [column["arity"] for column in reference["columns"]]
    for entry in reference["trees"]:
        members = [*entry["parents"], entry["child"]]
        counts = np.zeros([arities[m] for m in members])
        np.add.at(counts, tuple(train[:, members].T), 1.0)
        tree = FamilyCounts.from_dense(counts).tree()
        table = HDP().family(tree)
        out = np.zeros((test.shape[0], 2))
        codes = np.ascontiguousarray(test.T.astype(np.uint8))
        table.add_terms(codes, np.array(arities), np.array(members[1:]), out)
        loss = -out[np.arange(test.shape[0]), test[:, 14]].mean()
        target = next(a["log_loss"] for a in entry["authors"] if a["iterations"] == 5000)
        deep = entry["name"].endswith(("k3", "k5"))
        assert loss <= target - (0.0005 if deep else 0.0), entry["name"]


def test_the_class_level_has_a_rate_of_its_own():
    counts = random_counts(3, (3, 4, 4), rows=400)
    tree = FamilyCounts.from_dense(counts).tree()
    both = [HDP(rate=1.0, class_rate=rate).family(tree).log_prob for rate in (None, 1.0)]
    np.testing.assert_array_equal(*both)
    apart = HDP(rate=1.0, class_rate=50.0).family(tree).log_prob
    assert (apart != both[0]).any()
