"""Boosted trees are tables on the pool's structure, and join it only where they help."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tanager import BayesNetClassifier
from tanager.codes.groups import group_codes
from tanager.parameters import layered
from tanager.parameters.layered.boosted import Boosted, Boosting
from tests.parameters.layered.test_layered import IMMORAL, MORAL, make_part, make_rows


def rules(n_rows: int = 1_600, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Sharp thresholds on two numbers and a category, under noise and beside other columns."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n_rows, 5)), columns=list("abcde"))
    X["kind"] = rng.choice(["x", "y", "z"], n_rows)
    inside = (X["a"] > 0.4) & (X["b"] < 0.9) | (X["c"] > 1.2) & (X["kind"] == "y")
    return X, (inside ^ (rng.random(n_rows) < 0.02)).to_numpy().astype(int)


def members(clf: BayesNetClassifier) -> list[str]:
    return [one["member"] for one in clf.info_["parameters"]["members"]]


@pytest.mark.parametrize("structure", [MORAL, IMMORAL])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_the_tables_give_every_row_the_sum_of_its_leaves(structure, n_classes, depth):
    rows = make_rows(n_classes=n_classes)
    part = make_part(rows, structure)
    member = Boosted(depth)
    member.n_rounds = 30
    found = member.scores(part)
    run = Boosting(part, depth, rows)
    for _ in range(3):
        run.grow(10)
    groups = group_codes(rows.gather().codes, part.groups)
    total = np.tile(found.class_node, (rows.n_rows, 1))
    for (feature, parents), table in zip(part.read, found.groups, strict=True):
        held = [groups[one] for one in parents[: table.ndim - 2]]
        total += table[(*held, groups[feature])]
    np.testing.assert_allclose(total, run.held_scores, atol=1e-12)
    assert np.abs(total - found.class_node).max() > 0.1  # trees did grow


def test_rules_get_trees_and_a_lower_loss(monkeypatch):
    X, y = rules()
    test, truth = rules(4_000, seed=1)

    def loss(clf):
        return -np.log(clf.predict_proba(test)[np.arange(len(truth)), truth]).mean()

    with_trees = BayesNetClassifier(random_state=0).fit(X, y)
    # A tree of these six features takes about as long as one of eight.
    monkeypatch.setattr(layered, "MOST_WORK", 7 * 2 * len(y))
    without = BayesNetClassifier(random_state=0).fit(X, y)
    assert any("boosted" in one for one in members(with_trees))
    assert not any("boosted" in one for one in members(without))
    assert loss(with_trees) < 0.97 * loss(without)


def test_smooth_effects_and_noise_get_none():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_500, 4))
    smooth = (X[:, 0] + X[:, 1] + rng.logistic(size=1_500) > 0).astype(int)
    for y in (smooth, rng.integers(0, 2, 1_500)):
        assert not any("boosted" in one for one in members(BayesNetClassifier().fit(X, y)))


def test_the_order_of_columns_and_threads_do_not_matter():
    X, y = rules()
    clf = BayesNetClassifier(random_state=0, n_jobs=1).fit(X, y)
    assert any("boosted" in one for one in members(clf))
    other = BayesNetClassifier(random_state=0, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(other.predict_proba(X), clf.predict_proba(X))
    turned = BayesNetClassifier(random_state=0).fit(X[X.columns[::-1]], y)
    np.testing.assert_allclose(turned.predict_proba(X), clf.predict_proba(X), atol=1e-9)


def test_trees_never_split_a_feature_with_a_sign():
    X, y = rules()
    clf = BayesNetClassifier(random_state=0, monotonic={"a": 1}).fit(X, y)
    assert any("boosted" in one for one in members(clf))
    rows = pd.concat([X.iloc[:50].assign(a=value) for value in np.linspace(-2, 2, 9)])
    rising = clf.predict_proba(rows)[:, 1].reshape(9, 50)
    assert (np.diff(rising, axis=0) >= -1e-12).all()
    every = dict.fromkeys("abcde", 1)
    only = BayesNetClassifier(random_state=0, monotonic=every).fit(X.drop(columns="kind"), y)
    assert not any("boosted" in one for one in members(only))


def test_rows_with_gaps_and_weights():
    X, y = rules()
    rng = np.random.default_rng(0)
    gaps = X.mask(rng.random(X.shape) < 0.1)
    for missing in ("value", "marginalize"):
        clf = BayesNetClassifier(random_state=0, missing=missing)
        clf.fit(gaps, y, sample_weight=rng.integers(0, 3, len(y)))
        assert any("boosted" in one for one in members(clf))
        np.testing.assert_allclose(clf.predict_proba(gaps).sum(axis=1), 1.0, atol=1e-12)
