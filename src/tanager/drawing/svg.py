"""The drawing of a network as SVG, its legend, and the small cards that notebooks show.

Colours are the style sheet's of whoever shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from tanager.drawing.layout import FONT, HEIGHT, MARGIN, PAD, Point, lay_out, shorten, text_width
from tanager.drawing.plan import Box, DrawingPlan, DrawnGraph, plan_drawing
from tanager.escaping import template_environment, visible

MARK = 24.0  # pixels of a sample
GAP = 12.0
SMALLER = 0.9  # than the names of features


class LegendItem(NamedTuple):
    """A piece of the legend."""

    kind: str  # {"text", "width", "shade", "further"}; a text alone, or a sample before its text
    text: str
    share: float = 0.0  # of the sample, as in the plan
    start: float = 0.0  # its left and right end, in pixels
    end: float = 0.0
    mark: float = MARK  # length of the sample


def legend_rows(
    plan: DrawingPlan, width: float, measure: Callable[[str], float]
) -> list[list[LegendItem]]:
    """Return the legend in as many rows as it needs; a drawing without numbers may have none."""
    legend, target = plan.legend, shorten(plan.graph.target)
    groups: list[list[LegendItem]] = []
    if legend.shades:
        samples = [LegendItem("shade", f"{bits:g}", share) for bits, share in legend.shades]
        groups.append([LegendItem("text", f"box: bits about {target}"), *samples])
    if legend.widths:
        samples = [LegendItem("width", f"{bits:g}", share) for bits, share in legend.widths]
        groups.append([LegendItem("text", f"arrow: {plan.graph.arrow_text}"), *samples])
    if legend.further:
        groups.append([LegendItem("further", "from a weaker parent", 0.25)])
    if legend.folded:
        groups.append([LegendItem("text", "+n: folded, parents of none")])
    if groups and plan.arrows:
        groups.append([LegendItem("text", f"every feature depends on {target} too")])
    rows: list[list[LegendItem]] = []
    at = width
    for group in groups:
        needed = sum(_wide(item, measure) + GAP for item in group)
        if at + needed > width:
            rows.append([])
            at = float(MARGIN)
        for item in group:
            end = at + _wide(item, measure)
            if at > MARGIN and end > width:
                rows.append([])
                end, at = MARGIN + end - at, float(MARGIN)
            rows[-1].append(item._replace(start=at, end=end))
            at = end + GAP
        at += GAP
    return rows


def _wide(item: LegendItem, measure: Callable[[str], float]) -> float:
    return SMALLER * measure(item.text) + (0.0 if item.kind == "text" else item.mark + 5)


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


MAX_BOXES = 100  # in a picture; a page of its own has room for more
MAX_LISTED = 60  # features in a list

HUES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")


def card(content: str) -> str:
    """Return HTML in the frame of a card; `content` is HTML already."""
    return f"<style>\n{_style()}</style><div class='tanager'>{content}</div>"


@cache
def _style() -> str:
    text = Path(__file__).with_name("card.css").read_text(encoding="utf-8")
    return text[text.index("\n") + 1 :]  # without the comment


def shown(text: object, most: int = 40) -> str:
    """Return a name or value of unknown origin, cut and escaped for HTML."""
    whole = visible(str(text))
    return escape(whole if len(whole) <= most else f"{whole[: most - 1]}…")


def network_view(plan: DrawingPlan) -> str:
    """Return the drawing, in a frame that scrolls where the page is narrow.

    Empty where no feature has a parent, and where a card has not enough room.
    """
    if not plan.arrows or len(plan.boxes) > MAX_BOXES:
        return ""
    return f"<div class='t-wide'>{draw_svg(plan)}</div>"


def structure_view(
    names: Sequence[str], features: Sequence[str], parents: Sequence[Sequence[int]]
) -> str:
    """Return a structure alone: its size, its drawing, and the features left out.

    names: all features of the table.
    features: those of the structure.
    parents: of each, as positions in `features`.
    """
    graph = DrawnGraph(tuple(features), tuple(map(tuple, parents)))
    n_edges = sum(map(len, parents))
    most = max(map(len, parents), default=0)
    head = (
        f"<b>Structure</b> <span class='t-soft'>{len(features)} of {len(names)} features, "
        f"{n_edges} edges, at most {most} parents besides the class</span>"
    )
    rows = [
        f"<tr><td>{shown(name)}</td><td>"
        f"{', '.join(shown(features[p]) for p in above) or '–'}</td></tr>"
        for name, above in list(zip(features, parents, strict=True))[:MAX_LISTED]
    ]
    if len(features) > len(rows):
        hidden = len(features) - len(rows)
        rows.append(f"<tr><td class='t-soft' colspan='2'>… {hidden} more</td></tr>")
    kept = set(features)
    left = [name for name in names if name not in kept]
    omitted = ""
    if left:
        more = f", … {len(left) - MAX_LISTED} more" if len(left) > MAX_LISTED else ""
        omitted = f"<div>left out: {', '.join(map(shown, left[:MAX_LISTED]))}{more}</div>"
    table = f"<table><tr><th>feature</th><th>parents</th></tr>{''.join(rows)}</table>"
    listed = f"<details><summary>parents of each feature</summary>{table}</details>"
    return head + network_view(plan_drawing(graph)) + listed + omitted
