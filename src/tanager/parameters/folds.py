"""Folds of the training rows: for cross-fitted tables and cross-validated strengths."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Rows
from tanager.engines import FitContext

__all__ = ["N_FOLDS", "assign_folds", "judging_folds", "other_rows"]

N_FOLDS = 5
ENOUGH_ROWS = 5_000  # held-out rows that settle a choice among a few strengths or shares


def assign_folds(
    rows: Rows,
    n_folds: int,
    generator: np.random.Generator,
    context: FitContext,  # noqa: ARG001
) -> NDArray[np.uint8]:
    """Deal the rows of each class into folds at random, as evenly as can be.

    One byte a row is kept.
    """
    labels = np.concatenate([np.zeros(0, np.uint16), *(chunk.labels for chunk in rows.chunks())])
    order = np.argsort(labels + generator.random(labels.shape[0]), kind="stable")
    folds = np.empty(labels.shape[0], np.uint8)
    folds[order] = np.arange(labels.shape[0]) % n_folds
    return folds


def other_rows(rows: Rows, folds: NDArray[np.uint8], left_out: int) -> Rows:
    """Return the rows outside one fold."""
    return rows.take(folds != left_out)


def judging_folds(folds: NDArray[np.uint8]) -> range:
    """Return the first folds that hold enough rows between them to judge by."""
    sizes = np.bincount(folds)
    return range(min(int(np.searchsorted(np.cumsum(sizes), ENOUGH_ROWS)) + 1, len(sizes)))
