"""Plots of an experiment and of calibration, as matplotlib axes in one style.

Each function draws on the given axes, or on a new figure, and returns the axes;
`ax.figure.savefig("x.svg")` saves it.
"""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tanager.errors import ConfigurationError, DataError
from tanager.evaluation.results import Results
from tanager.evaluation.summary import leading_metric, score_intervals
from tanager.report.model_page.trust import reliability_bins
from tanager.report.style import (
    CYCLE,
    MUTED,
    axes,
    fitting,
    in_house_style,
    name_rows,
    plain_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_CURVES = 7  # calibration curves, one per class


@in_house_style
def plot_comparison(results: Results, metric: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Plot classifiers as dots with intervals, the best on top.

    Parameters
    ----------
    results : Results
        With one table, the scale is the metric itself; with several, the average rank.
    metric : str, optional
        By default log-loss if it was measured, else the first.
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
        raise DataError(f"no dataset has {metric!r} for every classifier: there's nothing to plot.")
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
) -> Axes:
    """Plot how often each class occurs among rows with about the same predicted probability.

    Parameters
    ----------
    model : BayesNetClassifier
        Or any fitted classifier with `classes_` and `predict_proba`.
    X : table
        Rows the model wasn't trained on.
    y : array-like
        Their true classes.
    n_bins : int, default=10
        Number of bins, with about equally many rows each.
    ax : matplotlib Axes, optional

    Notes
    -----
    With two classes, the second is drawn; with more, each, up to the seven
    most frequent. On the diagonal, predictions are calibrated. Bars are two
    binomial standard errors.
    """
    if isinstance(n_bins, bool) or not isinstance(n_bins, Integral) or n_bins < 1:
        raise ConfigurationError(f"n_bins={n_bins!r}. Allowed: whole numbers from 1.")
    probabilities, truth = model.predict_proba(X), np.asarray(y)
    classes = list(model.classes_)
    most = np.argsort([-int((truth == label).sum()) for label in classes], kind="stable")
    drawn = [1] if len(classes) == 2 else most[:MAX_CURVES].tolist()
    ax = axes(ax, 4.2, 4.2)
    ax.plot([0, 1], [0, 1], color=MUTED, lw=0.8)
    style: dict[str, Any] = {"lw": 1.2, "elinewidth": 0.7, "marker": "o", "ms": 3.5}
    for at, c in enumerate(drawn):
        bins = reliability_bins(probabilities[:, c], truth == classes[c], n_bins)
        predicted, observed, n_rows = np.array(bins).T
        error = 2 * np.sqrt(observed * (1 - observed) / n_rows)
        style |= {"color": CYCLE[at % len(CYCLE)], "label": plain_text(classes[c])}
        ax.errorbar(predicted, observed, error, **style)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    ax.set_xlabel("predicted probability")
    ax.set_ylabel("share of rows of the class")
    if len(drawn) > 1:
        ax.legend(loc="upper left")
        ax.set_title("Calibration")
    else:
        ax.set_title(f"Calibration of {plain_text(classes[drawn[0]])}")
    return ax
