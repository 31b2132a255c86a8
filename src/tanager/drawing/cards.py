"""What notebooks show of an object: a small card, self-contained, light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tanager.drawing.plan import DrawingPlan, DrawnGraph, plan_drawing
from tanager.drawing.svg import draw_svg
from tanager.escaping import visible

MAX_BOXES = 100  # in a picture; a page of its own has room for more
MAX_LISTED = 60  # features in a list

HUES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")

# Colours follow the page: text in its own ink, lines and bars mixed from it.
_STYLE = """<style>
.tanager{--t-ground:var(--jp-layout-color0,var(--color-background-primary,Canvas));
 background:var(--t-ground);
 font:13px/1.45 system-ui,sans-serif;max-width:min(64em,100%);box-sizing:border-box;
 border:1px solid color-mix(in srgb,currentColor 22%,transparent);border-radius:6px;
 padding:.6em .9em;overflow-wrap:anywhere}
.tanager b{font-weight:600}.tanager .t-soft{opacity:.7}
.tanager .t-prior{display:flex;gap:2px;height:.7em;margin:.35em 0 .5em;border-radius:3px;
 overflow:hidden}
.tanager .t-prior span{min-width:2px}
.tanager .t-wide{overflow-x:auto;margin:.4em 0}
.tanager table{border-collapse:collapse;margin:.4em 0 0;font:inherit;color:inherit;
 display:table;width:auto}
.tanager td,.tanager th{padding:.1em 1em .1em 0;text-align:left;border:0;background:none;
 color:inherit;vertical-align:top}
.tanager td.t-n,.tanager th.t-n{text-align:right;font-variant-numeric:tabular-nums;
 white-space:nowrap}
@media(max-width:36em){.tanager{font-size:12px;padding:.5em .6em}
 .tanager td,.tanager th{padding-right:.6em}}
.tanager .t-wide td,.tanager .t-wide th{overflow-wrap:normal;white-space:nowrap}
.tanager .t-wide td.t-text{white-space:normal;min-width:6em}
.tanager tr{background:none!important}
.tanager tr.t-total>*{border-top:1px solid color-mix(in srgb,currentColor 22%,transparent)}
.tanager .t-bar{min-width:9em;position:relative;padding:0}
.tanager .t-bar i{position:absolute;top:.25em;bottom:.25em;min-width:1px;border-radius:2px}
.tanager .t-for{background:#009E73}.tanager .t-against{background:#D55E00}
.tanager .t-sum{background:#0072B2}
.tanager .t-heat td.t-n{padding:.15em .55em;background:color-mix(in srgb,#0072B2
 calc(var(--p)*70%),transparent)!important}
.tanager .t-heat th{padding-right:.8em}.tanager .t-heat th.t-n{padding:.1em .55em}
.tanager .t-scale{display:inline-block;width:9em;height:.7em;border-radius:3px;margin:0 .4em;
 background:linear-gradient(90deg,transparent,color-mix(in srgb,#0072B2 70%,transparent));
 border:1px solid color-mix(in srgb,currentColor 22%,transparent)}
.tanager summary{cursor:pointer}
.tanager svg.network{display:block;margin:.5em 0;width:var(--w);max-width:100%;height:auto;
 min-width:calc(var(--w)*.75)}
.tanager .edge{fill:none;stroke:color-mix(in srgb,currentColor 38%,var(--t-ground))}
.tanager .edge .tip{fill:color-mix(in srgb,currentColor 60%,var(--t-ground));stroke:none}
.tanager .further{stroke-dasharray:5 4;opacity:.75}
.tanager .class-edges path{fill:none;stroke:color-mix(in srgb,#009E73 55%,var(--t-ground))}
.tanager .class-edges .tip{fill:color-mix(in srgb,#009E73 55%,var(--t-ground));stroke:none}
.tanager svg text{fill:currentColor}.tanager .class-node text{font-weight:600}
.tanager svg text.legend{font-size:11.5px;opacity:.75}
.tanager .class-node rect{fill:var(--t-ground);stroke:#009E73;stroke-width:1.5}
.tanager .node rect{fill:color-mix(in srgb,#0072B2 calc(var(--k)*46%),var(--t-ground));
 stroke:color-mix(in srgb,#0072B2 55%,var(--t-ground))}
.tanager .folded rect{stroke-dasharray:3 3}
</style>"""


def card(content: str) -> str:
    """Return HTML in the frame of a card; `content` is HTML already."""
    return f"{_STYLE}<div class='tanager'>{content}</div>"


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
