"""Hostile files given to a victim, with limits of time and memory."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["GOOD", "MAX_MEGABYTES", "MAX_SECONDS", "Victim", "judge"]

MAX_SECONDS = 10.0  # of CPU
MAX_MEGABYTES = 1024.0
PATIENCE = 300.0  # before a silent process counts as hung: the machine may be busy
GOOD = ("refused", "loaded", "loaded, rows refused", "ran", "read")


class Victim:
    """Keeps one process of `torture.victim` alive, and starts another when it dies."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Victim:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def try_file(self, path: Path) -> dict[str, Any]:
        """Return what opening the file did."""
        process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{path}\n".encode())
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
        if not ready:
            self._stop()
            return {"outcome": f"no answer in {PATIENCE:.0f} s", "seconds": PATIENCE}
        line = process.stdout.readline()
        if not line:
            code = process.wait()
            self._process = None
            return {"outcome": f"the process died with code {code}"}
        facts: dict[str, Any] = json.loads(line)
        if facts["megabytes"] > MAX_MEGABYTES:
            self._stop()  # its peak would stand for all later files
        return facts

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            environment = {**os.environ, "PYTHONHASHSEED": "0"}
            self._process = subprocess.Popen(
                [sys.executable, "-m", "torture.victim", self._kind],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                cwd=Path(__file__).resolve().parent.parent,
            )
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def judge(facts: dict[str, Any]) -> str | None:
    """Return which promise was broken, or None."""
    if facts["outcome"] not in GOOD:
        return str(facts["outcome"])
    if facts["seen"]:
        return f"did what a file must not cause: {', '.join(facts['seen'][:3])}"
    if facts["seconds"] > MAX_SECONDS:
        return f"took {facts['seconds']:.1f} s"
    if facts["megabytes"] > MAX_MEGABYTES:
        return f"took {facts['megabytes']:.0f} MB"
    return None
