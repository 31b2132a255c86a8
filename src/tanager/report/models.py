"""Plots of a model: its network, the effect of a feature's values, and its probability table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tanager.codes.columns import CategoricalColumn, Column, NumericColumn
from tanager.drawing import (
    Arrow,
    DrawingPlan,
    DrawnGraph,
    GraphLayout,
    lay_out,
    plan_drawing,
    shorten,
    svg,
)
from tanager.drawing.layout import FONT, HEIGHT, MAX_WIDTH, PAD, Point
from tanager.errors import ConfigurationError
from tanager.escaping import abridged, one_line
from tanager.network import LabelledTable, Network, NetworkInformation
from tanager.network.evidence import find_class
from tanager.network.graph import network_graph
from tanager.network.information import log_odds
from tanager.network.network import network_of
from tanager.numerics import Floats
from tanager.report.model_page.network import count_interval, merge_values
from tanager.report.model_page.rows import pool_neighbours, read_rows
from tanager.report.style import CYCLE, GRID, INK, MUTED, axes, fitting, literal, name_rows, styled
from tanager.structure import EdgeConfidence, Structure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINT = 8.5 / FONT  # points per pixel of the layout, on a new figure
MAX_BARS = 30  # values of a category with an effect
MAX_INTERVALS = 32  # confidence intervals along a number
MAX_ROWS = 400  # contexts of a table
LABELLED = 40  # maximum number of rows that are all labelled; beyond it, only some are
NUMBERED = 12  # maximum number of columns for cells with numbers


@styled
def plot_network(
    model: Any, *, fold: bool = True, max_width: float = MAX_WIDTH, ax: Axes | None = None
) -> Axes:
    """Draw which features condition which.

    Parameters
    ----------
    model : BayesNetClassifier, Network, Structure or EdgeConfidence
    fold : bool, default=True
        Whether, with 25 features or more, many leaves of one parent share a box ("+12 leaves").
    max_width : float, default=1040
        In pixels, for text 13 pixels high. Boxes that don't fit in a layer move to the next.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure as large as the network needs.

    Notes
    -----
    Boxes are darker the higher the feature's mutual information with the class, and arrows wider
    the higher the parent's mutual information with the feature, given the class; the legend shows
    both in bits. Features are placed below their parents; dashed arrows come from all parents but
    the most informative. The class is a parent of every feature; its arrows are only drawn to
    features without other parents. A `Structure` has no mutual information. For an
    `EdgeConfidence`, the averaged structure is drawn, arrows wider the more structures have them.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tanager import BayesNetClassifier
    >>> from tanager.report import plot_network
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> ax = plot_network(BayesNetClassifier("tan", "m-estimate").fit(X, y))
    >>> ax.texts[1].get_text()
    'sepal length (cm)'
    """
    if isinstance(model, EdgeConfidence):
        graph = _confidence_graph(model)
    elif isinstance(model, Structure):
        graph = DrawnGraph(model.features, model.parent_positions())
    else:
        graph = network_graph(network_of(model))
    plan = plan_drawing(graph, fold=fold)
    layout, rows = lay_out(plan, max_width), svg.legend_rows(plan)
    width, height = svg.drawing_size(layout, rows)
    if ax is None:
        from tanager.report.shown import ShownAxes, ShownFigure

        # The drawing has its own margins, so it takes the whole figure.
        figure = ShownFigure(figsize=(width * POINT / 72, height * POINT / 72))
        ax, point = figure.add_axes((0, 0, 1, 1), axes_class=ShownAxes), POINT
    else:
        box = ax.get_window_extent().transformed(ax.figure.dpi_scale_trans.inverted())
        point = min(POINT, box.width * 72 / width, box.height * 72 / height)
    ax.set(xlim=(0, width), ylim=(height, 0))
    ax.set_axis_off()
    _draw(ax, plan, layout, point)
    for at, row in enumerate(rows):
        for item in row:
            _draw_legend(ax, item, layout.height + 16 + svg.LEGEND_ROW * at, point)
    return ax


def _confidence_graph(model: EdgeConfidence) -> DrawnGraph:
    """Return the averaged structure, arrows weighted by the share of structures with them."""
    structure, strength = model.structure(), model.arcs + model.arcs.T
    edges = [(p, child) for child, above in enumerate(structure.parent_indices) for p in above]
    carried = {edge: float(strength[edge]) for edge in edges}
    parents, text = structure.parent_positions(), f"share of {model.rounds} structures"
    return DrawnGraph(structure.features, parents, carried=carried, arrow_text=text)


def _draw(ax: Axes, plan: DrawingPlan, layout: GraphLayout, point: float) -> None:
    for way in layout.class_routes:
        _draw_line(ax, way, color=CYCLE[2], lw=0.8 * point, alpha=0.3, zorder=0.5)
    for arrow, way in zip(plan.arrows, layout.routes, strict=True):
        _draw_arrow(ax, arrow, way, point)
    left, middle, wide = layout.target
    _draw_box(ax, (left, middle, wide, HEIGHT), fc="white", ec=CYCLE[2])
    style: dict[str, Any] = {"size": FONT * point, "va": "center_baseline", "color": INK}
    ax.text(left + PAD, middle, literal(shorten(plan.graph.target)), weight="bold", **style)
    for box, x, y, wide in zip(plan.boxes, layout.x, layout.y, layout.widths, strict=True):
        dashes = (0, (3, 2)) if box.folded else "-"
        _draw_box(ax, (x, y, wide, HEIGHT), round_by=13, fc=_blue(box.shade), ls=dashes)
        ax.text(x + PAD, y, literal(shorten(box.label)), **style)


def _draw_line(ax: Axes, way: list[Point], **style: Any) -> Any:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    codes = [Path.MOVETO, *[Path.CURVE4] * (len(way) - 1)]
    return ax.add_patch(PathPatch(Path(way, codes), fill=False, **style))


def _line_style(share: float, point: float, *, dashed: bool) -> dict[str, Any]:
    """Return the style of an arrow; dashes are as long on thick lines as on thin ones."""
    width = svg.line_width(share)
    dashes = (0, (4 / width, 3 / width)) if dashed else "-"
    return {"color": MUTED, "lw": width * point, "ls": dashes}


def _draw_arrow(ax: Axes, arrow: Arrow, way: list[Point], point: float) -> None:
    from matplotlib.patches import Polygon

    style = _line_style(arrow.width, point, dashed=not arrow.main)
    line = _draw_line(ax, way, **style, zorder=2 if arrow.main else 1)
    line.set_gid(f"arrow-{arrow.parent}-{arrow.child}")
    line.set_alpha(0.85 if arrow.main else 0.6)
    tip = svg.arrow_tip(way, svg.line_width(arrow.width))
    ax.add_patch(Polygon(tip, closed=True, lw=0, zorder=2, color=MUTED))


def _draw_box(ax: Axes, place: Sequence[float], *, round_by: float = 5, **style: Any) -> None:
    from matplotlib.patches import FancyBboxPatch

    left, middle, wide, high = place
    corner, rounded = (left, middle - high / 2), f"round,pad=0,rounding_size={round_by}"
    style = {"ec": CYCLE[0], "lw": 0.8, "zorder": 3, **style}
    ax.add_patch(FancyBboxPatch(corner, wide, high, boxstyle=rounded, **style))


def _draw_legend(ax: Axes, item: svg.LegendItem, y: float, point: float) -> None:
    x = item.start
    start = x if item.kind == "text" else x + item.mark + 5
    if item.kind == "shade":
        _draw_box(ax, (x, y, item.mark, 14), round_by=7, fc=_blue(item.share))
    elif item.kind != "text":
        style = _line_style(item.share, point, dashed=item.kind == "further")
        ax.plot([x, x + item.mark], [y, y], **style)
    size = svg.SMALLER * FONT * point
    ax.text(start, y, literal(item.text), size=size, va="center_baseline", color=MUTED)


def _blue(shade: float) -> str:
    """Return the colour of a box: from white to a blue on which dark text is legible."""
    return "#" + "".join(f"{round(255 + (end - 255) * 0.5 * shade):02x}" for end in (0, 114, 178))


@styled
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
    The effect of a value is :math:`\log P(x \mid c) - \log P(x \mid \bar c)`, all other features
    summed out. A number is drawn as steps over its intervals, the outermost of which are open;
    categories as bars, at most the 30 most probable.

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
        counts = read_rows(network, X, y).value_counts(at)
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
    edges = np.array([cuts[0] - gap, *cuts, cuts[-1] + gap] if len(cuts) else [0.0, 1.0])
    ax.axhline(0, color=MUTED, lw=0.8)
    shade: dict[str, Any] = {"color": CYCLE[0], "alpha": 0.16, "lw": 0}
    if interval is not None:
        for cell in range(n_cells):
            ax.fill_between(edges[cell : cell + 2], *interval[:, cell], **shade)
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
            ax.plot([place, place], interval[:, column.missing_code], color=INK, lw=0.8)
        ax.plot([place], [value], "o", color=CYCLE[0], ms=5)
        ax.annotate("missing", (place, value), (0, 8), textcoords="offset points", ha="center")
    ax.set_xlim(edges[0], edges[-1] + 0.12 * (edges[-1] - edges[0]) * (len(effect) > n_cells))
    ax.set(xlabel=literal(column.name), ylabel=f"log-odds of {literal(label)}")
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
    ax.set_ylabel(literal(column.name))
    hidden = len(effect) - len(order)
    more = f" ({hidden:,} rarer values not drawn)" if hidden else ""
    ax.set_xlabel(f"log-odds of {literal(label)}{more}")
    return ax


@styled
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
    small, n_all = len(labels) <= LABELLED, len(whole.contexts)
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
    for label in ax.get_xticklabels() if slanted else ():
        label.set(ha="right", rotation_mode="anchor")
    step = -(-len(labels) // LABELLED)
    ax.set_yticks(range(0, len(labels), step), labels[::step])
    ax.set_ylabel(_joined(table.given, 40))
    ax.set_title(title)
    shrink = min(1.0, 3.0 / (0.25 * min(len(labels), 60)))
    scale = ax.figure.colorbar(image, ax=ax, shrink=shrink, aspect=18, pad=0.02)
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
    return replace(table, contexts=contexts, probabilities=table.probabilities[kept])


def _heat(ax: Axes, table: LabelledTable, *, numbered: bool) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    shares = table.probabilities
    most = float(shares.max())
    shades = LinearSegmentedColormap.from_list("tanager", ["#ffffff", GRID, CYCLE[0], "#002f4d"])
    style: dict[str, Any] = {"aspect": "auto", "interpolation": "nearest", "cmap": shades}
    image = ax.imshow(shares, vmin=0, vmax=most, **style)
    ax.grid(visible=False)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    for (row, column), p in np.ndenumerate(shares) if numbered else ():
        text = f"{p:.2f}" if p >= 0.005 else "·"
        colour = "white" if p > 0.55 * most else INK
        ax.text(column, row, text, ha="center", va="center", size=7, color=colour)
    return image


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
    return literal(", ".join(shown))
