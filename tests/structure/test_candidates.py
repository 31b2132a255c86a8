"""Candidate parents and image orderings."""

from __future__ import annotations

import numpy as np
import pytest

from tanager.errors import ConfigurationError
from tanager.structure import Differentiable
from tanager.structure.constraints import Limits
from tanager.structure.differentiable import image_order, resolve_candidates

NAMES = [f"p{i}" for i in range(36)]


def resolve(candidates="subset", k=8, order="auto", shape=None, free=False, seed=0):
    ordering = "free" if free else "fixed"
    learner = Differentiable(candidates, k, ordering=ordering, order=order, image_shape=shape)
    return resolve_candidates(learner, Limits.none(NAMES), np.random.default_rng(seed))


@pytest.mark.parametrize("choice", ["A", "B", "C"])
@pytest.mark.parametrize("side", [1, 2, 5, 6])
def test_image_orders_visit_every_pixel_once(choice, side):
    assert sorted(image_order(choice, side, side)) == list(range(side * side))


def test_order_c_goes_outwards_as_described():
    # 4 x 4: the central four, two above, two below, two left, two right, four corners.
    assert image_order("C", 4, 4) == [5, 6, 9, 10, 1, 2, 13, 14, 4, 8, 7, 11, 0, 3, 12, 15]


def test_order_b_pairs_each_pixel_with_its_mirror_image():
    order = image_order("B", 4, 4)
    assert order[:4] == [0, 4, 1, 5]
    mirrored = [(p % 4) * 4 + p // 4 for p in order]
    assert sorted(mirrored) == sorted(order)
    with pytest.raises(ConfigurationError, match="square"):
        image_order("B", 3, 4)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("candidates", ["subset", "neighbours"])
def test_a_smaller_k_gives_subsets(candidates, free):
    small, large = (resolve(candidates, k, free=free) for k in (2, 8))
    assert all(set(a) <= set(b) for a, b in zip(small, large, strict=True))
    assert max(map(len, large)) == 8
    if free:
        assert min(map(len, large)) == 8


@pytest.mark.parametrize("candidates", ["subset", "all", "neighbours"])
def test_a_fixed_ordering_admits_no_cycle(candidates):
    chosen = resolve(candidates)
    waiting = {i: set(c) for i, c in enumerate(chosen)}
    while waiting:
        ready = [i for i, c in waiting.items() if not c & waiting.keys()]
        assert ready
        for i in ready:
            del waiting[i]


def test_all_is_every_earlier_feature_or_every_other():
    assert resolve("all", order="columns") == [list(range(i)) for i in range(36)]
    assert all(len(c) == 35 for c in resolve("all", free=True))


@pytest.mark.parametrize("choice", ["A", "B", "C"])
def test_neighbours_are_the_nearest_earlier_pixels(choice):
    chosen = resolve("neighbours", 3, choice)
    place = {p: at for at, p in enumerate(image_order(choice, 6, 6))}

    def distance(p, q):
        return (p // 6 - q // 6) ** 2 + (p % 6 - q % 6) ** 2

    for pixel, found in enumerate(chosen):
        earlier = [q for q in range(36) if place[q] < place[pixel]]
        assert len(found) == min(3, len(earlier))
        assert all(q in earlier for q in found)
        nearest = sorted(distance(pixel, q) for q in earlier)[: len(found)]
        assert [distance(pixel, q) for q in found] == nearest


def test_orders_by_name_and_rectangles():
    backwards = resolve("all", order=NAMES[::-1])
    assert backwards[35] == []
    assert backwards[0] == list(range(35, 0, -1))
    assert resolve("neighbours", 2, "A", (4, 9))[9] == [0, 1]
    with pytest.raises(ConfigurationError, match="order must name each of the 36 features once"):
        resolve(order=NAMES[:5])


def test_an_order_by_index_is_that_by_name():
    order = np.random.default_rng(3).permutation(36)
    assert resolve("all", order=order) == resolve("all", order=[NAMES[i] for i in order])
