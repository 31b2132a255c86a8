"""Folds of the training rows: for cross-fitted tables and cross-validated strengths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Rows
from tanager.counts import Counts
from tanager.engines import FitContext

__all__ = ["N_FOLDS", "Folds"]

N_FOLDS = 5
ENOUGH_ROWS = 5_000  # held-out rows that settle a choice among a few strengths or shares


@dataclass(frozen=True, eq=False)
class Folds:
    """Which fold each row is in.

    Attributes
    ----------
    of_rows : ndarray of uint8, shape (n_rows,)
    number : int
        How many folds there are.
    """

    of_rows: NDArray[np.uint8]
    number: int

    @classmethod
    def draw(cls, rows: Rows, number: int, key: int, context: FitContext) -> Folds:
        """Deal the rows of each class into folds at random, as evenly as can be.

        One byte a row is kept.
        """
        parts = (chunk.labels for chunk in rows.chunks())
        labels = np.concatenate([np.zeros(0, np.uint16), *parts])
        generator = context.generator(key)
        order = np.argsort(labels + generator.random(labels.shape[0]), kind="stable")
        of_rows = np.empty(labels.shape[0], np.uint8)
        of_rows[order] = np.arange(labels.shape[0]) % number
        return cls(of_rows, number)

    @property
    def judging(self) -> range:
        """The first folds that hold enough rows between them to judge by."""
        sizes = np.bincount(self.of_rows, minlength=self.number)
        enough = int(np.searchsorted(np.cumsum(sizes), ENOUGH_ROWS)) + 1
        return range(min(enough, self.number))

    def counts_without(self, fold: int, counts: Counts, context: FitContext) -> Counts:
        """Return the counts of all rows but those of a fold."""
        return Counts(counts.rows.take(self.of_rows != fold), context)
