"""The calibration error is that of a round's held-out rows together, not of each small fold."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tanager import BayesNetClassifier
from tanager.evaluation import CrossValidation, Experiment, LearningCurve
from tanager.evaluation.metrics import calibration_error
from tanager.evaluation.summary import say_pooled, score_intervals, summarize, verdict

PAIR = "naive/laplace"
METRIC = "calibration_error"


@pytest.fixture
def run(small):
    def run(rounds, folds, classifiers=(PAIR,), metrics=(METRIC, "accuracy")):
        protocol = CrossValidation(rounds, folds)
        return Experiment([small], list(classifiers), protocol, metrics=list(metrics)).run()

    return run


def errors_of_rounds(dataset, rounds, folds):
    """The calibration error of every round's predictions, put together from its folds."""
    data, protocol, out = dataset.load(), CrossValidation(rounds, folds), []
    for round_ in range(rounds):
        p = np.empty((len(data.labels), len(data.classes)))
        for fold in range(folds):
            split = protocol.split(data.labels, 0, round_, fold)
            clf = BayesNetClassifier("naive", "laplace")
            clf.fit(data.features.take(split.train), data.labels[split.train])
            p[split.test] = clf.predict_proba(data.features.take(split.test))
        out.append(calibration_error(p, data.labels))
    return np.array(out)


def test_folds_are_put_together_before_the_error_is_taken(run, small):
    results = run(3, 9)
    expected = errors_of_rounds(small, 3, 9)
    assert_allclose(results.mean(METRIC).values, [[expected.mean()]])
    assert_allclose(results.deviation(METRIC).values, [[expected.std(ddof=1)]])
    own = results.table().column(METRIC).to_numpy()
    assert len(own) == 27
    assert own.mean() > 1.5 * expected.mean()  # ten rows a fold are mostly noise
    assert_allclose(
        results.mean("accuracy").values[0, 0], results.table()["accuracy"].to_numpy().mean()
    )


def test_with_one_round_no_deviation_is_told(run):
    results = run(1, 5)
    assert np.isnan(results.deviation(METRIC).values).all()
    assert results.deviation(METRIC).datasets == ("small",)
    assert results.deviation("accuracy").values[0, 0] > 0
    assert summarize(results, METRIC).to_dict()["deviations"] == {"small": {PAIR: None}}
    json.dumps(summarize(results, METRIC).to_dict(), allow_nan=False)
    mean = results.mean(METRIC).values[0, 0]
    assert verdict(results).endswith(f", calibration error {mean:.4f}.")
    assert say_pooled(results).startswith("calibration error: computed over all held-out rows")
    assert say_pooled(run(1, 2, metrics=["accuracy"])) == ""


def test_a_pair_is_not_tested_by_the_noise_of_its_cells(run):
    results = run(2, 5, [PAIR, "tan/laplace"], [METRIC])
    (pair,) = summarize(results, METRIC).pairs
    assert pair.corrected_p is None
    assert "not tested (computed per round, not per fold) against" in verdict(results)
    intervals = score_intervals(results, METRIC)
    assert sorted(intervals.centers) == sorted(results.mean(METRIC).values[0])
    assert intervals.lows == intervals.centers == intervals.highs
    assert "Over all held-out rows of a round" in intervals.meaning


def test_along_a_learning_curve_every_cell_counts_by_itself(small):
    curve = LearningCurve(sizes=(20, 40), rounds=2)
    results = Experiment([small], [PAIR], curve, metrics=[METRIC]).run()
    own = [cell[METRIC] for cell in results.records]
    assert_allclose(results.mean(METRIC).values, [[np.mean(own)]])
    assert not results.is_pooled(METRIC)
