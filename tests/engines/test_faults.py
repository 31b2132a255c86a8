"""What goes wrong around a fit: full disks, lost workers, a lost scheduler, a silent cluster."""

from __future__ import annotations

import errno
import pickle
import tempfile
import warnings
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tanager import BayesNetClassifier
from tanager.errors import ConfigurationError, DataError, EngineError, MemoryBoundError
from tanager.sources import open_source
from tests.engines.test_processes import make_table


def fit(rows, **options):
    return BayesNetClassifier("naive", "laplace", **options).fit(rows, "y")


def test_a_full_disk_while_spilling(monkeypatch):
    class Full:
        def seek(self, place):
            pass

        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self):
            pass

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Full())
    with pytest.raises(MemoryBoundError, match="temporary folder"):
        fit(make_table(), memory_limit=0)


def test_files_of_one_folder_with_other_columns(tmp_path):
    pq.write_table(make_table(), tmp_path / "0.parquet")
    pq.write_table(make_table().drop_columns(["b"]), tmp_path / "1.parquet")
    with pytest.raises(DataError, match=r"1\.parquet"):
        fit(tmp_path)


def test_a_file_that_changes_during_the_fit(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(make_table(), path)
    source = open_source(path)
    pq.write_table(pa.concat_tables([make_table(), make_table(seed=1)]), path)
    with pytest.raises(DataError, match="has changed"):
        fit(source)


@pytest.fixture
def engine(dask_client):
    from tanager.engines.dask import DaskEngine

    return DaskEngine(dask_client, small=0)


class Failing:
    """Work whose workers are lost a number of times, now in one way, now in another."""

    def __init__(self, times):
        self.left = times

    def __call__(self):
        from distributed import CancelledError
        from distributed.comm import CommClosedError

        self.left -= 1
        if self.left >= 0:
            raise (CommClosedError if self.left % 2 else CancelledError)("lost")
        return "done"


def test_lost_workers_are_made_up_for_a_few_times(engine):
    assert engine._try(Failing(3), ()) == "done"
    with pytest.raises(EngineError, match="out of memory"):
        engine._try(Failing(4), ())


def test_a_lost_scheduler_is_said(engine):
    engine.client = SimpleNamespace(status="closed")
    for times in (1, 2):
        with pytest.raises(EngineError, match="scheduler of the cluster was lost"):
            engine._try(Failing(times), ())


def test_errors_of_a_task_come_out_as_they_are(dask_client, tmp_path):
    from tanager.engines.dask import DaskEngine

    pq.write_table(make_table(), tmp_path / "0.parquet")
    bad = make_table().set_column(5, "w", pa.array([-1.0] * 240))
    pq.write_table(bad, tmp_path / "1.parquet")
    classifier = BayesNetClassifier("naive", "laplace", engine=DaskEngine(dask_client, small=0))
    with pytest.raises(DataError, match="weight"):
        classifier.fit(tmp_path, "y", sample_weight="w")


def test_a_cluster_without_workers_is_waited_for_a_limited_time(tmp_path):
    distributed = pytest.importorskip("distributed", reason="Dask's distributed is not installed")
    from tanager.engines.dask import DaskEngine

    pq.write_table(make_table(), tmp_path / "0.parquet")
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        pytest.raises(EngineError, match="0 workers and none at work"),
    ):
        fit(tmp_path, engine=DaskEngine(client, small=0, patience=1.0))


def test_other_objects_are_no_clients():
    pytest.importorskip("distributed", reason="Dask's distributed is not installed")
    from tanager.engines.dask import DaskEngine

    with pytest.raises(ConfigurationError, match=r"is not a distributed\.Client"):
        DaskEngine("tcp://somewhere:8786")


def test_large_parameters_are_sent_without_a_warning(engine):
    large = np.zeros(12_000_000, np.uint8)  # Dask warns of more than 10 MB
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        held = engine._hold(large, "parameters", n_tasks=2)
    assert len(held.result()) >= large.nbytes


def test_arrays_from_workers_stand_where_compiled_loops_take_them(dask_client, tmp_path):
    """Dask's own way leaves them at odd addresses, which the loops refuse."""
    rows = make_table().drop_columns(["w"])
    pq.write_table(rows, tmp_path / "rows.parquet")
    model = fit(rows)
    expected = model.predict_proba(rows.drop_columns(["y"]))
    model.engine = dask_client
    features = open_source(tmp_path / "rows.parquet").select(model.feature_names_in_.tolist())
    np.testing.assert_array_equal(model.predict_proba(features), expected)


def test_a_parcel_views_no_buffer_of_others():
    from tanager.engines.dask_tasks import Parcel

    buffers = []
    sent = pickle.dumps(Parcel((np.arange(3.0), [1])), protocol=5, buffer_callback=buffers.append)
    found = pickle.loads(sent).content
    assert buffers == []
    assert found[0].flags.aligned
    assert found[0].flags.writeable
    assert found[0].tolist() == [0.0, 1.0, 2.0]
