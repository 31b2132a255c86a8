from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn import metrics as sk

from tanager.errors import ConfigurationError
from tanager.evaluation import metrics
from tanager.evaluation.metrics import conditional_relative_entropy
from tanager.evaluation.runner import identical_rows


def random_case(seed: int, rows: int = 200, classes: int = 4):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(classes, 0.4), rows), rng.integers(classes, size=rows)


@given(st.integers(0, 2**32), st.integers(2, 7))
def test_losses_agree_with_scikit_learn(seed, classes):
    p, y = random_case(seed, 60, classes)
    assert_allclose(metrics.zero_one_loss(p, y), sk.zero_one_loss(y, p.argmax(1)))
    assert_allclose(metrics.log_loss(p, y), sk.log_loss(y, p, labels=range(classes)), rtol=1e-9)
    one_hot = np.eye(classes)[y]
    assert_allclose(metrics.brier_score(p, y), ((p - one_hot) ** 2).sum(1).mean())
    assert_allclose(metrics.rmse_class_averaged(p, y), np.sqrt(((p - one_hot) ** 2).mean()))
    assert_allclose(metrics.rmse_true_class(p, y), np.sqrt(((1 - p[one_hot == 1]) ** 2).mean()))


def test_two_rmses_agree_for_two_classes():
    p, y = random_case(1, classes=2)
    assert_allclose(metrics.rmse_true_class(p, y), metrics.rmse_class_averaged(p, y))


def test_log_loss_of_a_sure_and_wrong_prediction_is_finite():
    p = np.array([[1.0, 0.0]])
    assert_allclose(metrics.log_loss(p, np.array([1])), -np.log(np.finfo(float).eps))
    assert metrics.log_loss(p, np.array([0])) == 0.0


def test_calibration_error_by_the_definition():
    p, y = random_case(3, rows=500)
    confidence, correct = p.max(1), p.argmax(1) == y
    edges = np.linspace(0, 1, 16)
    expected = 0.0
    for low, high in pairwise(edges):
        inside = (confidence >= low) & ((confidence < high) | (high == 1.0))
        if inside.any():
            expected += inside.mean() * abs(confidence[inside].mean() - correct[inside].mean())
    assert_allclose(metrics.calibration_error(p, y), expected)


def test_calibrated_predictions_have_little_calibration_error():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1], 40_000)
    y = (rng.random(40_000) < p[:, 1]).astype(int)
    assert metrics.calibration_error(p, y) < 0.02


def test_reliability_adds_up_over_folds():
    p, y = random_case(5)
    whole = metrics.reliability(p, y)
    halves = metrics.reliability(p[:90], y[:90]), metrics.reliability(p[90:], y[90:])
    for part, a, b in zip(whole, *halves, strict=True):
        assert_allclose(part, a + b)


def test_unknown_metric_is_refused():
    with pytest.raises(ConfigurationError, match="zero_one_loss"):
        metrics.resolve_metrics(("kappa",))


def test_conditional_relative_entropy_is_the_divergence_by_its_definition():
    rng = np.random.default_rng(0)
    columns = {"a": rng.integers(2, size=60).tolist(), "b": rng.choice(["x", "y", None], 60)}
    table = pa.table({**columns, "c": [1.5, None] * 30})
    groups = identical_rows(table)
    rows = [tuple(row.values()) for row in table.to_pylist()]
    assert len(set(groups)) == len(set(rows)) == len(set(zip(groups, rows, strict=True)))
    p = rng.dirichlet(np.ones(3), int(groups.max()) + 1)[groups]
    y = rng.integers(3, size=60)
    expected = 0.0
    for row in set(rows):
        chosen = [i for i, other in enumerate(rows) if other == row]
        for label in range(3):
            share = np.mean(y[chosen] == label)
            if share:
                expected += len(chosen) / 60 * share * np.log(share / p[chosen[0], label])
    assert conditional_relative_entropy(p, y, groups) == pytest.approx(expected)


@given(st.integers(0, 2**32), st.integers(2, 6), st.booleans())
def test_accuracy_auc_and_f1_agree_with_scikit_learn(seed, classes, rounded):
    p, y = random_case(seed, 80, classes)
    if rounded:  # equal probabilities count half
        p = p.round(1) + 1e-3
        p /= p.sum(axis=1, keepdims=True)
    y[:classes] = np.arange(classes)  # every class occurs
    assert_allclose(metrics.accuracy(p, y), sk.accuracy_score(y, p.argmax(1)))
    assert_allclose(metrics.f1(p, y), sk.f1_score(y, p.argmax(1), average="macro"))
    expected = (
        sk.roc_auc_score(y, p[:, 1]) if classes == 2 else sk.roc_auc_score(y, p, multi_class="ovr")
    )
    assert_allclose(metrics.auc(p, y), expected)
    assert np.array_equal(
        metrics.confusion(p, y), sk.confusion_matrix(y, p.argmax(1), labels=range(classes))
    )


def test_one_class_alone_has_no_auc():
    p, _ = random_case(0, 5, 3)
    assert np.isnan(metrics.auc(p, np.zeros(5, int)))
