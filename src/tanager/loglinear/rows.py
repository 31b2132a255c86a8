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
from tanager.engines import FitContext, LocalEngine, Piece
from tanager.loglinear.cells import Terms, by_class
from tanager.loglinear.joining import Places
from tanager.progress import Progress

__all__ = ["LocatedRows", "LocatedTable"]

Floats = NDArray[np.float64]

NO_FOLDS = np.zeros(0, np.uint8)


class LocatedRows(NamedTuple):
    """Some rows as cells of tables.

    Attributes
    ----------
    cells : (n_rows, n_tables) of uint16
        Counted from the tables' starts.
    labels : (n_rows,)
    weights : (n_rows,), or empty where every weight is one
    folds : (n_rows,) of uint8, or empty where there are none
    start : int
        The index of the first row.
    """

    cells: NDArray[np.uint16]
    labels: NDArray[np.uint16]
    weights: Floats
    folds: NDArray[np.uint8]
    start: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.labels.shape[0])


class LocatedTable:
    """All rows as cells of some terms, located once and kept where they are.

    Parameters
    ----------
    terms : Terms
    rows : Rows
    context : FitContext
        Its engine locates and keeps the rows.
    fold : Fold or None
        The rows to learn from; None is all. Those of the other side are kept
        too, to be asked about.

    Attributes
    ----------
    n_rows : int
    """

    def __init__(
        self, terms: Terms, rows: Rows, context: FitContext, fold: Fold | None = None
    ) -> None:
        self.n_rows = rows.n_rows
        self._terms = terms
        self._fold = fold
        self._engine = context.engine
        # No sum over rows is more than 2^51 steps of the grid, so all sums are exact.
        top = ceil(log2(rows.total_weight)) if rows.total_weight > 0 else 0
        self._scales = 2.0 ** (50 - top), 2.0 ** (40 - top)
        locator = _Locator(terms.joint.places, fold)
        self._pieces = self._engine.keep(
            locator, rows.pieces(), context.memory_limit, Progress(), "locate rows"
        )
        # Of few rows a pass takes no longer than an engine to begin one.
        here = isinstance(self._engine, LocalEngine) and len(self._pieces) == 1
        self._alone = next(iter(self._pieces[0].chunks())) if here else None

    def other(self, fold: Fold) -> LocatedTable:
        """Return the same rows, to learn from another of their folds."""
        view = copy(self)
        view._fold = fold
        return view

    def pieces(self) -> Sequence[Piece[LocatedRows]]:
        """Return the addresses of the rows."""
        return self._pieces

    def evaluate(self, free: Floats) -> tuple[float, Floats]:
        """Return the loss of the rows to learn from, and its derivatives by the parameters."""
        tables = self._terms.expand(free)
        pass_ = _SumPass(tables, self._terms.joint.starts, self._fold, self._scales)
        if self._alone is None:
            loss, slopes = self._engine.run(pass_, self, Progress(), "parameters")
        else:
            loss, slopes = pass_.update(pass_.zero(), self._alone)
        slopes = self._terms.pull(slopes)
        slopes /= self._scales[0]
        return float(loss[0]) / self._scales[1], slopes

    def log_joint(self, free: Floats, *, left_out: bool = False) -> Floats:
        """Return the sum of each row's scores, (n_rows, n_classes), less what all classes share.

        Of all rows, or of those that are left out of learning; in memory.
        """
        fold = self._fold if left_out else None
        pass_ = _ScorePass(self._terms.expand(free), self._terms.joint.starts, fold)
        return by_class(self._engine.run(pass_, self, Progress(), "held-out rows"))


@dataclass(frozen=True, eq=False)
class _Locator:
    """How rows are located."""

    places: Places
    fold: Fold | None

    def __call__(self, piece: Piece[Chunk]) -> Iterator[LocatedRows]:
        for chunk in piece.chunks():
            folds, weights = NO_FOLDS, chunk.weights
            if self.fold is not None:
                folds = folds_of(self.fold.seed, chunk.indices, self.fold.n_folds)
            yield LocatedRows(
                self.places.locate(chunk.codes),
                chunk.labels,
                np.zeros(0) if weights is None else weights,
                folds,
                chunk.start,
            )


class _Sums(NamedTuple):
    loss: Floats  # (1,), in steps of the grid
    slopes: Floats  # (n_table_cells, n_columns), in steps of the grid


@dataclass(frozen=True, eq=False)
class _SumPass:
    """Sums the loss of rows and its derivatives; exact, since all numbers are whole."""

    tables: Floats
    starts: NDArray[np.int64]
    fold: Fold | None
    scales: tuple[float, float]

    def zero(self) -> _Sums:
        return _Sums(np.zeros(1), np.zeros(self.tables.shape))

    def update(self, state: _Sums, chunk: LocatedRows) -> _Sums:
        fold = self.fold
        native.evaluate_sums(
            chunk.cells,
            self.starts,
            chunk.labels,
            chunk.weights,
            NO_FOLDS if fold is None else chunk.folds,
            0 if fold is None else fold.fold,
            1 if fold is None else int(fold.inside),
            self.tables,
            *self.scales,
            *state,
        )
        return state

    def merge(self, a: _Sums, b: _Sums) -> _Sums:
        return _Sums(a.loss + b.loss, a.slopes + b.slopes)

    def finish(self, state: _Sums) -> _Sums:
        return state


@dataclass(frozen=True, eq=False)
class _ScorePass:
    """Adds up the scores of rows, of all or of those on the other side of the fold."""

    tables: Floats
    starts: NDArray[np.int64]
    fold: Fold | None

    def zero(self) -> list[tuple[int, Floats]]:
        return []

    def update(
        self, state: list[tuple[int, Floats]], chunk: LocatedRows
    ) -> list[tuple[int, Floats]]:
        cells = chunk.cells
        if self.fold is not None:
            cells = cells[(chunk.folds == self.fold.fold) != self.fold.inside]
        out = np.empty((cells.shape[0], self.tables.shape[1]))
        native.add_sums(np.ascontiguousarray(cells), self.starts, self.tables, out)
        state.append((chunk.start, out))
        return state

    def merge(
        self, a: list[tuple[int, Floats]], b: list[tuple[int, Floats]]
    ) -> list[tuple[int, Floats]]:
        return a + b

    def finish(self, state: list[tuple[int, Floats]]) -> Floats:
        # The rows of a chunk follow each other, so their first index gives their order.
        ordered = [scores for _, scores in sorted(state, key=lambda part: part[0])]
        return np.concatenate([np.zeros((0, self.tables.shape[1])), *ordered])
