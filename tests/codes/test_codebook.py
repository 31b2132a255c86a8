from __future__ import annotations

import json
import pickle

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tanager.codes import Codebook, NumericColumn, encode_rows, learn_codebook
from tanager.engines import FitContext, LocalEngine
from tanager.errors import ColumnWarning, ConfigurationError, DataError

cells = st.one_of(st.none(), st.sampled_from(["b", "a", "ä", "", "zz"]))
tables = st.lists(
    st.tuples(cells, st.one_of(st.none(), st.floats(-5, 5)), st.integers(-3, 300), st.booleans()),
    min_size=1,
    max_size=40,
)


def frame(rows):
    columns = list(zip(*rows, strict=True))
    return pa.table(
        {
            "text": pa.array(columns[0], pa.string()),
            "real": pa.array(columns[1], pa.float64()),
            "whole": pa.array(columns[2], pa.int64()),
            "flag": pa.array(columns[3], pa.bool_()),
        }
    )


def learn(X, y, **options):
    return learn_codebook(X, y, context=FitContext(), **options)


def labels_for(n):
    return np.arange(n) % 2


@given(tables, st.sampled_from(["from_dtype", "all"]), st.sampled_from(["value", "marginalize"]))
@settings(max_examples=30)
def test_every_library_gives_the_same_codebook_and_codes(rows, features, missing):
    table = frame(rows)
    y = labels_for(len(rows))
    expected, coded = learn(table, y, categorical_features=features, missing=missing)
    codes = coded.gather().codes
    connection = duckdb.connect()
    connection.register("rows", table)
    others = [
        pl.from_arrow(table),
        table.to_pandas(types_mapper=pd.ArrowDtype),
        table.set_column(0, "text", table["text"].dictionary_encode()),
        connection.sql("select * from rows"),
        pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=3)),
    ]
    for other in others:
        codebook, again = learn(other, y, categorical_features=features, missing=missing)
        assert codebook == expected
        assert np.array_equal(again.gather().codes, codes)
    connection.close()


@given(tables, st.randoms(use_true_random=False))
@settings(max_examples=50)
def test_row_order_is_irrelevant_for_domains(rows, random):
    order = list(range(len(rows)))
    random.shuffle(order)
    y = labels_for(len(rows))
    first, coded = learn(frame(rows), y)
    second, again = learn(frame(rows).take(order), y[order])
    assert first == second
    assert np.array_equal(coded.gather().codes[:, order], again.gather().codes)


@given(tables, st.sampled_from(["from_dtype", "all"]))
@settings(max_examples=80)
def test_encoding_the_training_rows_gives_their_codes_many_or_few_at_a_time(rows, features):
    table = frame(rows)
    codebook, coded = learn(table, labels_for(len(rows)), categorical_features=features)
    codes = coded.gather().codes
    assert (codes < codebook.domain.arities[:, None]).all()
    assert np.array_equal(codebook.encode(table), codes)
    for start in range(0, len(rows), 2):
        assert np.array_equal(codebook.encode(table.slice(start, 2)), codes[:, start : start + 2])
    assert Codebook.from_dict(json.loads(json.dumps(codebook.to_dict()))) == codebook
    again = pickle.loads(pickle.dumps(codebook))
    assert again == codebook
    assert np.array_equal(again.encode(table), codes)
    assert "_tables" not in codebook.__getstate__()


@given(
    st.lists(st.lists(st.floats(-3, 3) | st.just(np.nan), min_size=3, max_size=3), min_size=6),
    st.sampled_from([np.float64, np.float32, np.int64, np.int8, np.uint16, np.bool_]),
    st.sampled_from(["from_dtype", "all"]),
    st.sampled_from(["C", "F"]),
)
@settings(max_examples=80)
def test_matrices_agree_with_their_columns(rows, dtype, features, order):
    X = np.array(rows)
    if np.dtype(dtype).kind != "f":
        X = np.abs(np.nan_to_num(X))
    X = X.astype(dtype, order=order)
    y = labels_for(len(X))
    codebook, coded = learn(X, y, categorical_features=features)
    table = pa.table({f"x{i}": pa.array(np.ascontiguousarray(X[:, i])) for i in range(3)})
    by_column, again = learn(table, y, categorical_features=features)
    assert codebook.columns == by_column.columns
    assert np.array_equal(coded.gather().codes, again.gather().codes)
    for part in (X, X[:2], X[::-1]):
        expected = by_column.encode(
            pa.table({f"x{i}": pa.array(np.ascontiguousarray(part[:, i])) for i in range(3)})
        )
        assert np.array_equal(codebook.encode(part), expected)


def test_threads_change_nothing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 12))
    y = (X[:, 0] + X[:, 3] > 0).astype(int)
    one, a = learn(X, y)
    two, b = learn_codebook(X, y, context=FitContext(engine=LocalEngine(2)))
    assert one == two
    assert np.array_equal(a.gather().codes, b.gather().codes)


def test_domains_are_what_was_seen_not_what_was_declared():
    column = pd.Categorical(["b", "a", "b"], categories=["z", "b", "a"])
    codebook, rows = learn(pd.DataFrame({"c": column}), [0, 1, 0])
    assert codebook.columns[0].labels() == ["a", "b"]
    assert rows.gather().codes.tolist() == [[1, 0, 1]]
    assert codebook.encode(pd.DataFrame({"c": pd.Categorical(["z", "a"])})).tolist() == [[2, 0]]


def test_pandas_kinds():
    data = pd.DataFrame(
        {
            "object": pd.Series(["x", None, "y", np.nan], dtype=object),
            "string": pd.Series(["x", None, "y", "x"], dtype="string"),
            "category": pd.Series([3, 1, None, 3], dtype="category"),
            "nullable": pd.Series([3, 1, None, 3], dtype="Int64"),
            "flag": pd.Series([True, None, False, True], dtype="boolean"),
            "plain": [True, False, True, True],
            "when": pd.to_datetime(["2020-01-01", None, "2020-01-03", "2020-01-04"]),
        }
    )
    data.index = [7, 8, 9, 10]
    codebook, rows = learn(data, [0, 1, 0, 1])
    assert codebook.domain.names == tuple(data.columns)
    kinds = [column.kind for column in codebook.columns]
    assert kinds == ["categorical"] * 3 + ["numeric"] + ["categorical"] * 2 + ["numeric"]
    assert rows.gather().codes.tolist() == [
        [0, 2, 1, 2],
        [0, 2, 1, 0],
        [1, 0, 2, 1],
        [0, 0, 1, 0],
        [1, 2, 0, 1],
        [1, 0, 1, 1],
        [0, 2, 0, 1],
    ]


def test_dates_are_numbers_whatever_their_unit():
    days = np.arange("2020-01-01", "2020-03-11", dtype="datetime64[D]")
    y = (days >= np.datetime64("2020-02-01")).astype(int)
    cuts = []
    for kind in (pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.date32()):
        table = pa.table({"day": pa.array(days).cast(kind)})
        codebook, rows = learn(table, y)
        assert rows.gather().codes[0].tolist() == y.tolist()
        cuts.append(codebook.columns[0].cuts.tolist())
        assert codebook.columns[0].labels() == ["<= 2020-01-31", "> 2020-01-31"]
    assert cuts == [cuts[0]] * 4


def test_interval_names():
    column = NumericColumn("x", np.array([2.3499999999999996, 5.05]), 3)
    assert column.labels() == ["<= 2.35", "(2.35, 5.05]", "> 5.05", "missing"]
    close = NumericColumn("x", np.array([1.0, 1.0 + 1e-9]), None)
    assert len(set(close.labels())) == 3


def test_columns_are_matched_by_name_and_reordered():
    table = pa.table({"a": ["x", "y"], "b": ["u", "v"]})
    codebook, rows = learn(table, [0, 1])
    assert np.array_equal(codebook.encode(table.select(["b", "a"])), rows.gather().codes)
    (batch,) = table.select(["b", "a"]).to_batches()
    assert np.array_equal(codebook.encode(batch), rows.gather().codes)
    with pytest.raises(DataError, match=r"lacks the column\(s\) 'b'"):
        codebook.encode(table.select(["a"]))
    with pytest.raises(DataError, match="unseen in fit: 'c'"):
        codebook.encode(table.append_column("c", [["p", "q"]]))
    with pytest.raises(DataError, match=r"X has 3 features, but .* is expecting 2 features"):
        codebook.encode(np.zeros((5, 3)))


def test_arrays_are_matched_by_position():
    codebook, rows = learn(np.array([["x", "u"], ["y", "v"]]), [0, 1])
    table = pa.table({"p": ["x", "y"], "q": ["u", "v"]})
    assert np.array_equal(codebook.encode(table), rows.gather().codes)


def test_unseen_and_newly_missing_values_are_unknown():
    codebook, _ = learn(pa.table({"t": ["a", "b"], "n": [1.0, 2.0], "i": [5, 70_000]}), [0, 1])
    coded = codebook.encode(pa.table({"t": ["c", None], "n": [9.0, None], "i": [6, None]}))
    assert coded[:, 1].tolist() == codebook.domain.arities.tolist()
    assert coded[0, 0] == 2
    ints, _ = learn(np.array([[5], [70_000], [7]]), [0, 1, 1], categorical_features="all")
    assert ints.encode(np.array([[5], [6], [-1], [70_000], [10**12], [7]])).tolist() == [
        [0, 3, 3, 2, 3, 1]
    ]


@pytest.mark.parametrize("n", [1, 9])
def test_lossless_conversions_between_fit_and_predict(n):
    table = pa.table(
        {"i": [3, 1, 3], "t": ["3", "1", "x"], "n": [1.5, 2.5, 3.5], "b": [True, False, True]}
    )
    codebook, _ = learn(table, [0, 1, 0], categorical_features=["i"])
    same = {"i": ["3"] * n, "t": [3] * n, "n": [" 2.5"] * n, "b": [1] * n}
    codes = codebook.encode(pa.table(same))
    assert (codes[:, 0] == codebook.encode(table.slice(0, 1))[:, 0]).all()
    assert codebook.encode(pa.table({**same, "i": [3.0] * n}))[0, 0] == 1
    assert codebook.encode(pa.table({**same, "i": [3.5] * n}))[0, 0] == 2
    assert codebook.encode(pa.table({**same, "b": [2] * n}))[3, 0] == 2
    with pytest.raises(DataError, match="'n' holds numbers or booleans in the model"):
        codebook.encode(pa.table({**same, "n": ["many"] * n}))
    with pytest.raises(DataError, match="'t' holds text in the model"):
        codebook.encode(pa.table({**same, "t": [3.5] * n}))


def test_a_column_of_only_nulls():
    table = pa.table({"x": pa.array([None, None], pa.float64()), "y": pa.nulls(2), "z": ["a", "b"]})
    codebook, rows = learn(table, [0, 1])
    assert codebook.domain.arities.tolist() == [1, 1, 2]
    assert codebook.columns[0].labels() == ["missing"]
    assert rows.gather().codes[:2].tolist() == [[0, 0], [0, 0]]
    filled = pa.table({"x": [1.0, None], "y": ["a", None], "z": ["a", "b"]})
    assert codebook.encode(filled)[:2].tolist() == [[1, 0], [1, 0]]
    assert codebook.encode(pa.concat_tables([filled] * 5))[:2, :2].tolist() == [[1, 0], [1, 0]]
    codebook, rows = learn(table, [0, 1], missing="marginalize")
    assert codebook.domain.arities.tolist() == [1, 1, 2]
    assert [codebook.leaves_out(name) for name in "xyz"] == [True, True, False]
    assert rows.gather().codes[:2].tolist() == codebook.encode(filled)[:2].tolist() == [[0, 0]] * 2


def test_a_constant_column_has_one_value():
    codebook, _ = learn(pa.table({"x": [1.0, 1.0], "z": ["a", "a"]}), [0, 1])
    assert codebook.domain.arities.tolist() == [1, 1]
    assert codebook.columns[0].labels() == ["any value"]


def test_marginalize_makes_missing_unknown():
    codebook, rows = learn(pa.table({"z": ["a", None]}), [0, 1], missing="marginalize")
    assert codebook.domain.arities.tolist() == [1]
    assert rows.gather().codes.tolist() == [[0, 1]]


def test_too_many_values_name_the_column_and_the_remedy():
    numbers = pa.table({"id": np.arange(100_000) / 2})
    with pytest.raises(DataError, match=r"'id' has more than 65,535 distinct values.*Drop it"):
        learn(numbers, np.arange(100_000) % 2, categorical_features="all")
    table = pa.table({"id": [f"row {i}" for i in range(65_535)]})
    codebook, rows = learn(table, np.arange(65_535) % 2)
    assert codebook.domain.arities.tolist() == [65_535]
    assert rows.gather().codes.dtype == np.uint16


@pytest.mark.parametrize("n", [2, 20])
@pytest.mark.parametrize("features", ["from_dtype", "all"])
def test_infinite_numbers_name_the_column(n, features):
    X = np.tile([[1.0, 2.0], [3.0, 4.0]], (n, 1))
    y = np.tile([0, 1], n)
    codebook, _ = learn(X, y, categorical_features=features)
    X[1, 1] = -np.inf
    with pytest.raises(DataError, match="'x1' contains infinity"):
        learn(X, y, categorical_features=features)
    with pytest.raises(DataError, match="'x1' contains infinity"):
        codebook.encode(X[:n])
    with pytest.raises(DataError, match="'x1' contains infinity"):
        codebook.encode(pa.table({"x0": X[:n, 0], "x1": X[:n, 1]}))


@pytest.mark.parametrize("n", [9, 5000])
def test_of_several_infinite_numbers_the_first_column_is_named(n):
    X = np.tile(np.arange(9.0).reshape(3, 3), (n // 3, 1))
    codebook, _ = learn(X, np.arange(len(X)) % 2)
    X[0, 2] = X[-2, 1] = X[-1, 0] = np.inf
    for table in (X, pa.table({f"x{i}": X[:, i] for i in range(3)})):
        with pytest.raises(DataError, match="'x0' contains infinity"):
            codebook.encode(table)


def test_which_numbers_are_categories():
    table = pa.table({"a": [1, 2], "b": [1.5, 2.5], "c": ["x", "y"]})

    def kinds(asked):
        columns = learn(table, [0, 1], categorical_features=asked)[0].columns
        return "".join(column.kind[0] for column in columns)

    assert kinds("from_dtype") == kinds(None) == kinds([]) == "nnc"
    assert kinds("all") == "ccc"
    assert kinds(["b"]) == kinds([1]) == kinds([False, True, False]) == "ncc"
    for wrong in ("some", ["d"], [7], [True]):
        with pytest.raises(ConfigurationError, match="categorical_features"):
            learn(table, [0, 1], categorical_features=wrong)
    with pytest.raises(ConfigurationError, match="missing='drop'"):
        learn(table, [0, 1], missing="drop")


def test_large_integers_are_told_apart():
    big = 2**60
    X = np.array([[big], [big + 1], [big + 2]])
    codebook, rows = learn(X, [0, 1, 0], categorical_features="all")
    assert rows.gather().codes.tolist() == [[0, 1, 2]]
    assert codebook.encode(np.tile(X + 1, (3, 1)))[0, :3].tolist() == [1, 2, 3]


def test_large_integers_that_come_back_as_text_are_told_apart():
    values = [1 << 53, (1 << 53) + 1, -(1 << 60), 7]
    codebook, rows = learn({"id": values * 2}, [0, 1] * 4, categorical_features=["id"])
    texts = pa.table({"id": [f" {value}" for value in values * 2]})
    np.testing.assert_array_equal(codebook.encode(texts), rows.gather().codes)


def test_few_rows_of_any_kind_agree_with_many():
    rows = [["a", 1.5, 7], ["b", None, 8], ["a", 2.5, 9], [None, 0.5, 7], ["b", 1.0, 8]] * 3
    y = [0, 1, 0, 1, 1] * 3
    codebook, coded = learn(rows, y, categorical_features=[2])
    codes = coded.gather().codes
    for form in (list, lambda part: np.array(part, dtype=object)):
        for start in range(5):
            assert np.array_equal(
                codebook.encode(form(rows[start : start + 2])), codes[:, start : start + 2]
            )
    named, _ = learn(pd.DataFrame(rows, columns=["t", "n", "i"]), y, categorical_features=["i"])
    frame = pd.DataFrame(rows[:5], columns=["t", "n", "i"])[["i", "t", "n"]]
    for start in range(4):
        one = frame.iloc[start : start + 1]
        assert np.array_equal(named.encode(one), codes[:, [start]])
        assert np.array_equal(named.encode(one[["t", "n", "i"]].astype(object)), codes[:, [start]])
    numpy_row = [[np.str_("a"), np.float64(1.5), np.int64(7)]]
    assert np.array_equal(codebook.encode(numpy_row), codes[:, [0]])
    with pytest.raises(DataError, match="X has 2 features"):
        codebook.encode([["a", 1.0]])
    with pytest.raises(DataError, match="Row 1 has 2 values"):
        codebook.encode([["a", 1.0, 7], ["a", 1.0]])


def test_few_integers_past_doubles_fall_where_many_do():
    # 2^60 + 1 is 2^60 as a double, on the left of a cut there; exactly it is on the right.
    values = np.array([2**60, 2**60 + 256] * 4)
    codebook, _ = learn({"id": values}, [0, 1] * 4, bins=2)
    assert codebook.columns[0].cuts.tolist() == [float(2**60)]
    near = 2**60 + np.arange(-200, 300, 7)
    many = codebook.encode(near[:, None])
    assert len(set(many[0].tolist())) == 2
    for at, value in enumerate(near):
        assert codebook.encode([[int(value)]])[0, 0] == many[0, at]
        assert codebook.encode(pa.table({"id": [int(value)]}))[0, 0] == many[0, at]


@pytest.mark.parametrize("features", ["from_dtype", "all"])
def test_rarer_types(features):
    from datetime import date, time, timedelta
    from decimal import Decimal

    table = pa.table(
        {
            "decimal": pa.array([Decimal("1.5"), None, Decimal("2.5")]),
            "time": pa.array([time(1), time(2), None]),
            "span": pa.array([timedelta(days=1), timedelta(days=2), None]),
            "date": pa.array([date(2020, 1, 1), None, date(2021, 1, 1)]),
            "bytes": pa.array([b"x", b"y", None]),
            "huge": pa.array([2**64 - 1, 1, None], pa.uint64()),
            "small": pa.array([3, 1, None], pa.uint64()),
        }
    )
    if features == "all":
        with pytest.raises(DataError, match="'huge' has integers past"):
            learn(table, [0, 1, 0], categorical_features="all")
        table = table.drop_columns(["huge"])
    codebook, coded = learn(table, [0, 1, 0], categorical_features=features)
    codes = coded.gather().codes
    assert np.array_equal(codebook.encode(table), codes)
    many = pa.concat_tables([table] * 4)
    assert np.array_equal(codebook.encode(many), np.tile(codes, 4))
    if features == "all":
        kinds = ["categorical", *["numeric"] * 3, "categorical", "categorical"]
        assert [column.kind for column in codebook.columns] == kinds  # dates are always numbers


def test_nested_columns_are_refused_by_name():
    with pytest.raises(DataError, match="'lists' is of the type list"):
        learn(pa.table({"lists": [[1], [2]]}), [0, 1])


@pytest.mark.parametrize("n", [2, 10])
def test_a_column_without_any_value_is_missing_whatever_its_type(n):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "text": rng.choice(["a", "b"], 60),
            "flag": rng.random(60) < 0.5,
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 90, 60), "D"),
            "n": rng.normal(size=60),
        }
    )
    codebook, _ = learn_codebook(frame, rng.integers(0, 2, 60), context=FitContext())
    unknown = np.repeat(codebook.domain.arities[:, None], n, axis=1)
    for empty in (np.nan, None, pd.NaT):
        gaps = pd.DataFrame({name: pd.Series([empty] * n) for name in frame})
        assert np.array_equal(codebook.encode(gaps), unknown)
    gaps = pa.table({name: pa.array([float("nan")] * n) for name in frame})
    assert np.array_equal(codebook.encode(gaps), unknown)


@pytest.mark.parametrize("n", [2, 10])
def test_dates_are_no_numbers_if_training_had_numbers(n):
    X = pd.DataFrame({"n": np.arange(20.0), "flag": [True, False] * 10})
    codebook, _ = learn_codebook(X, [0] * 10 + [1] * 10, context=FitContext())
    days = pd.Series([pd.Timestamp("2020-01-01")] * n)
    for name in X:
        with pytest.raises(DataError, match=f"'{name}' holds numbers or booleans in the model"):
            codebook.encode(X.head(n).assign(**{name: days}))


def test_columns_that_became_nested_are_refused_by_name():
    X = pd.DataFrame({"n": np.arange(20.0), "text": ["a", "b"] * 10})
    codebook, _ = learn_codebook(X, [0] * 10 + [1] * 10, context=FitContext())
    for name in X:
        with pytest.raises(DataError, match=f"'{name}' is of the type list"):
            codebook.encode(X.assign(**{name: [[1]] * 20}))


def test_a_csv_file_is_read_as_the_training_table_was(tmp_path):
    X = pd.DataFrame({"code": ["01", "AB", "02", "1.5"] * 5, "n": np.arange(20.0)})
    X.assign(y=["k01", "2"] * 10).to_csv(tmp_path / "train.csv", index=False)
    codebook, rows = learn_codebook(tmp_path / "train.csv", "y", context=FitContext())
    for value in ("01", "1.5"):
        part = X[X["code"] == value]
        part.to_csv(tmp_path / "part.csv", index=False)
        assert np.array_equal(codebook.encode(tmp_path / "part.csv"), codebook.encode(part))
        part[["n", "code"]].to_csv(tmp_path / "part.csv", index=False)
        assert np.array_equal(codebook.encode(tmp_path / "part.csv"), codebook.encode(part))
    X.iloc[1::2].assign(y="2").to_csv(tmp_path / "more.csv", index=False)
    more = encode_rows(codebook, tmp_path / "more.csv", "y", context=FitContext())
    assert np.array_equal(more.gather().codes, rows.gather().codes[:, 1::2])
    assert np.array_equal(more.gather().labels, rows.gather().labels[1::2])


def days(n=40):
    return pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(n) * 23, "D"))


def test_dates_of_a_csv_file_are_those_of_the_training_table(tmp_path):
    X = pd.DataFrame({"day": days(), "n": np.arange(40.0)})
    codebook, rows = learn(X, [0] * 20 + [1] * 20)
    X.to_csv(tmp_path / "rows.csv", index=False)
    assert np.array_equal(codebook.encode(tmp_path / "rows.csv"), rows.gather().codes)
    with pytest.raises(DataError, match="'day' holds dates or times in the model and has the type"):
        codebook.encode(X.assign(day=X["day"].dt.strftime("%d.%m.%Y")))


@pytest.mark.parametrize("n", [3, 40])
def test_dates_and_numbers_in_another_style_are_read_or_told(n):
    """Taken as missing without a word they gave wrong answers."""
    numbers = np.arange(40) * 1234.5
    X = pd.DataFrame(
        {"day": days().dt.strftime("%d/%m/%Y"), "paid": [f"{v:,.2f}" for v in numbers]}
    )
    codebook, rows = learn(X, [0] * 20 + [1] * 20, audit=True)
    assert {name: r.kind for name, r in codebook.readings.items()} == {
        "day": "date",
        "paid": "number",
    }
    expected = rows.gather().codes[:, :n]
    few = X.head(n)
    for style in ("%Y-%m-%d", "%Y/%m/%d"):  # whose year comes first: there is no doubt
        turned = few.assign(day=days().dt.strftime(style))
        assert np.array_equal(codebook.encode(turned), expected)
    german = [f"{v:,.2f}".translate(str.maketrans(",.", ".,")) for v in numbers[:n]]
    american = days().dt.strftime("%m/%d/%Y")
    for name, values in {"day": american, "paid": german}.items():
        with pytest.warns(ColumnWarning, match=f"'{name}' is read as .* count as missing"):
            codebook.encode(few.assign(**{name: values}))
    few.loc[1] = "unknown"  # no date and no number of any style: missing, as in training
    codebook.encode(few)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kolkata", "America/St_Johns", "UTC"])
def test_instants_that_come_back_as_text_keep_their_zone(zone):
    times = pd.Series(pd.date_range("2026-01-01", periods=48, freq="h", tz=zone))
    codebook, rows = learn(pd.DataFrame({"t": times}), [0] * 24 + [1] * 24, bins=16)
    texts = times.map(str).astype(object)
    texts[5] = texts[5].replace(" ", "T") + " "
    for some in (texts, texts.astype("category")):
        np.testing.assert_array_equal(
            codebook.encode(pd.DataFrame({"t": some})), rows.gather().codes
        )


@pytest.mark.parametrize("n", [1, 3, 5])
def test_a_feature_may_be_absent_where_the_target_is_there(n):
    table = pd.DataFrame({"a": ["p", "q"] * 5, "b": ["r", "s"] * 5, "y": [0, 1] * 5})
    codebook, _ = learn(table, "y", missing="marginalize")
    assert codebook.encode(table[["y", "b"]][:n]).tolist() == [[2] * n, [0, 1, 0, 1, 0][:n]]
    strict, _ = learn(table, "y")
    for columns in (["y", "b"], ["b"], ["y"]):
        with pytest.raises(DataError, match=r"lacks the column\(s\) 'a'"):
            strict.encode(table[columns][:n])
    with pytest.raises(DataError, match=r"unseen in fit: 'z'"):
        strict.encode(table.assign(z=1)[:n])
    doubled = pd.concat([table, table[["a"]]], axis=1)
    with pytest.raises(DataError, match="'a'"):
        strict.encode(doubled[:n])


@pytest.mark.parametrize("features", [[], [0]])
@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize("cell", [np.datetime64("2020-01-01", "ns"), np.timedelta64(3, "ns")])
def test_instants_and_spans_of_numpy_are_no_numbers(cell, n, features):
    rows = [[i % 3] for i in range(30)]
    codebook, _ = learn(rows, labels_for(30), categorical_features=features)
    for table in ([[cell]] * n, np.array([[cell]] * n + [[None]], dtype=object)[:n]):
        with pytest.raises(DataError, match="'x0' holds numbers or booleans in the model"):
            codebook.encode(table)


@pytest.mark.parametrize("features", [[], [0]])
@pytest.mark.parametrize("cell", [10**400, -(10**400), 2**1024 - 2**970], ids=["a", "b", "c"])
def test_whole_numbers_past_the_range_of_floats_are_infinite(cell, features):
    rows = [[i % 3] for i in range(30)]
    codebook, _ = learn(rows, labels_for(30), categorical_features=features)
    for n_rows in (1, 5):
        for table in ([[cell]] * n_rows, np.array([[cell]] * n_rows, dtype=object)):
            with pytest.raises(DataError, match="'x0' contains infinity"):
                codebook.encode(table)
    largest = 2**1024 - 2**970 - 1  # rounds to the largest float
    few, many = codebook.encode([[largest]]), codebook.encode([[largest]] * 5)
    assert few.tolist() == many[:, :1].tolist()


def test_floats_are_not_looked_up_among_texts_with_a_decimal_point():
    codebook, _ = learn([["1.0"], ["2.0"], ["3.0"]] * 40, labels_for(120))
    assert codebook.columns[0].family == "text"
    with pytest.raises(DataError, match="holds text in the model"):
        codebook.encode(pd.DataFrame({"x0": [1.0, 2.0, 3.0, 1.0, 2.0]}))
