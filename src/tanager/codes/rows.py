"""Rows of small integers, which all later layers read.

A chunk holds its codes feature by feature::

    codes[i, r]    the value of feature i in row r, 0 .. arity[i]-1;
                   arity[i] itself means "unknown" (missing or unseen)
    labels[r]      the class of row r
    weights[r]     its weight; None if all weights are one
    indices[r]     its index in the source, which identifies it everywhere
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.engines import KeptChunk, Piece
from tanager.engines.keeping import LEAST_MEMORY, free_memory
from tanager.errors import DataError, MemoryBoundError
from tanager.numerics import Floats, Ints

Indices = Ints

# uint8 or uint16 for all features of a chunk: two specialisations of every kernel suffice.
Codes = NDArray[np.unsignedinteger[Any]]

MAX_CELLS = 1 << 28  # values × classes of one feature: lookups expand them, in 2 GiB
MAX_ARITY = 65_535  # codes are at most uint16, and one code is reserved for "unknown"
BLOCK_ROWS = 65_536
ADDED_ROWS = 1 << 48  # index of the first row that isn't from a source


def code_dtype(arities: Ints) -> np.dtype[np.uint8] | np.dtype[np.uint16]:
    """Return the narrowest dtype that can hold every code and "unknown"."""
    return np.dtype(np.uint8) if int(arities.max(initial=0)) <= 255 else np.dtype(np.uint16)


class EqualByArrays:
    """Compares dataclasses field by field, and arrays element by element."""

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return False
        names = (field.name for field in fields(self))  # type: ignore[arg-type]
        pairs = ((getattr(self, name), getattr(other, name)) for name in names)
        return all(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b for a, b in pairs)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class Domain(EqualByArrays):
    """The values that codes can take; frozen before anything is counted."""

    names: tuple[str, ...]  # the names of the features, in the order of the codes
    arities: Ints  # (n_features,); the number of values per feature
    n_classes: int
    n_ordered: tuple[int, ...] = ()  # leading values of each that are ordered, such as intervals

    def __post_init__(self) -> None:
        if not self.n_ordered:
            object.__setattr__(self, "n_ordered", (0,) * len(self.names))

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.names)

    def check_codes(self, codes: Codes) -> Codes:
        """Return codes as the compiled loops expect them; codes from the arity on mean unknown."""
        given = np.asarray(codes)
        fits = given.ndim == 2 and given.shape[0] == self.n_features
        if not fits or given.dtype not in (np.uint8, np.uint16):
            raise DataError(
                f"Codes of shape {given.shape} and type {given.dtype} were given; allowed are "
                f"({self.n_features}, n_rows), one row per feature of the codebook, and uint8 or "
                "uint16. Codebook.encode makes them."
            )
        return np.ascontiguousarray(given)


class Chunk(NamedTuple):
    """Some rows; see the module docstring for the layout."""

    codes: Codes  # (n_features, n_rows), C-contiguous
    labels: NDArray[np.uint16]  # (n_rows,)
    weights: Floats | None  # (n_rows,), from `exact_weights`
    start: int  # index of the first row in the source
    row_index: Indices | None = None  # (n_rows,), ascending; None: start, start + 1, ...

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.labels.shape[0])

    @property
    def row_weights(self) -> Floats:
        """The rows' weights, shape (n_rows,); ones if they have none."""
        return np.ones(self.n_rows) if self.weights is None else self.weights

    @property
    def indices(self) -> Indices:
        """The rows' indices in the source, ascending, shape (n_rows,)."""
        if self.row_index is not None:
            return self.row_index
        return np.arange(self.start, self.start + self.n_rows)

    def take(self, mask: NDArray[np.bool_]) -> Chunk:
        """Return a copy of the rows where the mask, shape (n_rows,), is true."""
        return self if mask.all() else self._select(mask)

    def split(self, step: int) -> Iterator[Chunk]:
        """Yield consecutive rows, `step` at a time but at least one."""
        if step >= self.n_rows:
            yield self
            return
        for low in range(0, self.n_rows, max(1, step)):
            yield self._select(slice(low, low + max(1, step)))

    def _select(self, which: slice | NDArray[np.bool_]) -> Chunk:
        """Return a copy of some rows."""
        index = self.indices[which]
        start = int(index[0]) if len(index) else self.start
        weights = None if self.weights is None else self.weights[which]
        codes = np.ascontiguousarray(self.codes[:, which])
        return Chunk(codes, self.labels[which], weights, start, index)


# Maps row indices to a mask of the selected rows; picklable.
Choice = Callable[[Indices], NDArray[np.bool_]]


class Rows:
    """Rows of one domain as codes, kept where they were coded; immutable.

    Created by `learn_codebook`, by `in_memory`, or from other rows by `subset`. Reading them again
    is cheap. `total_weight` is computed on first access unless it is passed.

    >>> domain = Domain(("a",), np.array([3]), 2)
    >>> codes, labels = np.array([[0, 2, 1]], np.uint8), np.array([0, 1, 1], np.uint16)
    >>> rows = Rows.in_memory(domain, codes, labels)
    >>> rows.n_rows, rows.total_weight, rows.weighted
    (3, 3.0, False)
    >>> rows.subset(lambda indices: indices != 1).gather().indices.tolist()
    [0, 2]
    """

    def __init__(
        self,
        domain: Domain,
        pieces: Iterable[Piece[Chunk]],
        *,
        weighted: bool,
        total_weight: float | None = None,
    ) -> None:
        self.domain, self.weighted = domain, weighted
        self.held_out: Rows | None = None  # used instead of these rows when they are held out
        self._pieces = tuple(pieces)
        if total_weight is not None:
            self.__dict__["total_weight"] = total_weight

    @classmethod
    def in_memory(
        cls,
        domain: Domain,
        codes: Codes,
        labels: NDArray[np.uint16],
        weights: Floats | None = None,
        block_rows: int = BLOCK_ROWS,
    ) -> Rows:
        """Return arrays as rows, in chunks of `block_rows`; shapes are those of a `Chunk`."""
        codes, n_rows = domain.check_codes(codes), labels.shape[0]
        lengths = {codes.shape[1], n_rows, n_rows if weights is None else weights.shape[0]}
        if len(lengths) > 1 or labels.max(initial=0) >= max(domain.n_classes, 1):
            raise DataError(
                f"Codes of shape {codes.shape} and {n_rows} labels up to {labels.max(initial=0)} "
                f"were given; allowed is one label (and weight) per row, below {domain.n_classes}."
            )
        total = float(n_rows if weights is None else weights.sum())
        chunks = Chunk(codes, labels, weights, 0).split(block_rows)
        pieces = [KeptChunk(chunk._replace(row_index=None)) for chunk in chunks if chunk.n_rows]
        return cls(domain, pieces, weighted=weights is not None, total_weight=total)

    @cached_property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(piece.n_rows for piece in self._pieces)

    @cached_property
    def total_weight(self) -> float:
        """The sum of the rows' weights."""
        if not self.weighted:
            return float(self.n_rows)
        return float(sum(float(c.weights.sum()) for c in self.chunks() if c.weights is not None))

    def pieces(self) -> Sequence[Piece[Chunk]]:
        """Return the pieces of the rows, for an engine."""
        return self._pieces

    def chunks(self) -> Iterator[Chunk]:
        """Iterate over the rows, chunk by chunk."""
        return (chunk for piece in self._pieces for chunk in piece.chunks())

    def subset(self, choice: Choice) -> Rows:
        """Return a view of the rows selected by a picklable function of their indices (`Fold`)."""
        pieces = [PieceView(piece, _Chosen(choice)) for piece in self._pieces]
        return Rows(self.domain, pieces, weighted=self.weighted)

    def weighed(self, factor: Callable[[Chunk], Floats], more: Chunk) -> Rows:
        """Return the rows with weights multiplied by a picklable `factor`, and `more` of them."""
        weigh = partial(_weigh, factor=factor)
        pieces = [PieceView(piece, partial(weigh, total=0.0)) for piece in self._pieces]
        total = Rows(self.domain, [*pieces, KeptChunk(more)], weighted=True).total_weight
        grid = 2.0 * total  # larger than any sum of the rounded weights
        pieces = [PieceView(piece, partial(weigh, total=grid)) for piece in self._pieces]
        assert more.weights is not None
        more = more._replace(weights=exact_weights(more.weights, grid))
        return Rows(self.domain, [*pieces, KeptChunk(more)], weighted=True)

    def gather(self) -> Chunk:
        """Return all rows as one chunk in memory, or raise a MemoryBoundError if they don't fit."""
        first = self._pieces[0] if len(self._pieces) == 1 else None
        if isinstance(first, KeptChunk) and first.in_memory:
            return first.chunk
        n_rows, dtype = self.n_rows, code_dtype(self.domain.arities)
        n_bytes = n_rows * (self.domain.n_features * dtype.itemsize + 2 + 8 * self.weighted)
        if n_bytes > LEAST_MEMORY and n_bytes > free_memory() // 2:
            raise MemoryBoundError(
                f"This learner needs all {n_rows:,} rows in memory at once: "
                f"{n_bytes / 2**30:.1f} GiB of codes, more than half of the free memory. Sample "
                "rows, or use a learner that reads them in parts (naive, tan, kdb, skdb, acll)."
            )
        codes = np.empty((self.domain.n_features, n_rows), dtype=dtype)
        labels = np.empty(n_rows, dtype=np.uint16)
        weights = np.empty(n_rows) if self.weighted else None
        index: list[Indices] = []
        at, gap = 0, False
        for chunk in self.chunks():
            part = slice(at, at + chunk.n_rows)
            codes[:, part], labels[part] = chunk.codes, chunk.labels
            if weights is not None:
                weights[part] = chunk.weights
            gap |= chunk.row_index is not None or chunk.start != at
            index.append(chunk.indices)
            at += chunk.n_rows
        found = np.concatenate([np.zeros(0, np.int64), *index])
        start = int(found[0]) if len(found) else 0
        return Chunk(codes, labels, weights, start, found if gap else None)


@dataclass(frozen=True)
class PieceView:
    """A view of a piece that applies a picklable function to every chunk."""

    piece: Piece[Chunk]
    make: Callable[[Chunk], Chunk]

    @cached_property
    def n_rows(self) -> int:
        """Number of rows; counted if the view selects some."""
        if not isinstance(self.make, _Chosen):
            return self.piece.n_rows
        return sum(int(self.make.choice(one.indices).sum()) for one in self.piece.chunks())

    def chunks(self) -> Iterator[Chunk]:
        """Read the rows."""
        return map(self.make, self.piece.chunks())


@dataclass(frozen=True)
class _Chosen:
    """Takes the rows selected by a function of their indices."""

    choice: Choice

    def __call__(self, chunk: Chunk) -> Chunk:
        return chunk.take(self.choice(chunk.indices))


def _weigh(chunk: Chunk, factor: Callable[[Chunk], Floats], total: float) -> Chunk:
    """Multiply the rows' weights, and round them to the grid of a total if one is passed."""
    weights = factor(chunk) * (1.0 if chunk.weights is None else chunk.weights)
    return chunk._replace(weights=exact_weights(weights, total))


def exact_weights(weights: Floats, total: float) -> Floats:
    """Round non-negative weights to a dyadic grid on which all of their sums are exact.

    The step of the grid is 2^-52 of a bound on the `total` weight of all rows, so no partial sum
    needs more than 53 bits, and counts depend neither on the order of rows nor on the chunking.
    """
    if total <= 0:
        return weights
    step = 2.0 ** (np.ceil(np.log2(total)) - 52)
    rounded: Floats = np.round(weights / step) * step
    return rounded
