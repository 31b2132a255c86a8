"""Classes that stand in an order: cumulative probabilities, costs, losses, monotone effects."""

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone

import tanager
from tanager import BayesNetClassifier
from tanager.errors import ConfigurationError, DataError
from tanager.evaluation.metrics import rank_error, ranked_probability_score
from tanager.losses import RankedProbability
from tanager.parameters import Hybrid
from tanager.training import Training
from tests.cli.calling import call

ORDER = ["low", "mid", "high"]


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=n), rng.normal(size=n)
    y = np.digitize(x + 0.7 * z + rng.normal(size=n), [-0.7, 0.7])
    return pa.table({"x": x, "z": z}), np.array(ORDER)[y]


def test_classes_and_columns_stand_in_the_order_given():
    X, y = table()
    plain = BayesNetClassifier("tan", "m-estimate").fit(X, y)
    clf = BayesNetClassifier("tan", "m-estimate", classes_ordered=ORDER).fit(X, y)
    assert clf.classes_.tolist() == ORDER
    places = [plain.classes_.tolist().index(label) for label in ORDER]
    assert np.allclose(clf.predict_proba(X), plain.predict_proba(X)[:, places])
    assert (clf.predict(X) == plain.predict(X)).all()
    assert clf.score(X, y) == plain.score(X, y)
    named = X.append_column("grade", pa.array(y))
    by_name = BayesNetClassifier("tan", "m-estimate", classes_ordered=ORDER).fit(named, "grade")
    assert np.allclose(by_name.predict_proba(X), clf.predict_proba(X))


def test_the_order_travels_with_the_model(tmp_path):
    X, y = table()
    clf = BayesNetClassifier("naive", "m-estimate", classes_ordered=ORDER).fit(X, y)
    tanager.save(clf, tmp_path / "m.tanager")
    loaded = tanager.load(tmp_path / "m.tanager")
    assert loaded.classes_.tolist() == ORDER
    assert loaded.classes_ordered == ORDER
    assert np.array_equal(loaded.predict_cumulative(X), clf.predict_cumulative(X))
    assert clone(clf).classes_ordered == ORDER
    import pyarrow.csv

    pyarrow.csv.write_csv(X.append_column("y", pa.array(y)), tmp_path / "t.csv")
    path = tmp_path / "n.tanager"
    command = ("fit", tmp_path / "t.csv", "-t", "y", "-o", path, "--structure", "naive")
    assert call(*command, "--parameters", "m-estimate", "--classes-ordered", "low,mid,high") == 0
    assert tanager.load(path).classes_.tolist() == ORDER


def test_numbers_may_stand_in_another_order_than_ascending():
    X, y = table()
    numbers = np.array([{"low": 3, "mid": 1, "high": 2}[label] for label in y])
    clf = BayesNetClassifier("naive", "m-estimate", classes_ordered=[3, 1, 2]).fit(X, numbers)
    assert clf.classes_.tolist() == [3, 1, 2]
    assert set(clf.predict(X)) <= {1, 2, 3}
    text = BayesNetClassifier("naive", "m-estimate", classes_ordered=ORDER).fit(X, y)
    assert np.allclose(clf.predict_proba(X), text.predict_proba(X))


def test_cumulative_probabilities_add_up():
    X, y = table()
    clf = BayesNetClassifier("tan", "m-estimate", classes_ordered=ORDER).fit(X, y)
    found = clf.predict_cumulative(X)
    assert np.allclose(np.diff(found, axis=1), clf.predict_proba(X)[:, 1:])
    assert (found[:, -1] == 1).all()
    with pytest.raises(ConfigurationError, match="needs ordered classes"):
        BayesNetClassifier("naive", "ml").fit(X, y).predict_cumulative(X)


def test_decisions_have_the_least_expected_cost():
    X, y = table()
    clf = BayesNetClassifier("tan", "m-estimate", classes_ordered=ORDER).fit(X, y)
    shares = clf.predict_proba(X)
    for name, power in (("absolute", 1), ("squared", 2)):
        found = clf.decide(X, name).actions
        for row in range(0, len(y), 17):
            costs = [sum(shares[row, t] * abs(t - d) ** power for t in range(3)) for d in range(3)]
            assert found[row] == ORDER[int(np.argmin(costs))]
    median = (clf.predict_cumulative(X) < 0.5).sum(axis=1)
    assert (clf.decide(X, "absolute").actions == np.array(ORDER)[median]).all()
    skewed = [[0, 5, 9], [1, 0, 5], [1, 1, 0]]
    wanted = (shares @ np.array(skewed).T).argmin(axis=1)
    assert (clf.decide(X, skewed).actions == np.array(ORDER)[wanted]).all()
    plain = BayesNetClassifier("naive", "ml").fit(X, y)
    with pytest.raises(ConfigurationError, match="needs ordered classes"):
        plain.decide(X, "absolute")
    with pytest.raises(ConfigurationError, match="3 by 3 numbers"):
        plain.decide(X, [[0, 1]])
    with pytest.raises(ConfigurationError, match="costs='cubic'"):
        plain.decide(X, "cubic")


@pytest.mark.parametrize("sign", [1, -1])
def test_one_sign_makes_every_higher_class_more_likely_along_a_feature(sign):
    X, y = table(600)
    y = np.array(["a0", "b1", "c2", "d3"])[
        np.clip(np.array([ORDER.index(v) for v in y]) + (np.arange(600) % 3 == 0), 0, 3)
    ]
    order = ["a0", "b1", "c2", "d3"][::sign]
    clf = BayesNetClassifier(monotonic={"x": sign}, classes_ordered=order, random_state=0)
    clf.fit(X, y)
    grid = np.linspace(-2.5, 2.5, 41)
    for z in (-1.0, 0.0, 1.5):
        rows = pa.table({"x": grid, "z": np.full(41, z)})
        steps = np.diff(clf.predict_cumulative(rows)[:, :-1], axis=0)
        assert (sign * steps <= 1e-9).all()


@pytest.mark.parametrize("seed", range(5))
def test_the_gradient_of_the_ranked_probability_is_that_of_finite_differences(seed):
    rng = np.random.default_rng(seed)
    log_joint, y = rng.normal(size=(6, 4)), rng.integers(0, 4, 6)
    _, gradient = RankedProbability()(log_joint, y)
    for at in np.ndindex(*log_joint.shape):
        step = np.zeros_like(log_joint)
        step[at] = 1e-6
        up, down = (RankedProbability()(log_joint + s * step, y)[0] for s in (1, -1))
        assert np.isclose((up - down) / 2e-6, gradient[at], atol=1e-7)


def test_ordinal_scores_by_hand():
    shares = np.array([[0.2, 0.3, 0.5], [0.9, 0.1, 0.0]])
    labels = np.array([2, 2])
    wanted = [(0.2**2 + 0.5**2), (0.9**2 + 1.0**2)]
    assert np.isclose(ranked_probability_score(shares, labels), np.mean(wanted))
    assert rank_error(shares, labels) == (1 + 2) / 2
    values, _ = RankedProbability().rows(np.log(shares + 1e-12), labels)
    assert np.allclose(values, wanted, atol=1e-6)


def test_training_on_the_ranked_probability_lowers_it():
    X, y = table()
    clf = BayesNetClassifier(
        "naive", Hybrid(loss="rps", training=Training(30)), classes_ordered=ORDER
    ).fit(X, y)
    labels = np.array([ORDER.index(label) for label in y])
    before = np.tile(np.bincount(labels) / len(labels), (len(labels), 1))
    assert ranked_probability_score(clf.predict_proba(X), labels) < 0.7 * ranked_probability_score(
        before, labels
    )


@pytest.mark.parametrize("order", ["low", ["low"], ["low", "low", "mid"], 3])
def test_orders_that_are_none_are_refused(order):
    X, y = table(50)
    with pytest.raises(ConfigurationError, match="classes_ordered"):
        BayesNetClassifier("naive", "ml", classes_ordered=order).fit(X, y)


def test_a_class_that_the_order_lacks_is_refused():
    X, y = table(50)
    with pytest.raises(DataError, match=r"of the classes 'low', 'high'. .* in classes_ordered"):
        BayesNetClassifier("naive", "ml", classes_ordered=["low", "high"]).fit(X, y)
