r"""Layout of a drawing: positions of boxes and routes of arrows.

The drawing is layered, after Sugiyama, Tagawa and Toda (1981): parents are placed above their
children, arrows that cross a layer get a slot of their own between its boxes, layers are ordered so
that there are few crossings, and slots are then moved towards their neighbours above and below::

            class
              |
             sky
            /   \
         cold    wet
            \   /  |
          slippery umbrella

Lengths are in pixels of a drawing with text 13 pixels high; matplotlib draws in the same units.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import chain, pairwise

import numpy as np

from tanager.drawing.plan import DrawingPlan
from tanager.escaping import cut

FONT, HEIGHT, PAD, MARGIN = 13, 27, 11, 14
LAYER = 62.0  # between the centres of neighbouring layers
APART = 16.0  # between boxes
LANE = 6.0  # width of the slot where an arrow crosses a layer
MAX_NAME = 24
MAX_WIDTH = 1040  # default for a layer; further boxes go to the next
MANY = 100  # boxes
SWEEPS = 12

Point = tuple[float, float]


@dataclass(frozen=True)
class GraphLayout:
    """The positions of everything."""

    x: list[float]  # left end and centre of each box
    y: list[float]
    widths: list[float]
    width: float  # of the whole drawing
    height: float
    target: tuple[float, float, float]  # left end, centre and width of the class's box
    # for each arrow of the plan: a start, then three points per cubic curve
    routes: list[list[Point]]
    class_routes: list[list[Point]]  # from the class to each box without incoming arrows


def shorten(name: str) -> str:
    """Return a name that fits into a box, on one line."""
    return cut(name, MAX_NAME) or "(no name)"


def text_width(text: str) -> float:
    """Return the approximate width of a text in pixels: fonts differ a little."""
    width = 0.0
    for letter in text:
        if unicodedata.east_asian_width(letter) in "WF" or ord(letter) > 0x1F000:
            width += 1.15
        elif letter in "iljtfr.,:;!'|()[] ":
            width += 0.4
        else:
            width += 0.8 if letter in "mwMW@%—" or letter.isupper() else 0.61
    return width * FONT


def lay_out(plan: DrawingPlan, max_width: float = MAX_WIDTH) -> GraphLayout:
    """Place the boxes and arrows of a plan; boxes beyond `max_width` move to further layers."""
    widths = [text_width(shorten(box.label)) + 2 * PAD for box in plan.boxes]
    arrows = [(arrow.parent, arrow.child) for arrow in plan.arrows]
    parts = _components(len(widths), arrows)
    placed = [_narrow_enough(part, widths, arrows, max_width) for part in parts]
    shift, width, height = _pack(placed, max_width)
    target = text_width(shorten(plan.graph.target)) + 2 * PAD
    width, top = max(width, target + 2 * MARGIN), MARGIN + HEIGHT / 2
    x, y = [0.0] * len(widths), [0.0] * len(widths)
    ways: dict[tuple[int, int], list[Point]] = {}
    for part, (right, down) in zip(placed, shift, strict=True):
        right, down = right + MARGIN, down + top + LAYER
        for box in part.boxes:
            x[box] = part.center[box] - widths[box] / 2 + right
            y[box] = part.layer[box] * LAYER + down
        for edge, points in part.ways().items():
            ways[edge] = [(a + right, b + down) for a, b in points]
    roots = sorted(set(range(len(widths))) - {child for _, child in arrows})
    tops = [(x[at] + widths[at] / 2, y[at] - HEIGHT / 2) for at in roots]
    middle = float(np.mean([across for across, _ in tops]))
    over = min(max(middle - target / 2, MARGIN), width - target - MARGIN)
    class_routes = [_curve([(over + target / 2, top + HEIGHT / 2), end]) for end in tops]
    routes = [_curve(ways[edge]) for edge in arrows]
    whole = height + top + LAYER + MARGIN
    return GraphLayout(x, y, widths, width, whole, (over, top, target), routes, class_routes)


def _components(n_boxes: int, arrows: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return the connected components of the boxes; all isolated boxes form one component."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges = (np.ones(len(arrows)), np.array(arrows, int).reshape(-1, 2).T)
    _, part = connected_components(coo_array(edges, (n_boxes, n_boxes)), directed=False)
    joined: dict[int, list[int]] = {}
    for at, one in enumerate(part.tolist()):
        joined.setdefault(one, []).append(at)
    alone = [boxes[0] for boxes in joined.values() if len(boxes) == 1]
    parts = sorted((boxes for boxes in joined.values() if len(boxes) > 1), key=len, reverse=True)
    return [*parts, alone] if alone else parts


def _narrow_enough(
    boxes: list[int], widths: Sequence[float], arrows: Sequence[tuple[int, int]], max_width: float
) -> _Layered:
    """Return boxes in layers, with fewer per layer if there's no room for crossing arrows."""
    # A drawing with very many boxes is wider than a screen in any case.
    for share in (1.0, 0.8, 0.6, 0.45) if len(boxes) <= MANY else (1.0,):
        part = _Layered(boxes, widths, arrows, max_width, share * max_width)
        if part.width <= max_width:
            break
    return part


def _pack(parts: Sequence[_Layered], max_width: float) -> tuple[list[Point], float, float]:
    """Return each component's offset, packed side by side in rows, and the width and height."""
    shift, left, top, lowest, widest = [], 0.0, 0.0, 0.0, 0.0
    for part in parts:
        if left and left + part.width > max_width:
            left, top = 0.0, lowest + LAYER
        shift.append((left, top))
        left += part.width + 2 * APART
        lowest = max(lowest, top + (part.n_layers - 1) * LAYER + HEIGHT / 2)
        widest = max(widest, left - 2 * APART)
    return shift, widest + 2 * MARGIN, lowest


class _Layered:
    """A connected component in layers; slots of arrows are numbered after the boxes."""

    def __init__(
        self,
        boxes: list[int],
        widths: Sequence[float],
        arrows: Sequence[tuple[int, int]],
        max_width: float,
        room: float,
    ) -> None:
        self.boxes, inside = boxes, set(boxes)
        self.arrows = [edge for edge in arrows if edge[0] in inside]
        self.layer = _layers(boxes, widths, self.arrows, room)
        self.n_layers = max(self.layer.values()) + 1
        self.wide = {box: widths[box] for box in boxes}
        self.chains = {edge: self._chain(edge, len(widths)) for edge in self.arrows}
        rows: list[list[int]] = [[] for _ in range(self.n_layers)]
        for at, layer in self.layer.items():
            rows[layer].append(at)
        self.up: dict[int, list[int]] = {at: [] for at in self.layer}
        self.down: dict[int, list[int]] = {at: [] for at in self.layer}
        for upper, lower in chain.from_iterable(map(pairwise, self.chains.values())):
            self.up[lower].append(upper)
            self.down[upper].append(lower)
        self.rows = _with_few_crossings(rows, self.up, self.down)
        self.center = self._centers(max_width)  # relative to the left end of the component
        self.width = max(self.center[at] + self.wide[at] / 2 for at in self.layer)

    def _chain(self, edge: tuple[int, int], n_boxes: int) -> list[int]:
        """Return an arrow's chain: its parent, a slot in each layer that it crosses, its child."""
        parent, child = edge
        lanes = []
        for layer in range(self.layer[parent] + 1, self.layer[child]):
            lanes.append(n_boxes + len(self.wide))
            self.layer[lanes[-1]], self.wide[lanes[-1]] = layer, LANE
        return [parent, *lanes, child]

    def _centers(self, max_width: float) -> dict[int, float]:
        """Return the centre of each place: near its neighbours, without overlaps."""
        center: dict[int, float] = {}
        for row in self.rows:
            left = 0.0
            for at in row:
                center[at] = left + self.wide[at] / 2
                left += self.wide[at] + APART
        for sweep in range(2 * SWEEPS):
            for row in self.rows if sweep % 2 else reversed(self.rows):
                wanted = [
                    float(np.mean([center[one] for one in near])) if near else center[at]
                    for at in row
                    for near in [self.up[at] + self.down[at]]
                ]
                gaps = [
                    (self.wide[a] + self.wide[b]) / 2 + min(APART, self.wide[a], self.wide[b])
                    for a, b in pairwise(row)
                ]
                ends = self.wide[row[0]] / 2, max_width - self.wide[row[-1]] / 2
                center.update(zip(row, _kept_apart(wanted, gaps, ends), strict=True))
        left = min(center[at] - self.wide[at] / 2 for at in center)
        return {at: middle - left for at, middle in center.items()}

    def ways(self) -> dict[tuple[int, int], list[Point]]:
        """Return the points of each arrow, from the bottom of a box to the top of another."""
        starts = {at: self._ports(at, self.down[at]) for at in self.boxes}
        ends = {at: self._ports(at, self.up[at]) for at in self.boxes}
        out = {}
        for (parent, child), (_, *lanes, _) in self.chains.items():
            first, last = (lanes[0], lanes[-1]) if lanes else (child, parent)
            points = [(starts[parent][first], self.layer[parent] * LAYER + HEIGHT / 2)]
            for lane in lanes:
                y = self.layer[lane] * LAYER
                points += [(self.center[lane], y - HEIGHT / 2), (self.center[lane], y + HEIGHT / 2)]
            points.append((ends[child][last], self.layer[child] * LAYER - HEIGHT / 2))
            out[parent, child] = points
        return out

    def _ports(self, box: int, joined: Sequence[int]) -> dict[int, float]:
        """Return where arrows leave or enter a box, in the order of their other ends."""
        order = sorted(joined, key=lambda at: self.center[at])
        room = min(self.wide[box] - 2 * PAD, 22.0 * (len(order) - 1))
        step = room / (len(order) - 1) if len(order) > 1 else 0.0
        return {at: self.center[box] - room / 2 + step * i for i, at in enumerate(order)}


def _layers(
    boxes: Sequence[int],
    widths: Sequence[float],
    arrows: Sequence[tuple[int, int]],
    max_width: float,
) -> dict[int, int]:
    """Return each box's layer: below all its parents, with no layer much wider than allowed."""
    children: dict[int, list[int]] = {at: [] for at in boxes}
    sorter = TopologicalSorter[int](dict.fromkeys(boxes, ()))
    for parent, child in arrows:
        children[parent].append(child)
        sorter.add(child, parent)
    order = list(sorter.static_order())
    depth = dict.fromkeys(boxes, 0)  # of the descendants
    for at in reversed(order):
        depth[at] = max((depth[child] + 1 for child in children[at]), default=0)
    layer = dict.fromkeys(boxes, 0)
    room: dict[int, float] = {}
    # Boxes with the deepest descendants go first; the others wait for a layer with room.
    for at in sorted(order, key=lambda at: -depth[at]):
        taken = layer[at]
        while room.get(taken, 0.0) > 0 and room[taken] + widths[at] > max_width:
            taken += 1
        layer[at] = taken
        room[taken] = room.get(taken, 0.0) + widths[at] + APART
        for child in children[at]:
            layer[child] = max(layer[child], taken + 1)
    return layer


def _with_few_crossings(
    rows: list[list[int]], up: dict[int, list[int]], down: dict[int, list[int]]
) -> list[list[int]]:
    """Return the rows ordered for few crossings: each place at the centre of its neighbours."""
    best, fewest = rows, _crossings(rows, down)
    for sweep in range(2 * SWEEPS):
        if fewest == 0:
            break
        rows = [list(row) for row in rows]
        near, step = (down, -1) if sweep % 2 else (up, 1)
        for beside, number in pairwise(range(len(rows))[::step]):
            place = {at: float(i) for i, at in enumerate(rows[beside])}
            own = {at: float(i) for i, at in enumerate(rows[number])}
            middle = {
                at: float(np.mean([place[one] for one in near[at]])) if near[at] else own[at]
                for at in own
            }
            rows[number] = sorted(own, key=lambda at: (middle[at], own[at]))
        found = _crossings(rows, down)
        if found < fewest:
            best, fewest = rows, found
    return best


def _crossings(rows: Sequence[Sequence[int]], down: dict[int, list[int]]) -> int:
    """Return the number of arrow crossings between neighbouring rows."""
    total = 0
    for upper, lower in pairwise(rows):
        place = {at: i for i, at in enumerate(lower)}
        seen: list[int] = []
        for at in upper:
            ends = sorted(place[one] for one in down[at])
            total += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return total


def _kept_apart(wanted: Sequence[float], gaps: Sequence[float], ends: Point) -> list[float]:
    """Return the positions nearest to those wanted (least squares) that keep order and gaps."""
    from scipy.optimize import isotonic_regression

    offsets = np.concatenate([[0.0], np.cumsum(gaps)])
    level = isotonic_regression(np.asarray(wanted) - offsets).x
    # Between the ends; if the gaps leave no room, from the first.
    level = np.clip(level, ends[0], max(ends[0], ends[1] - offsets[-1]))
    return [float(place) for place in level + offsets]


def _curve(points: Sequence[Point]) -> list[Point]:
    """Return cubic curves through points that pass each of them vertically."""
    out = [points[0]]
    for (x0, y0), (x1, y1) in pairwise(points):
        half = (y0 + y1) / 2
        out += [(x0, half), (x1, half), (x1, y1)]
    return out
