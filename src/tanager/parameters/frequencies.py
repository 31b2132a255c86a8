"""Smoothed frequencies: maximum likelihood, Laplace, m-estimate."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from numbers import Real

import numpy as np

from tanager.codes.hashing import Sample, hash_bound
from tanager.counts import ContextTree, Counts
from tanager.numerics import Floats
from tanager.parameters import CountLearner
from tanager.parameters.spread import count_spread
from tanager.parameters.tables import FamilyTable, TreeTable, family_members, log_posterior
from tanager.structure import FitPlan, Structure


def additive_table(tree: ContextTree, added: float, *, backoff: bool) -> FamilyTable:
    """Return (n + added) / (N + added * arity) in every context."""
    total = tree.node_counts() + added * tree.arity
    log_prob = np.log((tree.cell_count + added) / total[tree.cell_nodes()])
    given = tree.without_counts(), log_prob, np.log(added / total)
    return TreeTable(*given, inherit=False, backoff=backoff).compact()


def _log_shares(weights: Floats) -> Floats:
    return np.asarray(np.log(weights / weights.sum()))


class _Additive(CountLearner):
    """Adds the same number of rows to every value of a context."""

    backoff = True

    def family(self, tree: ContextTree) -> FamilyTable:
        """Estimate one family."""
        return additive_table(tree, self._added(tree.arity), backoff=self.backoff)

    def spread(self, tree: ContextTree) -> FamilyTable | None:
        """Return the variances of one family."""
        added = self._added(tree.arity)
        rows, total = tree.cell_count + added, tree.node_counts() + added * tree.arity
        return count_spread(tree, rows, np.full(tree.n_nodes, added), total, backoff=self.backoff)

    @abstractmethod
    def _added(self, arity: int) -> float:
        """Return the number of rows added to each value."""


@dataclass(eq=False, repr=False)
class MaximumLikelihood(_Additive):
    r"""Relative frequencies; zeros become `epsilon`, then the table is renormalised.

    The estimate used by Pernkopf and Bilmes. Choose it to reproduce their results; otherwise the
    m-estimate or the HDP is better calibrated.

    Parameters
    ----------
    epsilon : float, default=1e-5
        Replacement for frequencies of zero.

    Notes
    -----
    A context that never occurred uses the estimate of its longest prefix that did.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> clf = BayesNetClassifier("naive", "ml").fit([["a"], ["b"], ["b"]], [0, 1, 1])
    >>> clf.predict_proba([["b"]]).round(4)
    array([[0., 1.]])
    """

    epsilon: float = 1e-5

    def _check(self) -> None:
        self._allow_numbers("epsilon", most=1)

    def family(self, tree: ContextTree) -> FamilyTable:
        """Estimate one family."""
        total, node = tree.node_counts(), tree.cell_nodes()
        # An empty root is uniform: every value at epsilon, renormalised.
        log_sum = np.log((total > 0) + self.epsilon * (tree.arity - np.diff(tree.node_start)))
        log_prob = np.log(tree.cell_count / total[node]) - log_sum[node]
        log_escape = np.log(self.epsilon) - log_sum
        return TreeTable(tree.without_counts(), log_prob, log_escape, inherit=False).compact()

    def _added(self, arity: int) -> float:  # noqa: ARG002
        return 0.5  # for the variances: Jeffreys' prior

    def log_prior(self, class_counts: Floats) -> Floats:
        """Estimate the class prior the same way."""
        return _log_shares(np.maximum(class_counts / class_counts.sum(), self.epsilon))


@dataclass(eq=False, repr=False)
class Laplace(_Additive):
    r"""Add-alpha smoothing, :math:`(n + \alpha) / (N + \alpha |X|)`, the class included.

    There's no back-off: a context that never occurred has the uniform distribution.

    Parameters
    ----------
    alpha : float, default=1.0

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> from tanager.parameters import Laplace
    >>> clf = BayesNetClassifier("naive", Laplace(alpha=0.5))
    >>> clf.fit([["a"], ["b"], ["b"]], [0, 1, 1]).predict_proba([["b"]]).round(3)
    array([[0.153, 0.847]])
    """

    backoff = False

    alpha: float = 1.0

    def _check(self) -> None:
        self._allow_numbers("alpha")

    def _added(self, arity: int) -> float:  # noqa: ARG002
        return self.alpha

    def log_prior(self, class_counts: Floats) -> Floats:
        """Estimate the class prior the same way."""
        return _log_shares(class_counts + self.alpha)


@dataclass(eq=False, repr=False)
class MEstimate(_Additive):
    r"""The m-estimate with back-off, :math:`(n + m / |X|) / (N + m)`.

    A context that never occurred uses the estimate of its longest prefix that did.

    Parameters
    ----------
    m : float or "cv", default="cv"
        The weight of the uniform distribution, in rows. ``"cv"`` picks the m among 0, 0.05, 0.2, 1,
        5 and 20 with the lowest log-loss on a hold-out set of ``min(N / 10, 5000)`` training rows
        (1 with fewer than ten), then estimates from all rows. ``m=0`` is approximated by 1e-10.

    Notes
    -----
    The class prior always has m = 1. Choosing m costs two or three more passes;
    ``info_["parameters"]`` has the choice and the hold-out log-losses.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> from tanager.parameters import MEstimate
    >>> clf = BayesNetClassifier("naive", MEstimate(m=1.0))
    >>> clf.fit([["a"], ["b"], ["b"]], [0, 1, 1]).predict_proba([["b"]]).round(3)
    array([[0.153, 0.847]])
    """

    candidates = (0.0, 0.05, 0.2, 1.0, 5.0, 20.0)
    max_holdout = 5000
    least = 1e-10

    m: float | str = "cv"

    def choose(self, structure: Structure, counts: Counts, plan: FitPlan) -> MEstimate:
        """Choose m if it's "cv"."""
        self._check()
        if self.m != "cv":
            return self
        context, rows = plan.context, counts.rows
        n_holdout = min(rows.n_rows // 10, self.max_holdout)
        if n_holdout == 0:
            return MEstimate(1.0)
        seed = context.row_seed(*b"m-estimate")
        bound = hash_bound(rows, seed, n_holdout, context)
        rest = Counts(rows.subset(Sample(seed, bound, inside=False)), context)
        codes, labels, weights = rows.subset(Sample(seed, bound)).gather()[:3]
        log_joints = np.tile(self.log_prior(rest.classes), (len(self.candidates), len(labels), 1))
        for at, tree in enumerate(rest.trees(structure)):  # built one at a time, then dropped
            members = family_members(structure, at)
            for m, log_joint in zip(self.candidates, log_joints, strict=True):
                table = MEstimate(m).family(tree)
                table.add_terms(codes, counts.domain.arities, members, log_joint)
        known = weights if weights is not None and weights.sum() > 0 else None
        losses = {}
        for m, log_joint in zip(self.candidates, log_joints, strict=True):
            loss = -log_posterior(log_joint)[np.arange(len(labels)), labels]
            losses[m] = float(np.average(loss, weights=known))
        best = min(losses, key=lambda m: losses[m])
        context.record("parameters").update(m=best, holdout_log_loss=losses)
        return MEstimate(best)

    def _check(self) -> None:
        number = isinstance(self.m, Real) and 0 <= self.m < np.inf
        self._allow("m", self.m == "cv" or number, "'cv', or a number from 0 on")

    def _added(self, arity: int) -> float:
        return max(float(self.m), self.least) / arity

    def log_prior(self, class_counts: Floats) -> Floats:
        """Estimate the class prior with m = 1."""
        return _log_shares(class_counts + 1 / class_counts.shape[0])


@dataclass(eq=False, repr=False)
class Friedman(CountLearner):
    r"""Frequencies smoothed towards the feature's marginal by `n0` virtual rows.

    Every context, however long, is smoothed towards the marginal over all classes, so a small class
    is pulled towards the others. Choose it to reproduce Friedman, Geiger and Goldszmidt (and the
    letter table of Pernkopf and Bilmes); otherwise the m-estimate or the HDP is better.

    Parameters
    ----------
    n0 : float, default=5.0
        Weight of the marginal, in rows.

    Notes
    -----
    :math:`\hat\theta_{x | \Pi} = (n + N_0 \hat P(x)) / (N_\Pi + N_0)`. A context that
    never occurred uses the marginal. The class prior is the class frequencies; frequencies of
    zero become 1e-10.

    References
    ----------
    Friedman, N., Geiger, D. and Goldszmidt, M. (1997). Bayesian network classifiers. Machine
    Learning 29, https://doi.org/10.1023/A:1007465528199, equation 8.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> from tanager.parameters import Friedman
    >>> clf = BayesNetClassifier("naive", Friedman(n0=3.0))
    >>> clf.fit([["a"], ["b"], ["b"]], [0, 1, 1]).predict_proba([["b"]]).round(3)
    array([[0.238, 0.762]])
    """

    least = 1e-10

    n0: float = 5.0

    def _check(self) -> None:
        self._allow_numbers("n0")

    def family(self, tree: ContextTree) -> FamilyTable:
        """Estimate one family."""
        root = slice(0, int(tree.node_start[1]))
        marginal = np.full(tree.arity, self.least)
        if tree.n_cells:
            marginal[tree.cell_value[root]] = tree.cell_count[root] / tree.total
        log_marginal = np.log(marginal / marginal.sum())
        # Shorter contexts repeat the marginal; only full ones have their own counts.
        log_prob, log_escape = log_marginal[tree.cell_value], np.zeros(tree.n_nodes)
        log_escape[0] = np.log(self.least * tree.arity / marginal.sum())
        full, cells = tree.nodes(tree.depth), slice(int(tree.level_cell[-2]), None)
        total = tree.node_counts() + self.n0
        smoothed = tree.cell_count[cells] + self.n0 * np.exp(log_prob[cells])
        log_prob[cells] = np.log(smoothed / total[tree.cell_nodes()[cells]])
        log_escape[full] = np.log(self.n0 / total[full])
        return TreeTable(tree.without_counts(), log_prob, log_escape, inherit=True).compact()

    def spread(self, tree: ContextTree) -> FamilyTable | None:
        """Return the variances of one family, treating the marginal as known."""
        root = slice(0, int(tree.node_start[1]))
        marginal = np.bincount(tree.cell_value[root], tree.cell_count[root], tree.arity)
        added = self.n0 * marginal / max(tree.total, np.finfo(float).tiny)
        unseen = np.full(tree.n_nodes, self.n0 / tree.arity)
        rows, total = tree.cell_count + added[tree.cell_value], tree.node_counts() + self.n0
        return count_spread(tree, rows, unseen, total)

    def log_prior(self, class_counts: Floats) -> Floats:
        """Return the log frequencies of the classes."""
        return _log_shares(np.maximum(class_counts / class_counts.sum(), self.least))
