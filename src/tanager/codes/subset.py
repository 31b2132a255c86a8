"""Some of the rows of a stream, chosen by index."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tanager.codes.rows import Chunk, CodedRows, MemoryRows

__all__ = ["SubsetRows"]


class SubsetRows:
    """The rows of another stream whose indices are in a given set, or are not.

    Parameters
    ----------
    rows : CodedRows
    chosen : ndarray of int64
        Sorted row indices.
    keep : bool
        Keep the chosen rows (True), or all others (False).
    """

    def __init__(self, rows: CodedRows, chosen: NDArray[np.int64], *, keep: bool) -> None:
        self.domain = rows.domain
        self.n_rows = int(chosen.shape[0] if keep else rows.n_rows - chosen.shape[0])
        self.total_weight = float(rows.total_weight)
        self._rows = rows
        self._chosen = chosen
        self._keep = keep

    def blocks(self) -> Iterator[object]:
        """Iterate over the other stream's blocks."""
        return self._rows.blocks()

    def read(self, block: object) -> Chunk:
        """Decode a block and keep its part of the rows."""
        chunk = self._rows.read(block)
        low, high = np.searchsorted(self._chosen, [chunk.start, chunk.start + chunk.n_rows])
        mask = np.full(chunk.n_rows, not self._keep)
        mask[self._chosen[low:high] - chunk.start] = self._keep
        return Chunk(
            np.ascontiguousarray(chunk.codes[:, mask]),
            chunk.labels[mask],
            None if chunk.weights is None else chunk.weights[mask],
            chunk.start,
        )

    def chunks(self) -> Iterator[Chunk]:
        """Iterate over the kept rows."""
        return (self.read(block) for block in self.blocks())

    def gather(self) -> Chunk:
        """Return the kept rows as one chunk."""
        parts = list(self.chunks())
        weights = [part.weights for part in parts if part.weights is not None]
        return Chunk(
            np.concatenate([part.codes for part in parts], axis=1),
            np.concatenate([part.labels for part in parts]),
            np.concatenate(weights) if weights else None,
            0,
        )

    def in_memory(self) -> MemoryRows:
        """Return the kept rows as rows in memory."""
        codes, labels, weights, _ = self.gather()
        return MemoryRows(self.domain, codes, labels, weights)
