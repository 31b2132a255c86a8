"""What every parameter learner is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tanager.counts import ContextTree, Counts, Trees
from tanager.engines import FitContext
from tanager.estimator import Estimator
from tanager.parameters.tables import FamilyTable, Tables
from tanager.structure import FitPlan, Structure

__all__ = ["CountLearner", "GroupedLearner", "ParameterLearner", "map_trees"]

Result = TypeVar("Result")


class ParameterLearner(Estimator, ABC):
    """Fills the tables of a given structure.

    A small scikit-learn-style object: `__init__` only stores its parameters;
    `learn` changes nothing on the object. A learner that chooses something on
    held-out rows (a smoothing, say) does so in `choose`.
    """

    @abstractmethod
    def learn(self, structure: Structure, counts: Counts, plan: FitPlan) -> Tables:
        """Learn the tables.

        Parameters
        ----------
        structure : Structure
        counts : Counts
            ``counts.trees(structure)`` has every family's context tree;
            ``counts.rows`` are the training rows themselves.
        plan : FitPlan
            What the fit is asked for, and what is known of it already. Write what is worth
            knowing into ``plan.context.record("parameters")``.
        """

    def choose(self, structure: Structure, counts: Counts, plan: FitPlan) -> Self:  # noqa: ARG002
        """Return the learner with all choices made that need held-out rows."""
        return self


class GroupedLearner(ParameterLearner):
    """A parameter learner that reads a feature's own values, and parents by groups of theirs.

    Numbers are cut finely for it, structures are learned on the groups (``plan.groups``), and
    it makes classes rise or fall along features where ``plan.signs`` ask for it. A parent that
    no table reads has one group in the tables it returns, and is dropped from the network.
    """


class CountLearner(ParameterLearner):
    """A parameter learner that reads nothing but counts.

    Only these can go on learning by `partial_fit`.
    """

    def learn(self, structure: Structure, counts: Counts, plan: FitPlan) -> Tables:
        """Learn the tables from the structure's context trees."""
        learner = self.choose(structure, counts, plan)
        classes, families = learner.prior_counts(structure, counts, plan)
        return learner.from_counts(classes, families, plan.context)

    @staticmethod
    def prior_counts(
        structure: Structure, counts: Counts, plan: FitPlan
    ) -> tuple[NDArray[np.float64], Trees]:
        """Return the class counts and the families' trees, with those of the plan's prior."""
        trees = counts.trees(structure)
        if plan.prior is None:
            return counts.classes, trees
        families = list(zip(structure.selected, structure.parent_indices, strict=True))
        added = plan.prior.add(families, trees.merged(), structure.names)
        return counts.classes + plan.prior.classes, Trees(added)

    def from_counts(
        self,
        class_counts: NDArray[np.float64],
        trees: Sequence[ContextTree],
        context: FitContext,
    ) -> Tables:
        """Learn the tables from class counts (n_classes,) and each family's tree."""
        families = map_trees(self.family, trees, context)
        return Tables(self.log_prior(class_counts), tuple(families))

    @abstractmethod
    def family(self, tree: ContextTree) -> FamilyTable:
        """Estimate one family from its tree."""

    @abstractmethod
    def log_prior(self, class_counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Estimate the class prior."""


def map_trees(
    function: Callable[[ContextTree], Result], trees: Sequence[ContextTree], context: FitContext
) -> list[Result]:
    """Apply a function to every tree; each is built when it is its turn, and then dropped."""
    work = partial(_apply_at, function, trees)
    return context.engine.map(work, range(len(trees)), context.progress, "parameters")


def _apply_at(
    function: Callable[[ContextTree], Result], trees: Sequence[ContextTree], at: int
) -> Result:
    return function(trees[at])
