"""Intervals of probabilities, sets of classes, and predictions that abstain."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import tanager
from tanager import BayesNetClassifier
from tanager.errors import ConfigurationError, ModelFileError
from tanager.network import files
from tanager.network.network import Calibration
from tanager.parameters import Laplace, Tables
from tanager.parameters.spread import LEVELS, reaches
from tanager.parameters.tables import DenseTable

LEARNERS = ["layered", "hdp", "m-estimate", "laplace", "friedman", "ml", "discriminative"]


def drawn(n_rows, seed, n_classes=2, n_features=4):
    """Return rows of a naive network, their classes, and P(class | row)."""
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.full(n_classes, 20.0))
    tables = rng.dirichlet(np.full(3, 3.0), (n_classes, n_features))
    y = rng.choice(n_classes, n_rows, p=prior)
    u = rng.random((n_rows, n_features, 1))
    X = np.minimum((u > np.cumsum(tables[y], axis=-1)).sum(axis=-1), 2)
    logs = np.log(prior) + sum(np.log(tables[:, f, X[:, f]].T) for f in range(n_features))
    truth = np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None])
    return np.array(["u", "v", "w"])[X], y, truth


def posterior_draws(X, y, row, alpha, n_draws, rng):
    """Draw P(class | row) from the posterior of a naive network's tables under Dir(alpha)."""
    n_classes = int(y.max()) + 1
    prior = rng.dirichlet(np.bincount(y) + 1e-9, n_draws)
    logs = np.log(prior)
    for feature, value in enumerate(row):
        if value is None:
            continue
        values = ["u", "v", "w"]
        for c in range(n_classes):
            counts = [(X[y == c, feature] == one).sum() + alpha for one in values]
            logs[:, c] += np.log(rng.dirichlet(counts, n_draws)[:, values.index(value)])
    return np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_intervals_are_those_of_sampled_tables(n_classes):
    X, y, _ = drawn(300, 1, n_classes)
    clf = BayesNetClassifier("naive", Laplace(1.0)).fit(X, y)
    rng = np.random.default_rng(0)
    rows = [list(row) for row in product("uvw", repeat=4)][::5]
    rows += [["u", None, "v", "w"], [None, None, "w", None]]
    clf_gaps = BayesNetClassifier("naive", Laplace(1.0), missing="marginalize").fit(X, y)
    found = clf_gaps.predict_interval(np.array(rows, object), level=0.9)
    assert np.array_equal(clf.predict_interval(X[:9]), clf_gaps.predict_interval(X[:9]))
    for row, (low, high) in zip(rows, found.transpose(0, 2, 1), strict=True):
        draws = posterior_draws(X, y, row, 1.0, 20_000, rng)
        ends = np.quantile(draws, [0.05, 0.95], axis=0)
        np.testing.assert_allclose([low, high], ends, atol=0.02 + 0.06 * np.ptp(ends))


@pytest.mark.parametrize("level", [0.5, 0.9])
@pytest.mark.parametrize("parameters", ["hdp", "layered"])
def test_intervals_cover_what_is_true(parameters, level):
    inside = []
    for seed in range(12):
        X, y, truth = drawn(600 + 300, seed)
        clf = BayesNetClassifier("naive", parameters).fit(X[:600], y[:600])
        low, high = np.moveaxis(clf.predict_interval(X[600:], level=level), -1, 0)
        inside.append(((low <= truth[600:]) & (truth[600:] <= high)).mean())
    error = np.std(inside) / np.sqrt(len(inside))
    assert abs(np.mean(inside) - level) < 0.03 + 2.0 * error


@pytest.mark.parametrize("parameters", LEARNERS)
def test_intervals_hold_the_estimate_and_grow_with_the_level(parameters, tmp_path):
    X, y, _ = drawn(400, 3, 3)
    clf = BayesNetClassifier("tan", parameters).fit(X, y)
    chances = clf.predict_proba(X)
    before = np.stack([chances, chances], axis=-1)
    for level in (0.5, 0.9, 0.99):
        now = clf.predict_interval(X, level=level)
        assert now.shape == (400, 3, 2)
        assert (now[..., 0] < before[..., 0] + 1e-12).all()
        assert (now[..., 1] > before[..., 1] - 1e-12).all()
        before = now
    tanager.save(clf, tmp_path / "model.tanager")
    again = tanager.load(tmp_path / "model.tanager")
    assert again.network_.tables == clf.network_.tables
    assert np.array_equal(again.predict_interval(X, level=0.99), before)


def test_intervals_of_unknown_inputs_are_no_narrower_than_sampled_ones():
    rng = np.random.default_rng(5)
    X, y, _ = drawn(500, 5)
    X[:, 1] = np.where(rng.random(500) < 0.7, X[:, 0], X[:, 1])  # a child that tells of its parent
    learner = tanager.structure.Fixed({"x0": [], "x1": ["x0"]})
    clf = BayesNetClassifier(learner, Laplace(1.0), missing="marginalize").fit(X[:, :2], y)
    low, high = clf.predict_interval(np.array([[None, "v"]], object))[0, 1]
    values, odds = ["u", "v", "w"], np.zeros((20_000, 2))
    for c in range(2):
        mine = X[y == c]
        first = rng.dirichlet([(mine[:, 0] == v).sum() + 1.0 for v in values], 20_000)
        total = np.zeros(20_000)
        for at, v in enumerate(values):
            counts = [((mine[:, 0] == v) & (mine[:, 1] == w)).sum() + 1.0 for w in values]
            total += first[:, at] * rng.dirichlet(counts, 20_000)[:, 1]
        odds[:, c] = np.log(total) + np.log(rng.gamma((y == c).sum(), size=20_000))
    ends = np.quantile(1.0 / (1.0 + np.exp(odds[:, 0] - odds[:, 1])), [0.05, 0.95])
    assert low < ends[0] + 0.01
    assert high > ends[1] - 0.01
    assert high - low < 2.0 * np.ptp(ends)


def test_weights_count_as_rows_do():
    X, y, _ = drawn(200, 6)
    once = BayesNetClassifier("naive", "hdp").fit(X, y, sample_weight=np.full(200, 2.0))
    twice = BayesNetClassifier("naive", "hdp").fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    assert np.array_equal(once.predict_interval(X), twice.predict_interval(X))


def test_models_that_do_not_know_say_so(tmp_path):
    X, y, _ = drawn(200, 7)
    clf = BayesNetClassifier("naive", "layered").fit(X, y)
    edited = BayesNetClassifier("naive", "layered").fit(X, y)
    edited.network_ = clf.network_.edit("x0", neutralise=True)
    for model in (edited, BayesNetClassifier("naive", "acll").fit(X, y)):
        with pytest.raises(ConfigurationError, match="how sure its tables are"):
            model.predict_interval(X)
        with pytest.raises(ConfigurationError, match=r"calibrate\(X, y\)"):
            model.predict_set(X)
    for wrong in (0, 1, 1.5, True, "a"):
        with pytest.raises(ConfigurationError, match="level="):
            clf.predict_interval(X, level=wrong)
        with pytest.raises(ConfigurationError, match="coverage="):
            clf.predict_set(X, coverage=wrong)


@pytest.mark.filterwarnings("ignore:The target has one class")
def test_one_class_and_one_row():
    for X, y in ((["a", "b"], [1, 1]), (["a"], [0])):
        clf = BayesNetClassifier("naive", "hdp").fit(np.array(X)[:, None], y)
        assert np.allclose(clf.predict_interval([["a"]]), 1.0)


def test_levels_are_kept_exactly():
    X, y, _ = drawn(300, 8)
    spread = BayesNetClassifier("tan", "layered").fit(X, y).network_.tables.spread
    for table in spread.families:
        array = table.log_prob if hasattr(table, "log_prob") else table.log_group
        if not hasattr(table, "log_group"):
            assert np.isin(array, LEVELS).all()


@pytest.mark.parametrize("per_class", [False, True])
def test_sets_of_calibration_rows_cover(per_class):
    coverage, hits, n_tests = 0.8, np.zeros(3), np.zeros(3)
    for seed in range(60):
        X, y, _ = drawn(100 + 60 + 200, 100 + seed, 3)
        clf = BayesNetClassifier("naive", "hdp").fit(X[:100], y[:100])
        clf.calibrate(X[100:160], y[100:160])
        members = np.asarray(clf.predict_set(X[160:], coverage=coverage, per_class=per_class))
        own = members[np.arange(200), y[160:]]
        hits += np.bincount(y[160:], own, 3)
        n_tests += np.bincount(y[160:], minlength=3)
    # The calibration rows' chance counts too: about that of a Beta variable per draw.
    found = hits / n_tests if per_class else np.array([hits.sum() / n_tests.sum()])
    error = np.sqrt(0.8 * 0.2 * (1 / (60 * (20 if per_class else 60)) + 1 / n_tests.min()))
    assert (found > coverage - 4 * error).all()
    assert (found < coverage + 1 / (20 if per_class else 60) + 4 * error).all()


def test_sets_of_the_default_cover_without_further_rows():
    hits = []
    for seed in range(10):
        X, y, _ = drawn(300 + 400, 200 + seed, 3)
        clf = BayesNetClassifier("naive").fit(X[:300], y[:300])
        sets = clf.predict_set(X[300:], coverage=0.85)
        hits.append(np.asarray(sets)[np.arange(400), y[300:]].mean())
    error = np.sqrt(0.85 * 0.15 * (1 / 300 + 1 / 400) / 10)
    assert abs(np.mean(hits) - 0.85) < 4 * error


def test_sets_read_well(tmp_path):
    X, y, _ = drawn(300, 9, 3)
    clf = BayesNetClassifier("naive").fit(X, np.array(["low", "mid", "top"])[y])
    sets = clf.predict_set(X, coverage=0.6)
    assert len(sets) == 300
    assert sets.sizes.sum() == np.asarray(sets).sum()
    assert set(sets[0]) <= {"low", "mid", "top"}
    assert list(sets)[5] == tuple(clf.classes_[sets.members[5]])
    assert sets.to_pandas().columns.tolist() == ["low", "mid", "top"]
    assert "300 rows, coverage 0.6" in repr(sets)
    everything = clf.predict_set(X, coverage=0.9999)
    assert (everything.sizes == 3).all()
    assert "needs 9,999 held-out rows" in everything.note()
    tanager.save(clf, tmp_path / "model.tanager")
    again = tanager.load(tmp_path / "model.tanager")
    assert again.network_.calibration == clf.network_.calibration
    assert np.array_equal(again.predict_set(X, coverage=0.6).members, sets.members)


def test_empty_sets_are_explained():
    X, y, _ = drawn(400, 10)
    clf = BayesNetClassifier("naive").fit(X, y)
    sets = clf.predict_set(X, coverage=0.2)
    assert (sets.sizes == 0).any()
    assert "empty: no class is as probable" in sets.note()


def test_class_prior_weighs_the_calibration():
    X, y, _ = drawn(2000, 11)
    clf = BayesNetClassifier("naive", class_prior={1: 0.9}).fit(X[:1000], y[:1000])
    sets = np.asarray(clf.predict_set(X[1000:], coverage=0.8))
    own = sets[np.arange(1000), y[1000:]]
    # Coverage holds where the classes are as frequent as the prior says.
    covered = 0.1 * own[y[1000:] == 0].mean() + 0.9 * own[y[1000:] == 1].mean()
    assert abs(covered - 0.8) < 0.06


def test_predict_abstains_below_a_probability():
    X, y, _ = drawn(400, 12)
    clf = BayesNetClassifier("naive", "hdp").fit(X, y)
    found, top = clf.predict(X, abstain=0.8), clf.predict_proba(X).max(axis=1)
    silent = np.array([one is None for one in found])
    assert np.array_equal(silent, top < 0.8)
    assert silent.any()
    assert np.array_equal(found[~silent].astype(int), clf.predict(X)[~silent])
    with pytest.raises(ConfigurationError, match="abstain="):
        clf.predict(X, abstain=2)


def test_files_of_older_releases_load_and_say_that_they_know_no_intervals():
    old = sorted((Path(__file__).parents[1] / "network" / "released").rglob("*.tanager"))
    assert old
    clf = tanager.load(old[0])
    row = [[None] * clf.n_features_in_]
    assert np.isfinite(clf.predict_proba(row)).all()
    with pytest.raises(ConfigurationError, match="saved by a release without intervals"):
        clf.predict_interval(row)


def test_a_forged_spread_is_refused(tmp_path):
    X, y, _ = drawn(200, 13)
    clf, path = BayesNetClassifier("naive", "hdp").fit(X, y), tmp_path / "model.tanager"
    for wrong in ([1], [1, 999], [1, "a"], "x"):
        metadata, tensors = _taken_apart(clf, path)
        header = json.loads(metadata["header"])
        header["tables"]["spread"] = wrong
        _write(path, metadata, header, tensors)
        with pytest.raises(ModelFileError, match=r"levels|tables\.spread"):
            tanager.load(path)
    metadata, tensors = _taken_apart(clf, path)
    del tensors["family.1.spread"]
    _write(path, metadata, json.loads(metadata["header"]), tensors)
    with pytest.raises(ModelFileError, match="not as many as its numbers"):
        tanager.load(path)
    for wrong in ({"labels": [5], "scores": [1], "rows": [1, 0]}, [], {"labels": [0.5]}):
        metadata, tensors = _taken_apart(clf, path)
        header = {**json.loads(metadata["header"]), "calibration": wrong}
        _write(path, metadata, header, tensors)
        with pytest.raises(ModelFileError, match="calibration"):
            tanager.load(path)


def _taken_apart(clf, path):
    tanager.save(clf, path)
    return files._unpack(path.read_bytes())


def _write(path, metadata, header, tensors):
    text = json.dumps(header)
    metadata = {**metadata, "header": text, "sha256": files.checksum(text, tensors)}
    path.write_bytes(files._pack(metadata, tensors))


def test_a_class_that_was_held_impossible_is_no_matter_of_few_rows():
    X, y = [["a"], ["b"]] * 50, [0, 1] * 50
    clf = BayesNetClassifier("naive", "ml").fit(X, y)
    said = np.tile([0.0, -2000.0], (100, 1))
    calibration = Calibration.of(said, np.array(y), np.ones(100))
    clf.network_ = replace(clf.network_, calibration=calibration)
    assert "always inside" not in repr(clf.predict_set([["a"]]))


def test_reaches_grow_with_the_level_whatever_the_variance():
    spread = Tables(LEVELS[[0, 255]], (DenseTable(LEVELS[None, :, None]),), normalized=False)
    found = [[t.families[0].log_prob for t in reaches(spread, p)] for p in (0.1, 0.5, 0.9, 0.99)]
    assert (np.diff(np.array(found), axis=0) >= 0.0).all()
