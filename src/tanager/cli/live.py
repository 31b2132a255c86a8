"""A table that fills while an experiment runs."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tanager.cli.console import console, plain, plain_table
from tanager.escaping import visible
from tanager.progress import Progress

if TYPE_CHECKING:
    from tanager.evaluation import Experiment

__all__ = ["LiveTable", "live_progress"]


class LiveTable(Progress):
    """Cells done, mean loss and time by classifier, redrawn as cells finish.

    Use it as a context manager; it writes to standard error.
    """

    def __init__(self, classifiers: tuple[str, ...], metric: str) -> None:
        from rich.console import Group
        from rich.live import Live
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Bar

        self._group = Group
        self._metric = metric
        self._cells: dict[str, list[dict[str, Any]]] = {name: [] for name in classifiers}
        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[last]}", markup=False),
        )
        self._task: Any = None
        self._live = Live(console=console(stderr=True), refresh_per_second=4)

    def __enter__(self) -> LiveTable:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def start(self, stage: str, total: float | None = None, unit: str = "rows") -> None:  # noqa: ARG002
        """Open the bar."""
        self._task = self._bar.add_task(visible(stage), total=total, last="")

    def advance(self, n: float = 1, **info: object) -> None:
        """Count a cell and redraw."""
        self._cells.setdefault(str(info["classifier"]), []).append(dict(info))
        self._bar.update(self._task, advance=n, last=visible(str(info["dataset"])))
        self._live.update(self._group(self._table(), self._bar))

    def _table(self) -> Any:
        table = plain_table("classifier", "cells", f"mean {self._metric}", "fit s", "failed")
        for name, cells in self._cells.items():
            # Mean over datasets of means over cells, so that a dataset with more
            # finished cells does not weigh more.
            losses: dict[str, list[float]] = defaultdict(list)
            for cell in cells:
                if cell["loss"] is not None:
                    losses[cell["dataset"]].append(cell["loss"])
            means = [sum(values) / len(values) for values in losses.values()]
            failed = sum(cell["status"] != "ok" for cell in cells)
            table.add_row(
                plain(name),
                str(len(cells)),
                f"{sum(means) / len(means):.4f}" if means else "",
                f"{sum(cell['seconds'] for cell in cells):.1f}",
                str(failed) if failed else "",
            )
        return table


@contextmanager
def live_progress(experiment: Experiment) -> Iterator[Progress | None]:
    """Show a live table where a person watches, nothing otherwise."""
    if not sys.stderr.isatty():
        yield None
        return
    names = tuple(contender.name for contender in experiment.contenders)
    with LiveTable(names, experiment.metrics[0]) as table:
        yield table
