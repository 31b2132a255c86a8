"""A bounded sample of a streamed table's numbers, the same however it is read."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.codes.rows import exact_weights

__all__ = ["RowSample", "Sampled", "hash_rows"]


class Sampled(NamedTuple):
    """The sampled rows, in the table's order."""

    numbers: NDArray[np.float64]  # (n_columns, n_rows); NaN is missing
    labels: NDArray[np.uint16]  # class codes
    weights: NDArray[np.float64] | None


def hash_rows(start: int, n_rows: int, key: int) -> NDArray[np.uint64]:
    """Return a hash of each row's index (the finaliser of SplitMix64, keyed)."""
    z = np.arange(start, start + n_rows, dtype=np.uint64) + np.uint64(key)
    z *= np.uint64(0x9E3779B97F4A7C15)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


class RowSample:
    """Keeps the `size` rows whose index has the smallest hash.

    Which rows these are depends on the key and on the number of rows alone,
    not on how the rows were split. Rows are held in arrays with a quarter more
    room than `size`; when they are full, the largest hashes leave in place.
    """

    def __init__(self, key: int, size: int, n_columns: int) -> None:
        room = size + size // 4
        self._key = key
        self._size = size
        self._bound = np.uint64(2**64 - 1)
        self._held = 0
        self._hashes = np.empty(room, dtype=np.uint64)
        self._rows = np.empty(room, dtype=np.int64)
        self._numbers = np.empty((n_columns, room))
        self._labels = np.empty(room, dtype=np.int64)
        self._weights = np.empty(room)
        self._weighted = False

    def add(
        self,
        start: int,
        numbers: list[NDArray[Any]],
        labels: NDArray[np.int64],
        weights: NDArray[np.float64] | None,
    ) -> None:
        """Offer rows start, start + 1, ...: a column of numbers each, and the labels' ids."""
        if self._size == 0:
            return
        self._weighted |= weights is not None
        if weights is None:
            weights = np.ones(len(labels))
        rows = np.arange(start, start + len(labels))
        self._offer(hash_rows(start, len(labels), self._key), rows, numbers, labels, weights)

    def merge(self, other: RowSample, ids: NDArray[np.int64]) -> None:
        """Add another sample, whose label ids k are ids[k] here."""
        if self._size == 0:
            return
        held = slice(other._held)
        self._weighted |= other._weighted
        self._offer(
            other._hashes[held],
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
        kept = np.flatnonzero(hashes <= self._bound)
        if self._held + len(kept) > len(self._hashes):
            self._tighten(hashes[kept])
            kept = np.flatnonzero(hashes <= self._bound)
        here = slice(self._held, self._held + len(kept))
        self._hashes[here], self._rows[here] = hashes[kept], rows[kept]
        self._labels[here], self._weights[here] = labels[kept], weights[kept]
        for column, more in zip(self._numbers, numbers, strict=True):
            column[here] = more[kept]
        self._held += len(kept)

    def _tighten(self, more: NDArray[np.uint64]) -> None:
        """Lower the bound to the `size` smallest of the held and more hashes; drop the rest."""
        hashes = np.concatenate([self._hashes[: self._held], more])
        if len(hashes) <= self._size:
            return
        self._bound = np.partition(hashes, self._size - 1)[self._size - 1]
        self._keep(np.flatnonzero(self._hashes[: self._held] <= self._bound))

    def _keep(self, kept: NDArray[np.int64]) -> None:
        for array in (self._hashes, self._rows, self._labels, self._weights, *self._numbers):
            array[: len(kept)] = array[kept]
        self._held = len(kept)

    def shrink(self) -> None:
        """Drop all but the `size` rows of the smallest hashes; put them in the table's order."""
        if self._size:
            self._tighten(np.empty(0, dtype=np.uint64))
            self._keep(np.argsort(self._rows[: self._held]))

    def take(self, order: NDArray[np.int64], factors: NDArray[np.float64], total: float) -> Sampled:
        """Return the sample with labels k as classes order[k] and weights with their factors."""
        held = slice(self._held)
        labels = np.asarray(order)[self._labels[held]].astype(np.uint16)
        weights = None
        if self._weighted or (factors != 1).any():
            weights = exact_weights(self._weights[held] * factors[labels], total)
        return Sampled(self._numbers[:, held], labels, weights)
