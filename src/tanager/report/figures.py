"""The pictures of an experiment and of calibration, as matplotlib axes in one look.

Each function draws on the axes it is given, or on a new figure, and returns the
axes; `ax.figure.savefig("x.svg")` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tanager.errors import ConfigurationError, DataError
from tanager.evaluation.metrics import Reliability
from tanager.evaluation.results import Results
from tanager.evaluation.statistics import Nemenyi, win_draw_loss
from tanager.evaluation.summary import leading_metric, score_intervals
from tanager.report.style import (
    CYCLE,
    INK,
    MUTED,
    axes,
    fitting,
    in_house_style,
    name_rows,
    plain_text,
    square_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_CURVES = 7  # of calibration, one per class


@in_house_style
def plot_loss_scatter(
    a: ArrayLike,
    b: ArrayLike,
    names: tuple[str, str],
    *,
    loss: str = "loss",
    log: bool = False,
    labels: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Any:
    """Draw two classifiers' losses, one point per dataset; above the diagonal the first wins.

    `log` axes are for times; of the datasets' `labels` the three farthest from the diagonal are
    written.
    """
    x, y = np.asarray(a, float), np.asarray(b, float)
    ax = axes(ax, 3.9, 3.9)
    square_axes(ax, float(min(x.min(), y.min())), float(max(x.max(), y.max())), log=log)
    for chosen, colour, marker in (
        (x < y, CYCLE[0], "o"),
        (x > y, CYCLE[1], "s"),
        (x == y, MUTED, "D"),
    ):
        ax.scatter(x[chosen], y[chosen], s=16, color=colour, marker=marker, lw=0, zorder=2)
    names = (fitting(names[0], 26), fitting(names[1], 26))
    ax.set_xlabel(f"{names[0]}, {loss}")
    ax.set_ylabel(f"{names[1]}, {loss}")
    record = win_draw_loss(x, y)
    style: dict[str, Any] = {"fontsize": 8, "transform": ax.transAxes, "va": "bottom"}
    said = (f"{names[0]} wins {record.wins}", f"{names[1]} wins {record.losses}")
    # Two long names stand one above the other.
    apart = 0.06 if sum(map(len, said)) > 42 else 0.0
    ax.text(0.0, 1.015 + apart, said[0], color=CYCLE[0], **style)
    ax.text(1.0, 1.015, said[1], ha="right", color=CYCLE[1], **style)
    if labels is not None:
        _name_extremes(ax, x, y, labels, log=log)
    return ax


def _name_extremes(
    ax: Any, x: NDArray[np.float64], y: NDArray[np.float64], labels: Sequence[str], *, log: bool
) -> None:
    distance = np.abs(np.log(x / y)) if log else np.abs(x - y)
    low, high = ax.get_xlim()
    middle = 0.5 * (low + high)
    heights = np.log(y / low) / np.log(high / low) if log else (y - low) / (high - low)
    named: list[float] = []
    for i in np.argsort(-distance, kind="stable"):
        free = all(abs(heights[i] - other) > 0.045 for other in named)
        if distance[i] > 0 and free and len(named) < 3:
            named.append(float(heights[i]))
            left = x[i] > middle
            ax.annotate(
                fitting(labels[i], 24),
                (x[i], y[i]),
                xytext=(-5 if left else 5, 0),
                textcoords="offset points",
                ha="right" if left else "left",
                va="center",
                fontsize=7,
                color=MUTED,
            )


@in_house_style
def plot_critical_difference(
    names: Sequence[str], result: Nemenyi, *, ax: Axes | None = None
) -> Any:
    """Draw average ranks on a line, with bars over classifiers that do not differ.

    As Demšar (2006, JMLR 7), figure 1.
    """
    ranks = result.ranks
    k = len(names)
    order = np.argsort(ranks, kind="stable")
    half = (k + 1) // 2
    bars = [
        sorted((float(ranks[g].min()), float(ranks[g].max()))) for g in map(list, result.groups)
    ]
    step = 0.30
    depth = 0.32 + 0.16 * len(bars)
    ax = axes(ax, 6.2, 0.9 + 0.22 * (half + len(bars) * 0.6 + 2))
    ax.axis("off")
    shown = [fitting(name, 26) for name in names]
    # Names take their share of the width on either side of the scale.
    share = min(0.36, 0.0108 * (max(map(len, shown)) + 6))
    room = (k - 1) * share / (1 - 2 * share)
    ax.set(xlim=(1 - room, k + room), ylim=(-depth - step * half, 0.85))
    ax.plot([1, k], [0, 0], color=INK, lw=1)
    for tick in range(1, k + 1):
        ax.plot([tick, tick], [0, 0.08], color=INK, lw=1)
        if k <= 10 or tick % 2:
            ax.text(tick, 0.12, str(tick), ha="center", va="bottom", fontsize=8)
    ax.plot([1, 1 + result.critical_difference], [0.58, 0.58], color=INK, lw=1)
    for end in (1, 1 + result.critical_difference):
        ax.plot([end, end], [0.53, 0.63], color=INK, lw=1)
    text = f"critical difference {result.critical_difference:.2f}"
    ax.text(1 + result.critical_difference + 0.03 * k, 0.58, text, va="center", fontsize=8)
    for i, (first, last) in enumerate(bars):
        y, end = -0.16 * (i + 1), 0.012 * k
        ax.plot([first - end, last + end], [y, y], color=CYCLE[1], lw=3.2, solid_capstyle="butt")
    for place, i in enumerate(order):
        left = place < half
        row = place if left else k - 1 - place
        y, edge = -depth - step * row, 0.96 if left else k + 0.04
        ax.plot([ranks[i], ranks[i], edge], [0, y, y], color=MUTED, lw=0.8)
        ax.text(
            edge - 0.02 * k if left else edge + 0.02 * k,
            y,
            f"{shown[i]}  {ranks[i]:.2f}" if left else f"{ranks[i]:.2f}  {shown[i]}",
            ha="right" if left else "left",
            va="center",
            fontsize=8.5,
        )
    return ax


@in_house_style
def plot_reliability(curves: Mapping[str, Reliability], *, ax: Axes | None = None) -> Any:
    """Draw accuracy by confidence; on the diagonal, probabilities mean what they say."""
    ax = axes(ax, 3.9, 3.9)
    ax.plot([0, 1], [0, 1], color=MUTED, lw=0.8)
    for i, (name, bins) in enumerate(curves.items()):
        kept = bins.rows > 0
        rows = bins.rows[kept]
        confidence, accuracy = bins.confidence[kept] / rows, bins.correct[kept] / rows
        colour = CYCLE[i % len(CYCLE)]
        ax.plot(
            confidence,
            accuracy,
            color=colour,
            lw=1.2,
            label=f"{fitting(name)} ({bins.error():.3f})",
        )
        size = 6 + 70 * rows / max(1, rows.sum())
        ax.scatter(confidence, accuracy, s=size, color=colour, lw=0, zorder=3)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set_xlabel("probability of the predicted class")
    ax.set_ylabel("share classified right")
    ax.legend(title="calibration error", title_fontsize=8, loc="upper left")
    return ax


@in_house_style
def plot_comparison(results: Results, metric: str | None = None, *, ax: Axes | None = None) -> Any:
    """Draw classifiers as dots with intervals, the best on top.

    Parameters
    ----------
    results : Results
        Of one table: the scale is the metric itself. Of several: the average rank.
    metric : str, optional
        By default log-loss where it was measured, else the first.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> import pyarrow as pa
    >>> from tanager.evaluation import CrossValidation, Dataset, Experiment
    >>> table = pa.table({"a": ["x", "y"] * 8, "class": ["n", "p"] * 8})
    >>> classifiers = ["naive/laplace", "categorical-nb"]
    >>> results = Experiment([Dataset("t", table)], classifiers, CrossValidation(2)).run()
    >>> plot_comparison(results, "brier_score").get_xlabel()
    'Brier score on t, lower is better'
    """
    metric = metric or leading_metric(results)
    intervals = score_intervals(results, metric)
    if intervals is None:
        raise DataError(f"no dataset has {metric!r} of every classifier: there is nothing to plot.")
    n = len(intervals.names)
    ax = axes(ax, 6.2, 0.8 + 0.28 * max(n, 2))
    rows = np.arange(n)
    ax.hlines(rows, intervals.lows, intervals.highs, color=CYCLE[0], lw=2.2, alpha=0.45)
    ax.scatter(intervals.centers, rows, s=34, color=CYCLE[0], zorder=3)
    name_rows(ax, [fitting(name, 36) for name in intervals.names])
    ax.set_xlabel(intervals.scale)
    return ax


@in_house_style
def plot_calibration(
    model: Any, X: Any, y: ArrayLike, *, n_bins: int = 10, ax: Axes | None = None
) -> Any:
    """Draw how often each class occurs among rows that were given the same probability.

    Parameters
    ----------
    model : BayesNetClassifier
        Or any fitted classifier with `classes_` and `predict_proba`.
    X : table
        Rows that the model was not fitted on.
    y : array-like
        Their true classes.
    n_bins : int, default=10
        Bins of equally many rows.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Notes
    -----
    Of two classes the second is drawn; of more, each, up to the seven most
    frequent. On the diagonal a probability means what it says. Bars are two
    binomial standard errors.
    """
    if isinstance(n_bins, bool) or not isinstance(n_bins, Integral) or n_bins < 1:
        raise ConfigurationError(f"n_bins={n_bins!r}. Allowed: whole numbers from 1.")
    probabilities = model.predict_proba(X)
    truth = np.asarray(y)
    classes = list(model.classes_)
    counts = [int((truth == label).sum()) for label in classes]
    order = np.argsort([-n for n in counts], kind="stable")[:MAX_CURVES]
    drawn = [1] if len(classes) == 2 else [int(c) for c in order]
    ax = axes(ax, 4.2, 4.2)
    ax.plot([0, 1], [0, 1], color=MUTED, lw=0.8)
    for at, c in enumerate(drawn):
        predicted, observed, error = _bins(probabilities[:, c], truth == classes[c], n_bins)
        colour = CYCLE[at % len(CYCLE)]
        ax.errorbar(
            predicted,
            observed,
            2 * error,
            color=colour,
            lw=1.2,
            elinewidth=0.7,
            marker="o",
            ms=3.5,
            label=plain_text(classes[c]),
        )
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    ax.set_xlabel("predicted probability")
    ax.set_ylabel("share of rows of the class")
    if len(drawn) > 1:
        ax.legend(loc="upper left")
        ax.set_title("Calibration")
    else:
        ax.set_title(f"Calibration of {plain_text(classes[drawn[0]])}")
    return ax


def _bins(
    predicted: NDArray[np.float64], hit: NDArray[np.bool_], n_bins: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return mean prediction, share of hits and its standard error, by bins of equal size."""
    order = np.argsort(predicted, kind="stable")
    parts = [part for part in np.array_split(order, n_bins) if part.size]
    mean = np.array([predicted[part].mean() for part in parts])
    share = np.array([hit[part].mean() for part in parts])
    sizes = np.array([part.size for part in parts])
    return mean, share, np.sqrt(share * (1 - share) / sizes)
