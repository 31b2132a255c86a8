from __future__ import annotations

import subprocess
import sys

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from scipy import sparse

from tanager.errors import DataError
from tanager.sources import Source, open_source
from tanager.sources.plain import numpy_dtype


def rows_of(source, **options):
    return [row for batch in source.batches(**options) for row in batch.to_pylist()]


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.uint8, np.bool_, ">f8", ">i4"])
def test_numeric_arrays_become_named_columns_in_blocks(monkeypatch, dtype):
    monkeypatch.setattr("tanager.sources.source.BATCH_ROWS", 3)
    X = np.arange(24).reshape(8, 3).astype(dtype)
    source = open_source(X)
    assert source.fragments()[0].matrix(source.names) is not None
    assert source.names == ("x0", "x1", "x2")
    assert (source.n_rows, source.in_memory, source.named) == (8, True, False)
    for _ in range(2):
        batches = list(source.batches())
        assert [batch.num_rows for batch in batches] == [3, 3, 2]
        assert np.array_equal(
            np.concatenate([b.column(1).to_numpy(False) for b in batches]), X[:, 1]
        )
    assert rows_of(source, columns=["x2"])[0] == {"x2": X[0, 2]}
    assert source.select(["x2", "x0"]).names == ("x2", "x0")


def test_nan_is_null_and_float16_is_widened():
    X = np.array([[1.0, np.nan], [2.0, 3.0]], dtype=np.float16)
    source = open_source(X)
    assert rows_of(source) == [{"x0": 1.0, "x1": None}, {"x0": 2.0, "x1": 3.0}]
    assert source.column("x1").null_count == 1


@pytest.mark.parametrize(
    ("X", "types"),
    [
        (np.array([["a", "b"], ["c", "d"]]), ["string", "string"]),
        (np.array([["a", 1], [None, 2.5]], dtype=object), ["string", "double"]),
        ([["a", 1], ["b", None]], ["string", "int64"]),
        ([[1, 2], [3, 4]], ["int64", "int64"]),
        ([[1, 2.5], [3, 4]], ["double", "double"]),
        ([(True, "x")], ["bool", "string"]),
        (np.array([[1, True], [2.5, False]], dtype=object), ["double", "bool"]),
    ],
)
def test_objects_and_lists_are_typed_column_by_column(X, types):
    assert [str(kind) for kind in open_source(X).schema.types] == types


def test_dataframes_and_streams_agree():
    table = pa.table({"a": ["x", "y", None], "b": [1, 2, 3]})
    connection = duckdb.connect()
    connection.register("t", table)
    sources = [
        table,
        table.to_batches()[0],
        pa.RecordBatchReader.from_batches(table.schema, table.to_batches()),
        pd.DataFrame({"a": ["x", "y", None], "b": [1, 2, 3]}, index=[4, 4, 9]),
        pl.from_arrow(table),
        connection.sql("select * from t"),
        ds.dataset(table),
    ]
    for X in sources:
        source = open_source(X)
        assert source.n_rows == 3
        assert rows_of(source) == rows_of(source) == table.to_pylist()
        assert rows_of(source, columns=["b"]) == [{"b": 1}, {"b": 2}, {"b": 3}]
        picked = open_source(X).select(["b"]) if not hasattr(X, "read_all") else None
        if picked is not None:
            assert rows_of(picked) == [{"b": 1}, {"b": 2}, {"b": 3}]
    connection.close()


def test_categories_stay_dictionaries():
    frames = [
        pd.DataFrame({"c": pd.Categorical(["u", "v", None])}),
        pl.DataFrame({"c": pl.Series(["u", "v", None], dtype=pl.Categorical)}),
        pl.DataFrame({"c": pl.Series(["u", "v", None], dtype=pl.Enum(["v", "u"]))}),
    ]
    for X in frames:
        source = open_source(X)
        assert pa.types.is_dictionary(source.schema.field("c").type)
        assert source.column("c").to_pylist() == ["u", "v", None]


def test_chunks_with_their_own_dictionaries_are_joined():
    chunks = [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode()]
    source = Source.of_table(pa.table({"c": pa.chunked_array(chunks)}))
    assert source.column("c").to_pylist() == ["a", "b", "c", "a"]
    assert [row["c"] for row in rows_of(source)] == ["a", "b", "c", "a"]


@pytest.mark.parametrize(
    ("X", "text"),
    [
        (np.zeros((0, 3)), r"0 sample\(s\)"),
        (np.zeros((3, 0)), r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1 is required"),
        ([], r"0 feature\(s\)|0 sample\(s\)|Reshape"),
        (pa.table({"a": pa.array([], pa.int64())}), r"0 sample\(s\)"),
        (np.zeros(3), "Expected 2D array, got 1D array instead.*Reshape your data"),
        ([1, 2, 3], "Reshape your data"),
        (np.zeros((2, 2, 2)), "Expected 2D array"),
        (np.zeros((2, 2), dtype=complex), "Complex data not supported"),
        ([[1, 2], [3]], "Row 1 has 1 values where row 0 has 2"),
        ([["a", 1], [2, 3]], "'x0' mixes strings and numbers"),
        (pa.table([[1], [2]], names=["a", "a"]), r"Duplicated column name\(s\): 'a'"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "Duplicated column name"),
        (pd.DataFrame({"a": ["x", 1]}, dtype=object), "'a' mixes strings and numbers"),
        (object(), "X is a object. Allowed: a 2-D NumPy array"),
    ],
)
def test_bad_tables_say_what_and_how_to_mend(X, text):
    with pytest.raises(DataError, match=text):
        open_source(X)


@pytest.mark.parametrize("column", [pd.Series(["a", "b"], name="s"), pl.Series([1, 2])])
def test_a_single_column_is_no_table(column):
    with pytest.raises(DataError, match="Expected 2D array, got a single column"):
        open_source(column)


def test_strange_cells_are_type_errors():
    with pytest.raises(TypeError, match=r"'x0' holds a dict: every argument must be a string or a"):
        open_source(np.array([[{"foo": 1}], ["a"]], dtype=object))
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        open_source(sparse.csr_matrix(np.eye(3)))


def test_nothing_optional_is_imported():
    code = (
        "import sys, tanager.sources, tanager.codes\n"
        "heavy = {'sklearn', 'pandas', 'polars', 'duckdb', 'scipy', 'pyarrow.dataset',"
        " 'pyarrow.parquet', 'pyarrow.csv'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_dataset_that_cannot_be_read_is_a_data_error(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\nx,1\n")
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    source = open_source(ds.dataset(tmp_path, format="csv", schema=schema))
    with pytest.raises(DataError, match=r"dataset cannot be read: .* write it again"):
        rows_of(source)


def test_categories_of_mixed_types_are_values_or_refused_by_name():
    flags = pd.Categorical([True, False, None], categories=[-99, True, False])
    mixed = pd.Categorical([1, "x", None], categories=[1, "x"])
    source = open_source(pd.DataFrame({"flag": flags}))
    assert source.schema.field("flag").type == pa.bool_()
    with pytest.raises(DataError, match="'mixed' mixes strings and numbers"):
        open_source(pd.DataFrame({"mixed": mixed}))


def test_numbers_have_numpy_types_without_pandas():
    kinds = [pa.bool_(), pa.float16(), pa.float32(), pa.float64()]
    kinds += [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
    for kind in kinds:
        assert numpy_dtype(kind) == np.dtype(kind.to_pandas_dtype())


def test_a_dataset_with_a_filter_is_read_through_it(tmp_path):
    import pyarrow.parquet as pq

    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"a": list(range(100))}), path, row_group_size=10)
    source = open_source(ds.dataset(path).filter(ds.field("a") >= 34))
    assert source.column("a").to_pylist() == list(range(34, 100))


def test_dask_arrays_and_series():
    array = pytest.importorskip("dask.array")
    frames = pytest.importorskip("dask.dataframe")
    assert open_source(array.ones((4, 2))).n_rows == 4
    with pytest.raises(DataError, match="Expected 2D array, got 1D array"):
        open_source(frames.from_pandas(pd.Series([1, 2]), npartitions=1))


def test_intervals_of_months_are_refused_by_name():
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql("select 1 as a, interval 3 day as span")
    with pytest.raises(DataError, match=r"intervals of months and days in 'span'. Turn them into"):
        open_source(relation)
