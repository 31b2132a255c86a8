from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import CategoricalNB
from sklearn.tree import DecisionTreeClassifier

from tanager.evaluation.encoding import Encoded


def test_bins_are_those_of_the_training_rows(small):
    data = small.load()
    model = Encoded(LogisticRegression(), "onehot").fit(
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
    one_hot = Encoded(LogisticRegression(), "onehot").fit(table, y)
    assert one_hot.encoder_.transform(new).toarray().tolist() == [[0, 0], [1, 0]]
    ordinal = Encoded(CategoricalNB(), "ordinal").fit(table, y)
    assert ordinal.encoder_.transform(new).tolist() == [[2], [0]]
    np.testing.assert_allclose(ordinal.predict_proba(new)[0], [0.5, 0.5])


def test_raw_keeps_numbers_and_codes_categories():
    table = pa.table({"n": [1.5, None, 2.0], "c": ["b", "a", None], "f": [True, False, None]})
    model = Encoded(DecisionTreeClassifier(), "raw").fit(table, np.array([0, 1, 0]))
    matrix = model.encoder_.transform(table)
    np.testing.assert_array_equal(matrix, [[1.5, 1, 1], [np.nan, 0, 0], [2.0, np.nan, np.nan]])
    unseen = model.encoder_.transform(pa.table({"n": [1], "c": ["q"], "f": [True]}))
    np.testing.assert_array_equal(unseen, [[1, np.nan, 1]])


@pytest.mark.parametrize("encoding", ["onehot", "ordinal", "raw"])
def test_predictions_are_classes(small, encoding):
    data = small.load()
    model = Encoded(DecisionTreeClassifier(), encoding).fit(data.features, data.labels)
    assert model.predict(data.features).shape == (90,)
    np.testing.assert_allclose(model.predict_proba(data.features).sum(axis=1), 1)
