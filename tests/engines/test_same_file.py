"""The same rows give the same model file, byte for byte, wherever and however they are read."""

from __future__ import annotations

import os
import signal

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import tanager
from tanager import BayesNetClassifier
from tanager.loglinear import joining
from tanager.parameters import layered
from tests.engines.test_processes import make_table

MODELS = [
    ("tan", "hdp"),
    ("skdb(max_k=2)", "hdp"),
    ("naive", "m-estimate"),
    ("tan", "discriminative(tol=0.01)"),
    ("auto", "layered"),  # the default
]
names = pytest.mark.parametrize(
    ("structure", "parameters"), MODELS, ids=[" ".join(m) for m in MODELS]
)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """The same rows in memory and in files, cut in different ways."""
    folder = tmp_path_factory.mktemp("rows")
    table = make_table()
    rows = {"memory": table, "batches": pa.Table.from_batches(table.to_batches(max_chunksize=37))}
    pq.write_table(table, folder / "one.parquet", row_group_size=50)
    rows["parquet"] = folder / "one.parquet"
    parts = folder / "parts"
    parts.mkdir()
    for part in range(3):
        pq.write_table(table.slice(80 * part, 80), parts / f"{part}.parquet")
    rows["folder"] = parts
    pacsv.write_csv(table, folder / "one.csv")
    rows["csv"] = folder / "one.csv"
    return rows


@pytest.fixture(scope="module")
def expected(places, tmp_path_factory):
    """The bytes of the model file from memory, on one thread; made once a model."""
    known = {}
    folder = tmp_path_factory.mktemp("expected")

    def find(structure, parameters):
        key = structure, parameters
        if key not in known:
            known[key] = model_bytes(folder, places["memory"], structure, parameters)
        return known[key]

    return find


def model_bytes(folder, rows, structure, parameters, **options):
    classifier = BayesNetClassifier(structure, parameters, **options)
    classifier.fit(rows, "y", sample_weight="w")
    tanager.save(classifier, folder / "model.tanager")
    return (folder / "model.tanager").read_bytes()


@names
@pytest.mark.parametrize("place", ["batches", "parquet", "folder", "csv"])
def test_any_source_gives_the_same_file(places, expected, tmp_path, place, structure, parameters):
    found = model_bytes(tmp_path, places[place], structure, parameters)
    assert found == expected(structure, parameters)


@names
def test_two_threads_give_the_same_file(places, expected, tmp_path, structure, parameters):
    found = model_bytes(tmp_path, places["folder"], structure, parameters, n_jobs=2)
    assert found == expected(structure, parameters)


@names
def test_two_dask_workers_give_the_same_file(
    dask_client, places, expected, tmp_path, structure, parameters
):
    from tanager.engines.dask import DaskEngine

    engine = DaskEngine(dask_client, small=0)
    found = model_bytes(tmp_path, places["folder"], structure, parameters, engine=engine)
    assert found == expected(structure, parameters)


@pytest.mark.parametrize(
    "given",
    [
        ("tan", "hdp"),
        ("skdb(max_k=2)", "ml"),
        ("tan", "discriminative(tol=0.01)"),
        ("auto", "layered"),
    ],
    ids=" ".join,
)
def test_gaps_that_are_summed_out_give_the_same_file_everywhere(
    dask_client, places, tmp_path, given
):
    from tanager.engines.dask import DaskEngine

    options = {"missing": "marginalize"}
    clf = BayesNetClassifier(*given, **options).fit(places["memory"], "y", sample_weight="w")
    assert "gaps" in clf.info_
    expected = model_bytes(tmp_path, places["memory"], *given, **options)
    for place in ("batches", "csv"):
        assert model_bytes(tmp_path, places[place], *given, **options) == expected
    spilled = model_bytes(tmp_path, places["folder"], *given, n_jobs=2, memory_limit=1, **options)
    assert spilled == expected
    engine = DaskEngine(dask_client, small=0)
    assert model_bytes(tmp_path, places["folder"], *given, engine=engine, **options) == expected


@pytest.fixture
def _many_rows(monkeypatch):
    """Let the default take these rows for many: it then leaves them where they are."""
    monkeypatch.setattr(layered, "GATHERED_ROWS", 0)
    monkeypatch.setattr(joining, "FEWEST_ROWS", 0)
    monkeypatch.setattr(joining, "ROWS_PER_VALUE", 0.05)


@pytest.mark.usefixtures("_many_rows")
def test_many_rows_give_the_default_the_same_file(dask_client, places, tmp_path):
    from tanager.engines.dask import DaskEngine

    given = "ktree(max_parents=2)", "layered(max_iter=3)"
    expected = model_bytes(tmp_path, places["memory"], *given)
    for place in ("batches", "csv"):
        assert model_bytes(tmp_path, places[place], *given) == expected
    spilled = model_bytes(tmp_path, places["folder"], *given, n_jobs=2, memory_limit=1)
    assert spilled == expected
    engine = DaskEngine(dask_client, small=0)
    assert model_bytes(tmp_path, places["folder"], *given, engine=engine) == expected
    assert engine.n_passes > 30


def test_a_killed_worker_changes_nothing(dask_client, places, expected, tmp_path):
    from tanager.engines.dask import DaskEngine

    class Deadly(DaskEngine):
        """Kills a worker that holds rows, before the third pass."""

        def run(self, pass_, rows, progress, stage):
            if self.n_passes == 2:
                os.kill(next(iter(self.client.run(os.getpid).values())), signal.SIGKILL)
            return super().run(pass_, rows, progress, stage)

    engine = Deadly(dask_client, small=0)
    found = model_bytes(tmp_path, places["folder"], "tan", "hdp", engine=engine)
    assert engine.n_passes > 2
    assert found == expected("tan", "hdp")


def test_the_default_is_among_the_models():
    default = BayesNetClassifier()
    assert (default.structure, default.parameters) in MODELS


def test_equal_fits_have_equal_files_and_other_rows_another(places, expected, tmp_path):
    again = model_bytes(tmp_path, places["memory"], "tan", "hdp")
    fewer = model_bytes(tmp_path, places["memory"].slice(1), "tan", "hdp")
    assert again == expected("tan", "hdp")
    assert fewer != again
