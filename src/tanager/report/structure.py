"""Plot of the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
from tanager.network.graph import network_graph
from tanager.network.network import network_of
from tanager.report.style import CYCLE, INK, MUTED, in_house_style, plain_text
from tanager.structure import EdgeConfidence, Structure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINT = 8.5 / FONT  # points per pixel of the layout, on a new figure


@in_house_style
def plot_network(
    model: Any, *, fold: bool = True, max_width: float = MAX_WIDTH, ax: Axes | None = None
) -> Axes:
    """Draw which features condition which.

    Parameters
    ----------
    model : BayesNetClassifier, Network, Structure or EdgeConfidence
    fold : bool, default=True
        Whether, with 25 features or more, many leaves of one parent share a box
        ("+12 leaves").
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
    layout = lay_out(plan, max_width)
    rows = svg.legend_rows(plan)
    width, height = svg.drawing_size(layout, rows)
    if ax is None:
        from tanager.report.shown import ShownAxes, ShownFigure

        # The drawing has its own margins, so it takes the whole figure.
        figure = ShownFigure(figsize=(width * POINT / 72, height * POINT / 72))
        ax = figure.add_axes((0, 0, 1, 1), axes_class=ShownAxes)
        point = POINT
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
    structure = model.structure()
    strength = model.arcs + model.arcs.T
    carried = {
        (parent, child): float(strength[parent, child])
        for child, parents in enumerate(structure.parent_indices)
        for parent in parents
    }
    text = f"share of {model.rounds} structures"
    return DrawnGraph(
        structure.features, structure.parent_positions(), carried=carried, arrow_text=text
    )


def _draw(ax: Axes, plan: DrawingPlan, layout: GraphLayout, point: float) -> None:
    for way in layout.class_routes:
        _draw_line(ax, way, color=CYCLE[2], lw=0.8 * point, alpha=0.3, zorder=0.5)
    for arrow, way in zip(plan.arrows, layout.routes, strict=True):
        _draw_arrow(ax, arrow, way, point)
    left, middle, wide = layout.target
    _draw_box(ax, (left, middle, wide, HEIGHT), fc="white", ec=CYCLE[2])
    style: dict[str, Any] = {"size": FONT * point, "va": "center_baseline", "color": INK}
    ax.text(left + PAD, middle, plain_text(shorten(plan.graph.target)), weight="bold", **style)
    for box, x, y, wide in zip(plan.boxes, layout.x, layout.y, layout.widths, strict=True):
        dashes = (0, (3, 2)) if box.folded else "-"
        _draw_box(ax, (x, y, wide, HEIGHT), round_by=13, fc=_blue(box.shade), ls=dashes)
        ax.text(x + PAD, y, plain_text(shorten(box.label)), **style)


def _draw_line(ax: Axes, way: list[Point], **style: Any) -> Any:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    codes = [Path.MOVETO, *[Path.CURVE4] * (len(way) - 1)]
    return ax.add_patch(PathPatch(Path(way, codes), fill=False, **style))


def _line_style(share: float, point: float, *, dashed: bool) -> dict[str, Any]:
    """Return the style of an arrow; dashes are as long on thick lines as on thin ones."""
    width = svg.line_width(share)
    return {
        "color": MUTED,
        "lw": width * point,
        "ls": (0, (4 / width, 3 / width)) if dashed else "-",
    }


def _draw_arrow(ax: Axes, arrow: Arrow, way: list[Point], point: float) -> None:
    from matplotlib.patches import Polygon

    style = _line_style(arrow.width, point, dashed=not arrow.main)
    line = _draw_line(ax, way, **style, zorder=2 if arrow.main else 1)
    line.set_gid(f"arrow-{arrow.parent}-{arrow.child}")
    line.set_alpha(0.85 if arrow.main else 0.6)
    tip = svg.arrow_tip(way, svg.line_width(arrow.width))
    ax.add_patch(Polygon(tip, closed=True, lw=0, zorder=2, color=MUTED))


def _draw_box(
    ax: Axes, place: tuple[float, float, float, float], *, round_by: float = 5, **style: Any
) -> None:
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
    ax.text(start, y, plain_text(item.text), size=size, va="center_baseline", color=MUTED)


def _blue(shade: float) -> str:
    """Return the colour of a box: from white to a blue on which dark text is legible."""
    return "#" + "".join(f"{round(255 + (end - 255) * 0.5 * shade):02x}" for end in (0, 114, 178))
