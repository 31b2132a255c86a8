"""The drawing of a network as SVG; its colours are the style sheet's of whoever shows it."""

from __future__ import annotations

from html import escape

from tanager.drawing.layout import (
    FONT,
    HEIGHT,
    MARGIN,
    PAD,
    GraphLayout,
    Point,
    lay_out,
    shorten,
    text_width,
)
from tanager.drawing.legend import LegendItem, legend_rows
from tanager.drawing.plan import Arrow, Box, DrawingPlan
from tanager.escaping import visible

THIN, THICK = 1.0, 5.0  # pixels of the weakest and the strongest arrow
LISTED = 40  # names that a box of folded leaves tells


def draw_svg(
    plan: DrawingPlan,
    *,
    interactive: bool = False,
    legend: bool = True,
    label: str = "The network",
) -> str:
    """Return the drawing.

    interactive: whether features can be chosen, by mouse, keyboard and screen reader; otherwise the
        drawing is one picture.
    legend: whether the legend stands below the drawing.
    label: what a screen reader calls it.
    """
    layout = lay_out(plan)
    rows = legend_rows(plan, max(layout.width, 340.0), text_width) if legend else []
    width = max([layout.width, *(row[-1].end + MARGIN for row in rows)])
    height = layout.height + 24.0 * len(rows) + (8 if rows else 0)
    role = "group" if interactive else "img"
    parts = [
        f'<svg class="network" role="{role}" aria-label="{escape(label)}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" '
        f'font-size="{FONT}" style="--w:{width:.0f}px">',
        _class_arrows(layout),
        '<g class="edges" aria-hidden="true">',
        *(_edge(plan, *pair) for pair in zip(plan.arrows, layout.routes, strict=True)),
        "</g>",
        _class_box(layout, plan.graph.target),
        *(_node(plan, layout, at, interactive=interactive) for at in range(len(plan.boxes))),
        *(_legend_item(item, layout.height + 20 + 24 * at)
          for at, row in enumerate(rows) for item in row),
        "</svg>",
    ]  # fmt: skip
    return "".join(parts)


def _edge(plan: DrawingPlan, arrow: Arrow, way: list[Point]) -> str:
    width = THIN + (THICK - THIN) * arrow.width
    parent, child = (plan.boxes[at].members[0] for at in (arrow.parent, arrow.child))
    kind = "edge" if arrow.main else "edge further"
    return (
        f'<g class="{kind}" data-from="{parent}" data-to="{child}">'
        f'<path stroke-width="{width:.1f}" d="{_path(way)}"/>{_head(way, width)}</g>'
    )


def _path(way: list[Point]) -> str:
    """Return the way in whole pixels; straight parts as such, for they are many."""
    text = f"M{way[0][0]:.0f} {way[0][1]:.0f}"
    for at in range(1, len(way), 3):
        x, y = way[at + 2]
        straight = round(x) == round(way[at][0])
        curve = " ".join(f"{a:.0f} {b:.0f}" for a, b in way[at : at + 3])
        text += f"V{y:.0f}" if straight else f"C{curve}"
    return text


def _head(way: list[Point], width: float) -> str:
    """Return the tip of an arrow, which points down; the line ends inside it."""
    (x, y), size = way[-1], 4 + 0.55 * width
    high = 1.6 * size
    return (
        f'<path class="tip" d="M{x:.0f} {y + 1:.0f} {x - size:.1f} {y - high:.0f} '
        f'{x + size:.1f} {y - high:.0f}z"/>'
    )


def _class_arrows(layout: GraphLayout) -> str:
    paths = "".join(map(_path, layout.class_routes))
    tips = "".join(_head(way, 0.5) for way in layout.class_routes)
    return f'<g class="class-edges" aria-hidden="true"><path d="{paths}"/>{tips}</g>'


def _class_box(layout: GraphLayout, target: str) -> str:
    left, middle, wide = layout.target
    return (
        f'<g class="class-node" aria-hidden="true">'
        f'<rect x="{left:.1f}" y="{middle - HEIGHT / 2:.1f}" '
        f'width="{wide:.0f}" height="{HEIGHT}" rx="5"/>'
        f'<text x="{left + PAD:.1f}" y="{middle + 4.5:.1f}">{escape(shorten(target))}</text></g>'
    )


def _node(plan: DrawingPlan, layout: GraphLayout, at: int, *, interactive: bool) -> str:
    box, x, y, width = plan.boxes[at], layout.x[at], layout.y[at], layout.widths[at]
    title = _title(plan, box)
    kind = "node folded" if box.folded else "node"
    first = f'tabindex="{-1 if at else 0}" data-i="{box.members[0]}"'
    pressed = "" if box.folded else ' aria-pressed="false"'
    role = f' role="button" {first}{pressed} aria-label="{escape(title)}"'
    return (
        f'<g class="{kind}"{role if interactive else ""} style="--k:{box.shade:.2f}">'
        f"<title>{escape(title)}</title>"
        f'<rect x="{x:.1f}" y="{y - HEIGHT / 2:.1f}" width="{width:.0f}" height="{HEIGHT}" '
        f'rx="13"/>'
        f'<text x="{x + PAD:.1f}" y="{y + 4.5:.1f}">{escape(shorten(box.label))}</text></g>'
    )


def _title(plan: DrawingPlan, box: Box) -> str:
    """Return the name of a box in full: of folded leaves all names, within reason."""
    names = [visible(plan.graph.names[feature]) for feature in box.members]
    if not box.folded:
        return names[0]
    more = f", … {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"{box.label}: {', '.join(names[:LISTED])}{more}"


def _legend_item(item: LegendItem, y: float) -> str:
    x = item.start
    if item.kind == "text":
        return f'<text class="legend" x="{x:.1f}" y="{y + 4:.1f}">{escape(item.text)}</text>'
    if item.kind == "shade":
        mark = (
            f'<g class="sample node" style="--k:{item.share:.2f}">'
            f'<rect x="{x:.1f}" y="{y - 7:.1f}" width="{item.mark:.0f}" height="14" rx="7"/></g>'
        )
    else:
        kind = "edge further" if item.kind == "further" else "edge"
        width = THIN + (THICK - THIN) * item.share
        mark = (
            f'<g class="sample {kind}"><path stroke-width="{width:.1f}" '
            f'd="M{x:.1f} {y:.1f}h{item.mark:.0f}"/></g>'
        )
    text_x = x + item.mark + 5
    return f'{mark}<text class="legend" x="{text_x:.1f}" y="{y + 4:.1f}">{escape(item.text)}</text>'
