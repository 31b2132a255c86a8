"""The gate: byte order, alignment and type of every column, weight and label."""

from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tanager import BayesNetClassifier
from tanager.errors import ColumnTypeError, ColumnWarning, ConfigurationError, DataError
from tanager.sources import open_source
from tanager.sources.gate import admit_array, admit_column
from tanager.sources.plain import decimals_to_floats

N = 60
Y = np.arange(N) % 2
NUMBERS = np.random.default_rng(0).normal(size=N) + Y
WORDS = np.array(["a", "b", "c"])[np.arange(N) % 3]
SURROGATE = "\ud800x"


def fit(X, y=Y, **options):
    return BayesNetClassifier("naive", "laplace", **options).fit(X, y)


def unaligned(values):
    room = np.zeros(values.nbytes + 1, np.uint8)[1:].view(values.dtype).reshape(values.shape)
    room[...] = values
    assert not room.flags.aligned
    return room


def swapped(values):
    return values.astype(values.dtype.newbyteorder(">"))


@pytest.mark.parametrize("dress", [unaligned, swapped])
@pytest.mark.parametrize("categorical", ["from_dtype", [0], "all"])
def test_memory_layout_is_of_no_account(dress, categorical):
    X = np.c_[NUMBERS.round(1), NUMBERS]
    weights = np.where(np.arange(N) % 7, 1.5, 0.0)
    expected = BayesNetClassifier("naive", "laplace", categorical_features=categorical)
    expected.fit(X, Y, sample_weight=weights)
    found = BayesNetClassifier("naive", "laplace", categorical_features=categorical)
    found.fit(dress(X), dress(Y), sample_weight=dress(weights))
    assert found.network_.codebook == expected.network_.codebook
    assert found.classes_.dtype.isnative
    for rows in (X[:2], X):
        assert np.array_equal(found.predict_proba(dress(rows)), expected.predict_proba(rows))


@pytest.mark.parametrize("dress", [unaligned, swapped])
@pytest.mark.parametrize("kind", ["dict", "pandas", "structured"])
def test_memory_layout_of_single_columns(dress, kind):
    columns = {"n": NUMBERS, "w": np.arange(N) % 5, "t": WORDS.astype("U3"), "d": DAYS}
    given = {name: dress(values) for name, values in columns.items()}
    if kind == "pandas":
        given = pd.DataFrame(given)
    if kind == "structured":
        rows = np.zeros(N, dtype=[(name, values.dtype) for name, values in given.items()])
        for name, values in given.items():
            rows[name] = values
        given = rows
    expected = fit(pd.DataFrame(columns))
    assert fit(given).network_.codebook.columns == expected.network_.codebook.columns


DAYS = np.arange(N).astype("datetime64[D]")


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "25s"])
def test_dates_of_every_unit_in_every_container(unit):
    dates = np.arange(N).astype(f"datetime64[{unit}]")
    known = unit if unit in ("s", "ms", "us", "ns") else "s"
    expected = fit(pa.table({"x0": dates.astype(f"M8[{known}]")})).network_.codebook.columns
    assert fit({"x0": dates}).network_.codebook.columns == expected
    for rows in (dates[:, None], [[date] for date in dates], [{"x0": d} for d in dates]):
        found = fit(rows)
        assert found.network_.codebook.columns == expected
        assert np.array_equal(found.predict_proba(rows)[:1], found.predict_proba(rows[:1]))


@pytest.mark.parametrize("unit", ["W", "D", "h", "m", "s", "ms", "us", "ns"])
def test_durations_of_every_unit(unit):
    spans = np.arange(N).astype(f"timedelta64[{unit}]")
    expected = fit(pa.table({"x0": spans.astype("m8[ns]")})).network_.codebook.columns
    for rows in ({"x0": spans}, [[span] for span in spans], spans[:, None]):
        assert fit(rows).network_.codebook.columns == expected


def test_a_gap_among_dates_is_missing():
    dates = DAYS.copy()
    dates[3] = "NaT"
    assert open_source({"d": dates}).column("d").null_count == 1
    assert open_source([[date] for date in dates]).column("x0").null_count == 1
    with pytest.raises(TypeError, match="every argument must be a string or a number"):
        open_source([[DAYS[0]], ["x"]])


def test_durations_without_a_length_are_refused():
    with pytest.raises(DataError, match=r"Column 'd' is of the type timedelta64\[M\].*Convert it"):
        open_source({"d": np.arange(3).astype("timedelta64[M]")})


@pytest.mark.parametrize("values", [["a", None, "c"], [1.5, None, 2.5], [1, None, 3]])
@pytest.mark.parametrize("ordered", [False, True])
def test_a_null_among_the_values_of_a_dictionary_is_missing(values, ordered):
    indices = pa.array(np.arange(N) % 3, pa.int32())
    array = pa.DictionaryArray.from_arrays(indices, pa.array(values), ordered=ordered)
    table = pa.table({"a": array})
    plain = array.dictionary_decode()
    assert open_source(table).column("a").dictionary_decode().to_pylist() == plain.to_pylist()
    column = fit(table).network_.codebook.columns[0]
    assert column.values.to_pylist() == [values[0], values[2]]
    assert column.missing_code == 2
    with pytest.raises(DataError, match=r"contains NaN or null \(first in row 1"):
        fit(NUMBERS[:, None], array)


def test_a_null_in_a_dictionary_of_a_file(tmp_path):
    values = pa.array([None, *(f"{i}.5" for i in range(29))])
    array = pa.DictionaryArray.from_arrays(pa.array(np.arange(N) % 30, pa.int32()), values)
    table = pa.table({"a": array, "y": WORDS})
    with (
        pa.OSFile(str(tmp_path / "t.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, table.schema) as w,
    ):
        w.write_table(table)
    with pytest.warns(ColumnWarning, match="29 numbers"):
        found = fit(str(tmp_path / "t.arrow"), "y").network_.codebook
    with pytest.warns(ColumnWarning, match="29 numbers"):
        assert found == fit(table, "y").network_.codebook
    assert found.columns[0].kind == "numeric"


LONELY = [SURROGATE if i % 3 else "a" for i in range(N)]


@pytest.mark.parametrize(
    "X",
    [
        [[text] for text in LONELY],
        np.array(LONELY)[:, None],
        np.array([*LONELY[:-1], "a\0b"])[:, None],
        np.array(LONELY, dtype=object)[:, None],
        {"x0": LONELY},
        pd.DataFrame({"x0": pd.Series(LONELY, dtype=object)}),
    ],
    ids=["rows", "texts", "with NUL", "objects", "dict", "pandas"],
)
def test_lone_surrogates_are_refused_by_column(X):
    with pytest.raises(DataError, match=r"Column 'x0' has a text that isn't valid Unicode"):
        fit(X)


def test_what_is_no_letter_at_all_is_refused():
    codes = np.full(N, 65, np.uint32)
    codes[7] = 0x110000
    with pytest.raises(DataError, match="isn't valid Unicode"):
        fit({"x": codes.view("<U1")})
    with pytest.raises(DataError, match="the target has a text that isn't valid Unicode"):
        fit(NUMBERS[:, None], codes.view("<U1"))


def test_lone_surrogates_elsewhere():
    for y in (LONELY, np.array(LONELY), pd.Series(LONELY, dtype=object)):
        with pytest.raises(DataError, match="the target has a text that isn't valid Unicode"):
            fit(NUMBERS[:, None], y)
    with pytest.raises(DataError, match="name of a column"):
        fit({SURROGATE: NUMBERS})
    with pytest.raises(DataError, match="target's name"):
        fit(NUMBERS[:, None], pd.Series(Y, name=SURROGATE))
    clf = fit([[word] for word in WORDS])
    for n in (1, 9):  # cell by cell, and as a table
        with pytest.raises(DataError, match="Column 'x0' has a text that isn't valid Unicode"):
            clf.predict_proba([[SURROGATE]] * n)


@pytest.mark.parametrize("make", [list, np.array, pa.array], ids=["list", "numpy", "arrow"])
def test_bytes_are_text_or_refused(make):
    given = make(["é".encode() if i % 2 else b"a" for i in range(N)])
    assert admit_column(given, "it").to_pylist() == ["é" if i % 2 else "a" for i in range(N)]
    clf = fit({"b": given}, given)
    assert clf.classes_.tolist() == ["a", "é"]
    assert clf.classes_.dtype.kind in "UO"
    assert clf.score({"b": given}, given) == 1.0
    with pytest.raises(DataError, match="Column 'b' has bytes that aren't valid UTF-8"):
        fit({"b": make([b"\xff", b"a"] * (N // 2))})
    with pytest.raises(DataError, match="the target has bytes that aren't valid UTF-8"):
        fit(NUMBERS[:, None], make([b"\xff", b"a"] * (N // 2)))


def test_binary_in_files(tmp_path):
    import pyarrow.parquet as pq

    for value in (b"b", b"\xff"):
        pq.write_table(pa.table({"a": [b"a", value] * 30, "y": Y}), tmp_path / "t.parquet")
        if value == b"b":
            clf = fit(str(tmp_path / "t.parquet"), "y")
            assert clf.network_.codebook.columns[0].labels() == ["a", "b"]
        else:
            with pytest.raises(DataError, match="Column 'a' has bytes that aren't valid UTF-8"):
                fit(str(tmp_path / "t.parquet"), "y")


# Different values stay apart


def by_parts(clf, rows, size):
    return np.vstack([clf.predict_proba(rows[at : at + size]) for at in range(0, len(rows), size)])


@pytest.mark.parametrize("gap", [None, float("nan"), 0])
def test_whole_numbers_past_2_53_beside_floats(gap):
    rows = [[2**53 + i % 20 if i % 7 else gap, i / 2] for i in range(N)]
    clf = fit(rows, categorical_features=[0])
    column = clf.network_.codebook.columns[0]
    assert column.arity == 21
    assert sorted(v for v in column.values.to_pylist() if v) == [2**53 + i for i in range(20)]
    expected = clf.predict_proba(rows)
    for size in (1, 4, 5, 9):
        assert np.array_equal(by_parts(clf, rows, size), expected)


def test_a_float_is_no_whole_number_past_2_53_but_the_one_it_equals():
    rows = [[2**53 + i % 20, i / 2] for i in range(N)]
    clf = fit(rows, categorical_features=[0])
    known = [[2.0**53, 1.0], [2.0**53 + 2, 1.0], [2**53 + 100, 1.0], [1e300, 1.0]]
    few, many = clf.network_.codebook.encode(known), clf.network_.codebook.encode(known * 3)
    assert few[0].tolist() == many[0, :4].tolist() == [0, 2, 20, 20]


@pytest.mark.parametrize("past", [1, 2, 3])
def test_whole_numbers_looked_up_in_a_column_of_floats(past):
    floats = [[2.0**53 if i % 2 else 0.5] for i in range(N)]
    clf = fit(floats, categorical_features="all")
    rows = [[2**53 + past]] * 9
    assert np.array_equal(clf.predict_proba(rows[:1]), clf.predict_proba(rows)[:1])


IDS = [Decimal(2**53 + i % 6) for i in range(N)]


@pytest.mark.parametrize("y", [IDS, np.array(IDS), pa.array(IDS), pd.Series(IDS)], ids=type)
def test_decimal_labels_past_2_53(y):
    clf = fit(NUMBERS[:, None], y)
    assert clf.classes_.tolist() == [2**53 + i for i in range(6)]


def test_decimal_categories_past_2_53():
    array = pa.array(IDS)
    for X in ({"a": IDS}, pa.table({"a": array}), pa.table({"a": array.dictionary_encode()})):
        assert fit(X, categorical_features=["a"]).network_.codebook.columns[0].arity == 6
    with pytest.raises(DataError, match=r"'a' has decimals of more digits than a float holds"):
        fit({"a": [number / 1000 for number in IDS]}, categorical_features=["a"])
    assert fit({"a": [number / 1000 for number in IDS]}).n_features_in_ == 1  # as numbers


def test_numbers_past_64_bits_are_floats_if_those_differ():
    assert admit_column([10**80, 1], "it").to_pylist() == [1e80, 1.0]
    assert fit(NUMBERS[:, None], [2**90, 1] * (N // 2)).classes_.tolist() == [1.0, 2.0**90]
    for wide in ([2**90, 2**90 + 1], [2**60 + 1, 2**60, 0.5]):
        with pytest.raises(DataError, match="it has whole numbers that floats can't tell apart"):
            admit_column(wide, "it")
    with pytest.raises(DataError, match="it contains infinity or a value too large"):
        admit_column([10**400, 1], "it")


def test_extended_floats():
    assert fit(NUMBERS[:, None], Y.astype(np.longdouble)).classes_.tolist() == [0.0, 1.0]
    wide = NUMBERS.astype(np.longdouble)
    expected = fit({"x0": NUMBERS}).network_.codebook.columns
    for X in ({"x0": wide}, wide[:, None], pd.DataFrame({"x0": wide})):
        assert fit(X).network_.codebook.columns == expected
    assert admit_array(np.array([1.5], np.float16)).dtype == np.float64


@pytest.mark.parametrize("sign", ["", "-"])
def test_infinite_decimals_are_refused_by_column(sign):
    infinite = [Decimal(f"{sign}Infinity"), Decimal(1)] * (N // 2)
    for X in ({"x0": infinite}, [[v] for v in infinite], pd.DataFrame({"x0": infinite})):
        with pytest.raises(DataError, match="Column 'x0' contains infinity"):
            fit(X)
    with pytest.raises(DataError, match="Input y contains infinity"):
        fit(NUMBERS[:, None], infinite)
    with pytest.raises(DataError, match="Column 'x0' contains infinity"):
        fit({"x0": NUMBERS}).predict_proba({"x0": infinite})
    assert admit_column([Decimal("NaN"), Decimal(1), None], "it").to_pylist() == [None, 1, None]


@pytest.mark.parametrize("kind", ["decimal32", "decimal64", "decimal128", "decimal256"])
@pytest.mark.parametrize("scale", [0, 2])
def test_decimals_of_every_width(kind, scale):
    make = getattr(pa, kind, None)
    if make is None:
        pytest.skip(f"this Arrow has no {kind}")
    numbers = [Decimal(i % 6) / (4 if scale else 1) for i in range(N)]
    array = pa.array(numbers).cast(make(7, scale))
    expected = fit({"a": [float(n) for n in numbers]}, categorical_features=["a"])
    clf = fit(pa.table({"a": array}), categorical_features=["a"])
    assert [float(v) for v in clf.network_.codebook.columns[0].values.to_pylist()] == (
        expected.network_.codebook.columns[0].values.to_pylist()
    )
    rows = pa.table({"a": array})
    assert np.array_equal(clf.predict_proba(rows), expected.predict_proba({"a": numbers}))
    cuts = fit(rows, bins=4).network_.codebook.columns[0].cuts
    assert np.array_equal(
        cuts, fit({"a": [float(n) for n in numbers]}, bins=4).network_.codebook.columns[0].cuts
    )
    if scale == 0:
        assert fit(NUMBERS[:, None], array).classes_.tolist() == list(range(6))
        assert fit(pa.table({"a": NUMBERS, "y": array}), "y").classes_.tolist() == list(range(6))


@pytest.mark.parametrize("scale", [-3, 0, 2, 9, 25])
@pytest.mark.parametrize("digits", [5, 16, 30])
def test_decimals_become_the_nearest_floats(scale, digits):
    rng = np.random.default_rng(digits)
    numbers = [
        Decimal(int(n) * 10 ** (digits - 5) + int(n) // 7).scaleb(-scale)
        for n in rng.integers(-99999, 99999, 500)
    ]
    array = pa.array([*numbers, None], pa.decimal128(38, scale))
    assert decimals_to_floats(array).to_pylist() == [*map(float, numbers), None]
    assert decimals_to_floats(array[7:]).to_pylist() == [*map(float, numbers[7:]), None]


def test_polars_integers_of_128_bits_are_refused():
    frame = pl.DataFrame({"a": pl.Series(np.arange(N) % 7, dtype=pl.Int128), "y": Y})
    with pytest.raises(DataError, match="Cast the column to a type that Arrow has"):
        fit(frame, "y")


@pytest.mark.parametrize("weight", [None, "heavy", [1], 10**400])
def test_class_weights_that_are_no_numbers(weight):
    with pytest.raises(
        ConfigurationError, match=r"class_weight=.*isn't a number.*Allowed: zero, and from"
    ):
        fit(NUMBERS[:, None], class_weight={0: weight})


def test_labels_of_numpys_own_strings():
    texts = WORDS.astype(np.dtypes.StringDType())
    clf = fit(np.c_[texts, texts], texts)
    assert clf.classes_.tolist() == ["a", "b", "c"]
    assert clf.classes_.dtype == object


@pytest.mark.parametrize("make", [list, np.array])
def test_more_than_16_mib_of_label_text(make):
    labels = make(["x" * 90_000 + str(i % 2) for i in range(200)])
    X = np.arange(200)[:, None] % 2
    clf = BayesNetClassifier("naive", "laplace").fit(X, labels)
    assert clf.score(X, labels) == 1.0
    first = BayesNetClassifier("naive", "laplace").partial_fit(X[:10], labels[:10])
    whole = replace(clf.network_, reference=None)  # which rows added later don't have
    assert first.partial_fit(X[10:], labels[10:]).network_ == whole


def test_arrow_columns_in_a_dict():
    clock = [datetime.time(i % 24) for i in range(N)]
    X = {
        "a": pa.array(WORDS),
        "b": pa.chunked_array([clock]),
        "c": pd.Series(WORDS, dtype="category"),
    }
    columns = fit(X).network_.codebook.columns
    assert [column.kind for column in columns] == ["categorical", "numeric", "categorical"]
    assert columns[1].temporal == "time"


def test_ragged_labels_are_refused():
    with pytest.raises(DataError, match="isn't a list of labels"):
        fit(NUMBERS[:, None], [[1, 2], [3]] * (N // 2))


@pytest.mark.parametrize(
    "values",
    [
        DAYS,
        np.array([2**60 + 1, 2**60 + 2, 2**60 + 3]),
        np.array([True, False, True]),
        np.array(["a", "b", "c"]),
        np.array(["a", "b", {"x"}], object),
    ],
)
def test_what_a_mask_hides_is_missing_and_the_rest_is_as_it_is(values):
    values = values[:3]
    masked = np.ma.masked_array(values, mask=[False, False, True])
    expected = [*admit_column(values[:2], "x").to_pylist(), None]
    assert open_source({"x": masked}).column("x").to_pylist() == expected
    assert open_source(masked.reshape(-1, 1)).column("x0").to_pylist() == expected


def test_masked_records_labels_and_weights():
    records = np.ma.array([(1, 2.5), (3, 4.5)], [("a", int), ("b", float)], mask=[(1, 0), (0, 1)])
    source = open_source(records)
    assert source.column("a").to_pylist() == [None, 3]
    assert source.column("b").to_pylist() == [2.5, None]
    hidden = np.arange(N) == 4
    with pytest.raises(DataError, match="first in row 4"):
        fit({"x": NUMBERS}, np.ma.masked_array(Y, mask=hidden))
    with pytest.raises(DataError, match="sample_weight of row 4 is nan"):
        fit({"x": NUMBERS}).fit({"x": NUMBERS}, Y, np.ma.masked_array(np.ones(N), mask=hidden))


def test_rows_with_names_that_are_no_texts():
    frame = pd.DataFrame(np.c_[NUMBERS, WORDS == "a"])
    rows = frame.to_dict("records")
    assert open_source(rows).column("0").to_pylist() == frame[0].tolist()
    clf = fit(frame)
    assert np.array_equal(clf.predict_proba(rows), clf.predict_proba(frame))
    assert np.array_equal(clf.predict_proba(rows[:1]), clf.predict_proba(frame[:1]))
    for twice in ({1: [1], "1": [2]}, [{1: 1, "1": 2}]):
        with pytest.raises(DataError, match="Duplicated column name"):
            open_source(twice)


@pytest.mark.parametrize(
    "column", [{1, 2}, {0: 1.5, 1: 2.5}, pd.DataFrame({"x": [1]}), pl.DataFrame({"x": [1]})]
)
def test_a_column_without_an_order_of_rows_is_refused(column):
    with pytest.raises(ColumnTypeError, match=r"^Column 'a' is a .*Pass its values as a list"):
        open_source({"a": column})


@pytest.mark.parametrize(
    "rows", [[pd.DataFrame({"a": [1]})] * 2, [np.zeros((2, 2))] * 2, [b"ab", b"cd"]]
)
def test_rows_of_other_dimensions_are_refused(rows):
    with pytest.raises(DataError, match=r"Row 0 is a .*one value for each column|got 1D array"):
        open_source(rows)


def test_objects_without_a_meaning_are_refused_with_a_remedy():
    clf = fit({"x": NUMBERS})
    for given in ([{"x": [1.0]}], [{"x": np.array([1.0])}], {"x": [{"a": 1}] * 6}):
        with pytest.raises(
            DataError, match=r"every argument must be a string or a number. Convert"
        ):
            clf.predict_proba(given)
    for grouped in (pd.DataFrame({"a": [1]}).groupby("a"), pd.Categorical(["a"]), pd.array([1])):
        with pytest.raises(DataError, match=r"is a DataFrameGroupBy. Allowed|got 1D array"):
            open_source(grouped)
    assert open_source({"x": np.array(1.5)[()]}).column("x").to_pylist() == [1.5]
    with pytest.raises(DataError, match="holds a ndarray"):
        open_source({"x": np.array(1.5)})


def test_matrices_of_numpy_are_arrays():
    X = np.c_[NUMBERS.round(1), NUMBERS]
    clf = fit(X.view(np.matrix))
    assert np.array_equal(clf.predict_proba(X.view(np.matrix)), fit(X).predict_proba(X))


def test_periods_are_dates_in_every_frame():
    months = pd.Series(pd.period_range("2020-01", periods=N, freq="M"))
    starts = months.dt.to_timestamp()
    clf = fit({"m": starts})
    for X in (pd.DataFrame({"m": months}), {"m": months}):
        assert fit(X).network_ == clf.network_
        assert np.array_equal(clf.predict_proba(X), clf.predict_proba({"m": starts}))
    with pytest.raises(DataError, match="the target is of the type timestamp"):
        fit({"x": NUMBERS}, months)


def test_minus_zero_is_zero_among_categories():
    clf = fit({"x": pd.Categorical(Y / 2)})
    assert np.array_equal(
        clf.predict_proba({"x": pd.Categorical([-0.0] * 6)}), clf.predict_proba({"x": [0.0] * 6})
    )


MIDNIGHT, NOON = datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 2, 12)
NESTED = [list, lambda values: pd.DataFrame({"a": pd.Series(values, dtype=object)})]


@pytest.mark.parametrize("make", NESTED)
@pytest.mark.parametrize("turn", [1, -1])
def test_dates_among_instants_are_midnights(make, turn):
    # Arrow takes the type of the first value, and cuts off the time of the others.
    values = [MIDNIGHT.date(), NOON, None, pd.NaT][::turn]
    given = make(values)
    source = open_source(given if isinstance(given, pd.DataFrame) else {"a": given})
    assert source.column("a").to_pylist() == [MIDNIGHT, NOON, None, None][::turn]
    assert values == [MIDNIGHT.date(), NOON, None, pd.NaT][::turn]  # what was given stays


@pytest.mark.parametrize("make", NESTED)
@pytest.mark.parametrize("number", [5, 5.5, np.int64(5), True])
@pytest.mark.parametrize(
    "instant", [NOON, NOON.date(), NOON.time(), datetime.timedelta(1), pd.Timestamp(NOON)]
)
def test_numbers_among_dates_are_refused(make, instant, number):
    for values in ([instant, number], [number, instant], [instant, None, number]):
        given = make(values)
        with pytest.raises(ColumnTypeError, match=f"Column 'a' holds a {type(instant).__name__}"):
            open_source(given if isinstance(given, pd.DataFrame) else {"a": given})


@pytest.mark.parametrize("make", NESTED)
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.longdouble])
def test_fractions_among_whole_numbers_are_kept(make, kind):
    given = make([kind(0.5), 1, None])
    source = open_source(given if isinstance(given, pd.DataFrame) else {"a": given})
    assert source.column("a").to_pylist() == [0.5, 1.0, None]


def test_a_frame_names_its_columns_alike_whatever_they_hold():
    names = pd.MultiIndex.from_tuples([("a", 1), ("a", 2)])
    plain, mixed = ([1, 2], [3, 4]), ([1, None], [0.5, 4])
    frames = [pd.DataFrame(dict(zip(names, columns, strict=True))) for columns in (plain, mixed)]
    frames.append(frames[1].astype(object))
    assert len({open_source(frame).names for frame in frames}) == 1
