"""The best directed spanning tree by looking at every one."""

from __future__ import annotations

from itertools import product

import numpy as np


def best_arborescence_weight(weights: np.ndarray, root: int | None = None) -> float:
    """Largest total weight over all parent vectors that form a tree."""
    n = weights.shape[0]
    best = -np.inf
    for parents in product(range(-1, n), repeat=n):
        if sum(p < 0 for p in parents) != 1 or any(p == v for v, p in enumerate(parents)):
            continue
        if root is not None and parents[root] != -1:
            continue
        if is_tree(parents):
            best = max(best, tree_weight(weights, parents))
    return best


def is_tree(parents) -> bool:
    """Whether every vertex reaches the one root."""
    n = len(parents)
    if sum(p < 0 for p in parents) != 1:
        return False
    for v in range(n):
        for _ in range(n):
            if v < 0:
                break
            v = parents[v]
        if v >= 0:
            return False
    return True


def tree_weight(weights: np.ndarray, parents) -> float:
    """Total weight of a tree's edges."""
    return float(sum(weights[p, v] for v, p in enumerate(parents) if p >= 0))
