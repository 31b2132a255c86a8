"""How a fit is run: its engine, memory, random numbers and progress bars."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from sklearn.utils.validation import check_random_state

from tanager.engines import Engine, FitContext, resolve_engine
from tanager.engines.memory import read_memory_limit
from tanager.progress import LongWork, Progress, RichProgress

__all__ = ["RUN_PARAMETERS", "open_context", "open_progress"]

# How a fit is run is no property of its model: equal models have equal files,
# byte for byte, whatever engine and however many threads learned them.
RUN_PARAMETERS = ("engine", "n_jobs", "memory_limit", "checkpoint", "verbose")


def open_context(
    engine: str | Engine,
    n_jobs: int | None,
    memory_limit: str | int | None,
    random_state: Any,
    progress: Progress,
) -> FitContext:
    """Return what every learner is given besides its data, from the estimator's parameters."""
    if random_state is None or isinstance(random_state, (int, np.integer)):
        seed = np.random.SeedSequence(0 if random_state is None else int(random_state))
    else:
        seed = np.random.SeedSequence(check_random_state(random_state).randint(2**31))
    limit = read_memory_limit(memory_limit)
    return FitContext(resolve_engine(engine, n_jobs), seed, progress, memory_limit=limit)


def open_progress(verbose: int) -> AbstractContextManager[Progress]:
    """Return progress bars; or without them, what tells of a long compilation alone."""
    return RichProgress() if verbose > 0 else LongWork()
