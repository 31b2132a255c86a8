"""Each feature's candidate parents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isqrt
from typing import TYPE_CHECKING

import numpy as np

from tanager.errors import ConfigurationError, invalid, listed
from tanager.structure.constraints import Limits
from tanager.structure.ordering import given_order
from tanager.structure.structure import Structure

if TYPE_CHECKING:
    from tanager.structure.differentiable.learner import Differentiable

IMAGE_ORDERS = ("A", "B", "C")


def resolve_candidates(
    learner: Differentiable, limits: Limits, rng: np.random.Generator
) -> list[list[int]]:
    """Return each feature's candidate parents; those for a smaller `k` are a subset."""
    names, free = limits.names, learner.ordering == "free"
    if isinstance(learner.candidates, Mapping):
        given = _given(learner.candidates, names, free=free)
        given = [
            [p for p in pool if allowed[p]]
            for pool, allowed in zip(given, limits.allowed, strict=True)
        ]
        lacking = [f for f, pool in enumerate(given) if not set(limits.required[f]) <= set(pool)]
        if lacking:
            raise ConfigurationError(
                f"The candidates of {names[lacking[0]]!r} lack a parent that the constraints "
                "require. Add it."
            )
        return given
    if learner.candidates not in ("subset", "all", "neighbours"):
        allowed = "'subset', 'all', 'neighbours', or a mapping from features to candidate parents"
        raise invalid("candidates", learner.candidates, allowed)
    pixels = learner.candidates == "neighbours"
    shape = _image_shape(learner.image_shape, len(names)) if pixels else None
    order = feature_order(learner.order, names, shape, rng)
    order = [int(f) for f in limits.arrange(order)]
    earlier = {f: order[:p] for p, f in enumerate(order)}
    if free:
        earlier = {f: [g for g in order if g != f] for f in order}
    chosen: list[list[int]] = [[] for _ in names]
    for feature in order:
        required = list(limits.required[feature])
        pool = [p for p in earlier[feature] if limits.allowed[feature, p] and p not in required]
        if learner.candidates == "subset":
            pool = [int(j) for j in rng.permutation(pool)[: learner.k]] if pool else []
        elif shape is not None:
            pool = _nearest(feature, pool, shape[1])[: learner.k]
        chosen[feature] = required + pool
    return chosen


def feature_order(
    order: str | Sequence[str],
    names: Sequence[str],
    shape: tuple[int, int] | None,
    rng: np.random.Generator,
) -> list[int]:
    """Return the features in the requested order; parents come before children."""
    n = len(names)
    if isinstance(order, str) or not isinstance(order, Iterable):
        choice = ("C" if shape is not None else "random") if order == "auto" else order
        if choice == "random":
            return [int(i) for i in rng.permutation(n)]
        if choice == "columns":
            return list(range(n))
        if choice in IMAGE_ORDERS and shape is not None:
            return image_order(choice, *shape)
        allowed = "'auto', 'random', 'columns', a sequence of all features, and with "
        raise invalid("order", order, allowed + "candidates='neighbours' 'A', 'B' or 'C'")
    return [int(i) for i in given_order(order, names)]


def image_order(choice: str, height: int, width: int) -> list[int]:
    """Return pixel numbers (row by row) in ordering A, B or C of Roth and Pernkopf, section 4.4.

    A goes row by row. B goes through the lower triangle row by row, each pixel
    followed by its mirror image. C goes outwards from the centre: around an
    ordered H x H region first the rows above and below, then the columns left
    and right, then the corners. B and C are for square images; C starts from
    the one central pixel (odd side) or from the central four, row by row.

    >>> image_order("B", 3, 3)
    [0, 3, 1, 4, 6, 2, 7, 5, 8]
    >>> image_order("C", 3, 3)
    [4, 1, 7, 3, 5, 0, 2, 6, 8]
    """
    if choice == "A":
        return list(range(height * width))
    if height != width:
        raise ConfigurationError(
            f"order={choice!r} needs a square image, not {height} x {width}. Hint: use 'A'."
        )
    pixels = _diagonal(width) if choice == "B" else _outwards(width)
    return [row * width + column for row, column in pixels]


def _diagonal(side: int) -> list[tuple[int, int]]:
    pixels = []
    for row in range(side):
        for column in range(row + 1):
            pixels.append((row, column))
            if column < row:
                pixels.append((column, row))
    return pixels


def _outwards(side: int) -> list[tuple[int, int]]:
    low = (side - 1) // 2
    high = side // 2  # the region ordered so far is rows and columns low..high
    pixels = [(row, column) for row in range(low, high + 1) for column in range(low, high + 1)]
    while low > 0:
        inner = range(low, high + 1)
        low, high = low - 1, high + 1
        pixels += [(low, at) for at in inner] + [(high, at) for at in inner]
        pixels += [(at, low) for at in inner] + [(at, high) for at in inner]
        pixels += [(low, low), (low, high), (high, low), (high, high)]
    return pixels


def _nearest(feature: int, pool: list[int], width: int) -> list[int]:
    """Sort a pool by Euclidean distance in the image; ties go to the earlier."""
    row, column = divmod(feature, width)
    distance = [(j // width - row) ** 2 + (j % width - column) ** 2 for j in pool]
    return [pool[at] for at in np.argsort(distance, kind="stable")]


def _image_shape(given: tuple[int, int] | None, n: int) -> tuple[int, int]:
    height, width = given if given is not None else (isqrt(n), isqrt(n))
    if height * width != n:
        raise ConfigurationError(
            f"The {n} features are not the pixels of a {height} x {width} image. "
            "Hint: give image_shape=(height, width), or candidates='subset'."
        )
    return height, width


def _given(
    candidates: Mapping[str, Sequence[str]], names: Sequence[str], *, free: bool
) -> list[list[int]]:
    place = {name: i for i, name in enumerate(names)}
    chosen: list[list[int]] = [[] for _ in names]
    for child, parents in candidates.items():
        if not isinstance(parents, Iterable):
            raise ConfigurationError(
                f"The candidates of {child!r} are {parents!r}; give a list of names."
            )
        unknown = [name for name in (child, *parents) if name not in place]
        if unknown:
            raise ConfigurationError(
                f"candidates names {unknown[0]!r}, which is not a feature. "
                f"Features: {listed(names)}."
            )
        if child in parents or len(set(parents)) != len(parents):
            raise ConfigurationError(
                f"The candidates of {child!r} must be distinct features other than itself."
            )
        chosen[place[child]] = [place[name] for name in parents]
    if not free:
        try:
            Structure.from_parents(names, chosen)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"The candidates admit no order of the features. {error} "
                "Hint: ordering='free' allows any candidates and still returns no cycle."
            ) from None
    return chosen
