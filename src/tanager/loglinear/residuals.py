r"""Residuals of an additive model, and curves across tables of two numbers that they ask for.

Such a curve runs along the numbers' sum, difference, ratio, product, ... A direction assigns an
addend to each ordered value of either number; joint values with about the same sum share a score.
Addends are multiples of ranks, of standardised numbers, or of logarithms,
whose sums are products and differences ratios. Each pair gets the directions whose curves would
gain most on the residuals of an additive model.

With many rows all pairs get the same number of curves: the prior shrinks those that turn out to be
useless, whereas a test of their gain against chance, over all bins and classes, has little power.
With few rows the test stays, since its loss of accuracy is small and the curves take time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tanager import native
from tanager.codes import Chunk, Codes, Domain, Groups, Rows
from tanager.codes.groups import group_codes
from tanager.codes.hashing import Fold, sample_rows
from tanager.engines import FitContext, LocalEngine
from tanager.loglinear.cells import Terms
from tanager.loglinear.curves import TRACE, Slant
from tanager.loglinear.fits import Settings, fit_bytes, fit_scores
from tanager.loglinear.joining import Columns
from tanager.loglinear.rows import LocatedTerms
from tanager.numerics import Floats, Ints, one_blas_thread

MAX_ROWS, LEAST_ROWS = 20_000, 2_000  # sampled: as many as
MAX_NUMBERS = 1 << 22  # allows, as rows times classes
N_FOLDS = 3
STRENGTH = 1.0  # of the prior on the additive scores
SETTINGS = Settings(30, 1e-4)
ROWS_KEY, FOLDS_KEY = 7_301, 7_302  # keys of the random streams
SHRINK = 5.0  # shrinkage of a cell's gain, in rows

N_SLANTS = 4  # per pair, if there are many rows
MOST_SLANTS = 2  # per pair, if there are few
LEAST_GAIN = 1.0  # nats in total, of few rows: less is chance
MOST_RESIDUALS = 1 << 21  # rows times classes considered
LEAST_SLANTED = 4  # minimum number of ordered values of either number
WEIGHTS = ((1, 1), (1, -1), (2, 1), (2, -1), (1, 2), (1, -2))


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


class Slants:
    """Finds the slants of pairs of grouped features.

    weights: the weights of each feature's values.
    numbers: the numbers behind each feature's ordered values; None if it isn't numeric.
    """

    def __init__(
        self,
        residuals: Residuals,
        domain: Domain,
        groups: Sequence[Groups],
        weights: Sequence[Floats],
        numbers: Sequence[Floats | None],
    ) -> None:
        # With very many classes fewer rows, evenly spread, are enough.
        step = -(-residuals.residuals.size // MOST_RESIDUALS)
        residuals = (
            residuals if step < 2 else residuals.take(np.arange(0, len(residuals.weights), step))
        )
        self._codes = group_codes(residuals.codes, groups)
        self._n_classes = 1 if domain.n_classes == 2 else domain.n_classes  # of two, one suffices
        own = slice(domain.n_classes - self._n_classes, None)
        spreads = residuals.spreads[:, own]
        said = residuals.residuals[:, own], spreads, spreads * residuals.weights[:, None]
        self._said = np.hstack([*said, residuals.weights[:, None]])
        known = numbers or (None,) * domain.n_features
        given = zip(groups, domain.n_ordered, weights, known, strict=True)
        self._scales = [scales(group[:n], weight[:n], one) for group, n, weight, one in given]

    def find(
        self, pairs: Sequence[tuple[int, int]], *, has_many_rows: bool
    ) -> dict[tuple[int, int], tuple[Slant, ...]]:
        """Return the slants that gain most, best first, for pairs of ordered features."""
        most, least = (N_SLANTS, -np.inf) if has_many_rows else (MOST_SLANTS, LEAST_GAIN)
        return {pair: self._find(*pair, most, least) for pair in pairs}

    def _find(self, first: int, second: int, most: int, least: float) -> tuple[Slant, ...]:
        both = zip(self._scales[first], self._scales[second], strict=True)
        scaled = [(a, b) for a, b in both if a is not None and b is not None]
        along = np.array([u * a for a, _ in scaled for u, _ in WEIGHTS])
        across = np.array([v * b for _, b in scaled for _, v in WEIGHTS])
        chosen = np.empty(min(most, len(along)), np.int64)
        given = self._codes, first, second, self._said, along, across, self._n_classes
        native.choose_slants(*given, SHRINK, least, chosen)
        chosen = chosen[chosen >= 0]
        pairs = zip(along[chosen].tolist(), across[chosen].tolist(), strict=True)
        return tuple(Slant(tuple(a), tuple(b)) for a, b in pairs)


def scales(groups: Groups, weights: Floats, numbers: Floats | None) -> list[Floats | None]:
    """Return the ranks, standardised numbers and logarithms of groups of ordered values.

    None where undefined: for values that aren't numbers, or numbers that aren't positive.

    >>> groups, weights = np.array([0, 0, 1]), np.array([1.0, 1.0, 2.0])
    >>> [one.round(2).tolist() for one in scales(groups, weights, np.array([1.0, 3.0, 4.0]))]
    [[0.25, 0.75], [-1.0, 1.0], [0.55, 1.39]]
    """
    if not len(groups):
        return [None] * 3
    known = weights + TRACE
    mass = np.bincount(groups, known)
    total = mass.sum()
    ranks = (np.cumsum(mass) - 0.5 * mass) / total
    if numbers is None:
        return [ranks, None, None]
    means = np.bincount(groups, known * numbers) / mass
    away = means - (mass * means).sum() / total
    spread = float(np.sqrt((mass * away**2).sum() / total))
    logs = np.bincount(groups, known * np.log(numbers)) / mass if numbers[0] > 0.0 else None
    return [ranks, away / spread if spread > 0.0 else None, logs]
