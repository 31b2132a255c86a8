"""Runs the cells that a run file does not have yet, side by side, and reads the results back."""

from __future__ import annotations

import multiprocessing
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from importlib import metadata
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tanager import __version__
from tanager.errors import ConfigurationError
from tanager.evaluation.cell import Bench
from tanager.evaluation.experiment import Cell, Experiment
from tanager.evaluation.results import Results
from tanager.evaluation.runs import RunFile, check_cell
from tanager.progress import Progress

__all__ = ["environment", "run_experiment"]

_bench: Bench | None = None


def run_experiment(
    experiment: Experiment,
    path: str | Path | None = None,
    *,
    n_jobs: int = 1,
    progress: Progress | None = None,
    retry_failed: bool = False,
    until: float | None = None,
) -> Results:
    """Run an experiment, or finish one.

    Parameters
    ----------
    experiment : Experiment
    path : path, optional
        Run file. Cells that it has already are not computed again; a run that
        was killed goes on where it was. Without it nothing is kept.
    n_jobs : int
        Processes; -1 is one a core. Numbers do not depend on it.
    progress : Progress, optional
        Hears of every finished cell.
    retry_failed : bool
        Whether cells recorded as failed are tried again.
    until : float, optional
        Time of `time.monotonic` after which no further cell is begun; what is
        missing then is missing in the results too.

    Returns
    -------
    Results
        Of the cells of this experiment, in the order of its grid.
    """
    if path is None:
        with TemporaryDirectory() as folder:
            return run_experiment(
                experiment,
                Path(folder) / "run.jsonl",
                n_jobs=n_jobs,
                progress=progress,
                until=until,
            )
    experiment.check()
    cells = list(experiment.cells())
    reporter = progress or Progress()
    with RunFile(path) as run:
        run.begin({**experiment.to_dict(), "environment": environment()})
        done = {
            record["cell"]: record
            for record in (check_cell(cell, run.path.name) for cell in run.cells())
            if not (retry_failed and record["status"] == "failed")
        }
        reporter.start(experiment.name, len(cells), unit="cells")
        todo = []
        for cell in cells:
            if cell.key in done:
                reporter.advance(1, **_headline(done[cell.key], experiment))
            else:
                todo.append(cell)
        late = until is not None and time.monotonic() >= until
        for record in _compute(experiment, [] if late else todo, _n_processes(n_jobs)):
            record["version"] = __version__
            run.append(record)
            done[record["cell"]] = record
            reporter.advance(1, **_headline(record, experiment))
            if until is not None and time.monotonic() >= until:
                break
        reporter.finish()
        description = run.description()
    return Results(description, [done[cell.key] for cell in cells if cell.key in done])


@cache
def environment() -> dict[str, Any]:
    """Describe what the numbers were computed with: versions and processor."""
    names = ("numpy", "scipy", "scikit-learn", "pyarrow", "xgboost")
    versions = {"tanager": __version__, "python": platform.python_version()}
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {"versions": versions, "machine": _processor(), "cores": os.cpu_count()}


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def _headline(record: dict[str, Any], experiment: Experiment) -> dict[str, Any]:
    facts = {key: record[key] for key in ("dataset", "classifier", "status")}
    metric = experiment.metrics[0]
    return {**facts, "seconds": record.get("fit_seconds", 0.0), "loss": record.get(metric)}


def _n_processes(n_jobs: int) -> int:
    if n_jobs == 0:
        raise ConfigurationError(
            "n_jobs=0 has no meaning. Use 1 for one process, -1 for all.", parameter="n_jobs"
        )
    return n_jobs if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + n_jobs)


def _compute(
    experiment: Experiment, cells: Sequence[Cell], n_processes: int
) -> Iterator[dict[str, Any]]:
    if n_processes == 1 or len(cells) < 2:
        bench = Bench(experiment)
        yield from map(bench.run, cells)
        return
    left = list(cells)
    while left:
        try:
            for record in _in_pool(experiment, left, min(n_processes, len(left))):
                left = [cell for cell in left if cell.key != record["cell"]]
                yield record
        except BrokenProcessPool:
            # A worker was killed, and nobody knows by which cell: those that may
            # have been under way go alone, one process each.
            suspects, left = left[: 2 * n_processes], left[2 * n_processes :]
            for cell in suspects:
                yield _alone(experiment, cell)


def _in_pool(
    experiment: Experiment, cells: Sequence[Cell], n_processes: int
) -> Iterator[dict[str, Any]]:
    """Keep the workers busy with cells in order; yield records as they come."""
    queue = iter(cells)
    with _pool(experiment, n_processes) as pool:
        # Twice as many as workers, so that none waits for the disk; not all, so
        # that after a crash only a few are under suspicion.
        waiting = {pool.submit(_work, cell) for cell in islice(queue, 2 * n_processes)}
        while waiting:
            finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            records = _collect(finished)
            waiting |= {pool.submit(_work, cell) for cell in islice(queue, len(finished))}
            yield from records


def _collect(finished: set[Future[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [future.result() for future in finished]


def _alone(experiment: Experiment, cell: Cell) -> dict[str, Any]:
    try:
        with _pool(experiment, 1) as pool:
            return pool.submit(_work, cell).result()
    except BrokenProcessPool:
        return {
            "cell": cell.key,
            "dataset": cell.dataset,
            "classifier": cell.classifier,
            "round": cell.round,
            "fold": cell.fold,
            "status": "failed",
            "error": "the worker process died, probably for want of memory",
        }


def _pool(experiment: Experiment, n_processes: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        n_processes,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start_worker,
        initargs=(experiment,),
    )


def _start_worker(experiment: Experiment) -> None:
    """Prepare a worker: its bench, and a watch that ends it when its parent is killed."""
    global _bench
    _bench = Bench(experiment)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_leave_with, args=(parent.join,), daemon=True).start()


def _leave_with(join: Callable[[], None]) -> None:
    join()
    os._exit(1)


def _work(cell: Cell) -> dict[str, Any]:
    assert _bench is not None
    return _bench.run(cell)
