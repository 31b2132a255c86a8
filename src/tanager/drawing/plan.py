"""The content of a network's drawing: boxes, arrows, and a legend.

A box is a feature, or many leaves of one parent folded into one. The plan is independent of pixels:
widths and shades are shares between 0 and 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

FOLD_FROM = 25  # features; with fewer, every one has a box
MAX_LEAVES, KEPT_LEAVES = 6, 4  # of one parent: of more than the first, the second are kept
MAX_ALONE, KEPT_ALONE = 12, 8  # features with neither parents nor children, next to a tree
MAX_NAIVE, KEPT_NAIVE = 60, 48  # likewise if no feature has a parent
PLAIN_SHADE, PLAIN_WIDTH = 0.35, 0.1  # if the information is unknown
PARTS = (1.0, 0.25, 0.04)  # of the maximum, in the legend


@dataclass(frozen=True)
class DrawnGraph:
    """Features, their parents, and their mutual information."""

    names: tuple[str, ...]
    # of each feature, as positions in `names`, without the class
    parents: tuple[tuple[int, ...], ...]
    target: str = "class"  # name of the class
    bits: Sequence[float] | None = None  # each feature's mutual information with the class
    # the parent's mutual information with the feature given the class, or what `arrow_text` says
    carried: Mapping[tuple[int, int], float] | None = None
    # what the width of an arrow means, for the legend
    arrow_text: str = "bits about the feature, given the class"


class Box(NamedTuple):
    """A feature, or several leaves folded into one box."""

    label: str  # the feature's name, or text such as ``+12 leaves``
    members: tuple[int, ...]  # positions of its features
    parent: int | None  # the box it follows: its most informative parent
    shade: float  # from 0 to 1: square root of its bits relative to the most informative feature

    @property
    def folded(self) -> bool:
        """Whether several features share the box."""
        return len(self.members) > 1


class Arrow(NamedTuple):
    """From box to box."""

    parent: int
    child: int
    main: bool  # whether the child follows this parent; the others are further parents
    bits: float | None  # the arrow's information; into folded leaves, the sum
    width: float  # from 0 to 1: square root of its bits relative to the strongest arrow


class Legend(NamedTuple):
    """Samples of widths and shades: pairs of bits and share, largest first."""

    widths: tuple[tuple[float, float], ...]
    shades: tuple[tuple[float, float], ...]
    further: bool
    folded: bool


class DrawingPlan(NamedTuple):
    """Everything to draw."""

    graph: DrawnGraph
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    legend: Legend


def plan_drawing(graph: DrawnGraph, *, fold: bool = True) -> DrawingPlan:
    """Plan the drawing of a graph.

    fold: whether, in a graph of 25 features or more, many leaves of one parent share a box. A leaf
        has no children. If there are more than six, the four with the strongest arrows keep their
        own boxes.

    >>> graph = DrawnGraph(tuple("abc"), ((), (0,), (0,)), bits=[0.5, 0.1, 0.0],
    ...               carried={(0, 1): 0.2, (0, 2): 0.05})
    >>> plan = plan_drawing(graph)
    >>> [(box.label, box.parent, round(box.shade, 2)) for box in plan.boxes]
    [('a', None, 1.0), ('b', 0, 0.45), ('c', 0, 0.0)]
    >>> [(arrow.parent, arrow.child, arrow.width) for arrow in plan.arrows]
    [(0, 1, 1.0), (0, 2, 0.5)]
    """
    first = _main_parents(graph)
    folds = _folds(graph, first) if fold else []
    hidden = {feature for members in folds for feature in members}
    members = [(feature,) for feature in range(len(graph.names)) if feature not in hidden] + folds
    place = {feature: at for at, group in enumerate(members) for feature in group}
    most = max(graph.bits, default=0.0) if graph.bits is not None else 0.0
    boxes = []
    for group in members:
        parent = first[group[0]]
        bits = None if graph.bits is None else max(graph.bits[feature] for feature in group)
        shade = PLAIN_SHADE if bits is None else _share(bits, most)
        label = graph.names[group[0]]
        if len(group) > 1:
            label = f"+{len(group)} {'features' if parent is None else 'leaves'}"
        boxes.append(Box(label, group, None if parent is None else place[parent], shade))
    arrows = _arrows(graph, boxes, place)
    legend = Legend(
        _samples([arrow.bits for arrow in arrows]),
        () if graph.bits is None else _samples(graph.bits),
        any(not arrow.main for arrow in arrows),
        bool(folds),
    )
    return DrawingPlan(graph, tuple(boxes), arrows, legend)


def _main_parents(graph: DrawnGraph) -> list[int | None]:
    """Return each feature's most informative parent, else its first; None without parents."""
    carried = graph.carried or {}
    out: list[int | None] = []
    for feature, parents in enumerate(graph.parents):
        bits = [carried.get((parent, feature), 0.0) for parent in parents]
        out.append(parents[bits.index(max(bits))] if parents else None)
    return out


def _folds(graph: DrawnGraph, first: list[int | None]) -> list[tuple[int, ...]]:
    """Return the leaves that share a box, by parent, without the strongest of each."""
    if len(graph.names) < FOLD_FROM:
        return []
    is_parent = {parent for parents in graph.parents for parent in parents}
    fans: dict[int | None, list[int]] = {}
    for feature, parent in enumerate(first):
        if feature not in is_parent:
            fans.setdefault(parent, []).append(feature)
    carried, bits = graph.carried or {}, graph.bits or [0.0] * len(graph.names)
    out = []
    for parent, leaves in fans.items():
        most, n_kept = MAX_LEAVES, KEPT_LEAVES
        if parent is None:
            most, n_kept = (MAX_ALONE, KEPT_ALONE) if is_parent else (MAX_NAIVE, KEPT_NAIVE)
        if len(leaves) <= most:
            continue
        strength = {
            leaf: (0.0 if parent is None else carried.get((parent, leaf), 0.0), bits[leaf])
            for leaf in leaves
        }
        ranked = sorted(leaves, key=strength.__getitem__, reverse=True)
        out.append(tuple(sorted(ranked[n_kept:])))
    return out


def _arrows(graph: DrawnGraph, boxes: Sequence[Box], place: Mapping[int, int]) -> tuple[Arrow, ...]:
    """Return the arrows between boxes; those from one parent to folded leaves are merged."""
    totals: dict[tuple[int, int], float | None] = {}
    for feature, parents in enumerate(graph.parents):
        for parent in parents:
            bits = None if graph.carried is None else graph.carried.get((parent, feature))
            edge = place[parent], place[feature]
            before = totals.get(edge)
            totals[edge] = bits if before is None else before + (bits or 0.0)
    most = max((bits for bits in totals.values() if bits is not None), default=0.0)
    arrows = []
    for (parent, child), bits in totals.items():
        width = PLAIN_WIDTH if bits is None else _share(bits, most)
        arrows.append(Arrow(parent, child, boxes[child].parent == parent, bits, width))
    return tuple(arrows)


def _share(bits: float, most: float) -> float:
    # The square root: eyes compare areas, and most arrows are weak compared to the strongest.
    return sqrt(min(1.0, max(0.0, bits / most))) if most > 0 else 0.0


def _samples(values: Iterable[float | None]) -> tuple[tuple[float, float], ...]:
    """Return the maximum, a quarter and a twenty-fifth of it, rounded, each with its share."""
    most = max((value for value in values if value is not None), default=0.0)
    if most <= 0.0:
        return ()
    rounded = [float(f"{most * part:.1g}" if part < 1 else f"{most:.2g}") for part in PARTS]
    return tuple((bits, _share(bits, most)) for bits in rounded)
