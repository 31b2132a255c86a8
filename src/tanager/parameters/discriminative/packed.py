"""Training rows as slot numbers, kept in memory between passes where they fit."""

from __future__ import annotations

from collections.abc import Iterator
from math import log2
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Chunk, Rows
from tanager.engines import Piece
from tanager.parameters.discriminative.packing import Packing

__all__ = ["PackedRows", "PackedTable"]

KEEP_BYTES = 1 << 30


class PackedRows(NamedTuple):
    """Some rows.

    Attributes
    ----------
    joint : (n_groups, n_rows) of uint16
    slots : (n_wide, n_rows) of int32
    labels : (n_rows,) of uint16
    weights : (n_rows,) of float64, or empty where every weight is one
    folds : (n_rows,) of uint8, or empty where there is one fold
    """

    joint: NDArray[np.uint16]
    slots: NDArray[np.int32]
    labels: NDArray[np.uint16]
    weights: NDArray[np.float64]
    folds: NDArray[np.uint8]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.labels.shape[0]


class PackedTable:
    """A table's rows, packed when first read and kept while they fit into memory.

    Parameters
    ----------
    rows : Rows
    packing : Packing
    folds : ndarray of uint8, shape (n_rows,), or None

    Attributes
    ----------
    n_rows : int
    unit : float
        The power of two by which weights were multiplied, to be about one a row.
    total_weight : float
        After that.
    """

    def __init__(
        self, rows: Rows, packing: Packing, folds: NDArray[np.uint8] | None = None
    ) -> None:
        self._rows = rows
        self.packing = packing
        self.n_rows = rows.n_rows
        ratio = max(rows.n_rows, 1) / rows.total_weight if rows.total_weight > 0 else 1.0
        self.unit = 2.0 ** round(log2(ratio))
        self.total_weight = rows.total_weight * self.unit
        self._folds = np.zeros(0, np.uint8) if folds is None else folds
        self._pieces: list[Piece[PackedRows]] | None = None

    def pieces(self) -> list[Piece[PackedRows]]:
        """Return the addresses of the packed rows."""
        if self._pieces is None:
            starts = np.cumsum([0, *(piece.n_rows for piece in self._rows.pieces())])
            self._pieces = [
                _PackedPiece(self, piece, int(start))
                for piece, start in zip(self._rows.pieces(), starts, strict=False)
            ]
        return list(self._pieces)

    def pack(self, chunk: Chunk, start: int) -> PackedRows:
        """Pack the rows from position `start` on."""
        joint, slots = self.packing.code(chunk.codes)
        weights = np.zeros(0) if chunk.weights is None else chunk.weights * self.unit
        folds = self._folds[start : start + chunk.n_rows]
        return PackedRows(joint, slots, chunk.labels, weights, folds)

    def keeps(self, packed: PackedRows) -> bool:
        """Return whether there is room to keep packed rows."""
        share = KEEP_BYTES * packed.n_rows / max(self.n_rows, 1)
        return sum(array.nbytes for array in packed) <= share


class _PackedPiece:
    """Some rows, packed when first read."""

    def __init__(self, table: PackedTable, piece: Piece[Chunk], start: int) -> None:
        self._table = table
        self._piece = piece
        self._start = start
        self._kept: list[PackedRows] | None = None

    @property
    def n_rows(self) -> int:
        return self._piece.n_rows

    def chunks(self) -> Iterator[PackedRows]:
        if self._kept is not None:
            yield from self._kept
            return
        kept, start = [], self._start
        for chunk in self._piece.chunks():
            packed = self._table.pack(chunk, start)
            start += chunk.n_rows
            kept.append(packed)
            yield packed
        if all(self._table.keeps(packed) for packed in kept):
            self._kept = kept
