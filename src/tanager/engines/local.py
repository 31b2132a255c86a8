"""The default engine: threads on this machine, over kernels that release the GIL."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral
from queue import SimpleQueue
from typing import Any, TypeVar

from tanager.engines.passes import Blocks, Pass
from tanager.errors import ConfigurationError
from tanager.progress import Progress

__all__ = ["LocalEngine"]

Chunk = TypeVar("Chunk")
State = TypeVar("State")
Result = TypeVar("Result")
Item = TypeVar("Item")


class LocalEngine:
    """Runs passes on threads of this process.

    Parameters
    ----------
    n_jobs : int or None
        Number of threads; None is one, -1 is one a core, as in scikit-learn.

    Attributes
    ----------
    n_passes : int
        Passes run so far.
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        if n_jobs == 0 or not isinstance(n_jobs, Integral | None):
            raise ConfigurationError(
                f"n_jobs={n_jobs!r} has no meaning: give a whole number of threads, None for one, "
                "-1 for one a core."
            )
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        jobs = 1 if n_jobs is None else n_jobs
        self.n_jobs = jobs if jobs > 0 else max(1, (cores or 1) + 1 + jobs)
        self.n_passes = 0

    def run(
        self,
        pass_: Pass[Chunk, State, Result],
        rows: Blocks[Chunk],
        progress: Progress,
        stage: str,
    ) -> Result:
        """Run one pass: each thread gathers its own state, merged in a fixed order."""
        self.n_passes += 1
        progress.start(stage, rows.n_rows)
        iterator = rows.blocks()
        if self.n_jobs == 1:
            state = pass_.zero()
            for block in iterator:
                state = pass_.update(state, rows.read(block))
                progress.advance(getattr(block, "n_rows", 0))
        else:
            state = self._run_threaded(pass_, rows, iterator, progress)
        result = pass_.finish(state)
        progress.finish()
        return result

    def _run_threaded(
        self,
        pass_: Pass[Chunk, State, Result],
        rows: Blocks[Chunk],
        iterator: Iterator[Any],
        progress: Progress,
    ) -> State:
        lock = threading.Lock()
        stop = threading.Event()
        done: SimpleQueue[int | None] = SimpleQueue()  # rows of a block, None: a thread ended

        def gather() -> State:
            try:
                state = pass_.zero()
                while not stop.is_set():
                    with lock:
                        block = next(iterator, None)
                    if block is None:
                        break
                    state = pass_.update(state, rows.read(block))
                    done.put(getattr(block, "n_rows", 0))
                return state
            except BaseException:
                stop.set()
                raise
            finally:
                done.put(None)

        with ThreadPoolExecutor(self.n_jobs) as pool:
            futures = [pool.submit(gather) for _ in range(self.n_jobs)]
            running = self.n_jobs
            try:
                while running:
                    n_rows = done.get()
                    if n_rows is None:
                        running -= 1
                    else:
                        progress.advance(n_rows)
            except BaseException:
                stop.set()
                raise
            states = [future.result() for future in futures]
        total = states[0]
        for state in states[1:]:
            total = pass_.merge(total, state)
        return total

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        progress: Progress,
        stage: str,
    ) -> list[Result]:
        """Apply a function to independent items on the threads."""
        work = list(items)
        progress.start(stage, len(work), unit="features")
        results: list[Result] = []
        if self.n_jobs == 1 or len(work) <= 1:
            for item in work:
                results.append(function(item))
                progress.advance(1)
        else:
            with ThreadPoolExecutor(self.n_jobs) as pool:
                for result in pool.map(function, work):
                    results.append(result)
                    progress.advance(1)
        progress.finish()
        return results
