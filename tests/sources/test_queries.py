"""Databases: a statement runs once, and all reads see its rows."""

from __future__ import annotations

import gc
import pickle
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pytest
from torture.postgres import PostgresMissingError, running_postgres

from tanager import BayesNetClassifier, open_table
from tanager.errors import ConfigurationError, DataError

N = 2_000


def _columns() -> dict[str, list]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=N).round(3)
    word = rng.choice(["a", "b", "c"], N)
    y = x + (word == "a") > rng.normal(size=N)
    return {"x": x.tolist(), "word": word.tolist(), "y": y.tolist()}


def _fit(X):
    return BayesNetClassifier("tan", "laplace").fit(X, "y")


def _same(a, b) -> bool:
    rows = [{"x": x, "word": w} for x in (-1.0, 0.0, 2.0) for w in "abc"]
    return bool((a.predict_proba(rows) == b.predict_proba(rows)).all())


@pytest.fixture
def duck(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    rows = pa.table(_columns())
    path = tmp_path / "a file.db"
    with duckdb.connect(str(path)) as connection:
        connection.register("rows", rows)
        connection.execute("CREATE TABLE visits AS SELECT * FROM rows")
        connection.execute("CREATE VIEW few AS SELECT * FROM visits WHERE x > 0")
    return f"duckdb://{quote(str(path))}", path, rows


def test_duckdb_tables_views_and_queries(duck):
    url, _, rows = duck
    table = open_table(f"{url}?table=visits")
    assert table.column("x").to_pylist() == rows["x"].to_pylist()
    n_above = sum(x > 0 for x in rows["x"].to_pylist())
    assert open_table(f"{url}?table=few").n_rows == n_above
    sql = quote("SELECT word, count(*) AS n FROM main.visits GROUP BY word ORDER BY word")
    counted = open_table(f"{url}?sql={sql}")
    assert counted.column("word").to_pylist() == ["a", "b", "c"]
    assert sum(counted.column("n").to_pylist()) == N


def test_a_fit_from_duckdb_is_the_fit_from_memory(duck):
    import duckdb

    url, path, rows = duck
    local = _fit(rows)
    assert _same(_fit(f"{url}?table=visits"), local)
    with duckdb.connect(str(path), read_only=True) as connection:
        assert _same(_fit(connection.sql("SELECT * FROM visits")), local)


def test_a_relation_is_streamed_not_read(duck):
    import duckdb

    _, path, rows = duck
    with duckdb.connect(str(path), read_only=True) as connection:
        table = open_table(connection.sql("SELECT * FROM visits"))
    assert not table.in_memory
    assert table.column("word").to_pylist() == rows["word"].to_pylist()
    address = table.fragments()[0]
    copy = pickle.loads(pickle.dumps(address))
    assert next(copy.batches(["x"])).equals(next(address.batches(["x"])))


def test_a_statement_runs_once(duck):
    import duckdb

    url, path, rows = duck
    table = open_table(f"{url}?sql={quote('SELECT random() AS x FROM visits')}")
    assert table.column("x").equals(table.column("x"))
    table = open_table(f"{url}?table=visits")
    with duckdb.connect(str(path)) as connection:
        connection.execute("UPDATE visits SET x = x + 1")
    assert table.column("x").to_pylist() == rows["x"].to_pylist()


def test_many_rows_are_read_in_pieces_of_any_type():
    duckdb = pytest.importorskip("duckdb")
    sql = """
        SELECT i, i::DECIMAL(30, 2) AS money, DATE '2020-01-01' + i::INT AS day,
            (i % 3 = 0)::BOOLEAN AS third, TIME '10:00:00' AS noon, 9007199254740993 + i AS big,
            ['low', 'high'][1 + i % 2]::ENUM ('low', 'high') AS level,
            TIMESTAMPTZ '2020-01-01 00:00:00+02' AS zoned, nullif(i, 5)::UTINYINT AS few
        FROM range(200) AS t (i)"""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        table = open_table(connection.sql(sql))
        known = pa.table(connection.sql(sql).to_arrow_table())
    for name in known.column_names:
        assert table.column(name).to_pylist() == known[name].to_pylist(), name
    with duckdb.connect() as connection:
        many = open_table(connection.sql("SELECT range AS i FROM range(200000)"))
    assert len(many.fragments()) > 1
    assert many.column("i").to_pylist() == list(range(200_000))


def test_the_temporary_file_lives_as_long_as_a_view(duck):
    table = open_table(f"{duck[0]}?table=visits")
    place = table.fragments()[0].part.file.path
    view = table.select(["x"])
    del table
    gc.collect()
    assert place.exists()
    assert len(view.column("x")) == N
    del view
    gc.collect()
    assert not place.exists()


@pytest.mark.parametrize(
    ("query", "message", "error"),
    [
        ("", "name a table or give a query", ConfigurationError),
        ("?table=a&sql=b", "name a table or give a query", ConfigurationError),
        ("?table=absent", "absent does not exist", DataError),
        ("?sql=SELEC", "cannot be read", DataError),
        ("?sql=SELECT * FROM visits WHERE x > 99", "returned 0 rows", DataError),
    ],
)
def test_addresses_that_name_nothing(duck, query, message, error):
    with pytest.raises(error, match=message):
        open_table(duck[0] + query)


def test_a_file_that_is_not_there(tmp_path):
    pytest.importorskip("duckdb")
    with pytest.raises(DataError, match="No such file"):
        open_table(f"duckdb://{tmp_path}/absent.db?table=t")


@pytest.fixture(scope="module")
def postgres():
    """A server with a table and a view."""
    try:
        with running_postgres() as url:
            from adbc_driver_postgresql import dbapi

            with dbapi.connect(url) as connection, connection.cursor() as cursor:
                cursor.adbc_ingest("visits", pa.table(_columns()))
                cursor.execute("CREATE VIEW few AS SELECT * FROM visits WHERE x > 0")
                cursor.execute("ALTER TABLE visits ADD COLUMN money numeric(8, 2) DEFAULT 1.25")
                connection.commit()
            yield url
    except PostgresMissingError as missing:
        pytest.skip(str(missing))


def test_postgres_tables_views_and_queries(postgres):
    rows = _columns()
    table = open_table(f"{postgres}?table=visits")
    assert table.column("x").to_pylist() == rows["x"]
    assert set(table.column("money").to_pylist()) == {1.25}
    assert open_table(f"{postgres}?table=public.few").n_rows == sum(x > 0 for x in rows["x"])
    sql = quote("SELECT word, count(*) AS n FROM visits GROUP BY word ORDER BY word")
    assert open_table(f"{postgres}?sql={sql}").column("word").to_pylist() == ["a", "b", "c"]


def test_postgres_shows_one_snapshot_to_all_reads(postgres):
    from adbc_driver_postgresql import dbapi

    table = open_table(f"{postgres}?table=visits", drop="money")
    before = _fit(pa.table(_columns()))
    with dbapi.connect(postgres) as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE visits SET word = 'z' WHERE x < 0")
        cursor.execute("DELETE FROM visits WHERE x > 1")
        connection.commit()
    try:
        assert table.column("word").to_pylist() == _columns()["word"]
        assert _same(_fit(table), before)
        assert "z" in open_table(f"{postgres}?table=visits").column("word").to_pylist()
    finally:
        with dbapi.connect(postgres) as connection, connection.cursor() as cursor:
            cursor.execute("DELETE FROM visits")
            connection.commit()


def test_errors_of_postgres_keep_passwords_to_themselves(postgres):
    with pytest.raises(DataError, match=r"relation .* does not exist"):
        open_table(f"{postgres}?table=absent")
    with pytest.raises(DataError, match="cannot be reached") as told:
        open_table("postgresql://me:secret@127.0.0.1:1/db?table=t")
    assert "secret" not in str(told.value)
