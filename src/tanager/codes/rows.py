"""Rows as small integers: what every later layer reads.

A chunk holds its codes feature by feature::

    codes[i, r]    the value of feature i in row r, 0 .. arity[i]-1;
                   arity[i] itself means "unknown" (missing or unseen)
    labels[r]      the class of row r
    weights[r]     its weight; None where every weight is one
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Chunk",
    "CodedRows",
    "Codes",
    "Domain",
    "EqualByArrays",
    "MemoryRows",
    "code_dtype",
    "exact_weights",
]

# uint8 or uint16, one dtype for all features of a chunk: two specialisations
# of every kernel, not one per mix of columns.
Codes = NDArray[np.unsignedinteger[Any]]

MAX_ARITY = 65_535  # codes are uint16 at most, and one code is kept for "unknown"
BLOCK_ROWS = 65_536


def code_dtype(arities: NDArray[np.int64]) -> np.dtype[np.uint8] | np.dtype[np.uint16]:
    """Return the narrowest dtype that holds every code and "unknown"."""
    widest = int(arities.max(initial=0))
    return np.dtype(np.uint8) if widest <= 255 else np.dtype(np.uint16)


class EqualByArrays:
    """Makes a dataclass equal to another with equal fields, arrays element by element."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else bool(mine == theirs)
            for mine, theirs in (
                (getattr(self, field.name), getattr(other, field.name))
                for field in fields(self)  # type: ignore[arg-type]
            )
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class Domain(EqualByArrays):
    """What the codes range over: frozen before anything is counted.

    Attributes
    ----------
    names : tuple of str
        The features' names, in the order of the codes.
    arities : ndarray of int64, shape (n_features,)
        The number of values of each feature.
    n_classes : int
    """

    names: tuple[str, ...]
    arities: NDArray[np.int64]
    n_classes: int

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.names)


class Chunk(NamedTuple):
    """Some rows; see the module's drawing."""

    codes: Codes  # (n_features, n_rows), C-contiguous
    labels: NDArray[np.uint16]  # (n_rows,)
    weights: NDArray[np.float64] | None  # (n_rows,), from `exact_weights`
    start: int  # index of the first row in the whole data

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.labels.shape[0])


class CodedRows(Protocol):
    """A restartable stream of chunks of one domain."""

    domain: Domain
    n_rows: int
    total_weight: float

    def blocks(self) -> Iterator[object]:
        """Iterate over handles of the pieces, from the start."""

    def read(self, block: object) -> Chunk:
        """Decode one piece."""

    def chunks(self) -> Iterator[Chunk]:
        """Iterate over the decoded pieces, from the start."""

    def gather(self) -> Chunk:
        """Return all rows as one chunk in memory."""


class _Span(NamedTuple):
    start: int
    stop: int

    @property
    def n_rows(self) -> int:
        return self.stop - self.start


class MemoryRows:
    """All rows in memory, as one chunk that is read in slices.

    Parameters
    ----------
    domain : Domain
    codes : ndarray of uint8 or uint16, shape (n_features, n_rows)
    labels : ndarray of uint16, shape (n_rows,)
    weights : ndarray of float64, shape (n_rows,), or None
        As given by `exact_weights`.
    block_rows : int
        Rows in a slice. Results do not depend on it.
    """

    def __init__(
        self,
        domain: Domain,
        codes: Codes,
        labels: NDArray[np.uint16],
        weights: NDArray[np.float64] | None = None,
        block_rows: int = BLOCK_ROWS,
    ) -> None:
        self.domain = domain
        self.n_rows = labels.shape[0]
        self.total_weight = float(self.n_rows if weights is None else weights.sum())
        self._all = Chunk(codes, labels, weights, 0)
        self._block_rows = block_rows

    def blocks(self) -> Iterator[_Span]:
        """Iterate over spans of rows."""
        for start in range(0, self.n_rows, self._block_rows):
            yield _Span(start, min(start + self._block_rows, self.n_rows))

    def read(self, block: object) -> Chunk:
        """Return the rows of a span.

        The codes are copied where the span is not all rows: contiguous rows
        keep the kernels to one memory layout, and the copy costs a hundredth
        of what any pass does with it.
        """
        assert isinstance(block, _Span)
        rows = slice(block.start, block.stop)
        codes, labels, weights, _ = self._all
        return Chunk(
            np.ascontiguousarray(codes[:, rows]),
            labels[rows],
            None if weights is None else weights[rows],
            block.start,
        )

    def chunks(self) -> Iterator[Chunk]:
        """Iterate over the slices."""
        return (self.read(block) for block in self.blocks())

    def gather(self) -> Chunk:
        """Return all rows, without a copy."""
        return self._all

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> MemoryRows:
        """Return a copy of some rows, by indices or by a mask."""
        codes, labels, weights, _ = self._all
        return MemoryRows(
            self.domain,
            np.ascontiguousarray(codes[:, rows]),
            labels[rows],
            None if weights is None else weights[rows],
            self._block_rows,
        )


def exact_weights(weights: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """Round weights to a dyadic grid on which every sum of them is exact.

    With the grid's step at 2^-52 of a bound on the total, no partial sum needs
    more than 53 bits, so float64 addition is associative: counts depend neither
    on the order of rows nor on the chunking nor on the number of threads. The
    relative change of a weight is below 2^-52 times total over weight.

    Parameters
    ----------
    weights : ndarray of float64
        Non-negative.
    total : float
        The sum of the weights of all rows, of which these may be a part.
    """
    if total <= 0:
        return weights
    step = 2.0 ** (np.ceil(np.log2(total)) - 52)
    rounded: NDArray[np.float64] = np.round(weights / step) * step
    return rounded
