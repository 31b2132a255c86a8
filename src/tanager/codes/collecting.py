"""Some rows brought together in memory, through the engine: a fold, or a random sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tanager.codes.hashing import Sample, row_hash
from tanager.codes.rows import Choice, Chunk, Rows
from tanager.engines import FitContext, KeptChunk
from tanager.progress import Progress


def collect_rows(rows: Rows, choice: Choice | None, context: FitContext) -> Rows:
    """Return the rows that a function of their indices chooses, or all, as one chunk in memory.

    The engine chooses where the rows are, so that on a cluster only these travel.
    """
    pieces = rows.pieces()
    if choice is None and len(pieces) == 1 and isinstance(pieces[0], KeptChunk):
        return rows
    chunks = context.engine.run(_CollectPass(choice), rows, Progress(), "collect rows")
    if not chunks:
        return Rows(rows.domain, (), weighted=rows.weighted, n_rows=0)
    indices = np.concatenate([chunk.indices for chunk in chunks])
    joined = Chunk(
        np.concatenate([chunk.codes for chunk in chunks], axis=1),
        np.concatenate([chunk.labels for chunk in chunks]),
        np.concatenate([c.weights for c in chunks if c.weights is not None])
        if rows.weighted
        else None,
        int(indices[0]),
        indices,
    )
    return Rows(rows.domain, [KeptChunk(joined)], weighted=rows.weighted)


def sample_rows(rows: Rows, seed: int, most: int, context: FitContext) -> Rows:
    """Return a random sample of `most` rows in memory; all where they are no more.

    Which rows it has is a function of the seed and their indices alone.
    """
    if rows.n_rows <= most:
        return collect_rows(rows, None, context)
    return collect_rows(rows, Sample(seed, hash_bound(rows, seed, most, context)), context)


def hash_bound(rows: Rows, seed: int, size: int, context: FitContext) -> int:
    """Return the bound of the `Sample` that has `size` rows, at least one and at most all."""
    return context.engine.run(_HashPass(seed, size), rows, Progress(), "sample rows")


@dataclass(frozen=True)
class _CollectPass:
    """Collects the rows that a function of their indices chooses."""

    choice: Choice | None

    def zero(self) -> list[Chunk]:
        return []

    def update(self, state: list[Chunk], chunk: Chunk) -> list[Chunk]:
        taken = chunk if self.choice is None else chunk.take(self.choice(chunk.indices))
        return [*state, taken] if taken.n_rows else state

    def merge(self, a: list[Chunk], b: list[Chunk]) -> list[Chunk]:
        return a + b

    def finish(self, state: list[Chunk]) -> list[Chunk]:
        return sorted(state, key=lambda chunk: chunk.start)


@dataclass(frozen=True)
class _HashPass:
    """Finds the bound below which so many rows have their hash."""

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
