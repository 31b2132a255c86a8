"""Drawings as SVG, and notebooks' cards; colours come from the style sheet of the page."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

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
from tanager.drawing.plan import Box, DrawingPlan
from tanager.escaping import cut, cut_list, template_environment

MARK = 24.0  # pixels of a sample
GAP = 12.0
LEGEND_ROW = 24.0
SMALLER = 0.9  # than the names of features
LISTED = 40  # names in the title of a box of folded leaves


class LegendItem(NamedTuple):
    """A piece of the legend."""

    kind: str  # {"text", "width", "shade", "further"}; only text, or a sample followed by text
    text: str
    share: float = 0.0  # of the sample, as in the plan
    start: float = 0.0  # its left and right end, in pixels
    end: float = 0.0
    mark: float = MARK  # length of the sample


def legend_rows(plan: DrawingPlan) -> list[list[LegendItem]]:
    """Return the rows of the legend; a drawing without numbers may have none."""
    legend, target = plan.legend, shorten(plan.graph.target)
    rows: list[list[LegendItem]] = []
    for kind, what, samples in (
        ("shade", f"box: bits about {target}", legend.shades),
        ("width", f"arrow: {plan.graph.arrow_text}", legend.widths),
    ):
        marks = [LegendItem(kind, f"{bits:g}", share) for bits, share in samples]
        rows.append([LegendItem("text", what), *marks] if marks else [])
    notes = [LegendItem("further", "from a weaker parent", 0.25)] if legend.further else []
    rows.append([*notes, LegendItem("text", "+n: folded leaves")] if legend.folded else notes)
    if any(rows) and plan.arrows:
        rows.append([LegendItem("text", f"every feature also depends on {target}")])
    return [_placed(row) for row in rows if row]


def _placed(row: list[LegendItem]) -> list[LegendItem]:
    out, at = [], float(MARGIN)
    for item in row:
        sample = 0.0 if item.kind == "text" else item.mark + 5
        out.append(item._replace(start=at, end=at + sample + SMALLER * text_width(item.text)))
        at = out[-1].end + GAP
    return out


def drawing_size(layout: GraphLayout, rows: list[list[LegendItem]]) -> Point:
    """Return the width and height of a drawing with its legend."""
    width = max([layout.width, *(row[-1].end + MARGIN for row in rows)])
    return width, layout.height + LEGEND_ROW * len(rows) + (8 if rows else 0)


def line_width(share: float) -> float:
    """Return the width of an arrow's line: 1 pixel for the weakest, 5 for the strongest."""
    return 1 + 4 * share


def arrow_tip(way: list[Point], width: float) -> list[Point]:
    """Return the corners of an arrowhead, which points down; the line ends inside it."""
    (x, y), size = way[-1], 4 + 0.55 * width
    return [(x, y + 1), (x - size, y - 1.6 * size), (x + size, y - 1.6 * size)]


def draw_svg(plan: DrawingPlan, *, interactive: bool = False, label: str = "The network") -> str:
    """Return the drawing; `label` names it for screen readers.

    interactive: whether features can be selected; otherwise it's one image with a legend below.
    """
    layout, rows = lay_out(plan), [] if interactive else legend_rows(plan)
    width, height = drawing_size(layout, rows)
    drawing = {"plan": plan, "layout": layout, "legend_rows": rows, "width": width}
    drawing |= {"height": height, "interactive": interactive, "label": label}
    text: str = _environment().get_template("network.svg.j2").render(drawing)
    return text


@cache
def _environment() -> Any:
    environment = template_environment("tanager.drawing")
    environment.filters["cut"] = cut
    environment.globals.update(path=_path, tip=_tip, stroke=line_width, title=_title)
    environment.globals.update(font=FONT, box_height=HEIGHT, pad=PAD)
    environment.globals.update(draw_svg=draw_svg, shorten=shorten)
    return environment


def _path(way: list[Point]) -> str:
    """Return the path in whole pixels, with straight segments as lines, since they're many."""
    text = f"M{way[0][0]:.0f} {way[0][1]:.0f}"
    for at in range(1, len(way), 3):
        x, y = way[at + 2]
        straight = round(x) == round(way[at][0])
        curve = " ".join(f"{a:.0f} {b:.0f}" for a, b in way[at : at + 3])
        text += f"V{y:.0f}" if straight else f"C{curve}"
    return text


def _tip(way: list[Point], width: float) -> str:
    (x, y), (left, high), (right, _) = arrow_tip(way, width)
    return f"M{x:.0f} {y:.0f} {left:.1f} {high:.0f} {right:.1f} {high:.0f}z"


def _title(plan: DrawingPlan, box: Box) -> str:
    """Return the full name of a box; for folded leaves, the first names of all."""
    names = [plan.graph.names[feature] for feature in box.members]
    return f"{box.label}: {cut_list(names, LISTED)}" if box.folded else names[0]


def card(template: str, **facts: Any) -> str:
    """Return the card that a notebook shows for an object: self-contained, light and dark."""
    text = Path(__file__).with_name("card.css").read_text(encoding="utf-8")
    style = text[text.index("\n") + 1 :]  # without the comment
    found: str = _environment().get_template(template).render(style=style, **facts)
    return found
