"""The network as SVG: where features stand, and what the drawing says of each.

Features stand left to right as trees by the parent that says most about them;
further parents are dashed lines. The class is a parent of every feature: it stands at the left, and
its arrows are drawn on request.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import sqrt
from typing import TYPE_CHECKING

from tanager.escaping import visible

if TYPE_CHECKING:
    from tanager.structure import Structure

__all__ = ["Layout", "branch_order", "draw_network", "lay_out", "place_tree"]

# Pixels at the natural size.
FONT, ROW, HEIGHT, GAP, PAD, MARGIN = 13, 36, 27, 58, 11, 14
MAX_NAME = 24


@dataclass(frozen=True)
class Layout:
    """Where every feature stands.

    Attributes
    ----------
    x, y : list of float
        Left end and middle of each feature's box.
    widths : list of float
    width, height : float
        Of the whole drawing.
    class_width : float
        Of the box of the class, which stands at the left end.
    """

    x: list[float]
    y: list[float]
    widths: list[float]
    width: float
    height: float
    class_width: float


def lay_out(
    structure: Structure, target: str, edges: Mapping[tuple[str, str], float] | None = None
) -> Layout:
    """Give every leaf a row of its own and every parent the middle of its children.

    A feature stands after the parent whose edge carries most, else after its first.

    Trees stand one below the other, in as many columns as make a drawing that
    is not much higher than wide.
    """
    first = main_parents(structure, edges or {})
    children: list[list[int]] = [[] for _ in first]
    for child, parent in enumerate(first):
        if parent is not None:
            children[parent].append(child)
    widths = [text_width(shorten(name)) + 2 * PAD for name in structure.features]
    trees = [branch_order(at, children) for at, parent in enumerate(first) if parent is None]
    trees.sort(key=len, reverse=True)
    leaves = [sum(not children[at] for at in tree) for tree in trees]
    longest = max([12, round(2.0 * sqrt(sum(leaves))), *leaves])
    class_width = text_width(shorten(target)) + 2 * PAD
    x, y = [0.0] * len(first), [0.0] * len(first)
    left, row, widest, lowest = MARGIN + class_width + GAP, 0, 0.0, 0
    for tree, n_leaves in zip(trees, leaves, strict=True):
        if row and row + n_leaves > longest:
            left, row, widest = left + widest + GAP / 2, 0, 0.0
        x[tree[0]], y[tree[0]] = left, float(row)
        end = place_tree(tree, children, widths, GAP, x, y)
        widest = max(widest, end - left)
        row += n_leaves
        lowest = max(lowest, row)
    height = max(lowest, 2) * ROW + 2 * MARGIN
    middle = [MARGIN + ROW * (at + 0.5) for at in y]
    return Layout(x, middle, widths, left + widest + MARGIN, height, class_width)


def main_parents(structure: Structure, edges: Mapping[tuple[str, str], float]) -> list[int | None]:
    """Return the position of each feature's parent that carries most; None without parents."""
    place = {feature: at for at, feature in enumerate(structure.selected)}
    out: list[int | None] = []
    for name, parents in zip(structure.features, structure.parent_indices, strict=True):
        carried = [edges.get((structure.names[p], name), 0.0) for p in parents]
        out.append(place[parents[carried.index(max(carried))]] if parents else None)
    return out


def branch_order(root: int, children: Sequence[Sequence[int]]) -> list[int]:
    """Return the nodes below a root, parents first, each branch together."""
    order, stack = [], [root]
    while stack:
        at = stack.pop()
        order.append(at)
        stack.extend(reversed(children[at]))
    return order


def place_tree(
    tree: list[int],
    children: Sequence[Sequence[int]],
    widths: Sequence[float],
    gap: float,
    x: list[float],
    row: list[float],
) -> float:
    """Fill in the places of one tree, from ``x[root]`` and ``row[root]`` on; returns its right end.

    Every leaf has a row of its own and every parent the middle of its children;
    generations stand in columns, a gap apart.
    """
    left, next_row = x[tree[0]], row[tree[0]]
    depth = {tree[0]: 0}
    for at in tree:
        for child in children[at]:
            depth[child] = depth[at] + 1
    columns = [0.0] * (max(depth.values()) + 1)
    for at in tree:
        columns[depth[at]] = max(columns[depth[at]], widths[at])
    starts = [left]
    for width in columns:
        starts.append(starts[-1] + width + gap)
    for at in tree:
        x[at] = starts[depth[at]]
        if not children[at]:
            row[at] = next_row
            next_row += 1.0
    for at in reversed(tree):
        if children[at]:
            row[at] = sum(row[child] for child in children[at]) / len(children[at])
    return starts[-1] - gap


def draw_network(
    structure: Structure,
    target: str,
    relevance: list[float],
    edges: Mapping[tuple[str, str], float],
    *,
    interactive: bool = True,
) -> str:
    """Return the drawing; its colours are the style sheet's of whoever shows it.

    Parameters
    ----------
    structure : Structure
    target : str
        Name of the class.
    relevance : list of float
        Of each feature, between 0 and 1: how dark its box is.
    edges : mapping of (parent, feature) to float
        Information that the edge carries: how wide it is.
    interactive : bool
        Whether features can be chosen, by mouse, keyboard and screen reader;
        otherwise the drawing is one picture.
    """
    layout = lay_out(structure, target, edges)
    first = main_parents(structure, edges)
    place = {feature: at for at, feature in enumerate(structure.selected)}
    most = max(edges.values(), default=0.0) or 1.0
    parts = [
        f'<svg class="network" role="{"group" if interactive else "img"}" '
        f'aria-label="The network" '
        f'viewBox="0 0 {layout.width:.0f} {layout.height:.0f}" '
        f'width="{layout.width:.0f}" height="{layout.height:.0f}" font-size="{FONT}">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">'
        '<path d="M0 .8 7.4 4 0 7.2z"/></marker></defs>',
        _class_arrows(layout),
        '<g class="edges" aria-hidden="true">',
    ]
    for at, parents in enumerate(structure.parent_indices):
        for parent in parents:
            carried = edges.get((structure.names[parent], structure.features[at]), 0.0)
            width = 1 + 4 * sqrt(carried / most)
            kind = "edge" if place[parent] == first[at] else "edge further"
            parts.append(
                f'<path class="{kind}" data-from="{place[parent]}" data-to="{at}" '
                f'stroke-width="{width:.1f}" d="{_curve(layout, place[parent], at)}"/>'
            )
    parts.append("</g>")
    middle = layout.height / 2
    parts.append(
        f'<g class="class-node" aria-hidden="true">'
        f'<rect x="{MARGIN}" y="{middle - HEIGHT / 2:.1f}" '
        f'width="{layout.class_width:.0f}" height="{HEIGHT}" rx="5"/>'
        f'<text x="{MARGIN + PAD}" y="{middle + 4.5:.1f}">{escape(shorten(target))}</text></g>'
    )
    for at, name in enumerate(structure.features):
        parts.append(_node(layout, at, name, relevance[at], interactive=interactive))
    parts.append("</svg>")
    return "".join(parts)


def _class_arrows(layout: Layout) -> str:
    x0, y0 = MARGIN + layout.class_width, layout.height / 2
    paths = []
    for x, y in zip(layout.x, layout.y, strict=True):
        bend = max(24.0, (x - x0) * 0.5)
        bent = f"{x0 + bend:.0f} {y0:.0f} {x - bend:.0f} {y:.0f}"
        paths.append(f"M{x0:.0f} {y0:.0f}C{bent} {x - 2:.0f} {y:.0f}")
    return f'<g class="class-edges" aria-hidden="true"><path d="{"".join(paths)}"/></g>'


def _curve(layout: Layout, parent: int, child: int) -> str:
    """Return the path of an arrow: rightwards, or around the left where the child is not right."""
    x0, y0 = layout.x[parent] + layout.widths[parent], layout.y[parent]
    x1, y1 = layout.x[child] - 2, layout.y[child]
    if x1 <= x0:
        x0 = layout.x[parent]
        far = min(x0, x1) - 18 - 0.12 * abs(y1 - y0)
        return f"M{x0:.1f} {y0:.1f}C{far:.1f} {y0:.1f} {far:.1f} {y1:.1f} {x1:.1f} {y1:.1f}"
    bend = max(22.0, (x1 - x0) / 2)
    return f"M{x0:.1f} {y0:.1f}C{x0 + bend:.1f} {y0:.1f} {x1 - bend:.1f} {y1:.1f} {x1:.1f} {y1:.1f}"


def _node(layout: Layout, at: int, name: str, relevance: float, *, interactive: bool) -> str:
    x, y, width = layout.x[at], layout.y[at], layout.widths[at]
    role = (
        f' role="button" tabindex="{-1 if at else 0}" data-i="{at}" aria-pressed="false" '
        f'aria-label="{escape(visible(name))}"'
    )
    return (
        f'<g class="node"{role if interactive else ""} style="--k:{relevance:.2f}">'
        f"<title>{escape(visible(name))}</title>"
        f'<rect x="{x:.1f}" y="{y - HEIGHT / 2:.1f}" width="{width:.0f}" height="{HEIGHT}" '
        f'rx="13"/>'
        f'<text x="{x + PAD:.1f}" y="{y + 4.5:.1f}">{escape(shorten(name))}</text></g>'
    )


def shorten(name: str) -> str:
    """Return a name that fits into a box, on one line."""
    flat = " ".join(visible(name).split()) or "(no name)"
    return flat if len(flat) <= MAX_NAME else f"{flat[: MAX_NAME - 1]}…"


def text_width(text: str) -> float:
    """Return about how wide a text is, in pixels: a browser's font may differ a little."""
    width = 0.0
    for letter in text:
        if unicodedata.east_asian_width(letter) in "WF" or ord(letter) > 0x1F000:
            width += 1.15
        elif letter in "iljtfr.,:;!'|()[] ":
            width += 0.38
        elif letter in "mwMW@%—" or letter.isupper():
            width += 0.8
        else:
            width += 0.58
    return width * FONT
