"""Residuals of an additive model."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tanager import native
from tanager.codes import Chunk, Codes, Rows
from tanager.codes.hashing import Fold, sample_rows
from tanager.engines import FitContext, LocalEngine
from tanager.loglinear.cells import Terms
from tanager.loglinear.joining import Columns
from tanager.loglinear.objective import Settings, fit_bytes, fit_scores
from tanager.loglinear.rows import LocatedTerms
from tanager.numerics import Floats, Ints, one_blas_thread

MAX_ROWS, LEAST_ROWS = 20_000, 2_000  # sampled: as many as
MAX_NUMBERS = 1 << 22  # allows, as rows times classes
N_FOLDS = 3
STRENGTH = 1.0  # of the prior on the additive scores
SETTINGS = Settings(30, 1e-4)
ROWS_KEY, FOLDS_KEY = 7_301, 7_302  # keys of the random streams
SHRINK = 5.0  # shrinkage of a cell's gain, in rows


class Residuals(NamedTuple):
    """Rows with the residuals of a model that wasn't trained on them."""

    codes: Codes  # (n_features, n_rows)
    residuals: Floats  # (n_rows, n_classes): [own class] - posterior, times the row's weight
    spreads: Floats  # (n_rows, n_classes): their variances, times the row's weight
    weights: Floats  # (n_rows,)

    @classmethod
    def of(cls, chunk: Chunk, probability: Floats) -> Residuals:
        """Return the residuals of predicted probabilities, (n_rows, n_classes), for some rows."""
        weights = chunk.row_weights
        spreads = probability * (1.0 - probability) * weights[:, None]
        residuals = -probability
        residuals[np.arange(chunk.n_rows), chunk.labels] += 1.0
        residuals *= weights[:, None]
        return cls(chunk.codes, residuals, spreads, weights)

    def take(self, rows: Ints) -> Residuals:
        """Return some of the rows."""
        codes = np.ascontiguousarray(self.codes[:, rows])
        return Residuals(codes, self.residuals[rows], self.spreads[rows], self.weights[rows])


@one_blas_thread()
def find_residuals(rows: Rows, context: FitContext, max_rows: int = MAX_ROWS) -> Residuals:
    """Fit additive models on a sample of the rows, and return their out-of-fold residuals.

    One smooth score per value of an ordered feature, a free one for other features.
    """
    max_rows = min(max_rows, max(MAX_NUMBERS // rows.domain.n_classes, LEAST_ROWS))
    rows = sample_rows(rows, context.row_seed(ROWS_KEY), max_rows, context)
    here, domain, chunk = replace(context, engine=LocalEngine()), rows.domain, rows.gather()
    alone = [(feature,) for feature in range(domain.n_features)]
    terms = Terms(alone, Columns.of(domain), rows, here)
    context.check_tables(fit_bytes(terms, domain.names), domain.n_classes)
    seed = context.row_seed(FOLDS_KEY)
    folds = [Fold(seed, N_FOLDS, fold, inside=False) for fold in range(N_FOLDS)]
    located = LocatedTerms(terms, rows, here, folds[0])
    shares = np.bincount(chunk.labels, chunk.weights, domain.n_classes) / rows.total_weight
    said = np.zeros((rows.n_rows, domain.n_classes))
    for fold in folds:
        without = located.other(fold)
        fit = fit_scores(terms, without, [STRENGTH], shares, settings=SETTINGS)
        scores = without.log_joint(fit.free, left_out=True)
        native.normalize(scores, False)
        said[~fold(chunk.indices)] = scores
    return Residuals.of(chunk, said)
