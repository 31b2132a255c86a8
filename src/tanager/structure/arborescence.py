"""Maximum arborescence: the best directed tree where direction matters."""

from __future__ import annotations

import numpy as np

from tanager import native
from tanager.errors import ConfigurationError
from tanager.numerics import Floats, Ints
from tanager.structure.constraints import Limits


def maximum_arborescence(weights: Floats, root: int | None = None) -> Ints:
    """Return each vertex's parent in the heaviest directed spanning tree, -1 for the root.

    ``weights[i, j]``, shape (n, n), is the weight of i as the parent of j, ``-inf`` if there's no
    such edge; with `root` None, the root of the best tree is used. Ties go to the edge from the
    lowest index. Chu–Liu/Edmonds in Tarjan's form for dense graphs, :math:`O(n^2)`: Tarjan
    (1977), doi:10.1002/net.3230070103.

    >>> import numpy as np
    >>> weights = np.array([[0.0, 5.0, 1.0], [6.0, 0.0, 2.0], [1.0, 1.0, 0.0]])
    >>> maximum_arborescence(weights).tolist()
    [1, -1, 1]
    >>> maximum_arborescence(weights, root=0).tolist()
    [-1, 0, 1]
    """
    n = _check(weights, root)
    into = np.zeros((n, n + 1))  # the last column is "no parent", of weight zero
    into[:, :n] = weights.T
    np.fill_diagonal(into, -np.inf)
    if root is not None:
        into[root, :n] = -np.inf
    parents = np.empty(n, np.int64)
    native.find_arborescence(into, parents)
    if np.count_nonzero(parents < 0) > 1:
        raise ConfigurationError(
            "The edges with a finite weight do not connect all vertices from one root. "
            "Hint: leave at least one tree possible."
        )
    return parents


def maximum_branching(weights: Floats, limits: Limits, root_worth: Floats | None = None) -> Ints:
    """Return each feature's parent in the heaviest forest that satisfies constraints, -1 for none.

    weights: shape (n, n); ``weights[i, j]`` is the weight of i as the parent of j.
    limits: with at most one required parent per feature.
    root_worth: shape (n,); the value of leaving a feature without a parent; zero by default.

    An arborescence from an additional vertex, whose arcs mean "no parent".
    """
    n = weights.shape[0]
    free = np.array([not parents for parents in limits.required], np.bool_)
    extended = np.full((n + 1, n + 1), -np.inf)
    open_to = limits.allowed & free[:, None] & (limits.most > 0)[:, None]  # [child, parent]
    extended[:n, :n] = np.where(open_to.T, weights, -np.inf)
    extended[n, :n] = np.where(free, 0.0 if root_worth is None else root_worth, -np.inf)
    for child, parents in enumerate(limits.required):
        for parent in parents:
            extended[parent, child] = 0.0
    parents_of = maximum_arborescence(extended, root=n)[:n]
    return np.where(parents_of == n, -1, parents_of)


def _check(weights: Floats, root: int | None) -> int:
    """Validate the matrix and return its number of vertices."""
    if weights.ndim != 2 or weights.shape[0] != weights.shape[1]:
        raise ConfigurationError(
            f"weights must be a square matrix, one row and column per vertex; got {weights.shape}."
        )
    n = int(weights.shape[0])
    off_diagonal = weights[~np.eye(n, dtype=bool)]
    if np.isnan(off_diagonal).any() or np.isposinf(off_diagonal).any():
        raise ConfigurationError("weights must be finite or -inf. Hint: look for 0/0 and log 0.")
    if root is not None and not 0 <= root < n:
        raise ConfigurationError(f"root={root} is not a vertex. Allowed: 0 to {n - 1}, or None.")
    return n
