"""A discriminative model as an estimator: a real network, in memory or from a file."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tanager import BayesNetClassifier
from tanager.parameters import Discriminative

VALUES = {"a": ["p", "q"], "b": ["u", "v", "w"], "c": ["x", "y"]}
LEARNERS = {
    "weighted": Discriminative(l2=0.1),
    "direct": Discriminative("direct", l2=0.1, towards="zero"),
    "extended": Discriminative("extended", l2=0.1),
    "weights over HDP": Discriminative(level=1, base="hdp", l2="cv"),
}


def make_table(n_rows=300, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n_rows)
    columns = {}
    before = np.zeros(n_rows, int)
    for name, values in VALUES.items():
        pick = rng.random(n_rows) < 0.6
        before = np.where(pick, y + before, rng.integers(0, 9, n_rows)) % len(values)
        columns[name] = np.array(values)[before].tolist()
    return pa.table(columns), np.array(["k", "l", "m"])[y]


@pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS)
def test_tables_are_probabilities_with_the_same_posterior(learner):
    table, y = make_table()
    clf = BayesNetClassifier("tan", learner, missing="marginalize").fit(table, y)
    network = clf.network_
    assert np.exp(network.log_prior).sum() == pytest.approx(1.0)
    grid = list(itertools.product(*VALUES.values()))
    everything = pa.table({n: [row[i] for row in grid] for i, n in enumerate(VALUES)})
    joint = np.exp(clf.predict_joint_log_proba(everything))
    assert joint.sum() == pytest.approx(1.0)
    # an unknown value is summed out of the joint
    b = list(VALUES).index("b")
    for a, c in itertools.product(VALUES["a"], VALUES["c"]):
        some = [i for i, row in enumerate(grid) if (row[0], row[2]) == (a, c)]
        hidden = pa.table({"a": [a], "b": pa.array([None], pa.string()), "c": [c]})
        expected = joint[some].sum(axis=0)
        found = clf.predict_proba(hidden)[0]
        np.testing.assert_allclose(found, expected / expected.sum(), atol=1e-9)
    assert b == 1


def test_exports_hold_the_tables():
    table, y = make_table()
    network = BayesNetClassifier("tan", Discriminative(l2=0.1)).fit(table, y).network_
    assert "probability" in network.to_bif()
    assert network.table("b") is not None


@pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS)
def test_streamed_rows_give_the_same_model(learner, tmp_path):
    table, y = make_table(500)
    whole = table.append_column("y", pa.array(y))
    pq.write_table(whole, tmp_path / "rows.parquet", row_group_size=37)
    memory = BayesNetClassifier("tan", learner).fit(table, y)
    streamed = BayesNetClassifier("tan", learner).fit(tmp_path / "rows.parquet", "y")
    np.testing.assert_array_equal(memory.predict_proba(table), streamed.predict_proba(table))
    assert streamed.info_["parameters"]["converged"]


def test_row_weights_count():
    table, y = make_table()
    weights = np.where(y == "k", 5.0, 1.0)
    plain = BayesNetClassifier("tan", Discriminative(l2=1.0)).fit(table, y)
    heavy = BayesNetClassifier("tan", Discriminative(l2=1.0)).fit(table, y, sample_weight=weights)
    at = list(plain.classes_).index("k")
    assert heavy.predict_proba(table)[:, at].mean() > plain.predict_proba(table)[:, at].mean() + 0.1
