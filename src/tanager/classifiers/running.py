"""How a fit is run: its engine, memory, random numbers and progress bars."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from tanager.engines import Engine, FitContext, resolve_engine
from tanager.engines.memory import read_memory_limit
from tanager.errors import ConfigurationError
from tanager.progress import LongWork, Progress, RichProgress

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
    if random_state is None or (isinstance(random_state, int | np.integer) and random_state >= 0):
        seed = np.random.SeedSequence(0 if random_state is None else int(random_state))
    else:
        from sklearn.utils.validation import check_random_state

        try:
            generator = check_random_state(random_state)
        except ValueError as error:
            raise ConfigurationError(
                f"random_state={random_state!r}. Allowed: a whole number from 0, a "
                "numpy.random.RandomState, or None for a fixed seed.",
                parameter="random_state",
            ) from error
        seed = np.random.SeedSequence(generator.randint(2**31))
    limit = read_memory_limit(memory_limit)
    return FitContext(resolve_engine(engine, n_jobs), seed, progress, memory_limit=limit)


def open_progress(verbose: int) -> AbstractContextManager[Progress]:
    """Return progress bars, or what speaks of long work alone."""
    if not isinstance(verbose, int | np.integer | np.bool_):
        raise ConfigurationError(f"verbose={verbose!r}. Allowed: 0, or 1 for progress bars.")
    return RichProgress() if verbose > 0 else LongWork()
