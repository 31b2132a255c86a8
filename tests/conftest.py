"""What every test may ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Made once for each process that tests. Those who ask for one of them go to one process
# (`pytest -n 2 --dist loadgroup`), and go first, so that no process is left alone with them.
COSTLY = ("page_results", "built", "dask_client", "browser", "server")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Send tests that share a costly fixture to the same process."""
    for item in items:
        for name in COSTLY:
            if name in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.xdist_group(name))
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


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
