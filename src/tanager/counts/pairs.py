"""Joint counts of pairs of features with the class, and pair scores."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.codes import Chunk, Domain
from tanager.counts.runs import NO_WEIGHTS
from tanager.engines import Sums
from tanager.numerics import Floats, Ints, split_by_size, starts_of

PASS_CELLS = 1 << 24  # cells gathered in one pass: 128 MiB per thread
PAIR_CELLS = 1 << 23  # larger pairs are wide: only the cells seen are stored

# Measured: per row, one word of an intersection costs about 1/180 of one
# read-and-increment, and each (value, value, class) loop about three words.
BIT_ADVANTAGE = 160


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
        self.left = left.astype(np.int64)
        self.right = right.astype(np.int64)
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


class PairScore:
    """A function of N(x_i, x_j, y), for `Counts.score_pairs`."""

    symmetric = True  # whether swapping the features leaves it unchanged

    def joints(self, pairs: PairCounts) -> Floats:
        """Return the scores of (i, j), shape (n_pairs,), followed by (j, i) if not symmetric."""
        out = np.empty((1 if self.symmetric else 2, len(pairs.left)))
        for at in range(len(pairs.left)):
            joint = pairs.joint(at)
            self.joint(joint, out[:1, at])
            if not self.symmetric:
                self.joint(np.ascontiguousarray(joint.transpose(1, 0, 2)), out[1:, at])
        return out.ravel()

    def joint(self, joint: Floats, out: Floats) -> None:
        """Write the score of a dense pair, from (arity_i, arity_j, n_classes), to out (1,)."""
        raise NotImplementedError

    def cells(self, cells: PairCells) -> float:
        """Return the score of a wide pair from the cells seen."""
        raise NotImplementedError


class ConditionalInformation(PairScore):
    """I(X_i; X_j | Y) in nats: the plug-in estimate, skipping cells without a count."""

    def joints(self, pairs: PairCounts) -> Floats:
        """Return the scores of dense pairs, all at once."""
        out = np.empty(pairs.left.shape[0])
        arities, n_classes = pairs.domain.arities, pairs.domain.n_classes
        sizes = arities[pairs.left], arities[pairs.right], n_classes
        native.score_information(pairs.flat, pairs.start, *sizes, out)
        return out

    def cells(self, cells: PairCells) -> float:
        """Return the score of a wide pair."""
        if cells.counts.shape[0] == 0:
            return 0.0
        with_left = cells.margin(cells.left, cells.label)
        with_right = cells.margin(cells.right, cells.label)
        ratio = cells.counts * cells.margin(cells.label) / (with_left * with_right)
        return float((cells.counts * np.log(ratio)).sum() / cells.counts.sum())


class ExplainingAway(PairScore):
    """I(X_i; X_j | Y) - I(X_i; X_j) in nats: Bilmes, "Dynamic Bayesian multinets", UAI 2000."""

    def joint(self, joint: Floats, out: Floats) -> None:
        """Write the score of a dense pair."""
        native.score_explaining_away(joint, out)

    def cells(self, cells: PairCells) -> float:
        """Return the score of a wide pair, as sums of n log n over the margins of its cells."""
        if cells.counts.shape[0] == 0:
            return 0.0
        left, right, label, count, _ = cells
        with_class = (left, right, label), (left, label), (right, label), (label,)
        margins = *with_class, (left, right), (left,), (right,)
        signs = zip((1, -1, -1, 1, -1, 1, 1), margins, strict=True)
        # Summed over the cells, the log of a margin is n log n of that margin.
        terms = sum(
            sign * float((count * np.log(cells.margin(*columns))).sum()) for sign, columns in signs
        )
        total = float(count.sum())
        return (terms - total * float(np.log(total))) / total
