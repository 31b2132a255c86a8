"""The counts of a fit, kept so that `partial_fit` can add rows to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Rows
from tanager.counts import Counts, FamilyCounts, Trees
from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.options import identify_option
from tanager.parameters import CountLearner, ParameterLearner, Tables
from tanager.parameters.registry import resolve_pair, resolve_parameters
from tanager.structure import FitPlan, Structure


class Asked(NamedTuple):
    """A learner as it was asked for."""

    text: str
    options: Any


@dataclass(frozen=True, eq=False)
class KeptCounts:
    """A learner whose choices are made, with the counts it has seen."""

    learner: CountLearner
    classes: NDArray[np.float64]  # (n_classes,)
    families: list[FamilyCounts]
    asked: tuple[Asked, Asked]  # the learners of structure and parameters as they were asked for

    @classmethod
    def start(
        cls,
        learner: ParameterLearner,
        structure: Structure,
        counts: Counts,
        plan: FitPlan,
        asked: tuple[Any, Any],
    ) -> KeptCounts | None:
        """Keep the counts of a fit, if its parameters come from counts alone."""
        if not isinstance(learner, CountLearner):
            return None
        classes, trees = learner.prior_counts(structure, counts, plan)
        return cls(learner, classes, list(trees.counts), _asked(*asked))

    def check(self, structure: Any, parameters: Any) -> None:
        """Refuse learners that are not those of the first rows."""
        now = _asked(structure, parameters)
        for axis, given, first in zip(("structure", "parameters"), now, self.asked, strict=True):
            if given.options != first.options:
                raise ConfigurationError(
                    f"{axis}={given.text}, but the first rows were learned with "
                    f"{axis}={first.text}. partial_fit goes on with the same learners: set it "
                    "back, or fit on all rows."
                )

    def add(self, rows: Rows, structure: Structure, context: FitContext) -> KeptCounts:
        """Return the counts with more rows."""
        counts = Counts(rows, context)
        added = counts.trees(structure).counts
        families = [old.plus(new) for old, new in zip(self.families, added, strict=True)]
        return replace(self, classes=self.classes + counts.classes, families=families)

    def tables(self, context: FitContext) -> Tables:
        """Estimate the tables from all counts so far."""
        return self.learner.from_counts(self.classes, Trees(self.families), context)


def _asked(structure: Any, parameters: Any) -> tuple[Asked, Asked]:
    one, other = resolve_pair(structure, parameters)
    return _options(one), _options(other)


def _options(learner: Any) -> Asked:
    """Return a learner as a text and as data; a function without a name stands for itself."""
    return Asked(repr(learner), identify_option(learner, "", lambda value, _: value))


class OnlyFromCounts:
    """A method that is there where the parameters come from counts, and says why where not."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, classifier: Any, kind: type) -> Any:
        if classifier is None:
            return self._method
        if not isinstance(resolve_parameters(classifier.parameters), CountLearner):
            raise AttributeError(
                "partial_fit needs parameters that are estimated from counts alone, not "
                f"{classifier.parameters!r}. Use 'hdp', 'm-estimate', 'friedman', "
                "'laplace', 'ml' or 'acll', or fit on all rows at once."
            )
        return MethodType(self._method, classifier)
