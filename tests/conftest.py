"""What every test may ask for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Tests run beside each other, and their arrays are small: threads of BLAS would only wait for each
# other, at full load. This stands before the first import of NumPy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Nothing timed is asserted: a loaded machine may take as long as it does.
settings.register_profile("tanager", deadline=None)
settings.load_profile("tanager")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of tables and reference numbers, or skip where it is absent."""
    folder = ROOT.parent / "shared"
    if not (folder / "data" / "manifest.json").is_file():
        pytest.skip("the folder '../shared' with tables and reference numbers is not here")
    return folder


@pytest.fixture(scope="session")
def dask_client():
    """Return the client of two worker processes, or skip where Dask is absent."""
    from tests.engines.cluster import local_cluster

    with local_cluster() as client:
        yield client
