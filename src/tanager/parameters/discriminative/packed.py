"""Training rows as slot numbers, kept in memory between passes where they fit."""

from __future__ import annotations

from collections.abc import Iterator
from math import log2
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.codes import CodedRows
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
    rows : CodedRows
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
        self, rows: CodedRows, packing: Packing, folds: NDArray[np.uint8] | None = None
    ) -> None:
        self._rows = rows
        self.packing = packing
        self.n_rows = rows.n_rows
        ratio = max(rows.n_rows, 1) / rows.total_weight if rows.total_weight > 0 else 1.0
        self.unit = 2.0 ** round(log2(ratio))
        self.total_weight = rows.total_weight * self.unit
        self._folds = np.zeros(0, np.uint8) if folds is None else folds
        self._kept: dict[int, PackedRows] = {}

    def blocks(self) -> Iterator[object]:
        """Iterate over the packed pieces that are kept, or else over the rows' handles."""
        if sum(piece.n_rows for piece in self._kept.values()) == self.n_rows:
            return iter([self._kept[start] for start in sorted(self._kept)])
        return self._rows.blocks()

    def read(self, block: object) -> PackedRows:
        """Decode and pack one piece."""
        if isinstance(block, PackedRows):
            return block
        chunk = self._rows.read(block)
        joint, slots = self.packing.code(chunk.codes)
        weights = np.zeros(0) if chunk.weights is None else chunk.weights * self.unit
        folds = self._folds[chunk.start : chunk.start + chunk.n_rows]
        packed = PackedRows(joint, slots, chunk.labels, weights, folds)
        share = KEEP_BYTES * chunk.n_rows / max(self.n_rows, 1)
        if sum(array.nbytes for array in packed) <= share:
            self._kept[chunk.start] = packed
        return packed
