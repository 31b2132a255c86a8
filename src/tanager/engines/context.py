"""The context passed to every learner along with its data."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tanager.engines.keeping import default_memory_limit, peak_memory_mb
from tanager.engines.local import LocalEngine
from tanager.engines.passes import Engine
from tanager.errors import MemoryBoundError
from tanager.progress import Progress

LEAST_WORK = 8 << 20  # with less, a fit would need too many passes
LEAST_TABLES = 64 << 20  # always allowed for tables during learning

_log = logging.getLogger(__name__)


@dataclass
class FitContext:
    """Engine, randomness, progress and the record of one fit."""

    engine: Engine = field(default_factory=LocalEngine)  # runs the passes
    # root of all randomness in this fit; use `generator`
    seed: np.random.SeedSequence = field(default_factory=lambda: np.random.SeedSequence(0))
    progress: Progress = field(default_factory=Progress)  # receives reports from long work
    # diagnostics by stage: becomes the estimator's `info_`
    info: dict[str, dict[str, Any]] = field(default_factory=dict)
    # bytes a fit may use: half of them for coded rows, a quarter for intermediate counts and
    # scores, the full amount for tables. By default half of the free memory, at least 256 MiB.
    memory_limit: int = field(default_factory=default_memory_limit)

    @property
    def rows_limit(self) -> int:
        """Bytes of rows that may stay in memory; the rest goes to a temporary file."""
        return self.memory_limit // 2

    @property
    def work_limit(self) -> int:
        """Bytes that one kind of counts may use while being gathered, at least 8 MiB."""
        return max(LEAST_WORK, self.memory_limit // 4)

    @property
    def tables_limit(self) -> int:
        """Bytes that tables may take while they are learned, at least 64 MiB."""
        return max(LEAST_TABLES, self.memory_limit)

    def check_tables(self, sizes: Mapping[str, int], n_classes: int = 2, held: int = 0) -> None:
        """Refuse tables beyond the memory limit.

        `sizes` has each feature's bytes, and `held` is those of predictions for held-out rows.
        """
        total, limit = sum(sizes.values()) + held, self.tables_limit
        if total <= limit:
            return
        largest = max(sizes, key=sizes.__getitem__)
        what = "tables and held-out predictions" if held else "tables"
        classes = f", or merge some of the {n_classes:,} classes" if n_classes > 50 else ""
        raise MemoryBoundError(
            f"The {what} take {total / 2**20:,.0f} MiB during training, beyond the "
            f"{limit / 2**20:,.0f} MiB of memory_limit; the table of {largest!r} alone takes "
            f"{sizes[largest] / 2**20:,.0f}. Raise memory_limit, use fewer parents, or merge "
            f"values of {largest!r} and its parents (fewer bins){classes}."
        )

    def inner(self) -> FitContext:
        """Return a context for a nested part of the work, with its own record and no progress."""
        return replace(self, progress=Progress(), info={})

    def generator(self, *key: int) -> np.random.Generator:
        """Return the random stream of one independent unit, which depends only on the key."""
        return np.random.Generator(np.random.PCG64(self._child(*key)))

    def row_seed(self, *key: int) -> int:
        """Return the 64-bit seed of one independent use of `tanager.codes.hashing`."""
        return int(self._child(*key).generate_state(1, np.uint64)[0])

    def _child(self, *key: int) -> np.random.SeedSequence:
        return np.random.SeedSequence(self.seed.entropy, spawn_key=(*self.seed.spawn_key, *key))

    def record(self, stage: str) -> dict[str, Any]:
        """Return the record of a stage in `info`, for writing."""
        return self.info.setdefault(stage, {})

    @contextmanager
    def stage(self, name: str) -> Iterator[dict[str, Any]]:
        """Time a stage; yields its record in `info`."""
        record = self.record(name)
        wall, cpu = time.perf_counter(), time.process_time()
        passes = getattr(self.engine, "n_passes", 0)
        yield record
        record["seconds"] = record.get("seconds", 0.0) + time.perf_counter() - wall
        record["cpu_seconds"] = record.get("cpu_seconds", 0.0) + time.process_time() - cpu
        record.setdefault("passes", getattr(self.engine, "n_passes", 0) - passes)
        record["peak_memory_mb"] = peak = peak_memory_mb()
        memory = "" if peak is None else f", {peak:.0f} MB at most"
        _log.info("%s: %.2f s%s", name, record["seconds"], memory)
