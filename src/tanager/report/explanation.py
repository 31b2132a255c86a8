"""One prediction as a waterfall, and all of them against the truth."""

from __future__ import annotations

import re
from numbers import Integral
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tanager.errors import ConfigurationError
from tanager.escaping import abridged
from tanager.network import Explanation, explain_row
from tanager.network.network import network_of
from tanager.report.style import (
    CYCLE,
    INK,
    MUTED,
    axes,
    fitting,
    in_house_style,
    name_rows,
    new_figure,
    plain_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_CURVES = 7


@in_house_style
def plot_explanation(
    model: Any,
    X: Any = None,
    *,
    target: Any = None,
    against: Any = None,
    most: int = 12,
    ax: Axes | None = None,
) -> Any:
    """Draw how each feature moves the log-odds of a row, from prior to posterior.

    The probability after each step stands at the right; of more than two classes it is that
    of the class against the other class alone. Below, in a figure of its own, it is said which
    features add little because their parents carry their information.

    Parameters
    ----------
    model : BayesNetClassifier, Network or Explanation
    X : table of one row
        Not needed with an `Explanation`.
    target : a class, or "each"
        The class to explain, by default the most probable. ``"each"`` draws one
        panel a class, each against its strongest rival.
    against : a class, optional
        The other class, by default the most probable of the others.
    most : int, default=12
        The largest contributions have a bar each; the rest share one.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes, or an array of them with ``target="each"``
    """
    if isinstance(target, str) and target == "each":
        return _plot_each(model, X, most, ax)
    if isinstance(model, Explanation):
        explanation = model
    else:
        explanation = explain_row(model, X, target=target, against=against)
    note = explanation.why_silent() if ax is None else ""  # a figure of one's own has room
    return _waterfall(explanation, most, ax, note=note)


def _plot_each(model: Any, X: Any, most: int, ax: Axes | None) -> NDArray[np.object_]:
    if ax is not None or isinstance(model, Explanation):
        raise ConfigurationError(
            'target="each" draws several panels from a model and a row: give those, and no ax.'
        )
    network = network_of(model)
    classes = network.codebook.classes.tolist()
    n_bars = min(most, len(network.structure.selected)) + 3
    columns = min(2, len(classes))
    rows = -(-len(classes) // columns)
    size = (5.4 * columns, rows * (1.0 + 0.24 * n_bars))
    panels = new_figure(*size).subplots(rows, columns, squeeze=False)
    for panel, label in zip(panels.flat, classes, strict=False):
        _waterfall(explain_row(network, X, target=label), most, panel)
    for panel in panels.flat[len(classes) :]:
        panel.set_axis_off()
    result: NDArray[np.object_] = panels.flat[: len(classes)]
    return result


def _waterfall(explanation: Explanation, most: int, ax: Axes | None, *, note: str = "") -> Any:
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
    name_rows(ax, ["prior", *map(plain_text, names), "posterior"])
    low, high = min(0.0, *span, *ends), max(0.0, *span, *ends)
    ax.set_xlim(low - 0.04 * (high - low), high + 0.14 * (high - low) + 1e-9)
    _probabilities(ax, explanation, [step.probability for step in (prior, *steps)])
    target, against = fitting(explanation.target), fitting(explanation.against)
    ax.set_xlabel(f"log-odds of {target} against {against}")
    p = explanation.probabilities[explanation.classes.index(explanation.target)]
    ax.set_title(f"P({target} | row) = {p:.3f}")
    if said:
        text = "\n".join(map(plain_text, said))
        ax.figure.supxlabel(text, x=0.01, ha="left", size=7, color=MUTED)
    return ax


def _probabilities(ax: Any, explanation: Explanation, after: list[float]) -> None:
    """Write at the right what the probability is after each step."""
    place: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "ha": "right", "va": "center"}
    head = "P" if len(explanation.classes) == 2 else "P, of the two"
    ax.text(1.13, -0.95, head, size=7.5, color=MUTED, **place)
    for row, p in enumerate([*after, after[-1]]):
        ax.text(1.13, row, f"{p:.3f}", size=7.5, color=INK, **place)


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


def _fact(feature: str, value: str, most: int = 42) -> str:
    """Return what a row says of a feature, such as ``age 53 in (45, 60]`` or ``job = clerk``.

    Where both are too long, the name leaves room for the value.

    >>> _fact("What was the temperature in the room?", "21.5, in (21, 22]")
    'What was the t… the room? 21.5 in (21, 22]'
    """
    is_number = re.match(r"\S+, (in \(|<= |> |any value)", value)
    short = value.replace(", any value", "").replace(", in (", " in (").replace("<=", "≤")
    said = f" {short}" if is_number else f" = {value}" if value else ""
    said = abridged(said, most - 14)
    return abridged(feature, most - len(said)) + said
