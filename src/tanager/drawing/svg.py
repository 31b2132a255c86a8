"""The drawing of a network as SVG; its colours are the style sheet's of whoever shows it."""

from __future__ import annotations

from functools import cache
from typing import Any

from tanager.drawing.layout import (
    FONT,
    HEIGHT,
    MARGIN,
    PAD,
    Point,
    lay_out,
    shorten,
    text_width,
)
from tanager.drawing.legend import legend_rows
from tanager.drawing.plan import Box, DrawingPlan
from tanager.escaping import template_environment

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
    text: str = _template().render(
        plan=plan,
        layout=layout,
        legend_rows=rows,
        width=max([layout.width, *(row[-1].end + MARGIN for row in rows)]),
        height=layout.height + 24.0 * len(rows) + (8 if rows else 0),
        interactive=interactive,
        label=label,
    )
    return text


@cache
def _template() -> Any:
    environment = template_environment("tanager.drawing")
    environment.globals.update(path=_path, tip=_tip, stroke=_stroke, title=_title, shorten=shorten)
    environment.globals.update(font=FONT, box_height=HEIGHT, pad=PAD)
    return environment.get_template("network.svg.j2")


def _stroke(share: float) -> float:
    return THIN + (THICK - THIN) * share


def _path(way: list[Point]) -> str:
    """Return the way in whole pixels; straight parts as such, for they are many."""
    text = f"M{way[0][0]:.0f} {way[0][1]:.0f}"
    for at in range(1, len(way), 3):
        x, y = way[at + 2]
        straight = round(x) == round(way[at][0])
        curve = " ".join(f"{a:.0f} {b:.0f}" for a, b in way[at : at + 3])
        text += f"V{y:.0f}" if straight else f"C{curve}"
    return text


def _tip(way: list[Point], width: float) -> str:
    """Return the tip of an arrow, which points down; the line ends inside it."""
    (x, y), size = way[-1], 4 + 0.55 * width
    high = y - 1.6 * size
    return f"M{x:.0f} {y + 1:.0f} {x - size:.1f} {high:.0f} {x + size:.1f} {high:.0f}z"


def _title(plan: DrawingPlan, box: Box) -> str:
    """Return the name of a box in full: of folded leaves all names, within reason."""
    names = [plan.graph.names[feature] for feature in box.members]
    if not box.folded:
        return names[0]
    more = f", … {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"{box.label}: {', '.join(names[:LISTED])}{more}"
