"""What one pass over the raw rows gathers: values, classes, weights, a sample of the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.codes.asked import dictionary_order, join_orders
from tanager.codes.coding import RawChunk
from tanager.codes.columns import as_kernel_matrix
from tanager.codes.hashing import row_hash
from tanager.codes.rows import exact_weights
from tanager.codes.targets import check_n_classes, check_no_null, exact_count, exact_sums
from tanager.codes.values import (
    distinct_values,
    family_of,
    infinite_error,
    to_numbers,
    unite_values,
)
from tanager.numerics import Floats, Ints

_NO_HASHES = np.zeros(0, dtype=np.uint64)


class Sampled(NamedTuple):
    """The sampled rows, in the table's order."""

    numbers: list[Floats]  # one per numeric column, (n_rows,); NaN is missing
    labels: NDArray[np.uint16]  # class codes
    weights: Floats | None


class RowSample:
    """Keeps the `size` rows whose index has the smallest hash under the seed.

    Each row is a place in several arrays, which have a quarter more room than `size`; when they are
    full, the largest hashes leave. A table of no more than `size` rows is kept whole, and nothing
    is hashed.
    """

    def __init__(self, seed: int, size: int, n_columns: int, n_rows: int) -> None:
        self._all = size >= n_rows
        room = n_rows if self._all and size else size + size // 4
        self._seed, self._size = seed, size
        self._bound = np.uint64(2**64 - 1)
        self._held = 0
        self._weighted = False
        # Hashes (none where all rows are kept), row indices, label ids, weights, then the numbers.
        kinds = [np.uint64, np.int64, np.int64, np.float64] + [np.float64] * n_columns
        self._arrays = [np.empty(room, kind) for kind in kinds]
        if self._all:
            self._arrays[0] = np.empty(0, np.uint64)

    def add(
        self,
        indices: Ints,
        numbers: list[NDArray[Any]],
        labels: Ints,
        weights: Floats | None,
    ) -> None:
        """Offer rows: a column of numbers each, and the labels' ids."""
        if self._size == 0:
            return
        self._weighted |= weights is not None
        weights = np.ones(len(labels)) if weights is None else weights
        hashes = _NO_HASHES if self._all else row_hash(self._seed, indices)
        self._offer([hashes, indices, labels, weights, *numbers])

    def merge(self, other: RowSample, ids: Ints) -> None:
        """Add another sample, whose label ids k are ids[k] here."""
        if self._size == 0:
            return
        self._weighted |= other._weighted
        hashes, rows, labels, *rest = other._filled()
        self._offer([hashes, rows, ids[labels], *rest])

    def _filled(self) -> list[NDArray[Any]]:
        return [array[: self._held] for array in self._arrays]

    def _offer(self, rows: list[NDArray[Any]]) -> None:
        kept: Any = slice(None)
        n_kept, hashes = len(rows[1]), rows[0]
        if not self._all:
            kept = np.flatnonzero(hashes <= self._bound)
            if self._held + len(kept) > len(self._arrays[0]):
                self._tighten(hashes[kept])
                kept = np.flatnonzero(hashes <= self._bound)
            n_kept = len(kept)
        here = slice(self._held, self._held + n_kept)
        for array, more in zip(self._arrays[self._all :], rows[self._all :], strict=True):
            array[here] = more[kept]
        self._held += n_kept

    def _tighten(self, more: NDArray[np.uint64]) -> None:
        """Lower the bound to the `size` smallest of the held and more hashes; drop the rest."""
        hashes = np.concatenate([self._filled()[0], more])
        if len(hashes) > self._size:
            self._bound = np.partition(hashes, self._size - 1)[self._size - 1]
            self._keep(np.flatnonzero(self._filled()[0] <= self._bound))

    def _keep(self, kept: Ints) -> None:
        for array in self._arrays[self._all :]:
            array[: len(kept)] = array[kept]
        self._held = len(kept)

    def shrink(self) -> None:
        """Drop all but the `size` rows of the smallest hashes; put them in the table's order."""
        if not self._size:
            return
        if not self._all:
            self._tighten(_NO_HASHES)
        rows = self._filled()[1]
        if (rows[1:] < rows[:-1]).any():
            self._keep(np.argsort(rows))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the room that is not filled."""
        return {**self.__dict__, "_arrays": [array.copy() for array in self._filled()]}

    def take(self, order: Ints, total: float) -> Sampled:
        """Return the sample, labels k as classes order[k]; `total` is the sum of all weights."""
        _, _, labels, weights, *numbers = self._filled()
        classes = np.asarray(order)[labels].astype(np.uint16)
        return Sampled(numbers, classes, exact_weights(weights, total) if self._weighted else None)


@dataclass
class Seen:
    """What some rows tell about the domains."""

    values: list[pa.Array | None]  # distinct values of each categorical feature
    missing: list[bool]
    present: list[bool]  # whether a numeric feature had any number
    whole: list[bool]  # whether all its numbers are of an integer type
    orders: list[pa.Array | None]  # of categorical features whose type carries one
    sample: RowSample
    n_rows: int = 0  # of positive weight
    unit_weights: bool = True
    labels: dict[Any, int] = field(default_factory=dict)  # label to provisional class id
    counts: list[int] = field(default_factory=list)  # by class id: exact sums of weights


class SeeingPass:
    """Gathers what `Seen` holds; `kinds` are "number" (sampled), "category" and "ordered"."""

    def __init__(
        self,
        features: Sequence[str],
        kinds: Sequence[str],
        target: str,
        seed: int,
        sample_rows: int,
        n_rows: int,
    ) -> None:
        self._features = list(features)
        self._categories = [i for i, kind in enumerate(kinds) if kind != "number"]
        self._numeric = [i for i, kind in enumerate(kinds) if kind == "number"]
        self._ordered = frozenset(i for i, kind in enumerate(kinds) if kind == "ordered")
        self._target = target
        self._sample = (seed, sample_rows if self._numeric else 0, len(self._numeric), n_rows)

    def zero(self) -> Seen:
        """Return what no rows tell."""
        n = len(self._features)
        nothing = [False] * n
        sample = RowSample(*self._sample)
        return Seen([None] * n, list(nothing), list(nothing), [True] * n, [None] * n, sample)

    def update(self, state: Seen, chunk: RawChunk) -> Seen:
        """Add the rows of a chunk."""
        # A row of weight zero is as good as absent, but its class is still a class.
        ids = self._add_labels(state, chunk)
        kept = chunk.positive()
        if kept is not chunk:
            ids = ids[np.asarray(chunk.weights) > 0]
        state.n_rows += kept.n_rows
        if kept.n_rows == 0:
            return state
        self._add_values(state, kept)
        if self._numeric:
            numbers = [self._numbers(state, kept, i) for i in self._numeric]
            state.sample.add(kept.indices, numbers, ids, kept.weights)
        return state

    def _add_labels(self, state: Seen, chunk: RawChunk) -> Ints:
        if isinstance(chunk.labels, np.ndarray):
            local, keys = chunk.labels, list(range(int(chunk.labels.max(initial=0)) + 1))
        else:
            labels = chunk.labels
            check_no_null(labels, self._target, chunk.start)
            family_of(labels.type, self._target)  # refuses lists and the like
            if not pa.types.is_dictionary(labels.type):
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

    def _add_values(self, state: Seen, chunk: RawChunk) -> None:
        """Add the values of the categorical features."""
        for i in self._categories:
            name, array = self._features[i], chunk.column(i)
            values, missing = distinct_values(array, name)
            if i in self._ordered:
                order = dictionary_order(array, name)
                state.orders[i] = join_orders(state.orders[i], order, name)
            known = state.values[i]
            state.values[i] = values if known is None else unite_values(known, values, name)
            state.missing[i] |= missing

    def _numbers(self, state: Seen, chunk: RawChunk, i: int) -> NDArray[Any]:
        """Return a numeric feature's numbers, missing ones as NaN, and note what they are."""
        name = self._features[i]
        nulls = None
        if chunk.matrix is None:
            numbers, nulls = to_numbers(chunk.columns[i], name)
        else:
            numbers = as_kernel_matrix(chunk.matrix[:, i])
        if numbers.dtype.kind != "f":
            if nulls is None:
                state.present[i] = True
                return numbers
        elif nulls is None or not nulls.all():
            state.whole[i] = False
        numbers = numbers.astype(np.float64, copy=nulls is not None)
        if nulls is not None:
            numbers[nulls] = np.nan
        if not np.isfinite(numbers).all():
            if np.isinf(numbers).any():
                raise infinite_error(name)
            state.missing[i] = True
            state.present[i] |= not np.isnan(numbers).all()
        else:
            state.present[i] = True
        return numbers

    def merge(self, a: Seen, b: Seen) -> Seen:
        """Return what the rows of both tell."""
        for i, name in enumerate(self._features):
            ours, theirs = a.values[i], b.values[i]
            if ours is None or theirs is None:
                a.values[i] = theirs if ours is None else ours
            else:
                a.values[i] = unite_values(ours, theirs, name)
            a.orders[i] = join_orders(a.orders[i], b.orders[i], name)
            a.missing[i] |= b.missing[i]
            a.present[i] |= b.present[i]
            a.whole[i] &= b.whole[i]
        ids = np.array([a.labels.setdefault(v, len(a.labels)) for v in b.labels], dtype=np.int64)
        a.counts += [0] * (len(a.labels) - len(a.counts))
        for k, count in zip(ids, b.counts, strict=True):
            a.counts[k] += count
        a.sample.merge(b.sample, ids)
        a.n_rows += b.n_rows
        a.unit_weights &= b.unit_weights
        return a

    def finish(self, state: Seen) -> Seen:
        """Cut the sample to its size."""
        state.sample.shrink()
        return state
