"""A bounded sample of a table's numbers, the same however it is read."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.codes.hashing import row_hash
from tanager.codes.rows import exact_weights

_NO_HASHES = np.zeros(0, dtype=np.uint64)


class Sampled(NamedTuple):
    """The sampled rows, in the table's order."""

    numbers: NDArray[np.float64]  # (n_columns, n_rows); NaN is missing
    labels: NDArray[np.uint16]  # class codes
    weights: NDArray[np.float64] | None


class RowSample:
    """Keeps the `size` rows whose index has the smallest hash under the seed.

    Which rows these are depends on the seed and on the rows' indices alone,
    not on how the rows were split. Rows are held in arrays with a quarter more
    room than `size`; when they are full, the largest hashes leave in place.
    Where the table has no more than `size` rows, all are kept and none is hashed.
    """

    def __init__(self, seed: int, size: int, n_columns: int, n_rows: int) -> None:
        self._all = size >= n_rows
        room = n_rows if self._all and size else size + size // 4
        self._seed = seed
        self._size = size
        self._bound = np.uint64(2**64 - 1)
        self._held = 0
        self._hashes = np.empty(0 if self._all else room, dtype=np.uint64)
        self._rows = np.empty(room, dtype=np.int64)
        self._numbers = np.empty((n_columns, room))
        self._labels = np.empty(room, dtype=np.int64)
        self._weights = np.empty(room)
        self._weighted = False

    def add(
        self,
        indices: NDArray[np.int64],
        numbers: list[NDArray[Any]],
        labels: NDArray[np.int64],
        weights: NDArray[np.float64] | None,
    ) -> None:
        """Offer rows: a column of numbers each, and the labels' ids."""
        if self._size == 0:
            return
        self._weighted |= weights is not None
        if weights is None:
            weights = np.ones(len(labels))
        hashes = _NO_HASHES if self._all else row_hash(self._seed, indices)
        self._offer(hashes, indices, numbers, labels, weights)

    def merge(self, other: RowSample, ids: NDArray[np.int64]) -> None:
        """Add another sample, whose label ids k are ids[k] here."""
        if self._size == 0:
            return
        held = slice(other._held)
        self._weighted |= other._weighted
        self._offer(
            _NO_HASHES if self._all else other._hashes[held],
            other._rows[held],
            list(other._numbers[:, held]),
            ids[other._labels[held]],
            other._weights[held],
        )

    def _offer(
        self,
        hashes: NDArray[np.uint64],
        rows: NDArray[np.int64],
        numbers: list[NDArray[Any]],
        labels: NDArray[np.int64],
        weights: NDArray[np.float64],
    ) -> None:
        kept: Any = slice(None)
        n_kept = len(rows)
        if not self._all:
            kept = np.flatnonzero(hashes <= self._bound)
            if self._held + len(kept) > len(self._rows):
                self._tighten(hashes[kept])
                kept = np.flatnonzero(hashes <= self._bound)
            n_kept = len(kept)
        here = slice(self._held, self._held + n_kept)
        if not self._all:
            self._hashes[here] = hashes[kept]
        self._rows[here] = rows[kept]
        self._labels[here], self._weights[here] = labels[kept], weights[kept]
        for column, more in zip(self._numbers, numbers, strict=True):
            column[here] = more[kept]
        self._held += n_kept

    def _tighten(self, more: NDArray[np.uint64]) -> None:
        """Lower the bound to the `size` smallest of the held and more hashes; drop the rest."""
        hashes = np.concatenate([self._hashes[: self._held], more])
        if len(hashes) <= self._size:
            return
        self._bound = np.partition(hashes, self._size - 1)[self._size - 1]
        self._keep(np.flatnonzero(self._hashes[: self._held] <= self._bound))

    def _keep(self, kept: NDArray[np.int64]) -> None:
        arrays = [self._rows, self._labels, self._weights, *self._numbers]
        for array in arrays if self._all else [self._hashes, *arrays]:
            array[: len(kept)] = array[kept]
        self._held = len(kept)

    def shrink(self) -> None:
        """Drop all but the `size` rows of the smallest hashes; put them in the table's order."""
        if not self._size:
            return
        if not self._all:
            self._tighten(_NO_HASHES)
        rows = self._rows[: self._held]
        if (rows[1:] < rows[:-1]).any():
            self._keep(np.argsort(rows))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the room that is not filled."""
        state = dict(self.__dict__)
        for name in ("_hashes", "_rows", "_labels", "_weights"):
            state[name] = state[name][: self._held].copy()
        state["_numbers"] = self._numbers[:, : self._held].copy()
        return state

    def take(self, order: NDArray[np.int64], total: float) -> Sampled:
        """Return the sample, labels k as classes order[k]; `total` is the sum of all weights."""
        held = slice(self._held)
        labels = np.asarray(order)[self._labels[held]].astype(np.uint16)
        weights = None
        if self._weighted:
            weights = exact_weights(self._weights[held], total)
        return Sampled(self._numbers[:, held], labels, weights)
