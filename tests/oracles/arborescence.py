"""The best directed spanning tree by looking at every one."""

from __future__ import annotations

from itertools import product

import numpy as np


def best_arborescence(weights: np.ndarray, root: int | None = None) -> tuple[int, ...]:
    """Parents of the heaviest of all trees, -1 for the root."""
    n = weights.shape[0]
    trees = [
        parents
        for parents in product(range(-1, n), repeat=n)
        if is_tree(parents) and (root is None or parents[root] == -1)
    ]
    return max(trees, key=lambda parents: tree_weight(weights, parents))


def best_arborescence_weight(weights: np.ndarray, root: int | None = None) -> float:
    """Largest total weight over all parent vectors that form a tree."""
    return tree_weight(weights, best_arborescence(weights, root))


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
