"""A tree drawn at random: the baseline of structure learning."""

from __future__ import annotations

from tanager.counts import Counts
from tanager.structure.arborescence import maximum_branching
from tanager.structure.learner import StructureLearner
from tanager.structure.plan import FitPlan
from tanager.structure.structure import Structure

STREAM = 0x7EEE  # names the random stream among those of a fit


class RandomTree(StructureLearner):
    """A random order of the features, and for each a parent drawn from the earlier ones.

    Choose it to see what a learned tree is worth: with trained tables even a
    random one is far ahead of naive Bayes. Needs no pass.

    References
    ----------
    Roth, Pernkopf (2020). Differentiable TAN structure learning for Bayesian
    network classifiers. PMLR 138, section 4.2, "TAN Random".

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> X = [["a", "u", "s"], ["b", "v", "s"], ["b", "u", "t"]]
    >>> clf = BayesNetClassifier("random", "laplace", random_state=0).fit(X, [0, 1, 1])
    >>> sum(map(len, clf.structure_.parents.values()))
    2
    """

    def learn(self, counts: Counts, plan: FitPlan) -> Structure:
        """Draw the tree."""
        context = plan.context
        names = counts.domain.names
        generator = context.generator(STREAM)
        order = generator.permutation(len(names)).tolist()
        parents: list[tuple[int, ...]] = [()] * len(names)
        if plan.limits is not None:
            plan.limits.check_learner(1, "RandomTree")
            drawn = generator.random((len(names), len(names)))
            found = maximum_branching(drawn, plan.limits)
            return Structure.from_parents(names, [() if p < 0 else (int(p),) for p in found])
        for place, feature in enumerate(order):
            if place:
                parents[feature] = (order[int(generator.integers(place))],)
        return Structure.from_parents(names, parents)
