"""A small Dask cluster for tests: two worker processes on this machine."""

from __future__ import annotations

from contextlib import contextmanager

import pytest


@contextmanager
def local_cluster(n_workers=2):
    """Start a cluster and give its client; skip where Dask is absent."""
    distributed = pytest.importorskip("distributed", reason="Dask's distributed is not installed")
    import dask

    # Workers that wait for the next test would look at themselves fifty times a second.
    idle = {
        "distributed.worker.profile.enabled": False,
        "distributed.admin.tick.interval": "1 s",
        "distributed.admin.system-monitor.interval": "10 s",
    }
    with (
        dask.config.set(idle),
        distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
