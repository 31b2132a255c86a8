"""What notebooks show of an object: a small card, self-contained, light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path

from tanager.drawing.plan import DrawingPlan, DrawnGraph, plan_drawing
from tanager.drawing.svg import draw_svg
from tanager.escaping import visible

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
