"""k-dependence Bayesian classifiers."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from tanager.counts import Counts
from tanager.engines.keeping import release
from tanager.numerics import Floats, Ints
from tanager.structure.chance import adjusted_cmi, adjusted_mi
from tanager.structure.constraints import Limits
from tanager.structure.learner import FitPlan, StructureLearner
from tanager.structure.structure import Structure


@dataclass(eq=False, repr=False)
class KDB(StructureLearner):
    r"""The k-dependence classifier: each feature has up to k parents in addition to the class.

    Features are ordered by :math:`I(X; Y)`, descending; each takes up to k
    earlier features with the greatest :math:`I(X_i; X_j \mid Y)`. A larger k
    lowers bias and raises variance: choose it by the amount of data, or let
    `SelectiveKDB` choose.

    Parameters
    ----------
    k : int, default=1
        Maximum number of parent features. ``k=0`` is naive Bayes.
    moral : bool, default=False
        Whether the parents of each feature must be connected to each other: a feature then takes
        the best k among one earlier feature and its parents. Such a structure (a k-tree, or part of
        one) has no immoralities, so discriminative tables on it form a proper network. With k=1
        every structure is moral.
    adjusted : bool, default=False
        Subtract the information expected by chance (`adjusted_cmi`,
        `adjusted_mi`), and leave out parents that do no better than chance: choose it
        for columns with very many values. By default information is the plug-in
        estimate, as in the papers, and a feature takes k parents whenever there are k.

    Notes
    -----
    Features that tell exactly as much about the class are ordered by column, as in the papers'
    programs; with ``adjusted=True``, where much information may be exactly zero, by name.
    Among parents that tie, the one that tells more about the class comes first. Parents are
    ordered by decreasing information with the feature, which is the back-off order. One pass
    for the structure; one more for the counts if k > 1.

    References
    ----------
    M. Sahami, "Learning limited dependence Bayesian classifiers", KDD 1996.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> from tanager.structure import KDB
    >>> X = [["a", "a"], ["b", "b"], ["a", "b"], ["b", "a"]] * 5
    >>> clf = BayesNetClassifier(KDB(k=1), "laplace").fit(X, [0, 0, 1, 1] * 5)
    >>> dict(clf.structure_.parents)
    {'x0': (), 'x1': ('x0',)}
    """

    k: int = 1
    _: KW_ONLY
    moral: bool = False
    adjusted: bool = False

    def learn(self, counts: Counts, plan: FitPlan) -> Structure:
        """Learn the parents."""
        self._allow_whole("k", least=0)
        self._allow_flags("moral", "adjusted")
        limits = plan.limits or Limits.none(counts.domain.names)
        limits.check_learner(int(self.k), f"KDB(k={self.k})")
        order = limits.arrange(feature_order(counts, adjusted=self.adjusted))
        if self.moral:
            limits = limits.moral(order)
            limits.check_learner(int(self.k), f"KDB(k={self.k}, moral=True)")
        plan.context.record("structure")["order"] = [counts.domain.names[i] for i in order]
        if self.k == 0:
            return Structure.from_tree(counts.domain.names, [-1] * counts.domain.n_features)
        information = adjusted_cmi(counts) if self.adjusted else counts.cmi()
        # With adjustment, anything not above zero is chance.
        above = 0.0 if self.adjusted else -np.inf
        parents = choose_parents(order, information, int(self.k), above, limits, moral=self.moral)
        return Structure.from_parents(counts.domain.names, parents)


def feature_order(counts: Counts, *, adjusted: bool) -> Ints:
    """Return the features by decreasing information about the class.

    Ties go to the earlier column; if adjusted, when many are no better than chance, by name.
    """
    if not adjusted:
        return information_order(counts.mi())
    names, information = counts.domain.names, adjusted_mi(counts)
    found = sorted(range(len(names)), key=lambda i: (-information[i], names[i]))
    return np.array(found, np.int64)


def information_order(information: Floats) -> Ints:
    """Return the features by decreasing information, ties by column."""
    return np.argsort(-information, kind="stable").astype(np.int64)


def choose_parents(
    order: Ints,
    information: Floats,
    k: int,
    above: float = -np.inf,
    limits: Limits | None = None,
    *,
    moral: bool = False,
) -> list[tuple[int, ...]]:
    """Return up to k earlier features as each one's parents: required ones, then the best.

    If moral, they are the best k of one earlier feature and its parents: the set with the
    greatest sum, all connected to each other.
    """
    limits = limits or Limits.none([""] * order.shape[0])
    parents: list[tuple[int, ...]] = [()] * order.shape[0]
    for place, feature in enumerate(order):
        greatest, earlier = -np.inf, order[:place]
        cliques = [np.array([p, *parents[p]]) for p in earlier] if moral else [earlier]
        for among in cliques:
            required, others, room = limits.parents_of(int(feature), among, k)
            best = others[np.argsort(-information[feature, others], kind="stable")[:room]]
            best = best[information[feature, best] > above]
            total = float(information[feature, best].sum())
            if total > greatest and set(required) <= set(among):
                greatest, parents[feature] = total, (*required, *map(int, best))
        release(information)
    return parents
