r"""Sparse counts of one family, as sorted runs of (key, count), and dense counts of pairs.

The key of a row is its mixed-radix number over :math:`(y, p_1, \dots, p_k, x)`. If the product of
the arities exceeds 62 bits, the key is split into parts that don't, sorted lexicographically.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.codes import Chunk, Domain
from tanager.engines import Sums
from tanager.numerics import Floats, Ints, split_by_size, starts_of

NO_WEIGHTS: Floats = np.empty(0)  # tells the kernels that every row has weight one
KEY_LIMIT = 2**62
PASS_CELLS = 1 << 24  # cells gathered in one pass: 128 MiB per thread
PAIR_CELLS = 1 << 23  # larger pairs are wide: only the cells seen are stored

# Measured: per row, one word of an intersection costs about 1/180 of one
# read-and-increment, and each (value, value, class) loop about three words.
BIT_ADVANTAGE = 160


@dataclass(frozen=True)
class Radix:
    """The variables of a family's key and how they split into 62-bit parts."""

    arities: tuple[int, ...]  # of the class, the parents in back-off order, the feature
    members: tuple[int, ...] = ()  # code rows of the parents, then of the feature; for `encode`

    def parts(self) -> list[range]:
        """Return the runs of variables that share a part, as ranges of positions."""
        ends, size = [0], 1
        for at, arity in enumerate(self.arities):
            if size * arity >= KEY_LIMIT:
                ends.append(at)
                size = 1
            size *= arity
        return [range(a, b) for a, b in pairwise([*ends, len(self.arities)])]

    def encode(self, chunk: Chunk) -> tuple[Ints, Floats]:
        """Return keys (n_parts, n) and weights of the rows without an unknown member."""
        keys = np.zeros((len(self.parts()), chunk.n_rows), np.int64)
        keys[0] = chunk.labels
        for part, positions in zip(keys, self.parts(), strict=True):
            variables = slice(max(1, positions.start), positions.stop)
            members = np.array((None, *self.members)[variables], np.int64)
            arities = np.array(self.arities[variables], np.int64)
            native.extend_keys(chunk.codes, members, arities, part)
        weights = NO_WEIGHTS if chunk.weights is None else chunk.weights
        kept = (keys >= 0).all(axis=0)
        if weights.size:  # some may be zero, because of the class or by rounding
            kept &= weights > 0
        if kept.all():
            return keys, weights
        return keys[:, kept], weights[kept] if weights.size else weights

    def keys(self, codes: Ints) -> Ints:
        """Return the keys (n_parts, n) of codes (n_variables, n)."""
        keys = np.zeros((len(self.parts()), codes.shape[1]), np.int64)
        for part, positions in zip(keys, self.parts(), strict=True):
            for at in positions:
                part *= self.arities[at]
                part += codes[at]
        return keys

    def decode(self, keys: Ints) -> Ints:
        """Return the codes (n_variables, n) of keys (n_parts, n)."""
        codes = np.empty((len(self.arities), keys.shape[1]), np.int64)
        for part, positions in zip(keys, self.parts(), strict=True):
            rest = part
            for at in reversed(positions):
                rest, codes[at] = np.divmod(rest, self.arities[at])
        return codes

    def shortened(self, n_parents: int) -> Radix:
        """Return the radix with only the first parents."""
        arities = (*self.arities[: 1 + n_parents], self.arities[-1])
        return Radix(arities, (*self.members[:n_parents], *self.members[-1:]))


def collapse(keys: Ints, weights: Floats) -> tuple[Ints, Floats]:
    """Sort keys (n_parts, n) and sum the weights of equal ones."""
    if keys.shape[0] == 1:
        if weights.size:
            order = np.argsort(keys[0], kind="stable")
            ordered, weights = keys[0][order], weights[order]
        else:
            ordered = np.sort(keys[0])
        out, counts = np.empty_like(ordered), np.empty(ordered.shape[0])
        n = native.collapse_keys(ordered, weights, out, counts)
        return out[None, :n].copy(), counts[:n].copy()
    if keys.shape[1] == 0:
        return keys, np.empty(0)
    order = np.lexsort(keys[::-1])
    keys = keys[:, order]
    new = np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0))
    counts = weights[order] if weights.size else np.ones(keys.shape[1])
    return keys[:, new], np.add.reduceat(counts, np.flatnonzero(new))


class RunStack:
    """Sorted runs, merged so that each is at least twice as long as the next.

    Adding a run takes its length times a logarithm; up to three times the distinct keys are stored.
    """

    def __init__(self, radix: Radix, max_cells: int) -> None:
        self.radix, self.max_cells = radix, max_cells
        self._runs: list[tuple[Ints, Floats]] = []

    def add(self, keys: Ints, counts: Floats) -> None:
        """Add a sorted run of distinct keys of this stack's radix."""
        self._runs.append((keys, counts))
        while len(self._runs) > 1 and len(self._runs[-2][1]) < 2 * len(self._runs[-1][1]):
            self._merge_last_two()
        if len(self._runs[0][1]) > self.max_cells:
            self.total()

    def total(self) -> tuple[Ints, Floats]:
        """Return all as one sorted run; beyond `max_cells`, it repeatedly loses its last parent."""
        while len(self._runs) > 1:
            self._merge_last_two()
        if not self._runs:
            return np.empty((len(self.radix.parts()), 0), np.int64), np.empty(0)
        while len(self._runs[0][1]) > self.max_cells and len(self.radix.arities) > 2:
            self.shorten(len(self.radix.arities) - 3)
        return self._runs[0]

    def shorten(self, n_parents: int) -> None:
        """Keep only the first parents."""
        old, self.radix = self.radix, self.radix.shortened(n_parents)
        self._runs = [recode(old, self.radix, *run) for run in self._runs]

    def __iadd__(self, other: RunStack) -> Self:
        """Add all of another stack, at the smaller of the two depths."""
        run, self._runs = other.total(), [self.total()]
        if len(self.radix.arities) > len(other.radix.arities):
            self.shorten(len(other.radix.arities) - 2)
        self.add(*recode(other.radix, self.radix, *run))
        return self

    def _merge_last_two(self) -> None:
        (keys_b, counts_b), (keys_a, counts_a) = self._runs.pop(), self._runs.pop()
        if keys_a.shape[0] > 1:
            joined = np.concatenate([keys_a, keys_b], axis=1)
            self._runs.append(collapse(joined, np.concatenate([counts_a, counts_b])))
            return
        keys = np.empty(keys_a.shape[1] + keys_b.shape[1], np.int64)
        counts = np.empty(keys.shape[0])
        n = native.merge_runs(keys_a[0], counts_a, keys_b[0], counts_b, keys, counts)
        self._runs.append((keys[None, :n].copy(), counts[:n].copy()))


def recode(old: Radix, new: Radix, keys: Ints, counts: Floats) -> tuple[Ints, Floats]:
    """Convert keys from one radix to another that may lack some parents, and sum."""
    if len(new.arities) == len(old.arities):
        return keys, counts
    codes = old.decode(keys)
    kept = [*range(len(new.arities) - 1), len(old.arities) - 1]
    return collapse(new.keys(codes[kept]), counts)


class PairCounts(NamedTuple):
    """Dense counts N(x_i, x_j, y) of some pairs (i < j), end to end."""

    left: Ints  # (n_pairs,)
    right: Ints
    start: Ints  # (n_pairs,); pair p is ``flat[start[p]:]`` as (arity_i, arity_j, class)
    flat: Floats
    domain: Domain

    def joint(self, pair: int) -> Floats:
        """Return one pair's counts, shape (arity_i, arity_j, n_classes)."""
        features = [self.left[pair], self.right[pair]]
        shape = *self.domain.arities[features].tolist(), self.domain.n_classes
        start = int(self.start[pair])
        return self.flat[start : start + int(np.prod(shape))].reshape(shape)


class PairCells(NamedTuple):
    """The cells seen for one wide pair."""

    left: Ints  # (n_cells,)
    right: Ints
    label: Ints
    counts: Floats
    shape: tuple[int, int, int]  # arities of the left and the right feature, and number of classes

    def swapped(self) -> PairCells:
        """Return the same with the features swapped."""
        left, right, n_classes = self.shape
        return PairCells(self.right, self.left, self.label, self.counts, (right, left, n_classes))

    def margin(self, *columns: Ints) -> Floats:
        """Return, for each cell, the total count of all cells that match it in some columns."""
        sizes = [int(column.max(initial=0)) + 1 for column in columns]
        cell = np.ravel_multi_index(columns, sizes)
        if prod(sizes) > 4 * len(cell):  # too many for a dense count
            cell = np.unique(cell, return_inverse=True)[1]
        return np.bincount(cell, self.counts)[cell].astype(np.float64)


def pair_tiles(
    domain: Domain, limit: int | None = None, among: Ints | None = None
) -> tuple[list[tuple[Ints, Ints]], list[tuple[int, int]]]:
    """Split all pairs i < j into tiles counted densely in one pass each, and the wide rest.

    A tile is two blocks of features, see `tile_pairs`, so that features are read, and scores
    written, in few places at a time. `limit` is the bytes of one thread's counts; `among` are the
    features, ascending, whose pairs are wanted.
    """
    pass_cells = PASS_CELLS if limit is None else min(PASS_CELLS, max(1, limit // 8))
    features = np.arange(domain.n_features) if among is None else np.asarray(among, np.int64)
    arities = domain.arities[features]
    wide = [
        (int(features[at]), int(features[other]))
        for at in np.flatnonzero(_is_wide(domain, arities, arities.max(initial=1)))
        for other in at + 1 + np.flatnonzero(_is_wide(domain, arities[at + 1 :], arities[at]))
    ]
    all_cells = (int(arities.sum()) ** 2 - int((arities**2).sum())) // 2 * domain.n_classes
    if not wide and all_cells <= pass_cells:
        return [(features, features)] if len(features) > 1 else [], wide
    edge = int((pass_cells / domain.n_classes) ** 0.5)  # number of values in a block
    blocks = list(map(np.array, split_by_size(features.tolist(), arities.tolist(), edge)))
    return [(a, b) for at, a in enumerate(blocks) for b in blocks[at:]], wide


def tile_pairs(domain: Domain, first: Ints, second: Ints) -> tuple[Ints, Ints]:
    """Return the pairs i < j of a tile that aren't wide: within a block, or between two."""
    if first is second:
        left, right = (first[places] for places in np.triu_indices(len(first), 1))
    else:
        left, right = np.repeat(first, len(second)), np.tile(second, len(first))
    dense = ~_is_wide(domain, domain.arities[left], domain.arities[right])
    return (left, right) if dense.all() else (left[dense], right[dense])


def _is_wide(domain: Domain, left: Ints, right: Ints) -> NDArray[np.bool_]:
    """Return whether pairs have too many cells to be stored densely."""
    return np.asarray(left * right * domain.n_classes > PAIR_CELLS)


class PairPass(Sums):
    """Gathers `PairCounts` of the given pairs."""

    def __init__(self, domain: Domain, left: Ints, right: Ints) -> None:
        self.domain = domain
        self.left, self.right = left.astype(np.int64), right.astype(np.int64)
        self.values = domain.arities[left] * domain.arities[right]
        cells = self.values * domain.n_classes
        self.start = starts_of(cells)[:-1]
        self.size = int(cells.sum())
        few = self.values * (1 + 3 * domain.n_classes * 64 / 16_384) < BIT_ADVANTAGE
        # Intersections need every value of a feature as a bitset.
        widest = np.maximum(domain.arities[left], domain.arities[right])
        self.by_bits = few & (widest <= BIT_ADVANTAGE)

    def zero(self) -> Floats:
        """Return no counts."""
        return np.zeros(self.size)

    def update(self, state: Floats, chunk: Chunk) -> Floats:
        """Add the counts of a chunk."""
        arities, n_classes = self.domain.arities, self.domain.n_classes
        weights = NO_WEIGHTS if chunk.weights is None else chunk.weights
        bits = self.by_bits if chunk.weights is None else np.zeros_like(self.by_bits)
        if bits.any():
            # The features that occur, and the pairs by their indices among them.
            used = np.isin(np.arange(len(arities)), [self.left[bits], self.right[bits]])
            held, place = np.flatnonzero(used), np.cumsum(used) - 1
            codes, sizes = np.ascontiguousarray(chunk.codes[held]), (arities[held], n_classes)
            which = (place[self.left[bits]], place[self.right[bits]], self.start[bits])
            native.count_pairs_by_bits(codes, chunk.labels, *sizes, *which, state)
        if not bits.all():
            which = (self.left[~bits], self.right[~bits], self.start[~bits])
            rows = chunk.codes, chunk.labels, weights
            native.count_pairs(*rows, arities, n_classes, *which, state)
        return state

    def finish(self, state: Floats) -> PairCounts:
        """Wrap the counts."""
        return PairCounts(self.left, self.right, self.start, state, self.domain)
