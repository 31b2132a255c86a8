"""A structure that the user gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tanager.counts import Counts
from tanager.errors import ConfigurationError, listed
from tanager.structure.learner import StructureLearner
from tanager.structure.plan import FitPlan
from tanager.structure.structure import Structure


class Fixed(StructureLearner):
    """A structure that is given, not learned.

    Parameters
    ----------
    parents : mapping of str to sequence of str
        Each feature's parents, in back-off order (the last is dropped first
        where a context was never seen). A feature not named has the class
        alone; the class is always a parent and is not listed.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> from tanager.structure import Fixed
    >>> X = [["a", "a"], ["b", "b"], ["a", "b"], ["b", "a"]] * 5
    >>> clf = BayesNetClassifier(Fixed({"x0": ["x1"]}), "laplace").fit(X, [0, 0, 1, 1] * 5)
    >>> dict(clf.structure_.parents)
    {'x0': ('x1',), 'x1': ()}
    """

    def __init__(self, parents: Mapping[str, Sequence[str]]) -> None:
        self.parents = parents

    def learn(self, counts: Counts, plan: FitPlan) -> Structure:  # noqa: ARG002
        """Check the given parents against the table's columns."""
        if not isinstance(self.parents, Mapping):
            raise ConfigurationError(
                f"Fixed takes a mapping from each feature to its parents, not {self.parents!r}. "
                "For example Fixed({'wet': ['sky']})."
            )
        names = counts.domain.names
        index = {name: at for at, name in enumerate(names)}
        for feature, parents in self.parents.items():
            if isinstance(parents, str):
                raise ConfigurationError(
                    f"The parents of {feature!r} are the string {parents!r}; give a list of names."
                )
            for name in (feature, *parents):
                if name not in index:
                    raise ConfigurationError(
                        f"The given structure names {name!r}, which is not a column of the table. "
                        f"Columns: {listed(names)}."
                    )
        return Structure.from_parents(
            names, [[index[p] for p in self.parents.get(name, ())] for name in names]
        )
