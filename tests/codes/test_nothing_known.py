"""Columns and rows of which nothing is known, under ``missing="marginalize"``."""

from __future__ import annotations

import numpy as np
import pytest

import tanager
from tanager import BayesNetClassifier
from tanager.errors import ColumnWarning, DataError

CONTRACT = ["monthly", "yearly", "monthly"] * 10
USE = np.arange(30) % 7 * 1.5
CHURN = [1, 0, 0] * 10


@pytest.mark.parametrize("learners", [("naive", "laplace"), ("tan", "hdp"), ("auto", "layered")])
def test_rows_without_a_cell_get_the_class_prior(learners):
    X = {"contract": CONTRACT, "use": USE}
    clf = BayesNetClassifier(*learners, missing="marginalize", random_state=0).fit(X, CHURN)
    one = clf.predict_proba([{"contract": None}])
    assert np.array_equal(clf.predict_proba([{}]), one)
    assert np.array_equal(clf.predict_proba([{}] * 7), np.repeat(one, 7, axis=0))
    assert np.array_equal(clf.predict_proba([{}, {"contract": "yearly"}])[:1], one)
    np.testing.assert_allclose(one, np.exp(clf.network_.log_prior)[None], rtol=1e-9)


def test_where_missing_is_a_value_a_row_needs_its_cells():
    clf = BayesNetClassifier("naive", "laplace").fit({"contract": CONTRACT, "use": USE}, CHURN)
    words = r"lacks the column\(s\) 'contract', 'use'\. It has none\. .* or fit with missing='marg"
    with pytest.raises(DataError, match=words):
        clf.predict_proba([{}])
    with pytest.raises(DataError, match="No target column"):
        BayesNetClassifier("naive", "laplace").fit([{}] * 3, "contract")
    with pytest.raises(DataError, match="no column besides the target"):
        BayesNetClassifier("naive", "laplace").fit([{}] * 3, [0, 1, 0])


@pytest.mark.parametrize("empty", [[None] * 30, [np.nan] * 30], ids=["null", "nan"])
@pytest.mark.parametrize("audit", [True, False])
@pytest.mark.parametrize("learners", [("naive", "laplace"), ("tan", "hdp"), ("auto", "layered")])
def test_a_column_that_is_all_missing_is_left_out(learners, audit, empty, tmp_path):
    X = {"contract": CONTRACT, "use": USE, "fax": empty}
    options = {"missing": "marginalize", "random_state": 0, "audit": audit}
    clf = BayesNetClassifier(*learners, **options)
    with pytest.warns(ColumnWarning, match=r"'fax' left out \(every row is missing\)"):
        clf.fit(X, CHURN)
    if learners[1] != "layered":  # which also weighs how many columns there are
        without = {"contract": CONTRACT, "use": USE}
        expected = BayesNetClassifier(*learners, **options).fit(without, CHURN)
        found = clf.predict_proba(X)
        np.testing.assert_allclose(found, expected.predict_proba(without), rtol=1e-9)
    for value in (None, "yes", 3.5):
        rows = [{"contract": "monthly", "fax": value}] * 9
        assert np.array_equal(clf.predict_proba(rows[:1]), clf.predict_proba(rows)[:1])
    tanager.save(clf, tmp_path / "m")
    assert np.array_equal(tanager.load(tmp_path / "m").predict_proba(X), clf.predict_proba(X))
    assert clf.network_.codebook.columns[2].arity == 1


def test_more_rows_after_a_column_that_was_all_missing():
    X = {"contract": CONTRACT, "fax": [None] * 30}
    clf = BayesNetClassifier("naive", "laplace", missing="marginalize")
    with pytest.warns(ColumnWarning, match="left out"):
        clf.partial_fit(X, CHURN)
    clf.partial_fit({"contract": CONTRACT, "fax": [1.5] * 30}, CHURN)
    assert clf.info_["codes"]["rows"] == 60
