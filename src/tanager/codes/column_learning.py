"""Learning columns from all rows: values seen, or cut points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.codes.codebook import as_kernel_matrix
from tanager.codes.columns import (
    CategoricalColumn,
    Column,
    NumericColumn,
    infinite_error,
    read_only,
)
from tanager.codes.cuts import learn_cuts
from tanager.codes.distinct import check_arity, distinct_values, sort_values
from tanager.codes.rows import BLOCK_ROWS, MAX_ARITY, Codes, code_dtype
from tanager.codes.values import family_of, is_temporal, to_numbers
from tanager.errors import DataError
from tanager.sources import Source

if TYPE_CHECKING:
    from tanager.engines import FitContext

__all__ = ["ColumnLearner", "Task", "learn_matrix", "make_categorical", "make_numeric"]


class Task(NamedTuple):
    """What is to be learned: the arguments of `learn_codebook`, resolved."""

    source: Source
    features: list[str]
    categorical: list[bool]
    target: Any
    sample_weight: Any
    class_weight: Any
    missing: str
    classes: Any
    bins: str | int


class ColumnLearner:
    """Learns one column at a time from all rows."""

    def __init__(
        self,
        task: Task,
        labels: NDArray[np.uint16],
        weights: NDArray[np.float64] | None,
        n_classes: int,
    ) -> None:
        self._task = task
        self._labels = labels
        self._weights = weights
        self._n_classes = n_classes

    def learn_and_encode(self, i: int, array: pa.Array) -> tuple[Column, Codes]:
        """Return feature i's column and its codes."""
        name = self._task.features[i]
        if self._task.categorical[i]:
            if family_of(array.type, name) == "text" and not pa.types.is_dictionary(array.type):
                array = array.dictionary_encode()  # hashed once, for values and codes
            found = distinct_values(array, name)
            column: Column = make_categorical(name, found.values, found.missing, self._task.missing)
        else:
            numbers, nulls = to_numbers(array, name)
            column = self.numeric(name, numbers, nulls, temporal=is_temporal(array.type))
        codes = np.empty(len(array), dtype=code_dtype(np.array([column.arity])))
        column.encode(array, codes)
        return column, codes

    def numeric(
        self,
        name: str,
        numbers: NDArray[Any],
        nulls: NDArray[np.bool_] | None,
        *,
        temporal: bool = False,
    ) -> Column:
        """Return a numeric column with its cut points."""
        labels, weights = self._labels, self._weights
        valid = None if nulls is None else ~nulls
        if numbers.dtype.kind == "f":
            if np.isinf(numbers if valid is None else numbers[valid]).any():
                raise infinite_error(name)
            known = ~np.isnan(numbers)
            if not known.all():
                valid = known if valid is None else valid & known
        if valid is not None:
            numbers, labels = numbers[valid], labels[valid]
            weights = None if weights is None else weights[valid]
        if numbers.shape[0] == 0:
            return make_categorical(name, pa.array([], pa.null()), True, self._task.missing)
        cuts = learn_cuts(numbers, labels, self._n_classes, weights, self._task.bins)
        return make_numeric(name, cuts, valid is not None, self._task.missing, temporal=temporal)


def make_categorical(
    name: str, values: pa.Array, has_missing: bool, policy: str
) -> CategoricalColumn:
    """Return the column of some distinct values."""
    if len(values) == 0:
        if policy != "value":
            raise DataError(
                f"Column {name!r} has only missing values, and missing='marginalize' leaves it "
                "nothing to learn. Drop the column, or use missing='value'."
            )
        return CategoricalColumn(name, pa.array([], pa.null()), 0)
    own_code = has_missing and policy == "value"
    check_arity(values, name)
    if len(values) + own_code > MAX_ARITY:
        check_arity(pa.nulls(MAX_ARITY + 1), name)
    return CategoricalColumn(name, sort_values(values), len(values) if own_code else None)


def make_numeric(
    name: str, cuts: NDArray[np.float64], has_missing: bool, policy: str, *, temporal: bool
) -> NumericColumn:
    """Return the column of some cut points."""
    own_code = has_missing and policy == "value"
    return NumericColumn(name, cuts, len(cuts) + 1 if own_code else None, temporal)


def learn_matrix(
    source: Source, task: Task, learner: ColumnLearner, context: FitContext
) -> tuple[Column, ...]:
    """Learn the columns of a numeric matrix, several at a time."""
    dense = source.dense
    assert dense is not None
    columns: dict[int, Column] = {}
    picked = [i for i, categorical in enumerate(task.categorical) if categorical]
    if picked and dense.dtype.kind in "biu" and dense.dtype != np.uint64:
        for i, values in zip(picked, _distinct_by_matrix(dense, picked), strict=True):
            if values is not None:
                kind = pa.bool_() if dense.dtype.kind == "b" else pa.int64()
                columns[i] = make_categorical(
                    task.features[i], pa.array(values).cast(kind), False, task.missing
                )
    rest = [i for i in range(len(task.features)) if i not in columns]
    # Eight columns of 8 bytes are one cache line: reading fewer reads it again.
    groups = [rest[k : k + 8] for k in range(0, len(rest), 8)]

    def learn(group: list[int]) -> list[Column]:
        block = np.ascontiguousarray(dense[:, group].T)
        found: list[Column] = []
        for i, values in zip(group, block, strict=True):
            name = task.features[i]
            if task.categorical[i]:
                seen = distinct_values(pa.array(values, from_pandas=True), name)
                found.append(make_categorical(name, seen.values, seen.missing, task.missing))
            else:
                numbers = as_kernel_matrix(values.reshape(-1, 1)).reshape(-1)
                found.append(learner.numeric(name, numbers, None))
        return found

    learned = context.engine.map(learn, groups, context.progress, "codes")
    for group, made in zip(groups, learned, strict=True):
        columns.update(zip(group, made, strict=True))
    return tuple(columns[i] for i in range(len(task.features)))


def _distinct_by_matrix(dense: NDArray[Any], picked: list[int]) -> list[NDArray[np.int64] | None]:
    """Return the distinct integers of each picked column; None where the range is large."""
    from tanager.codes import _kernels

    n_rows = dense.shape[0]
    low = dense.min(axis=0).astype(np.int64)
    high = dense.max(axis=0).astype(np.int64)
    small = [j for j in picked if int(high[j]) - int(low[j]) < 1 << 20]
    columns = np.array(small, dtype=np.int64)
    widths = high[columns] - low[columns] + 1
    starts = np.concatenate([[0], np.cumsum(widths)])
    present = np.zeros(starts[-1], dtype=np.uint8)
    for start in range(0, n_rows, BLOCK_ROWS):
        block = read_only(as_kernel_matrix(dense[start : start + BLOCK_ROWS]))
        _kernels.mark_present(block, columns, low[columns], starts[:-1], present)
    found = {
        j: np.flatnonzero(present[a : a + width]) + low[j]
        for j, a, width in zip(small, starts, widths, strict=False)
    }
    return [found.get(j) for j in picked]
