"""What every structure learner is."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tanager.counts import Counts
from tanager.estimator import Estimator
from tanager.structure.plan import FitPlan
from tanager.structure.structure import Structure
from tanager.training.model import JointTables


class StructureLearner(Estimator, ABC):
    """Learns which features condition which.

    A small scikit-learn-style object: `__init__` only stores its parameters;
    `learn` changes nothing on the object.
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
            What the fit is asked for. `plan.context` has the engine, randomness and
            progress; write what is worth knowing into
            ``plan.context.record("structure")``.
        """


class JointLearner(StructureLearner):
    """A structure learner that trains tables together with the structure."""

    def learn(self, counts: Counts, plan: FitPlan) -> Structure:
        """Learn the structure alone."""
        return self.learn_jointly(counts, plan)[0]

    @abstractmethod
    def learn_jointly(self, counts: Counts, plan: FitPlan) -> tuple[Structure, JointTables]:
        """Learn the structure and its tables, which go to the parameters by their plan."""
