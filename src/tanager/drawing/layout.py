"""Where the boxes of a drawing stand, and the way of its arrows.

A network that is not too deep is drawn left to right::

    sky ──► wet ──► slippery
       └──► cold

A deep one would be wider than any screen, and is drawn top to bottom. The child
with the most descendants stands below its parent, the others are indented. Each
step of indentation halves the number of descendants at least, so even 1,000
features are at most ten steps deep::

    sky
     ├─► cold
     ▼
    wet
     ▼
    slippery

Lengths are pixels of a drawing whose letters are 13 pixels high; matplotlib
draws in the same units.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from tanager.drawing.plan import Arrow, DrawingPlan
from tanager.escaping import visible

__all__ = ["FONT", "HEIGHT", "MARGIN", "PAD", "GraphLayout", "Route", "lay_out", "route", "shorten"]

FONT, ROW, HEIGHT, GAP, PAD, MARGIN = 13, 36, 27, 58, 11, 14
INDENT = 30  # of a list, a step
STEM = 13  # where arrows leave the bottom of a box, from its left end
ARCS = 70  # room at the right of a list for the arrows of further parents
MAX_NAME = 24
MAX_WIDTH = 1040  # of a drawing left to right, unless asked otherwise


@dataclass(frozen=True)
class GraphLayout:
    """Where every box stands.

    Attributes
    ----------
    x, y : list of float
        Left end and middle of each box.
    widths : list of float
    width, height : float
        Of the whole drawing.
    target : tuple of float
        Left end, middle and width of the box of the class.
    is_list : bool
        Whether it is drawn top to bottom.
    """

    x: list[float]
    y: list[float]
    widths: list[float]
    width: float
    height: float
    target: tuple[float, float, float]
    is_list: bool


class Route(NamedTuple):
    """The way of an arrow.

    Attributes
    ----------
    points : list of (x, y)
        A start, then three points for every cubic curve.
    heading : {"right", "down", "left"}
        Where the arrow points at its end.
    """

    points: list[tuple[float, float]]
    heading: str


def shorten(name: str, most: int = MAX_NAME) -> str:
    """Return a name that fits into a box, on one line."""
    flat = " ".join(visible(name).split()) or "(no name)"
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def text_width(text: str) -> float:
    """Return about how wide a text is, in pixels: a browser's font may differ a little."""
    width = 0.0
    for letter in text:
        if unicodedata.east_asian_width(letter) in "WF" or ord(letter) > 0x1F000:
            width += 1.15
        elif letter in "iljtfr.,:;!'|()[] ":
            width += 0.4
        elif letter in "mwMW@%—" or letter.isupper():
            width += 0.8
        else:
            width += 0.61
    return width * FONT


def lay_out(
    plan: DrawingPlan, measure: Callable[[str], float] = text_width, max_width: float = MAX_WIDTH
) -> GraphLayout:
    """Place the boxes of a plan.

    Parameters
    ----------
    plan : DrawingPlan
    measure : callable
        The width of a text.
    max_width : float
        A drawing left to right that is wider, the class not counted, is drawn top to bottom.
    """
    widths = [measure(shorten(box.label)) + 2 * PAD for box in plan.boxes]
    target = measure(shorten(plan.graph.target)) + 2 * PAD
    children: list[list[int]] = [[] for _ in plan.boxes]
    for at, box in enumerate(plan.boxes):
        if box.parent is not None:
            children[box.parent].append(at)
    roots = [at for at, box in enumerate(plan.boxes) if box.parent is None]
    trees = sorted((_branch_order(at, children) for at in roots), key=len, reverse=True)
    across = _left_to_right(trees, children, widths, target)
    if across.width <= max_width + target + GAP:
        return across
    return _top_to_bottom(trees, children, widths, target)


def _left_to_right(
    trees: list[list[int]], children: list[list[int]], widths: list[float], target: float
) -> GraphLayout:
    """Give every leaf a row of its own and every parent the middle of its children.

    Trees stand one below the other, in as many columns as make a drawing that
    is not much higher than wide.
    """
    leaves = [sum(not children[at] for at in tree) for tree in trees]
    longest = max([12, round(2.0 * sqrt(sum(leaves))), *leaves])
    x, y = [0.0] * len(widths), [0.0] * len(widths)
    left, row, widest, lowest = MARGIN + target + GAP, 0, 0.0, 0
    for tree, n_leaves in zip(trees, leaves, strict=True):
        if row and row + n_leaves > longest:
            left, row, widest = left + widest + GAP / 2, 0, 0.0
        x[tree[0]], y[tree[0]] = left, float(row)
        widest = max(widest, _place_tree(tree, children, widths, x, y) - left)
        row += n_leaves
        lowest = max(lowest, row)
    height = max(lowest, 2) * ROW + 2.0 * MARGIN
    middle = [MARGIN + ROW * (at + 0.5) for at in y]
    return GraphLayout(
        x, middle, widths, left + widest + MARGIN, height, (MARGIN, height / 2, target), False
    )


def _place_tree(
    tree: list[int],
    children: Sequence[Sequence[int]],
    widths: Sequence[float],
    x: list[float],
    row: list[float],
) -> float:
    """Fill in the places of one tree, from ``x[root]`` and ``row[root]`` on; returns its right end.

    Generations stand in columns.
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
        starts.append(starts[-1] + width + GAP)
    for at in tree:
        x[at] = starts[depth[at]]
        if not children[at]:
            row[at] = next_row
            next_row += 1.0
    for at in reversed(tree):
        if children[at]:
            row[at] = sum(row[child] for child in children[at]) / len(children[at])
    return starts[-1] - GAP


def _top_to_bottom(
    trees: list[list[int]], children: list[list[int]], widths: list[float], target: float
) -> GraphLayout:
    """Give every box a row of its own; columns of trees stand side by side, below the class."""
    x, y = [0.0] * len(widths), [0.0] * len(widths)
    longest = max([16, -(-len(widths) // 3), *map(len, trees)])
    left, row, widest, lowest = float(MARGIN), 1, target, 1
    for tree in trees:
        if row > 1 and row + len(tree) - 1 > longest:
            left, row, widest = left + widest + ARCS, 1, 0.0
        for at, (box, step) in enumerate(_list_order(tree, children)):
            x[box], y[box] = left + INDENT * (step + 1), MARGIN + ROW * (row + at + 0.5)
            widest = max(widest, x[box] + widths[box] - left)
        row += len(tree)
        lowest = max(lowest, row)
    height = ROW * lowest + 2.0 * MARGIN
    width = left + widest + ARCS + MARGIN
    return GraphLayout(x, y, widths, width, height, (MARGIN, MARGIN + ROW / 2, target), True)


def _branch_order(root: int, children: Sequence[Sequence[int]]) -> list[int]:
    """Return the boxes below a root, parents first, each branch together."""
    order, stack = [], [root]
    while stack:
        at = stack.pop()
        order.append(at)
        stack.extend(reversed(children[at]))
    return order


def _list_order(tree: list[int], children: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Return the boxes of a tree from top to bottom, each with its steps of indentation.

    The child with the most descendants comes last and is not indented, unless it is one
    leaf of several.
    """
    size: dict[int, int] = {}
    for at in reversed(tree):
        size[at] = 1 + sum(size[child] for child in children[at])
    order, stack = [], [(tree[0], 0)]
    while stack:
        at, step = stack.pop()
        order.append((at, step))
        below = sorted(children[at], key=lambda child: size[child])
        straight = below[-1] if below and (len(below) == 1 or size[below[-1]] > 1) else None
        stack += [(child, step + (child != straight)) for child in reversed(below)]
    return order


def route(layout: GraphLayout, arrow: Arrow) -> Route:
    """Return the way of an arrow between two boxes."""
    if not layout.is_list:
        return Route(_curve(layout, arrow.parent, arrow.child), "right")
    x0, y0 = layout.x[arrow.parent], layout.y[arrow.parent]
    x1, y1 = layout.x[arrow.child], layout.y[arrow.child]
    if not arrow.main:
        return _arc(layout, arrow)
    start = (x0 + STEM, y0 + HEIGHT / 2)
    if x1 <= x0:
        end = (x0 + STEM, y1 - HEIGHT / 2 - 2)
        return Route([start, start, end, end], "down")
    corner, turn, end = (start[0], y1 - 10), (start[0], y1), (x1 - 2, y1)
    return Route([start, start, corner, corner, turn, turn, end], "right")


def _curve(layout: GraphLayout, parent: int, child: int) -> list[tuple[float, float]]:
    """Go rightwards, or around the left where the child is not right."""
    x0, y0 = layout.x[parent] + layout.widths[parent], layout.y[parent]
    x1, y1 = layout.x[child] - 2, layout.y[child]
    if x1 <= x0:
        x0 = layout.x[parent]
        far = min(x0, x1) - 18 - 0.12 * abs(y1 - y0)
        return [(x0, y0), (far, y0), (far, y1), (x1, y1)]
    bend = max(22.0, (x1 - x0) / 2)
    return [(x0, y0), (x0 + bend, y0), (x1 - bend, y1), (x1, y1)]


def _arc(layout: GraphLayout, arrow: Arrow) -> Route:
    """Go from right end to right end, the farther the wider, within the room for arcs."""
    x0, y0 = layout.x[arrow.parent] + layout.widths[arrow.parent], layout.y[arrow.parent]
    x1, y1 = layout.x[arrow.child] + layout.widths[arrow.child] + 2, layout.y[arrow.child]
    far = max(x0, x1) + 16 + min(1.0, abs(y1 - y0) / (16 * ROW)) * (ARCS - 8)
    return Route([(x0, y0), (far, y0), (far, y1), (x1, y1)], "left")
