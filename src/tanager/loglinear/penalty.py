r"""What is added to the loss: a ridge with a centre, and one on differences of neighbours.

.. math:: \tfrac12 \sum_j \lambda_j \delta_j^2 + \tfrac{s}{2} \sum_{(a, b)} (\delta_a - \delta_b)^2

with :math:`\delta` the distance of the parameters from their centre, :math:`\lambda` one precision
per parameter (those of a layer share theirs), and (a, b) pairs of parameters that are to be
similar: of neighbouring values of an ordered feature.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Penalty", "reached"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

TRACE = 1e-9  # of a row, in cells that have none but are trained through their neighbours
NO_PAIRS = np.zeros((2, 0), np.int64)


@dataclass(frozen=True)
class Penalty:
    """A Gaussian prior.

    Attributes
    ----------
    strength : ndarray of float64, shape (n_free,)
        The precision of each parameter.
    centre : ndarray of float64, shape (n_free,)
    smooth : float
        The precision of a difference.
    pairs : ndarray of int64, shape (2, n_pairs)
        Parameters whose differences are small.
    """

    strength: Floats
    centre: Floats
    smooth: float = 0.0
    pairs: Ints = field(default_factory=lambda: NO_PAIRS)

    def value(self, free: Floats) -> tuple[float, Floats]:
        """Return the penalty and its gradient."""
        away = free - self.centre
        gradient = self.strength * away
        value = 0.5 * float(np.dot(gradient, away))
        if self.smooth and self.pairs.size:
            first, second = self.pairs
            gaps = away[second] - away[first]
            pull, size = self.smooth * gaps, len(free)
            gradient += np.bincount(second, pull, size) - np.bincount(first, pull, size)
            value += 0.5 * float(np.dot(pull, gaps))
        return value, gradient

    def scaled(self, scale: Floats) -> Penalty:
        """Return the same penalty of parameters divided by a scale, (n_free,); without pairs."""
        assert not self.smooth
        return Penalty(self.strength * scale * scale, self.centre / scale)


def reached(pairs: Ints, counts: Floats) -> Floats:
    """Return counts (n_cells,) with a trace in cells that rows reach through neighbours."""
    from scipy.sparse import coo_array, csr_array
    from scipy.sparse.csgraph import connected_components

    size = counts.shape[0]
    links = csr_array(coo_array((np.ones(pairs.shape[1]), (pairs[0], pairs[1])), (size, size)))
    n_parts, part = connected_components(links, directed=False)
    seen = np.bincount(part, counts, n_parts) > 0
    alone = np.bincount(part, minlength=n_parts) == 1
    return np.where(seen[part] & ~alone[part], np.maximum(counts, TRACE), counts)
