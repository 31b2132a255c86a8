"""Drawing a structure from the distribution over parents."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.numerics import Floats, Ints
from tanager.structure.arborescence import maximum_arborescence
from tanager.training.model import NO_PARENT, Slots

# Log-weights more than this below a feature's best are raised to it: a cycle of
# best edges leaves a Laplacian whose condition is the exponential of the gap.
FLOOR = -20.0


class BestParent:
    """Each feature takes its best slot; with Gumbel noise, an exact draw (equation 11 of 002)."""

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
    r"""Features in their turn take the best slot whose parents are joined already.

    So every draw is a (partial) k-tree, which has no immoralities. With Gumbel noise it is an
    exact draw from

    .. math:: P(s) = \prod_i \frac{\exp \phi_{i s_i}}
              {\sum_{s' \text{ open given } s_{<i}} \exp \phi_{i s'}}.

    Backwards, each feature's softmax over its open slots stands in for the choice. An edge is
    pulled at, besides, for what it is worth to later features: the mean of their pulls with the
    slots that it opens, less the mean without them. Without this nothing would draw the edge
    between two features that only together tell something.

    members: shape (n_features, n_slots, k); each slot's parents, -1 where there are fewer than k.
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
        """Return which slots each feature can choose from when its turn comes."""
        is_open: NDArray[np.bool_] = self._draw(scores)[1] == 0
        return is_open

    def backward(self, scores: Floats, by_choice: Floats, tau: float) -> Floats:
        """Go back through the softmax over open slots, and through what edges open."""
        _, gaps, joined = self._draw(scores)
        value, by_scores = np.zeros(joined.shape), np.zeros_like(by_choice)
        given = self._members, self._n_slots, self._order
        native.go_back_ktree(scores, by_choice, tau, *given, gaps, joined, value, by_scores)
        return by_scores


class Arborescence:
    r"""All features together take the heaviest forest: acyclic in every direction.

    The class is the root, so that "no parent" is an edge like the others. With Gumbel noise on
    every edge this is perturb-and-MAP: not an exact draw, but one whose mode is right. Backwards,
    the marginals of all forests stand in for the softmax: by the matrix-tree theorem the edge from
    p to i has :math:`\mu_{pi} = w_{pi} (B_{ii} - B_{ip})`, where :math:`w` are the exponentiated
    scores and B is the inverse of the Laplacian :math:`L_{ii} = \sum_p w_{pi},\ L_{pi} = -w_{pi}`.
    So an edge that would close a cycle with likely ones is not pulled at for its own sake.
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
    """Return the Laplacian (n, n) of weights (n + 1, n) from parents, the root last."""
    laplacian: Floats = np.diag(weights.sum(axis=0)) - weights[:-1]
    return laplacian


def _across(inverse: Floats) -> Floats:
    """Return inverse[i, i] - inverse[i, p] for every edge p -> i, shape (n + 1, n)."""
    across = np.tile(np.diag(inverse), (inverse.shape[0] + 1, 1))
    across[:-1] -= inverse.T
    return across
