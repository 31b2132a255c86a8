"""Tables that maximise the approximate conditional log-likelihood."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tanager.counts import ContextTree
from tanager.engines import FitContext
from tanager.numerics import Floats
from tanager.parameters import CountLearner
from tanager.parameters.tables import FamilyTable, TreeTable
from tanager.structure.acll import family_weights, resolve_beta


@dataclass(eq=False, repr=False)
class ACLLParameters(CountLearner):
    r"""The parameters that maximise the approximate conditional log-likelihood.

    In closed form, from counts: a value's weight is its count in the class minus a share of its
    count over all classes. That discounts whatever all classes have in common, so the tables
    discriminate well but are distorted as probabilities of the features. Designed for `ACLL`
    trees, valid for any structure.

    Parameters
    ----------
    assumption, pseudo_count
        As in `ACLL`; use the same for both.

    Notes
    -----
    :math:`\theta_{jck} \propto \max(N', N_{jck} + \beta \sum_{c'} N_{jc'k})` over
    the values k, and likewise for the class (theorem 3.8, equation 26). A context without
    rows of the class has the uniform distribution.

    References
    ----------
    Carvalho, Adão and Mateus (2013), Entropy 15(7), doi:10.3390/e15072716.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> X = [["a", "a"], ["b", "b"], ["a", "b"], ["b", "a"]] * 20
    >>> clf = BayesNetClassifier("acll", "acll").fit(X, [0, 0, 1, 1] * 20)
    >>> clf.predict_proba(X[:1]).round(2)
    array([[0.71, 0.29]])
    """

    generative = False

    assumption: str | float = "dirichlet"
    pseudo_count: float = 5.0

    def _settled(self, class_counts: Floats, context: FitContext) -> ACLLParameters:
        beta = resolve_beta(self.assumption, class_counts)
        context.record("parameters")["beta"] = beta
        return ACLLParameters(beta, self.pseudo_count)

    def family(self, tree: ContextTree) -> FamilyTable:
        """Estimate one family, given a tree of all rows; only full contexts have estimates."""
        classes = np.zeros(tree.context_arities[0])
        classes[tree.levels[1].value] = tree.levels[1].node_counts()
        beta = resolve_beta(self.assumption, classes)
        floor = float(self.pseudo_count)
        cells = family_weights(tree, beta, floor)
        uniform = -np.log(tree.arity)
        log_prob, log_escape = np.full(tree.n_cells, uniform), np.full(tree.n_nodes, uniform)
        weight = cells.weight[cells.cell, cells.label]
        log_mass = cells.log_mass[cells.context[cells.cell], cells.label]
        full = slice(int(tree.level_cell[-2]), None)
        log_prob[full] = np.log(np.maximum(weight, floor)) - log_mass
        log_escape[tree.cell_nodes()[full]] = np.log(floor) - log_mass
        contexts = tree.without_counts()
        return TreeTable(contexts, log_prob, log_escape, inherit=False, backoff=False).compact()

    def log_prior(self, class_counts: Floats) -> Floats:
        """Estimate the class prior the same way."""
        beta = resolve_beta(self.assumption, class_counts)
        weight = np.maximum(class_counts + beta * class_counts.sum(), self.pseudo_count)
        return np.log(weight / weight.sum())

    def _check(self) -> None:
        self._allow_numbers("pseudo_count")
