"""Tree-augmented naive Bayes, and the heaviest trees, undirected and directed."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from tanager import native
from tanager.counts import Counts, ExplainingAway
from tanager.engines.keeping import release
from tanager.errors import ConfigurationError
from tanager.numerics import Floats, Ints
from tanager.structure.constraints import Limits
from tanager.structure.kdb import feature_order
from tanager.structure.structure import FitPlan, Structure, StructureLearner

TIE = 1e-11  # upper bound on the total weight of all roots of a forest


@dataclass(eq=False, repr=False)
class TAN(StructureLearner):
    r"""Tree-augmented naive Bayes: each feature has at most one parent in addition to the class.

    The tree is the maximum spanning tree on :math:`I(X_i; X_j \mid Y)`, which has the highest
    likelihood. A fast, strong default for up to a few thousand rows per class.

    Parameters
    ----------
    score : {"cmi", "ear"}, default="cmi"
        The weight of an edge: :math:`I(X_i; X_j \mid Y)`, or the explaining-away
        residual :math:`I(X_i; X_j \mid Y) - I(X_i; X_j)`, which favours
        dependence induced by the class over dependence that exists anyway.
    root : {"first", "information"}, default="first"
        Where the tree is rooted. The paper leaves it open, and published programs use the first
        column. "information" uses the feature with the greatest :math:`I(X; Y)`, so that column
        order only breaks exact ties. The root decides only the direction of edges, which affects
        smoothed tables slightly.
    adjusted : bool, default=False
        Subtract the information expected by chance, and leave out edges that do no better: choose
        it for columns with very many values, which would otherwise become every feature's parent.
        By default information is the plug-in estimate, as in the papers, and the tree spans all
        features. Not available for "ear".

    Notes
    -----
    Two passes over the rows; time :math:`O(N n^2)`, memory :math:`O(n^2 v^2 C)`; beyond the
    memory limit, more passes. Information is rounded to ten decimals, and ties go to the edge
    to the earlier column; with ``root="information"``, to the feature with more information
    about the class first (then, with ``adjusted=True``, to the name that sorts first).

    References
    ----------
    N. Friedman, D. Geiger, M. Goldszmidt, "Bayesian network classifiers",
    Machine Learning 29 (1997), doi:10.1023/A:1007465528199.

    The residual: J. Bilmes, "Dynamic Bayesian multinets", UAI 2000.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> X = [["a", "a"], ["b", "b"], ["a", "b"], ["b", "a"]] * 5
    >>> clf = BayesNetClassifier("tan", "laplace").fit(X, [0, 0, 1, 1] * 5)
    >>> clf.predict(X[:4]).tolist()  # an exclusive or, beyond naive Bayes
    [0, 0, 1, 1]
    """

    score: str = "cmi"
    root: str = "first"
    _: KW_ONLY
    adjusted: bool = False

    def learn(self, counts: Counts, plan: FitPlan) -> Structure:
        """Learn the tree."""
        self._choose("score", ("cmi", "ear"))
        self._choose("root", ("first", "information"))
        self._allow_flags("adjusted")
        ear = self.score == "ear"
        adjusted = self.adjusted and not ear
        information = counts.score_pairs(ExplainingAway()) if ear else counts.cmi(adjusted=adjusted)
        first = self.root == "first"
        order = np.arange(len(information)) if first else feature_order(counts, adjusted=adjusted)
        if plan.limits is not None:
            parents = _branching(information, order, plan.limits)
        else:
            parents = maximum_spanning_tree(information, order)
        children = np.flatnonzero(parents >= 0)
        edges = information[children, parents[children]]
        release(information)
        if adjusted and plan.limits is None:
            parents[children[edges <= 0]] = -1
            edges = edges[edges > 0]
        plan.context.record("structure")["tree_weight"] = float(sum(edges))
        return Structure.from_tree(counts.domain.names, parents)


def _branching(information: Floats, order: Ints, limits: Limits) -> Ints:
    """Return the heaviest forest under constraints, rooted early in the order if they allow it."""
    limits.check_learner(1, "TAN")
    n = information.shape[0]
    # Information is rounded to ten decimals, so these only break ties.
    worth = (n - np.arange(n)) * (TIE / n**2)
    found = maximum_branching(information[np.ix_(order, order)], limits.take(order), worth)
    parents = np.empty(n, np.int64)
    parents[order] = np.where(found >= 0, order[found], -1)
    return parents


def maximum_spanning_tree(weights: Floats, order: Ints) -> Ints:
    """Return each node's parent, or -1, in the maximum spanning tree from the first of `order`."""
    n, place = weights.shape[0], 0
    parents = np.full(n, -1, np.int64)
    best, outside = np.full(n, -np.inf), np.ones(n, np.bool_)  # in the given order
    for _ in range(n - 1):  # Prim's algorithm; ties go to the first
        outside[place] = False
        row = weights[order[place]][order]
        closer = outside & (row > best)
        best[closer] = row[closer]
        parents[order[closer]] = order[place]
        place = int(np.argmax(np.where(outside, best, -np.inf)))
        release(weights)
    return parents


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

    ``weights[i, j]``, shape (n, n), is the weight of i as the parent of j; `limits` require at most
    one parent per feature; `root_worth`, shape (n,), is the value of having none, by default zero.
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
