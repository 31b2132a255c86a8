"""Pictures that compare more than two things at a time: groups of bars, clouds, margins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tanager.report.style import (
    CYCLE,
    INK,
    MARKERS,
    axes,
    fitting,
    in_house_style,
    log_axis,
    place_legend,
    square_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tanager.evaluation.intervals import Intervals

__all__ = ["plot_bars", "plot_envelopes", "plot_intervals", "plot_margins", "plot_scatters"]


@in_house_style
def plot_scatters(
    x: ArrayLike,
    others: Mapping[str, ArrayLike],
    name: str,
    *,
    loss: str = "loss",
    log: bool = False,
    ax: Axes | None = None,
) -> Any:
    """Draw several classifiers' losses against one's; above the diagonal the one wins.

    Parameters
    ----------
    x : array-like of shape (n_datasets,)
        Losses of the classifier `name`.
    others : mapping of str to array-like
        Losses of the others.
    """
    first = np.asarray(x, float)
    ax = axes(ax, 3.9, 3.9)
    every = np.concatenate([first, *(np.asarray(v, float) for v in others.values())])
    square_axes(ax, float(every.min()), float(every.max()), log=log)
    for i, (other, values) in enumerate(others.items()):
        colour, marker = CYCLE[(i + 1) % len(CYCLE)], MARKERS[(i + 1) % len(MARKERS)]
        ax.scatter(
            first, values, s=16, color=colour, marker=marker, lw=0, label=fitting(other), zorder=2
        )
    ax.set_xlabel(f"{fitting(name)}, {loss}")
    ax.set_ylabel(f"others, {loss}")
    ax.legend()
    return ax


@in_house_style
def plot_intervals(intervals: Intervals, *, ax: Axes | None = None) -> Any:
    """Draw classifiers as dots with intervals, the best on top.

    Parameters
    ----------
    intervals : Intervals
        From `tanager.evaluation.score_intervals`.
    ax : matplotlib Axes, optional
    """
    n = len(intervals.names)
    ax = axes(ax, 6.2, 0.8 + 0.28 * max(n, 2))
    rows = np.arange(n)
    ax.hlines(rows, intervals.lows, intervals.highs, color=CYCLE[0], lw=2.2, alpha=0.45)
    ax.scatter(intervals.centers, rows, s=34, color=CYCLE[0], zorder=3)
    ax.set_yticks(rows, [fitting(name, 36) for name in intervals.names])
    ax.set_ylim(n - 0.5, -0.5)
    ax.grid(visible=False, axis="y")
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(intervals.scale)
    return ax


@in_house_style
def plot_bars(
    groups: Sequence[str],
    series: Mapping[str, ArrayLike],
    *,
    y: str = "value",
    log: bool = False,
    line: float | None = None,
    ax: Axes | None = None,
) -> Any:
    """Draw bars side by side: one group a name of `groups`, one bar a name of `series`.

    Parameters
    ----------
    line : float, optional
        A level to compare with.
    """
    ax = axes(ax, 6.2, 3.0)
    places = np.arange(len(groups))
    width = 0.8 / len(series)
    for i, (name, values) in enumerate(series.items()):
        offset = (i - (len(series) - 1) / 2) * width
        ax.bar(
            places + offset, np.asarray(values, float), 0.92 * width, label=fitting(name),
            color=CYCLE[i % len(CYCLE)],
        )  # fmt: skip
    if line is not None:
        ax.axhline(line, color=INK, lw=0.8)
    if log:
        ax.set_yscale("log")
        log_axis(ax.yaxis)
    ax.set_xticks(places, [fitting(group, 22) for group in groups])
    ax.grid(visible=False, axis="x")
    ax.set_ylabel(y)
    ax.legend(ncols=min(4, len(series)), loc="lower left", bbox_to_anchor=(0.0, 1.0))
    return ax


@in_house_style
def plot_margins(
    x: ArrayLike,
    margins: Mapping[str, ArrayLike],
    *,
    x_label: str,
    y_label: str = "wins less losses",
    log: bool = False,
    ax: Axes | None = None,
) -> Any:
    """Draw wins less losses over datasets, one line each; above zero the first side is ahead."""
    ax = axes(ax)
    places = np.asarray(x, float)
    ax.axhline(0, color=INK, lw=0.8)
    for i, (name, values) in enumerate(margins.items()):
        ax.plot(
            places, np.asarray(values, float), label=fitting(name), color=CYCLE[i % len(CYCLE)],
            marker=MARKERS[i % len(MARKERS)],
        )  # fmt: skip
    if log:
        ax.set_xscale("log")
        log_axis(ax.xaxis)
    elif len(places) <= 10:
        ax.set_xticks(places)
    ax.set_xlabel(x_label)
    ax.set_ylabel(y_label)
    place_legend(ax)
    return ax


@in_house_style
def plot_envelopes(
    groups: Mapping[str, Mapping[str, ArrayLike]],
    *,
    x_label: str,
    y_label: str,
    x_range: tuple[float, float] | None = None,
    ax: Axes | None = None,
) -> Any:
    """Draw experiments as points with the lower part of each group's convex hull.

    Parameters
    ----------
    groups : mapping of str to mapping
        For each group its ``"x"`` (such as log10 of a hyperparameter) and ``"y"``
        (such as an error).
    x_range : (float, float), optional
        What the experiments were chosen from; else as far as they go.
    """
    ax = axes(ax, 4.6, 3.6)
    for i, (name, points) in enumerate(groups.items()):
        x, y = np.asarray(points["x"], float), np.asarray(points["y"], float)
        colour = CYCLE[i % len(CYCLE)]
        ax.scatter(x, y, s=12, color=colour, marker=MARKERS[i % len(MARKERS)], lw=0, alpha=0.7)
        hull = lower_hull(x, y)
        marker = MARKERS[i % len(MARKERS)]
        ax.plot(x[hull], y[hull], color=colour, lw=1.2, marker=marker, ms=4, label=fitting(name))
    if x_range is not None:
        ax.set_xlim(*x_range)
    ax.set_xlabel(x_label)
    ax.set_ylabel(y_label)
    place_legend(ax)
    return ax


def lower_hull(x: NDArray[np.float64], y: NDArray[np.float64]) -> list[int]:
    """Return the points of the lower convex hull, from left to right (Andrew's chain)."""
    hull: list[int] = []
    for i in np.lexsort((y, x)):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            turn = (x[b] - x[a]) * (y[i] - y[a]) - (y[b] - y[a]) * (x[i] - x[a])
            if turn > 0:
                break
            hull.pop()
        if hull and x[hull[-1]] == x[i]:
            continue
        hull.append(int(i))
    return hull
