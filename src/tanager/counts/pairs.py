"""Joint counts of pairs of features with the class."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Chunk, Domain, Rows
from tanager.counts.runs import NO_WEIGHTS, Radix, RunStack, collapse
from tanager.engines import FitContext

__all__ = ["PairCounts", "pair_groups"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PASS_CELLS = 1 << 25  # cells gathered in one pass: 256 MiB a thread
PAIR_CELLS = 1 << 23  # a pair beyond this is counted sparsely

# Measured: per row, one word of an intersection costs about a 180th of one
# read-and-increment, and each (value, value, class) loop about three words.
BIT_ADVANTAGE = 160


class PairCounts(NamedTuple):
    """Dense counts N(x_i, x_j, y) of some pairs (i < j), end to end.

    Attributes
    ----------
    left, right : (n_pairs,)
    start : (n_pairs,)
        Pair p stands at ``flat[start[p]:]`` as (arity_i, arity_j, class).
    flat : ndarray of float64
    """

    left: Ints
    right: Ints
    start: Ints
    flat: Floats
    domain: Domain

    def joint(self, pair: int) -> Floats:
        """Return one pair's counts, shape (arity_i, arity_j, n_classes)."""
        shape = (
            int(self.domain.arities[self.left[pair]]),
            int(self.domain.arities[self.right[pair]]),
            self.domain.n_classes,
        )
        start = int(self.start[pair])
        return self.flat[start : start + int(np.prod(shape))].reshape(shape)


def pair_groups(domain: Domain) -> tuple[list[tuple[Ints, Ints]], list[tuple[int, int]]]:
    """Split all pairs i < j into groups that one pass gathers densely, and the sparse rest."""
    left, right = np.triu_indices(domain.n_features, 1)
    cells = domain.arities[left] * domain.arities[right] * domain.n_classes
    dense = cells <= PAIR_CELLS
    sparse = [(int(i), int(j)) for i, j in zip(left[~dense], right[~dense], strict=True)]
    left, right, cells = left[dense], right[dense], cells[dense]
    group = (np.cumsum(cells) - 1) // PASS_CELLS if cells.size else np.zeros(0, np.int64)
    return [(left[group == g], right[group == g]) for g in np.unique(group)], sparse


class PairPass:
    """Gathers `PairCounts` of the given pairs."""

    def __init__(self, domain: Domain, left: Ints, right: Ints) -> None:
        self.domain = domain
        self.left = left.astype(np.int64)
        self.right = right.astype(np.int64)
        self.values = domain.arities[left] * domain.arities[right]
        cells = self.values * domain.n_classes
        self.start = np.concatenate([[0], np.cumsum(cells)[:-1]]).astype(np.int64)
        self.size = int(cells.sum())
        few = self.values * (1 + 3 * domain.n_classes * 64 / 16_384) < BIT_ADVANTAGE
        # Intersections need every value of a feature as a bit set.
        self.by_bits = few & (
            np.maximum(domain.arities[left], domain.arities[right]) <= BIT_ADVANTAGE
        )

    def zero(self) -> Floats:
        """Return no counts."""
        return np.zeros(self.size)

    def update(self, state: Floats, chunk: Chunk) -> Floats:
        """Add a chunk."""
        from tanager.counts._kernels import add_pair_counts, add_pair_counts_by_bits

        arities, n_classes = self.domain.arities, self.domain.n_classes
        weights = NO_WEIGHTS if chunk.weights is None else chunk.weights
        bits = self.by_bits if chunk.weights is None else np.zeros_like(self.by_bits)
        if bits.any():
            which = (self.left[bits], self.right[bits], self.start[bits])
            held, left, right = _compact(which[0], which[1])
            add_pair_counts_by_bits(
                np.ascontiguousarray(chunk.codes[held]),
                chunk.labels,
                arities[held],
                n_classes,
                left,
                right,
                which[2],
                state,
            )
        if not bits.all():
            which = (self.left[~bits], self.right[~bits], self.start[~bits])
            add_pair_counts(chunk.codes, chunk.labels, weights, arities, n_classes, *which, state)
        return state

    def merge(self, a: Floats, b: Floats) -> Floats:
        """Add up."""
        a += b
        return a

    def finish(self, state: Floats) -> PairCounts:
        """Wrap the counts."""
        return PairCounts(self.left, self.right, self.start, state, self.domain)


def _compact(left: Ints, right: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the features that occur, and the pairs in terms of their positions."""
    held, inverse = np.unique(np.concatenate([left, right]), return_inverse=True)
    return (
        held,
        inverse[: left.shape[0]].astype(np.int64),
        inverse[left.shape[0] :].astype(np.int64),
    )


def sparse_information(rows: Rows, pair: tuple[int, int], context: FitContext) -> float:
    """Return I(X_i; X_j | Y) of one many-valued pair, from sorted runs."""
    codes, counts = context.engine.run(
        _SparsePairPass(rows.domain, pair), rows, context.progress, "pair counts"
    )
    if counts.shape[0] == 0:
        return 0.0
    y, i, j = codes
    n_iy = _marginal(y, i, counts)
    n_jy = _marginal(y, j, counts)
    n_y = np.bincount(y, counts)[y]
    return float((counts * np.log(counts * n_y / (n_iy * n_jy))).sum() / counts.sum())


def _marginal(y: Ints, x: Ints, counts: Floats) -> Floats:
    """Return N(x, y) of each cell."""
    _, inverse = np.unique(y * (int(x.max()) + 1) + x, return_inverse=True)
    return np.bincount(inverse, counts)[inverse].astype(np.float64)


class _SparsePairPass:
    """Gathers the seen cells (codes (3, n), counts) of one pair."""

    def __init__(self, domain: Domain, pair: tuple[int, int]) -> None:
        arities = (domain.n_classes, *(int(domain.arities[f]) for f in pair))
        self.radix = Radix(arities, pair)

    def zero(self) -> RunStack:
        return RunStack(self.radix, np.iinfo(np.int64).max)

    def update(self, state: RunStack, chunk: Chunk) -> RunStack:
        state.add(*collapse(*self.radix.encode(chunk)))
        return state

    def merge(self, a: RunStack, b: RunStack) -> RunStack:
        a.absorb(b)
        return a

    def finish(self, state: RunStack) -> tuple[Ints, Floats]:
        keys, counts = state.total()
        return self.radix.decode(keys), counts
