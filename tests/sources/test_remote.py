"""Tables in object stores: a real S3 server on this machine, also on a bad day."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

pytest.importorskip("moto.server")

from torture.store import Faults, Store

from tanager import BayesNetClassifier, open_table
from tanager.errors import DataError

N = 3_000


@pytest.fixture(scope="module")
def server():
    with Store() as running:
        running.put("bucket/table.parquet", _parquet(_table()))
        yield running


@pytest.fixture
def store(server):
    server.faults = Faults()
    yield server
    server.faults = Faults()


def _table(seed: int = 0, n: int = N) -> pa.Table:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    word = rng.choice(["a", "b", "c"], n)
    return pa.table({"x": x, "word": word, "y": (x + (word == "a") > rng.normal(size=n)) * 1})


def _parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=1_000)
    return sink.getvalue()


def _fit(table, **options):
    return BayesNetClassifier("tan", "laplace", **options).fit(table, "y")


def _same(a, b) -> bool:
    rows = _table(9, 200).drop_columns(["y"])
    return bool((a.predict_proba(rows) == b.predict_proba(rows)).all())


def test_a_fit_from_s3_is_the_fit_from_a_file(store, tmp_path):
    (tmp_path / "table.parquet").write_bytes(_parquet(_table()))
    local = _fit(str(tmp_path / "table.parquet"))
    assert _same(_fit("s3://bucket/table.parquet"), local)
    assert _same(_fit("s3://bucket/table.parquet", n_jobs=2), local)


@pytest.mark.parametrize(
    "faults", [Faults(refuse=3), Faults(cut=3), Faults(refuse=4, cut=5), Faults(delay=0.02)]
)
def test_faults_of_the_network_change_nothing(store, faults):
    whole = _fit("s3://bucket/table.parquet")
    before = store.n_faults
    store.faults = faults
    assert _same(_fit("s3://bucket/table.parquet", memory_limit=0), whole)
    assert store.n_faults > before or faults.delay


def test_a_store_that_never_answers_is_an_error_that_says_so(store):
    table = open_table("s3://bucket/table.parquet")
    store.faults = Faults(refuse=1)
    with pytest.raises(DataError, match=r"s3://bucket/table\.parquet cannot be read.*connection"):
        list(table.batches())


def test_an_object_that_changes_is_noticed_by_its_etag(store):
    store.put("bucket/changing.csv", b"x,y\n" + b"1,0\n" * 500)
    table = open_table("s3://bucket/changing.csv")
    assert table.n_rows == 500
    store.put("bucket/changing.csv", b"x,y\n" + b"2,1\n" * 500)
    with pytest.raises(DataError, match=r"changing\.csv has changed since it was opened"):
        list(table.batches())


def test_globs_folders_and_partitions(store):
    for year in (2023, 2024):
        for part in "ab":
            table = _table(year, 100)
            store.put(f"bucket/parts/year={year}/{part}.parquet", _parquet(table))
    whole = open_table("s3://bucket/parts")
    assert whole.names == ("x", "word", "y", "year")
    assert whole.n_rows == 400
    assert set(whole.column("year").to_pylist()) == {2023, 2024}
    assert open_table("s3://bucket/parts/*/a.parquet").n_rows == 200
    assert open_table("s3://bucket/parts/**/*.parquet").n_rows == 400
    with pytest.raises(DataError, match="No file matches"):
        open_table("s3://bucket/parts/*.parquet")
    with pytest.raises(DataError, match="No such file or folder"):
        open_table("s3://bucket/absent.parquet")


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "arrow", "jsonl"])
def test_other_formats(store, ending):
    table = _table(3, 300)
    sink = io.BytesIO()
    if ending == "arrow":
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    elif ending == "jsonl":
        sink.write("\n".join(json.dumps(row) for row in table.to_pylist()).encode())
    else:
        pacsv.write_csv(table, sink)
    data = gzip.compress(sink.getvalue()) if ending == "csv.gz" else sink.getvalue()
    store.put(f"bucket/other.{ending}", data)
    opened = open_table(f"s3://bucket/other.{ending}")
    assert opened.column("word").to_pylist() == table["word"].to_pylist()
    assert opened.n_rows == 300


def test_fragments_are_addresses(store):
    fragments = open_table("s3://bucket/table.parquet").fragments()
    assert len(fragments) >= 1
    copy = pickle.loads(pickle.dumps(fragments[0]))
    assert len(pickle.dumps(fragments[0])) < 4_000
    assert next(copy.batches(["x"])).equals(next(fragments[0].batches(["x"])))


def test_any_fsspec_url(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.pipe("/folder/table.parquet", _parquet(_table()))
    assert open_table("memory://folder/table.parquet").n_rows == N
    table = open_table("memory://folder")
    memory.pipe("/folder/table.parquet", _parquet(_table(5)))
    with pytest.raises(DataError, match="has changed"):
        list(table.batches())
    (tmp_path / "a b.parquet").write_bytes(_parquet(_table()))
    assert open_table((tmp_path / "a b.parquet").as_uri()).n_rows == N


def test_a_scheme_nobody_knows_is_an_error_with_a_hint():
    with pytest.raises(DataError, match=r"nobody://x/y\.parquet"):
        open_table("nobody://x/y.parquet")


def test_the_program_reads_and_writes_urls(store, tmp_path, capsys):
    from tanager.cli import main

    def run(*arguments: str) -> None:
        sys.argv = ["tanager", *arguments]
        with pytest.raises(SystemExit) as done:
            main()
        assert done.value.code in (0, None), capsys.readouterr().err

    model, rows = str(tmp_path / "m.tanager"), "s3://bucket/table.parquet"
    arguments = sys.argv
    try:
        run("fit", rows, "-t", "y", "-o", model, "--structure", "tan", "--parameters", "laplace")
        run("audit", rows)
        run("score", model, rows)
        run("predict", model, rows, "-o", "s3://bucket/out/scored.parquet")
        run("predict", model, rows, "-o", "s3://bucket/out/scored.parquet", "--force")
    finally:
        sys.argv = arguments
    scored = open_table("s3://bucket/out/scored.parquet")
    assert scored.names == ("prediction", "p_0", "p_1")
    assert scored.n_rows == N
