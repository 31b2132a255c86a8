"""A probability table as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tanager.escaping import abridged
from tanager.network import LabelledTable, Network, NetworkInformation
from tanager.network.network import network_of
from tanager.report.style import (
    CYCLE,
    GRID,
    INK,
    axes,
    fitting,
    in_house_style,
    one_line,
    plain_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_ROWS = 400  # of contexts in the picture
LABELLED = 40  # rows that have a label each; of more some have
NUMBERED = 12  # columns up to which cells hold numbers


@in_house_style
def plot_table(model: Any, feature: str, *, sort: str = "context", ax: Axes | None = None) -> Any:
    """Draw P(feature | class, parents), one row per context, darker for more probable.

    Parameters
    ----------
    model : BayesNetClassifier or Network
    feature : str
    sort : {"context", "parents", "center"}
        Order of the rows: by the class, then the parents; by the parents, then the class;
        or by the mean place of the value, so that like contexts are neighbours.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Notes
    -----
    Up to 40 contexts and 12 values the cells hold their numbers; a larger table is a heat
    map with labels for some of its rows. Of more than 400 contexts the most probable are
    drawn, and the title says how many there are.

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
    """Return at most as many contexts as are drawn, the most probable, in their order."""
    if len(table.contexts) <= MAX_ROWS:
        return table
    joint = NetworkInformation(network).context(table.feature)  # (*parents, n_classes)
    weights = np.zeros(0) if joint is None else np.moveaxis(joint, -1, 0).ravel()
    if weights.size == len(table.contexts):
        kept = np.sort(np.argsort(-weights, kind="stable")[:MAX_ROWS])
    else:  # contexts seen in training, of a table too large to be spelled out
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
    """Return names in one line of about so many characters; long ones share the room that is left.

    >>> _joined(["yes", "a very long answer, the first", "a very long answer, the last"], 44)
    'yes, a very lon…he first, a very lon…he last'
    """
    room = most - 2 * (len(names) - 1)
    shown = [one_line(name) for name in names]
    for left, at in enumerate(sorted(range(len(shown)), key=lambda at: len(shown[at]))):
        shown[at] = abridged(shown[at], max(5, room // (len(shown) - left)))
        room -= len(shown[at])
    return plain_text(", ".join(shown))
