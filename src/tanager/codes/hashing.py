"""Folds, samples and fingerprints of rows by a hash of seed and index: the same in any chunking."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tanager.codes.codebook import Codebook
from tanager.codes.rows import Choice, Chunk, Rows
from tanager.engines import FitContext, KeptChunk, Sums
from tanager.numerics import Floats, Ints
from tanager.progress import Progress

_GAMMA = 0x9E3779B97F4A7C15  # 2^64 divided by the golden ratio, odd
_WORD = 1 << 64
_SEED = 14  # arbitrary, but must never change


def row_hash(seed: int, indices: NDArray[Any]) -> NDArray[np.uint64]:
    """Return 64 random bits per row, a function of only the seed and row index.

    SplitMix64, started at the mixed seed (so seeds 0, 1, 2, ... are unrelated) and advanced to
    the index: Steele, Lea and Flood (2014), doi:10.1145/2660193.2660195.

    >>> [hex(word) for word in row_hash(7, np.array([0, 1]))]
    ['0x161ebc4b0828448a', '0xea5787965e2c85f2']
    """
    start = _mix(np.array([(seed + 1) * _GAMMA % _WORD], dtype=np.uint64))
    state = np.asarray(indices).astype(np.uint64)
    state *= np.uint64(_GAMMA)
    state += start
    return _mix(state)


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply SplitMix64's finaliser, in place."""
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def folds_of(seed: int, indices: NDArray[Any], n_folds: int) -> NDArray[np.uint8]:
    """Return the fold of each row, 0 .. n_folds-1, all equally likely; at most 256 folds.

    >>> folds_of(7, np.arange(12), 5).tolist()
    [0, 4, 1, 1, 0, 0, 4, 3, 3, 3, 3, 3]
    """
    high = row_hash(seed, indices) >> np.uint64(32)
    return ((high * np.uint64(n_folds)) >> np.uint64(32)).astype(np.uint8)


@dataclass(frozen=True)
class Fold:
    """Selects the rows of one fold, or all others, for `Rows.subset`."""

    seed: int
    n_folds: int
    fold: int
    inside: bool = True  # whether to select the rows of the fold or the others

    def __call__(self, indices: NDArray[Any]) -> NDArray[np.bool_]:
        """Return a mask of the selected rows."""
        return (folds_of(self.seed, indices, self.n_folds) == self.fold) == self.inside


@dataclass(frozen=True)
class Sample:
    """Selects the rows whose hash is at most a bound (`hash_bound`), or the others."""

    seed: int
    bound: int
    inside: bool = True  # whether to select the rows of the sample or the others

    def __call__(self, indices: NDArray[Any]) -> NDArray[np.bool_]:
        """Return a mask of the selected rows."""
        return (row_hash(self.seed, indices) <= np.uint64(self.bound)) == self.inside


def collect_rows(rows: Rows, choice: Choice | None, context: FitContext) -> Rows:
    """Return the chosen rows, or all, as one chunk in memory; a cluster sends only these rows."""
    first = next(iter(rows.pieces()), None)
    whole = isinstance(first, KeptChunk) and first.in_memory and len(rows.pieces()) == 1
    if choice is None and whole:
        return rows
    chunks = context.engine.run(_CollectPass(choice), rows, Progress(), "collect rows")
    if not chunks:
        return Rows(rows.domain, (), weighted=rows.weighted)
    taken = Rows(rows.domain, [KeptChunk(one) for one in chunks], weighted=rows.weighted)
    return Rows(rows.domain, [KeptChunk(taken.gather())], weighted=rows.weighted)


def sample_rows(rows: Rows, seed: int, most: int, context: FitContext) -> Rows:
    """Return `most` rows in memory, chosen by the hash of their index; all if there are fewer."""
    if rows.n_rows <= most:
        return collect_rows(rows, None, context)
    return collect_rows(rows, Sample(seed, hash_bound(rows, seed, most, context)), context)


def hash_bound(rows: Rows, seed: int, size: int, context: FitContext) -> int:
    """Return the bound for a `Sample` of `size` rows, at least one and at most all."""
    return context.engine.run(_HashPass(seed, size), rows, Progress(), "sample rows")


class RowSample:
    """Keeps the `size` rows whose index has the smallest hash under the seed.

    Rows are stored in blocks, each a list of arrays: hashes, row indices, label ids, weights, then
    the numbers by column. Once there are a quarter more rows than `size`, those with the largest
    hashes are dropped.
    """

    def __init__(self, seed: int, size: int) -> None:
        self._seed, self._size = seed, size
        self._bound = np.uint64(2**64 - 1)
        self._blocks: list[list[NDArray[Any]]] = []

    def add(
        self, indices: Ints, numbers: list[NDArray[Any]], labels: Ints, weights: Floats | None
    ) -> None:
        """Add rows: columns of numbers, and the ids of the labels."""
        weights = np.ones(len(labels)) if weights is None else weights
        self._offer([row_hash(self._seed, indices), indices, labels, weights, *numbers])

    def merge(self, other: RowSample, ids: Ints) -> None:
        """Add another sample; its label id k is ids[k] here."""
        for hashes, rows, labels, *rest in other._blocks:
            self._offer([hashes, rows, ids[labels], *rest])

    def _offer(self, block: list[NDArray[Any]]) -> None:
        self._blocks.append(self._below_bound(block))
        if sum(len(one[0]) for one in self._blocks) > self._size * 5 // 4:
            self.tighten()

    def _below_bound(self, block: list[NDArray[Any]]) -> list[NDArray[Any]]:
        kept = block[0] <= self._bound
        return block if kept.all() else [array[kept] for array in block]

    def tighten(self) -> None:
        """Lower the bound to the `size` smallest hashes, and drop the other rows."""
        hashes = np.concatenate([np.zeros(0, np.uint64), *(block[0] for block in self._blocks)])
        if len(hashes) > self._size:
            self._bound = np.partition(hashes, self._size - 1)[self._size - 1]
            self._blocks = [self._below_bound(block) for block in self._blocks]

    def take(self, order: Ints) -> tuple[list[Floats], NDArray[np.uint16], Floats]:
        """Remove and return numbers by column (NaN: missing), classes order[label], and weights."""
        blocks, self._blocks = self._blocks, []
        if not blocks:
            return [], np.zeros(0, np.uint16), np.zeros(0)
        rows = np.concatenate([block[1] for block in blocks])
        places = slice(None) if (rows[1:] > rows[:-1]).all() else np.argsort(rows)

        def join(at: int, kind: Any) -> NDArray[Any]:
            parts = [block[at] for block in blocks]
            for block in blocks:
                block[at] = rows[:0]  # so that only one column at a time exists twice
            joined: NDArray[Any] = np.concatenate(parts, dtype=kind)[places]
            return joined

        numbers = [join(at, np.float64) for at in range(4, len(blocks[0]))]
        classes = np.asarray(order)[join(2, np.int64)].astype(np.uint16)
        return numbers, classes, join(3, np.float64)


@dataclass(frozen=True)
class _CollectPass(Sums):
    """Collects the rows selected by a function of their indices."""

    choice: Choice | None

    def zero(self) -> list[Chunk]:
        return []

    def update(self, state: list[Chunk], chunk: Chunk) -> list[Chunk]:
        taken = chunk if self.choice is None else chunk.take(self.choice(chunk.indices))
        return [*state, taken] if taken.n_rows else state

    def finish(self, state: list[Chunk]) -> list[Chunk]:
        return sorted(state, key=lambda chunk: chunk.start)


@dataclass(frozen=True)
class _HashPass:
    """Finds the bound below which the hashes of `size` rows lie."""

    seed: int
    size: int

    def zero(self) -> NDArray[np.uint64]:
        return np.zeros(0, np.uint64)

    def update(self, state: NDArray[np.uint64], chunk: Chunk) -> NDArray[np.uint64]:
        return self.merge(state, row_hash(self.seed, chunk.indices))

    def merge(self, a: NDArray[np.uint64], b: NDArray[np.uint64]) -> NDArray[np.uint64]:
        both = np.concatenate([a, b])
        return both if len(both) <= self.size else np.partition(both, self.size - 1)[: self.size]

    def finish(self, state: NDArray[np.uint64]) -> int:
        return int(state.max())


class _Digest(Sums):
    """Sums, per feature, codes times row hashes modulo 2^64; two tables agree in one of 2^56."""

    def __init__(self, n_features: int) -> None:
        self.n_features = n_features

    def zero(self) -> NDArray[np.uint64]:
        return np.zeros(self.n_features + 3, dtype=np.uint64)

    def update(self, state: NDArray[np.uint64], chunk: Chunk) -> NDArray[np.uint64]:
        words = row_hash(_SEED, chunk.indices)
        columns = [*chunk.codes, np.ones(len(words)), chunk.labels]
        sums = [np.dot(column.astype(np.uint64), words) for column in columns]
        bits = np.zeros(len(words), np.uint64)
        if chunk.weights is not None:
            bits = np.ascontiguousarray(chunk.weights, dtype=np.float64).view(np.uint64)
        # The low bits of most weights are zero: fold the high ones onto them.
        sums.append(np.dot(bits ^ (bits >> np.uint64(32)), words))
        # Arrays wrap around silently; scalars would warn.
        state += np.array(sums, np.uint64)
        return state


def fingerprint_rows(codebook: Codebook, rows: Rows, context: FitContext) -> str:
    """Return a text that identifies rows including their order, weights and columns."""
    words = context.engine.run(_Digest(codebook.domain.n_features), rows, context.progress, "codes")
    digest = hashlib.sha256(json.dumps(codebook.to_dict(), sort_keys=True, default=str).encode())
    digest.update(words.astype("<u8").tobytes())
    return digest.hexdigest()
