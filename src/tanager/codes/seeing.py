"""The statistics collected in one pass over the raw rows (`Seen`), and the columns made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.codes.asked import arrange_values, join_orders
from tanager.codes.coding import RawChunk
from tanager.codes.columns import CategoricalColumn, Column, NumericColumn
from tanager.codes.cuts import learn_cuts, see_numbers
from tanager.codes.hashing import row_hash
from tanager.codes.rows import MAX_ARITY, exact_weights
from tanager.codes.targets import check_n_classes, check_no_null, exact_count, exact_sums, to_float
from tanager.codes.values import (
    distinct_values,
    family_of,
    has_order,
    infinite_error,
    sort_values,
    to_family,
    too_many_error,
    unite_values,
)
from tanager.numerics import Floats, Ints

OTHERS = "(other values)"  # the name of the code shared by rare values


class Making(NamedTuple):
    """What columns are made from, in addition to the statistics of each."""

    labels: NDArray[np.uint16]  # class codes of the sampled rows, in the table's order
    weights: Floats | None
    n_classes: int
    missing: str  # the options of the estimator
    bins: str | int


class RowSample:
    """Keeps the `size` rows whose index has the smallest hash under the seed.

    Rows are stored in blocks, each a list of arrays: hashes, row indices, label ids, weights, then
    the numbers by column. Once there are a quarter more rows than `size`, those with the largest
    hashes are dropped. A table of at most `size` rows is kept as a whole, without hashing.
    """

    def __init__(self, seed: int, size: int, n_rows: int) -> None:
        self._seed, self._size, self._all = seed, size, size >= n_rows
        self._bound = np.uint64(2**64 - 1)
        self._blocks: list[list[NDArray[Any]]] = []
        self._weighted = False

    def add(
        self, indices: Ints, numbers: list[NDArray[Any]], labels: Ints, weights: Floats | None
    ) -> None:
        """Add rows: columns of numbers, and the ids of the labels."""
        self._weighted |= weights is not None
        weights = np.ones(len(labels)) if weights is None else weights
        none = np.zeros(len(labels), np.uint64)
        hashes = none if self._all else row_hash(self._seed, indices)
        self._offer([hashes, indices, labels, weights, *numbers])

    def merge(self, other: RowSample, ids: Ints) -> None:
        """Add another sample; its label id k is ids[k] here."""
        self._weighted |= other._weighted
        for hashes, rows, labels, *rest in other._blocks:
            self._offer([hashes, rows, ids[labels], *rest])

    def _offer(self, block: list[NDArray[Any]]) -> None:
        self._blocks.append(self._below_bound(block))
        if not self._all and sum(len(one[0]) for one in self._blocks) > self._size * 5 // 4:
            self.tighten()

    def _below_bound(self, block: list[NDArray[Any]]) -> list[NDArray[Any]]:
        kept = block[0] <= self._bound
        return block if kept.all() else [array[kept] for array in block]

    def tighten(self) -> None:
        """Lower the bound to the `size` smallest hashes, and drop the other rows."""
        hashes = np.concatenate([np.zeros(0, np.uint64), *(block[0] for block in self._blocks)])
        if not self._all and len(hashes) > self._size:
            self._bound = np.partition(hashes, self._size - 1)[self._size - 1]
            self._blocks = [self._below_bound(block) for block in self._blocks]

    def take(
        self, order: Ints, total: float
    ) -> tuple[list[Floats], NDArray[np.uint16], Floats | None]:
        """Remove and return the rows in table order: numbers by column, classes, weights.

        Missing numbers are NaN; label k is class order[k]; `total` is the sum of all rows' weights.
        """
        blocks, self._blocks = self._blocks, []
        if not blocks:
            return [], np.zeros(0, np.uint16), None
        rows = np.concatenate([block[1] for block in blocks])
        places = slice(None) if (rows[1:] > rows[:-1]).all() else np.argsort(rows)

        def join(at: int, kind: Any) -> NDArray[Any]:
            parts = [block[at] for block in blocks]
            for block in blocks:
                block[at] = rows[:0]  # so that only one column at a time exists twice
            joined: NDArray[Any] = np.concatenate(parts, dtype=kind)[places]
            return joined

        numbers = [join(at, np.float64) for at in range(4, len(blocks[0]))]
        classes = np.asarray(order)[join(2, np.int64)].astype(np.uint16)
        weights = exact_weights(join(3, np.float64), total) if self._weighted else None
        return numbers, classes, weights


@dataclass
class SeenCategory:
    """Statistics of a feature with distinct values."""

    name: str
    typed_order: bool  # whether its type defines an order
    values: pa.Array = field(default_factory=partial(pa.nulls, 0))
    order: pa.Array | None = None
    missing: bool = False
    pooled: bool = False  # whether there are further values, too rare for their own codes

    @property
    def is_empty(self) -> bool:
        """Whether all rows are missing."""
        return len(self.values) == 0 and not self.pooled

    def n_codes(self, missing: str) -> int:
        """Return the number of codes the values need, including that of "missing"."""
        return len(self.values) + (self.missing and missing == "value")

    def add(self, array: pa.Array) -> None:
        """Add some rows of the column."""
        values, missing = distinct_values(array, self.name)
        order = None
        if self.typed_order and has_order(array.type):
            order = to_family(array.dictionary, family_of(array.type, self.name), self.name)
        self.merge(SeenCategory(self.name, False, values, order, missing))

    def merge(self, other: SeenCategory) -> None:
        """Add the statistics of other rows."""
        self.values = unite_values(self.values, other.values, self.name)
        self.order = join_orders(self.order, other.order, self.name)
        self.missing |= other.missing

    def column(self, making: Making) -> Column:
        """Return the column."""
        if self.is_empty:
            return _empty_column(self.name, making)
        ordered, other = self.order is not None, None
        if self.pooled:
            name = OTHERS
            while self.values.index(name).as_py() >= 0:
                name += " "
            values = sort_values(pa.concat_arrays([self.values, pa.array([name])]))
            other = values.index(name).as_py()
        elif self.n_codes(making.missing) > MAX_ARITY:
            raise too_many_error(self.name, MAX_ARITY)
        elif ordered:
            values = arrange_values(self.values, self.order, self.name)
        else:
            values = sort_values(self.values)
        own = len(values) if self.missing and making.missing == "value" else None
        return CategoricalColumn(self.name, values, own, ordered, other)


@dataclass
class SeenNumeric:
    """Statistics of a numeric feature, apart from the sample."""

    name: str
    temporal: str  # see `temporal_kind`
    missing: bool = False
    is_empty: bool = True  # whether all rows are missing
    whole: bool = True  # whether all numbers have an integer type
    # the sampled numbers, NaN if missing; empty until all rows are read
    numbers: Floats = field(default_factory=lambda: np.zeros(0))

    def add(self, numbers: NDArray[Any], nulls: NDArray[np.bool_] | None) -> NDArray[Any]:
        """Add some rows of the column; return its numbers, with NaN for missing ones."""
        if numbers.dtype.kind != "f":
            if nulls is None:
                self.is_empty = False
                return numbers
        elif nulls is None or not nulls.all():
            self.whole = False
        numbers = numbers.astype(np.float64, copy=nulls is not None)
        if nulls is not None:
            numbers[nulls] = np.nan
        if np.isfinite(numbers).all():
            self.is_empty = False
            return numbers
        if np.isinf(numbers).any():
            raise infinite_error(self.name)
        self.missing = True
        self.is_empty &= bool(np.isnan(numbers).all())
        return numbers

    def merge(self, other: SeenNumeric) -> None:
        """Add the statistics of other rows."""
        self.missing |= other.missing
        self.is_empty &= other.is_empty
        self.whole &= other.whole

    def column(self, making: Making) -> Column:
        """Return the column, with cut points learned from the sampled numbers."""
        if self.is_empty:
            return _empty_column(self.name, making)
        numbers, labels, weights = self.numbers, making.labels, making.weights
        if self.missing:
            known = ~np.isnan(numbers)
            numbers, labels = numbers[known], labels[known]
            weights = None if weights is None else weights[known]
        # Integers are counted by value where floats would have to be sorted;
        # beyond 2^53, a float may exceed the range of 64-bit integers.
        whole = self.whole and float(np.abs(numbers).max(initial=0.0)) < 2.0**53
        values = numbers.astype(np.int64) if whole else numbers
        own_code = self.missing and making.missing == "value"
        rows = values, labels, making.n_classes, weights
        cuts = learn_cuts(*rows, making.bins, missing=own_code)
        own = len(cuts) + 1 if own_code else None
        return NumericColumn(self.name, cuts, own, self.temporal, see_numbers(values, weights))


SeenFeature: TypeAlias = SeenCategory | SeenNumeric


def _empty_column(name: str, making: Making) -> Column:
    """Return the column of a feature that is missing in all rows."""
    if making.missing == "marginalize":  # ignored, as a constant
        return CategoricalColumn(name, pa.array([0]), None)
    return CategoricalColumn(name, pa.array([], pa.null()), 0)


@dataclass
class Seen:
    """Statistics of some rows from which domains are made."""

    features: list[SeenFeature]
    sample: RowSample
    n_rows: int = 0  # with positive weight
    unit_weights: bool = True
    labels: dict[Any, int] = field(default_factory=dict)  # label to provisional class id
    counts: list[int] = field(default_factory=list)  # by class id: exact sums of weights

    @property
    def total_weight(self) -> float:
        """The sum of all rows' weights."""
        return float(np.sum([to_float(count) for count in self.counts]))


class SeeingPass:
    """Collects the statistics in `Seen`; `features` are their empty start."""

    def __init__(
        self, features: Sequence[SeenFeature], target: str, seed: int, sample_rows: int, n_rows: int
    ) -> None:
        self._features, self._target = features, target
        self._sample = seed, sample_rows, n_rows

    def zero(self) -> Seen:
        """Return the statistics of no rows."""
        return Seen([replace(one) for one in self._features], RowSample(*self._sample))

    def update(self, state: Seen, chunk: RawChunk) -> Seen:
        """Add the rows of a chunk."""
        # A row of weight zero is ignored, except that its class still counts as a class.
        ids = self._add_labels(state, chunk)
        kept = chunk.positive()
        if kept is not chunk:
            ids = ids[np.asarray(chunk.weights) > 0]
        state.n_rows += kept.n_rows
        if kept.n_rows == 0:
            return state
        numbers = []
        for at, one in enumerate(state.features):
            if isinstance(one, SeenCategory):
                one.add(kept.column(at))
            else:
                numbers.append(one.add(*kept.numbers(at, one.name)))
        if numbers:
            state.sample.add(kept.indices, numbers, ids, kept.weights)
        return state

    def _add_labels(self, state: Seen, chunk: RawChunk) -> Ints:
        if isinstance(chunk.labels, np.ndarray):
            local, keys = chunk.labels, list(range(int(chunk.labels.max(initial=0)) + 1))
        else:
            labels = chunk.labels
            check_no_null(labels, self._target, chunk.start)
            family_of(labels.type, self._target)  # rejects lists and the like
            labels = labels.dictionary_encode()
            local = labels.indices.to_numpy(zero_copy_only=False)
            keys = labels.dictionary.to_pylist()
        counts = np.bincount(local, minlength=len(keys))
        ids = np.zeros(len(keys), dtype=np.int64)
        for k in np.flatnonzero(counts):
            ids[k] = state.labels.setdefault(keys[k], len(state.labels))
        check_n_classes(len(state.labels))
        state.counts += [0] * (len(state.labels) - len(state.counts))
        if chunk.weights is None:
            sums = [exact_count(int(n)) for n in counts]
        else:
            sums = exact_sums(chunk.weights, local, len(keys))
            state.unit_weights &= bool(np.isin(chunk.weights, (0, 1)).all())
        for k in np.flatnonzero(counts):
            state.counts[ids[k]] += sums[k]
        return ids[local]

    def merge(self, a: Seen, b: Seen) -> Seen:
        """Return the statistics of both sets of rows."""
        for mine, theirs in zip(a.features, b.features, strict=True):
            mine.merge(theirs)  # type: ignore[arg-type]
        ids = np.array([a.labels.setdefault(v, len(a.labels)) for v in b.labels], dtype=np.int64)
        a.counts += [0] * (len(a.labels) - len(a.counts))
        for k, count in zip(ids, b.counts, strict=True):
            a.counts[k] += count
        a.sample.merge(b.sample, ids)
        a.n_rows += b.n_rows
        a.unit_weights &= b.unit_weights
        return a

    def finish(self, state: Seen) -> Seen:
        """Reduce the sample to its size."""
        state.sample.tighten()
        return state
