"""Plots of predictions: contributions to the log-odds, calibration, and classifiers compared."""

from __future__ import annotations

import re
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tanager.errors import DataError
from tanager.escaping import abridged
from tanager.evaluation.results import Results
from tanager.evaluation.summary import leading_metric, score_intervals
from tanager.network import Explanation, explain_row
from tanager.network.evidence import check_count
from tanager.network.explanation import explain_rows
from tanager.network.network import Network, network_of
from tanager.numerics import Floats
from tanager.report.model_page.trust import reliability_bins
from tanager.report.style import CYCLE, INK, MUTED, axes, fitting, literal, name_rows, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_DOTS = 2_000  # per feature; more rows are thinned evenly
MAX_CURVES = 7  # calibration curves, one per class
COLOURS = "cividis"  # from low to high, safe for colour-blind readers


@styled
def plot_explanation(
    model: Any,
    X: Any = None,
    *,
    target: Any = None,
    against: Any = None,
    most: int = 12,
    ax: Axes | None = None,
) -> Axes:
    """Plot how each feature moves the log-odds of a row, from prior to posterior.

    The probability after each step is at the right; with more than two classes, it is that of the
    class against the other class alone. Without `ax`, a note below names the features that add
    little because their parents carry their information.

    Parameters
    ----------
    model : BayesNetClassifier, Network or Explanation
    X : table of one row
        Not needed with an `Explanation`.
    target, against : classes, optional
        The class to explain, and the other class; by default the two most probable.
    most : int, default=12
        Number of contributions with a bar of their own, the largest; the rest share one.
    ax : matplotlib Axes, optional
    """
    explanation = model
    if not isinstance(model, Explanation):
        explanation = explain_row(model, X, target=target, against=against)
    note = explanation.why_silent() if ax is None else ""  # a new figure has room for it
    prior, *steps = explanation.steps(most)
    names = [_fact(step.feature, step.value) for step in steps]
    ends = np.array([step.log_odds for step in steps])
    starts = np.concatenate([[prior.log_odds], ends[:-1]])
    said = wrap(note, 96)
    ax = axes(ax, 6.4, 1.2 + 0.26 * (len(names) + 2) + 0.15 * len(said))
    ax.axvline(0, color=MUTED, lw=0.8)
    rows = range(1, len(names) + 1)
    colours = [CYCLE[2] if step.adds > 0 else CYCLE[1] for step in steps]
    ax.barh(rows, ends - starts, left=starts, color=colours, height=0.62)
    for row, start in zip(rows, starts, strict=True):
        ax.plot([start, start], [row - 1, row + 0.31], color=MUTED, lw=0.6)
    span = [prior.log_odds, explanation.posterior]
    ax.barh([0, len(names) + 1], span, color=CYCLE[0], height=0.62)
    widest = max(abs(np.array([*span, *ends])).max(), 1e-9)
    bars = [*zip(rows, starts, ends, (step.adds for step in steps), strict=True)]
    bars += [(row, 0.0, total, total) for row, total in zip((0, len(names) + 1), span, strict=True)]
    for row, start, end, value in bars:
        side = max(start, end) + 0.02 * widest
        ax.text(side, row, f"{value:+.2f}", va="center", size=7, color=INK)
    name_rows(ax, ["prior", *map(literal, names), "posterior"])
    low, high = min(0.0, *span, *ends), max(0.0, *span, *ends)
    ax.set_xlim(low - 0.04 * (high - low), high + 0.14 * (high - low) + 1e-9)
    _probabilities(ax, explanation, [step.probability for step in (prior, *steps)])
    shown = fitting(explanation.target)
    ax.set_xlabel(f"log-odds of {shown} against {fitting(explanation.against)}")
    p = explanation.probabilities[explanation.classes.index(explanation.target)]
    ax.set_title(f"P({shown} | row) = {p:.3f}")
    if said:
        ax.figure.supxlabel("\n".join(map(literal, said)), x=0.01, ha="left", size=7, color=MUTED)
    return ax


def _probabilities(ax: Any, explanation: Explanation, after: list[float]) -> None:
    """Write the probability after each step at the right."""
    place: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "ha": "right", "va": "center"}
    head = "P" if len(explanation.classes) == 2 else "P, of the two"
    ax.text(1.13, -0.95, head, size=7.5, color=MUTED, **place)
    for row, p in enumerate([*after, after[-1]]):
        ax.text(1.13, row, f"{p:.3f}", size=7.5, color=INK, **place)


def _fact(feature: str, value: str, most: int = 42) -> str:
    """Return a feature's value in a row, such as ``age 53 in (45, 60]`` or ``job = clerk``.

    If both are too long, the name is shortened to make room for the value.

    >>> _fact("What was the temperature in the room?", "21.5, in (21, 22]")
    'What was the t… the room? 21.5 in (21, 22]'
    """
    is_number = re.match(r"\S+, (in \(|<= |> |any value)", value)
    short = value.replace(", any value", "").replace(", in (", " in (").replace("<=", "≤")
    said = f" {short}" if is_number else f" = {value}" if value else ""
    said = abridged(said, most - 14)
    return abridged(feature, most - len(said)) + said


@styled
def plot_beeswarm(
    model: Any,
    X: Any,
    *,
    target: Any = None,
    against: Any = None,
    most: int = 15,
    ax: Axes | None = None,
) -> Axes:
    """Plot every row's contributions to the log-odds, a line of dots per feature.

    Parameters
    ----------
    model : BayesNetClassifier or Network
    X : table
    target, against : classes, optional
        As in `BayesNetClassifier.explain`.
    most : int, default=15
        Number of features to draw: those with the largest mean absolute contribution.
    ax : matplotlib Axes, optional

    Notes
    -----
    Dots are coloured by the feature's value, from low to high; grey if values have no order or
    are missing. If there are more than 2,000 rows, they are thinned evenly.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tanager import BayesNetClassifier
    >>> from tanager.report import plot_beeswarm
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> ax = plot_beeswarm(BayesNetClassifier("tan", "m-estimate").fit(X, y), X, target=1)
    >>> [label.get_text() for label in ax.get_yticklabels()][0]
    'petal length (cm)'
    """
    network = network_of(model)
    added = np.asarray(explain_rows(network, X, target=target, against=against))
    codes = network.codebook.encode(X)
    step = -(-len(added) // MAX_DOTS)
    strength = np.abs(added).mean(axis=0) if len(added) else np.zeros(added.shape[1])
    order = np.argsort(-strength, kind="stable")[:most]
    order = order[np.isin(order, network.structure.selected)]
    ax = axes(ax, 6.4, 1.0 + 0.34 * len(order))
    ax.axvline(0, color=MUTED, lw=0.8)
    reach = float(np.abs(added).max(initial=1e-9))
    dots = None
    for line, feature in enumerate(order):
        x, level = added[::step, feature], _levels(network, codes[feature, ::step], feature)
        y, plain = line + _swarm(x, 2 * reach), np.isnan(level)
        ax.scatter(x[plain], y[plain], s=5, color=CYCLE[6], lw=0, zorder=3)
        style: dict[str, Any] = {"c": level[~plain], "cmap": COLOURS, "vmin": 0, "vmax": 1}
        dots = ax.scatter(x[~plain], y[~plain], s=5, lw=0, zorder=3, **style)
    if dots is not None:
        bar = ax.figure.colorbar(dots, ax=ax, ticks=[0, 1], aspect=30, pad=0.02)
        bar.set_ticklabels(["low", "high"])
        bar.set_label("the feature's value", labelpad=-12)
        bar.outline.set_visible(False)
    names = network.codebook.domain.names
    name_rows(ax, [fitting(names[feature], 32) for feature in order])
    classes, other = network.codebook.classes.tolist(), ""
    if target is None and len(classes) > 2:
        one = "each row's prediction"
    else:
        one = fitting(classes[1] if target is None else target)
        other = "" if against is None else f" against {fitting(against)}"
    ax.set_xlabel(f"contribution to the log-odds of {one}{other}")
    return ax


def _levels(network: Network, codes: NDArray[Any], feature: int) -> Floats:
    """Return each value's position between the lowest and the highest; NaN without an order."""
    n_ordered = network.codebook.columns[feature].n_ordered
    if n_ordered < 2:
        return np.full(len(codes), np.nan)
    return np.where(codes < n_ordered, codes / (n_ordered - 1), np.nan)


def _swarm(x: Floats, reach: float) -> Floats:
    """Return how far to move dots from their line so that few overlap."""
    bins = np.floor((x + reach / 2) / reach * 120).astype(np.int64)
    order = np.argsort(bins, kind="stable")
    _, starts, sizes = np.unique(bins[order], return_index=True, return_counts=True)
    place = np.empty(len(x))
    place[order] = np.arange(len(x)) - np.repeat(starts, sizes)
    side = np.where(place % 2, 1.0, -1.0) * np.ceil(place / 2)
    return side * min(0.04, 0.8 / int(sizes.max(initial=1)))


@styled
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
    ax, rows = axes(ax, 6.2, 0.8 + 0.28 * max(n, 2)), np.arange(n)
    ax.hlines(rows, intervals.lows, intervals.highs, color=CYCLE[0], lw=2.2, alpha=0.45)
    ax.scatter(intervals.centers, rows, s=34, color=CYCLE[0], zorder=3)
    name_rows(ax, [fitting(name, 36) for name in intervals.names])
    ax.set_xlabel(intervals.scale)
    return ax


@styled
def plot_calibration(
    model: Any, X: Any, y: ArrayLike, *, n_bins: int = 10, ax: Axes | None = None
) -> Axes:
    """Plot how often each class occurs among rows with about the same predicted probability.

    Parameters
    ----------
    model : BayesNetClassifier, or any fitted classifier with `classes_` and `predict_proba`
    X, y : table and array-like
        Rows the model wasn't trained on, and their true classes.
    n_bins : int, default=10
        Number of bins, with about equally many rows each.
    ax : matplotlib Axes, optional

    Notes
    -----
    With two classes, the second is drawn; with more, each, up to the seven most frequent. On the
    diagonal, predictions are calibrated. Bars are two binomial standard errors.
    """
    check_count("n_bins", n_bins, 1)
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
        style |= {"color": CYCLE[at % len(CYCLE)], "label": literal(classes[c])}
        ax.errorbar(predicted, observed, error, **style)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    ax.set_xlabel("predicted probability")
    ax.set_ylabel("share of rows of the class")
    if len(drawn) > 1:
        ax.legend(loc="upper left")
        ax.set_title("Calibration")
    else:
        ax.set_title(f"Calibration of {literal(classes[drawn[0]])}")
    return ax
