"""An engine of worker processes: everything that it is given crosses a process boundary.

It is what a cluster does, without one. Passes, pieces, functions and states
that cannot be pickled fail here.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tanager.engines import KeptChunk


class ProcessEngine:
    """Runs passes, maps and the coding of rows in two worker processes."""

    n_jobs = 2

    def __init__(self):
        # A fresh interpreter: nothing of this process is there by inheritance.
        self._pool = ProcessPoolExecutor(self.n_jobs, mp_context=get_context("forkserver"))
        self.n_passes = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._pool.shutdown()

    def run(self, pass_, rows, progress, stage):
        self.n_passes += 1
        progress.start(stage, rows.n_rows)
        pieces = list(rows.pieces())
        shares = [pieces[k :: self.n_jobs] for k in range(self.n_jobs)]
        total = pass_.zero()
        for state in self._pool.map(gather, [pass_] * self.n_jobs, shares):
            total = pass_.merge(total, state)
        progress.finish()
        return pass_.finish(total)

    def map(self, function, items, progress, stage):
        work = list(items)
        progress.start(stage, len(work), unit="features")
        results = list(self._pool.map(function, work))
        progress.finish()
        return results

    def keep(self, read, pieces, memory_limit, progress, stage):
        self.n_passes += 1
        progress.start(stage, sum(piece.n_rows for piece in pieces))
        parts = self._pool.map(read_all, [read] * len(pieces), pieces)
        kept = [KeptChunk(chunk) for part in parts for chunk in part]
        progress.finish()
        return kept


def gather(pass_, pieces):
    """Return the state of some pieces."""
    state = pass_.zero()
    for piece in pieces:
        for chunk in piece.chunks():
            state = pass_.update(state, chunk)
    return state


def read_all(read, piece):
    """Return all chunks of a piece."""
    return list(read(piece))
