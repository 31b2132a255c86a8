"""Training rows as cells of tables, kept by the engine, and passes over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from math import ceil, log2
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.codes import Chunk, Rows
from tanager.codes.hashing import Fold, folds_of
from tanager.counts import FoldPlan
from tanager.engines import FitContext, LocalEngine, Piece, Sums
from tanager.loglinear.cells import Terms, by_class
from tanager.loglinear.joining import Joint, Places
from tanager.numerics import Floats, Ints
from tanager.progress import Progress

LossSums = tuple[Floats, Floats]
ScoredChunks = list[tuple[int, Floats]]  # each chunk's first row, and scores (n_rows, n_columns)

NO_FOLDS = np.zeros(0, np.uint8)
ALL_ROWS = np.zeros(1, np.int64)
FINER, COARSE = 2.0**10, 2.0**20  # for the loss's two grids; as in loglinear.c


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
    :math:`s_{ic} = \sum_t T[\mathrm{sets}[f], \mathrm{cell}_{it}, c]`. For two classes there is
    one column, the second's score minus the first's. Two methods work independently of what the
    numbers mean:

    ========  ==========================================================================
    `sums`    the loss :math:`\sum_i w_i \ell(s_i, y_i)` and its gradient w.r.t. the tables
    `totals`  the scores :math:`s_{ic}` of rows
    ========  ==========================================================================

    with :math:`\ell` either :math:`-\log P(y_i \mid x_i)` or the squared error of the posterior,
    :math:`\sum_c (P(c \mid x_i) - [y_i = c])^2`, with :math:`P = \mathrm{softmax}(s)`.

    The engine locates and keeps the rows; without folds they form a single one. Each row's numbers
    are rounded to a grid on which all their sums are exact, so that a result depends neither on
    chunks nor on threads.
    """

    def __init__(
        self, joint: Joint, rows: Rows, context: FitContext, folds: Fold | FoldPlan | None = None
    ) -> None:
        self.n_rows = rows.n_rows
        self._joint = joint
        self._engine = context.engine
        # No sum over rows exceeds 2^52 steps of the grid.
        top = ceil(log2(rows.total_weight)) if rows.total_weight > 0 else 0
        self._scale = 2.0 ** (50 - top)
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
        """Return the scores of all rows, or of one side of a fold, (n_rows, n_columns), in memory.

        `tables` are (n_table_cells, n_columns).
        """
        pass_ = _ScorePass(tables, self._joint.starts, fold)
        return self._engine.run(pass_, self, Progress(), "held-out rows")


class LocatedTerms(LocatedTable):
    """Rows as cells of some terms, trained on those of a fold; None means all.

    Rows on the other side are kept too, for prediction.
    """

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
        """Return the sum of each row's scores, (n_rows, n_classes), up to a term per row.

        For all rows, or for those left out of training; in memory.
        """
        return by_class(self.totals(self._terms.expand(free), self._fold if left_out else None))


@dataclass(frozen=True, eq=False)
class _Locator:
    """How rows are located."""

    places: Places
    folds: Fold | FoldPlan | None

    def __call__(self, piece: Piece[Chunk]) -> Iterator[LocatedRows]:
        for chunk in piece.chunks():
            folds, weights = NO_FOLDS, chunk.weights
            if self.folds is not None:
                folds = folds_of(self.folds.seed, chunk.indices, self.folds.n_folds)
            yield LocatedRows(
                *self.places.locate(chunk.codes),
                chunk.labels,
                np.zeros(0) if weights is None else weights,
                folds,
                chunk.start,
            )


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
        native.evaluate_sums(
            chunk.cells,
            self.starts,
            chunk.wide,
            chunk.labels,
            chunk.weights,
            chunk.folds,
            self.sets if chunk.folds.size else self.sets[:1],
            self.tables,
            int(self.squared),
            self.scale,
            *state,
        )
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
