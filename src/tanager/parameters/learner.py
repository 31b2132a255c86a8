"""What every parameter learner is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from tanager.counts import ContextTree, Counts
from tanager.engines import FitContext
from tanager.parameters.tables import FamilyTable, Tables
from tanager.structure import Structure

__all__ = ["CountLearner", "ParameterLearner"]


class ParameterLearner(BaseEstimator, ABC):
    """Fills the tables of a given structure.

    A small scikit-learn-style object: `__init__` only stores its parameters;
    `learn` changes nothing on the object.
    """

    @abstractmethod
    def learn(self, structure: Structure, counts: Counts, context: FitContext) -> Tables:
        """Learn the tables.

        Parameters
        ----------
        structure : Structure
        counts : Counts
            ``counts.trees(structure)`` has every family's context tree;
            ``counts.rows`` are the training rows themselves.
        context : FitContext
            Write what is worth knowing into ``context.info["parameters"]``.
        """

    def settle(
        self,
        structure: Structure,  # noqa: ARG002
        counts: Counts,  # noqa: ARG002
        context: FitContext,  # noqa: ARG002
    ) -> Self:
        """Return this learner with all its choices made: what it learns by them is no choice."""
        return self


class CountLearner(ParameterLearner):
    """A parameter learner that reads nothing but counts.

    Only these can go on learning by `partial_fit`.
    """

    def learn(self, structure: Structure, counts: Counts, context: FitContext) -> Tables:
        """Learn the tables from the structure's context trees."""
        settled = self.settle(structure, counts, context)
        return settled.from_counts(counts.classes, counts.trees(structure), context)

    def from_counts(
        self,
        class_counts: NDArray[np.float64],
        trees: Sequence[ContextTree],
        context: FitContext,
    ) -> Tables:
        """Learn the tables from class counts (n_classes,) and each family's tree."""
        families = context.engine.map(self.family, trees, context.progress, "parameters")
        return Tables(self.log_prior(class_counts), tuple(families))

    @abstractmethod
    def family(self, tree: ContextTree) -> FamilyTable:
        """Estimate one family from its tree."""

    @abstractmethod
    def log_prior(self, class_counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Estimate the class prior."""
