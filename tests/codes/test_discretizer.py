from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.naive_bayes import CategoricalNB
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import tanager
from tanager.codes import MDLDiscretizer, learn_codebook
from tanager.engines import FitContext
from tanager.errors import DataError


@parametrize_with_checks([MDLDiscretizer()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_same_cuts_and_codes_as_the_codebook():
    X, y = load_iris(return_X_y=True)
    codebook, rows = learn_codebook(X, y, context=FitContext())
    mdl = tanager.MDLDiscretizer().fit(X, y)
    for cuts, column in zip(mdl.cuts_, codebook.columns, strict=True):
        assert np.array_equal(cuts, column.cuts)
    assert np.array_equal(mdl.transform(X).T, rows.gather().codes)


def test_missing_has_a_code_of_its_own_and_infinity_is_refused():
    X, y = load_iris(return_X_y=True)
    mdl = MDLDiscretizer().fit(X, y)
    X[0] = np.nan
    assert mdl.transform(X[:1]).tolist() == [mdl.n_bins_.tolist()]
    X[0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        mdl.transform(X)


def test_names_and_set_output():
    X, y = load_iris(return_X_y=True, as_frame=True)
    mdl = MDLDiscretizer().set_output(transform="pandas").fit(X, y)
    assert mdl.get_feature_names_out().tolist() == list(X.columns)
    out = mdl.transform(X)
    assert isinstance(out, pd.DataFrame)
    assert list(out.columns) == list(X.columns)


def test_in_a_pipeline_and_with_weights():
    X, y = load_iris(return_X_y=True)
    assert make_pipeline(MDLDiscretizer(), CategoricalNB()).fit(X, y).score(X, y) > 0.9
    twice = MDLDiscretizer().fit(X, y, sample_weight=np.full(len(y), 2.0))
    repeated = MDLDiscretizer().fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    for a, b in zip(twice.cuts_, repeated.cuts_, strict=True):
        assert np.array_equal(a, b)


def test_needs_a_target_of_the_right_length():
    with pytest.raises(DataError, match="requires y"):
        MDLDiscretizer().fit(np.ones((3, 1)), None)
    with pytest.raises(DataError, match="inconsistent numbers of samples"):
        MDLDiscretizer().fit(np.ones((3, 1)), [0, 1])


def test_names_of_columns_are_refused_as_labels_and_weights():
    X = np.ones((3, 2))
    for y, weights in (("x1", None), ([0, 1, 1], "x1")):
        with pytest.raises(DataError, match="as arrays"):
            MDLDiscretizer().fit(X, y, weights)


def test_infinity_is_refused_by_column_and_masks_are_gaps():
    X, y = load_iris(return_X_y=True, as_frame=True)
    mdl = MDLDiscretizer().fit(X, y)
    strange = X.assign(**{"petal length (cm)": np.inf})
    for method in (lambda: MDLDiscretizer().fit(strange, y), lambda: mdl.transform(strange)):
        with pytest.raises(DataError, match=r"Column 'petal length .cm.' contains infinity"):
            method()
    with pytest.raises(DataError, match="Column 'x2' contains infinity"):
        MDLDiscretizer().fit(strange.to_numpy(), y)
    hidden = np.ma.masked_greater(X.to_numpy(), 5.0)
    gaps = hidden.filled(np.nan)
    assert np.array_equal(
        MDLDiscretizer().fit_transform(hidden, y), MDLDiscretizer().fit_transform(gaps, y)
    )
    with pytest.raises(DataError, match="X holds text"):
        MDLDiscretizer().fit(X.to_numpy(), y).transform([["x"] * 4])
