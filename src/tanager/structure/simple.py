"""Structures that aren't searched for: naive Bayes, a random tree, a graph you give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tanager.counts import Counts
from tanager.errors import ConfigurationError, listed
from tanager.structure.structure import FitPlan, Structure, StructureLearner
from tanager.structure.tan import maximum_branching

STREAM = 0x7EEE  # key of the random stream


class Naive(StructureLearner):
    """Naive Bayes: every feature has the class as its only parent.

    Choose it for very few rows, or as the simplest baseline. Needs no pass.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> clf = BayesNetClassifier("naive", "laplace").fit([["a"], ["b"], ["b"]], [0, 1, 1])
    >>> clf.predict_proba([["b"]]).round(3)
    array([[0.229, 0.771]])
    """

    def learn(self, counts: Counts, plan: FitPlan) -> Structure:
        """Return the structure without edges between features."""
        if plan.limits is not None:
            plan.limits.check_learner(0, "Naive")
        names = counts.domain.names
        return Structure.from_parents(names, [()] * len(names))


class RandomTree(StructureLearner):
    """A random order of the features, and for each a parent drawn from the earlier ones.

    Choose it to measure what a learned tree is worth: with trained tables even a random one far
    outperforms naive Bayes. Needs no pass.

    References
    ----------
    Roth, Pernkopf (2020). Differentiable TAN structure learning for Bayesian network classifiers.
    PMLR 138, section 4.2, "TAN Random".

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
        names, generator = counts.domain.names, plan.context.generator(STREAM)
        order = generator.permutation(len(names))
        if plan.limits is not None:
            plan.limits.check_learner(1, "RandomTree")
            drawn = generator.random((len(names), len(names)))
            return Structure.from_tree(names, maximum_branching(drawn, plan.limits))
        parents = np.full(len(names), -1, np.int64)
        for place, feature in enumerate(order[1:], 1):
            parents[feature] = order[generator.integers(place)]
        return Structure.from_tree(names, parents)


@dataclass(eq=False, repr=False)
class Fixed(StructureLearner):
    """A given structure.

    Parameters
    ----------
    parents : mapping of str to sequence of str
        Each feature's parents, in back-off order (the last is dropped first if a context is
        unseen), without the class, which is always one. Features not listed have no others.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> from tanager.structure import Fixed
    >>> X = [["a", "a"], ["b", "b"], ["a", "b"], ["b", "a"]] * 5
    >>> clf = BayesNetClassifier(Fixed({"x0": ["x1"]}), "laplace").fit(X, [0, 0, 1, 1] * 5)
    >>> dict(clf.structure_.parents)
    {'x0': ('x1',), 'x1': ()}
    """

    parents: Mapping[str, Sequence[str]]

    def learn(self, counts: Counts, plan: FitPlan) -> Structure:  # noqa: ARG002
        """Check the given parents against the table's columns."""
        if not isinstance(self.parents, Mapping):
            raise ConfigurationError(
                f"Fixed takes a mapping from each feature to its parents, not {self.parents!r}. "
                "For example Fixed({'wet': ['sky']})."
            )
        names = counts.domain.names
        return Structure.from_parents(names, parents_by_index(self.parents, names, "parents"))


def parents_by_index(
    given: Mapping[str, Sequence[str]], names: Sequence[str], what: str
) -> list[list[int]]:
    """Return every feature's parents as indices, given those of some by name."""
    index = {name: at for at, name in enumerate(names)}
    for feature, parents in given.items():
        if isinstance(parents, str) or not isinstance(parents, Iterable):
            raise ConfigurationError(f"The {what} of {feature!r} are {parents!r}; give a list.")
        for name in (feature, *parents):
            if name not in index:
                raise ConfigurationError(
                    f"The given {what} name {name!r}, which is not a column of the table. "
                    f"Columns: {listed(names)}."
                )
    return [[index[parent] for parent in given.get(name, ())] for name in names]
