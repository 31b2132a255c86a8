"""What every part of the campaign shares: a budget, a tally, and the place for files."""

from __future__ import annotations

import platform
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

__all__ = ["ROOT", "Budget", "Part", "Tally", "environment", "revision"]

ROOT = Path(__file__).resolve().parent.parent

Part = Callable[["Budget", "Tally", Path], None]


@dataclass
class Budget:
    """How much a part may try: until the cases are done or the time is over.

    Attributes
    ----------
    cases : int
        To try at least, whatever the time.
    seconds : float
        To go on for, once the cases are done.
    seed : int
    only : str
        What the names of structures must begin with, in parts that try every pair.
    """

    cases: int
    seconds: float = 0.0
    seed: int = 0
    only: str = ""
    _start: float = field(default_factory=time.monotonic)
    _done: int = 0

    def more(self) -> bool:
        """Whether to try another case; counts it."""
        self._done += 1
        if self._done <= self.cases:
            return True
        return time.monotonic() - self._start < self.seconds

    @property
    def case(self) -> int:
        """Number of the current case, from 1."""
        return self._done


@dataclass
class Tally:
    """What a part tried and what came of it."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    say: Callable[[str], None] = lambda _: None

    @property
    def tried(self) -> int:
        """How many cases there were."""
        return sum(self.outcomes.values())

    def add(self, outcome: str) -> None:
        """Count a case that went as promised."""
        self.outcomes[outcome] += 1
        self._tell()

    def fail(self, what: str, **facts: Any) -> None:
        """Count a case that broke a promise, with what brings it back."""
        self.outcomes["failed"] += 1
        if len(self.failures) < 200:
            self.failures.append({"what": what, **facts})
        self.say(f"FAILED: {what} {facts}")
        self._tell()

    def check(self, good: bool, what: str, **facts: Any) -> None:
        """Count a promise as kept or broken."""
        if good:
            self.add("kept")
        else:
            self.fail(what, **facts)

    def _tell(self) -> None:
        if self.tried % 500 == 0:
            self.say(f"{self.tried:,} tried, {len(self.failures)} failed")

    def to_json(self) -> dict[str, Any]:
        """Return the tally as plain data."""
        return {
            "tried": self.tried,
            "outcomes": dict(sorted(self.outcomes.items())),
            "failures": self.failures,
            "facts": self.facts,
        }


def revision() -> str:
    """Return the commit that is attacked, and whether files differ from it."""
    commands = (["rev-parse", "--short=7", "HEAD"], ["status", "--porcelain", "-uno"])
    try:
        commit, changed = (
            subprocess.run(["git", *c], cwd=ROOT, capture_output=True, text=True, check=True).stdout
            for c in commands
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    commit = commit.strip() + (" with changes" if changed.strip() else "")
    import tanager

    own = ROOT in Path(tanager.__file__).resolve().parents
    return commit if own else f"{commit}, and Tanager of another place"


def environment() -> str:
    """Return the versions of Python and of what Tanager stands on."""
    packages = ", ".join(f"{n} {version(n)}" for n in ("numpy", "pyarrow", "scikit-learn"))
    return f"Python {platform.python_version()}, {packages}"
