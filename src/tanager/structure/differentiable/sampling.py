"""Sampling a structure from the distribution over parents (Roth and Pernkopf, 2020)."""

from __future__ import annotations

import numpy as np

from tanager.numerics import Floats, Ints
from tanager.structure.arborescence import maximum_arborescence
from tanager.training.model import NO_PARENT, Slots

# Log-weights further than this below a feature's best are raised to this bound: a cycle of
# best edges gives a Laplacian whose condition number is the exponential of the gap.
FLOOR = -20.0


class BestParent:
    """Each feature takes its best slot; with Gumbel noise, an exact draw (equation 11)."""

    def __call__(self, scores: Floats) -> Ints:
        """Return the chosen slots."""
        best: Ints = scores.argmax(axis=1)
        return best

    def backward(self, scores: Floats, by_choice: Floats, tau: float) -> Floats:
        """Go back through the softmax of equation 13."""
        soft = np.exp((scores - scores.max(axis=1, keepdims=True)) / tau)
        soft /= soft.sum(axis=1, keepdims=True)
        mean = (soft * by_choice).sum(axis=1, keepdims=True)
        by_scores: Floats = soft * (by_choice - mean) / tau
        return by_scores


class Arborescence:
    r"""All features jointly take the heaviest forest: acyclic, with edges in either direction.

    The class is the root, so "no parent" is an edge like any other. With Gumbel noise on
    every edge this is perturb-and-MAP: not an exact draw, but one with the right mode. Backwards,
    the marginals over all forests replace the softmax: by the matrix-tree theorem the edge from
    p to i has :math:`\mu_{pi} = w_{pi} (B_{ii} - B_{ip})`, where :math:`w` are the exponentiated
    scores and B is the inverse of the Laplacian :math:`L_{ii} = \sum_p w_{pi},\ L_{pi} = -w_{pi}`.
    So an edge that would close a cycle with likely ones gets no gradient of its own.
    """

    def __init__(self, slots: Slots) -> None:
        n = slots.column.shape[0]
        used = slots.used()
        self._child, self._slot = np.nonzero(used)
        parents = slots.column[used]
        self._parent = np.where(parents == NO_PARENT, n, parents)
        self._slot_of = np.zeros((n, n + 1), np.int64)
        self._slot_of[self._child, self._parent] = self._slot
        self._n = n

    def backward(self, scores: Floats, by_choice: Floats, tau: float) -> Floats:
        """Go back through the marginals: their Jacobian, the Gibbs covariance, is symmetric."""
        n, child, parent = self._n, self._child, self._parent
        log_weights = (scores - scores.max(axis=1, keepdims=True)) / tau
        weights = np.zeros((n + 1, n))
        moved = np.zeros((n + 1, n))
        weights[parent, child] = np.exp(np.maximum(log_weights, FLOOR)[child, self._slot])
        moved[parent, child] = weights[parent, child] * by_choice[child, self._slot]
        inverse: Floats = np.linalg.inv(_laplacian(weights)).astype(np.float64, copy=False)
        change: Floats = -inverse @ _laplacian(moved) @ inverse
        by_edge = moved * _across(inverse) + weights * _across(change)
        by_scores = np.zeros_like(scores)
        by_scores[child, self._slot] = by_edge[parent, child] / tau
        return by_scores

    def __call__(self, scores: Floats) -> Ints:
        """Return the chosen slots."""
        n = self._n
        weights = np.full((n + 1, n + 1), -np.inf)
        weights[self._parent, self._child] = scores[self._child, self._slot]
        parents = maximum_arborescence(weights, root=n)[:n]
        return self._slot_of[np.arange(n), parents]


def _laplacian(weights: Floats) -> Floats:
    """Return the Laplacian (n, n) of weights (n + 1, n) from parents, the root in the last row."""
    laplacian: Floats = np.diag(weights.sum(axis=0)) - weights[:-1]
    return laplacian


def _across(inverse: Floats) -> Floats:
    """Return inverse[i, i] - inverse[i, p] for every edge p -> i, shape (n + 1, n)."""
    across = np.tile(np.diag(inverse), (inverse.shape[0] + 1, 1))
    across[:-1] -= inverse.T
    return across
