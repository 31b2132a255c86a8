"""Folds of the training rows: for cross-fitted tables and cross-validated strengths.

A row's fold is a hash of seed and row index; `Counts` that know the folds give
the counts of all other folds without reading a row.
"""

from __future__ import annotations

from math import ceil

from tanager.counts import Counts, FoldPlan
from tanager.engines import FitContext

__all__ = ["N_FOLDS", "judging_folds", "with_folds"]

N_FOLDS = 5
ENOUGH_ROWS = 5_000  # held-out rows that settle a choice among a few strengths or shares


def with_folds(counts: Counts, n_folds: int, key: int, context: FitContext) -> Counts:
    """Return counts of the same rows that know folds: the same where they do already.

    Parameters
    ----------
    counts : Counts
    n_folds : int
    key : int
        Names the random stream of the folds.
    context : FitContext
    """
    if counts.folds is not None:
        return counts
    return Counts(counts.rows, context, FoldPlan(context.row_seed(key), n_folds))


def judging_folds(counts: Counts) -> range:
    """Return the first folds, as many as hold enough rows between them to judge by."""
    assert counts.folds is not None
    n_folds = counts.folds.n_folds
    enough = ceil(ENOUGH_ROWS * n_folds / max(counts.rows.n_rows, 1))
    return range(min(enough, n_folds))
