"""k-dependence Bayesian classifiers, with a given k or selected by leave-one-out."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from itertools import accumulate
from operator import mul

import numpy as np

from tanager.counts import Counts, Family, build_trees, most_cells
from tanager.engines import FitContext
from tanager.engines.keeping import Store, release
from tanager.numerics import Floats, Ints, split_by_size
from tanager.structure.constraints import Limits
from tanager.structure.leave_one_out import (
    SCORES,
    STRENGTH,
    LeaveOneOut,
    LeaveOneOutTask,
    Tries,
    mean_losses,
)
from tanager.structure.structure import FitPlan, Structure, StructureLearner

GROUP_BYTES = 1 << 27  # tries built together, assuming all rows are distinct


@dataclass(eq=False, repr=False)
class KDB(StructureLearner):
    r"""The k-dependence classifier: each feature has up to k parents in addition to the class.

    Features are ordered by :math:`I(X; Y)`, descending; each takes up to k earlier features with
    the greatest :math:`I(X_i; X_j \mid Y)`. A larger k lowers bias and raises variance: choose it
    by the amount of data, or let `SelectiveKDB` choose.

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
        Subtract the information expected by chance, and leave out parents that do no better:
        choose it for columns with very many values. By default information is the plug-in
        estimate, as in the papers, and a feature takes k parents whenever there are k.

    Notes
    -----
    Features that tell exactly as much about the class are ordered by column, as in the papers'
    programs; with ``adjusted=True``, where much information may be exactly zero, by name. Parents
    are ordered by decreasing information with the feature, which is the back-off order, then by
    that about the class. One pass for the structure; one more for the counts if k > 1.

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
        names = counts.domain.names
        order = limits.arrange(feature_order(counts, adjusted=self.adjusted))
        if self.moral:
            limits = limits.moral(order)
            limits.check_learner(int(self.k), f"KDB(k={self.k}, moral=True)")
        plan.context.record("structure")["order"] = [names[i] for i in order]
        if self.k == 0:
            return Structure.from_parents(names, [()] * len(names))
        information = counts.cmi(adjusted=self.adjusted)
        # With adjustment, anything not above zero is chance.
        above = 0.0 if self.adjusted else -np.inf
        parents = choose_parents(order, information, int(self.k), above, limits, moral=self.moral)
        return Structure.from_parents(names, parents)


def feature_order(counts: Counts, *, adjusted: bool) -> Ints:
    """Return the features by information about the class, ties by column, or name if adjusted."""
    if not adjusted:
        return np.argsort(-counts.mi(), kind="stable")
    names, information = counts.domain.names, counts.mi(adjusted=True)
    return np.array(sorted(range(len(names)), key=lambda i: (-information[i], names[i])), np.int64)


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

    If moral, they are connected: the best k of one earlier feature and its parents, by their sum.
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


@dataclass(eq=False, repr=False)
class SelectiveKDB(StructureLearner):
    r"""kDB with the number of parents and the features chosen by leave-one-out.

    Features and parents are ranked as in `KDB`. The leave-one-out loss of all :math:`(k+1)\,n`
    prefixes of that model is then summed over the rows, and the best prefix is kept. There's no k
    to choose, and features that don't help are dropped.

    Parameters
    ----------
    max_k : int, default=5
        Maximum number of parent features considered.
    score : {'rmse', 'rmse-class-averaged', 'zero-one', 'log-loss'}
        The loss to minimise: the root mean squared error of the true class's probability, the same
        over all classes, the error rate, or the negative log-probability of the true class.
    smoothing : {'m-estimate', 'back-off'}
        How those losses estimate probabilities. 'm-estimate': m = 1, and an unseen context uses
        the next shorter one, as in the original. 'back-off': each is shrunk towards the next
        shorter one with the weight of 30 rows, like HDP tables, with which more parents pay off.
    adjusted : bool, default=False
        Rank features and parents by information minus that expected by chance, as in `KDB`.

    Notes
    -----
    Three passes: pairs of features, families with `max_k` parents, the losses. The row left out is
    removed from its class count and its own cells; a context that becomes empty backs off to the
    next shorter one. Ties prefer fewer parents, then fewer features. A row with integer weight w is
    w equal rows, one of which is left out; any other weight is left out as a whole. A row doesn't
    contribute to a feature it lacks; if it lacks a parent, the higher-ranked ones are used.

    ``info_["structure"]`` has `surface` (the loss, shape (max_k + 1, n)), `k`,
    `n_features`, `score` and `order` (the features' names by rank).

    References
    ----------
    A. M. Martínez, G. I. Webb, S. Chen and N. A. Zaidi (2016), "Scalable learning of Bayesian
    network classifiers", Journal of Machine Learning Research 17(44).

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> from tanager.structure import SelectiveKDB
    >>> X = [["a", "a", "u"], ["b", "b", "u"], ["a", "b", "u"], ["b", "a", "u"]] * 5
    >>> clf = BayesNetClassifier(SelectiveKDB(), "m-estimate").fit(X, [0, 0, 1, 1] * 5)
    >>> dict(clf.structure_.parents)
    {'x0': (), 'x1': ('x0',)}
    >>> clf.info_["structure"]["surface"].round(2).tolist()
    [[0.55, 0.58, 0.58], [0.55, 0.1, 0.1], [0.55, 0.1, 0.1]]
    """

    max_k: int = 5
    score: str = "rmse"
    smoothing: str = "m-estimate"
    _: KW_ONLY
    adjusted: bool = False

    def learn(self, counts: Counts, plan: FitPlan) -> Structure:
        """Learn every feature's parents, then how many parents and features to keep."""
        self._allow_whole("max_k", least=0)
        self._choose("score", SCORES)
        self._choose("smoothing", STRENGTH)
        self._allow_flags("adjusted")
        context, n_features = plan.context, counts.domain.n_features
        max_k = min(int(self.max_k), max(n_features - 1, 0))
        information = np.broadcast_to(0.0, (n_features, n_features))
        if max_k:
            information = counts.cmi(adjusted=self.adjusted)
        limits = plan.limits or Limits.none(counts.domain.names)
        limits.check_learner(max_k, f"SelectiveKDB(max_k={self.max_k})")
        order = limits.arrange(feature_order(counts, adjusted=self.adjusted))
        ranked = choose_parents(order, information, max_k, -np.inf, limits)
        full = Structure.from_parents(counts.domain.names, ranked)
        families = [(int(f), full.parent_indices[f]) for f in order]
        surface = self._score(families, full.max_parents, counts, context)
        # The first minimum in row-major order: fewer parents, then fewer features.
        ends = [place for place, feature in enumerate(order) if limits.required[feature]]
        possible = surface.copy()  # without those that cut a required arc
        possible[: limits.n_required], possible[:, : max(ends, default=0)] = np.inf, np.inf
        k, last = np.unravel_index(int(np.argmin(possible)), surface.shape)
        ranking = [counts.domain.names[i] for i in order]
        facts = {"surface": surface, "k": int(k), "n_features": int(last) + 1}
        context.record("structure").update(order=ranking, score=self.score, **facts)
        kept = tuple(sorted(int(f) for f in order[: last + 1]))
        return Structure(counts.domain.names, kept, tuple(ranked[f][:k] for f in kept))

    def _score(
        self, families: list[Family], max_k: int, counts: Counts, context: FitContext
    ) -> Floats:
        """Return the leave-one-out loss of every (k', n'), shape (max_k + 1, n)."""
        rows, domain = counts.rows, counts.domain
        gaps = np.array([float(joint.sum()) < rows.total_weight for joint in counts.values])
        binary = not gaps.any() and domain.n_classes == 2 and not rows.weighted
        given = SCORES.index(self.score), STRENGTH[self.smoothing], binary
        task = LeaveOneOutTask(domain, counts.classes, max_k, *given)
        sums, states = [], None
        groups = _groups(task, families, rows.n_rows, min(GROUP_BYTES, context.work_limit))
        for at, group in enumerate(groups):
            most, arities = most_cells(len(families)), domain.arities + gaps
            trees = build_trees(rows, group, context, most, arities)
            # States in memory after the first group stay there; the rest goes to a new file.
            store = Store(0 if at else context.work_limit) if at + 1 < len(groups) else None
            tries = Tries.build(task, group, trees, context.check_tables)
            losses = LeaveOneOut(task, tries, states, store)
            del tries, trees
            found, states = context.engine.run(losses, rows, context.progress, "leave-one-out")
            sums.append(found)
        return mean_losses(task, np.concatenate(sums, axis=1))


def _groups(
    task: LeaveOneOutTask, families: list[Family], n_rows: int, limit: int
) -> list[list[Family]]:
    """Split families, in order, so that the tries of a group take about `limit` bytes at most."""
    cell_bytes = 24 + (16 if task.binary else 16 * task.domain.n_classes)
    arities = task.domain.arities.tolist()
    sizes = [
        sum(min(n, n_rows) for n in accumulate((arities[m] for m in (feature, *parents)), mul))
        * cell_bytes
        for feature, parents in families
    ]
    return split_by_size(families, sizes, limit) or [list[Family]()]
