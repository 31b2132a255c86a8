"""Kills, full disks, files that change: the old file or the new one, whole; the same results."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from torture.campaign import Budget, Tally
from torture.concurrency import data

__all__ = ["disks", "kills"]

ROOT = Path(__file__).resolve().parent.parent


def kills(budget: Budget, tally: Tally, folder: Path) -> None:
    """Kill -9 at random moments of saving, predicting, comparing and training."""
    scenes = [_Saving(folder / "saving"), _Predicting(folder / "predicting"),
              _Comparing(folder / "comparing"), _Training(folder / "training")]  # fmt: skip
    while budget.more():
        rng = random.Random(f"kill-{budget.seed}-{budget.case}")
        scene = scenes[budget.case % len(scenes)]
        died = _kill_during(scene.work, rng.uniform(0.0, scene.seconds))
        problem = scene.look()
        name = type(scene).__name__[1:].lower()
        if problem is None:
            tally.add(f"{name}, {'killed' if died else 'finished first'}")
        else:
            tally.fail(f"{name}: {problem}", seed=budget.seed, case=budget.case)


def _kill_during(work: Callable[[], None], after: float) -> bool:
    """Fork, work in the child, kill it after some seconds; whether it was still at work."""
    child = os.fork()
    if child == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            work()
        finally:
            os._exit(0)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


class _Saving:
    """One of two models is saved to one path, again and again."""

    seconds = 0.25

    def __init__(self, folder: Path) -> None:
        import tanager
        from tanager import BayesNetClassifier

        folder.mkdir()
        self.folder, self.path = folder, folder / "model.tanager"
        X, y = data(0)
        self.models = [BayesNetClassifier("kdb", p).fit(X, y) for p in ("laplace", "hdp")]
        self.rows, self.known = X[:20], [m.predict_proba(X[:20]) for m in self.models]
        tanager.save(self.models[0], self.path)

    def work(self) -> None:
        import tanager

        while True:
            for model in self.models:
                tanager.save(model, self.path)

    def look(self) -> str | None:
        import tanager

        p = tanager.load(self.path).predict_proba(self.rows)
        if not any(np.array_equal(p, known) for known in self.known):
            return "the file is neither the old model nor the new one"
        left = [f for f in self.folder.iterdir() if f != self.path]
        if len(left) > 1:
            return f"{len(left)} temporary files are left"
        tanager.save(self.models[0], self.path)
        if [f for f in self.folder.iterdir() if f != self.path]:
            return "the next write left what the killed one left"
        return None


class _Predicting:
    """The command line writes predictions to one file, again and again."""

    seconds = 0.5

    def __init__(self, folder: Path) -> None:
        import pyarrow.parquet as pq

        import tanager
        from tanager import BayesNetClassifier

        folder.mkdir()
        self.folder, self.path = folder, folder / "out.parquet"
        X, y = data(0)
        table = pa.table({f"x{i}": X[:, i] for i in range(5)})
        pq.write_table(table, folder / "t.parquet")
        tanager.save(BayesNetClassifier("tan", "laplace").fit(table, y), folder / "m")
        self._predict()
        self.whole = pq.read_table(self.path)
        self.files = {f.name for f in folder.iterdir()}

    def _predict(self) -> None:
        from tanager.cli.app import run

        out = os.dup(1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        run(["predict", str(self.folder / "m"), str(self.folder / "t.parquet"), "-o",
             str(self.path)])  # fmt: skip
        sys.stdout.flush()
        os.dup2(out, 1)
        os.close(out)

    def work(self) -> None:
        while True:
            self._predict()

    def look(self) -> str | None:
        import pyarrow.parquet as pq

        if not pq.read_table(self.path).equals(self.whole):
            return "the predictions are not whole"
        self._predict()
        if {f.name for f in self.folder.iterdir()} != self.files:
            return "the next write left what the killed one left"
        return None


class _Comparing:
    """An experiment with a run file is killed and run again to its end."""

    seconds = 1.5

    def __init__(self, folder: Path) -> None:
        from tanager.evaluation import CrossValidation, Dataset, Experiment

        folder.mkdir()
        self.path = folder / "run.jsonl"
        X, y = data(1, 200)
        table = pa.table({**{f"x{i}": X[:, i] for i in range(5)}, "class": y})
        uses = ["naive/laplace", "tan/hdp"]
        self.experiment = Experiment([Dataset("d", table)], uses, CrossValidation(5, 2), seed=1)
        self.expected = self._numbers(self.experiment.run())

    @staticmethod
    def _numbers(results: Any) -> list[Any]:
        names = ("classifier", "round", "fold", "status", *results.metrics)
        return [[r.get(name) for name in names] for r in results.records]

    def work(self) -> None:
        self.experiment.run(self.path)

    def look(self) -> str | None:
        from tanager.evaluation import Results

        if self.path.exists() and self.path.read_bytes().count(b"\n"):
            _ = Results.read(self.path).records  # a torn file can be looked at
        found = self._numbers(self.experiment.run(self.path))
        self.path.unlink()
        return None if found == self.expected else "the resumed run has other numbers"


class _Training:
    """A training with a checkpoint is killed and run again to its end."""

    seconds = 1.5

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.path = folder, folder / "run.npz"
        self.X, self.y = data(2, 300)
        self.expected = self._fit(None)

    def _fit(self, checkpoint: Path | None) -> Any:
        from tanager import BayesNetClassifier
        from tanager.parameters import Hybrid
        from tanager.training import Training

        training = Training(epochs=60, checkpoint=checkpoint, checkpoint_every=2)
        learner = Hybrid(training=training)
        clf = BayesNetClassifier("tan", learner, random_state=0).fit(self.X, self.y)
        return clf.predict_proba(self.X[:50])

    def work(self) -> None:
        self._fit(self.path)

    def look(self) -> str | None:
        found = self._fit(self.path)
        left = [f.name for f in self.folder.iterdir() if f != self.path]
        self.path.unlink()
        for name in left:
            (self.folder / name).unlink()
        if len(left) > 1:
            return f"left: {left}"
        return None if np.array_equal(found, self.expected) else "the resumed training differs"


def disks(budget: Budget, tally: Tally, folder: Path) -> None:  # noqa: ARG001
    """Full disks, folders without permission, no home, files that change while they are read."""
    _file_size_limit(folder, tally)
    _small_disk(folder, tally)
    _read_only(folder, tally)
    _without_home(folder, tally)
    _changing_files(folder, tally)


_SAVE = """
import sys; sys.path.insert(0, {root!r})
import resource, signal
from tanager.cli.app import run
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
limit = {limit}
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
sys.exit(run({command!r}))
"""


def _program(command: list[str], limit: int = 0, **environment: str) -> subprocess.CompletedProcess:
    code = _SAVE.format(root=str(ROOT), limit=limit, command=command)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip


def _prepare(folder: Path) -> tuple[Path, Path]:
    """Write a table and a model; return both paths."""
    import pyarrow.parquet as pq

    import tanager
    from tanager import BayesNetClassifier

    folder.mkdir()
    X, y = data(5)
    table = pa.table({**{f"x{i}": X[:, i] for i in range(5)}, "y": y})
    pq.write_table(table, folder / "t.parquet")
    tanager.save(BayesNetClassifier("tan", "laplace").fit(table, "y"), folder / "m.tanager")
    return folder / "t.parquet", folder / "m.tanager"


def _commands(table: Path, model: Path, out: Path) -> dict[str, list[str]]:
    return {
        "fit": ["fit", str(table), "-t", "y", "-o", str(out / "fitted.tanager")],
        "predict": ["predict", str(model), str(table), "-o", str(out / "p.csv")],
        "predict to Arrow": ["predict", str(model), str(table), "-o", str(out / "p.arrow")],
        "draw": ["draw", str(model), "-o", str(out / "m.svg")],
        "export": ["export", str(model), "-o", str(out / "m.bif")],
        "compare": ["evaluate", str(table), "-t", "y", "--structure", "naive", "--parameters",
                    "laplace", "--rounds", "1", "-o", str(out / "cells.csv")],
    }  # fmt: skip


def _whole_or_absent(name: str, done: Any, out: Path, tally: Tally) -> None:
    left = [f.name for f in out.iterdir() if f.name.endswith(".part")]
    tally.check(not left, f"{name}: temporary files are left", left=left)
    tally.check(done.returncode in (0, 1, 2), f"{name}: code {done.returncode}", err=done.stderr)
    lines = done.stderr.strip().splitlines()
    tally.check(len(lines) <= 1, f"{name}: more than one line on standard error", err=done.stderr)
    if done.returncode:
        tally.check(not list(out.iterdir()), f"{name}: a file in spite of the failure")


def _file_size_limit(folder: Path, tally: Tally) -> None:
    """Let the kernel refuse writes beyond a size, in the middle of a file."""
    table, model = _prepare(folder / "limit")
    for limit in (300, 700, 2_000):
        for name, command in _commands(table, model, folder / "limit" / "out").items():
            out = folder / "limit" / "out"
            out.mkdir()
            done = _program(command, limit)
            _whole_or_absent(f"{name}, files limited to {limit} bytes", done, out, tally)
            shutil.rmtree(out)


def _small_disk(folder: Path, tally: Tally) -> None:
    """Fill a disk of 8 kB; needs the right to mount one."""
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        tally.facts["a full disk"] = "not tried: mounting a small disk is not allowed here"
        return
    try:
        table, model = _prepare(folder / "full")
        for name, command in _commands(table, model, disk).items():
            done = _program(command)
            _whole_or_absent(f"{name}, disk of 8 kB", done, disk, tally)
            for file in disk.iterdir():
                file.unlink()
    finally:
        subprocess.run(["umount", str(disk)], check=False)


def _read_only(folder: Path, tally: Tally) -> None:
    table, model = _prepare(folder / "locked")
    out = folder / "locked" / "out"
    out.mkdir()
    out.chmod(0o555)
    if os.geteuid() == 0:
        tally.facts["a read-only folder"] = "not tried: root may write everywhere"
        return
    for name, command in _commands(table, model, out).items():
        _whole_or_absent(f"{name}, read-only folder", _program(command), out, tally)


def _without_home(folder: Path, tally: Tally) -> None:
    """No home, or one that does not exist; kernels have no place for their cache."""
    table, model = _prepare(folder / "homeless")
    out = folder / "homeless" / "out"
    for home in ("", "/nonexistent"):
        out.mkdir()
        command = _commands(table, model, out)["predict"]
        cache = "/proc/nowhere" if home else ""
        extra = {"NUMBA_CACHE_DIR": cache} if cache else {}
        done = _program(command, HOME=home, XDG_CACHE_HOME=home, **extra)
        tally.check(done.returncode == 0, f"HOME={home!r}: {done.stderr[-200:]}")
        shutil.rmtree(out)


def _changing_files(folder: Path, tally: Tally) -> None:
    """Change, grow, cut or remove a table between two passes over it."""
    from tanager import BayesNetClassifier
    from tanager.errors import TanagerError
    from tanager.progress import Progress

    folder = folder / "changing"
    folder.mkdir()
    for ending in ("csv", "parquet", "arrow"):
        for change in ("grows", "shrinks", "vanishes", "other values"):
            path = folder / f"t.{ending}"
            _write(path, data(6, 400))

            class Saboteur(Progress):
                done = False

                def finish(self, path: Path = path, change: str = change) -> None:
                    if not self.done:
                        self.done = True
                        _change(path, change)

            saboteur = Saboteur()
            clf = BayesNetClassifier("kdb", "discriminative")
            clf._progress = lambda s=saboteur: _Given(s)
            what = f"{ending} {change} between passes"
            try:
                clf.fit(str(path), "y")
            except TanagerError:
                tally.add("refused")
                continue
            except Exception as error:
                tally.fail(f"{what}: {type(error).__name__}: {error}"[:300])
                continue
            # A model of the rows as they were at first is as good as an error.
            whole = folder / f"whole.{ending}"
            _write(whole, data(6, 400))
            same = BayesNetClassifier("kdb", "discriminative").fit(str(whole), "y")
            X = pa.table({f"x{i}": data(6, 400)[0][:, i] for i in range(5)})
            equal = np.array_equal(clf.predict_proba(X), same.predict_proba(X))
            tally.check(equal, f"{what}: a model of mixed rows, and no error")


class _Given:
    """A progress object as a context."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress

    def __enter__(self) -> Any:
        return self._progress

    def __exit__(self, *_: object) -> None:
        return None


def _write(path: Path, rows: tuple[Any, Any]) -> None:
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

    X, y = rows
    table = pa.table({**{f"x{i}": X[:, i] for i in range(5)}, "y": np.where(y, "u", "v")})
    part = path.with_suffix(".new")
    if path.suffix == ".csv":
        pacsv.write_csv(table, part)
    elif path.suffix == ".parquet":
        pq.write_table(table, part, row_group_size=100)
    else:
        with pa.ipc.new_file(part, table.schema) as writer:
            writer.write_table(table, max_chunksize=100)
    part.replace(path)


def _change(path: Path, change: str) -> None:
    if change == "vanishes":
        path.unlink()
    elif change == "shrinks":
        with path.open("rb+") as file:
            file.truncate(path.stat().st_size // 2)
    elif change == "grows":
        _write(path, data(6, 800))
    else:
        _write(path, data(7, 400))
