"""The default engine: threads on this machine, over kernels that release the GIL."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from numbers import Integral
from queue import SimpleQueue
from typing import Any
from weakref import WeakSet

from tanager.engines.keeping import Store
from tanager.engines.passes import Chunk, Item, Pass, Piece, Pieces, Result, State
from tanager.errors import invalid
from tanager.progress import Progress

Report = Callable[[int], None]


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
        self.n_jobs = jobs if jobs > 0 else max(1, (cores or 1) + 1 + jobs)
        self.n_passes = 0
        self._stores: WeakSet[Store] = WeakSet()

    def run(
        self, pass_: Pass[Chunk, State, Result], rows: Pieces[Chunk], progress: Progress, stage: str
    ) -> Result:
        """Run one pass over all rows."""
        self.n_passes += 1
        pieces = rows.pieces()
        progress.start(stage, rows.n_rows)

        def gather(taken: Iterable[Piece[Chunk]], report: Report) -> State:
            state = pass_.zero()
            for piece in taken:
                for chunk in piece.chunks():
                    state = pass_.update(state, chunk)
                    report(getattr(chunk, "n_rows", piece.n_rows))
            return state

        states = self._share(gather, pieces, progress)
        # Nothing is repeated here, so no merge needs to start from a fresh state.
        while len(states) > 1:
            states[0] = pass_.merge(states[0], states.pop(1))
        result = pass_.finish(states.pop())
        progress.finish()
        return result

    def keep(
        self,
        read: Callable[[Any], Iterable[Chunk]],
        pieces: Sequence[Any],
        memory_limit: int,
        progress: Progress,
        stage: str,
    ) -> list[Piece[Chunk]]:
        """Read every piece once and keep its chunks, in memory or in a temporary file."""
        self.n_passes += 1
        # One limit for everything kept at a time: codes, and rows packed for training.
        store = Store(max(0, memory_limit - sum(other.memory_used for other in self._stores)))
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

    def _share(
        self,
        gather: Callable[[Iterable[Item], Report], Result],
        items: Sequence[Item],
        progress: Progress,
    ) -> list[Result]:
        """Let every thread gather the next items; only this thread reports the rows done."""
        n_threads = min(self.n_jobs, len(items))
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
            running = n_threads
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
            return [future.result() for future in futures]

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        progress: Progress,
        stage: str,
    ) -> list[Result]:
        """Apply a function to independent items, on the threads."""
        work = list(enumerate(items))
        progress.start(stage, len(work), unit="features")

        def gather(taken: Iterable[tuple[int, Item]], report: Report) -> dict[int, Result]:
            results = {}
            for place, item in taken:
                results[place] = function(item)
                report(1)
            return results

        results = dict[int, Result]()
        for found in self._share(gather, work, progress):
            results |= found
        progress.finish()
        return [results[place] for place in range(len(work))]
