"""Folds and samples of rows, by a hash of seed and row index.

A row is known by its index in the source. What is drawn for a row is a
function of the seed and this index alone. So folds, samples and hold-outs are
the same on any number of threads and in any chunking, and nothing has to be
stored for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_GAMMA = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio, odd
_WORD = 1 << 64


def row_hash(seed: int, indices: NDArray[Any]) -> NDArray[np.uint64]:
    """Return 64 random bits of each row, a function of seed and row index alone.

    seed: from 0 to 2^64 - 1; see `FitContext.row_seed`.
    indices: shape (n_rows,); the rows' indices in the source.

    SplitMix64: the generator started at the mixed seed and moved to the
    index. Mixing the seed first keeps seeds 0, 1, 2, ... unrelated.

    G. L. Steele, D. Lea and C. H. Flood (2014). Fast splittable pseudorandom
    number generators. OOPSLA 2014, 453-472. doi:10.1145/2660193.2660195

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
    """The rows of one fold, or of all others: for `Rows.subset`."""

    seed: int
    n_folds: int
    fold: int
    inside: bool = True  # whether the rows of the fold are meant, or the others

    def __call__(self, indices: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which of the rows are meant."""
        held: NDArray[np.bool_] = folds_of(self.seed, indices, self.n_folds) == self.fold
        return held if self.inside else ~held


@dataclass(frozen=True)
class Sample:
    """The rows whose hash is at most a bound, or the others: for `Rows.subset`."""

    seed: int
    bound: int  # from `tanager.codes.hash_bound`, where the sample shall have a certain size
    inside: bool = True  # whether the rows of the sample are meant, or the others

    def __call__(self, indices: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which of the rows are meant."""
        held: NDArray[np.bool_] = row_hash(self.seed, indices) <= np.uint64(self.bound)
        return held if self.inside else ~held
