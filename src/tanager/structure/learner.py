"""What every structure learner is."""

from __future__ import annotations

from abc import ABC, abstractmethod

from sklearn.base import BaseEstimator

from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.structure.structure import Structure

__all__ = ["StructureLearner"]


class StructureLearner(BaseEstimator, ABC):
    """Learns which features condition which.

    A small scikit-learn-style object: `__init__` only stores its parameters;
    `learn` changes nothing on the object.
    """

    @abstractmethod
    def learn(self, counts: Counts, context: FitContext) -> Structure:
        """Learn a structure.

        Parameters
        ----------
        counts : Counts
            Statistics of the training rows, gathered on demand; `counts.rows`
            are the rows themselves.
        context : FitContext
            Engine, randomness, progress; write what is worth knowing into
            ``context.record("structure")``.
        """
