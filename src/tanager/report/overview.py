"""The first screen of a comparison: every classifier with every metric, and one dot plot."""

from __future__ import annotations

from math import ceil, floor, log10
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.evaluation.results import Results
from tanager.evaluation.summary import Intervals, leading_metric, say_pooled, score_intervals

__all__ = ["dot_plot", "scale_ticks", "score_table"]


MAX_TICKS = 6


class ScoreCell(NamedTuple):
    """A mean with its deviation."""

    text: str
    spread: str
    sort: float | None
    best: bool


def score_table(results: Results) -> dict[str, Any]:
    """Return classifiers × metrics: means over tables, and deviations over cells or rounds.

    The leading metric stands first, and the best classifier by it on top; a classifier
    that failed on every table is a row with its reason.
    """
    lead = leading_metric(results)
    metrics = [lead, *(metric for metric in results.metrics if metric != lead)]
    columns: dict[str, dict[str, ScoreCell]] = {m: _column(results, m) for m in metrics}
    intervals = score_intervals(results, lead)
    order = intervals.names if intervals is not None else ()
    many = len(results.mean(lead).datasets) > 1
    rows: list[dict[str, Any]] = []
    for at, name in enumerate(order):
        cells = [columns[metric][name] for metric in metrics if name in columns[metric]]
        if many and intervals is not None:
            rank = intervals.centers[at]
            best = len(order) > 1 and rank == intervals.centers[0]
            cells.insert(0, ScoreCell(f"{rank:.2f}", "", rank, best))
        rows.append({"name": name, "cells": cells, "reason": ""})
    failed = results.failed_classifiers()
    rows += [{"name": name, "cells": [], "reason": why} for name, why in failed.items()]
    titles = [_heading(results, metric) for metric in metrics]
    if many:
        titles.insert(0, "average rank")
    return {
        "columns": titles,
        "rows": rows,
        "caption": _caption(results, lead, many=many),
    }


def _heading(results: Results, metric: str) -> str:
    return f"{results.title(metric)} {'↑' if results.mean(metric).greater else '↓'}"


def _caption(results: Results, lead: str, *, many: bool) -> str:
    said = "Means over cells; ±: their standard deviation."
    if many:
        n = len(results.mean(lead).datasets)
        said = f"Means over {n} tables; ±: deviation over the cells of a table (root mean square)."
    together = say_pooled(results)
    if together:
        said += f" {together[0].upper()}{together[1:]}."
    return f"{said} ↓ less is better, ↑ more."


def _column(results: Results, metric: str) -> dict[str, ScoreCell]:
    scores, deviation = results.mean(metric), results.deviation(metric)
    if not scores.datasets:
        return {name: ScoreCell("–", "", None, best=False) for name in scores.classifiers}
    means = scores.values.mean(axis=0)
    spreads = [_root_mean_square(column) for column in deviation.values.T]
    best = means.max() if scores.greater else means.min()
    several = len(means) > 1
    return {
        name: ScoreCell(f"{mean:.4f}", spread, float(mean), bool(several and mean == best))
        for name, mean, spread in zip(scores.classifiers, means, spreads, strict=True)
    }


def _root_mean_square(deviations: NDArray[np.float64]) -> str:
    """Return the deviations of tables as one, as it is written; empty where none is known."""
    known = deviations[np.isfinite(deviations)]
    return f"± {np.sqrt((known**2).mean()):.4f}" if len(known) else ""


def dot_plot(results: Results) -> dict[str, Any] | None:
    """Return the dots and bars of the leading metric as shares of the scale, in percent."""
    intervals = score_intervals(results, leading_metric(results))
    if intervals is None or len(intervals.names) < 2:
        return None
    ticks = scale_ticks(min(intervals.lows), max(intervals.highs))
    low, high = ticks[0], ticks[-1]
    digits = max(0, -floor(log10(ticks[1] - ticks[0]) + 1e-9))

    def place(value: float) -> float:
        return round(100 * (value - low) / (high - low), 2)

    return {
        "scale": intervals.scale,
        "meaning": intervals.meaning,
        "rows": [_dot(intervals, at, place) for at in range(len(intervals.names))],
        "ticks": [(f"{tick:.{digits}f}", place(tick)) for tick in ticks],
    }


def _dot(intervals: Intervals, at: int, place: Any) -> dict[str, Any]:
    low, high = place(intervals.lows[at]), place(intervals.highs[at])
    center = intervals.centers[at]
    digits = 2 if intervals.scale.startswith("average rank") else 4
    return {
        "name": intervals.names[at],
        "text": f"{center:.{digits}f}",
        "dot": place(center),
        "low": low,
        "wide": round(high - low, 2),
    }


def scale_ticks(low: float, high: float) -> list[float]:
    """Return at most six round numbers that hold a range between them.

    >>> scale_ticks(0.231, 0.402)
    [0.2, 0.25, 0.3, 0.35, 0.4, 0.45]
    >>> scale_ticks(0.5, 0.5)
    [0.4, 0.45, 0.5, 0.55, 0.6]
    """
    if high - low <= 1e-12 * max(1.0, abs(high)):
        room = 10.0 ** (floor(log10(abs(high) or 1.0)))
        low, high = low - room, high + room
    power = 10.0 ** floor(log10((high - low) / 5) - 1)
    for step in (power * part for part in (1, 2, 5, 10, 20, 50, 100)):
        first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
        if last - first < MAX_TICKS:
            break
    return [round(at * step, 12) for at in range(first, last + 1)]
