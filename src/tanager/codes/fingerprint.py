"""A fingerprint of rows: another value in one cell, or another order, is another fingerprint."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tanager.codes.codebook import Codebook
from tanager.codes.hashing import row_hash
from tanager.codes.rows import Chunk, Rows

if TYPE_CHECKING:
    from tanager.engines import FitContext

Words = NDArray[np.uint64]

_SEED = 14  # any number: it only has to stay the same


class _Digest:
    """The pass: for every feature, the sum over the rows of code times the hash of the index.

    Sums of whole numbers modulo 2^64 are the same in any chunking. Two tables that
    differ have the same sums with a probability of about 2^-56 a feature.
    """

    def __init__(self, n_features: int) -> None:
        self.n_features = n_features

    def zero(self) -> Words:
        return np.zeros(self.n_features + 3, dtype=np.uint64)

    def update(self, state: Words, chunk: Chunk) -> Words:
        words = row_hash(_SEED, chunk.indices)
        columns = [*chunk.codes, np.ones(len(words)), chunk.labels]
        sums = [np.dot(column.astype(np.uint64), words) for column in columns]
        bits = np.zeros(len(words), np.uint64)
        if chunk.weights is not None:
            bits = np.ascontiguousarray(chunk.weights, dtype=np.float64).view(np.uint64)
        # The low bits of most weights are zeros: fold the high ones onto them.
        sums.append(np.dot(bits ^ (bits >> np.uint64(32)), words))
        # Arrays wrap around in silence; a single number would warn.
        state += np.array(sums, np.uint64)
        return state

    def merge(self, a: Words, b: Words) -> Words:
        a += b
        return a

    def finish(self, state: Words) -> Words:
        return state


def fingerprint_rows(codebook: Codebook, rows: Rows, context: FitContext) -> str:
    """Return a text that tells rows, with their order, weights and columns, from all others.

    One pass over the coded rows. It depends neither on the engine nor on the chunking.
    """
    words = context.engine.run(_Digest(codebook.domain.n_features), rows, context.progress, "codes")
    described = json.dumps(codebook.to_dict(), sort_keys=True, default=str)
    digest = hashlib.sha256(described.encode())
    digest.update(words.astype("<u8").tobytes())
    return digest.hexdigest()
