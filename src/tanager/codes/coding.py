"""Raw rows as they are read, and rows of codes, each coded once and kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.codes.codebook import Codebook
from tanager.codes.rows import Chunk, Rows, exact_weights
from tanager.codes.targets import as_weights, check_weights, code_labels, weight_column
from tanager.errors import DataError
from tanager.numerics import Floats, Ints
from tanager.sources import Fragment, Source

if TYPE_CHECKING:
    from tanager.engines import FitContext


class RawChunk(NamedTuple):
    """Some rows."""

    columns: Sequence[pa.Array]  # one per feature
    labels: Any  # pyarrow.Array, or ndarray of uint16 if the target was passed as an array
    weights: Floats | None
    start: int  # index of the first row in the source
    row_index: Ints | None = None  # None: start, start + 1, ...

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.labels)

    @property
    def indices(self) -> Ints:
        """The row indices in the source."""
        if self.row_index is not None:
            return self.row_index
        return np.arange(self.start, self.start + self.n_rows)

    def positive(self) -> RawChunk:
        """Return the rows with a positive weight."""
        weights = self.weights
        if weights is None or weights.all():
            return self
        kept = weights > 0
        mask = pa.array(kept)
        labels = self.labels
        return RawChunk(
            [column.filter(mask) for column in self.columns],
            labels[kept] if isinstance(labels, np.ndarray) else labels.filter(mask),
            weights[kept],
            self.start,
            self.indices[kept],
        )


@dataclass(frozen=True, eq=False)
class RawPiece:
    """Where to read some rows: a fragment, the roles of its columns, and separate arrays."""

    fragment: Fragment
    features: tuple[str, ...]
    target: str | None  # names of columns
    weight: str | None
    # class codes of the fragment's rows, if the target isn't a column
    labels: NDArray[np.uint16] | None
    weights: Floats | None  # weights of the rows, if they aren't a column

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.fragment.n_rows

    def chunks(self) -> Iterator[RawChunk]:
        """Read the rows."""
        matrix = self.fragment.matrix(self.features) if self.features else None
        names = [] if matrix is not None else list(self.features)
        n, at = len(names), 0
        names += [name for name in (self.target, self.weight) if name is not None]
        for batch in self.fragment.batches(names):
            start, rows = self.fragment.start + at, slice(at, at + batch.num_rows)
            columns: Sequence[pa.Array] = batch.columns[:n]
            if matrix is not None:  # Arrow needn't look for NaN
                columns = [pa.array(values) for values in np.ascontiguousarray(matrix[rows].T)]
            labels = batch.column(n) if self.labels is None else self.labels[rows]
            weights = None if self.weights is None else self.weights[rows]
            if self.weight is not None:
                weights = weight_column(batch.columns[-1], self.weight, start)
                check_weights(weights, start)
            if batch.num_rows:
                yield RawChunk(columns, labels, weights, start)
            at += batch.num_rows


class RawRows:
    """A table with labels and weights (column names or one value per row), split into pieces."""

    def __init__(
        self,
        source: Source,
        features: Sequence[str],
        target: str | None,
        labels: NDArray[np.uint16] | None,
        sample_weight: Any,
    ) -> None:
        self.n_rows = source.n_rows
        if labels is not None and len(labels) != source.n_rows:
            raise DataError(
                "Found input variables with inconsistent numbers of samples: the table has "
                f"{source.n_rows} rows, the target {len(labels)} labels. Pass one label per row."
            )
        weight = sample_weight if isinstance(sample_weight, str) else None
        weights = None
        if sample_weight is not None and weight is None:
            weights = as_weights(sample_weight, source.n_rows)
        self._pieces = []
        for one in source.fragments():
            rows = slice(one.start, one.start + one.n_rows)
            own: Any = (None if array is None else array[rows] for array in (labels, weights))
            self._pieces.append(RawPiece(one, tuple(features), target, weight, *own))

    def pieces(self) -> list[RawPiece]:
        """Return the pieces."""
        return self._pieces


@dataclass(frozen=True, eq=False)
class RowCoder:
    """Codes pieces of raw rows; rows with a weight of zero are skipped."""

    codebook: Codebook
    weighted: bool  # whether any weight differs from one
    total_weight: float  # the sum of the weights of all rows

    def __call__(self, piece: RawPiece) -> Iterator[Chunk]:
        """Iterate over the coded chunks."""
        for raw in map(RawChunk.positive, piece.chunks()):
            if not raw.n_rows:
                continue
            labels, weights = raw.labels, None
            if not isinstance(labels, np.ndarray):
                # Rows are only dropped once a pass over the weights has ruled out nulls.
                labels = code_labels(self.codebook.target, labels, piece.target, raw.start)
            if self.weighted and raw.weights is not None:
                weights = exact_weights(raw.weights, self.total_weight)
            codes = self.codebook.encode_columns(raw.columns)
            yield Chunk(codes, labels, weights, raw.start, raw.row_index)


def code_rows(
    raw: RawRows,
    codebook: Codebook,
    weighted: bool,
    total_weight: float,
    context: FitContext,
) -> Rows:
    """Code all rows, and keep the codes where they were made."""
    coder = RowCoder(codebook, weighted, total_weight)
    pieces = context.engine.keep(coder, raw.pieces(), context.rows_limit, context.progress, "codes")
    return Rows(codebook.domain, pieces, weighted=weighted, total_weight=total_weight)
