"""Few rows, coded cell by cell, have the codes that the table's way gives: types x forms."""

import datetime as dt
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tanager.codes import MatchedTable, learn_codebook
from tanager.engines import FitContext
from tanager.errors import DataError

N = 60
RNG = np.random.default_rng(3)
DAYS = [dt.date(2024, 1, 1) + dt.timedelta(days=7 * i) for i in range(N)]


def text_of(style):
    return [day.strftime(style) for day in DAYS]


# Every kind of column that a codebook can have: values in training, and values to come.
COLUMNS = {
    "text": (RNG.choice(["a", "b", "é"], N).tolist(), ["a", "é", "new", "", None]),
    "whole": (RNG.integers(-5, 90, N).tolist(), [7, 7.0, 2**53 + 1, -1000, True, None]),
    "real": (RNG.normal(size=N).tolist(), [0.5, 3, -1e300, float("nan"), False, None]),
    "flag": (RNG.choice([True, False], N).tolist(), [True, 0, 1.0, 2, None]),
    "number_codes": (RNG.choice([1, 2, 10**17 + 1], N).tolist(), [1, 2.0, 10**17 + 1, 9, None]),
    "real_codes": (RNG.choice([0.5, 2.0, 7.25], N).tolist(), [0.5, 2, 7.0, None]),
    "gaps": ([None] * N, [None, float("nan")]),
    "day": (DAYS, [DAYS[3], dt.date(1899, 1, 1), dt.datetime(2024, 5, 5, 7, 8, 9, 10), None]),
    "instant": (
        [dt.datetime(2024, 1, 1) + dt.timedelta(minutes=61 * i) for i in range(N)],
        [dt.datetime(2024, 1, 2, 3, 4, 5, 678_901), dt.datetime(9999, 12, 31), DAYS[0], None],
    ),
    "clock": ([dt.time(i % 24, i) for i in range(N)], [dt.time(3, 4, 5), None]),
    "span": ([dt.timedelta(hours=i) for i in range(N)], [dt.timedelta(hours=3.5), None]),
    "price": (
        [f"{x:.2f}" for x in RNG.normal(100, 30, N)],
        ["99.5", " 101 ", "-3e2", "$7.5", "12 %", "€ 5", "", "  ", "1e999", "\t8", 5, 7.5, None],
    ),
    "comma": ([f"{x:,.2f}" for x in RNG.normal(9e3, 3e3, N)], ["1,234.5", "12", "+7", None]),
    "decimal_comma": (
        [f"{x:.2f}".replace(".", ",") for x in RNG.normal(9, 3, N)],
        ["1.234,5", "12,25", None],
    ),
    "iso": (text_of("%Y-%m-%d"), ["2024-02-03", "2024-02-03T04:05", "2024-02-03 04:05:06Z", None]),
    "german": (text_of("%d.%m.%Y"), ["03.04.2024", "1.4.2024", "2024-05-06", None]),
    "british": (text_of("%d/%m/%Y"), ["30/04/2024", "31/04/2024", DAYS[5], None]),
    "customer_id": ([f"C{i:05d}" for i in range(N)], ["C9", 7, None]),
}
CODES = ("number_codes", "real_codes")
# Columns of dates, and of texts to be parsed, are left to the table.
DATES = ("day", "instant", "clock", "span", "iso", "german", "british")
PARSED = (*DATES, "price", "comma", "decimal_comma")


# Row k has the k-th new value of each column.
ROWS = [
    {name: news[min(k, len(news) - 1)] for name, (_, news) in COLUMNS.items()}
    for k in range(max(len(news) for _, news in COLUMNS.values()))
]


def table_of(rows):
    return pa.table({name: pa.array([row[name] for row in rows]) for name in COLUMNS})


def training_table(missing="value"):
    known = {name: known for name, (known, _) in COLUMNS.items()}
    if missing == "marginalize":  # then a column needs a value
        known["gaps"] = ["g", *known["gaps"][1:]]
    return pa.table({name: pa.array(values) for name, values in known.items()})


def learn(missing="value"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = np.arange(N) % 2
        return learn_codebook(
            training_table(missing),
            y,
            categorical_features=CODES,
            missing=missing,
            bins="fine",
            audit=True,
            context=FitContext(),
        )[0]


@pytest.fixture(scope="module", params=["value", "marginalize"])
def codebook(request):
    return learn(request.param)


def by_table(codebook, table):
    """Return the codes that the table's way gives."""
    return MatchedTable.of(codebook, table).encode()


BASE = {name: known[5] for name, (known, _) in COLUMNS.items()}
FORMS = {
    "dict": lambda row: row,
    "list of dicts": lambda row: [row],
    "shuffled dict": lambda row: dict(reversed(row.items())),
    "list": lambda row: [list(row.values())],
    "tuple": lambda row: (tuple(row.values()),),
    "array": lambda row: np.array([list(row.values())], dtype=object),
    "numpy scalars": lambda row: {
        name: np.array([v])[0] if type(v) in (int, float, str, bool) and abs_fits(v) else v
        for name, v in row.items()
    },
    "pandas": lambda row: pd.DataFrame({name: [v] for name, v in row.items()}),
    "Arrow": lambda row: pa.table({name: pa.array([v]) for name, v in row.items()}),
    "batch": lambda row: pa.record_batch({name: pa.array([v]) for name, v in row.items()}),
    "polars": lambda row: pl.DataFrame({name: [v] for name, v in row.items()}),
}


def abs_fits(value):
    return type(value) is not int or abs(value) < 2**63


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_a_row_has_the_codes_that_the_tables_way_gives(codebook, row):
    wanted = by_table(codebook, table_of([row]))
    for form, make in FORMS.items():
        assert np.array_equal(codebook.encode(make(row)), wanted), form


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", COLUMNS)
def test_a_cell_has_the_code_that_its_column_gives(codebook, name):
    at = codebook.domain.names.index(name)
    for value in COLUMNS[name][1]:
        out = np.empty(1, codebook.dtype)
        array, reading = pa.array([value], from_pandas=True), codebook.readings.get(name)
        codebook.columns[at].encode(array if reading is None else reading.read(array, name), out)
        assert codebook.encode({**BASE, name: value})[at, 0] == out[0], value


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_a_row_of_a_file_has_the_codes_of_the_row_in_memory(codebook, row, tmp_path):
    pq.write_table(table_of([row]), tmp_path / "row.parquet")
    assert np.array_equal(codebook.encode(tmp_path / "row.parquet"), codebook.encode(row))


def without(table, names):
    for name in names:
        gone = pa.nulls(N, table.schema.field(name).type)
        table = table.set_column(table.column_names.index(name), name, gone)
    return table


def test_rows_of_training_are_coded_without_a_table(codebook):
    table = without(training_table(codebook.missing), PARSED)
    wanted = by_table(codebook, table)
    for at, row in enumerate(table.to_pylist()):
        assert codebook.few.encode(row)[:, 0].tolist() == wanted[:, at].tolist()


def test_cells_are_read_as_the_tables_way_reads_them(codebook):
    table = training_table(codebook.missing)
    assert codebook.few.read(table.to_pylist()[0]) is None
    table = without(table, ["price", "comma", "decimal_comma", "iso", "german", "british"])
    read = MatchedTable.of(codebook, table).values
    wanted = pa.Table.from_batches(read.batches()).to_pylist()
    for row, values in zip(table.to_pylist(), wanted, strict=True):
        [cells] = codebook.few.read(row)
        found = dict(zip(codebook.domain.names, cells, strict=True))
        assert {**found, "customer_id": 0} == values


@pytest.mark.filterwarnings("ignore")
def test_few_rows_are_coded_as_many(codebook):
    table = training_table(codebook.missing)
    wanted = by_table(codebook, table)
    for n in (1, 2, 4, 5):
        rows = table.slice(7, n).to_pylist()
        for X in (rows, [list(row.values()) for row in rows], pd.DataFrame(rows)):
            assert np.array_equal(codebook.encode(X), wanted[:, 7 : 7 + n])


def test_rows_may_lack_what_the_model_does_not_read(codebook):
    row = {name: known[0] for name, (known, _) in COLUMNS.items()}
    row |= dict.fromkeys(PARSED)
    del row["customer_id"]
    whole = codebook.encode({**row, "customer_id": "C1"})
    assert codebook.few.encode(row) is not None
    assert np.array_equal(codebook.encode(row), whole)
    assert np.array_equal(codebook.encode({**row, "class": "yes"}), whole)
    with pytest.raises(DataError, match="unseen in fit: 'other'"):
        codebook.encode({**row, "other": 1})
    del row["real"]
    if codebook.missing == "marginalize":
        assert codebook.few.encode(row) is not None
        assert np.array_equal(codebook.encode(row), codebook.encode({**row, "real": None}))
    else:
        with pytest.raises(DataError, match="lacks the column"):
            codebook.encode(row)


@pytest.mark.parametrize(
    "row",
    [
        {**BASE, "real": float("inf")},
        {**BASE, "whole": "many"},
        {**BASE, "text": 3.5},
        {**BASE, "real": [1.0, 2.0]},
        {**BASE, "real": 10**400},
        {**BASE, "whole": Decimal("Infinity")},
    ],
)
def test_what_is_no_value_of_a_column_is_left_to_the_table(codebook, row):
    assert codebook.few.encode(row) is None


@pytest.mark.filterwarnings("ignore")
@given(
    st.text(alphabet="0123456789.,-+eE $%€", max_size=8)
    | st.floats(allow_infinity=False).map(str)
    | st.text(max_size=4).filter(lambda text: "\0" not in text and text.isprintable())
)
def test_any_text_is_read_as_a_column_of_it_is(text):
    codebook = learned()
    names = codebook.domain.names
    for name in ("price", "comma", "decimal_comma", "iso", "german"):
        column = codebook.columns[names.index(name)]
        out = np.empty(1, codebook.dtype)
        column.encode(codebook.readings[name].read(pa.array([text]), name), out)
        assert codebook.encode({**BASE, name: text})[names.index(name), 0] == out[0]


LEARNED = []


def learned():
    if not LEARNED:
        LEARNED.append(learn())
    return LEARNED[0]
