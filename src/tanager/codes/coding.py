"""From raw rows to rows of codes, each coded once and kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tanager.codes.codebook import Codebook
from tanager.codes.raw import RawChunk, RawPiece, RawRows
from tanager.codes.rows import Chunk, Rows, exact_weights
from tanager.codes.targets import code_labels

if TYPE_CHECKING:
    from tanager.engines import FitContext


@dataclass(frozen=True, eq=False)
class RowCoder:
    """Codes pieces of raw rows; rows of weight zero are left out."""

    codebook: Codebook
    weighted: bool  # whether a weight differs from one
    total_weight: float  # the sum of all rows' weights

    def __call__(self, piece: RawPiece) -> Iterator[Chunk]:
        """Iterate over the coded chunks."""
        for raw in piece.chunks():
            chunk = self._code(raw.positive(), piece.target)
            if chunk.n_rows:
                yield chunk

    def _code(self, raw: RawChunk, target: str | None) -> Chunk:
        labels: Any = raw.labels
        if not isinstance(labels, np.ndarray):
            # Rows are left out only where a pass over the weights has refused nulls.
            labels = code_labels(self.codebook.target, labels, target, raw.start)
        weights = None
        if self.weighted and raw.weights is not None:
            weights = exact_weights(raw.weights, self.total_weight)
        codes = self.codebook.encode_chunk(raw.columns, raw.matrix)
        return Chunk(codes, labels, weights, raw.start, raw.row_index)


def code_rows(
    raw: RawRows,
    codebook: Codebook,
    weighted: bool,
    n_rows: int,
    total_weight: float,
    context: FitContext,
) -> Rows:
    """Code all rows and keep them where they were coded.

    weighted: whether a weight differs from one.
    n_rows: rows of positive weight.
    """
    coder = RowCoder(codebook, weighted, total_weight)
    pieces = context.engine.keep(coder, raw.pieces(), context.rows_limit, context.progress, "codes")
    return Rows(
        codebook.domain,
        pieces,
        weighted=weighted,
        n_rows=n_rows,
        total_weight=total_weight,
    )
