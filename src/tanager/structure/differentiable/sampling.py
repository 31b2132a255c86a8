"""Drawing a structure from the distribution over parents."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tanager.structure.arborescence import maximum_arborescence
from tanager.structure.differentiable.model import NO_PARENT, Layout

__all__ = ["Arborescence", "BestParent", "Sampler"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Sampler(Protocol):
    """Turns scores of the slots into the best structure under them.

    With Gumbel noise on the scores it is a draw; without, the most probable
    structure.
    """

    def __call__(self, scores: Floats) -> Ints:
        """Return the chosen slot of every feature, from scores (n_features, n_slots)."""


class BestParent:
    """Each feature takes its best slot: acyclic because a fixed ordering limits the slots.

    With Gumbel noise, an exact draw from the product of softmaxes (the
    Gumbel-max trick; equation 11 of Roth and Pernkopf, 2020).
    """

    def __call__(self, scores: Floats) -> Ints:
        """Return the chosen slots."""
        best: Ints = scores.argmax(axis=1)
        return best


class Arborescence:
    """All features together take the heaviest forest: acyclic in every direction.

    The class is the root of an arborescence over all features, so that "no
    parent" is an edge like the others. With Gumbel noise on every edge this is
    perturb-and-MAP: not an exact draw from the Gibbs distribution over
    forests, but one whose mode is right.

    Parameters
    ----------
    layout : Layout
        Its columns are the candidate parents' indices.
    """

    def __init__(self, layout: Layout) -> None:
        n = layout.column.shape[0]
        used = layout.used()
        self._child, self._slot = np.nonzero(used)
        parents = layout.column[used]
        self._parent = np.where(parents == NO_PARENT, n, parents)
        self._slot_of = np.zeros((n, n + 1), np.int64)
        self._slot_of[self._child, self._parent] = self._slot
        self._n = n

    def __call__(self, scores: Floats) -> Ints:
        """Return the chosen slots."""
        n = self._n
        weights = np.full((n + 1, n + 1), -np.inf)
        weights[self._parent, self._child] = scores[self._child, self._slot]
        parents = maximum_arborescence(weights, root=n)[:n]
        return self._slot_of[np.arange(n), parents]
