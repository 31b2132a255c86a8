"""Computing the cells of an experiment: fit, predict and measure each, in parallel."""

from __future__ import annotations

import base64
import json
import multiprocessing
import os
import platform
import threading
import time
import traceback
import warnings
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from tanager import __version__
from tanager.engines.keeping import peak_memory_mb, reset_peak_memory
from tanager.errors import DataError, TanagerError, invalid
from tanager.evaluation.contenders import Contender
from tanager.evaluation.datasets import Loaded
from tanager.evaluation.metrics import METRICS, known_number, reliability
from tanager.evaluation.protocol import Split
from tanager.progress import one_of_many

if TYPE_CHECKING:
    from tanager.evaluation.experiment import Cell, Experiment

Record = dict[str, Any]  # of a finished or failed cell, as in a run file
_WARM_UP_ROWS = 24  # of the untimed fit before the first timed one, for imports


class _Rows(NamedTuple):
    """Training and test rows; `y` are indices into the `present` classes."""

    train: Any
    target: Any  # the training rows' classes as they are in the table
    y: NDArray[np.int64]
    present: NDArray[np.int64]
    test: Any
    truth: NDArray[np.int64]


@dataclass
class Bench:
    """Runs cells of one experiment in one process, and caches the last table it read."""

    experiment: Experiment
    _table: tuple[str, Loaded] | None = None
    _rows: tuple[tuple[str, int, int], _Rows] | None = None
    _warm: set[str] = field(default_factory=set)

    def run(self, cell: Cell) -> Record:
        """Compute a cell; a failure is recorded."""
        try:
            return {**cell.facts(), **self._measure(cell)}
        except Exception as error:  # any exception of a classifier is recorded
            ours = isinstance(error, TanagerError)
            text = str(error) if ours else "".join(traceback.format_exception_only(error)).strip()
            return cell.failed(text[:2000])

    def load(self, name: str) -> Loaded:
        """Return a dataset by name, read once for all its cells."""
        if self._table is None or self._table[0] != name:
            self._table = (name, self.experiment.dataset(name).load())
        return self._table[1]

    def split(self, cell: Cell) -> Split:
        """Return the rows of a cell."""
        rows = self.load(cell.dataset).labels
        train_rows = self.experiment.dataset(cell.dataset).train_rows
        if train_rows is not None:
            return Split(np.arange(train_rows), np.arange(train_rows, len(rows)))
        return self.experiment.protocol.split(rows, self.experiment.seed, cell.round, cell.fold)

    def _divide(self, cell: Cell) -> _Rows:
        """Return the tables of a cell, which are shared with the next classifier's cell."""
        place = (cell.dataset, cell.round, cell.fold)
        if self._rows is None or self._rows[0] != place:
            data, split = self.load(cell.dataset), self.split(cell)
            present, y = np.unique(data.labels[split.train], return_inverse=True)
            train, test = data.features.take(split.train), data.features.take(split.test)
            target, truth = data.target.take(split.train), data.labels[split.test]
            self._rows = (place, _Rows(train, target, y, present, test, truth))
        return self._rows[1]

    def _measure(self, cell: Cell) -> Record:
        experiment, rows, data = self.experiment, self._divide(cell), self.load(cell.dataset)
        contender = experiment.contender(cell.classifier)
        place = np.random.SeedSequence([experiment.seed, cell.round, cell.fold])
        seed = int(place.generate_state(1)[0] >> 1)
        dataset = experiment.dataset(cell.dataset)
        columns = dataset.column_options()
        if dataset.monotonic and contender.takes_signs:
            present = {data.classes[code] for code in rows.present}
            columns["monotonic"] = dataset.signs(data.classes, present)
        if dataset.classes_ordered and contender.is_ours:
            ordered = pa.array(dataset.classes_ordered).cast(data.target.type)
            columns["classes_ordered"] = ordered.to_pylist()
        # The options of Tanager's classifiers may name classes; others may need codes from 0.
        y = rows.target if contender.is_ours else rows.y
        self._warm_up(contender, rows.train, y)
        estimator = contender.build(seed, experiment.bins, columns)
        train, test, fit, predict = rows.train, rows.test, estimator.fit, estimator.predict_proba
        if hasattr(estimator, "learn_encoding"):  # third-party classifiers are timed without it
            train = estimator.learn_encoding(train, rows.y)
            test = estimator.encoder_.transform(test)
            fit, predict = estimator.fit_encoded, estimator.predict_encoded
        with threadpool_limits(1), one_of_many(), warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            reset_peak_memory()
            costs: dict[str, float | None] = {}
            with _clock(costs, "fit"):
                fit(train, y)
            with _clock(costs, "predict"):
                probabilities = predict(test)
            costs["peak_memory_mb"] = peak_memory_mb()
        codes = rows.present
        if contender.is_ours:
            names = pc.cast(pa.array(estimator.classes_.tolist(), data.target.type), pa.string())
            codes = pc.index_in(names, pa.array(data.classes)).to_numpy()
        probabilities = complete_probabilities(probabilities, codes, len(data.classes), len(rows.y))
        if not np.isfinite(probabilities).all():
            raise DataError("predict_proba returned probabilities that aren't finite numbers.")
        return {
            "status": "ok",
            "n_train": len(rows.y),
            "n_test": len(rows.truth),
            **self._score(probabilities, rows),
            **costs,
            "warnings": sorted({f"{w.category.__name__}: {w.message}"[:300] for w in heard}),
            **self._keep(estimator, probabilities),
        }

    def _score(self, probabilities: NDArray[np.float64], rows: _Rows) -> dict[str, Any]:
        given: tuple[Any, ...] = (probabilities, rows.truth)
        scores = {}
        for name in self.experiment.metrics:
            metric = METRICS[name]
            if metric.function is not None:
                extra = (identical_rows(rows.test),) if metric.needs_groups else ()
                scores[name] = known_number(metric.function(*given, *extra))
        return {**scores, "reliability": [part.tolist() for part in reliability(*given)]}

    def _keep(self, estimator: Any, probabilities: NDArray[np.float64]) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        if "predictions" in self.experiment.keep:
            kept["predictions"] = pack_codes(probabilities.argmax(axis=1))
        if "info" in self.experiment.keep:
            kept["info"] = json.loads(json.dumps(getattr(estimator, "info_", {}), default=_plain))
        return kept

    def _warm_up(self, contender: Contender, train: Any, y: Any) -> None:
        """Fit a pair once on a few rows, so that imports aren't timed."""
        if contender.name in self._warm or not contender.is_ours:
            return
        self._warm.add(contender.name)
        rows = np.unique(np.linspace(0, len(y) - 1, _WARM_UP_ROWS).astype(np.int64))
        # With too few rows it fails, as the timed fit will report.
        with suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimator = contender.build(0, self.experiment.bins)
            estimator.fit(train.take(rows), y.take(rows))
            estimator.predict_proba(train.take(rows[:2]))


def identical_rows(table: Any) -> NDArray[np.int64]:
    """Give every row of an Arrow table a code that only identical rows share."""
    groups = np.zeros(table.num_rows, np.int64)
    for column in table.columns:
        values = column.combine_chunks()
        coded = values if hasattr(values, "indices") else values.dictionary_encode()
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
        pairs = groups * (int(codes.max(initial=0)) + 1) + codes
        groups = np.unique(pairs, return_inverse=True)[1].astype(np.int64)
    return groups


def complete_probabilities(
    probabilities: NDArray[np.float64], present: NDArray[np.int64], n_classes: int, n_train: int
) -> NDArray[np.float64]:
    """Extend predictions of the `present` classes, (codes,), to all classes of the table, by code.

    A class without training rows gets the m-estimate (m=1) of its prior, 1/(C (N+1)); the others
    are scaled down.
    """
    absent = 1.0 / (n_classes * (n_train + 1.0))
    full = np.full((len(probabilities), n_classes), absent)
    full[:, present] = probabilities * (1.0 - absent * (n_classes - len(present)))
    return full


def pack_codes(codes: NDArray[np.integer]) -> str:
    """Encode class codes as compressed text."""
    return base64.b85encode(zlib.compress(codes.astype("<u2").tobytes(), 6)).decode()


def unpack_codes(text: str) -> NDArray[np.int64]:
    """Decode the text of `pack_codes`."""
    return np.frombuffer(zlib.decompress(base64.b85decode(text)), "<u2").astype(np.int64)


@contextmanager
def _clock(costs: dict[str, float | None], name: str) -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    costs[f"{name}_seconds"] = time.perf_counter() - wall
    costs[f"{name}_cpu_seconds"] = time.process_time() - cpu


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


@cache
def environment() -> dict[str, Any]:
    """Describe the environment of a run: versions and processor."""
    versions = {"tanager": __version__, "python": platform.python_version()}
    for name in ("numpy", "scipy", "scikit-learn", "pyarrow", "xgboost"):
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    processor = platform.machine()
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        named = next(line for line in lines if line.startswith("model name"))
        processor = named.split(":", 1)[1].strip()
    return {"versions": versions, "machine": processor, "cores": os.cpu_count()}


def compute_cells(experiment: Experiment, cells: Sequence[Cell], n_jobs: int) -> Iterator[Record]:
    """Compute cells in a number of processes (-1: one per core); yield records as they arrive."""
    if n_jobs == 0:
        raise invalid("n_jobs", n_jobs, "1 for one process, or -1 for one per core")
    n_processes = n_jobs if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + n_jobs)
    if n_processes == 1 or len(cells) < 2:
        yield from map(Bench(experiment).run, cells)
        return
    left = list(cells)
    while left:
        try:
            for record in _in_pool(experiment, left, min(n_processes, len(left))):
                left = [cell for cell in left if cell.key != record["cell"]]
                yield record
        except BrokenProcessPool:
            # A worker was killed, and it's unknown by which cell: those that may have been running
            # are rerun, each in a process of its own.
            suspects, left = left[: 2 * n_processes], left[2 * n_processes :]
            reason = "the worker process died, probably because it ran out of memory"
            for cell in suspects:
                try:
                    yield from _in_pool(experiment, [cell], 1)
                except BrokenProcessPool:
                    yield cell.failed(reason)


def _in_pool(experiment: Experiment, cells: Sequence[Cell], n_processes: int) -> Iterator[Record]:
    """Compute cells in processes, started in order; yield records as they arrive."""
    pool = ProcessPoolExecutor(
        n_processes,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start_worker,
        initargs=(experiment,),
    )
    try:
        for future in as_completed([pool.submit(_work, cell) for cell in cells]):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


_bench: Bench | None = None


def _start_worker(experiment: Experiment) -> None:
    """Prepare a worker: its bench, and a watchdog that ends it when its parent is killed."""
    global _bench
    _bench = Bench(experiment)
    parent = multiprocessing.parent_process()
    if parent is not None:

        def leave() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=leave, daemon=True).start()


def _work(cell: Cell) -> Record:
    assert _bench is not None
    return _bench.run(cell)
