from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from tanager.errors import ConfigurationError
from tanager.evaluation import CrossValidation, Experiment, LearningCurve
from tanager_papers.curves import (
    bias_variance,
    iterations_behind,
    kohavi_wolpert,
    learning_curves,
    missing_feature_curves,
)

TREE = "sklearn.tree.DecisionTreeClassifier"
STUMP = "sklearn.tree.DecisionTreeClassifier(max_depth=1)@native"
BOOST = "sklearn.ensemble.HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=2)@native"


@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(2, 5))
def test_bias_and_variance_by_the_definition(seed, rounds, classes):
    rng = np.random.default_rng(seed)
    votes, y = rng.integers(classes, size=(rounds, 20)), rng.integers(classes, size=20)
    bias = variance = 0.0
    for row in range(20):
        share = [np.mean(votes[:, row] == c) for c in range(classes)]
        bias += 0.5 * sum(((c == y[row]) - share[c]) ** 2 for c in range(classes)) / 20
        variance += 0.5 * (1 - sum(s**2 for s in share)) / 20
    result = kohavi_wolpert(votes, y, classes)
    assert_allclose(result, (bias, variance), atol=1e-12)
    assert_allclose(sum(result), np.mean(votes != y), atol=1e-12)


def test_bias_and_variance_of_an_experiment_add_up_to_its_loss(small, other):
    experiment = Experiment(
        [small, other], [TREE, STUMP], CrossValidation(3, 2), keep=["predictions"]
    )
    results = experiment.run()
    bias, variance = bias_variance(experiment, results)
    assert_allclose(bias.values + variance.values, results.mean("zero_one_loss").values)


def test_bias_and_variance_need_predictions(small):
    experiment = Experiment([small], [TREE])
    with pytest.raises(ConfigurationError, match="predictions"):
        bias_variance(experiment, None)


def test_learning_curves_are_gathered_by_size(small):
    experiment = Experiment([small], [TREE, STUMP], LearningCurve((20, 60), rounds=3))
    results = experiment.run()
    curves = learning_curves(results, "small", "zero_one_loss")
    assert curves.x.tolist() == [20, 60]
    losses = [
        r["zero_one_loss"]
        for r in results.records
        if r["n_train"] == 60 and r["classifier"] == STUMP
    ]
    assert_allclose(curves.mean[1, 1], np.mean(losses))
    assert_allclose(curves.deviation[1, 1], np.std(losses))


def test_learning_sets_grow_and_never_meet_the_test_rows():
    labels, curve = np.zeros(50, int), LearningCurve((5, 20, 35), rounds=2)
    splits = [curve.split(labels, 0, 1, i) for i in range(3)]
    assert set(splits[0].train) < set(splits[1].train) < set(splits[2].train)
    for split in splits:
        np.testing.assert_array_equal(split.test, splits[0].test)
        assert not set(split.train) & set(split.test)


@pytest.mark.parametrize(
    "options", [{"sizes": ()}, {"sizes": (3, 2)}, {"sizes": (2,), "test_share": 1.0}]
)
def test_impossible_learning_curves_are_refused(options):
    with pytest.raises(ConfigurationError):
        LearningCurve(**options)


def test_sizes_beyond_the_table_are_recorded_as_failures(small):
    results = Experiment([small], [TREE], LearningCurve((20, 900), rounds=1)).run()
    assert "900" in results.failures[0]["error"]
    assert learning_curves(results, "small", "log_loss").x.tolist() == [20]


def test_missing_features_cost_accuracy_and_all_see_the_same(small):
    experiment = Experiment([small], [BOOST], CrossValidation(1, 2))
    curves = missing_feature_curves(experiment, "small", [0, 1, 3], repeats=6)
    whole = experiment.run().records[0]["zero_one_loss"]
    assert_allclose(curves.mean[0, 0], whole)
    assert curves.mean[0, 0] < curves.mean[0, 1] < curves.mean[0, 2]
    again = missing_feature_curves(experiment, "small", [0, 1, 3], repeats=6)
    assert_allclose(again.mean, curves.mean)


def test_iterations_behind():
    fast, slow = [9, 5, 3, 2, 1.5, 1], [9, 8, 7, 6, 5, 4, 3, 2, 1]
    assert iterations_behind(fast, slow, after=2) == 4
    assert iterations_behind(slow, fast, after=2) == -4
    assert iterations_behind(fast, fast, after=2) == 0
    # Never reached: what is left of the trace.
    assert iterations_behind([9, 1, 0], [9, 5, 4, 3], after=2) == 1
