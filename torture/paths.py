"""Paths that lead elsewhere: links, pipes, files that only their owner may read."""

from __future__ import annotations

import os
import shutil
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torture.campaign import Tally
from torture.writers import writers

__all__ = ["attack_paths"]

PATIENCE = 60  # seconds; the machine may be busy


def attack_paths(place: Path, tally: Tally) -> None:
    """Every writer: a link into another folder, a pipe, a file that only its owner reads."""
    place.mkdir()
    made = list(writers(place))
    for writer in made:
        out = place / "out"
        _clear(out)
        writer.work(out / "new")
        names = [path.name for path in out.iterdir() if path.is_file()]
        attacks = {"a link": _link, "a pipe": _pipe, "a closed file": _closed}
        for name in names:
            for what, attack in attacks.items():
                try:
                    attack(writer.work, out, name, f"{writer.name}: {what}", tally)
                except Exception as error:
                    tally.fail(f"{writer.name}: {what}: {type(error).__name__}: {error}"[:300])
    tally.facts["writers"] = len(made)


def _clear(out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()


def _tried(work: Callable[[Path], Any], out: Path) -> str | None:
    """Return why the writer refused, or None where it wrote."""
    from tanager.errors import TanagerError

    before = signal.signal(signal.SIGALRM, _wait_no_longer)
    signal.alarm(PATIENCE)
    try:
        work(out / "new")
    except (TanagerError, OSError) as error:
        return str(error)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return None


class _WaitedLongError(Exception):
    """A writer waits for ever."""


def _wait_no_longer(*_: Any) -> None:
    raise _WaitedLongError


def _link(work: Callable[[Path], Any], out: Path, name: str, what: str, tally: Tally) -> None:
    _clear(out)
    secret = out.parent / "secret"
    secret.write_bytes(b"somebody's file")
    (out / name).symlink_to(secret)
    refused = _tried(work, out)
    kept = secret.read_bytes() == b"somebody's file"
    tally.check(kept and refused is not None, f"{what} is followed", refused=refused)


def _pipe(work: Callable[[Path], Any], out: Path, name: str, what: str, tally: Tally) -> None:
    _clear(out)
    os.mkfifo(out / name)
    holder = os.open(out / name, os.O_RDWR | os.O_NONBLOCK)  # a writer would wait for a reader
    try:
        refused = _tried(work, out)
    finally:
        os.close(holder)
    still = stat.S_ISFIFO((out / name).lstat().st_mode)
    tally.check(still and refused is not None, f"{what} is replaced", refused=refused)


def _closed(work: Callable[[Path], Any], out: Path, name: str, what: str, tally: Tally) -> None:
    _clear(out)
    (out / name).write_bytes(b"")
    (out / name).chmod(0o600)
    before = os.umask(0)
    try:
        refused = _tried(work, out)
    finally:
        os.umask(before)
    mode = stat.S_IMODE((out / name).stat().st_mode)
    tally.check(mode == 0o600, f"{what} is opened to others: {mode:o}", refused=refused)
