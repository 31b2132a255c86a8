"""What every parameter learner is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from tanager.codes import Domain
from tanager.counts import ContextTree, Counts
from tanager.engines import FitContext
from tanager.parameters.folds import folds_of_rows, judging_folds
from tanager.parameters.tables import FamilyTable, Tables
from tanager.structure import Structure

__all__ = ["Choice", "CountLearner", "ParameterLearner", "map_trees"]

Result = TypeVar("Result")


class ParameterLearner(BaseEstimator, ABC):
    """Fills the tables of a given structure.

    A small scikit-learn-style object: `__init__` only stores its parameters;
    `learn` changes nothing on the object. A learner that chooses something on
    held-out rows (a strength, a smoothing) says how in `choose`.

    Attributes
    ----------
    preferred_bins : "mdl", "fine" or int
        How numbers are cut for it unless the user says otherwise.
    preferred_structure : str
        The structure it gets unless the user says otherwise.
    max_table : int or None
        Numbers of one feature's table that it can afford. A structure with
        larger tables loses the last parents of those features first.
    groups_parents : bool
        Whether it reads parents by groups of their values; then structures are
        learned on the groups too.
    takes_signs : bool
        Whether it can make classes rise or fall along features.
    """

    preferred_bins: ClassVar[str | int] = "mdl"
    preferred_structure: ClassVar[str] = "tan"
    max_table: ClassVar[int | None] = None
    groups_parents: ClassVar[bool] = False
    takes_signs: ClassVar[bool] = False

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
            Write what is worth knowing into ``context.record("parameters")``.
        """

    def learn_network(
        self, structure: Structure, counts: Counts, context: FitContext
    ) -> tuple[Structure, Tables]:
        """Learn tables, and say on which structure: with fewer parents where none reads all.

        What `learn` returns is always on the structure given.
        """
        return structure, self.learn(structure, counts, context)

    def choose(self, structure: Structure, counts: Counts, context: FitContext) -> Choice:
        """Make all choices that need held-out rows.

        Parameters
        ----------
        structure : Structure
        counts : Counts
            Where they know folds, those are held out; else the learner draws its own.
        context : FitContext

        Returns
        -------
        Choice
        """
        return Choice(self, structure, counts, context)

    def affordable(self, structure: Structure, domain: Domain) -> Structure:
        """Return the structure without the parents that exceed `max_table`.

        Two columns of a thousand values each would have a table of a million
        numbers, hardly one of them with a row to learn from.
        """
        limit = self.max_table
        return structure if limit is None else structure.within(domain, limit)


class Choice:
    """A learner whose choices are made, with the rows on which they were made.

    Attributes
    ----------
    learner : ParameterLearner
        With its choices made.
    """

    def __init__(
        self,
        learner: ParameterLearner,
        structure: Structure,
        counts: Counts,
        context: FitContext,
    ) -> None:
        self.learner = learner
        self._structure = structure
        self._counts = counts
        self._context = context

    def tables(self, context: FitContext) -> Tables:
        """Learn tables of the rows; scores with the learner's posterior will do."""
        return self.learner.learn(self._structure, self._counts, context)

    def held_out(self) -> NDArray[np.float64]:
        """Say of each row of the judging folds what tables of the other folds say.

        Returns
        -------
        log_joint : ndarray of float64, shape (n_rows, n_classes)
            Up to a number that all classes share; zeros for rows of other folds.
            The counts must know folds.
        """
        structure, context, rows = self._structure, self._context, self._counts.rows
        codes, arities = rows.gather().codes, rows.domain.arities
        log_joint = np.zeros((rows.n_rows, rows.domain.n_classes))
        folds = folds_of_rows(self._counts)
        for fold in judging_folds(self._counts):
            tables = self.learner.learn(structure, self._counts.without(fold), context)
            inside = folds == fold
            held = np.ascontiguousarray(codes[:, inside])
            log_joint[inside] = tables.log_joint(structure, held, arities)
        return log_joint


class CountLearner(ParameterLearner):
    """A parameter learner that reads nothing but counts.

    Only these can go on learning by `partial_fit`.
    """

    def learn(self, structure: Structure, counts: Counts, context: FitContext) -> Tables:
        """Learn the tables from the structure's context trees."""
        learner = self.choose(structure, counts, context).learner
        assert isinstance(learner, CountLearner)
        return learner.from_counts(counts.classes, counts.trees(structure), context)

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
