"""Full disks, folders without permission, files that change: an error, or the right file."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from torture.campaign import ROOT, Budget, Tally
from torture.concurrency import data

__all__ = ["disks"]


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
if {plain}:
    from torture.disks import give_up_rights
    give_up_rights()
sys.exit(run({command!r}))
"""


def give_up_rights() -> None:
    """Give up what lets root write where permissions forbid it (Linux)."""
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # of version 3, for this process
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice 32 bits
    if library.capget(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "the rights of the process cannot be read")
    overriding = 1 << 1 | 1 << 2 | 1 << 3  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER
    sets[0] &= ~overriding
    sets[1] &= ~overriding
    if library.capset(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "the rights of the process cannot be given up")


def _program(
    command: list[str], limit: int = 0, *, plain: bool = False, **environment: str
) -> subprocess.CompletedProcess:
    code = _SAVE.format(root=str(ROOT), limit=limit, command=command, plain=plain)
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
    is_root = os.geteuid() == 0
    if is_root and not sys.platform.startswith("linux"):
        tally.facts["a read-only folder"] = "not tried: root may write everywhere"
        return
    for name, command in _commands(table, model, out).items():
        done = _program(command, plain=is_root)
        tally.check(done.returncode == 1, f"{name}, read-only folder: code {done.returncode}")
        _whole_or_absent(f"{name}, read-only folder", done, out, tally)
    home = folder / "locked" / "home"
    home.mkdir(mode=0o555)
    (folder / "locked" / "written").mkdir()
    command = _commands(table, model, folder / "locked" / "written")["fit"]
    done = _program(command, plain=is_root, HOME=str(home), XDG_CACHE_HOME=str(home),
                    MPLCONFIGDIR=str(home))  # fmt: skip
    tally.check(done.returncode == 0, f"no writable cache: {done.stderr[-200:]}")


def _without_home(folder: Path, tally: Tally) -> None:
    """No home, or one that does not exist."""
    table, model = _prepare(folder / "homeless")
    out = folder / "homeless" / "out"
    for home in ("", "/nonexistent"):
        out.mkdir()
        command = _commands(table, model, out)["predict"]
        done = _program(command, HOME=home, XDG_CACHE_HOME=home)
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

                def given(self, verbose: int) -> contextlib.nullcontext[Progress]:  # noqa: ARG002
                    return contextlib.nullcontext(self)

            saboteur = Saboteur()
            clf = BayesNetClassifier("kdb", "discriminative")
            what = f"{ending} {change} between passes"
            watched = patch("tanager.classifiers.bayesnet.open_progress", saboteur.given)
            try:
                with watched:
                    clf.fit(str(path), "y")
            except TanagerError:
                tally.add("refused")
                continue
            except Exception as error:
                tally.fail(f"{what}: {type(error).__name__}: {error}"[:300])
                continue
            tally.check(saboteur.done, f"{what}: the file wasn't changed")
            # A model of the rows as they were at first is as good as an error.
            whole = folder / f"whole.{ending}"
            _write(whole, data(6, 400))
            same = BayesNetClassifier("kdb", "discriminative").fit(str(whole), "y")
            X = pa.table({f"x{i}": data(6, 400)[0][:, i] for i in range(5)})
            equal = np.array_equal(clf.predict_proba(X), same.predict_proba(X))
            tally.check(equal, f"{what}: a model of mixed rows, and no error")


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
