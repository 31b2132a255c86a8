"""Neighbouring values taken together, where each alone has too few rows to say anything."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["n_groups", "pool_neighbours"]


def pool_neighbours(weights: ArrayLike, n_ordered: int, most: int) -> NDArray[np.uint16]:
    """Return groups of neighbours of about equal weight, at most so many.

    Parameters
    ----------
    weights : array-like of shape (arity,)
        Rows of each value, or their share.
    n_ordered : int
        The first values stand in an order; the others ("missing") stay alone.
    most : int
        Groups of the ordered values; no more than that are left as they are.

    Examples
    --------
    >>> pool_neighbours([10, 10, 10, 10, 40, 5], n_ordered=5, most=2).tolist()
    [0, 0, 0, 0, 1, 2]
    """
    share = np.asarray(weights, float)
    if n_ordered <= most:
        return np.arange(len(share), dtype=np.uint16)
    ends = np.cumsum(share[:n_ordered])
    middles = (ends - share[:n_ordered] / 2) / max(ends[-1], np.finfo(float).tiny)
    groups = np.unique(np.minimum((middles * most).astype(np.int64), most - 1), return_inverse=True)
    rest = groups[1].max() + 1 + np.arange(len(share) - n_ordered)
    return np.concatenate([groups[1], rest]).astype(np.uint16)


def n_groups(groups: NDArray[np.uint16]) -> int:
    """Return how many groups there are.

    >>> n_groups(np.array([0, 0, 1], np.uint16)), n_groups(np.array([], np.uint16))
    (2, 0)
    """
    return int(groups.max()) + 1 if len(groups) else 0
