"""The members of a pool: a learner, and how many parents of each feature it sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.parameters.discriminative import Discriminative
from tanager.parameters.learner import Choice, ParameterLearner
from tanager.parameters.tables import Tables
from tanager.structure import Structure

__all__ = ["Member", "Spec", "resolve_members"]

TOL = 1e-5  # of the default members' optimisation: beyond it the pool no longer changes

Spec = str | ParameterLearner | tuple[str | ParameterLearner, int]


class Member(NamedTuple):
    """A learner and the structure it sees."""

    learner: ParameterLearner
    structure: Structure

    def choose(self, counts: Counts, context: FitContext) -> Choice:
        """Make all choices of the learner."""
        return self.learner.choose(self.structure, counts, context.inner())

    def learn(self, counts: Counts, context: FitContext) -> Tables:
        """Learn the member's tables."""
        return self.learner.learn(self.structure, counts, context)

    def describe(self) -> str:
        """Return the member as text: the learner, and the parents it sees."""
        return f"{self.learner!r}, at most {self.structure.max_parents} parents"


def resolve_members(specs: Sequence[Spec] | None, structure: Structure) -> list[Member]:
    """Return the members of a pool on a structure; None is the default pool."""
    if specs is None:
        specs = _default_specs()
    if not isinstance(specs, list | tuple) or not specs or _is_pair(specs):
        raise ConfigurationError(
            f"Pooled: members={specs!r}. Allowed: a list of learners, names of learners, or pairs "
            "(learner, number of parents), such as ['hdp', ('laplace', 0)]."
        )
    return [_resolve(spec, structure) for spec in specs]


def _default_specs() -> tuple[Spec, ...]:
    """Return HDP tables, weights over them, free scores of families, and of features alone."""
    weights = Discriminative(level=1, base="hdp", l2="cv", towards="zero", prefixes=True, tol=TOL)
    free = Discriminative("direct", init="zero", l2="cv", towards="zero", tol=TOL)
    return "hdp", weights, free, (free, 0)


def _resolve(spec: Spec, structure: Structure) -> Member:
    from tanager.parameters.registry import resolve_parameters

    if isinstance(spec, str | ParameterLearner):
        return Member(resolve_parameters(spec), structure)
    if not _is_pair(spec):
        raise ConfigurationError(
            f"Pooled: member {spec!r}. Allowed: a learner, its name, or a pair (learner, number of "
            "parents)."
        )
    learner, n_parents = spec
    return Member(resolve_parameters(learner), structure.shortened(n_parents))


def _is_pair(spec: object) -> bool:
    if not isinstance(spec, list | tuple) or len(spec) != 2:
        return False
    number = spec[1]
    whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
    return whole and int(number) >= 0
