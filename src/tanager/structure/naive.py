"""Naive Bayes: no feature conditions another."""

from __future__ import annotations

from tanager.counts import Counts
from tanager.structure.learner import StructureLearner
from tanager.structure.plan import FitPlan
from tanager.structure.structure import Structure


class Naive(StructureLearner):
    """Naive Bayes: every feature has the class as its only parent.

    Choose it for very few rows, or as the plainest baseline. Needs no pass.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> clf = BayesNetClassifier("naive", "laplace").fit([["a"], ["b"], ["b"]], [0, 1, 1])
    >>> clf.predict_proba([["b"]]).round(3)
    array([[0.229, 0.771]])
    """

    def learn(self, counts: Counts, plan: FitPlan) -> Structure:
        """Return the structure without an edge between features."""
        if plan.limits is not None:
            plan.limits.check_learner(0, "Naive")
        names = counts.domain.names
        return Structure.from_parents(names, [()] * len(names))
