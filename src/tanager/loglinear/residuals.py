"""What an additive model leaves unsaid, and where pairs of features should be cut to say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.codes import Chunk, Codes, Domain, Groups, Rows
from tanager.codes.hashing import Fold, sample_rows
from tanager.engines import FitContext, LocalEngine
from tanager.loglinear.cells import Terms
from tanager.loglinear.joining import Columns
from tanager.loglinear.objective import Settings, fit_scores
from tanager.loglinear.rows import LocatedTerms
from tanager.threads import one_blas_thread

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_ROWS = 20_000  # that are looked at
N_FOLDS = 3
STRENGTH = 1.0  # of the prior on the additive scores
SETTINGS = Settings(30, 1e-4)
ROWS_KEY, FOLDS_KEY = 7_301, 7_302  # name the random streams
SHRINK = 5.0  # rows that a cell's gain is shrunk by
LEAST_GAIN = 3.0  # nats on all rows for which a pair is cut: the best of many cuts, so not less
MOST_GROUPS = 12  # of a feature
MOST_CELLS = 1 << 20  # of a pair's values and classes that are looked at


class Residuals(NamedTuple):
    """Rows with what a model that wasn't trained on them gets wrong."""

    codes: Codes  # (n_features, n_rows)
    residuals: Floats  # (n_rows, n_classes): [own class] - posterior, times the row's weight
    spreads: Floats  # (n_rows, n_classes): their variances, times the row's weight
    weights: Floats  # (n_rows,)

    @classmethod
    def of(cls, chunk: Chunk, probability: Floats) -> Residuals:
        """Compare what is said of some rows, (n_rows, n_classes), with their classes."""
        weights = np.ones(chunk.n_rows) if chunk.weights is None else chunk.weights
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
    """Fit an additive model without each fold of a sample of the rows, and ask it about the fold.

    One smooth score per value of an ordered feature, a free one of another.
    """
    rows = sample_rows(rows, context.row_seed(ROWS_KEY), max_rows, context)
    here, domain, chunk = replace(context, engine=LocalEngine()), rows.domain, rows.gather()
    alone = [(feature,) for feature in range(domain.n_features)]
    terms = Terms(alone, Columns.of(domain), rows, here)
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


def cut_pairs(rows: Residuals, domain: Domain, pairs: Ints) -> tuple[Floats, Ints]:
    """Find the best cut of each ordered member of pairs, (n_pairs, 2).

    gains: shape (n_pairs,); what the log-likelihood of new rows would gain by a score for each side
        of the cuts, beyond what the members gain alone. Zero where nothing is gained.
    cuts: shape (n_pairs, 2); the last value left of each cut; -1 where there is none.
    """
    gains, cuts = np.zeros(len(pairs)), np.full((len(pairs), 2), -1, np.int64)
    n_ordered = np.array(domain.n_ordered, np.int64)
    sizes = domain.arities[pairs].prod(axis=1) * domain.n_classes
    looked = (n_ordered[pairs] > 1).any(axis=1) & (sizes <= MOST_CELLS)
    chosen = np.ascontiguousarray(pairs[looked])
    found, where = np.zeros(len(chosen)), np.full((len(chosen), 2), -1, np.int64)
    coded = rows.codes.astype(np.uint16), domain.arities, n_ordered
    given = *coded, rows.residuals, rows.spreads, rows.weights, SHRINK, chosen, found, where
    native.find_cuts(*given)
    gains[looked], cuts[looked] = found, where
    return gains, cuts


def refine_groups(
    groups: Sequence[Groups],
    rows: Residuals,
    domain: Domain,
    families: Sequence[tuple[int, ...]],
    limit: int,
) -> tuple[Groups, ...]:
    """Divide groups of ordered values where a feature and a parent together ask for it.

    The groups that a feature's own counts tell (`tanager.codes.learn_groups`) miss a
    cut that matters only together with another feature. `families` are each feature with
    its parents, `limit` the most numbers of a family's table of groups.
    """
    pairs = sorted({(family[0], parent) for family in families for parent in family[1:]})
    if not pairs:
        return tuple(groups)
    both = np.array(pairs, np.int64)
    gains, cuts = cut_pairs(rows, domain, both)
    out = list(groups)
    sizes = [int(group.max()) + 1 for group in groups]
    held: dict[int, list[tuple[int, ...]]] = {}
    for family in families:
        for feature in family:
            held.setdefault(feature, []).append(family)

    def fits(feature: int) -> bool:
        numbers = (prod(sizes[i] for i in family) * domain.n_classes for family in held[feature])
        return sizes[feature] <= MOST_GROUPS and all(number <= limit for number in numbers)

    for at in np.argsort(-gains, kind="stable"):
        if gains[at] < LEAST_GAIN:
            break
        for feature, cut in zip(both[at].tolist(), cuts[at].tolist(), strict=True):
            divided = _divide(out[feature], cut, domain.n_ordered[feature])
            if divided is None:
                continue
            sizes[feature] += 1
            if fits(feature):
                out[feature] = divided
            else:
                sizes[feature] -= 1
    return tuple(out)


def _divide(groups: Groups, cut: int, n_ordered: int) -> Groups | None:
    """Begin a new group after the value `cut`; None where there is no cut, or one already."""
    if not 0 <= cut < n_ordered - 1 or groups[cut] != groups[cut + 1]:
        return None
    out = groups.copy()
    out[cut + 1 :] += 1
    return out
