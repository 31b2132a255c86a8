"""Plots that only the papers' pages need, in the style of `tanager.report`."""

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

    from tanager_papers.curves import Curves

__all__ = [
    "lower_hull",
    "plot_bars",
    "plot_convergence",
    "plot_convergence_histogram",
    "plot_curves",
    "plot_envelopes",
    "plot_margins",
    "plot_scatters",
    "plot_surface",
]

MOST_BINS = 40  # of a histogram


@in_house_style
def plot_convergence(
    traces: Mapping[str, ArrayLike], *, objective: str = "objective", ax: Axes | None = None
) -> Any:
    """Draw an objective by iteration, the first point before any; log scale of iterations."""
    ax = axes(ax)
    for i, (name, trace) in enumerate(traces.items()):
        values = np.asarray(trace, float)
        ax.plot(
            np.arange(1, len(values) + 1), values, label=fitting(name),
            color=CYCLE[i % len(CYCLE)], marker=MARKERS[i % len(MARKERS)],
            markevery=_log_places(len(values)),
        )  # fmt: skip
    ax.set_xscale("log")
    log_axis(ax.xaxis)
    ax.set_xlabel("iteration (1: before the first)")
    ax.set_ylabel(objective)
    ax.legend()
    return ax


def _log_places(n: int) -> list[int]:
    return sorted({int(i) for i in np.geomspace(1, max(n, 1), 9)} - {0} | {1})[:-1] or [0]


@in_house_style
def plot_convergence_histogram(
    behind: Mapping[str, Sequence[int]], *, after: int = 5, ax: Axes | None = None
) -> Any:
    """Draw how many iterations others trail behind, as in Zaidi et al. (2017), figures 15 to 17."""
    from matplotlib.ticker import MaxNLocator

    ax = axes(ax)
    every = np.concatenate([np.asarray(v, float) for v in behind.values()])
    low, high = int(every.min()), int(max(every.max(), 1))
    width = -(-(high - low + 1) // MOST_BINS)  # whole numbers in a bin
    edges = np.arange(low, high + width + 1, width) - 0.5
    ax.hist(
        [np.asarray(v, float) for v in behind.values()],
        bins=edges.tolist(),
        label=[fitting(name) for name in behind],
        color=[CYCLE[(at + 1) % len(CYCLE)] for at in range(len(behind))],  # the leader's is first
        rwidth=0.9,
    )
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.axvline(0, color=INK, lw=0.8)
    ax.set_xlabel(f"iterations behind at iteration {after}")
    ax.set_ylabel("datasets")
    ax.legend()
    return ax


@in_house_style
def plot_curves(
    curves: Curves,
    *,
    x: str = "training rows",
    y: str = "loss",
    log: bool = True,
    ax: Axes | None = None,
) -> Any:
    """Draw one line for each classifier with a band of one standard deviation."""
    ax = axes(ax)
    for i, name in enumerate(curves.classifiers):
        colour, mean, band = CYCLE[i % len(CYCLE)], curves.mean[i], curves.deviation[i]
        ax.plot(curves.x, mean, label=fitting(name), color=colour, marker=MARKERS[i % len(MARKERS)])
        ax.fill_between(curves.x, mean - band, mean + band, color=colour, alpha=0.15, lw=0)
    if log:
        ax.set_xscale("log")
        log_axis(ax.xaxis)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    place_legend(ax)
    return ax


@in_house_style
def plot_surface(
    losses: ArrayLike,
    chosen: tuple[int, int],
    *,
    loss: str = "leave-one-out RMSE",
    ax: Axes | None = None,
) -> Any:
    """Draw selective kDB's leave-one-out loss for every k and number of features.

    Parameters
    ----------
    losses : array-like of shape (max_k + 1, n_features)
        Row k; column j is the loss with the first j + 1 features.
    chosen : pair of int
        The k and the number of features kept.
    """
    values = np.asarray(losses, float)
    ax = axes(ax, 5.2, 3.2)
    n_features = values.shape[1]
    xs = np.arange(1, n_features + 1)
    colours = _shades(len(values))
    for k, line in enumerate(values):
        ax.plot(xs, line, color=colours[k], lw=1.3, label=f"k = {k}")
    k, kept = chosen
    ax.plot(kept, values[k, kept - 1], marker="o", ms=8, mfc="none", mec=CYCLE[1], mew=1.8)
    ax.annotate(
        f"k = {k}, {kept} features",
        (kept, values[k, kept - 1]),
        xytext=(0, -14),
        textcoords="offset points",
        ha="right" if kept > 0.6 * n_features else "left",
        fontsize=8,
        color=CYCLE[1],
    )
    low = values.min()
    ax.set_ylim(low - 0.14 * (values.max() - low or 1.0), None)
    ax.set_xlabel("features, by mutual information with the class")
    ax.set_ylabel(loss)
    ax.legend(ncols=2)
    return ax


def _shades(n: int) -> list[Any]:
    from matplotlib import colormaps

    return [colormaps["viridis"](value) for value in np.linspace(0.0, 0.85, n)]


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
def plot_bars(
    groups: Sequence[str],
    series: Mapping[str, ArrayLike],
    *,
    y: str = "value",
    log: bool = False,
    line: float | None = None,
    ax: Axes | None = None,
) -> Any:
    """Draw bars side by side: one group per name in `groups`, one bar per name in `series`.

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
    """Draw wins minus losses over datasets, one line each; above zero the first side is ahead."""
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
