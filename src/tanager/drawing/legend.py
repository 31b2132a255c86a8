"""The legend of a drawing: samples of arrows and boxes with what they mean, in rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tanager.drawing.layout import MARGIN, shorten
from tanager.drawing.plan import DrawingPlan

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
