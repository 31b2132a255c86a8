"""Databases: the same rows in all reads, streamed."""

from __future__ import annotations

import pickle
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torture.postgres import PostgresMissingError, running_postgres

from tanager import BayesNetClassifier, open_table
from tanager.errors import ConfigurationError, DataError
from tanager.sources import queries

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


def test_duckdb_tables_views_and_queries(duck, monkeypatch):
    url, _, rows = duck
    monkeypatch.setattr(queries, "PIECE_ROWS", 300)
    table = open_table(f"{url}?table=visits")
    assert len(table.fragments()) == 7
    assert [f.start for f in table.fragments()] == list(range(0, N, 300))
    assert table.column("x").to_pylist() == rows["x"].to_pylist()
    n_above = sum(x > 0 for x in rows["x"].to_pylist())
    assert open_table(f"{url}?table=few").n_rows == n_above
    sql = quote("SELECT word, count(*) AS n FROM main.visits GROUP BY word ORDER BY word")
    counted = open_table(f"{url}?sql={sql}")
    assert counted.column("word").to_pylist() == ["a", "b", "c"]
    assert sum(counted.column("n").to_pylist()) == N


def test_deleted_rows_leave_no_gap(duck, monkeypatch):
    import duckdb

    url, path, rows = duck
    monkeypatch.setattr(queries, "PIECE_ROWS", 300)
    with duckdb.connect(str(path)) as connection:
        connection.execute("DELETE FROM visits WHERE rowid BETWEEN 100 AND 950")
    table = open_table(f"{url}?table=visits")
    kept = rows["x"].to_pylist()
    assert table.column("x").to_pylist() == kept[:100] + kept[951:]
    assert sum(f.n_rows for f in table.fragments()) == table.n_rows == N - 851


def test_a_fit_from_duckdb_is_the_fit_from_memory(duck):
    import duckdb

    url, path, rows = duck
    local = _fit(rows)
    assert _same(_fit(f"{url}?table=visits"), local)
    with duckdb.connect(str(path), read_only=True) as connection:
        assert _same(_fit(connection.sql("SELECT * FROM visits")), local)


def test_a_relation_is_streamed_not_read(duck):
    import duckdb

    url, path, _ = duck
    with duckdb.connect(str(path), read_only=True) as connection:
        table = open_table(connection.sql("SELECT * FROM visits"))
        assert not table.in_memory
        assert table.n_rows == N
        with pytest.raises(DataError, match="only be read in the process that made it"):
            pickle.dumps(table.fragments()[0])
    address = open_table(f"{url}?table=visits").fragments()[0]
    copy = pickle.loads(pickle.dumps(address))
    assert next(copy.batches(["x"])).equals(next(address.batches(["x"])))


def test_a_query_that_gives_other_rows_is_refused(duck):
    import duckdb

    url, _, _ = duck
    table = open_table(f"{url}?sql={quote('SELECT random() AS x FROM visits')}")
    list(table.batches())
    with pytest.raises(DataError, match="returned different rows than before"):
        list(table.batches())
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT range AS i FROM range(100)")
        grown = open_table(connection.sql("SELECT * FROM t"))
        connection.execute("INSERT INTO t VALUES (100)")
        with pytest.raises(DataError, match="returned different rows than before"):
            list(grown.batches())


def test_a_database_file_that_changes_is_refused(duck):
    import duckdb

    url, path, _ = duck
    table = open_table(f"{url}?table=visits")
    with duckdb.connect(str(path)) as connection:
        connection.execute("UPDATE visits SET x = x + 1")
    with pytest.raises(DataError, match="has changed since it was opened"):
        list(table.batches())


@pytest.mark.parametrize(
    ("query", "message", "error"),
    [
        ("", "name a table or give a query", ConfigurationError),
        ("?table=a&sql=b", "name a table or give a query", ConfigurationError),
        ("?table=absent", "absent does not exist", DataError),
        ("?sql=SELEC", "cannot be read", DataError),
    ],
)
def test_addresses_that_name_nothing(duck, query, message, error):
    with pytest.raises(error, match=message):
        open_table(duck[0] + query)


def test_a_file_that_is_not_there(tmp_path):
    pytest.importorskip("duckdb")
    with pytest.raises(DataError, match="No such file"):
        open_table(f"duckdb://{tmp_path}/absent.db?table=t")


_VALUES = {
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(max_size=5),
    pa.large_string(): st.text(max_size=5),
    pa.bool_(): st.booleans(),
    pa.dictionary(pa.int32(), pa.string()): st.sampled_from(["a", "b", "c"]),
}


@given(st.data())
def test_a_tally_depends_on_the_values_alone(data):
    kind = data.draw(st.sampled_from(list(_VALUES)))
    values = data.draw(st.lists(st.none() | _VALUES[kind], min_size=1, max_size=30))
    cut = data.draw(st.integers(0, len(values)))
    whole = pa.array(values, kind)
    parts = [whole.slice(cut), whole.slice(0, cut)]
    assert sum(map(queries._tally, parts)) & queries.MOST == queries._tally(whole)
    shuffled = pa.array(data.draw(st.permutations(values)), kind)
    assert queries._tally(shuffled) == queries._tally(whole)
    fewer = pa.array([*values[1:], None], kind)
    assert values[0] is None or queries._tally(fewer) != queries._tally(whole)


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


def test_postgres_tables_views_and_queries(postgres, monkeypatch):
    monkeypatch.setattr(queries, "PIECE_ROWS", 300)
    monkeypatch.setattr("tanager.sources.queries.PIECE_ROWS", 300)
    rows = _columns()
    table = open_table(f"{postgres}?table=visits")
    assert len(table.fragments()) > 3
    assert table.column("x").to_pylist() == rows["x"]
    assert set(table.column("money").to_pylist()) == {1.25}
    assert open_table(f"{postgres}?table=public.few").n_rows == sum(x > 0 for x in rows["x"])
    sql = quote("SELECT word, count(*) AS n FROM visits GROUP BY word ORDER BY word")
    assert open_table(f"{postgres}?sql={sql}").column("word").to_pylist() == ["a", "b", "c"]
    fragment = table.fragments()[1]
    copy = pickle.loads(pickle.dumps(fragment))
    assert next(copy.batches(["x"])).equals(next(fragment.batches(["x"])))


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
