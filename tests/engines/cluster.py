"""A small Dask cluster for tests: two worker processes on this machine."""

from __future__ import annotations

from contextlib import contextmanager

import pytest


@contextmanager
def local_cluster(n_workers=2):
    """Start a cluster and give its client; skip where Dask is absent."""
    distributed = pytest.importorskip("distributed", reason="Dask's distributed is not installed")
    with (
        distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
