"""What every parameter learner is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from tanager.codes import Domain
from tanager.counts import ContextTree, Counts
from tanager.engines import FitContext
from tanager.parameters.folds import judging_folds
from tanager.parameters.tables import FamilyTable, Tables
from tanager.structure import Structure

__all__ = ["CountLearner", "ParameterLearner", "Settled"]


class ParameterLearner(BaseEstimator, ABC):
    """Fills the tables of a given structure.

    A small scikit-learn-style object: `__init__` only stores its parameters;
    `learn` changes nothing on the object.

    Attributes
    ----------
    preferred_bins : "mdl" or int
        How numbers are cut for it unless the user says otherwise.
    """

    preferred_bins: ClassVar[str | int] = "mdl"

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

    def limit(self, structure: Structure, domain: Domain) -> Structure:  # noqa: ARG002
        """Return the structure without the parents that this learner cannot afford."""
        return structure

    def settle(
        self,
        structure: Structure,  # noqa: ARG002
        counts: Counts,  # noqa: ARG002
        context: FitContext,  # noqa: ARG002
    ) -> Self:
        """Return this learner with all its choices made (strengths, smoothing)."""
        return self

    def cross_fit(
        self,
        structure: Structure,
        counts: Counts,
        folds: NDArray[np.uint8],
        context: FitContext,
    ) -> tuple[Settled, NDArray[np.float64]]:
        """Make all choices, and say of held-out rows what tables of the others say.

        Parameters
        ----------
        structure : Structure
        counts : Counts
            Of rows in memory.
        folds : ndarray of uint8, shape (n_rows,)
            Each row's fold; the first ones, as `judging_folds` has it, are held out.
        context : FitContext

        Returns
        -------
        settled : Settled
        log_joint : ndarray of float64, shape (n_rows, n_classes)
            Of the held-out rows, up to a number that all classes share; zeros
            elsewhere.
        """
        rows = counts.rows
        learner = self.settle(structure, counts, context)
        log_joint = np.zeros((rows.n_rows, rows.domain.n_classes))
        for fold in judging_folds(folds):
            inside = folds == fold
            tables = learner.learn(structure, Counts(rows.take(~inside), context), context)
            codes = rows.take(inside).gather().codes
            log_joint[inside] = tables.log_joint(structure, codes, rows.domain.arities)
        return Settled(learner, partial(learner.learn, structure, counts)), log_joint


class Settled(NamedTuple):
    """A learner that has made its choices on some rows.

    Attributes
    ----------
    learner : ParameterLearner
        With its choices made.
    fit : callable
        Learns tables of those rows, with what is already known of them; scores
        with the learner's posterior will do.
    """

    learner: ParameterLearner
    fit: Callable[[FitContext], Tables]


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
