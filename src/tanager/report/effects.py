"""Plots of one feature: the effect of its values on a class, and its probability table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tanager.codes.columns import CategoricalColumn, Column, NumericColumn
from tanager.errors import ConfigurationError
from tanager.escaping import abridged, one_line
from tanager.network import LabelledTable, Network, NetworkInformation
from tanager.network.evidence import find_class
from tanager.network.information import log_odds
from tanager.network.network import network_of
from tanager.numerics import Floats
from tanager.report.model_page.network import count_interval, merge_values
from tanager.report.model_page.rows import pool_neighbours, read_rows
from tanager.report.style import (
    CYCLE,
    GRID,
    INK,
    MUTED,
    axes,
    fitting,
    in_house_style,
    name_rows,
    plain_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_BARS = 30
MAX_INTERVALS = 32  # confidence intervals along a number


@in_house_style
def plot_effect(
    model: Any,
    feature: str,
    X: Any = None,
    y: Any = None,
    *,
    target: Any = None,
    ax: Axes | None = None,
) -> Axes:
    r"""Plot what each value of a feature alone adds to a class's log-odds.

    Parameters
    ----------
    model : BayesNetClassifier or Network
    feature : str
    X, y : table and classes, optional
        Rows from whose counts 95 % intervals are drawn; `y` may be the name of a
        column of X. Where an interval doesn't contain the model's value, model and rows
        disagree. If a number has more than 32 values, neighbours share an interval.
    target : a class, optional
        By default the second of two classes, or the most probable of several.
    ax : matplotlib Axes, optional

    Notes
    -----
    The effect of a value is :math:`\log P(x \mid c) - \log P(x \mid \bar c)`, all
    other features summed out. A number is drawn as steps over its intervals, the
    outermost of which are open; categories as bars, at most the 30 most probable.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tanager import BayesNetClassifier
    >>> from tanager.report import plot_effect
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = BayesNetClassifier("tan", "m-estimate").fit(X, y)
    >>> ax = plot_effect(clf, "petal width (cm)", X, y, target=1)
    >>> ax.get_ylabel()
    'log-odds of 1'
    """
    network = network_of(model)
    classes = tuple(network.codebook.classes.tolist())
    if len(classes) < 2:
        raise ConfigurationError("The model has only one class, so no value has an effect.")
    if target is None:
        c = 1 if len(classes) == 2 else int(network.log_prior.argmax())
    else:
        c = find_class(classes, target)
    joint = NetworkInformation(network).joint(feature)
    if joint is None:
        raise ConfigurationError(f"The table of {feature!r} is too large to plot.")
    at = network.codebook.domain.names.index(feature)
    column = network.codebook.columns[at]
    interval = None
    if X is not None:
        rows = read_rows(network, X, y)
        counts = rows.value_counts(at, column.arity, len(classes))
        groups = pool_neighbours(counts.sum(axis=1), column.n_ordered, MAX_INTERVALS)
        if not isinstance(column, NumericColumn):
            groups = np.arange(column.arity, dtype=np.uint16)
        interval = count_interval(merge_values(counts, groups), c)[:, groups]
    draw = _draw_steps if isinstance(column, NumericColumn) else _draw_bars
    return draw(column, log_odds(joint, c), interval, joint.sum(axis=1), classes[c], ax)


def _draw_steps(
    column: Any, effect: Floats, interval: Floats | None, share: Floats, label: Any, ax: Any
) -> Any:
    ax = axes(ax, 5.4, 3.4)
    cuts = np.asarray(column.cuts, np.float64)
    n_cells = len(cuts) + 1
    gap = float(np.median(np.diff(cuts))) if len(cuts) > 1 else max(1.0, abs(float(cuts.sum())))
    ends = [cuts[0] - gap, *cuts, cuts[-1] + gap] if len(cuts) else [0.0, 1.0]
    edges = np.array(ends)
    ax.axhline(0, color=MUTED, lw=0.8)
    if interval is not None:
        for cell in range(n_cells):
            ax.fill_between(
                edges[cell : cell + 2], *interval[:, cell], color=CYCLE[0], alpha=0.16, lw=0
            )
    ax.stairs(effect[:n_cells], edges, baseline=None, color=CYCLE[0], lw=1.8)
    spread = max(float(np.ptp(np.append(effect, 0.0))), 0.2)
    ax.set_ylim(min(0.0, effect.min()) - 0.3 * spread, max(0.0, effect.max()) + 0.2 * spread)
    density = ax.twinx()  # the density of rows below the curve, on its own scale
    dense = share[:n_cells] / np.diff(edges)
    density.stairs(dense, edges, fill=True, color=MUTED, alpha=0.35)
    density.set(ylim=(0, 7 * dense.max()), yticks=[])
    density.spines[:].set_visible(False)
    density.grid(visible=False)
    if column.missing_code is not None:
        place = edges[-1] + 0.06 * (edges[-1] - edges[0])
        value = effect[column.missing_code]
        if interval is not None:
            low, high = interval[:, column.missing_code]
            ax.plot([place, place], [low, high], color=INK, lw=0.8)
        ax.plot([place], [value], "o", color=CYCLE[0], ms=5)
        ax.annotate("missing", (place, value), (0, 8), textcoords="offset points", ha="center")
    ax.set_xlim(edges[0], edges[-1] + 0.12 * (edges[-1] - edges[0]) * (len(effect) > n_cells))
    ax.set_xlabel(plain_text(column.name))
    ax.set_ylabel(f"log-odds of {plain_text(label)}")
    return ax


def _draw_bars(
    column: Column, effect: Floats, interval: Floats | None, share: Floats, label: Any, ax: Any
) -> Any:
    shown = np.argsort(-share, kind="stable")[:MAX_BARS]
    in_order = isinstance(column, CategoricalColumn) and column.ordered
    order = np.sort(shown) if in_order else shown[np.argsort(-effect[shown], kind="stable")]
    ax = axes(ax, 5.4, 0.9 + 0.24 * len(order))
    places = np.arange(len(order))
    colours = [CYCLE[2] if value > 0 else CYCLE[1] for value in effect[order]]
    ax.barh(places, effect[order], color=colours, height=0.62)
    if interval is not None:
        ax.hlines(places, interval[0, order], interval[1, order], color=INK, lw=0.8)
    ax.axvline(0, color=MUTED, lw=0.8)
    names = column.labels()
    name_rows(ax, [fitting(names[v], 32) for v in order])
    ax.set_ylabel(plain_text(column.name))
    hidden = len(effect) - len(order)
    more = f" ({hidden:,} rarer values not drawn)" if hidden else ""
    ax.set_xlabel(f"log-odds of {plain_text(label)}{more}")
    return ax


MAX_ROWS = 400  # contexts in the plot
LABELLED = 40  # maximum number of rows that are all labelled; beyond it, only some are
NUMBERED = 12  # maximum number of columns for cells with numbers


@in_house_style
def plot_table(model: Any, feature: str, *, sort: str = "context", ax: Axes | None = None) -> Axes:
    """Draw P(feature | class, parents), one row per context, darker for more probable.

    Parameters
    ----------
    model : BayesNetClassifier or Network
    feature : str
    sort : {"context", "parents", "center"}
        Order of the rows: by the class, then the parents; by the parents, then the class;
        or by the mean position of the value, so that similar contexts are neighbours.
    ax : matplotlib Axes, optional

    Notes
    -----
    With up to 40 contexts and 12 values, the cells show their numbers; a larger table is a
    heat map with labels for some of its rows. If there are more than 400 contexts, the most
    probable are drawn, and the title gives their number.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tanager import BayesNetClassifier
    >>> from tanager.report import plot_table
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = BayesNetClassifier("tan", "m-estimate").fit(X, y)
    >>> ax = plot_table(clf, "petal width (cm)", sort="parents")
    >>> ax.images[0].get_array().shape == clf.network_.table("petal width (cm)").probabilities.shape
    True
    """
    network = network_of(model)
    whole = network.table(feature)
    table = _most_probable(network, whole).sorted(sort)
    labels = [_joined(context, 56) for context in table.contexts]
    columns = [fitting(value, 26) for value in table.values]
    slanted = max(map(len, columns)) * len(columns) > 60
    small = len(labels) <= LABELLED
    n_all = len(whole.contexts)
    extra = f" ({len(labels):,} of {n_all:,} contexts)" if len(labels) < n_all else ""
    title = f"P({fitting(table.feature, 40)} | {_joined(table.given, 60)}){extra}"
    if ax is None:
        width = 1.5 + 0.075 * max(map(len, labels)) + min(14.0, 0.55 * max(len(columns), 3))
        beside = 0.7 + 0.065 * max(map(len, labels))  # the title starts where the cells do
        width = max(width, beside + 0.088 * len(title))
        foot = 0.055 * max(map(len, columns)) if slanted else 0.0
        height = 0.25 * len(labels) if small else min(9.0, 0.17 * LABELLED + 0.006 * len(labels))
        ax = axes(None, width, 1.1 + height + foot)
    image = _heat(ax, table, numbered=small and len(columns) <= NUMBERED)
    ax.set_xticks(range(len(columns)), columns, rotation=45 if slanted else 0)
    if slanted:
        for label in ax.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")
    step = -(-len(labels) // LABELLED)
    ax.set_yticks(range(0, len(labels), step), labels[::step])
    ax.set_ylabel(_joined(table.given, 40))
    ax.set_title(title)
    scale = ax.figure.colorbar(image, ax=ax, shrink=min(1.0, 3.0 / (0.25 * min(len(labels), 60))),
                               aspect=18, pad=0.02)  # fmt: skip
    scale.set_label("probability")
    scale.outline.set_visible(False)
    return ax


def _most_probable(network: Network, table: LabelledTable) -> LabelledTable:
    """Return the most probable contexts, at most as many as are drawn, in their order."""
    if len(table.contexts) <= MAX_ROWS:
        return table
    joint = NetworkInformation(network).context(table.feature)  # (*parents, n_classes)
    weights = np.zeros(0) if joint is None else np.moveaxis(joint, -1, 0).ravel()
    if weights.size == len(table.contexts):
        kept = np.sort(np.argsort(-weights, kind="stable")[:MAX_ROWS])
    else:  # contexts seen in training, if the full table is too large
        kept = np.arange(MAX_ROWS)
    contexts = [table.contexts[at] for at in kept]
    return LabelledTable(
        table.feature, table.given, contexts, table.values, table.probabilities[kept]
    )


def _heat(ax: Axes, table: LabelledTable, *, numbered: bool) -> Any:
    shares = table.probabilities
    most = float(shares.max())
    image = ax.imshow(
        shares, aspect="auto", cmap=_shades(), vmin=0, vmax=most, interpolation="nearest"
    )
    ax.grid(visible=False)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    if numbered:
        for (row, column), p in np.ndenumerate(shares):
            text = f"{p:.2f}" if p >= 0.005 else "·"
            colour = "white" if p > 0.55 * most else INK
            ax.text(column, row, text, ha="center", va="center", size=7, color=colour)
    return image


def _shades() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("tanager", ["#ffffff", GRID, CYCLE[0], "#002f4d"])


def _joined(names: Sequence[str], most: int) -> str:
    """Return names on one line of about that many characters; long ones share the space left.

    >>> _joined(["yes", "a very long answer, the first", "a very long answer, the last"], 44)
    'yes, a very lon…he first, a very lon…he last'
    """
    room = most - 2 * (len(names) - 1)
    shown = [one_line(name) for name in names]
    for left, at in enumerate(sorted(range(len(shown)), key=lambda at: len(shown[at]))):
        shown[at] = abridged(shown[at], max(5, room // (len(shown) - left)))
        room -= len(shown[at])
    return plain_text(", ".join(shown))
