"""Passes over data, the engines that run them, and the context of a fit."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from numbers import Integral
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

import numpy as np

from tanager.engines.keeping import Store, default_memory_limit, peak_memory_mb
from tanager.errors import MemoryBoundError, invalid
from tanager.progress import Progress

LEAST_WORK = 8 << 20  # with less, a fit would need too many passes
LEAST_TABLES = 64 << 20  # always allowed for tables during learning

_log = logging.getLogger(__name__)

Chunk = TypeVar("Chunk")
Chunk_co = TypeVar("Chunk_co", covariant=True)
Chunk_contra = TypeVar("Chunk_contra", contravariant=True)
State = TypeVar("State")
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)
Item = TypeVar("Item")
Report = Callable[[int], None]
Reader = Callable[[Any], Iterable[Chunk]]
Gather = Callable[[Iterable[Item], Report], Result]


class Piece(Protocol[Chunk_co]):
    """The address of some rows, small and picklable; a view of another piece has it as `piece`."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def chunks(self) -> Iterator[Chunk_co]:
        """Read the rows, a bounded number at a time."""


class Pieces(Protocol[Chunk_co]):
    """Data as a list of addresses."""

    @property
    def n_rows(self) -> int:
        """Number of rows of all pieces."""

    def pieces(self) -> Sequence[Piece[Chunk_co]]:
        """Return the addresses, in the order of the rows; reads nothing."""


class Pass(Protocol[Chunk_contra, State, Result_co]):
    """A statistic of all rows that can be gathered chunk by chunk.

    `merge` is exactly associative and commutative, so the result depends neither on the chunking
    nor on the engine. Passes and states are picklable. An engine that may have to repeat a merge
    starts it from a fresh `zero`, so that nothing is counted twice.
    """

    def zero(self) -> State:
        """Return the statistic of no rows."""

    def update(self, state: State, chunk: Chunk_contra) -> State:
        """Add the rows of a chunk; `state` may be changed in place."""

    def merge(self, a: State, b: State) -> State:
        """Return the statistic of the rows of both; `a` may be changed in place, `b` may not."""

    def finish(self, state: State) -> Result_co:
        """Turn the statistic of all rows into the result."""


class Sums:
    """Base of passes that add up arrays, lists, or tuples of them, whose sums must be exact."""

    def merge(self, a: Any, b: Any) -> Any:
        """Return the statistic of both."""
        if isinstance(a, tuple):
            return tuple(self.merge(mine, theirs) for mine, theirs in zip(a, b, strict=True))
        a += b
        return a

    def finish(self, state: Any) -> Any:
        """Return the statistic."""
        return state


class Passes:
    """Several passes over the same rows as one; the result is the tuple of results."""

    def __init__(self, *passes: Pass[Any, Any, Any]) -> None:
        self.passes = passes

    def zero(self) -> tuple[Any, ...]:
        """Return the statistics of no rows."""
        return tuple(one.zero() for one in self.passes)

    def update(self, state: tuple[Any, ...], chunk: Any) -> tuple[Any, ...]:
        """Add the chunk to each statistic."""
        return tuple(one.update(part, chunk) for one, part in zip(self.passes, state, strict=True))

    def merge(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        """Merge each statistic."""
        parts = zip(self.passes, a, b, strict=True)
        return tuple(one.merge(mine, theirs) for one, mine, theirs in parts)

    def finish(self, state: tuple[Any, ...]) -> tuple[Any, ...]:
        """Finish each statistic."""
        return tuple(one.finish(part) for one, part in zip(self.passes, state, strict=True))


class Engine(Protocol):
    """Runs passes over data, maps functions over items, and keeps rows; all picklable."""

    def run(
        self, pass_: Pass[Chunk, State, Result], rows: Pieces[Chunk], progress: Progress, stage: str
    ) -> Result:
        """Run one pass over all rows."""

    def map(
        self, work: Callable[[Item], Result], items: Iterable[Item], progress: Progress, stage: str
    ) -> list[Result]:
        """Apply a function to independent items; results are in the order of the items."""

    def keep(
        self, read: Reader[Chunk], pieces: Sequence[Any], limit: int, progress: Progress, stage: str
    ) -> Sequence[Piece[Chunk]]:
        """Read every piece once and keep its chunks; return their addresses, in order.

        A chunk is a NamedTuple with `n_rows`. Anything over `limit` bytes per machine is on disk.
        """


class LocalEngine:
    """Runs passes on threads of this process: None is one, -1 one per core.

    Each thread adds the next pieces to its own state; the states are merged in a fixed order.
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        if n_jobs == 0 or not isinstance(n_jobs, Integral | None):
            allowed = "a whole number of threads, None for one, -1 for one per core"
            raise invalid("n_jobs", n_jobs, allowed)
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        jobs = 1 if n_jobs is None else n_jobs
        self._n_threads = jobs if jobs > 0 else max(1, (cores or 1) + 1 + jobs)
        self.n_passes = 0
        self._stores: WeakSet[Store] = WeakSet()

    @property
    def n_jobs(self) -> int:
        """Number of threads."""
        return self._n_threads

    def run(
        self, pass_: Pass[Chunk, State, Result], rows: Pieces[Chunk], progress: Progress, stage: str
    ) -> Result:
        """Run one pass over all rows."""
        self.n_passes += 1
        states = self._gather(pass_, rows, progress, stage)
        # Nothing is repeated from here on, so no merge needs to start from a fresh state.
        while len(states) > 1:
            states[0] = pass_.merge(states[0], states.pop(1))
        result = pass_.finish(states.pop())
        progress.finish()
        return result

    def map(
        self, work: Callable[[Item], Result], items: Iterable[Item], progress: Progress, stage: str
    ) -> list[Result]:
        """Apply a function to independent items."""
        given = list(items)
        results: list[Any] = [None] * len(given)
        progress.start(stage, len(given), unit="features")

        def gather(taken: Iterable[tuple[int, Item]], report: Report) -> None:
            for place, item in taken:
                results[place] = work(item)
                report(1)

        self._share(gather, list(enumerate(given)), progress)
        progress.finish()
        return results

    def keep(
        self, read: Reader[Chunk], pieces: Sequence[Any], limit: int, progress: Progress, stage: str
    ) -> Sequence[Piece[Chunk]]:
        """Read every piece once and keep its chunks, in memory or in a temporary file."""
        self.n_passes += 1
        # One limit for everything kept at a time: codes, and rows packed for training.
        store = Store(max(0, limit - sum(other.memory_used for other in self._stores)))
        self._stores.add(store)
        kept: list[list[Any]] = [[] for _ in pieces]
        progress.start(stage, sum(piece.n_rows for piece in pieces))

        def gather(taken: Iterable[tuple[int, Any]], report: Report) -> None:
            for place, piece in taken:
                for chunk in read(piece):
                    kept[place].append(store.keep(chunk))
                    report(chunk.n_rows)  # type: ignore[attr-defined]

        self._share(gather, list(enumerate(pieces)), progress)
        progress.finish()
        return list(chain(*kept))

    def _gather(
        self, pass_: Pass[Chunk, State, Any], rows: Pieces[Chunk], progress: Progress, stage: str
    ) -> list[State]:
        """Return the states of the rows, in a fixed order; at least one."""
        pieces = rows.pieces()
        progress.start(stage, rows.n_rows)

        def gather(taken: Iterable[Piece[Chunk]], report: Report) -> State:
            state = pass_.zero()
            for piece in taken:
                for chunk in piece.chunks():
                    state = pass_.update(state, chunk)
                    report(getattr(chunk, "n_rows", piece.n_rows))
            return state

        return self._share(gather, pieces, progress)

    def _share(
        self, gather: Gather[Item, Result], items: Sequence[Item], progress: Progress
    ) -> list[Result]:
        """Let every thread gather the next items; only this thread reports the rows done."""
        n_threads = min(self._n_threads, len(items))
        if n_threads <= 1:
            return [gather(items, progress.advance)]
        iterator, lock = iter(items), threading.Lock()
        stop = threading.Event()
        done: SimpleQueue[int | None] = SimpleQueue()  # rows of a chunk, or None when a thread ends

        def take() -> Iterable[Item]:
            while not stop.is_set():
                with lock:
                    item = next(iterator, None)
                if item is None:
                    return
                yield item

        def work() -> Result:
            try:
                return gather(take(), done.put)
            except BaseException:
                stop.set()
                raise
            finally:
                done.put(None)

        with ThreadPoolExecutor(n_threads) as pool:
            futures = [pool.submit(work) for _ in range(n_threads)]
            try:
                for _ in range(n_threads):
                    for n_rows in iter(done.get, None):  # until one of the threads ends
                        progress.advance(n_rows)
            finally:
                stop.set()
            return [future.result() for future in futures]


def resolve_engine(engine: Any, n_jobs: int | None) -> Engine:
    """Turn the estimator's `engine` and `n_jobs` into an engine."""
    if engine == "local":
        return LocalEngine(n_jobs)
    is_client = type(engine).__module__.partition(".")[0] == "distributed"
    if engine == "dask" or is_client:
        from tanager.engines.dask import DaskEngine

        return DaskEngine(None if engine == "dask" else engine)
    if not all(hasattr(engine, name) for name in ("run", "map", "keep")):
        methods = "the methods `run`, `map` and `keep` of tanager.engines.Engine"
        allowed = f"'local', 'dask', a distributed.Client, or an object with {methods}"
        raise invalid("engine", engine, allowed)
    return engine


@dataclass
class FitContext:
    """Engine, randomness, progress and the record of one fit."""

    engine: Engine = field(default_factory=LocalEngine)
    # root of all randomness in this fit; use `generator`
    seed: np.random.SeedSequence = field(default_factory=lambda: np.random.SeedSequence(0))
    progress: Progress = field(default_factory=Progress)
    info: dict[str, dict[str, Any]] = field(default_factory=dict)  # by stage; the fit's `info_`
    # bytes a fit may use: see the limits below, which share them
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
        """Refuse features' tables, and `held` bytes of held-out predictions, beyond the limit."""
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
