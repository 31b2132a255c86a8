"""Every large allocation fails once: an error, nothing lost, nothing leaked, the next call works.

    python -m torture.memory FOLDER CASES SEED [START OF THE NAMES]

A process under `memory.c` (LD_PRELOAD) in which one allocation of NumPy, Arrow or Python fails.
The compiled loops' own allocations are the business of `tests/native/test_faults.py`. CSV is left
out: Arrow's parser ends the process itself where it can't allocate (apache/arrow#34487).
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from torture.campaign import ROOT, Budget, Tally

__all__ = ["memory_faults"]

LARGE = 100_000  # bytes; a column of the table below has 200,000 as floats
N_ROWS = 25_000
PATIENCE = 60.0  # seconds for threads to end
PAIRS = (
    "auto/layered",
    "naive/laplace",
    "tan/hdp",
    "kdb/m-estimate",
    "skdb/hdp",
    "ktree/dfe",
    "acll/acll",
    "naive/discriminative",
    "tan/hybrid(training__epochs=1)",
)


@dataclass(frozen=True)
class Work:
    """Something that allocates: `run` returns plain data that must come out the same again."""

    name: str
    run: Callable[[], Any]


def memory_faults(budget: Budget, tally: Tally, folder: Path) -> None:
    """Let as many large allocations of each kind of work fail as the budget has cases."""
    library = _build(folder)
    if library is None:
        tally.facts["failing allocations"] = "not tried: no C compiler, or no glibc here"
        return
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torture.memory"),
            *(str(folder), str(budget.cases), str(budget.seed), budget.only),
        ],
        env={
            **os.environ,
            "LD_PRELOAD": str(library),
            "ARROW_DEFAULT_MEMORY_POOL": "system",  # the others take pages from the kernel
            "OMP_NUM_THREADS": "1",
        },
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        check=False,
    )
    if done.returncode:
        tally.fail(f"the process with failing allocations ended with code {done.returncode}")
        return
    found = json.loads(done.stdout.splitlines()[-1])
    tally.outcomes.update({k: n for k, n in found["outcomes"].items() if k != "failed"})
    for failure in found["failures"]:
        tally.fail(**failure)
    tally.facts.update(found["facts"])


def _build(folder: Path) -> Path | None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    target = folder / "memory.so"
    source = Path(__file__).with_suffix(".c")
    command = [compiler, "-O1", "-shared", "-fPIC", "-fno-builtin", "-o", str(target), str(source)]
    return target if subprocess.run(command, check=False).returncode == 0 else None


def _attack(work: Work, cases: int, seed: int, room: Path, tally: Tally) -> int:
    """Let allocations of one kind of work fail, one at a time; return how many it has."""
    library = ctypes.CDLL(None)
    library.memory_arm.argtypes = (ctypes.c_long, ctypes.c_long)
    library.memory_seen.restype = library.memory_held.restype = ctypes.c_long

    for _ in range(2):  # what a first call loads or keeps is no leak
        wanted = work.run()
    gc.collect()
    held, n_threads = library.memory_held(), threading.active_count()
    library.memory_arm(0, LARGE)
    work.run()
    n_allocations = int(library.memory_seen())
    places = list(range(1, n_allocations + 1))
    if n_allocations > cases:
        places = sorted(random.Random(f"{work.name}-{seed}").sample(places, cases))
    for at in places:
        raised = _fail_at(library, work, at)
        problem = _look(raised, work, wanted, room)
        if problem is None and library.memory_held() > held:
            problem = f"{library.memory_held() - held:,} bytes are leaked"
            held = library.memory_held()
        if problem is None and not _ended(n_threads):
            problem = f"threads go on: {[thread.name for thread in threading.enumerate()]}"
        if problem is None:
            tally.add("refused" if raised is not None else "done in spite of it")
        else:
            what = f"{work.name}: allocation {at} of {n_allocations}: {problem}"
            tally.fail(what[:600], seed=seed)
    return n_allocations


def _ended(n_threads: int) -> bool:
    """Return whether no more threads than before are left, soon: the machine may be busy."""
    end = time.monotonic() + PATIENCE
    while threading.active_count() > n_threads and time.monotonic() < end:
        time.sleep(0.01)
    return threading.active_count() <= n_threads


def _fail_at(library: Any, work: Work, at: int) -> str | None:
    """Return the error, as text: an exception itself holds the frames, and all they hold."""
    library.memory_arm(at, LARGE)
    try:
        work.run()
    except BaseException as error:
        library.memory_arm(0, LARGE)
        return _told(error)
    finally:
        library.memory_arm(0, LARGE)
    return None


def _told(error: BaseException) -> str:
    """Return "refused" for an error that is allowed, else what it was and where."""
    import traceback

    from tanager.errors import TanagerError

    if isinstance(error, MemoryError) or (
        isinstance(error, TanagerError) and "memory" in str(error)
    ):
        return "refused"
    where = traceback.extract_tb(error.__traceback__)[-3:]
    lines = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(where))
    return f"{type(error).__name__}: {error} ({lines})"


def _look(raised: str | None, work: Work, wanted: Any, room: Path) -> str | None:
    if raised not in (None, "refused"):
        return raised
    gc.collect()
    left = sorted(path.name for path in room.rglob("*"))
    if left:
        return f"temporary files are left: {left}"
    try:
        again = work.run()
    except BaseException as error:
        return f"the next call fails: {type(error).__name__}: {error}"
    same = again == wanted
    del again
    gc.collect()
    return None if same else "the next call gives another result"


def _table(seed: int) -> tuple[Any, np.ndarray]:
    """Return numbers, words, texts of dates, and gaps; and labels."""
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, N_ROWS)
    days = np.datetime64("2020-01-01") + rng.integers(0, 900, N_ROWS)
    return pa.table(
        {
            "n": rng.normal(size=N_ROWS) + y,
            "gaps": pa.array(rng.normal(size=N_ROWS), mask=rng.random(N_ROWS) < 0.1),
            "whole": rng.integers(0, 1_000, N_ROWS),
            "word": np.array(["red", "green", "blue"])[(y + rng.integers(0, 2, N_ROWS)) % 3],
            "name": [f"name{i}" for i in rng.integers(0, 300, N_ROWS)],
            "day": np.datetime_as_string(days),
        }
    ), np.array(["no", "yes", "maybe"])[y]


class Bench:
    """A table, its files and a model, and what can be done with them."""

    def __init__(self, folder: Path) -> None:
        import pyarrow.parquet as pq

        import tanager
        from tanager import BayesNetClassifier

        self.X, self.y = _table(0)
        self.few = self.X.slice(0, 40)
        whole = self.X.append_column("y", [self.y])
        self.parquet = str(folder / "t.parquet")
        pq.write_table(whole, self.parquet, row_group_size=10_000)
        self.known = BayesNetClassifier(random_state=0).fit(self.X, self.y)
        self.file = folder / "m.tanager"
        tanager.save(self.known, self.file)
        self.output = folder / "output"
        self.output.mkdir()

    def fit(self, pair: str, rows: str | None = None, **options: Any) -> bytes:
        """Fit the table, or a file of it."""
        from tanager import BayesNetClassifier

        clf = BayesNetClassifier(*pair.split("/"), random_state=0, **options)
        clf.fit(*((self.X, self.y) if rows is None else (rows, "y")))
        return self.answers(clf)

    def answers(self, clf: Any) -> bytes:
        """Return probabilities of a few rows."""
        found: bytes = clf.predict_proba(self.few).tobytes()
        return found

    def learn_again(self, pair: str, how: str) -> bytes:
        """Let a fitted classifier learn again; where that fails, it is what it was."""
        from tanager import BayesNetClassifier

        clf = BayesNetClassifier(*pair.split("/"))
        getattr(clf, how)(self.X.slice(0, 400), self.y[:400])
        before = self.answers(clf)
        try:
            getattr(clf, how)(self.X, self.y)
        except MemoryError:
            if self.answers(clf) != before:
                raise AssertionError(f"{how} failed and changed the classifier") from None
            raise
        return self.answers(clf)

    def save(self) -> bytes:
        """Save over a model file: the old one or the new one is there, whole."""
        import tanager

        try:
            tanager.save(self.known, self.file)
        finally:
            tanager.load(self.file)
        return self.file.read_bytes()

    def command(self, *arguments: str) -> list[tuple[str, bytes]]:
        """Run a command; return the files it wrote."""
        from tanager.cli.app import run

        ending = "tanager" if "fit" in arguments else "csv"
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            code = run([*arguments, "-o", str(self.output / f"file.{ending}"), "--force"])
        found = [(path.name, path.read_bytes()) for path in self.output.iterdir()]
        for name, _ in found:
            (self.output / name).unlink()
        if code and (found or "memory" not in said.getvalue()):
            raise AssertionError(f"{[name for name, _ in found]} {said.getvalue()[-300:]}")
        if code:
            raise MemoryError
        return found


def _works(folder: Path) -> list[Work]:
    import tanager

    bench = Bench(folder)
    known, X = bench.known, bench.X
    predict = ("predict", str(bench.file), bench.parquet, "--ignore-extra")
    return [
        *(Work(f"fit {pair}", partial(bench.fit, pair)) for pair in PAIRS),
        Work("fit from .parquet", lambda: bench.fit("tan/hdp", bench.parquet)),
        Work("fit in threads", lambda: bench.fit("auto/layered", n_jobs=2)),
        Work("fit with gaps", lambda: bench.fit("tan/laplace", missing="marginalize")),
        Work("fit past its memory limit", lambda: bench.fit("tan/hdp", memory_limit="100kB")),
        Work("fit again", lambda: bench.learn_again("naive/laplace", "fit")),
        Work("partial_fit", lambda: bench.learn_again("tan/laplace", "partial_fit")),
        Work("predict_proba", lambda: known.predict_proba(X).tobytes()),
        Work("predict", lambda: known.predict(X).tolist()),
        Work("predict_interval", lambda: known.predict_interval(X).tobytes()),
        Work("score_samples", lambda: known.score_samples(X).tobytes()),
        Work("sample", lambda: repr(known.network_.sample(N_ROWS, random_state=0))),
        Work("explain", lambda: repr(known.explain(X.slice(0, 5_000)))),
        Work("save", bench.save),
        Work("load", lambda: bench.answers(tanager.load(bench.file))),
        Work("tanager fit", lambda: bench.command("fit", bench.parquet, "-t", "y")),
        Work("tanager predict", lambda: bench.command(*predict)),
    ]


def main() -> int:
    """Attack every kind of work in this process, and print what came of it."""
    warnings.simplefilter("ignore")
    place, cases, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    only = sys.argv[4] if len(sys.argv) > 4 else ""
    room = place / "room"  # for temporary files
    for folder in (room, place / "work"):
        folder.mkdir()
    tempfile.tempdir = str(room)
    tally = Tally(say=lambda text: print(f"   {text}", file=sys.stderr, flush=True))
    found = {
        work.name: _attack(work, cases, seed, room, tally)
        for work in _works(place / "work")
        if work.name.startswith(only)
    }
    tally.facts["large allocations"] = f"{sum(found.values()):,} in {len(found)} kinds of work"
    print(json.dumps(tally.to_json()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
