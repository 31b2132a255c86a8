r"""Training rows as cells of tables, kept by the engine, and passes over them; class offsets.

A geometric pool of models, or a fit that stops within a tolerance, may not predict as many rows of
a class as there are. The **class offsets** b in

.. math:: P(y \mid x) \propto \exp(s_y(x) + b_y)

that maximise the conditional likelihood of the rows do: at the maximum
:math:`\sum_i w_i P(y \mid x_i) = \sum_i w_i [y_i = y]` for every class. They are part of the
model, fitted last, with all other scores fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from math import ceil, log2
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.codes import Chunk, Codes, Rows
from tanager.codes.hashing import Fold, folds_of
from tanager.counts import FoldPlan
from tanager.engines import FitContext, LocalEngine, Piece, Sums
from tanager.loglinear.cells import Terms, by_class
from tanager.loglinear.joining import Joint, Places
from tanager.loglinear.optimiser import minimise
from tanager.numerics import Floats, Ints
from tanager.progress import Progress

LossSums = tuple[Floats, Floats]
ScoredChunks = list[tuple[int, Floats]]  # each chunk's first row, and scores (n_rows, n_columns)

NO_FOLDS = np.zeros(0, np.uint8)
ALL_ROWS = np.zeros(1, np.int64)
FINER, COARSE = 2.0**10, 2.0**20  # for the loss's two grids; as in loglinear.c

# Of the fit of class offsets:
LogJoint = Callable[[Codes], Floats]  # from codes (n_features, n_rows) to (n_rows, n_classes)
BLOCK_CELLS = 1 << 19  # rows times classes of the scores in memory at a time
MAX_ITER = 50  # of either method
NEAR = 0.3  # log of predicted over actual below which a parabola is a good approximation
LEAST_SPREAD = 1e-6
NEVER = -1e5  # the offset of a class without rows while fitting the others
MOST_LOST = 1000.0  # maximum loss of one row, in nats
LEAST_GAIN = 1e-7  # nats in total: then even a class of one row is off by only a few 1e-4


class LocatedRows(NamedTuple):
    """Some rows as cells of tables."""

    cells: NDArray[np.uint16]  # (n_rows, n_tables), counted from the tables' starts
    wide: NDArray[np.int32]  # (n_rows, n_wide): absolute cells, for tables too large for uint16
    labels: NDArray[np.uint16]  # (n_rows,)
    weights: Floats  # (n_rows,), or empty if all weights are one
    folds: NDArray[np.uint8]  # (n_rows,), or empty if there are none
    start: int  # the index of the first row

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.labels.shape[0])


class RowCells(NamedTuple):
    """Rows in memory as sums of cells: of the class node, 0, and one of every table."""

    cells: NDArray[np.uint16]  # (n_rows, n_tables), counted from the tables' starts
    starts: Ints  # (n_tables,)
    wide: NDArray[np.int32]  # (n_rows, n_wide), absolute

    @classmethod
    def of(cls, wide: NDArray[np.int32]) -> RowCells:
        """Return rows given as absolute cells, (n_rows, n_wide)."""
        return cls(np.zeros((len(wide), 0), np.uint16), np.zeros(0, np.int64), wide)

    def totals(self, tables: Floats) -> Floats:
        """Return the sums of each row's cells of tables (n_cells, n), (n_rows, n)."""
        out = np.empty((len(self.cells), tables.shape[1]))
        native.add_sums(*self, tables, out)
        return out

    def share(self, numbers: Floats, n_cells: int) -> Floats:
        """Return what all rows add to each cell, (n_cells, n): the transpose of `totals`."""
        out = np.zeros((n_cells, numbers.shape[1]))
        native.share_rows(*self, numbers, out)
        return out


class LocatedTable:
    r"""All rows as cells of tables, located once and kept by the engine.

    Row i of fold f uses the set of tables sets[f], one cell of every table, and has the scores
    :math:`s_{ic} = \sum_t T[\mathrm{sets}[f], \mathrm{cell}_{it}, c]` (`totals`). For two classes
    there is one column, the second's score minus the first's. The loss (`sums`) is
    :math:`\sum_i w_i \ell(s_i, y_i)` with :math:`\ell` either :math:`-\log P(y_i \mid x_i)` or the
    squared error :math:`\sum_c (P(c \mid x_i) - [y_i = c])^2`, :math:`P = \mathrm{softmax}(s)`.

    The engine locates and keeps the rows; without folds they form a single one. Each row's numbers
    are rounded to a grid on which all their sums are exact, so that a result depends neither on
    chunks nor on threads.
    """

    def __init__(
        self, joint: Joint, rows: Rows, context: FitContext, folds: Fold | FoldPlan | None = None
    ) -> None:
        self.n_rows, self._joint, self._engine = rows.n_rows, joint, context.engine
        # No sum over rows exceeds 2^52 steps of the grid.
        self._scale = 2.0 ** (50 - (ceil(log2(rows.total_weight)) if rows.total_weight > 0 else 0))
        given = _Locator(joint.places, folds), rows.pieces(), context.rows_limit
        self._pieces = self._engine.keep(*given, Progress(), "locate rows")
        # With few rows a pass is faster than starting one on an engine.
        here = isinstance(self._engine, LocalEngine) and len(self._pieces) == 1
        self._alone = next(iter(self._pieces[0].chunks())) if here else None

    def pieces(self) -> Sequence[Piece[LocatedRows]]:
        """Return the addresses of the rows."""
        return self._pieces

    def sums(
        self, tables: Floats, sets: Ints = ALL_ROWS, *, squared: bool = False
    ) -> tuple[float, Floats]:
        """Return the loss of rows, and its gradient w.r.t. tables (n_sets, n_cells, n_columns).

        Rows of fold f use the set ``sets[f]``; -1 leaves them out.
        """
        pass_ = _SumPass(tables, self._joint.starts, sets, squared, self._scale)
        if self._alone is None:
            loss, slopes = self._engine.run(pass_, self, Progress(), "parameters")
        else:
            loss, slopes = pass_.update(pass_.zero(), self._alone)
        slopes /= self._scale
        return float(loss[0] * COARSE + loss[1]) / (FINER * self._scale), slopes

    def totals(self, tables: Floats, fold: Fold | None = None) -> Floats:
        """Return the scores of all rows, or of those not in a fold, (n_rows, n_columns)."""
        pass_ = _ScorePass(tables, self._joint.starts, fold)
        return self._engine.run(pass_, self, Progress(), "held-out rows")


class LocatedTerms(LocatedTable):
    """Rows as cells of some terms: those of a fold to train on (None: all), the rest to predict."""

    def __init__(
        self, terms: Terms, rows: Rows, context: FitContext, fold: Fold | None = None
    ) -> None:
        super().__init__(terms.joint, rows, context, fold)
        self._terms = terms
        self._train_on(fold)

    def _train_on(self, fold: Fold | None) -> None:
        self._fold, self._sets = fold, ALL_ROWS
        if fold is not None:
            self._sets = np.where((np.arange(fold.n_folds) == fold.fold) == fold.inside, 0, -1)

    def other(self, fold: Fold) -> LocatedTerms:
        """Return the same rows, to train on another fold."""
        view = copy(self)
        view._train_on(fold)
        return view

    def evaluate(self, free: Floats) -> tuple[float, Floats]:
        """Return the loss of the training rows, and its gradient w.r.t. the parameters."""
        loss, slopes = self.sums(self._terms.expand(free)[None], self._sets)
        return loss, self._terms.pull(slopes[0])

    def log_joint(self, free: Floats, *, left_out: bool = False) -> Floats:
        """Return all or the left-out rows' scores, (n_rows, n_classes), up to a term per row."""
        return by_class(self.totals(self._terms.expand(free), self._fold if left_out else None))


@dataclass(frozen=True, eq=False)
class _Locator:
    """How rows are located."""

    places: Places
    folds: Fold | FoldPlan | None

    def __call__(self, piece: Piece[Chunk]) -> Iterator[LocatedRows]:
        for chunk in piece.chunks():
            folds = NO_FOLDS
            if self.folds is not None:
                folds = folds_of(self.folds.seed, chunk.indices, self.folds.n_folds)
            located = self.places.locate(chunk.codes)
            weights = np.zeros(0) if chunk.weights is None else chunk.weights
            yield LocatedRows(*located, chunk.labels, weights, folds, chunk.start)


@dataclass(frozen=True, eq=False)
class _SumPass(Sums):
    """Sums the loss of rows and its derivatives; exact, since all numbers are integers.

    The loss, (2,), is in steps of the coarse and of the fine grid; the derivatives, (n_sets,
    n_table_cells, n_columns), are in steps of the fine grid.
    """

    tables: Floats
    starts: Ints
    sets: Ints
    squared: bool
    scale: float

    def zero(self) -> LossSums:
        return np.zeros(2), np.zeros(self.tables.shape)

    def update(self, state: LossSums, chunk: LocatedRows) -> LossSums:
        rows = chunk.cells, self.starts, chunk.wide, chunk.labels, chunk.weights, chunk.folds
        sets = self.sets if chunk.folds.size else self.sets[:1]
        native.evaluate_sums(*rows, sets, self.tables, int(self.squared), self.scale, *state)
        return state


@dataclass(frozen=True, eq=False)
class _ScorePass(Sums):
    """Adds up the scores of rows, of all or of those on the other side of the fold."""

    tables: Floats
    starts: Ints
    fold: Fold | None

    def zero(self) -> ScoredChunks:
        return []

    def update(self, state: ScoredChunks, chunk: LocatedRows) -> ScoredChunks:
        cells, wide = chunk.cells, chunk.wide
        if self.fold is not None:
            outside = (chunk.folds == self.fold.fold) != self.fold.inside
            cells, wide = cells[outside], wide[outside]
        state.append((chunk.start, RowCells(cells, self.starts, wide).totals(self.tables)))
        return state

    def finish(self, state: ScoredChunks) -> Floats:
        # The rows of a chunk are consecutive, so their first index determines their order.
        ordered = [scores for _, scores in sorted(state, key=lambda part: part[0])]
        return np.concatenate([np.zeros((0, self.tables.shape[1])), *ordered])


def fit_offsets(rows: Rows, log_joint: LogJoint, counted: Floats, context: FitContext) -> Floats:
    """Return the offset of each class, shape (n_classes,), with mean zero over those with rows.

    `log_joint` returns the scores of coded rows; it must be picklable, and a row's result must not
    depend on its chunk. A class without rows (`counted`) keeps its score, and is excluded
    from the predictions of the others.

    About five passes, one per evaluation. First each class's score moves by the logarithm of its
    actual over its predicted frequency (iterative scaling: converges from anywhere), then a
    quasi-Newton descent continues from there. Each row's share is rounded to a grid on which all
    sums are exact.

    Darroch and Ratcliff (1972), DOI 10.1214/aoms/1177692379: iterative scaling.
    """
    n_classes, seen = len(counted), np.flatnonzero(counted > 0)
    if len(seen) < 2:
        return np.zeros(n_classes)
    grid = 2.0 ** (50 - ceil(log2(rows.total_weight)))
    offsets, wanted = np.full(n_classes, NEVER), counted[seen]

    def predict(free: Floats) -> _Predicted:
        offsets[seen] = free
        pass_ = _OffsetPass(log_joint, offsets, grid)
        return context.engine.run(pass_, rows, Progress(), "class offsets")

    free = np.zeros(len(seen))
    for _ in range(MAX_ITER):
        found = predict(free)
        away = np.log(wanted / np.maximum(found.totals[seen], np.finfo(float).tiny))
        if np.abs(away).max() < NEAR:
            break
        free = free + away
    scale = 1.0 / np.sqrt(np.maximum(found.spreads[seen], LEAST_SPREAD * wanted))

    def objective(scaled: Floats) -> tuple[float, Floats]:
        found = predict(scaled * scale)
        return found.loss, (found.totals[seen] - wanted) * scale

    tol = LEAST_GAIN / max(found.loss, 1.0)
    end = minimise(objective, free / scale, max_iter=MAX_ITER, tol=tol, first_step=0.5)
    offsets[seen] = end.at * scale - (end.at * scale).mean()
    return np.where(counted > 0, offsets, 0.0)


class _Predicted(NamedTuple):
    """The rows' loss, and each class's sum of posteriors p and of p (1 - p)."""

    loss: float
    totals: Floats
    spreads: Floats


@dataclass(frozen=True, eq=False)
class _OffsetPass(Sums):
    """Sums the loss of rows, and the posterior of each class, under some offsets."""

    log_joint: LogJoint
    offsets: Floats
    grid: float  # steps of the grid per unit

    def zero(self) -> Floats:
        return np.zeros((2, 1 + len(self.offsets)))  # the loss in two parts; each class

    def update(self, state: Floats, chunk: Chunk) -> Floats:
        for part in chunk.split(BLOCK_CELLS // len(self.offsets)):
            self._add(state, part)
        return state

    def _add(self, state: Floats, chunk: Chunk) -> None:
        scores = self.log_joint(chunk.codes) + self.offsets
        native.normalize(scores, True)
        lost = np.minimum(-scores[np.arange(chunk.n_rows), chunk.labels], MOST_LOST)
        native.normalize(scores, False)
        weights = chunk.row_weights
        # A row of a common class loses a millionth of a nat, one of a rare class many nats.
        coarse = np.rint(lost * weights * self.grid / FINER)
        state[0, 0] += coarse.sum()
        state[1, 0] += np.rint(lost * weights * self.grid - coarse * FINER).sum()
        weighed = (weights * self.grid)[:, None]
        state[0, 1:] += np.rint(scores * weighed).sum(axis=0)
        state[1, 1:] += np.rint(scores * (1.0 - scores) * weighed).sum(axis=0)

    def finish(self, state: Floats) -> _Predicted:
        loss = float(state[0, 0] * FINER + state[1, 0]) / self.grid
        return _Predicted(loss, *(state[:, 1:] / self.grid))
