"""Statements for DuckDB, SQLite and PostgreSQL, run by them."""

import sqlite3
from datetime import date, datetime, time, timedelta

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tanager import BayesNetClassifier
from tanager.errors import ConfigurationError, MemoryBoundError
from tanager.network import Network
from tanager.network.exports.dialects import DuckDB, SQLite
from tanager.parameters import Tables
from tanager.structure import KDB, Fixed
from tests.network.exports.cases import (
    COMBINATIONS,
    NASTY,
    PARAMETERS,
    TABLES,
    all_cases,
    check,
    fine_case,
    grouped_case,
    make_case,
    nasty_case,
    punch,
    typed_case,
)
from tests.network.exports.postgres import Server, find_programs, find_user


def with_key(case):
    """Return the rows with a key that no column of theirs has."""
    return case.rows.append_column("row key", pa.array(range(case.rows.num_rows)))


def in_order(rows):
    """Return the result's probabilities by the rows' key."""
    found = sorted(rows)
    assert [row[0] for row in found] == list(range(len(found)))
    return np.array([row[1:] for row in found], float)


def sql_cases(structure, parameters):
    """Return every table with one of the two parameters, by turns: planning takes its time."""
    cases = all_cases(structure, parameters)
    n_tables = len(TABLES)
    return [*cases[:n_tables][list(PARAMETERS).index(parameters) :: 2], *cases[n_tables:]]


def run_duckdb(case, **options):
    connection = duckdb.connect(config={"threads": 1})
    rows = with_key(case)  # noqa: F841  (found by its name)
    statement = case.network.to_sql(table="rows", dialect="duckdb", keep=["row key"], **options)
    return in_order(connection.execute(statement).fetchall())


def run_sqlite(case, dialect="sqlite", **options):
    connection = sqlite3.connect(":memory:")
    rows = with_key(case)
    quoted = ['"' + name.replace('"', '""') + '"' for name in rows.column_names]
    connection.execute(f"CREATE TABLE rows ({', '.join(quoted)})")
    marks = ", ".join("?" for _ in quoted)
    cells = zip(*(column.to_pylist() for column in rows.columns), strict=True)
    connection.executemany(f"INSERT INTO rows VALUES ({marks})", cells)
    statement = case.network.to_sql(table="rows", dialect=dialect, keep=["row key"], **options)
    try:
        return in_order(connection.execute(statement).fetchall())
    finally:
        connection.close()


@pytest.mark.parametrize(("structure", "parameters"), COMBINATIONS)
def test_duckdb_gives_the_same_posterior(structure, parameters):
    for case in sql_cases(structure, parameters):
        check(case, run_duckdb(case))


@pytest.mark.parametrize(("structure", "parameters"), COMBINATIONS)
def test_sqlite_gives_the_same_posterior(structure, parameters):
    for case in sql_cases(structure, parameters):
        check(case, run_sqlite(case))


@pytest.fixture(scope="session")
def server():
    if find_programs() is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    if find_user() is None:
        pytest.skip("PostgreSQL does not run as root, and there is no other user here")
    running = Server()
    yield running
    running.stop()


def run_postgres(case, server, **options):
    statement = case.network.to_sql(table="rows", dialect="postgres", keep=["row key"], **options)
    found = server.query(with_key(case), statement)
    return in_order([[int(row[0]), *(cell or "nan" for cell in row[1:])] for row in found])


@pytest.mark.parametrize(("structure", "parameters"), COMBINATIONS)
def test_postgres_gives_the_same_posterior(structure, parameters, server):
    for case in sql_cases(structure, parameters):
        check(case, run_postgres(case, server))


def test_postgres_sums_groups_out(server):
    for case in (fine_case(), grouped_case("2-tree")):
        check(case, run_postgres(case, server))


def test_standard_sql_gives_the_same_posterior():
    for case in (all_cases("tan", "hdp")[6], nasty_case(), typed_case()):
        connection = duckdb.connect(config={"threads": 1})
        table = with_key(case).to_pandas().replace({float("nan"): None})
        rows = pa.table({name: table[name].tolist() for name in table.columns})  # noqa: F841
        statement = case.network.to_sql(dialect="case", keep=["row key"])
        check(case, in_order(connection.execute(statement).fetchall()))


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
def test_contributions_are_the_terms_of_the_log_odds(dialect):
    run = {"duckdb": run_duckdb, "sqlite": run_sqlite}[dialect]
    for case in all_cases("tan", "hdp")[:4:2]:
        network = case.network
        n_classes = case.expected.shape[1]
        got = run(case, contributions=True)
        check(case, got[:, :n_classes])
        codes = network.codebook.encode(case.rows)
        terms = network.log_terms(codes)[:, list(network.structure.selected)]
        odds = (terms[:, :, 1:] - terms[:, :, :1]).reshape(len(got), -1)
        known = codes < network.codebook.domain.arities[:, None]
        blocked = np.zeros(len(got), bool)
        for child, parents in zip(
            network.structure.selected, network.structure.parent_indices, strict=True
        ):
            blocked |= known[child] & ~known[list(parents)].all(axis=0)
        assert blocked.any()
        assert not blocked.all()
        parts = got[:, n_classes:]
        assert np.allclose(parts[~blocked], odds[~blocked], rtol=0, atol=1e-9)
        assert np.isnan(parts[blocked]).any(axis=1).all()


def test_rows_with_unknown_values_are_null_on_request():
    case = all_cases("tan", "hdp")[0]
    full, short = run_duckdb(case), run_duckdb(case, unknowns=False)
    answered = ~np.isnan(short).any(axis=1)
    assert 0 < answered.sum() < len(short)
    assert np.allclose(short[answered], full[answered], rtol=0, atol=1e-12)
    assert np.isnan(short[~answered]).all()


def test_by_default_the_columns_that_are_read_come_back():
    case = nasty_case()
    rows = case.rows  # noqa: F841  (found by its name)
    result = duckdb.connect().execute(case.network.to_sql(unknowns=False))
    names = [column[0] for column in result.description]
    assert names[: len(NASTY)] == list(NASTY)
    assert names[len(NASTY) :] == [f"p_{name}" for name in sorted(NASTY)]


def test_a_schema_and_a_hostile_table_name_are_quoted():
    case = typed_case()
    name = 'rows"; DROP TABLE rows; --'
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA store")
    connection.register("given", case.rows)
    quoted = name.replace('"', '""')
    connection.execute(f'CREATE TABLE store."{quoted}" AS SELECT * FROM given')
    statement = case.network.to_sql(table=("store", name), keep=[])
    got = np.array(connection.execute(statement).fetchall())
    assert np.allclose(np.sort(got, axis=0), np.sort(case.expected, axis=0), rtol=0, atol=1e-9)


def test_dates_are_read_as_dates(server):
    rng = np.random.default_rng(3)
    seconds = rng.integers(0, 2_000_000_000, 300) + 0.25
    times = (seconds * 1e6).astype("datetime64[us]")
    y = (seconds > 1e9).astype(int)
    table = pa.table({"when": pa.array(times), "other": rng.normal(size=300)})
    network = BayesNetClassifier("tan", "hdp").fit(table, y).network_
    rows = table.slice(0, 40).append_column("row key", pa.array(range(40)))
    expected = np.exp(network.log_joint(table.slice(0, 40)))
    expected /= expected.sum(axis=1, keepdims=True)
    statement = network.to_sql(keep=["row key"])
    got = in_order(duckdb.sql(statement).fetchall())
    assert np.allclose(got, expected, rtol=0, atol=1e-9)
    connection = sqlite3.connect(":memory:")
    connection.execute('CREATE TABLE rows ("when", other, "row key")')
    texts = [str(moment) for moment in times[:40]]
    cells = zip(texts, rows["other"].to_pylist(), range(40), strict=True)
    connection.executemany("INSERT INTO rows VALUES (?, ?, ?)", cells)
    statement = network.to_sql(keep=["row key"], dialect="sqlite")
    got = in_order(connection.execute(statement).fetchall())
    connection.close()
    assert np.allclose(got, expected, rtol=0, atol=1e-9)
    statement = network.to_sql(keep=["row key"], dialect="postgres")
    cast = statement.replace('."when"', '."when"::timestamp')
    as_text = rows.set_column(0, "when", pa.array(texts))
    got = in_order([[int(row[0]), *row[1:]] for row in server.query(as_text, cast)])
    assert np.allclose(got, expected, rtol=0, atol=1e-9)


def run_both(network, table, texts):
    """Return what DuckDB says of a table and SQLite of its cells, one column, as posteriors."""
    rows = table.append_column("row key", pa.array(range(table.num_rows)))  # noqa: F841
    given = in_order(duckdb.sql(network.to_sql(keep=["row key"])).fetchall())
    connection = sqlite3.connect(":memory:")
    connection.execute(f'CREATE TABLE rows ({table.column_names[0]}, "row key")')
    cells = zip(texts, range(len(texts)), strict=True)
    connection.executemany("INSERT INTO rows VALUES (?, ?)", cells)
    lite = connection.execute(network.to_sql(keep=["row key"], dialect="sqlite")).fetchall()
    connection.close()
    return given, in_order(lite)


SECONDS = np.random.default_rng(4).integers(0, 86_400, 120).tolist()
TIMES = [time(s // 3600, s // 60 % 60, s % 60, 250_000) for s in SECONDS]


@pytest.mark.parametrize(
    ("values", "cells"),
    [
        (TIMES, [str(moment) for moment in TIMES]),
        ([timedelta(seconds=s) for s in SECONDS], SECONDS),
    ],
    ids=["times", "durations"],
)
def test_times_of_day_and_durations_are_seconds(values, cells):
    table = pa.table({"span": pa.array(values)})
    clf = BayesNetClassifier("naive", "laplace", bins=6).fit(table, [s > 40_000 for s in SECONDS])
    for got in run_both(clf.network_, table, cells):
        assert np.allclose(got, clf.predict_proba(table), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "values",
    [
        [datetime(2026, 1, day, 6 * (day % 2), 0, 0, 500_000 * (day % 2)) for day in range(1, 7)],
        [date(2026, 1, day) for day in range(1, 7)],
        [time(hour, 30) for hour in range(6)],
    ],
    ids=["instants", "days", "times"],
)
def test_dates_and_times_may_be_categories(values):
    table = pa.table({"moment": pa.array(values * 10)})
    y = [at % 6 < 2 for at in range(60)]
    clf = BayesNetClassifier("naive", "laplace", categorical_features="all").fit(table, y)
    for got in run_both(clf.network_, table, [str(value) for value in values * 10]):
        assert np.allclose(got, clf.predict_proba(table), rtol=0, atol=1e-9)


@settings(max_examples=300)
@given(st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False))
def test_numbers_are_exact_in_every_engine(value):
    if abs(value) > 1e300 or 0 < abs(value) < 1e-290:
        return
    lite = sqlite3.connect(":memory:")
    assert lite.execute(f"SELECT {SQLite().number(value)}").fetchone()[0] == value
    lite.close()
    assert duckdb.sql(f"SELECT {DuckDB().number(value)}").fetchall()[0][0] == value


def test_many_features_do_not_underflow():
    rng = np.random.default_rng(0)
    n, width = 120, 150
    y = rng.integers(0, 2, n)
    x = (rng.random((n, width)) < np.where(y, 0.001, 0.999)[:, None]).astype(int)
    clf = BayesNetClassifier("tan", "laplace", categorical_features="all").fit(x, y)
    table = pa.table({f"x{i}": pa.array(x[:6, i], pa.float64()) for i in range(width)})
    holes = punch(table, 0.3, rng)
    case = make_case("wide", clf.network_, pa.concat_tables([table, holes]), rng)
    check(case, run_duckdb(case))
    check(case, run_sqlite(case))


def test_what_one_statement_cannot_sum_out_is_refused(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 12, (400, 14))
    clf = BayesNetClassifier(KDB(k=3, adjusted=False), "laplace", categorical_features="all")
    network = clf.fit(x, rng.integers(0, 2, 400)).network_
    with pytest.raises(MemoryBoundError, match="unknowns=False"):
        network.to_sql()
    assert network.to_sql(unknowns=False).startswith("WITH")
    pairs = {f"x{i}": [f"x{i - 1}"] for i in range(1, 14)}
    chain = BayesNetClassifier(Fixed(pairs), "laplace", bins=60)
    wide = chain.fit(rng.normal(size=(400, 14)), rng.integers(0, 2, 400)).network_
    for dialect in ("duckdb", "postgres", "sqlite", "case"):
        assert wide.to_sql(dialect=dialect).startswith("WITH")
    monkeypatch.setattr("tanager.network.exports.sql.MAX_TERMS", 1 << 15)
    with pytest.raises(MemoryBoundError, match="cells, beyond the limit of 32,768"):
        wide.to_sql()
    assert wide.to_onnx() is not None
    scores = Tables(network.log_prior, network.tables.families, normalized=False)
    with pytest.raises(ConfigurationError, match="unknowns=False"):
        Network(network.codebook, network.structure, scores).to_sql()
    with pytest.raises(ConfigurationError, match="duckdb, sqlite, postgres, case"):
        network.to_sql(dialect="oracle")


def two_ages(first="age", second="Age", spare=None):
    """Return a table of two columns that say different things, and the classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    told = {first: np.where(y, "old", "young"), second: rng.choice(["old", "young"], 200)}
    if spare is not None:
        told[spare] = rng.choice(["a", "b"], 200)
    return pa.table(told), np.where(y, "yes", "no")


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite", "case"])
def test_columns_that_differ_only_in_case_are_refused(dialect):
    network = BayesNetClassifier("naive", "laplace").fit(*two_ages()).network_
    with pytest.raises(ConfigurationError, match=r"'age', 'Age' differ only in case.*Rename"):
        network.to_sql(dialect=dialect)
    table, y = two_ages(second="sex")
    network = BayesNetClassifier("naive", "laplace").fit(table, y).network_
    with pytest.raises(ConfigurationError, match=r"'age', 'AGE' differ only in case"):
        network.to_sql(dialect=dialect, keep=["AGE"])
    assert network.to_sql(dialect=dialect, keep=["key", "age"]).startswith("WITH")


def test_a_column_that_is_not_read_may_stand_in_the_table_too():
    table, y = two_ages(spare="other")
    network = BayesNetClassifier("naive", "laplace").fit(table, y).network_
    without = network.edit("age", forbid=True)
    assert "age" not in without.structure.features
    with pytest.raises(ConfigurationError, match="differ only in case"):
        without.to_sql()
    neither = without.edit("Age", forbid=True)
    assert neither.to_sql().startswith("WITH")


def test_postgres_tells_names_apart_by_case(server):
    table, y = two_ages()
    clf = BayesNetClassifier("naive", "laplace").fit(table, y)
    rows = table.append_column("row key", pa.array(range(200)))
    statement = clf.network_.to_sql(dialect="postgres", keep=["row key"])
    got = in_order([[int(row[0]), *row[1:]] for row in server.query(rows, statement)])
    assert np.allclose(got, clf.predict_proba(table), rtol=0, atol=1e-9)


def test_engines_tell_letters_beyond_a_to_z_apart_by_case():
    table, y = two_ages("é", "É")
    clf = BayesNetClassifier("naive", "laplace").fit(table, y)
    case = make_case("letters", clf.network_, table, np.random.default_rng(0))
    check(case, run_duckdb(case))
    check(case, run_sqlite(case))


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite", "postgres", "case"])
def test_an_empty_name_is_refused(dialect):
    network = BayesNetClassifier("naive", "laplace").fit(*two_ages("age", "")).network_
    with pytest.raises(ConfigurationError, match=r"empty name.*Rename it"):
        network.to_sql(dialect=dialect)
    with pytest.raises(ConfigurationError, match=r"empty name.*Rename it"):
        BayesNetClassifier("naive", "laplace").fit(*two_ages("age", "sex")).network_.to_sql(
            table="", dialect=dialect
        )


# As the statement calls its own columns and stages, in the other case.
OWN = ["L1", "P_yes", "K0", "V0", "C1", "I1", "W0", "TOP", "F0_1", "A1", "G0", "M0_1", "Coded"]


@pytest.mark.parametrize("run", [run_duckdb, run_sqlite], ids=["duckdb", "sqlite"])
def test_columns_may_be_called_as_the_statement_calls_its_own(run):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 300)
    told = {name: np.where(rng.random(300) < 0.4, rng.integers(0, 3, 300), y) for name in OWN}
    table = pa.table({name: column.astype(str) for name, column in told.items()})
    clf = BayesNetClassifier("tan", "laplace", missing="marginalize")
    network = clf.fit(table, np.where(y, "yes", "no")).network_
    rows = pa.concat_tables([table.slice(0, 40), punch(table.slice(40, 40), 0.3, rng)])
    case = make_case("own", network, rows, rng)
    check(case, run_sqlite(case))
    check(case, run(case, contributions=True)[:, :2])


def test_a_result_has_no_two_columns_that_differ_only_in_case():
    table, y = two_ages("P_yes", "LOG_odds_P_yes")
    network = BayesNetClassifier("naive", "laplace").fit(table, y).network_
    rows = table  # noqa: F841  (found by its name)
    names = duckdb.sql(network.to_sql(contributions=True)).columns
    assert names[:4] == ["P_yes", "LOG_odds_P_yes", "p_no", "p_yes_2"]
    assert len({name.lower() for name in names}) == len(names) == 6


def test_sqlite_misses_a_column_that_the_table_lacks():
    """Its bare name in quotes would be read as a text."""
    clf = BayesNetClassifier("naive", "laplace").fit(
        pd.DataFrame({"a": ["x", "y"] * 10, "b": ["u", "v"] * 10}), ["no", "yes"] * 10
    )
    connection = sqlite3.connect(":memory:")
    connection.execute('CREATE TABLE "rows" (a TEXT)')
    connection.execute("INSERT INTO \"rows\" VALUES ('x')")
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        connection.execute(clf.network_.to_sql(table="rows", dialect="sqlite", keep=["a"]))


@pytest.mark.parametrize("name", ["raw", "Weighed", "coded"])
def test_a_table_named_as_a_stage_needs_its_schema(name):
    X = pd.DataFrame({"a": ["x", "y"] * 10})
    clf = BayesNetClassifier("naive", "laplace").fit(X, ["no", "yes"] * 10)
    with pytest.raises(ConfigurationError, match="a name that the statement itself uses"):
        clf.network_.to_sql(table=name, dialect="sqlite")
    connection = sqlite3.connect(":memory:")
    connection.execute(f'CREATE TABLE "{name}" (a TEXT)')
    connection.executemany(f'INSERT INTO "{name}" VALUES (?)', X.to_numpy().tolist())
    found = connection.execute(clf.network_.to_sql(table=("main", name), dialect="sqlite", keep=[]))
    assert np.array(found.fetchall()) == pytest.approx(clf.predict_proba(X))


def test_postgres_tells_a_table_from_a_stage_by_case():
    clf = BayesNetClassifier("naive", "laplace").fit([["x"], ["y"]] * 10, [0, 1] * 10)
    assert '"RAW"' in clf.network_.to_sql(table="RAW", dialect="postgres")


def test_one_column_to_keep_may_be_named_alone():
    network = BayesNetClassifier("naive", "laplace").fit({"a": ["x", "y"] * 5}, [0, 1] * 5).network_
    assert network.to_sql(keep="id") == network.to_sql(keep=["id"])
    for wrong in (5, [5]):
        with pytest.raises(ConfigurationError, match=r"keep=.*Allowed: a name, or a list"):
            network.to_sql(keep=wrong)


def test_more_messages_than_a_union_takes_are_added():
    rng = np.random.default_rng(0)
    table = pa.table({f"x{i}": rng.integers(0, 2, 60) for i in range(240)})
    star = Fixed({f"x{i}": ["x0"] for i in range(1, 240)})
    clf = BayesNetClassifier(star, "laplace", categorical_features="all", audit=False)
    network = clf.fit(table, rng.integers(0, 2, 60)).network_
    case = make_case("star", network, punch(table, 0.01, rng), rng)
    check(case, run_sqlite(case))
