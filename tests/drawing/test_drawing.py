"""What a drawing of a network says: boxes, folds, widths, shades, and where they stand."""

import re
import xml.etree.ElementTree as ET
from math import sqrt

import numpy as np
import pytest

from tanager.drawing import DrawnGraph, draw_svg, lay_out, plan_drawing
from tanager.drawing.layout import HEIGHT
from tanager.drawing.svg import legend_rows


def tree(n, seed=0, reach=None):
    """A tree with bits for features and edges; `reach` bounds how far back a parent lies."""
    rng = np.random.default_rng(seed)
    parents = tuple(
        () if i == 0 else (int(rng.integers(max(0, i - (reach or i)), i)),) for i in range(n)
    )
    carried = {(p, i): float(rng.gamma(0.5, 0.1)) for i, ps in enumerate(parents) for p in ps}
    names = tuple(f"feature {i} {'x' * int(rng.integers(0, 12))}" for i in range(n))
    return DrawnGraph(names, parents, "class", rng.gamma(0.5, 0.1, n).tolist(), carried)


def two_parents(n, seed=0):
    one = tree(n, seed)
    parents = tuple(
        (*ps, (ps[0] + 1) % i) if i > 2 and (ps[0] + 1) % i != ps[0] else ps
        for i, ps in enumerate(one.parents)
    )
    carried = {(p, i): 0.1 * (1 + at) for i, ps in enumerate(parents) for at, p in enumerate(ps)}
    return DrawnGraph(one.names, parents, "class", one.bits, carried)


def fan(n_leaves):
    """A root with leaves, of which leaf i is the i-th strongest."""
    carried = {(0, i): 1.0 / i for i in range(1, n_leaves + 1)}
    names = ("root", *(f"leaf {i}" for i in range(1, n_leaves + 1)))
    bits = [0.5] + [0.1] * n_leaves
    return DrawnGraph(names, ((), *[(0,)] * n_leaves), "class", bits, carried)


GRAPHS = {
    "tree": tree(60),
    "deep": tree(60, reach=2),
    "chain": tree(60, reach=1),
    "two parents": two_parents(60),
    "fan": fan(40),
    "naive": DrawnGraph(tuple(f"f{i}" for i in range(60)), ((),) * 60, "class", [0.1] * 60, {}),
    "small": tree(6),
    "one": DrawnGraph(("a",), ((),)),
}


def test_shares_are_roots_of_the_share_of_the_most():
    graph = DrawnGraph(tuple("abc"), ((), (0,), (0, 1)), "y", [0.4, 0.1, 0.0],
                  {(0, 1): 0.09, (0, 2): 0.01, (1, 2): 0.04})  # fmt: skip
    plan = plan_drawing(graph)
    assert [box.shade for box in plan.boxes] == pytest.approx([1, 0.5, 0])
    widths = {(a.parent, a.child): a.width for a in plan.arrows}
    assert widths == pytest.approx({(0, 1): 1, (0, 2): 1 / 3, (1, 2): 2 / 3})
    # c stands after b, which says more about it than its first parent a.
    assert [box.parent for box in plan.boxes] == [None, 0, 1]
    assert [(a.parent, a.child) for a in plan.arrows if not a.main] == [(0, 2)]


def test_the_legend_shows_what_the_drawing_uses():
    plan = plan_drawing(tree(20))
    most = max(arrow.bits for arrow in plan.arrows)
    assert plan.legend.widths[0][0] == pytest.approx(most, rel=0.06)
    for bits, share in plan.legend.widths:
        assert share == pytest.approx(sqrt(min(1, bits / most)))
    darkest = max(tree(20).bits)
    for bits, share in plan.legend.shades:
        assert share == pytest.approx(sqrt(min(1, bits / darkest)))
    assert not plan.legend.further
    assert plan_drawing(two_parents(20)).legend.further
    silent = plan_drawing(DrawnGraph(("a", "b"), ((), (0,))))
    assert silent.legend.widths == silent.legend.shades == ()
    assert legend_rows(silent) == []


def test_a_fan_of_leaves_is_folded_to_its_strongest():
    plan = plan_drawing(fan(40))
    assert [box.label for box in plan.boxes] == [
        "root", "leaf 1", "leaf 2", "leaf 3", "leaf 4", "+36 leaves",
    ]  # fmt: skip
    folded = plan.boxes[-1]
    assert folded.members == tuple(range(5, 41))
    assert folded.parent == 0
    into = next(a for a in plan.arrows if a.child == 5)
    assert into.bits == pytest.approx(sum(1 / i for i in range(5, 41)))
    assert plan.legend.folded
    assert all(f"leaf {i}" in draw_svg(plan) for i in range(5, 41))  # in the title of the box


def test_parents_and_small_graphs_are_not_folded():
    assert not plan_drawing(fan(20)).legend.folded  # fewer than 25 features
    assert not plan_drawing(fan(40), fold=False).legend.folded
    grown = fan(40)
    names = (*grown.names, *(f"child {i}" for i in range(1, 41)))
    graph = DrawnGraph(names, (*grown.parents, *((i,) for i in range(1, 41))))
    assert not plan_drawing(graph).legend.folded  # every leaf of the fan is a parent now


def test_arrows_from_further_parents_into_a_fold_are_one_each():
    n = 30
    parents = ((), (0,), *[(0, 1)] * n)
    carried = {(0, 1): 0.5, **{(0, i): 0.2 for i in range(2, n + 2)},
               **{(1, i): 0.1 for i in range(2, n + 2)}}  # fmt: skip
    plan = plan_drawing(
        DrawnGraph(tuple(map(str, range(n + 2))), parents, "y", [0.1] * (n + 2), carried)
    )
    into = [a for a in plan.arrows if plan.boxes[a.child].folded]
    assert [(a.parent, a.main) for a in into] == [(0, True), (1, False)]
    assert [a.bits for a in into] == pytest.approx([0.2 * (n - 4), 0.1 * (n - 4)])


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("fold", [True, False])
def test_every_feature_is_in_one_box_and_every_edge_in_one_arrow(name, fold):
    graph = GRAPHS[name]
    plan = plan_drawing(graph, fold=fold)
    assert sorted(i for box in plan.boxes for i in box.members) == list(range(len(graph.names)))
    place = {i: at for at, box in enumerate(plan.boxes) for i in box.members}
    edges = {(place[p], place[i]) for i, ps in enumerate(graph.parents) for p in ps}
    assert {(a.parent, a.child) for a in plan.arrows} == edges
    assert len(plan.arrows) == len(edges)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("fold", [True, False])
def test_boxes_stand_apart_and_inside(name, fold):
    plan = plan_drawing(GRAPHS[name], fold=fold)
    layout = lay_out(plan)
    left, middle, wide = layout.target
    boxes = [(left, middle, wide), *zip(layout.x, layout.y, layout.widths, strict=True)]
    for i, (x, y, w) in enumerate(boxes):
        assert x >= 0
        assert x + w <= layout.width
        assert HEIGHT / 2 <= y <= layout.height - HEIGHT / 2
        assert not any(
            abs(y - b) < HEIGHT and x < a + c and a < x + w for a, b, c in boxes[i + 1 :]
        )


@pytest.mark.parametrize("name", GRAPHS)
def test_a_drawing_of_sixty_features_is_no_wider_than_a_screen(name):
    plan = plan_drawing(GRAPHS[name])
    layout = lay_out(plan)
    assert layout.width <= 1200
    rows = legend_rows(plan)
    assert all(row[-1].end <= max(500, layout.width) for row in rows)
    for way in [*layout.routes, *layout.class_routes]:
        assert all(-1 <= x <= layout.width for x, _ in way)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("fold", [True, False])
def test_features_stand_below_their_parents_and_the_class_above_all(name, fold):
    plan = plan_drawing(GRAPHS[name], fold=fold)
    layout = lay_out(plan)
    assert all(layout.y[arrow.parent] + HEIGHT < layout.y[arrow.child] for arrow in plan.arrows)
    assert layout.target[1] + HEIGHT < min(layout.y)
    reached = {arrow.child for arrow in plan.arrows}
    assert len(layout.class_routes) == len(plan.boxes) - len(reached)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("fold", [True, False])
def test_arrows_lead_from_box_to_box_and_behind_no_other(name, fold):
    plan = plan_drawing(GRAPHS[name], fold=fold)
    layout = lay_out(plan)
    left, right = np.array(layout.x), np.add(layout.x, layout.widths)
    for arrow, way in zip(plan.arrows, layout.routes, strict=True):
        for (x, y), at, side in ((way[0], arrow.parent, 1), (way[-1], arrow.child, -1)):
            assert left[at] <= x <= right[at]
            assert y == pytest.approx(layout.y[at] + side * HEIGHT / 2)
        points = np.array([bezier(way[i : i + 4], t) for i in range(0, len(way) - 1, 3)
                           for t in np.linspace(0, 1, 9)])  # fmt: skip
        inside = (
            (np.abs(points[:, 1, None] - np.array(layout.y)) < HEIGHT / 2 - 1)
            & (points[:, 0, None] > left + 1)
            & (points[:, 0, None] < right - 1)
        )
        assert not inside.any()


def bezier(points, t):
    (a, b, c, d), s = np.array(points), 1 - t
    return s**3 * a + 3 * s * s * t * b + 3 * s * t * t * c + t**3 * d


def test_a_tree_is_drawn_without_crossings():
    plan = plan_drawing(GRAPHS["tree"])
    layout = lay_out(plan)
    ends = [(way[0][0], way[-1][0], way[0][1], way[-1][1]) for way in layout.routes]
    for a0, a1, top, bottom in ends:
        for b0, b1, other_top, other_bottom in ends:
            if (top, bottom) == (other_top, other_bottom):
                assert (a0 - b0) * (a1 - b1) >= 0


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("interactive", [True, False])
def test_the_svg_has_a_node_a_box_and_a_path_an_arrow(name, interactive):
    plan = plan_drawing(GRAPHS[name])
    svg = draw_svg(plan, interactive=interactive)
    root = ET.fromstring(svg)
    kinds = [element.get("class", "") for element in root.iter("g")]
    assert sum(kind in ("node", "node folded") for kind in kinds) == len(plan.boxes)
    assert sum(kind in ("edge", "edge further") for kind in kinds) == len(plan.arrows)
    assert ('role="button"' in svg) == interactive
    widths = [
        float(w) for w in re.findall(r'<g class="edge[^>]*><path stroke-width="([\d.]+)', svg)
    ]
    assert widths == pytest.approx([1 + 4 * a.width for a in plan.arrows], abs=0.051)


def test_names_are_text():
    graph = DrawnGraph(("<b>", "a&b\x1b[31m"), ((), (0,)), "<i>", [0.1, 0.1], {(0, 1): 0.1})
    svg = draw_svg(plan_drawing(graph), interactive=True)
    texts = [text.text for text in ET.fromstring(svg).iter("text")]
    assert texts[:3] == ["<i>", "<b>", "a&b\\x1b[31m"]
