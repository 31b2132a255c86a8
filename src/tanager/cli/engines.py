"""Where the commands run their passes: on threads, or on a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tanager.errors import ConfigurationError, EngineError

__all__ = ["open_engine"]

CONNECT_SECONDS = 30


@contextmanager
def open_engine(name: str, scheduler: str | None) -> Iterator[Any]:
    """Give what `BayesNetClassifier(engine=...)` takes; a cluster is left when the work is done.

    Parameters
    ----------
    name : {"local", "dask"}
    scheduler : str or None
        The address of a Dask scheduler; None starts workers on this machine.
    """
    if name not in ("local", "dask"):
        raise ConfigurationError(f"--engine {name!r} is not known. Allowed: local, dask.")
    if name == "local":
        if scheduler is not None:
            raise ConfigurationError("--scheduler goes with --engine dask.")
        yield name
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise ConfigurationError(
            "--engine dask needs Dask's distributed. Install it: pip install 'dask[dataframe]' "
            "distributed."
        ) from error
    try:
        local = {"threads_per_worker": 1, "dashboard_address": ":0"} if scheduler is None else {}
        client = Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False, **local)
    except (OSError, ValueError) as error:
        raise EngineError(
            f"--scheduler {scheduler}: no Dask scheduler answers there ({error})."
        ) from error
    with client:
        yield client
