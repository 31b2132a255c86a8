"""Sampling a structure from the distribution over parents (Roth and Pernkopf, 2020)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tanager import native
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


class KTreeSampler:
    r"""Features in turn take the best slot whose parents are already connected.

    So every draw is a (partial) k-tree, which has no immoralities. With Gumbel noise it's an
    exact draw from

    .. math:: P(s) = \prod_i \frac{\exp \phi_{i s_i}}
              {\sum_{s' \text{ open given } s_{<i}} \exp \phi_{i s'}}.

    In the backward pass, each feature's softmax over its open slots replaces the choice. An edge
    also gets a gradient for its value to later features: the mean of their gradients over the
    slots it opens, minus the mean without them. Otherwise nothing would favour an edge
    between two features that are informative only together.

    members: shape (n_features, n_slots, k); each slot's parents, padded with -1.
    n_slots: shape (n_features,); the first slot has no parents.
    order: shape (n_features,); candidates come before their children.
    """

    def __init__(self, members: Ints, n_slots: Ints, order: Ints) -> None:
        self._members, self._n_slots, self._order = members, n_slots, order

    def _draw(self, scores: Floats) -> tuple[Ints, Ints, NDArray[np.bool_]]:
        n = self._order.shape[0]
        chosen, joined = np.zeros(n, np.int64), np.zeros((n, n), np.bool_)
        gaps = np.full(scores.shape, -1, np.int64)
        native.draw_ktree(scores, self._members, self._n_slots, self._order, chosen, gaps, joined)
        return chosen, gaps, joined

    def __call__(self, scores: Floats) -> Ints:
        """Return the chosen slots."""
        return self._draw(scores)[0]

    def open_slots(self, scores: Floats) -> NDArray[np.bool_]:
        """Return the slots open to each feature when its turn comes."""
        is_open: NDArray[np.bool_] = self._draw(scores)[1] == 0
        return is_open

    def backward(self, scores: Floats, by_choice: Floats, tau: float) -> Floats:
        """Go back through the softmax over open slots, and through the slots that edges open."""
        _, gaps, joined = self._draw(scores)
        value, by_scores = np.zeros(joined.shape), np.zeros_like(by_choice)
        given = self._members, self._n_slots, self._order
        native.go_back_ktree(scores, by_choice, tau, *given, gaps, joined, value, by_scores)
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
