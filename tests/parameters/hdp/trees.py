"""Small context trees for the tests."""

from __future__ import annotations

import numpy as np

from tanager.counts import FamilyCounts


def dense_counts(vector):
    """Return counts (contexts..., value) of one entry of the authors' vectors."""
    counts = np.zeros((*vector["context_arities"], vector["child_arity"]))
    for leaf in vector["counts"]:
        counts[tuple(leaf["ctx"])] = leaf["n"]
    return counts


def dictionary(counts):
    """Return {(context..., value): n} of dense counts."""
    return {tuple(map(int, at)): float(counts[tuple(at)]) for at in np.argwhere(counts > 0)}


def random_counts(seed, shape, rows=60, fraction=False):
    """Return counts (class, parents..., value) of correlated random rows."""
    rng = np.random.default_rng(seed)
    cells = np.prod(shape)
    chance = rng.dirichlet(np.full(cells, 0.3))
    counts = rng.multinomial(rows, chance).reshape(shape).astype(float)
    return counts * rng.uniform(0.2, 2.0, shape) if fraction else counts


def random_tree(seed, shape, **kwargs):
    """Return the tree of `random_counts`."""
    return FamilyCounts.from_dense(random_counts(seed, shape, **kwargs)).tree()


def dense_log_prob(table, tree):
    """Return log P(x | y, parents) as (class, parents..., value)."""
    dense = table.to_dense().log_prob
    assert dense.shape == (*tree.context_arities[1:], tree.arity, tree.context_arities[0])
    return np.moveaxis(dense, -1, 0)
