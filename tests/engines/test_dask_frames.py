"""Dask DataFrames: read and predicted a partition at a time."""

from __future__ import annotations

import numpy as np
import pytest

from tanager import BayesNetClassifier
from tanager.errors import DataError
from tests.engines.test_processes import make_table

dd = pytest.importorskip("dask.dataframe", reason="Dask's DataFrames are not installed")


@pytest.fixture(scope="module")
def pandas_frame():
    frame = make_table().to_pandas()
    frame["e"] = frame["a"].fillna("none").astype("category")
    return frame


@pytest.fixture(scope="module")
def dask_frame(pandas_frame):
    return dd.from_pandas(pandas_frame, npartitions=3, sort=False)


@pytest.fixture(scope="module")
def expected(pandas_frame):
    return BayesNetClassifier("tan", "hdp").fit(pandas_frame, "y", sample_weight="w")


def same(one, other):
    assert one.network_.codebook.to_dict() == other.network_.codebook.to_dict()
    assert one.structure_ == other.structure_
    assert one.network_.tables == other.network_.tables


def test_partitions_are_fragments(dask_frame, expected):
    same(BayesNetClassifier("tan", "hdp").fit(dask_frame, "y", sample_weight="w"), expected)


def test_workers_compute_the_partitions(dask_client, dask_frame, expected):
    classifier = BayesNetClassifier("tan", "hdp", engine=dask_client)
    same(classifier.fit(dask_frame, "y", sample_weight="w"), expected)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
def test_predictions_are_computed_or_mapped(pandas_frame, dask_frame, expected, method):
    predict, features = getattr(expected, method), dask_frame.drop(columns=["y", "w"])
    here = predict(pandas_frame.drop(columns=["y", "w"]))
    assert np.array_equal(predict(features), here)
    lazy = features.map_partitions(predict)
    assert type(lazy).__module__.startswith("dask.")
    assert np.array_equal(lazy.compute(scheduler="synchronous"), here)


def test_predictions_are_scored(pandas_frame, dask_frame, expected):
    features, here = dask_frame.drop(columns=["y", "w"]), pandas_frame.drop(columns=["y", "w"])
    assert expected.score(features, dask_frame["y"]) == expected.score(here, pandas_frame["y"])


def test_a_partition_without_rows_is_no_partition(pandas_frame, dask_frame, expected):
    some = dask_frame[dask_frame["b"] >= 0].repartition(npartitions=3)
    empty = dd.concat([dask_frame[dask_frame["b"] < 0], some])
    same(BayesNetClassifier("tan", "hdp").fit(empty, "y", sample_weight="w"), expected)
    found = expected.predict_proba(empty.drop(columns=["y", "w"]))
    assert found.shape == (len(pandas_frame), 3)


def test_partitions_of_different_types_are_named():
    import dask
    import pandas as pd

    parts = [pd.DataFrame({"a": [1.5], "y": [0]}), pd.DataFrame({"a": ["x"], "y": [1]})]
    meta = pd.DataFrame({"a": pd.Series([], dtype=object), "y": pd.Series([], dtype=int)})
    mixed = dd.from_delayed([dask.delayed(p) for p in parts], meta=meta, verify_meta=False)
    with pytest.raises(DataError, match="different types"):
        BayesNetClassifier("naive", "laplace").fit(mixed, "y")


def test_a_partition_that_lacks_a_column_is_named():
    import dask
    import pandas as pd

    whole = pd.DataFrame({"a": np.arange(20.0), "b": np.arange(20.0), "y": [0, 1] * 10})
    for parts in ([whole, whole[["a", "y"]]], [whole[["a", "y"]], whole]):
        frame = dd.from_delayed(
            [dask.delayed(part) for part in parts], meta=whole[:0], verify_meta=False
        )
        with pytest.raises(DataError, match=r"partitions 0 and 1 .* differ in the column\(s\) 'b'"):
            BayesNetClassifier("naive", "laplace").fit(frame, "y")
