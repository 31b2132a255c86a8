"""The network as a picture, and one of its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tanager.network.drawing import branch_order, place_tree
from tanager.report.style import CYCLE, GRID, INK, MUTED, axes, in_house_style, one_line, plain_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tanager.structure import Structure

__all__ = ["plot_network", "plot_table"]

MAX_NAME = 26
# Lengths are in font sizes.
GAP = 3.0  # between two generations
PAD = 0.35  # around a name
ROW = 1.75  # height of a row
MAX_ROWS = 36  # of contexts in the picture of a table


class _Layout(NamedTuple):
    """Where every feature stands: left ends in font sizes, and rows."""

    x: list[float]
    y: list[float]
    lengths: list[float]
    width: float
    height: float


@in_house_style
def plot_network(model: Any, *, ax: Axes | None = None) -> Any:
    """Draw which features condition which.

    Parameters
    ----------
    model : BayesNetClassifier or Network
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure as large as the network needs.

    Returns
    -------
    matplotlib Axes

    Notes
    -----
    Features stand left to right as a tree by their first parent, the strongest
    in most structures, drawn in ink; further parents are thin lines. The class
    is a parent of every feature and is not drawn.
    """
    network = getattr(model, "network_", model)
    structure: Structure = network.structure
    names = [_short(one_line(name)) for name in structure.features]
    first, others = _edges(structure)
    layout = _lay_out([_length(name) for name in names], first)
    size = 8.5
    if ax is None:
        width = max(3.0, (layout.width + 1) * size / 72 + 0.4)
        ax = axes(None, width, max(1.2, (layout.height + 1) * ROW * size / 72 + 0.4))
    else:
        box = ax.get_window_extent().transformed(ax.figure.dpi_scale_trans.inverted())
        size = min(
            size,
            box.width * 72 / (layout.width + 1),
            box.height * 72 / ((layout.height + 1) * ROW),
        )
    ax.set(xlim=(-1, layout.width), ylim=(layout.height, -1))
    ax.set_axis_off()
    target = network.codebook.target.name or "class"
    ax.set_title(f"{plain_text(target)} → every feature", fontsize=size * 1.1)
    for parent, child in others:
        _draw_edge(ax, layout, parent, child, faint=True)
    for child, strongest in enumerate(first):
        if strongest is not None:
            _draw_edge(ax, layout, strongest, child, faint=False)
    for at, name in enumerate(names):
        edge = CYCLE[0] if first[at] is None else MUTED
        frame = {"boxstyle": "round,pad=0.22", "fc": "white", "ec": edge, "lw": 0.8}
        place = (layout.x[at], layout.y[at])
        ax.text(*place, plain_text(name), size=size, color=INK, va="center", bbox=frame)
    return ax


def _length(name: str) -> float:
    """Return how long a name is, in font sizes."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    # Dollar signs and the like are text here, not formulas.
    width, _, _ = text_to_path.get_text_width_height_descent(
        name, FontProperties(size=100), ismath=False
    )
    return 1.04 * float(width) / 100  # small letters are set on whole pixels, a little wider


def _edges(structure: Structure) -> tuple[list[int | None], list[tuple[int, int]]]:
    """Return each feature's first parent, and all further edges (parent, child)."""
    place = {feature: at for at, feature in enumerate(structure.selected)}
    first: list[int | None] = []
    others: list[tuple[int, int]] = []
    for at, parents in enumerate(structure.parent_indices):
        first.append(place[parents[0]] if parents else None)
        others += [(place[p], at) for p in parents[1:]]
    return first, others


def _lay_out(lengths: list[float], first: list[int | None]) -> _Layout:
    """Give every leaf a row of its own and every parent the middle of its children.

    Trees stand one below the other, in as many columns as make a page.
    """
    children: list[list[int]] = [[] for _ in lengths]
    for child, parent in enumerate(first):
        if parent is not None:
            children[parent].append(child)
    roots = [at for at, parent in enumerate(first) if parent is None]
    trees = [branch_order(root, children) for root in roots]
    leaves = [sum(not children[at] for at in tree) for tree in trees]
    longest = max(max(leaves, default=1), round(2.2 * np.sqrt(sum(leaves))), 12)
    x, y = [0.0] * len(lengths), [0.0] * len(lengths)
    left, row, widest, lowest = 0.0, 0, 0.0, 0
    for tree, n_leaves in zip(trees, leaves, strict=True):
        if row and row + n_leaves > longest:
            left, row, widest = left + widest + GAP, 0, 0.0
        x[tree[0]], y[tree[0]] = left, float(row)
        ends = place_tree(tree, children, lengths, GAP, x, y)
        widest = max(widest, ends - left)
        row += n_leaves
        lowest = max(lowest, row)
    return _Layout(x, y, lengths, left + widest, float(max(lowest, 1)))


def _draw_edge(ax: Axes, layout: _Layout, parent: int, child: int, *, faint: bool) -> None:
    from matplotlib.patches import FancyArrowPatch, PathPatch
    from matplotlib.path import Path

    x0, y0 = layout.x[parent] + layout.lengths[parent] + PAD, layout.y[parent]
    x1, y1 = layout.x[child] - PAD, layout.y[child]
    if faint:
        bend = max(1.5, abs(x1 - x0) / 2)
        curve = Path(
            [(x0, y0), (x0 + bend, y0), (x1 - bend, y1), (x1, y1)],
            [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
        )
        ax.add_patch(PathPatch(curve, fc="none", ec=CYCLE[1], lw=0.6, alpha=0.45, zorder=1))
        return
    middle = max(x1 - 1.5, (x0 + x1) / 2)
    curve = Path(
        [(x0, y0), (middle, y0), (middle, y1), (x1, y1)],
        [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
    )
    arrow = FancyArrowPatch(
        path=curve, arrowstyle="-|>", mutation_scale=6, lw=0.9, color=INK, fill=False, zorder=2
    )
    ax.add_patch(arrow)


@in_house_style
def plot_table(model: Any, feature: str, *, ax: Axes | None = None) -> Any:
    """Draw P(feature | class, parents), one row a context, darker for more probable.

    Parameters
    ----------
    model : BayesNetClassifier or Network
    feature : str
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Notes
    -----
    Of a table with more than 36 contexts the first are drawn, and the title
    says how many there are.
    """
    table = getattr(model, "network_", model).table(feature)
    shown = table.probabilities[:MAX_ROWS]
    labels = [plain_text(_short(", ".join(context), 56)) for context in table.contexts[:MAX_ROWS]]
    columns = [plain_text(_short(value)) for value in table.values]
    slanted = max(map(len, columns)) * len(columns) > 60
    if ax is None:
        width = 0.8 + 0.075 * max(map(len, labels)) + min(14.0, 0.55 * max(len(columns), 3))
        foot = 0.055 * max(map(len, columns)) if slanted else 0.0
        ax = axes(None, width, 1.1 + 0.25 * len(shown) + foot)
    ax.imshow(shown, aspect="auto", cmap=_shades(), vmin=0, vmax=1)
    ax.grid(visible=False)
    ax.set_xticks(range(len(columns)), columns, rotation=45 if slanted else 0)
    if slanted:
        for label in ax.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")
    ax.set_yticks(range(len(labels)), labels)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    given = plain_text(", ".join(table.given))
    ax.set_ylabel(_short(given, 40))
    extra = (
        f" ({MAX_ROWS} of {len(table.contexts):,} contexts)"
        if len(labels) < len(table.contexts)
        else ""
    )
    ax.set_title(f"P({plain_text(table.feature)} | {_short(given, 60)}){extra}")
    if len(columns) <= 12:
        for (row, column), p in np.ndenumerate(shown):
            text = f"{p:.2f}" if p >= 0.005 else "·"
            colour = "white" if p > 0.55 else INK
            ax.text(column, row, text, ha="center", va="center", size=7, color=colour)
    return ax


def _shades() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("tanager", ["#ffffff", GRID, CYCLE[0], "#002f4d"])


def _short(name: str, most: int = MAX_NAME) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
