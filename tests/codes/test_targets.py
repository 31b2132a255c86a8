from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.exceptions import DataConversionWarning

from tanager import BayesNetClassifier
from tanager.codes import learn_codebook
from tanager.codes.targets import as_labels, as_weights, class_factors
from tanager.engines import FitContext
from tanager.errors import ConfigurationError, DataError

X = pa.table({"x": ["a", "b", "a", "c"]})


def learn(y, **options):
    return learn_codebook(X, y, context=FitContext(), **options)


@pytest.mark.parametrize(
    "y",
    [
        ["no", "yes", "no", "maybe"],
        np.array(["no", "yes", "no", "maybe"], dtype=object),
        np.array([3, -1, 3, 7], dtype=np.int8),
        np.array([2, 1, 2, 2**40]),
        np.array([True, False, True, True]),
        np.array([1.0, 0.0, 1.0, 2.0]),
        np.array([1, 0, 1, 2], dtype=object),
        pd.Series(["no", "yes", "no", "maybe"]),
        pd.Series([3, -1, 3, 7], dtype=np.int32),
    ],
)
def test_classes_are_those_of_numpy(y):
    codebook, rows = learn(y)
    expected, codes = np.unique(np.asarray(y), return_inverse=True)
    assert codebook.classes.tolist() == expected.tolist()
    assert codebook.classes.dtype == expected.dtype
    assert rows.gather().labels.tolist() == codes.tolist()
    assert codebook.encode_labels(y).tolist() == codes.tolist()
    assert type(codebook).from_dict(codebook.to_dict()).classes.dtype == expected.dtype


@pytest.mark.parametrize(
    "y",
    [
        pd.Series(["no", "yes", "no", "maybe"], dtype="category"),
        pd.Categorical(["no", "yes", "no", "maybe"], categories=["yes", "never", "no", "maybe"]),
        pl.Series(["no", "yes", "no", "maybe"]),
        pl.Series(["no", "yes", "no", "maybe"], dtype=pl.Categorical),
        pa.array(["no", "yes", "no", "maybe"]),
        pa.chunked_array([["no", "yes"], ["no", "maybe"]]),
    ],
)
def test_categories_and_series(y):
    codebook, rows = learn(y)
    assert codebook.classes.tolist() == ["maybe", "no", "yes"]
    assert rows.gather().labels.tolist() == [1, 2, 1, 0]


def test_one_class_is_a_class():
    codebook, rows = learn(["only"] * 4)
    assert codebook.classes.tolist() == ["only"]
    assert codebook.domain.n_classes == 1
    assert rows.gather().labels.tolist() == [0] * 4


def test_a_column_of_the_table_is_the_target():
    table = X.append_column("y", [["u", "v", "u", "v"]])
    codebook, _ = learn_codebook(table, "y", context=FitContext())
    assert codebook.domain.names == ("x",)
    assert codebook.target.name == "y"
    with pytest.raises(
        DataError, match=r"No target column 'z' in the table. Its columns are: 'x', 'y'"
    ):
        learn_codebook(table, "z", context=FitContext())
    with pytest.raises(DataError, match=r"no column besides the target"):
        learn_codebook(table.select(["y"]), "y", context=FitContext())


def test_a_column_vector_warns_as_scikit_learn_does():
    with pytest.warns(DataConversionWarning):
        codebook, _ = learn(np.array([[0], [1], [0], [1]]))
    assert codebook.classes.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("y", "text"),
    [
        (["a", "b", None, "a"], r"Input y contains NaN or null \(first in row 2, counted from 0\)"),
        ([0.0, 1.0, np.nan, 1.0], "Input y contains NaN"),
        ([0.0, 1.0, np.inf, 1.0], r"Input y contains infinity or a value too large for dtype"),
        ([0.1, 1.0, 2.0, 1.0], "Unknown label type: continuous"),
        (np.array([0.1, 1.0, 2.0, 1.0], dtype=object), "Unknown label type: continuous"),
        (np.array([1, "a", 2, "b"], dtype=object), "Unknown label type: the target mixes strings"),
        (np.zeros(4, dtype=complex), "Unknown label type"),
        ([0, 1, 0], "inconsistent numbers of samples: the table has 4 rows, the target 3"),
    ],
)
def test_bad_targets(y, text):
    with pytest.raises(DataError, match=text):
        learn(y)


@pytest.mark.parametrize(
    ("y", "text"),
    [
        ([0.25, 1.0, 2.0, 1.0], r"Maybe the target 'price' is .* such as 0\.25\. .* pandas\.cut"),
        ([0.0, 1.0, None, 1.0], "Target column 'price': input y contains NaN"),
        ([1 + 2j] * 4, "the target 'price' is of the type complex128"),
    ],
)
def test_errors_call_a_series_by_its_name(y, text):
    with pytest.raises(DataError, match=text):
        learn(pd.Series(y, name="price"))
    with pytest.raises(DataError) as unnamed:
        learn(pd.Series(y))
    assert "price" not in str(unnamed.value)


def test_a_label_never_seen_is_named():
    codebook, _ = learn(["no", "yes", "no", "yes"])
    with pytest.raises(DataError, match=r"The label 'maybe' is not one of the classes 'no', 'yes'"):
        codebook.encode_labels(["no", "maybe"])


def test_weights():
    y = ["no", "yes", "no", "yes"]
    assert learn(y, sample_weight=np.ones(4))[1].gather().weights is None
    rows = learn(y, sample_weight=[0.5, 2.0, 1.0, 0.0])[1]
    assert rows.n_rows == 3  # a row of weight zero is as good as absent
    assert rows.gather().weights.tolist() == [0.5, 2.0, 1.0]
    assert rows.total_weight == 3.5


def test_rows_of_weight_zero_leave_no_values_but_their_class():
    codebook, _ = learn(["u", "v", "u", "w"], sample_weight=[1, 1, 1, 0])
    assert codebook.columns[0].labels() == ["a", "b"]
    assert codebook.classes.tolist() == ["u", "v", "w"]


@pytest.mark.parametrize(
    ("weight", "text"),
    [
        ([1, -1, 1, 1], "sample_weight of row 1 is -1.0"),
        ([1, 1, np.nan, 1], "sample_weight of row 2 is nan"),
        ([1, 1, 1, np.inf], "sample_weight of row 3 is inf"),
        ([1, 1, 1], "sample_weight has 3 entries where the table has 4 rows"),
        ([[1, 1], [1, 1]], "Sample weights must be 1D"),
        ([0, 0, 0, 0], "Every sample_weight is zero"),
        (["a", "b", "c", "d"], "sample_weight holds a value that isn't a number"),
    ],
)
def test_bad_weights(weight, text):
    with pytest.raises(DataError, match=text):
        learn([0, 1, 0, 1], sample_weight=weight)


def test_weights_in_a_column_of_text():
    table = pa.table({"x": ["a", "b"], "w": ["light", "heavy"]})
    with pytest.raises(DataError, match=r"weights in column 'w' are text"):
        learn_codebook(table, [0, 1], sample_weight="w", context=FitContext())


def test_factors_of_classes():
    classes, sums = np.array(["no", "yes"]), np.array([3.0, 1.0])
    assert class_factors(None, classes, sums).tolist() == [1, 1]
    assert class_factors("balanced", classes, sums) == pytest.approx([2 / 3, 2])
    assert class_factors({"yes": 0.5}, classes, sums).tolist() == [1, 0.5]
    for wrong in ("heavy", 3, {"z": 1.0}, {"no": -1.0}):
        with pytest.raises(ConfigurationError, match=r"class_weight"):
            class_factors(wrong, classes, sums)


@pytest.mark.parametrize("unit", ["timedelta64[s]", "datetime64[s]", "complex"])
def test_weights_of_other_kinds_are_refused(unit):
    given = np.arange(1, 4).astype(unit)
    with pytest.raises(DataError, match="sample_weight holds a value that isn't a number"):
        as_weights(given, 3)


def test_weights_in_a_column_of_dates_are_refused():
    table = pa.table({"a": [1, 2], "w": pa.array([1, 2], pa.timestamp("s"))})
    with pytest.raises(DataError, match="The weights in column 'w' are dates or times"):
        BayesNetClassifier("naive", "laplace").fit(table, [0, 1], sample_weight="w")


@pytest.mark.parametrize("y", [[1, "1", 2], [True, "yes", "no"], (1.5, "a", "b")])
def test_lists_that_mix_texts_and_numbers_are_refused_as_arrays_are(y):
    for given in (y, np.array(y, dtype=object)):
        with pytest.raises(DataError, match="Unknown label type: the target mixes strings and"):
            as_labels(given)


def test_one_column_cannot_be_both_target_and_weight():
    with pytest.raises(DataError, match="'w' is given as the target and as sample_weight"):
        BayesNetClassifier("naive", "laplace").fit({"a": [1, 2], "w": [1, 2]}, "w", "w")
