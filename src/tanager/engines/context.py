"""What every learner is given besides its data."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tanager.engines.keeping import default_memory_limit, peak_memory_mb
from tanager.engines.local import LocalEngine
from tanager.engines.passes import Engine
from tanager.errors import MemoryBoundError
from tanager.progress import Progress

LEAST_WORK = 8 << 20  # with less, a fit would be nothing but passes
LEAST_TABLES = 64 << 20  # what tables may always take while they are learned

_log = logging.getLogger(__name__)


@dataclass
class FitContext:
    """Engine, randomness, progress and the record of one fit."""

    engine: Engine = field(default_factory=LocalEngine)  # runs the passes
    # root of all randomness of this fit; use `generator`
    seed: np.random.SeedSequence = field(default_factory=lambda: np.random.SeedSequence(0))
    progress: Progress = field(default_factory=Progress)  # where long work reports
    # what each stage reports, by stage: becomes the estimator's `info_`
    info: dict[str, dict[str, Any]] = field(default_factory=dict)
    # bytes that a fit may take: half of them for coded rows, a fourth for counts and scores under
    # way, as many as there are for tables. By default half of what is free, at least 256 MiB.
    memory_limit: int = field(default_factory=default_memory_limit)
    checkpoint: Path | None = None  # the folder for the state of a fit that may be killed

    @property
    def rows_limit(self) -> int:
        """Bytes of rows that may stay in memory; the rest goes to a temporary file."""
        return self.memory_limit // 2

    @property
    def work_limit(self) -> int:
        """Bytes that one kind of counts may take while they are gathered, at least 8 MiB."""
        return max(LEAST_WORK, self.memory_limit // 4)

    def check_tables(self, sizes: Mapping[str, int], n_classes: int = 2) -> None:
        """Refuse tables beyond the memory limit; `sizes` are each feature's bytes."""
        total, limit = sum(sizes.values()), max(LEAST_TABLES, self.memory_limit)
        if total > limit:
            largest = max(sizes, key=sizes.__getitem__)
            classes = f", or merge some of the {n_classes:,} classes" if n_classes > 50 else ""
            raise MemoryBoundError(
                f"The tables take {total / 2**20:,.0f} MiB while they are learned, beyond the "
                f"{limit / 2**20:,.0f} MiB of memory_limit; that of {largest!r} alone takes "
                f"{sizes[largest] / 2**20:,.0f}. Raise memory_limit, use fewer parents, or merge "
                f"values of {largest!r} and its parents (fewer bins){classes}."
            )

    def inner(self) -> FitContext:
        """Return a context for a part of the work that reports on its own, and silently."""
        return replace(self, progress=Progress(), info={})

    def generator(self, *key: int) -> np.random.Generator:
        """Return the random stream of one independent unit, a function of the key alone."""
        return np.random.Generator(np.random.PCG64(self._child(key)))

    def row_seed(self, *key: int) -> int:
        """Return the 64-bit seed of one independent use of `tanager.codes.hashing`."""
        return int(self._child(key).generate_state(1, np.uint64)[0])

    def _child(self, key: tuple[int, ...]) -> np.random.SeedSequence:
        return np.random.SeedSequence(self.seed.entropy, spawn_key=(*self.seed.spawn_key, *key))

    def record(self, stage: str) -> dict[str, Any]:
        """Return the record of a stage in `info`, to write into."""
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
