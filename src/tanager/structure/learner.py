"""The structure learner interface, and the fit plan passed to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Groups, Rows
from tanager.codes.groups import group_rows, learn_groups
from tanager.counts import Counts, PriorCounts
from tanager.engines import FitContext
from tanager.estimator import Estimator
from tanager.numerics import Floats
from tanager.structure.structure import Structure

if TYPE_CHECKING:
    from tanager.loglinear.residuals import Residuals
    from tanager.structure.constraints import Limits


@dataclass(frozen=True)
class JointTables:
    """Tables learned together with a structure."""

    parent_indices: tuple[tuple[int, ...], ...]  # the parents in the structure of these tables
    log_prior: Floats  # (n_classes,)
    log_prob: tuple[Floats, ...]  # (*parent_arities, arity, n_classes); one per feature


@dataclass(frozen=True, eq=False)
class FitPlan:
    """The plan of a fit, passed by the estimator to the structure and parameter learners.

    Part of the work (the rows outside a fold) has its own plan, see
    `for_rows`; models fitted on those rows are fitted once and kept with their plan.

    Attributes
    ----------
    context : FitContext
        The engine, random streams, progress, and record of the fit.
    structure_learner : StructureLearner or None
        Relearns the structure when rows are held out; None if the structure is given.
    signs : mapping
        By feature, the classes that rise (1) or fall (-1) along it, shape (n_classes,).
    limits : Limits or None
        Expert constraints on the structure.
    prior : PriorCounts or None
        Expert knowledge about tables, for learners from counts.
    joint_tables : JointTables or None
        Tables that were learned together with the structure.
    rows : Rows or None
        The training rows, with the features' own codes.
    n_rows : int
        Of the whole table, which decides how deep folds look as well.
    groups : tuple of Groups or None
        Of each feature's values, when it is a parent; the counts given to a structure learner
        are of these groups. None: parents are used value by value.
    numbers : tuple of ndarray or None
        The numbers behind each feature's ordered codes, up to a factor; None if it isn't numeric.
    intervals : bool
        Whether learners from counts also estimate their uncertainty.
    """

    context: FitContext = field(default_factory=FitContext)
    structure_learner: StructureLearner | None = None
    signs: Mapping[int, NDArray[np.int8]] = field(default_factory=dict)
    limits: Limits | None = None
    prior: PriorCounts | None = None
    joint_tables: JointTables | None = None
    rows: Rows | None = None
    n_rows: int = 0
    groups: tuple[Groups, ...] | None = None
    numbers: tuple[Floats | None, ...] = ()
    intervals: bool = True

    def inner(self) -> FitPlan:
        """Return the plan of a nested part of the work, which has its own, silent context."""
        return replace(self, context=self.context.inner())

    def for_rows(self, counts: Counts) -> FitPlan:
        """Return the plan for some rows, with groups learned from their counts."""
        pairs = zip(counts.values, counts.domain.n_ordered, strict=True)
        groups = tuple(learn_groups(values, n_ordered) for values, n_ordered in pairs)
        n_rows = max(self.n_rows, counts.rows.n_rows)
        return replace(self, rows=counts.rows, n_rows=n_rows, groups=groups)

    @cached_property
    def grouped_counts(self) -> Counts:
        """The grouped counts of the plan's rows."""
        assert self.rows is not None
        assert self.groups is not None
        return Counts(group_rows(self.rows, self.groups), self.context)

    @cached_property
    def residuals(self) -> Residuals:
        """Residuals of an additive model of the plan's rows, at the features' own values."""
        from tanager.loglinear.residuals import find_residuals

        assert self.rows is not None
        return find_residuals(self.rows, self.context)


class StructureLearner(Estimator, ABC):
    """Learns which features condition which.

    A small scikit-learn-style object: `__init__` only stores its parameters;
    `learn` doesn't modify the object.
    """

    @abstractmethod
    def learn(self, counts: Counts, plan: FitPlan) -> Structure:
        """Learn a structure.

        Parameters
        ----------
        counts : Counts
            Statistics of the training rows, gathered on demand; `counts.rows`
            are the rows themselves.
        plan : FitPlan
            Settings of the fit. `plan.context` has the engine, randomness and
            progress; record diagnostics in
            ``plan.context.record("structure")``.
        """


class JointLearner(StructureLearner):
    """A structure learner that trains tables together with the structure."""

    def learn(self, counts: Counts, plan: FitPlan) -> Structure:
        """Learn the structure alone."""
        return self.learn_jointly(counts, plan)[0]

    @abstractmethod
    def learn_jointly(self, counts: Counts, plan: FitPlan) -> tuple[Structure, JointTables]:
        """Learn the structure and its tables, which its plan passes to the parameter learner."""
