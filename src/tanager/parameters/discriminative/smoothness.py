r"""A prior under which neighbouring values of an ordered feature say similar things.

To the ridge on the distance of the parameters from their centre it adds

.. math:: \tfrac{s}{2} \sum_{(a, b)} (\delta_a - \delta_b)^2,

with :math:`\delta` the distance and (a, b) all pairs of cells of a family that
differ in one member alone, by one place in its order: along the feature, and
along each ordered parent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from tanager.parameters.discriminative.objective import Penalty
from tanager.parameters.scores import FamilyCells, Layout

__all__ = ["SmoothPenalty", "by_class", "cell_pairs", "reached", "value_pairs"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

TRACE = 1e-9  # of a row, in cells that have none but are trained through their neighbours


@dataclass(frozen=True)
class SmoothPenalty:
    """A ridge, and a ridge on the differences of neighbours.

    Attributes
    ----------
    ridge : Penalty
    strength : float
        The precision of a difference.
    pairs : ndarray of int64, shape (2, n_pairs)
        Parameters whose difference is small.
    """

    ridge: Penalty
    strength: float
    pairs: Ints

    def value(self, free: Floats) -> tuple[float, Floats]:
        """Return the penalty and its gradient."""
        value, gradient = self.ridge.value(free)
        away = free - self.ridge.centre
        first, second = self.pairs
        gaps = away[second] - away[first]
        pull = self.strength * gaps
        size = gradient.shape[0]
        gradient = gradient + np.bincount(second, pull, size) - np.bincount(first, pull, size)
        return value + 0.5 * float(pull @ gaps), gradient


def cell_pairs(layout: Layout) -> Ints:
    """Return all pairs of neighbouring cells, shape (2, n_pairs).

    A family without cells for every context has no pairs across those that lack them.
    """
    found = [np.zeros((2, 0), np.int64)]
    for family in layout.families:
        contexts = family.prefix_values(family.depth)
        grid = np.arange(family.n_contexts * family.arity)
        values = np.concatenate(
            [np.repeat(contexts, family.arity, axis=1), (grid % family.arity)[None]]
        )
        for axis, member in enumerate(family.members.tolist()):
            n_ordered = layout.domain.n_ordered[member]
            below = np.flatnonzero(values[axis] < n_ordered - 1)
            moved = values[:, below].copy()
            moved[axis] += 1
            place = _find(family, moved)
            known = place >= 0
            found.append(family.start + np.stack([below[known], place[known]]))
    return np.concatenate(found, axis=1)


def _find(family: FamilyCells, values: Ints) -> Ints:
    """Return the cells of members' values (n_members, n), from the family's first; -1 for none."""
    context = np.zeros(values.shape[1], np.int64)
    for depth in range(family.depth):
        context = family.step(context, depth, values[depth])
    return np.where(context >= 0, context * family.arity + values[-1], -1)


def value_pairs(layout: Layout) -> Ints:
    """Return pairs of neighbouring values, as corrections number them without their classes."""
    found, start = [np.zeros((2, 0), np.int64)], 1
    for family in layout.families:
        below = start + np.arange(max(layout.domain.n_ordered[int(family.members[-1])] - 1, 0))
        found.append(np.stack([below, below + 1]))
        start += family.arity
    return np.concatenate(found, axis=1)


def by_class(pairs: Ints, n_classes: int) -> Ints:
    """Return pairs of parameters, one a class, from pairs of cells."""
    return (pairs[:, :, None] * n_classes + np.arange(n_classes)).reshape(2, -1)


def reached(pairs: Ints, counts: Floats) -> Floats:
    """Return counts (n_cells,) with a trace in cells that rows reach through neighbours."""
    size = counts.shape[0]
    links = csr_array(coo_array((np.ones(pairs.shape[1]), (pairs[0], pairs[1])), (size, size)))
    n_parts, part = connected_components(links, directed=False)
    seen = np.bincount(part, counts, n_parts) > 0
    alone = np.bincount(part, minlength=n_parts) == 1
    return np.where(seen[part] & ~alone[part], np.maximum(counts, TRACE), counts)
