from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import CategoricalNB, GaussianNB
from sklearn.tree import DecisionTreeClassifier

from tanager.evaluation import Contender
from tanager.evaluation.encoding import Encoded


def test_bins_are_those_of_the_training_rows(small):
    data = small.load()
    model = Encoded(LogisticRegression(), "binned").fit(
        data.features.slice(0, 60), data.labels[:60]
    )
    codebook = model.encoder_.codebook
    matrix = model.encoder_.transform(data.features).toarray()
    codes = codebook.encode(data.features)
    arities = codebook.domain.arities
    assert matrix.shape == (90, arities.sum())
    blocks = np.split(matrix, np.cumsum(arities)[:-1], axis=1)
    for block, code, arity in zip(blocks, codes, arities, strict=True):
        np.testing.assert_array_equal(block, np.eye(arity + 1)[code][:, :arity])


def test_values_never_seen_have_no_indicator_and_a_code_of_their_own():
    table = pa.table({"a": ["x", "y"] * 6})
    new = pa.table({"a": ["z", "x"]})
    y = np.array([0, 1] * 6)
    one_hot = Encoded(LogisticRegression(), "binned").fit(table, y)
    assert one_hot.encoder_.transform(new).toarray().tolist() == [[0, 0], [1, 0]]
    ordinal = Encoded(CategoricalNB(), "codes").fit(table, y)
    assert ordinal.encoder_.transform(new).tolist() == [[2], [0]]
    np.testing.assert_allclose(ordinal.predict_proba(new)[0], [0.5, 0.5])


TABLE = pa.table({"n": [1.5, None, 2.0], "c": ["b", "a", None], "f": [True, False, None]})
NAN = np.nan


def encode(estimator, table, new=None, encoding="native"):
    """What the classifier gets of the training rows, or of new ones."""
    model = Encoded(estimator, encoding)
    matrix = model.learn_encoding(table, np.arange(len(table)) % 2)
    found = matrix if new is None else model.encoder_.transform(new)
    return (found.toarray() if hasattr(found, "toarray") else found), model


def test_forests_get_raw_numbers_with_gaps_and_an_indicator_per_value():
    matrix, _ = encode(DecisionTreeClassifier(), TABLE)
    # n, c=a, c=b, f=false, f=true
    np.testing.assert_array_equal(matrix, [[1.5, 0, 1, 0, 1], [NAN, 1, 0, 1, 0], [2.0, 0, 0, 0, 0]])
    new, _ = encode(DecisionTreeClassifier(), TABLE, pa.table({"n": [1], "c": ["q"], "f": [True]}))
    np.testing.assert_array_equal(new, [[1, 0, 0, 0, 1]])


def test_boosting_gets_categories_as_categories():
    matrix, model = encode(HistGradientBoostingClassifier(), TABLE)
    np.testing.assert_array_equal(matrix, [[1.5, 1, 1], [NAN, 0, 0], [2.0, NAN, NAN]])
    assert model.estimator_.categorical_features == [1, 2]
    many = pa.table({"c": [f"v{i}" for i in range(300)] * 2})
    _, model = encode(HistGradientBoostingClassifier(), many)
    assert model.estimator_.categorical_features == []  # more than it takes


def test_classifiers_without_gaps_get_standardised_numbers_and_an_indicator():
    matrix, _ = encode(LogisticRegression(), pa.table({"n": [1.0, None, 3.0, 5.0]}))
    filled = np.array([1.0, 3.0, 3.0, 5.0])
    expected = [(filled - filled.mean()) / filled.std(), [0, 1, 0, 0]]
    np.testing.assert_allclose(matrix, np.transpose(expected))


def test_columns_without_a_value_are_left_out():
    gaps = pa.nulls(3)
    empty = {"e": gaps.cast(pa.float64()), "t": gaps.cast(pa.string()), "x": [NAN] * 3}
    table = pa.table({**dict(zip(TABLE.column_names, TABLE.columns, strict=True)), **empty})
    for kind in (HistGradientBoostingClassifier(), LogisticRegression(), DecisionTreeClassifier()):
        np.testing.assert_array_equal(encode(kind, table)[0], encode(kind, TABLE)[0])


@pytest.mark.parametrize("encoding", ["native", "frame"])
def test_without_a_column_of_values_classes_have_their_shares(encoding):
    only_ids = pa.table({"id": [f"u{i}" for i in range(60)], "e": pa.nulls(60, pa.float64())})
    for kind in (HistGradientBoostingClassifier(), LogisticRegression(), DecisionTreeClassifier()):
        model = Encoded(kind, encoding).fit(only_ids, np.repeat([0, 1], [15, 45]))
        np.testing.assert_allclose(model.predict_proba(only_ids)[:, 1], 0.75, atol=0.01)


def test_bins_are_dense_for_who_takes_nothing_else(small):
    data = small.load()
    for kind in (HistGradientBoostingClassifier(max_iter=2), GaussianNB()):
        model = Encoded(kind, "binned").fit(data.features, data.labels)
        assert model.predict_proba(data.features).shape == (90, 3)


def test_ids_are_left_out_and_numbers_in_texts_read():
    table = pa.table(
        {
            "id": [f"u{i}" for i in range(60)],
            "pay": [f"{1000 + 37 * i:,}" for i in range(60)],
            "c": ["a", "b"] * 30,
        }
    )
    matrix, _ = encode(DecisionTreeClassifier(), table)
    assert matrix.shape == (60, 3)
    np.testing.assert_array_equal(matrix[:, 0], 1000 + 37 * np.arange(60))


def test_a_frame_has_numbers_and_categories():
    frame, _ = encode(DecisionTreeClassifier(), TABLE, encoding="frame")
    assert list(frame.columns) == ["n", "c", "f"]
    assert frame["c"].cat.categories.tolist() == ["a", "b"]
    assert frame["c"].isna().tolist() == [False, False, True]


@pytest.mark.parametrize("alias", ["lightgbm", "xgboost", "catboost"])
def test_boosters_of_others_take_categories_natively(alias):
    pytest.importorskip(alias)
    rng = np.random.default_rng(0)
    values = rng.integers(40, size=400)
    y = np.array(rng.permutation(40) % 2)[values]  # no order of the codes tells the class
    table = pa.table({"c": [f"v{v:02}" for v in values], "n": rng.normal(size=400)})
    model = Contender.of(alias).build(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert model.fit(table, y).predict(table).tolist() == y.tolist()


@pytest.mark.parametrize("encoding", ["native", "binned", "codes", "frame"])
def test_predictions_are_classes(small, encoding):
    data = small.load()
    boosting = HistGradientBoostingClassifier(max_iter=3)
    estimator = boosting if encoding == "frame" else DecisionTreeClassifier()
    model = Encoded(estimator, encoding).fit(data.features, data.labels)
    assert model.predict(data.features).shape == (90,)
    np.testing.assert_allclose(model.predict_proba(data.features).sum(axis=1), 1)
