"""The loss without a feature or an edge, against the loss of the model that lacks it."""

from __future__ import annotations

import numpy as np
import pytest

from tanager import BayesNetClassifier
from tanager.errors import DataError
from tanager.evaluation.metrics import log_loss, loss_without_features, losses_without_features
from tanager.parameters import GroupedTable, posterior
from tanager.structure import KDB


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    x = np.stack([y ^ (rng.random(400) < 0.2), rng.integers(0, 2, 400)], axis=1)
    x = np.column_stack([x, x[:, 0] ^ (rng.random(400) < 0.1)])
    return [[f"v{v}" for v in row] for row in x.tolist()], y


@pytest.mark.filterwarnings("ignore:Column.s. ")
def test_a_feature_that_is_not_known_is_unseen(data):
    X, y = data
    clf = BayesNetClassifier("tan", "laplace").fit(X, y)
    before = log_loss(clf.predict_proba(X), y)
    found = loss_without_features(clf, X, y)
    for i in range(3):
        gone = [[*row[:i], "never seen", *row[i + 1 :]] for row in X]
        assert found[i] == pytest.approx(log_loss(clf.predict_proba(gone), y) - before)
    assert found.argmax() == 0
    gappy = [[*row[:2], "?" if at % 3 == 0 else row[2]] for at, row in enumerate(X)]
    before = log_loss(clf.predict_proba(gappy), y)
    gone = [["?", *row[1:]] for row in gappy]
    rise = loss_without_features(clf, gappy, y)[0]
    assert rise == pytest.approx(log_loss(clf.predict_proba(gone), y) - before)
    with pytest.raises(DataError, match="X has 400 rows, but y has 3"):
        loss_without_features(clf.network_, X, y[:3])


def test_a_feature_of_many_values_is_summed_out_by_its_groups():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 3))
    X[:, 2] += X[:, 0]
    y = (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int)
    network = BayesNetClassifier(KDB(k=2, moral=True), "layered").fit(X, y).network_
    assert any(isinstance(table, GroupedTable) for table in network.tables.families)
    codes = network.codebook.encode(X)
    found = losses_without_features(network, codes, y, range(3))
    before = log_loss(posterior(network.log_joint_of_codes(codes)), y)
    for i in range(3):
        gone = codes.copy()
        gone[i] = network.codebook.domain.arities[i]
        rise = log_loss(posterior(network.log_joint_of_codes(gone)), y) - before
        assert found[i] == pytest.approx(rise, abs=1e-9)


def test_importances_are_shares_of_mutual_information(data):
    X, y = data
    clf = BayesNetClassifier("naive", "ml").fit(X, y)
    shares = clf.feature_importances_
    information = np.array(list(clf.info_["structure"]["mutual_information"].values()))
    assert shares.sum() == pytest.approx(1)
    assert shares == pytest.approx(information / information.sum(), abs=1e-6)
    constant = BayesNetClassifier("naive", "laplace").fit([["a"], ["a"]], [0, 1])
    assert constant.feature_importances_.tolist() == [0.0]


def test_the_fingerprint_knows_the_rows_in_any_order(data):
    X, y = data
    order = np.random.default_rng(1).permutation(len(y))
    prints = {
        name: BayesNetClassifier("naive", "laplace").fit(rows, labels).info_["codes"]
        for name, rows, labels in (
            ("rows", X, y),
            ("shuffled", [X[i] for i in order], y[order]),
            ("fewer", X[1:], y[1:]),
        )
    }
    assert prints["rows"]["rows"] == 400
    assert prints["rows"]["fingerprint"] == prints["shuffled"]["fingerprint"]
    assert prints["rows"]["fingerprint"] != prints["fewer"]["fingerprint"]
