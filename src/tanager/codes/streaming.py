"""Tables larger than memory: one pass learns the codebook, a second codes the rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.codes.codebook import Codebook
from tanager.codes.column_learning import Task, make_categorical, make_numeric
from tanager.codes.columns import CategoricalColumn, Column, infinite_error
from tanager.codes.cuts import learn_cuts
from tanager.codes.distinct import distinct_values, join_values
from tanager.codes.rows import MAX_ARITY, Chunk, Rows, exact_weights
from tanager.codes.sample import RowSample, Sampled
from tanager.codes.targets import (
    as_labels,
    check_no_null,
    class_array,
    code_labels,
    column_labels,
    target_column,
)
from tanager.codes.values import is_temporal, to_numbers
from tanager.codes.weights import (
    as_weights,
    check_weights,
    class_factors,
    exact_count,
    exact_sums,
    no_weight_error,
    to_float,
    weight_column,
)
from tanager.errors import DataError

if TYPE_CHECKING:
    from tanager.engines import FitContext

__all__ = ["learn_streamed"]

_SAMPLE_CELLS = 16_000_000  # numbers in a sample: 128 MB


class RawBlock(NamedTuple):
    """Some rows as read: features, labels and weights not yet coded."""

    batch: pa.RecordBatch
    labels: Any  # pyarrow.Array, or ndarray of uint16 where the target was an array
    weights: NDArray[np.float64] | None
    start: int  # among the rows of positive weight
    row: int  # index of the first row in the table
    row_index: NDArray[np.int64] | None  # of every row, where rows were left out

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.batch.num_rows)


class RawRows:
    """A streamed table as blocks of raw rows; those of weight zero are left out."""

    def __init__(self, task: Task, labels: NDArray[np.uint16] | None) -> None:
        self.task = task
        self.n_rows = task.source.n_rows or 0
        self._labels = labels
        self._weights = None
        if task.sample_weight is not None and not isinstance(task.sample_weight, str):
            self._weights = as_weights(task.sample_weight, task.source.n_rows)
        named = [name for name in (task.target, task.sample_weight) if isinstance(name, str)]
        self._columns = [*task.features, *named]

    def pieces(self) -> list[RawRows]:
        """Return the table as one piece."""
        return [self]

    def chunks(self) -> Iterator[RawBlock]:
        """Iterate over the table's batches, from the start."""
        row = start = 0
        for batch in self.task.source.batches(self._columns):
            block = self._block(batch, start, row)
            row += batch.num_rows
            start += block.n_rows
            if block.n_rows:
                yield block
        for given in (self._labels, self._weights):
            if given is not None and len(given) != row:
                raise DataError(
                    f"Found input variables with inconsistent numbers of samples: the table has "
                    f"{row} rows, the target or the weights {len(given)} entries. "
                    "Pass one entry a row."
                )
        if row == 0:
            raise DataError("The table has 0 sample(s). Pass a table with at least one row.")

    def _block(self, batch: pa.RecordBatch, start: int, row: int) -> RawBlock:
        task, n = self.task, len(self.task.features)
        rows = slice(row, row + batch.num_rows)
        if self._labels is not None:
            labels: Any = self._labels[rows]
        else:
            labels = batch.column(n)
        weights = None if self._weights is None else self._weights[rows]
        if isinstance(task.sample_weight, str):
            weights = weight_column(batch.column(batch.num_columns - 1), task.sample_weight)
            check_weights(weights, row)
        features = batch.select(list(range(n))) if batch.num_columns > n else batch
        index = None
        if weights is not None and len(weights) == batch.num_rows and not weights.all():
            kept = weights > 0
            index = row + np.flatnonzero(kept)
            mask = pa.array(kept)
            labels = labels[kept] if isinstance(labels, np.ndarray) else labels.filter(mask)
            features, weights = features.filter(mask), weights[kept]
        return RawBlock(features, labels, weights, start, row, index)


@dataclass(frozen=True)
class BlockCoder:
    """Codes the raw blocks of a table."""

    codebook: Codebook
    total_weight: float
    factors: NDArray[np.float64] | None

    def __call__(self, raw: RawRows) -> Iterator[Chunk]:
        """Iterate over the coded blocks."""
        return (self._code(block) for block in raw.chunks())

    def _code(self, block: RawBlock) -> Chunk:
        codes = self.codebook._encode_arrays(block.batch.columns)
        labels = block.labels
        if not isinstance(labels, np.ndarray):
            labels = code_labels(self.codebook.target, labels)
        weights = None
        if self.factors is not None:
            weights = self.factors[labels]
            if block.weights is not None:
                weights = block.weights * weights
            weights = exact_weights(weights, self.total_weight)
        return Chunk(codes, labels, weights, block.row, block.row_index)


@dataclass
class Seen:
    """What some rows tell about the domains."""

    values: list[pa.Array | None]  # distinct values of each categorical feature
    missing: list[bool]
    present: list[bool]  # whether a numeric feature had any number
    sample: RowSample
    n_rows: int = 0
    unit_weights: bool = True
    labels: dict[Any, int] = field(default_factory=dict)  # label to provisional class id
    counts: list[int] = field(default_factory=list)  # by class id: exact sums of weights


class CodebookPass:
    """Gathers domains, classes, weights and a sample of the numbers in one pass."""

    def __init__(self, task: Task, key: int, max_sample: int) -> None:
        self._task = task
        self._key = key
        self._numeric = [i for i, categorical in enumerate(task.categorical) if not categorical]
        room = _SAMPLE_CELLS // max(1, len(self._numeric))
        self._size = max(1, min(max_sample, room)) if self._numeric else 0

    def zero(self) -> Seen:
        """Return what no rows tell."""
        n = len(self._task.features)
        sample = RowSample(self._key, self._size, len(self._numeric))
        return Seen([None] * n, [False] * n, [False] * n, sample)

    def update(self, state: Seen, chunk: RawBlock) -> Seen:
        """Add the rows of a block."""
        ids = self._add_labels(state, chunk)
        for i, name in enumerate(self._task.features):
            if self._task.categorical[i]:
                values, missing = distinct_values(chunk.batch.column(i), name)
                known = state.values[i]
                state.values[i] = values if known is None else join_values(known, values, name)
                state.missing[i] |= missing
        numbers = [self._numbers(state, chunk.batch, i) for i in self._numeric]
        state.sample.add(chunk.start, numbers, ids, chunk.weights)
        state.n_rows += chunk.n_rows
        return state

    def _add_labels(self, state: Seen, chunk: RawBlock) -> NDArray[np.int64]:
        if isinstance(chunk.labels, np.ndarray):
            values = np.unique(chunk.labels)
            local, keys = np.searchsorted(values, chunk.labels), values.tolist()
        else:
            labels = chunk.labels
            check_no_null(labels, self._task.target)
            if not pa.types.is_dictionary(labels.type):
                labels = labels.dictionary_encode()
            local = labels.indices.to_numpy(zero_copy_only=False)
            keys = labels.dictionary.to_pylist()
        counts = np.bincount(local, minlength=len(keys))
        ids = np.zeros(len(keys), dtype=np.int64)
        for k in np.flatnonzero(counts):
            ids[k] = state.labels.setdefault(keys[k], len(state.labels))
        if len(state.labels) > MAX_ARITY:
            raise DataError(
                f"Unknown label type: the target has more than {MAX_ARITY:,} distinct values. "
                "Pass the column that holds the classes."
            )
        state.counts += [0] * (len(state.labels) - len(state.counts))
        if chunk.weights is None:
            sums = [exact_count(int(n)) for n in counts]
        else:
            sums = exact_sums(chunk.weights, local, len(keys))
            state.unit_weights &= bool((chunk.weights == 1).all())
        for k in np.flatnonzero(counts):
            state.counts[ids[k]] += sums[k]
        return ids[local]

    def _numbers(self, state: Seen, batch: pa.RecordBatch, i: int) -> NDArray[Any]:
        name = self._task.features[i]
        numbers, nulls = to_numbers(batch.column(i), name)
        if nulls is None and numbers.dtype.kind == "i":
            state.present[i] = True
            return numbers
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
        for i, name in enumerate(self._task.features):
            ours, theirs = a.values[i], b.values[i]
            if ours is None or theirs is None:
                a.values[i] = theirs if ours is None else ours
            else:
                a.values[i] = join_values(ours, theirs, name)
            a.missing[i] |= b.missing[i]
            a.present[i] |= b.present[i]
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


def learn_streamed(task: Task, context: FitContext, max_sample: int) -> tuple[Codebook, Rows]:
    """Learn a codebook in one pass over a streamed table."""
    labels, target, dtype = None, None, np.dtype(object)
    if not isinstance(task.target, str):
        values, dtype = as_labels(task.target)
        target = target_column(values, "class")
        labels = code_labels(target, values)
    raw = RawRows(task, labels)
    key = int(context.generator(0x5A).integers(1 << 63))
    seen = context.engine.run(
        CodebookPass(task, key, max_sample), raw, context.progress, "codebook"
    )
    if seen.n_rows == 0:
        raise no_weight_error()
    if target is None:
        target, dtype = _target_from_labels(task, list(seen.labels))
        order = target.code_values(pa.array(list(seen.labels), target.values.type)).astype(np.int64)
    else:
        order = np.array(list(seen.labels), dtype=np.int64)
    classes = class_array(target, dtype)
    sums = np.zeros(len(classes))
    sums[order] = [to_float(count) for count in seen.counts]
    factors = class_factors(task.class_weight, classes, sums)
    total = float((sums * factors).sum())
    if total <= 0:
        raise no_weight_error()
    sample = seen.sample.take(order, factors, total)
    columns = _make_columns(task, seen, sample, len(classes), context)
    codebook = Codebook(columns, target, classes, task.missing, task.source.named)
    unit = seen.unit_weights and bool((factors == 1).all())
    coder = BlockCoder(codebook, total, None if unit else factors)
    pieces = context.engine.keep(
        coder, raw.pieces(), context.memory_limit, context.progress, "codes"
    )
    rows = Rows(codebook.domain, pieces, weighted=not unit, n_rows=seen.n_rows, total_weight=total)
    return codebook, rows


def _target_from_labels(task: Task, labels: list[Any]) -> tuple[CategoricalColumn, np.dtype[Any]]:
    kind = task.source.schema.field(task.target).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    found, dtype = column_labels(pa.array(labels, kind))
    return target_column(found, task.target), dtype


def _make_columns(
    task: Task, seen: Seen, sample: Sampled, n_classes: int, context: FitContext
) -> tuple[Column, ...]:
    place = {i: k for k, i in enumerate(j for j, c in enumerate(task.categorical) if not c)}

    def make(i: int) -> Column:
        name = task.features[i]
        if task.categorical[i] or not seen.present[i]:
            values = seen.values[i]
            values = pa.array([], pa.null()) if values is None else values
            return make_categorical(name, values, seen.missing[i], task.missing)
        numbers = sample.numbers[place[i]]
        known = ~np.isnan(numbers)
        weights = None if sample.weights is None else sample.weights[known]
        labels = sample.labels[known]
        cuts = learn_cuts(numbers[known], labels, n_classes, weights, task.bins)
        temporal = is_temporal(task.source.schema.field(name).type)
        return make_numeric(name, cuts, seen.missing[i], task.missing, temporal=temporal)

    made = context.engine.map(make, range(len(task.features)), context.progress, "cut points")
    return tuple(made)
