"""The estimator as its users meet it."""

from __future__ import annotations

import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.naive_bayes import CategoricalNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from tanager import BayesNetClassifier
from tanager.errors import ColumnWarning, ConfigurationError, DataError
from tanager.parameters import Laplace, MEstimate
from tanager.structure import KDB, Fixed


@pytest.fixture(scope="module")
def weather():
    rng = np.random.default_rng(0)
    n = 400
    sky = rng.choice(["sun", "rain", "cloud"], n)
    wet = np.where(rng.random(n) < 0.8, np.where(sky == "rain", "wet", "dry"), "wet")
    heat = rng.normal(20, 5, n)
    play = np.where((heat > 18) & (wet == "dry") | (rng.random(n) < 0.1), "yes", "no")
    frame = pd.DataFrame(
        {
            "sky": pd.Series(sky, dtype="category"),
            "wet": wet,
            "heat": heat,
            "day": rng.random(n) > 0.5,
        }
    )
    return frame, play


def test_naive_laplace_equals_scikit_learn(weather):
    rng = np.random.default_rng(1)
    X = rng.integers(0, 4, (300, 6))
    y = rng.integers(0, 3, 300)
    ours = BayesNetClassifier("naive", "laplace", categorical_features="all").fit(X, y)
    theirs = CategoricalNB(alpha=1.0).fit(X, y)
    # scikit-learn leaves the class prior unsmoothed.
    shift = np.log((np.bincount(y) + 1) / 303) - theirs.class_log_prior_
    joint = theirs.predict_joint_log_proba(X) + shift
    assert ours.predict_joint_log_proba(X) == pytest.approx(joint, abs=1e-10)


@pytest.mark.parametrize("structure", ["naive", "tan", KDB(k=2), Fixed({"wet": ["sky"]})])
@pytest.mark.parametrize("parameters", ["ml", "laplace", "m-estimate", MEstimate(m=1.0)])
@pytest.mark.parametrize("missing", ["value", "marginalize"])
def test_probabilities_sum_to_one_and_explanations_to_the_joint(
    weather, structure, parameters, missing
):
    X, y = weather
    X = X.copy()
    X.loc[::7, "heat"] = np.nan
    X.loc[::11, "wet"] = None
    clf = BayesNetClassifier(structure, parameters, missing=missing).fit(X, y)
    new = X.head(40).assign(sky=["hail"] * 20 + ["sun"] * 20)  # 'hail' was never seen
    proba = clf.predict_proba(new)
    assert proba.sum(axis=1) == pytest.approx(np.ones(40))
    joint = clf.predict_joint_log_proba(new)
    parts, prior = clf.explain(new), clf.network_.log_prior
    assert list(parts.columns) == list(X.columns)
    odds = parts.sum(axis=1).to_numpy() + prior[1] - prior[0]
    assert odds == pytest.approx(joint[:, 1] - joint[:, 0], abs=1e-9)
    assert np.array_equal(clf.predict(new), clf.classes_[proba.argmax(axis=1)])


def test_contributions_of_three_classes_split_the_log_odds():
    X, y = load_iris(return_X_y=True)
    clf = BayesNetClassifier("tan", "laplace").fit(X, y)
    joint, prior = clf.predict_joint_log_proba(X), clf.network_.log_prior
    two = clf.explain(X, target=2, against=0)
    assert two.shape == X.shape
    assert two.sum(axis=1) + prior[2] - prior[0] == pytest.approx(joint[:, 2] - joint[:, 0])
    # Against the geometric mean of the others; by default of the class that is predicted.
    for target in (None, 1):
        best = clf.predict(X) if target is None else np.full(len(X), target)
        own = np.take_along_axis(joint - prior, best[:, None], axis=1)[:, 0]
        rest = ((joint - prior).sum(axis=1) - own) / 2
        assert clf.explain(X, target).sum(axis=1) == pytest.approx(own - rest)
    why = clf.explain_row(X[70:71], target=1, against=2)
    assert why.contributions == pytest.approx(clf.explain(X[70:71], 1, 2)[0])
    with pytest.raises(ConfigurationError, match="not one of the classes"):
        clf.explain(X, target="rose")


def test_columns_are_matched_by_name(weather):
    X, y = weather
    clf = BayesNetClassifier("tan", "laplace").fit(X, y)
    expected = clf.predict_proba(X)
    assert np.array_equal(clf.predict_proba(X[X.columns[::-1]]), expected)
    with pytest.raises(DataError, match=r"lacks the column.*'heat'"):
        clf.predict(X.drop(columns="heat"))
    with pytest.raises(DataError, match="unseen in fit: 'extra'"):
        clf.predict(X.assign(extra=1))


def test_the_target_may_be_a_column_and_the_table_a_file(weather, tmp_path):
    X, y = weather
    table = X.assign(play=y)
    table.to_parquet(tmp_path / "weather.parquet")
    table.assign(wet=table["wet"].astype(str)).to_csv(tmp_path / "weather.csv", index=False)
    direct = BayesNetClassifier("tan", "laplace").fit(X, y)
    by_name = BayesNetClassifier("tan", "laplace").fit(table, "play")
    streamed = BayesNetClassifier("tan", "laplace").fit(tmp_path / "weather.parquet", "play")
    text = BayesNetClassifier("tan", "laplace").fit(str(tmp_path / "weather.csv"), "play")
    expected = direct.predict_proba(X)
    assert np.array_equal(by_name.predict_proba(X), expected)
    assert np.array_equal(streamed.predict_proba(X), expected)
    assert np.array_equal(text.predict_proba(X), expected)
    assert direct.structure_.parents == streamed.structure_.parents


def test_threads_do_not_change_the_model(weather):
    X, y = weather
    one = BayesNetClassifier(KDB(k=2), "m-estimate", n_jobs=1).fit(X, y)
    four = BayesNetClassifier(KDB(k=2), "m-estimate", n_jobs=4).fit(X, y)
    assert np.array_equal(one.predict_proba(X), four.predict_proba(X))


def test_weights_are_repetitions(weather):
    X, y = weather
    X = X.drop(columns="heat")
    twice = np.arange(len(X)) % 4 == 0
    order = np.concatenate([np.arange(len(X)), np.flatnonzero(twice)])
    weighted = BayesNetClassifier("tan", Laplace()).fit(X, y, sample_weight=1 + twice)
    repeated = BayesNetClassifier("tan", Laplace()).fit(X.iloc[order], y[order])
    assert np.array_equal(weighted.predict_proba(X), repeated.predict_proba(X))


def test_balanced_classes_get_equal_priors():
    X = [["a"], ["a"], ["b"], ["b"], ["b"], ["b"]]
    clf = BayesNetClassifier("naive", "ml", class_weight="balanced")
    clf.fit(X, [0, 0, 1, 1, 1, 1])
    assert clf.network_.log_prior == pytest.approx(np.log([0.5, 0.5]))


def rare_class():
    """48 rows of 5,000 are of the rare class, which three of eight numbers tell apart."""
    rng = np.random.default_rng(3)
    y = np.zeros(5000, dtype=int)
    y[:48] = 1
    X = rng.normal(size=(5000, 8))
    X[y == 1, :3] += 1.5
    order = rng.permutation(5000)
    return X[order], y[order]


@pytest.mark.parametrize("parameters", ["hdp", "layered"])
def test_class_weights_change_the_prior_and_nothing_else(parameters):
    X, y = rare_class()
    weights = {0: 1.0, 1: 20.0}
    plain = BayesNetClassifier("tan", parameters).fit(X, y)
    weighted = BayesNetClassifier("tan", parameters, class_weight=weights).fit(X, y)
    assert weighted.network_.codebook.columns == plain.network_.codebook.columns
    assert weighted.structure_ == plain.structure_
    odds = plain.predict_proba(X) * [1.0, 20.0]  # the closed form: odds times the factor
    expected = odds / odds.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(weighted.predict_proba(X), expected, rtol=1e-9, atol=1e-12)


def test_balanced_weights_find_a_rare_class():
    X, y = rare_class()
    half = slice(0, 2500), slice(2500, 5000)
    plain = BayesNetClassifier("tan", "hdp").fit(X[half[0]], y[half[0]])
    balanced = BayesNetClassifier("tan", "hdp", class_weight="balanced")
    balanced.fit(X[half[0]], y[half[0]])
    rare = y[half[1]] == 1
    found = [clf.predict(X[half[1]])[rare].mean() for clf in (plain, balanced)]
    assert found[0] < 0.3
    assert found[1] > 0.7


def test_partial_fit_balances_all_rows_so_far():
    rows, labels = [["a"], ["b"]] * 6, [0, 1, 1] * 4
    parts = BayesNetClassifier("naive", "ml", class_weight="balanced")
    for low in range(0, 12, 3):
        parts.partial_fit(rows[low : low + 3], labels[low : low + 3], classes=[0, 1])
    assert parts.network_.log_prior == pytest.approx(np.log([0.5, 0.5]))


def test_wrong_class_weights_are_refused_before_the_work():
    X, y = rare_class()
    for wrong in ({2: 1.0}, "even", {0: 0.0, 1: 0.0}, {0: -1.0}):
        clf = BayesNetClassifier("tan", "hdp", class_weight=wrong)
        with pytest.raises((ConfigurationError, DataError), match="weight"):
            clf.fit(X, y)
        assert not hasattr(clf, "network_")


def test_partial_fit_adds_up_to_fit(weather):
    X, y = weather
    X = X.drop(columns="heat")
    structure = Fixed({"wet": ["sky"], "day": ["wet", "sky"]})
    whole = BayesNetClassifier(structure, MEstimate(m=1.0)).fit(X, y)
    parts = BayesNetClassifier(structure, MEstimate(m=1.0))
    for low in range(0, 400, 100):
        rows = slice(low, low + 100)
        parts.partial_fit(X.iloc[rows], y[rows], classes=["no", "yes"])
    assert np.array_equal(whole.predict_proba(X), parts.predict_proba(X))


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
def test_partial_fit_reads_files(weather, tmp_path, ending):
    X, y = weather
    table = X.assign(play=y, weight=np.linspace(0, 1, len(y)))
    path = str(tmp_path / f"part.{ending}")
    write = {"csv": table.to_csv, "parquet": table.to_parquet, "feather": table.to_feather}
    write[ending](path, **({"index": False} if ending == "csv" else {}))
    clf = BayesNetClassifier("tan", "laplace").fit(table, "play", sample_weight="weight")
    again = clone(clf).fit(table, "play", sample_weight="weight")
    again.partial_fit(path, "play", sample_weight="weight")
    clf.partial_fit(table, "play", sample_weight="weight")
    assert np.array_equal(again.predict_proba(X), clf.predict_proba(X))
    with pytest.raises(DataError, match="No target column 'wins' in the table"):
        clf.partial_fit(path, "wins")


def test_partial_fit_that_fails_changes_nothing(weather, monkeypatch):
    X, y = weather
    clf = BayesNetClassifier("tan", "laplace").fit(X, y)
    before, growth = clf.network_, clf._kept_counts
    with monkeypatch.context() as patch:
        patch.setattr(Laplace, "family", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            clf.partial_fit(X, y)
    assert clf.network_ is before
    assert clf._kept_counts is growth
    clf.set_params(class_weight={"maybe": 2})
    with pytest.raises(ConfigurationError, match="maybe"):
        clf.partial_fit(X, y)
    assert clf.network_ is before
    assert clf._kept_counts is growth


def test_partial_fit_tells_long_structures_apart():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 2, (80, 60)).astype(str), columns=[f"c{i}" for i in range(60)])
    y = rng.integers(0, 2, 80)
    chain = {f"c{i}": [f"c{i - 1}"] for i in range(1, 60)}
    clf = BayesNetClassifier(Fixed(chain), "laplace").fit(X, y)
    clf.partial_fit(X, y)
    del chain["c59"]
    with pytest.raises(ConfigurationError, match="but the first rows were learned with"):
        clf.set_params(structure=Fixed(chain)).partial_fit(X, y)


@pytest.mark.parametrize(("axis", "other"), [("parameters", "ml"), ("structure", "naive")])
def test_partial_fit_refuses_other_learners_than_those_of_the_first_rows(weather, axis, other):
    X, y = weather
    clf = BayesNetClassifier("tan", "laplace").fit(X, y)
    first = getattr(clf, axis)
    clf.set_params(**{axis: other})
    with pytest.raises(ConfigurationError, match=f"{axis}=.*but the first rows were learned with"):
        clf.partial_fit(X, y)
    clf.set_params(**{axis: first}).partial_fit(X, y)
    assert clf._kept_counts.classes.sum() == 2 * len(y)


@pytest.mark.parametrize("parameters", ["ml", "laplace", "m-estimate", "hdp"])
def test_a_class_of_no_weight_in_a_family_too_large_for_an_array(parameters):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({n: np.char.add("v", rng.integers(0, 300, 1000).astype(str)) for n in "abc"})
    y = rng.integers(0, 3, 1000)
    clf = BayesNetClassifier(KDB(k=2), parameters, class_weight={1: 0.0}).fit(X, y)
    assert np.isfinite(clf.predict_proba(X)).all()


def test_partial_fit_knows_classes_that_come_later():
    clf = BayesNetClassifier("naive", "laplace")
    clf.partial_fit([["a"], ["b"]], [0, 0], classes=[0, 1])
    clf.partial_fit([["b"], ["b"]], [1, 1])
    assert clf.classes_.tolist() == [0, 1]
    assert clf.predict([["b"]]).tolist() == [1]


def test_it_works_where_scikit_learn_estimators_do(weather):
    X, y = load_breast_cancer(return_X_y=True)
    search = GridSearchCV(
        BayesNetClassifier(KDB(), "laplace"),
        {"structure__k": [0, 1], "parameters": ["ml", "laplace"]},
        cv=2,
    ).fit(X, y)
    assert search.best_score_ > 0.9
    pipeline = make_pipeline(FunctionTransformer(), BayesNetClassifier("tan", "laplace"))
    proba = cross_val_predict(pipeline, X, y, cv=3, method="predict_proba")
    assert proba.shape == (569, 2)
    calibrated = CalibratedClassifierCV(BayesNetClassifier("tan", "laplace"), cv=2).fit(X, y)
    assert calibrated.predict_proba(X).shape == (569, 2)


def test_a_learner_given_by_name_has_its_parameters_too(weather):
    X, y = weather
    clf = BayesNetClassifier("kdb", "m-estimate").set_params(structure__k=2, parameters__m=3.0)
    assert (clf.structure.k, clf.parameters.m) == (2, 3.0)
    search = GridSearchCV(
        BayesNetClassifier("tan", "laplace"),
        {"structure": ["kdb"], "structure__k": [0, 2], "parameters__alpha": [0.5]},
        cv=2,
    ).fit(X, y)
    assert search.best_params_["structure__k"] in (0, 2)
    assert search.best_estimator_.parameters.alpha == 0.5
    with pytest.raises(ValueError, match="Invalid parameter 'z'"):
        clf.set_params(structure__z=1)


def test_auto_is_resolved_by_the_parameters_that_are_set_with_it():
    clf = BayesNetClassifier().set_params(parameters="hdp", structure__root="first")
    expected = BayesNetClassifier("auto", "hdp").set_params(structure__root="first")
    assert repr(clf.structure) == repr(expected.structure)
    assert clf.parameters == "hdp"


def test_weights_are_routed(weather):
    X, y = weather
    weights = np.random.default_rng(2).random(len(y))
    clf = BayesNetClassifier(KDB(k=1), "laplace")
    alone = clone(clf).fit(X, y, sample_weight=weights).predict_proba(X)
    assert not np.allclose(alone, clone(clf).fit(X, y).predict_proba(X))
    with config_context(enable_metadata_routing=True):
        asked = clone(clf).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        steps = make_pipeline(FunctionTransformer(), asked)
        piped = clone(steps).fit(X, y, sample_weight=weights)
        assert np.array_equal(piped.predict_proba(X), alone)
        if tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8):
            return  # a pipeline does not pass weights on to score before
        grid = {"bayesnetclassifier__structure__k": [1]}
        search = GridSearchCV(steps, grid, cv=2).fit(X, y, sample_weight=weights)
        assert np.array_equal(search.predict_proba(X), alone)


def test_clone_and_pickle(weather):
    X, y = weather
    clf = BayesNetClassifier(KDB(k=2), MEstimate(m=0.5)).fit(X, y)
    again = pickle.loads(pickle.dumps(clf))
    assert np.array_equal(again.predict_proba(X), clf.predict_proba(X))
    copy = clone(clf)
    assert not hasattr(copy, "network_")
    assert copy.get_params()["structure__k"] == 2


def test_info_tells_what_happened(weather):
    X, y = weather
    clf = BayesNetClassifier("tan", "m-estimate").fit(X, y)
    assert set(clf.info_) == {"codes", "structure", "parameters"}
    assert clf.info_["parameters"]["m"] in MEstimate.candidates
    assert all(stage["seconds"] >= 0 for stage in clf.info_.values())
    # Values and pairs in one pass; the rest for choosing m: counts, and their classes.
    assert clf.info_["structure"]["passes"] == 1
    assert clf.info_["parameters"]["passes"] >= 1


@pytest.mark.parametrize("target", [["a", "b"], [True, False], [3, 7], pd.Categorical(["x", "y"])])
def test_classes_keep_their_type(target):
    clf = BayesNetClassifier("naive", "laplace").fit([["u"], ["v"]], target)
    assert clf.predict([["u"], ["v"]]).tolist() == list(target)


def test_one_class_one_feature_one_row():
    with pytest.warns(ColumnWarning, match="one class only"):
        clf = BayesNetClassifier("tan", "m-estimate").fit([["a"]], ["only"])
    assert clf.predict_proba([["zzz"]]).tolist() == [[1.0]]


def test_many_classes():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(300), 4)
    X = np.stack([y % 17, y // 17, rng.integers(0, 3, 1200)], axis=1)
    clf = BayesNetClassifier("tan", "m-estimate", categorical_features="all").fit(X, y)
    assert clf.score(X, y) > 0.95
    assert clf.predict_proba(X).sum(axis=1) == pytest.approx(np.ones(1200))


def test_verbose_shows_bars_on_stderr(capsys):
    X, y = load_iris(return_X_y=True)
    BayesNetClassifier("tan", "laplace", verbose=1).fit(X, y)
    assert "pair counts" in capsys.readouterr().err


def test_wrong_choices_say_what_is_allowed():
    X, y = [["a"], ["b"]], [0, 1]
    with pytest.raises(ConfigurationError, match="structure='cow'"):
        BayesNetClassifier("cow", "laplace").fit(X, y)
    with pytest.raises(ConfigurationError, match="parameters='cow'"):
        BayesNetClassifier("tan", "cow").fit(X, y)
    with pytest.raises(ConfigurationError, match="n_jobs='two'"):
        BayesNetClassifier("tan", "laplace", n_jobs="two").fit(X, y)
    for engine in ("spark", 3):
        with pytest.raises(ConfigurationError, match=f"engine={engine!r} isn't valid"):
            BayesNetClassifier("tan", "laplace", engine=engine).fit(X, y)
    with pytest.raises(ConfigurationError, match=r"alpha='a'. Allowed: a number above 0"):
        BayesNetClassifier("tan", Laplace(alpha="a")).fit(X, y)
    with pytest.raises(ConfigurationError, match=r"m=None. Allowed: 'cv', or a number from 0 on"):
        BayesNetClassifier("tan", MEstimate(m=None)).fit(X, y)
    with pytest.raises(ConfigurationError, match="Fixed takes a mapping"):
        BayesNetClassifier(Fixed(["x0"]), "laplace").fit(X, y)
    with pytest.raises(ConfigurationError, match="target y is None"):
        BayesNetClassifier("tan", "laplace").fit(X)


@pytest.mark.parametrize("X", [np.empty((0, 2)), pd.DataFrame({"a": []}), np.array([[1j]])])
def test_tables_that_cannot_be_learned_from_are_data_errors(X):
    with pytest.raises(DataError):
        BayesNetClassifier("tan", "laplace").fit(X, np.zeros(len(X)))


def test_a_lazy_frame_is_refused_without_being_computed():
    lazy = pl.DataFrame({"a": [1, 2]}).lazy()
    with pytest.raises(DataError, match="X is a LazyFrame"):
        BayesNetClassifier("tan", "laplace").fit(lazy, [0, 1])


def test_the_decision_function_is_the_log_odds():
    X, y = load_breast_cancer(return_X_y=True)
    two = BayesNetClassifier("naive", "laplace").fit(X, y)
    p = two.predict_proba(X[:50])
    np.testing.assert_allclose(two.decision_function(X[:50]), np.log(p[:, 1] / p[:, 0]), rtol=1e-9)
    X, y = load_iris(return_X_y=True)
    three = BayesNetClassifier("naive", "laplace").fit(X, y)
    scores = three.decision_function(X)
    assert np.array_equal(scores, three.predict_log_proba(X))
    assert np.array_equal(three.classes_[scores.argmax(axis=1)], three.predict(X))


def test_score_takes_arrays_tables_and_files(weather, tmp_path):
    X, y = weather
    table = X.assign(play=y, weight=np.arange(len(y)) % 3)
    path = str(tmp_path / "table.csv")
    table.to_csv(path, index=False)
    clf = BayesNetClassifier("naive", "laplace").fit(X, y)
    right = clf.predict(X) == y
    assert clf.score(X, y) == right.mean()
    assert clf.score(table.drop(columns="weight"), "play") == right.mean()
    assert clf.score(path, "play", sample_weight="weight") == pytest.approx(
        np.average(right, weights=table["weight"])
    )
    with pytest.raises(ConfigurationError, match="name of their column"):
        clf.score(X)


@pytest.mark.parametrize(
    "labels",
    [
        np.array([Decimal("1"), Decimal("2.5")], object),
        np.array([True, 0], object),
        np.array([0.0, 1e300]),
        np.array([-0.0, 1.0]),
    ],
)
def test_score_takes_what_fit_takes(weather, labels):
    X, y = weather
    given = labels[(np.asarray(y) == "yes").astype(int)]
    clf = BayesNetClassifier("naive", "laplace").fit(X, y)
    assert BayesNetClassifier("naive", "laplace").fit(X, given).score(X, given) == clf.score(X, y)
    assert clf.score(X, ["neither", *y[1:]]) == (clf.predict(X) == ["neither", *y[1:]]).mean()
    with pytest.raises(DataError, match="X has 400 rows, y 399"):
        clf.score(X, y[1:])


def test_parameters_of_an_option_that_has_none(weather):
    with pytest.raises(ConfigurationError, match="engine='local' has no parameters, so engine__k"):
        BayesNetClassifier().set_params(engine__k=2)


def test_info_is_readable_and_a_dictionary(weather, caplog):
    X, y = weather
    with caplog.at_level("INFO", logger="tanager"):
        clf = BayesNetClassifier("tan", "hdp").fit(X, y)
    text = str(clf.info_)
    assert text.startswith("codes\n  ")
    assert "in info_['parameters']['families']" in text
    assert len(text) < 2500
    assert clf.info_["structure"]["mutual_information"]["sky"] > 0
    assert [r.message.split(":")[0] for r in caplog.records] == ["codes", "structure", "parameters"]


@pytest.mark.parametrize("library", [pd, pl])
def test_the_target_is_called_as_its_series(library):
    frame = library.DataFrame({"wet": ["yes", "no", "no"] * 20, "heat": [20.5, 11.0] * 30})
    whole = library.DataFrame({"wet": frame["wet"], "heat": frame["heat"], "out": ["a", "b"] * 30})
    model = BayesNetClassifier("naive", "laplace").fit(frame, whole["out"])
    assert model.network_.codebook.target.name == "out"
    assert (model.predict(whole) == model.predict(frame)).all()
    # A name that says nothing, or that a feature has, is no name for the classes.
    for name in ("heat", ""):
        again = BayesNetClassifier("naive", "laplace").fit(frame, whole["out"].rename(name))
        assert again.network_.codebook.target.name == "class"
