"""A process that opens hostile files one by one, watched from outside.

    python -m torture.victim KIND

Reads one path a line from standard input and answers each with a line of JSON: what
happened, the time, the peak memory, and what was imported, executed or opened for writing
on the way. The parent ends it when an answer takes too long.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tanager.sources import open_source

LIMIT_BYTES = 8 << 30  # of address space: a runaway allocation fails here, not on the machine
QUIET_EVENTS = {"os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "os.fork",
                "os.forkpty", "ctypes.dlopen", "socket.connect", "pickle.find_class"}  # fmt: skip


class Coverage:
    """Counts lines of Tanager's readers that no file reached before."""

    def __init__(self, names: tuple[str, ...]) -> None:
        import tanager

        root = Path(tanager.__file__).parent
        self._files = {str(path) for name in names for path in root.glob(name)}
        self._lines: set[tuple[str, int]] = set()
        self.fresh = 0

    def trace(self, frame: Any, _event: str, _argument: Any) -> Any:
        """Follow only the files of interest."""
        return self._line if frame.f_code.co_filename in self._files else None

    def _line(self, frame: Any, event: str, _argument: Any) -> Any:
        if event == "line":
            place = (frame.f_code.co_filename, frame.f_lineno)
            if place not in self._lines:
                self._lines.add(place)
                self.fresh += 1
        return self._line


READERS = {
    "model": ("network/*.py", "classifiers/files.py", "codes/codebook.py", "codes/columns.py"),
    "input": ("sources/*.py", "codes/*.py"),
    "experiment": ("evaluation/*.py",),
}


def _installed_library(event: str, arguments: tuple[Any, ...]) -> bool:
    """Whether a shared library of an installed package is opened."""
    return event == "ctypes.dlopen" and "site-packages" in str(arguments[0])


def _writes(mode: object) -> bool:
    return isinstance(mode, str) and any(mark in mode for mark in "wax+")


class Importers:
    """Notes, first among the finders of modules, who asks for each top-level module."""

    def __init__(self) -> None:
        import tanager

        self._own = str(Path(tanager.__file__).parent)
        self.asked: dict[str, str] = {}

    def find_spec(self, name: str, _path: Any, _target: Any = None) -> None:
        """Note the file that asks, and leave the finding to the others."""
        frame = sys._getframe(1)
        while frame is not None and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back  # type: ignore[assignment]
        if frame is not None:
            self.asked.setdefault(name.partition(".")[0], frame.f_code.co_filename)

    def is_a_library(self, name: str) -> bool:
        """Whether an installed package asked for the module, and not Tanager."""
        asked = self.asked.get(name, "")
        return "site-packages" in asked and not asked.startswith(self._own)


class Watch:
    """Notes what a file must never cause, through Python's audit events."""

    def __init__(self) -> None:
        self.armed = False
        self.seen: list[str] = []
        self._modules: set[str] = set()
        self._importers = Importers()
        sys.meta_path.insert(0, self._importers)
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.armed:
            return
        if event in QUIET_EVENTS and not _installed_library(event, arguments):
            self.seen.append(f"{event} {arguments[:1]!r}"[:200])
        elif event == "open" and _writes(arguments[1]) and not self._own(arguments[0]):
            self.seen.append(f"open for writing: {arguments[0]!r}"[:200])

    def arm(self) -> None:
        """Begin to listen."""
        self.seen, self._modules = [], set(sys.modules)
        self.armed = True

    def disarm(self) -> list[str]:
        """Stop listening; return what was heard, and which modules a file brought in.

        What a library imports for itself, late, is its own affair: no file named it.
        """
        self.armed = False
        new = {name.partition(".")[0] for name in set(sys.modules) - self._modules}
        new = {name for name in new - _PACKAGES if not name.startswith("_")}
        new = {name for name in new if not self._importers.is_a_library(name)}
        return [*self.seen, *(f"import {name}" for name in sorted(new))]

    @staticmethod
    def _own(path: object) -> bool:
        text = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
        return (
            text.startswith(("/proc/self/", tempfile.gettempdir()))
            or "__pycache__" in text
            or text == os.devnull
        )


_PACKAGES = frozenset(
    {
        *sys.stdlib_module_names,
        *("tanager", "numpy", "scipy", "sklearn", "pyarrow", "safetensors"),
        *("joblib", "threadpoolctl", "pandas", "rich", "typer", "torture", "tests", "packaging"),
        *("dateutil", "six", "pytz", "tzdata", "cython_runtime", "openpyxl"),
    }
) - {"this", "antigravity", "turtle", "tkinter", "idlelib"}


def probabilities_are_right(p: np.ndarray[Any, Any]) -> bool:
    """Whether rows are distributions to 1e-9."""
    return bool(
        np.isfinite(p).all() and (p >= 0).all() and (np.abs(p.sum(axis=1) - 1) < 1e-9).all()
    )


def load_model(path: Path) -> str:
    """Load a model, predict, explain and export: whatever loads must also work."""
    import tanager
    from tanager.errors import ModelFileError, TanagerError

    try:
        model = tanager.load(path)
    except ModelFileError:
        return "refused"
    try:
        p = model.predict_proba(_rows_for(model.network_.codebook))
    except TanagerError:
        return "loaded, rows refused"
    if not probabilities_are_right(p):
        # A forged table of scores may hold any numbers; probabilities may not.
        return "wrong probabilities"
    uses = list(_uses(model, path))
    chosen = zlib.crc32(path.read_bytes())  # two of the uses, by the content
    for use in {chosen % len(uses), chosen // 97 % len(uses)}:
        with contextlib.suppress(TanagerError):
            uses[use]()
    return "loaded"


def _uses(model: Any, path: Path) -> Iterator[Callable[[], object]]:
    """Iterate over what a model is for, beside predicting."""
    import tanager
    from tanager.network import explain_row
    from tanager.network.information import NetworkInformation
    from tanager.report.model_page import render_report

    network = model.network_
    rows, feature = _rows_for(network.codebook), network.structure.names[0]
    yield lambda: (network.to_dot(), network._repr_html_(), network.table(feature))
    yield lambda: explain_row(model, rows.slice(1, 1))._repr_html_()
    yield lambda: network.log_terms(network.codebook.encode(rows))
    yield lambda: NetworkInformation(network).of_edges()
    yield lambda: network.edit(feature, neutralise=True).log_joint(rows)
    yield lambda: network.edit(feature, forbid=True).log_joint(rows)
    yield lambda: tanager.save(model, path.with_name("again.tanager"))
    yield lambda: (network.to_bif(), network.to_xmlbif(), network.to_json())
    yield lambda: (network.to_sql(dialect="sqlite"), network.to_javascript(), network.to_c())
    yield lambda: render_report(model)


def _rows_for(codebook: Any) -> Any:
    """Return two rows for a model: nothing known, and a value of every column."""
    import pyarrow as pa

    columns = {}
    for column in codebook.columns:
        values = getattr(column, "values", None)
        if getattr(column, "temporal", False):
            columns[column.name] = pa.array([None, 0], pa.timestamp("s"))
        else:
            value = 0.5 if values is None else (values[0] if len(values) else None)
            columns[column.name] = pa.array([None, value])
    return pa.table(columns)


def fit_table(path: Path) -> str:
    """Learn from a damaged table and predict it; also with a model of the whole table."""
    from tanager import BayesNetClassifier
    from tanager.errors import TanagerError

    # Of twelve files one goes to the default, which is far slower.
    by_default = zlib.crc32(path.read_bytes()) % 12 == 0
    pair = ("auto", "layered") if by_default else ("tan", "laplace")

    def learn() -> Any:
        model = BayesNetClassifier(*pair, random_state=0).fit(str(path), "y")
        return model, model.feature_names_in_.tolist()

    outcome = "refused"
    for get in (learn, _known_model):
        try:
            model, names = get()
            source = open_source(str(path))
            source.check_has(names, "names")  # `select` leaves that to those who call it
            p = model.predict_proba(source.select(names))
        except TanagerError as error:
            if len(str(error)) >= 4000:
                return "a message too long to read"
            continue
        if not probabilities_are_right(p):
            return "wrong probabilities"
        outcome = "ran"
    return outcome


@cache
def _known_model() -> Any:
    """Return a model of the whole table, and the columns that it reads."""
    from tanager import BayesNetClassifier
    from torture.input_mutations import table

    model = BayesNetClassifier("tan", "hdp", random_state=0).fit(table(), "y")
    return model, model.feature_names_in_.tolist()


def run_experiment(path: Path) -> str:
    """Read an experiment file, and run it where it is small."""
    from tanager.errors import TanagerError
    from tanager.evaluation import Experiment

    try:
        experiment = Experiment.from_toml(path, data=path.parent)
        n_cells = sum(1 for _ in experiment.cells())
        if n_cells > 24:
            return "read"
        experiment.run()
    except TanagerError:
        return "refused"
    return "ran"


def peak_megabytes(inherited: float) -> float:
    """Return the peak memory of this program, not of the one that started it.

    On Linux a new process inherits the peak of its parent in `getrusage`. A fit
    resets the peak in /proc; so that one counts only below the inherited one.
    """
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if peak > inherited:
        return peak
    status = Path("/proc/self/status").read_text()
    return next(int(t.split()[1]) / 1024 for t in status.splitlines() if t.startswith("VmHWM:"))


KINDS: dict[str, Callable[[Path], str]] = {
    "model": load_model,
    "input": fit_table,
    "experiment": run_experiment,
}


def main() -> None:
    """Serve one kind of file until standard input ends."""
    work = KINDS[sys.argv[1]]
    inherited = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    watch, coverage = Watch(), Coverage(READERS[sys.argv[1]])
    for line in sys.stdin:
        path = Path(line.rstrip("\n"))
        start, coverage.fresh = time.process_time(), 0
        watch.arm()
        sys.settrace(coverage.trace)
        try:
            outcome = work(path)
        except BaseException as error:  # anything that gets here broke the promise
            outcome = f"raised {type(error).__name__}: {error}"[:300]
        sys.settrace(None)
        seen = watch.disarm()
        facts = {
            "outcome": outcome,
            "seconds": time.process_time() - start,  # of CPU: the machine may be busy
            "megabytes": peak_megabytes(inherited),
            "seen": seen,
            "fresh": coverage.fresh,
        }
        answer.write(json.dumps(facts) + "\n")
        answer.flush()


if __name__ == "__main__":
    main()
