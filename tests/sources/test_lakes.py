"""Delta Lake and Iceberg: the table, not its files; one snapshot for all reads."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest

from tanager import BayesNetClassifier, open_table
from tanager.errors import ConfigurationError, DataError


def _rows(seed: int, n: int = 500) -> pa.Table:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    word = rng.choice(["a", "b"], n)
    return pa.table({"x": x, "word": word, "y": (x > 0).astype(str)})


def _fit(X):
    return BayesNetClassifier("tan", "laplace").fit(X, "y")


def _same(a, b) -> bool:
    rows = [{"x": x, "word": w} for x in (-1.0, 0.1, 2.0) for w in "ab"]
    return bool((a.predict_proba(rows) == b.predict_proba(rows)).all())


@pytest.fixture
def delta(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    folder = str(tmp_path / "visits")
    deltalake.write_deltalake(folder, _rows(0))
    deltalake.write_deltalake(folder, _rows(1), mode="overwrite")
    return deltalake, folder


def test_a_folder_with_a_log_is_a_delta_table(delta):
    deltalake, folder = delta
    table = open_table(folder)
    assert table.n_rows == 500  # its Parquet files have 1,000
    assert table.column("x").to_pylist() == _rows(1)["x"].to_pylist()
    assert _same(_fit(folder), _fit(_rows(1)))
    assert _same(_fit(deltalake.DeltaTable(folder)), _fit(_rows(1)))
    assert _same(_fit(f"delta://{folder}?version=0"), _fit(_rows(0)))


def test_a_delta_table_stays_at_its_version(delta):
    deltalake, folder = delta
    table = open_table(folder)
    deltalake.write_deltalake(folder, _rows(2), mode="overwrite")
    assert table.column("x").to_pylist() == _rows(1)["x"].to_pylist()
    assert open_table(folder).column("x").to_pylist() == _rows(2)["x"].to_pylist()
    fragment = table.fragments()[0]
    copy = pickle.loads(pickle.dumps(fragment))
    assert next(copy.batches(["x"])).equals(next(fragment.batches(["x"])))


def test_addresses_of_delta_tables_that_lead_nowhere(delta, tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        open_table(f"delta://{delta[1]}?version=17")
    with pytest.raises(DataError, match="cannot be read"):
        open_table(f"delta://{tmp_path}/absent")
    with pytest.raises(ConfigurationError, match="version=NUMBER"):
        open_table(f"delta://{delta[1]}?version=last")


@pytest.fixture
def iceberg(tmp_path, monkeypatch):
    pytest.importorskip("pyiceberg")
    pytest.importorskip("sqlalchemy")
    options = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }
    for name, value in options.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LOCAL__{name.upper()}", value)
    from pyiceberg.catalog import load_catalog
    from pyiceberg.utils import config

    monkeypatch.setattr(
        "pyiceberg.catalog._ENV_CONFIG", config.Config(), raising=True
    )  # read once, at import
    (tmp_path / "warehouse").mkdir()
    catalog = load_catalog("local", **options)
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.visits", schema=_rows(0).schema)
    table.append(_rows(0))
    yield table
    catalog.close()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
class TestIceberg:
    def test_a_table_by_its_name_in_a_catalog(self, iceberg):
        table = open_table("iceberg://local/shop.visits")
        assert table.names == ("x", "word", "y")
        assert table.column("x").to_pylist() == _rows(0)["x"].to_pylist()
        assert _same(_fit(iceberg), _fit(_rows(0)))

    def test_it_stays_at_its_snapshot(self, iceberg):
        first = iceberg.current_snapshot().snapshot_id
        table = open_table(iceberg)
        iceberg.append(_rows(1))
        assert table.n_rows == 500
        assert table.column("x").to_pylist() == _rows(0)["x"].to_pylist()
        assert open_table(iceberg).n_rows == 1_000
        assert len(open_table(iceberg).fragments()) == 2
        assert open_table(f"iceberg://local/shop.visits?snapshot={first}").n_rows == 500
        fragment = table.fragments()[0]
        copy = pickle.loads(pickle.dumps(fragment))
        assert next(copy.batches(["word"])).equals(next(fragment.batches(["word"])))

    def test_deleted_rows_are_gone(self, iceberg):
        iceberg.delete("word = 'a'")
        table = open_table(iceberg)
        assert set(table.column("word").to_pylist()) == {"b"}
        assert table.n_rows == sum(word == "b" for word in _rows(0)["word"].to_pylist())

    def test_names_that_lead_nowhere(self, iceberg):
        with pytest.raises(ConfigurationError, match="names no table"):
            open_table("iceberg://local/visits")
        with pytest.raises(DataError, match="cannot be read"):
            open_table("iceberg://local/shop.absent")
