"""Learning a codebook: one look at the data, then every row as codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.codes.codebook import Codebook, as_kernel_matrix
from tanager.codes.columns import CategoricalColumn, Column, NumericColumn, infinite_error
from tanager.codes.distinct import check_arity, distinct_values, sort_values
from tanager.codes.mdl import mdl_cuts
from tanager.codes.rows import (
    BLOCK_ROWS,
    MAX_ARITY,
    CodedRows,
    Codes,
    MemoryRows,
    code_dtype,
    exact_weights,
)
from tanager.codes.targets import as_labels, class_array, code_labels, column_labels, target_column
from tanager.codes.values import family_of, is_temporal, to_numbers
from tanager.codes.weights import as_weights, class_factors, exact_sums, to_float
from tanager.errors import ConfigurationError, DataError
from tanager.tables import Source, open_source

if TYPE_CHECKING:
    from tanager.engines import FitContext

__all__ = ["MAX_SAMPLE", "learn_codebook"]

MAX_SAMPLE = 200_000  # rows from which a streamed table's cut points are learned


def learn_codebook(
    source: Any,
    target: Any,
    *,
    sample_weight: Any = None,
    class_weight: Any = None,
    categorical_features: Any = "from_dtype",
    missing: str = "value",
    context: FitContext,
    max_sample: int = MAX_SAMPLE,
) -> tuple[Codebook, CodedRows]:
    """Learn the domains of all columns, and give the rows as codes.

    Parameters
    ----------
    source : Source or anything `tanager.tables.open_source` takes
    target : str or array-like, shape (n_rows,)
        The target column's name, or the labels.
    sample_weight : str or array-like, shape (n_rows,), optional
        The weights' column's name, or the weights: finite, zero or more. A row
        of weight zero is as good as absent (its class is still a class).
    class_weight : None, 'balanced' or mapping
        Factors on the rows' weights by class. 'balanced' gives every class the
        same total weight.
    categorical_features : {'from_dtype', 'all'}, mask, names or indices
        Which numeric columns hold categories. Strings, booleans, categories and
        Arrow dictionaries always do.
    missing : {'value', 'marginalize'}
        Whether "missing" is a value of its own (in columns that have it in
        training) or unknown.
    context : FitContext
    max_sample : int
        The most rows from which cut points are learned when streaming.

    Returns
    -------
    codebook : Codebook
    rows : MemoryRows or StreamedRows

    Notes
    -----
    In memory everything is exact and every row is coded once. A streamed table
    is read once here, for domains, classes, weights and a sample of `max_sample`
    rows (fewer where more than 80 numeric columns would make it large) for the
    cut points; later passes read and code it again. The sample is the rows
    whose index has the smallest hash under the seed, so it depends neither on
    chunking nor on threads. Weights enter the cut points as repetitions: N is
    their sum. Dates and times are numbers: seconds since 1970.
    """
    if missing not in ("value", "marginalize"):
        raise ConfigurationError(
            f"missing={missing!r} is not known. Allowed: 'value', 'marginalize'."
        )
    opened = open_source(source)
    for role, name in (("target", target), ("sample_weight", sample_weight)):
        if isinstance(name, str) and name not in opened.names:
            raise DataError(
                f"No {role} column {name!r} in the table. Its columns are: "
                f"{', '.join(opened.names)}."
            )
    taken = {name for name in (target, sample_weight) if isinstance(name, str)}
    features = [name for name in opened.names if name not in taken]
    if not features:
        raise DataError("The table has no column besides the target. Pass at least one feature.")
    task = Task(
        opened,
        features,
        _categorical_mask(opened, features, categorical_features),
        target,
        sample_weight,
        class_weight,
        missing,
    )
    if opened.in_memory:
        return _learn_in_memory(task, context)
    from tanager.codes.streaming import learn_streamed

    return learn_streamed(task, context, max_sample)


class Task(NamedTuple):
    """What is to be learned: the arguments of `learn_codebook`, resolved."""

    source: Source
    features: list[str]
    categorical: list[bool]
    target: Any
    sample_weight: Any
    class_weight: Any
    missing: str


def _categorical_mask(source: Source, features: list[str], asked: Any) -> list[bool]:
    """Return which features are categories."""
    kinds = [source.schema.field(name).type for name in features]
    families = [family_of(kind, name) for kind, name in zip(kinds, features, strict=True)]
    mask = [
        family in ("text", "boolean", "null") or pa.types.is_dictionary(kind)
        for kind, family in zip(kinds, families, strict=True)
    ]
    if asked is None or (isinstance(asked, str) and asked == "from_dtype"):
        return mask
    if isinstance(asked, str):
        if asked == "all":
            return [True] * len(features)
        raise ConfigurationError(
            f"categorical_features={asked!r} is not known. Allowed: 'from_dtype', 'all', a boolean "
            "mask, a list of column names or of indices."
        )
    given = np.asarray(asked)
    if given.dtype.kind == "b":
        if given.shape != (len(features),):
            raise ConfigurationError(
                f"categorical_features is a mask of shape {given.shape} for {len(features)} "
                "features. Pass one boolean a feature."
            )
        chosen = set(np.flatnonzero(given).tolist())
    elif given.size == 0:
        chosen = set()
    else:
        chosen = {_feature_index(features, one) for one in given.tolist()}
    return [fixed or i in chosen for i, fixed in enumerate(mask)]


def _feature_index(features: Sequence[str], one: Any) -> int:
    if isinstance(one, str) and one in features:
        return features.index(one)
    if isinstance(one, int) and -len(features) <= one < len(features):
        return one % len(features)
    raise ConfigurationError(
        f"categorical_features names {one!r}, which is not a feature. "
        f"The features are: {', '.join(features[:30])}."
    )


def _learn_in_memory(task: Task, context: FitContext) -> tuple[Codebook, MemoryRows]:
    source, n_rows = task.source, task.source.n_rows
    assert n_rows is not None
    if isinstance(task.target, str):
        label_values, dtype = column_labels(source.column(task.target))
    else:
        label_values, dtype = as_labels(task.target)
        if len(label_values) != n_rows:
            raise DataError(
                f"Found input variables with inconsistent numbers of samples: the table has "
                f"{n_rows} rows, the target {len(label_values)} labels. Pass one label a row."
            )
    name = task.target if isinstance(task.target, str) else "class"
    target = target_column(label_values, name)
    classes = class_array(target, dtype)
    labels = code_labels(target, label_values)
    weights = None
    if task.sample_weight is not None:
        given = task.sample_weight
        if isinstance(given, str):
            given = weight_column(source.column(given), given)
        weights = as_weights(given, n_rows)
    if task.features != list(source.names):
        source = source.select(task.features)
    if weights is not None and not weights.all():
        kept = weights > 0
        if not kept.any():
            raise no_weight_error()
        source, labels, weights = source.filter(kept), labels[kept], weights[kept]
    weights = join_weights(weights, labels, classes, task.class_weight)
    learner = ColumnLearner(task, labels, weights, len(classes))
    if source.dense is not None:
        columns = _learn_dense(source, task, learner, context)
        codebook = Codebook(columns, target, classes, task.missing, source.named)
        codes: Codes = (
            codebook.encode_dense(source.dense)
            if codebook._tables.fits
            else codebook.encode(source)
        )
    else:
        found = context.engine.map(
            lambda i: learner.learn_and_encode(i, source.column(task.features[i])),
            range(len(task.features)),
            context.progress,
            "codes",
        )
        codebook = Codebook(
            tuple(column for column, _ in found), target, classes, task.missing, source.named
        )
        codes = np.empty((len(found), len(labels)), dtype=codebook.dtype)
        for row, (_, column_codes) in zip(codes, found, strict=True):
            row[:] = column_codes
    return codebook, MemoryRows(codebook.domain, codes, labels, weights)


def weight_column(column: pa.Array, name: str) -> NDArray[np.float64]:
    """Return a column of weights; null is an error."""
    numbers, nulls = to_numbers(column, name)
    if nulls is not None:
        raise DataError(
            f"The weights in column {name!r} have a null (row {int(np.argmax(nulls))}). "
            "A weight is a finite number, zero or more. Drop or mend the row."
        )
    return numbers.astype(np.float64, copy=False)


def no_weight_error() -> DataError:
    """Return the error for weights that are all zero."""
    return DataError("Every sample_weight is zero: no row is left. Pass some positive weights.")


def join_weights(
    weights: NDArray[np.float64] | None,
    labels: NDArray[np.uint16],
    classes: NDArray[Any],
    class_weight: Any,
) -> NDArray[np.float64] | None:
    """Return row times class weights, rounded so that sums are exact; None if all are one."""
    if class_weight is None and (weights is None or (weights == 1).all()):
        return None
    if weights is None:
        sums = np.bincount(labels, minlength=len(classes)).astype(np.float64)
    else:
        sums = np.array([to_float(s) for s in exact_sums(weights, labels, len(classes))])
    factors = class_factors(class_weight, classes, sums)
    total = float((sums * factors).sum())
    if total <= 0:
        raise no_weight_error()
    joined = factors[labels] if weights is None else weights * factors[labels]
    rounded = exact_weights(joined, total)
    return None if (rounded == 1).all() else rounded


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
        cuts = mdl_cuts(numbers, labels, self._n_classes, weights)
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


def _learn_dense(
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

    n_rows, n_columns = dense.shape
    low = np.full(n_columns, np.iinfo(np.int64).max)
    high = np.full(n_columns, np.iinfo(np.int64).min)
    for start in range(0, n_rows, BLOCK_ROWS):
        _kernels.column_ranges(as_kernel_matrix(dense[start : start + BLOCK_ROWS]), low, high)
    small = [j for j in picked if int(high[j]) - int(low[j]) < 1 << 20]
    columns = np.array(small, dtype=np.int64)
    widths = high[columns] - low[columns] + 1
    starts = np.concatenate([[0], np.cumsum(widths)])
    present = np.zeros(starts[-1], dtype=np.uint8)
    for start in range(0, n_rows, BLOCK_ROWS):
        block = as_kernel_matrix(dense[start : start + BLOCK_ROWS])
        _kernels.mark_present(block, columns, low[columns], starts[:-1], present)
    found = {
        j: np.flatnonzero(present[a : a + width]) + low[j]
        for j, a, width in zip(small, starts, widths, strict=False)
    }
    return [found.get(j) for j in picked]
