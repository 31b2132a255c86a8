"""Raw rows, the statistics collected in one pass over them (`Seen`), and the columns made of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.codes.columns import CategoricalColumn, Column, NumericColumn, as_kernel_matrix
from tanager.codes.groups import learn_cuts, see_numbers
from tanager.codes.hashing import RowSample
from tanager.codes.rows import MAX_ARITY
from tanager.codes.targets import as_weights, check_n_classes, check_no_null, exact_sum, weights_of
from tanager.codes.values import (
    distinct_values,
    family_of,
    has_order,
    infinite_error,
    sort_values,
    to_family,
    to_numbers,
    too_many_error,
    unite_values,
)
from tanager.errors import ConfigurationError, DataError, listed
from tanager.numerics import Floats, Ints
from tanager.sources import Fragment, Source

OTHERS = "(other values)"  # the name of the code shared by rare values
_WORDS = {"integer": "whole numbers", "real": "numbers", "boolean": "booleans", "text": "text"}


class RawChunk(NamedTuple):
    """Some rows."""

    columns: Sequence[pa.Array]  # one per feature; empty if the features are a matrix
    matrix: NDArray[Any] | None  # (n_rows, n_features), numeric
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

    def column(self, i: int) -> pa.Array:
        """Return feature i."""
        if self.matrix is None:
            return self.columns[i]
        return pa.array(np.ascontiguousarray(self.matrix[:, i]))  # Arrow needn't look for NaN

    def numbers(self, i: int, name: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """Return feature i as int64 or float64, and the mask of its nulls (None if it has none)."""
        if self.matrix is None:
            return to_numbers(self.columns[i], name)
        return as_kernel_matrix(self.matrix[:, i]), None

    def positive(self) -> RawChunk:
        """Return the rows with a positive weight."""
        weights = self.weights
        if weights is None or weights.all():
            return self
        kept = weights > 0
        mask, labels = pa.array(kept), self.labels
        columns = [column.filter(mask) for column in self.columns]
        matrix = None if self.matrix is None else self.matrix[kept]
        labels = labels[kept] if isinstance(labels, np.ndarray) else labels.filter(mask)
        return RawChunk(columns, matrix, labels, weights[kept], self.start, self.indices[kept])


@dataclass(frozen=True, eq=False)
class RawPiece:
    """Where to read some rows: a fragment, the roles of its columns, and separate arrays."""

    fragment: Fragment
    features: tuple[str, ...]
    target: str | None  # names of columns
    weight: str | None
    labels: NDArray[np.uint16] | None  # class codes of the rows, if the target isn't a column
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
            labels = batch.column(n) if self.labels is None else self.labels[rows]
            weights = None if self.weights is None else self.weights[rows]
            if self.weight is not None:
                weights = weights_of(batch.columns[-1], self.weight, start)
            if batch.num_rows:
                block = None if matrix is None else matrix[rows]
                yield RawChunk(batch.columns[:n], block, labels, weights, start)
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


class Making(NamedTuple):
    """What columns are made from, in addition to the statistics of each."""

    labels: NDArray[np.uint16]  # class codes of the sampled rows, in the table's order
    weights: Floats | None
    n_classes: int
    missing: str  # the options of the estimator
    bins: str | int


def join_orders(a: pa.Array | None, b: pa.Array | None, name: str) -> pa.Array | None:
    """Merge the orders of two parts of a column; one must contain the other."""
    if a is None or b is None or a.equals(b):
        return b if a is None else a
    more, less = (a, b) if len(a) >= len(b) else (b, a)
    part = set(less.to_pylist())
    if [value for value in more.to_pylist() if value in part] == less.to_pylist():
        return more
    raise DataError(
        f"Two parts of the table give the values of {name!r} in different orders: "
        f"{listed(a.to_pylist())}, and {listed(b.to_pylist())}. Say the order with "
        f"ordered={{{name!r}: [...]}}."
    )


def arrange_values(values: pa.Array, order: pa.Array, name: str) -> pa.Array:
    """Return the observed values in the given order; raise if one isn't part of it."""
    family = family_of(values.type, name)
    try:
        known = to_family(order, family, name)
    except DataError as error:
        raise ConfigurationError(
            f"ordered[{name!r}] is {listed(order.to_pylist())}, but the column holds "
            f"{_WORDS[family]}. List the values as the column has them.",
            parameter="ordered",
        ) from error
    place = {value: at for at, value in enumerate(known.to_pylist()) if value is not None}
    seen = values.to_pylist()
    strange = [value for value in seen if value not in place]
    if strange:
        raise DataError(
            f"Column {name!r} has the value(s) {listed(strange)}, which aren't in its order: "
            f"{listed(order.to_pylist())}. Add them to ordered[{name!r}], or make them missing."
        )
    return values.take(pa.array(np.argsort([place[value] for value in seen], kind="stable")))


@dataclass
class SeenCategory:
    """Statistics of a feature with distinct values."""

    name: str
    typed_order: bool  # whether an order comes from its type, if that has one
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
    numbers: Floats = field(default_factory=lambda: np.zeros(0))  # sampled; NaN: missing

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
        known = ~np.isnan(self.numbers) if self.missing else slice(None)
        numbers, labels = self.numbers[known], making.labels[known]
        weights = None if making.weights is None else making.weights[known]
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
    total_weight: Fraction = Fraction(0)
    unit_weights: bool = True
    labels: dict[Any, int] = field(default_factory=dict)  # label to provisional class id


class SeeingPass:
    """Collects the statistics in `Seen`; `features` are their empty start."""

    def __init__(
        self, features: Sequence[SeenFeature], target: str, seed: int = 0, sample_rows: int = 0
    ) -> None:
        self._features, self._target = features, target
        self._sample = seed, sample_rows

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
        if chunk.weights is None:
            state.total_weight += chunk.n_rows
        else:
            state.total_weight += exact_sum(chunk.weights)
            state.unit_weights &= bool(np.isin(chunk.weights, (0, 1)).all())
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
        local = labels = chunk.labels
        if isinstance(labels, np.ndarray):
            keys = list(range(int(labels.max(initial=0)) + 1))
        else:
            check_no_null(labels, self._target, chunk.start)
            family_of(labels.type, self._target)  # rejects lists and the like
            labels = labels.dictionary_encode()
            local, keys = (
                labels.indices.to_numpy(zero_copy_only=False),
                labels.dictionary.to_pylist(),
            )
        ids = np.zeros(len(keys), dtype=np.int64)
        for k in np.flatnonzero(np.bincount(local)):
            ids[k] = state.labels.setdefault(keys[k], len(state.labels))
        check_n_classes(len(state.labels))
        return ids[local]

    def merge(self, a: Seen, b: Seen) -> Seen:
        """Return the statistics of both sets of rows."""
        for mine, theirs in zip(a.features, b.features, strict=True):
            mine.merge(theirs)  # type: ignore[arg-type]
        ids = np.array([a.labels.setdefault(v, len(a.labels)) for v in b.labels], dtype=np.int64)
        a.sample.merge(b.sample, ids)
        a.total_weight += b.total_weight
        a.unit_weights &= b.unit_weights
        return a

    def finish(self, state: Seen) -> Seen:
        """Reduce the sample to its size."""
        state.sample.tighten()
        return state
