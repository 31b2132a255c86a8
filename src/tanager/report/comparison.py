"""Classifiers as dots with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tanager.report.style import CYCLE, axes, fitting, in_house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tanager.evaluation.intervals import Intervals

__all__ = ["plot_intervals"]


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
