"""A bounded sample of a streamed table's numbers, the same however it is read."""

from __future__ import annotations

from typing import NamedTuple

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
    not on how the rows were split. Between two cuts the sample may hold up to
    half as much again.
    """

    def __init__(self, key: int, size: int, n_columns: int) -> None:
        self._key = key
        self._size = size
        self._n_columns = n_columns
        self._bound = np.uint64(2**64 - 1)
        self._held = 0
        self._rows: list[NDArray[np.int64]] = []
        self._numbers: list[NDArray[np.float64]] = []
        self._labels: list[NDArray[np.int64]] = []
        self._weights: list[NDArray[np.float64]] = []
        self._hashes: list[NDArray[np.uint64]] = []
        self._weighted = False

    def add(
        self,
        start: int,
        numbers: list[NDArray[np.float64]],
        labels: NDArray[np.int64],
        weights: NDArray[np.float64] | None,
    ) -> None:
        """Offer rows start, start + 1, ...: a column of numbers each, and the labels' ids."""
        if self._size == 0:
            return
        hashes = hash_rows(start, len(labels), self._key)
        kept = np.flatnonzero(hashes <= self._bound)
        self._weighted |= weights is not None
        self._hashes.append(hashes[kept])
        self._rows.append(kept + start)
        self._numbers.append(np.stack([column[kept] for column in numbers]))
        self._labels.append(labels[kept])
        self._weights.append(np.ones(len(kept)) if weights is None else weights[kept])
        self._held += len(kept)
        if self._held > self._size + self._size // 2:
            self.shrink()

    def merge(self, other: RowSample, ids: NDArray[np.int64]) -> None:
        """Add another sample, whose label ids k are ids[k] here."""
        self._hashes += other._hashes
        self._rows += other._rows
        self._numbers += other._numbers
        self._labels += [ids[labels] for labels in other._labels]
        self._weights += other._weights
        self._held += other._held
        self._weighted |= other._weighted
        self._bound = min(self._bound, other._bound)
        self.shrink()

    def shrink(self) -> None:
        """Drop all but the `size` rows of the smallest hashes."""
        if not self._hashes:
            return
        hashes = np.concatenate(self._hashes)
        rows = np.concatenate(self._rows)
        kept = np.arange(len(hashes))
        if len(hashes) > self._size:
            kept = np.argpartition(hashes, self._size - 1)[: self._size]
            self._bound = hashes[kept].max()
        kept = kept[np.argsort(rows[kept])]
        self._hashes, self._rows = [hashes[kept]], [rows[kept]]
        self._numbers = [np.concatenate(self._numbers, axis=1)[:, kept]]
        self._labels = [np.concatenate(self._labels)[kept]]
        self._weights = [np.concatenate(self._weights)[kept]]
        self._held = len(kept)

    def take(self, order: NDArray[np.int64], factors: NDArray[np.float64], total: float) -> Sampled:
        """Return the sample with labels k as classes order[k] and weights with their factors."""
        if not self._hashes:
            empty = np.empty((self._n_columns, 0))
            return Sampled(empty, np.empty(0, dtype=np.uint16), None)
        labels = np.asarray(order)[self._labels[0]].astype(np.uint16)
        weights = None
        if self._weighted or (factors != 1).any():
            weights = exact_weights(self._weights[0] * factors[labels], total)
        return Sampled(self._numbers[0], labels, weights)
