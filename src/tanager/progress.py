"""Progress of long work: silent by default, a live bar in a terminal or notebook."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from threading import Timer
from typing import Any

from tanager.escaping import visible

__all__ = ["LongWork", "Progress", "RichProgress", "one_of_many"]

_log = logging.getLogger(__name__)
LONG = 10.0  # seconds after which the notice about slow work is logged
_one_of_many: ContextVar[bool] = ContextVar("one_of_many", default=False)


class Progress:
    """Receives progress reports, stage by stage, from one thread; this base class is silent."""

    def start(self, stage: str, total: float | None = None, unit: str = "rows") -> None:
        """Begin a stage of `total` units (None: unknown)."""

    def advance(self, n: float = 1, **info: object) -> None:
        """Report `n` more units done, with facts to show (loss, sweep, ...)."""

    def finish(self) -> None:
        """End the stage."""


@contextmanager
def one_of_many() -> Iterator[None]:
    """Silence the slow-work notice in nested fits: their caller shows the overall progress."""
    token = _one_of_many.set(True)
    try:
        yield
    finally:
        _one_of_many.reset(token)


class LongWork(Progress):
    """Silent, except for logging one warning if the work takes long."""

    def __init__(self, after: float = LONG) -> None:
        self._began = time.perf_counter()
        self._stage: tuple[str, float | None, str, float] | None = None
        self._done = 0.0
        self._timer = Timer(after, self._tell)
        self._timer.daemon = True

    def __enter__(self) -> LongWork:
        if not _one_of_many.get():
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def start(self, stage: str, total: float | None = None, unit: str = "rows") -> None:
        """Remember the stage."""
        self._done, self._stage = 0.0, (stage, total, unit, time.perf_counter())

    def advance(self, n: float = 1, **info: object) -> None:  # noqa: ARG002
        """Remember how far the stage is."""
        self._done += n

    def finish(self) -> None:
        """Forget the stage."""
        self._stage = None

    def _tell(self) -> None:
        now, at, done = time.perf_counter(), self._stage, self._done
        text = f"This is taking a while: {now - self._began:.0f} s so far"
        if at is not None:
            stage, total, unit, began = at
            text += f", at the stage {stage!r}"
            if total and 0 < done < total:
                left = (now - began) * (total - done) / done
                text += f": {done:,.0f} of {total:,.0f} {unit}, about {left:,.0f} s left"
        _log.warning("%s. verbose=1 shows progress.", text)


class RichProgress(Progress):
    """A live bar with rate and remaining time on a terminal or in a notebook."""

    def __init__(self) -> None:
        from rich import progress as rich

        self._bars: Any = rich.Progress(
            rich.TextColumn("{task.description}", markup=False),
            rich.BarColumn(),
            rich.MofNCompleteColumn(),
            rich.TextColumn("{task.fields[rate]}"),
            rich.TimeElapsedColumn(),
            rich.TimeRemainingColumn(),
            rich.TextColumn("{task.fields[info]}", markup=False),
            console=_console(),
        )
        self._task: Any = None
        self._unit = "rows"

    def __enter__(self) -> RichProgress:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def start(self, stage: str, total: float | None = None, unit: str = "rows") -> None:
        """Open a bar for the stage."""
        self._unit = unit
        added = self._bars.add_task(visible(stage), total=total, rate="", info="")
        self._task = self._bars.tasks[self._bars.task_ids.index(added)]

    def advance(self, n: float = 1, **info: object) -> None:
        """Move the bar of the current stage."""
        if self._task is not None:
            rate = f"{self._task.speed:,.0f} {self._unit}/s" if self._task.speed else ""
            short = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in info.items()}
            text = visible("  ".join(f"{key} {value}" for key, value in short.items()))
            self._bars.update(self._task.id, advance=n, rate=rate, info=text)

    def finish(self) -> None:
        """Fill the bar of the current stage."""
        if self._task is not None:
            self._bars.update(self._task.id, total=self._task.completed)
        self._task = None


def _console() -> Any:
    """Return the console for bars; plain standard error if a notebook can't animate them."""
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_jupyter and find_spec("ipywidgets") is None:  # Rich would warn, and draw nothing
        return Console(stderr=True, force_jupyter=False, force_terminal=False)
    return console
