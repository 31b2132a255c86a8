"""Columns as users have them in databases: instants, durations, numbers and dates as text."""

from __future__ import annotations

import sqlite3
from datetime import UTC, date, datetime, time, timedelta, timezone

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from tanager import BayesNetClassifier
from tanager.codes.reading import DATE_STYLES
from tests.network.exports.test_sql import in_order
from tests.network.exports.test_sql import server as server  # a fixture

N = 120
LATE = datetime(9999, 12, 31, 23, 59, 59, 999_999)


def fit(column, *, categorical=False, **options):
    """Return a model of one column, in which each of its values tells another thing."""
    array = column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column)
    table = pa.table({"moment": array})
    chosen = ["moment"] if categorical else "from_dtype"
    clf = BayesNetClassifier("naive", "laplace", categorical_features=chosen, **options)
    y = np.random.default_rng(0).random(len(table)) < np.linspace(0, 1, len(table))
    return clf.fit(table, y)


def duck(clf, table, zone="UTC"):
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(f"SET TimeZone='{zone}'")
    rows = table.append_column("row key", pa.array(range(table.num_rows)))  # noqa: F841
    return in_order(connection.execute(clf.network_.to_sql(keep="row key")).fetchall())


def lite(clf, cells):
    connection = sqlite3.connect(":memory:")
    connection.execute('CREATE TABLE rows (moment, "row key")')
    keyed = [(cell, key) for key, cell in enumerate(cells)]
    connection.executemany("INSERT INTO rows VALUES (?, ?)", keyed)
    found = connection.execute(clf.network_.to_sql(keep="row key", dialect="sqlite")).fetchall()
    connection.close()
    return in_order(found)


def postgres(clf, cells, engine, kind=None):
    table = pa.table({"moment": pa.array(cells, pa.string())})
    rows = table.append_column("row key", pa.array(range(len(cells))))
    statement = clf.network_.to_sql(keep="row key", dialect="postgres")
    if kind is not None:
        statement = statement.replace('."moment"', f'."moment"::{kind}')
    found = engine.query(rows, statement)
    return in_order([[int(row[0]), *row[1:]] for row in found])


def check(found, clf, table):
    assert np.allclose(found, clf.predict_proba(table), rtol=0, atol=1e-9)


INSTANTS = [datetime(2026, 3, 28, 22, 30) + timedelta(minutes=17 * i) for i in range(6)]
ZONED = [moment.replace(tzinfo=UTC) for moment in INSTANTS]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu"])
@pytest.mark.parametrize("categorical", [True, False])
@pytest.mark.parametrize("values", [INSTANTS, ZONED], ids=["local", "zoned"])
def test_instants_under_any_time_zone_of_the_session(values, categorical, zone):
    table = pa.table({"moment": pa.array(values * 20)})
    clf = fit(table["moment"], categorical=categorical, bins=5)
    check(duck(clf, table, zone), clf, table)


def test_zoned_categories_in_postgres(server):
    table = pa.table({"moment": pa.array(ZONED * 20)})
    clf = fit(table["moment"], categorical=True)
    tokyo = [str(m.astimezone(timezone(timedelta(hours=9)))) for m in ZONED * 20]
    check(postgres(clf, tokyo, server, "timestamptz"), clf, table)
    local = [str(moment) for moment in INSTANTS * 20]
    check(postgres(clf, local, server, "timestamp"), clf, table)


def test_zoned_texts_in_sqlite():
    table = pa.table({"moment": pa.array(ZONED * 20)})
    for categorical in (True, False):
        clf = fit(table["moment"], categorical=categorical, bins=5)
        for hours in (0, 9, -3.5):
            zone = timezone(timedelta(hours=hours))
            check(lite(clf, [str(m.astimezone(zone)) for m in ZONED * 20]), clf, table)


SPANS = [timedelta(seconds=s) for s in (0, 0.25, 90, 3600, 5400.5, 100_000)]


@pytest.mark.parametrize("categorical", [True, False])
def test_durations(categorical, server):
    table = pa.table({"moment": pa.array(SPANS * 20)})
    clf = fit(table["moment"], categorical=categorical, bins=5)
    check(duck(clf, table), clf, table)
    seconds = [span.total_seconds() for span in SPANS * 20]
    check(lite(clf, seconds), clf, table)
    check(lite(clf, [int(s) if s == int(s) else s for s in seconds]), clf, table)
    check(postgres(clf, [f"{s} seconds" for s in seconds], server, "interval"), clf, table)


@pytest.mark.parametrize("categorical", [True, False])
@pytest.mark.parametrize(
    "values",
    [
        [LATE, *(datetime(2026, 1, 1) + timedelta(microseconds=i) for i in range(5))],
        [datetime(2026, 1, 1, 0, 0, 0, 499_998 + i) for i in range(6)],
        [datetime(1931, 5, 3, 23, 59, 59, 999_994 + i) for i in range(6)],
        [datetime(2026, 12, 31, 23, 59, 59, 999_994 + i) for i in range(6)],
        [time(23, 59, 59, 999_994 + i) for i in range(6)],
        [date(2026, 2, 25 + i) for i in range(4)] + [date(1600, 1, 1), date(9999, 12, 31)],
    ],
    ids=["late", "middle", "old", "new year", "midnight", "days"],
)
def test_microseconds_near_a_cut(values, categorical):
    table = pa.table({"moment": pa.array(values * 20)})
    clf = fit(table["moment"], categorical=categorical, bins=6)
    check(duck(clf, table), clf, table)
    check(lite(clf, [str(value) for value in values * 20]), clf, table)
    assert (lite(clf, [None]) != lite(clf, [str(values[0])])).any()  # it is not missing


@pytest.mark.parametrize(
    "first",
    [
        *(datetime(100, 3, 1), datetime(1582, 10, 28, 2, 16, 7, 519_521), datetime(2300, 1, 1)),
        LATE - timedelta(microseconds=5),
    ],
)
def test_distant_microseconds_as_categories(first, server):
    values = [first + timedelta(microseconds=i) for i in range(6)]  # as seconds, some are equal
    table = pa.table({"moment": pa.array(values * 20)})
    clf = fit(table["moment"], categorical=True)
    check(duck(clf, table), clf, table)
    cells = [str(value) for value in values * 20]
    check(lite(clf, cells), clf, table)
    check(postgres(clf, cells, server, "timestamp"), clf, table)


# Numbers and dates that training read from text

STRAYS = ["", " ", "unknown", "n/a", "2024-01-05", "1-2", "5e", "--3", "1.2.3", "e5", "."]
NUMBERS = {
    "plain": ["{:.2f}", "{:.2f} ", " {:.3e}", "${:.2f}", "{:.1f} %", "+{:.2f}"],
    "comma for thousands": ["{:,.2f}", "€{:,.2f}", "{:.2f}"],
    "decimal comma": ["{:.2f}"],
    "space for thousands": ["{:,.2f}"],
}


def write(style, form, number):
    text = form.format(number)
    if style == "space for thousands":
        return text.replace(",", " ")
    return text.replace(".", ",") if style == "decimal comma" else text


@pytest.mark.filterwarnings("ignore::tanager.errors.ColumnWarning")
@pytest.mark.parametrize("style", NUMBERS)
def test_numbers_that_training_read_from_text(style, server):
    rng = np.random.default_rng(1)
    numbers = np.sort(rng.gamma(2.0, 900.0, N)) + 1000.0
    texts = [write(style, NUMBERS[style][0], number) for number in numbers]
    texts[3::30] = ["unknown"] * len(texts[3::30])
    clf = fit(texts, bins=7)
    assert clf.network_.codebook.readings["moment"].style == style
    forms = [write(style, form, number) for number in numbers[::9] for form in NUMBERS[style]]
    rows = [*texts, *forms, None, *(STRAYS if style == "plain" else STRAYS[:4])]
    table = pa.table({"moment": pa.array(rows, pa.string())})
    check(duck(clf, table), clf, table)
    check(lite(clf, rows), clf, table)
    check(
        postgres(clf, [text for text in rows if text], server),
        clf,
        table.filter([bool(t) for t in rows]),
    )
    typed = pa.table({"moment": pa.array(numbers)})
    check(duck(clf, typed), clf, typed)
    check(lite(clf, numbers.tolist()), clf, typed)


@pytest.mark.filterwarnings("ignore::tanager.errors.ColumnWarning")
def test_numbers_in_an_enum_of_duckdb():
    texts = [f"{x:.2f}" for x in np.random.default_rng(2).normal(size=N)]
    clf = fit(texts, bins=5)
    table = pa.table({"moment": pa.array([*texts, " "])})
    connection = duckdb.connect()
    connection.register("given", table)
    connection.execute("CREATE TYPE kinds AS ENUM (SELECT DISTINCT moment FROM given)")
    connection.execute("CREATE TABLE rows AS SELECT moment::kinds AS moment FROM given")
    found = np.array(connection.execute(clf.network_.to_sql(keep=[])).fetchall())
    assert np.allclose(np.sort(found, axis=0), np.sort(clf.predict_proba(table), axis=0), atol=1e-9)


@pytest.mark.filterwarnings("ignore::tanager.errors.ColumnWarning")
@pytest.mark.parametrize("style", DATE_STYLES)
def test_dates_that_training_read_from_text(style, server):
    days = [date(2019, 1, 30) + timedelta(days=11 * i) for i in range(N)]
    form = "%Y-%m-%d" if style == "ISO" else style
    texts = [day.strftime(form) for day in days]
    clf = fit(texts, dates={"moment": style}, bins=7)
    assert clf.network_.codebook.readings["moment"].style == style
    iso = [
        f"{day}{rest}" for day in days[::7] for rest in ("T23:30", " 23:30:15.5", "T23:30:00+02:00")
    ]
    rows = [*texts, *iso, *(day.strftime("%Y/%m/%d") for day in days[::9]), " " + texts[5]]
    table = pa.table({"moment": rows})
    check(duck(clf, table, "America/New_York"), clf, table)
    check(lite(clf, rows), clf, table)
    check(postgres(clf, rows, server), clf, table)
    strays = pa.table({"moment": pa.array(["", "soon", None, "12:30", "2460000", "99.99.9999"])})
    check(duck(clf, strays), clf, strays)
    check(lite(clf, strays["moment"].to_pylist()), clf, strays)
    typed = pa.table({"moment": pa.array(days)})
    check(duck(clf, typed), clf, typed)
    check(lite(clf, [str(day) for day in days]), clf, typed)


@pytest.mark.filterwarnings("ignore::tanager.errors.ColumnWarning")
def test_offsets_of_dates_in_text_count():
    hours = [
        f"2026-03-01T{h:02d}:00:00{zone}" for h in range(24) for zone in ("Z", "+05:00", "-0330")
    ]
    instants = [datetime.fromisoformat(text) for text in hours]
    read, known = fit(hours, bins=5), fit(pa.array(instants), bins=5)
    assert read.network_.codebook.readings["moment"].kind == "date"
    assert np.array_equal(
        read.network_.codebook.columns[0].cuts, known.network_.codebook.columns[0].cuts
    )
    table = pa.table({"moment": hours})
    expected = known.predict_proba(pa.table({"moment": pa.array(instants)}))
    assert np.array_equal(read.predict_proba(table), expected)
    assert np.array_equal(read.predict_proba(table.slice(5, 1)), expected[5:6])
    check(duck(read, table, "Asia/Tokyo"), read, table)
    with_colon = [text.replace("-0330", "-03:30") for text in hours]
    check(lite(read, with_colon), read, table)
