"""Convert labels of any kind to class codes, and check row weights and sum them exactly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.codes.columns import CategoricalColumn
from tanager.codes.rows import MAX_ARITY, code_dtype
from tanager.codes.values import (
    FAMILY_TYPES,
    distinct_values,
    family_of,
    is_temporal,
    sort_values,
    to_numbers,
)
from tanager.errors import ConfigurationError, DataError, explaining, invalid, listed, one_line
from tanager.numerics import Floats, Ints
from tanager.sources import Source
from tanager.sources.gate import admit_array, admit_column, check_text
from tanager.sources.plain import EXACT, numpy_dtype, value_type

MOST_LABEL_BYTES = 1 << 20  # of all classes in a NumPy array of fixed-width texts
# A weight is the number of rows that a row represents. Within these bounds, no product or
# square of weights leaves the range of floats.
LEAST_WEIGHT, MOST_WEIGHT = 1e-50, 1e50
_ALLOWED = f"Allowed: zero, and from {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}."
_WEIGHTS = f"{_ALLOWED} Drop or correct the row, or scale the weights."


def as_labels(y: Any, *, name: str | None = None, start: int = 0) -> tuple[pa.Array, np.dtype[Any]]:
    """Return 1-D labels as an Arrow array, and the dtype of the classes: that of ``np.unique(y)``.

    Error messages call the labels `name`, or a series by its own name, and count rows from `start`.
    """
    own = getattr(y, "name", None)
    name = own if name is None and isinstance(own, str) else name
    arrow = isinstance(y, pa.Array | pa.ChunkedArray) or hasattr(y, "__arrow_c_stream__")
    is_complex = getattr(getattr(y, "dtype", None), "kind", "") == "c"
    if arrow and len(getattr(y, "shape", (0,))) == 1 and not is_complex:
        return column_labels(_admit(y, name), name, start)
    array = _as_array(y, name)
    if array.dtype.kind not in "biufOUST":
        raise _no_classes(array.dtype, name)
    labels, dtype = column_labels(_admit(array, name), name, start)
    if array.dtype.kind == "S":
        return labels, np.dtype(f"U{array.dtype.itemsize}")
    kept = "biufUO" if isinstance(y, np.ndarray) else "biufU"
    if array.dtype.kind in kept and array.dtype.char != "g":  # g: extended floats
        return labels, array.dtype.newbyteorder("=")
    return labels, dtype


def _as_array(y: Any, name: str | None) -> NDArray[Any]:
    """Return labels as a one-dimensional NumPy array."""
    try:
        array = np.asarray(y)
        if np.ma.is_masked(y):
            array = array.astype(object)
            array[np.ma.getmaskarray(y)] = None
        if isinstance(y, list | tuple) and _loses(array, y):
            array = np.empty(len(y), dtype=object)
            array[:] = y
        if array.ndim == 1:
            return array
        from sklearn.utils import column_or_1d

        found: NDArray[Any] = column_or_1d(array, warn=True)
        return found
    except ValueError as error:
        raise DataError(
            f"The {_called(name)} isn't a list of labels: {one_line(error)}. "
            "Pass one class per row, or the name of their column in X."
        ) from error


def _loses(array: NDArray[Any], labels: Sequence[Any]) -> bool:
    """Return whether NumPy merges labels: texts with a NUL, numbers among texts, large numbers."""
    if array.dtype.kind == "f":
        return any(isinstance(label, int) and abs(label) >= EXACT for label in labels)
    if array.dtype.kind != "U" or array.ndim != 1:
        return False
    return any(not isinstance(label, str) or "\0" in label for label in labels)


def _admit(y: Any, name: str | None) -> pa.Array:
    """Convert labels to a supported Arrow type, as for other columns."""
    try:
        return admit_column(y, f"the {_called(name)}")
    except DataError as error:
        raise DataError(f"Unknown label type: {error}") from error


def column_labels(
    column: Any, name: str | None = None, start: int = 0
) -> tuple[pa.Array, np.dtype[Any]]:
    """Return an Arrow column of a supported type as labels, and the dtype for the classes."""
    check_no_null(column, name, start)
    kind = value_type(column.type)
    if pa.types.is_temporal(kind) or pa.types.is_nested(kind):
        raise _no_classes(kind, name)
    if pa.types.is_floating(kind):
        plain = column.dictionary if pa.types.is_dictionary(column.type) else column
        _check_float(plain.to_numpy(zero_copy_only=False), name)
    simple = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return column, numpy_dtype(kind) if simple else np.dtype(object)


def _no_classes(kind: object, name: str | None) -> DataError:
    return DataError(
        f"Unknown label type: the {_called(name)} is of the type {kind}. Allowed: strings, "
        "integers, booleans, categories. Convert it first, for example with astype(str)."
    )


def target_column(labels: pa.Array, name: str) -> CategoricalColumn:
    """Return the column of the classes that occur."""
    values, _ = distinct_values(labels, name)
    check_n_classes(len(values))
    return CategoricalColumn(name, sort_values(values), None)


def check_n_classes(n_classes: int) -> None:
    """Raise if there are more classes than codes."""
    if n_classes > MAX_ARITY:
        raise DataError(
            f"Unknown label type: the target has more than {MAX_ARITY:,} distinct values. "
            "Pass the column that holds the classes."
        )


def ordered_target(order: Any, name: str) -> tuple[CategoricalColumn, np.dtype[Any]]:
    """Return the column of ordered classes, and the dtype for them."""
    allowed = "a list of all classes, two or more, each of them once, the lowest first"
    if isinstance(order, str) or not isinstance(order, Sequence | np.ndarray):
        raise invalid("classes_ordered", order, allowed)
    values, dtype = as_labels(list(order))
    if len(values) < 2 or len(values.unique()) < len(values):
        raise invalid("classes_ordered", order, allowed)
    kind = FAMILY_TYPES[family_of(values.type, name)]
    # Numbers and texts in the types of columns, 64 bits wide, not those of the list.
    return CategoricalColumn(name, values.cast(kind), None, ordered=True), dtype


def class_array(target: CategoricalColumn, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the classes in the dtype of the labels; very wide texts become Python objects."""
    values = target.values.to_pylist()
    wide = dtype.kind == "U" and dtype.itemsize * len(values) > MOST_LABEL_BYTES
    if dtype.kind == "O" or wide:
        classes = np.empty(len(values), dtype=object)
        classes[:] = values
        return classes
    return np.array(values, dtype=dtype)


def code_labels(
    target: CategoricalColumn, labels: pa.Array, name: str | None = None, start: int = 0
) -> NDArray[np.uint16]:
    """Return the class codes of labels, the first in row `start`; raise if a label is unseen."""
    check_no_null(labels, name or target.name, start)
    # As narrow as most features' codes, so the same kernel can be used.
    codes = np.empty(len(labels), dtype=code_dtype(np.array([target.arity])))
    target.encode(labels, codes)
    if len(codes) and int(codes.max()) >= target.arity:
        strange = labels[int(np.argmax(codes >= target.arity))].as_py()
        remedy = "that class in classes_ordered" if target.ordered else "rows of that class"
        raise DataError(
            f"The label {strange!r} is not one of the classes "
            f"{listed(target.values.to_pylist())}. Fit again with {remedy}, or correct the label."
        )
    return codes.astype(np.uint16)


class Target(NamedTuple):
    """What is known about the classes before the rows are read."""

    name: str
    column: CategoricalColumn | None
    dtype: np.dtype[Any]
    labels: NDArray[np.uint16] | None  # class codes of the rows, if the target isn't a column

    @classmethod
    def of(cls, target: Any, classes: Any, features: Sequence[str], order: Any = None) -> Target:
        """Take the classes from an array of labels, or from the list of all classes."""
        by_name = isinstance(target, str)
        name = target if by_name else _name_of(target, features)
        labels, dtype = (None, np.dtype(object)) if by_name else as_labels(target)
        if order is not None:
            column, dtype = ordered_target(order, name)
        elif classes is not None:
            values, dtype = as_labels(classes)
            column = target_column(values, name)
        elif labels is not None:
            column = target_column(labels, name)
        else:
            return cls(name, None, dtype, None)
        return cls(name, column, dtype, None if labels is None else code_labels(column, labels))

    def settle(
        self, table: Source, seen: Iterable[Any]
    ) -> tuple[CategoricalColumn, NDArray[Any], Ints]:
        """Return the target column, the classes, and the codes of the labels in the order seen."""
        column, dtype, found = self.column, self.dtype, list(seen)
        if column is not None and self.labels is not None:
            return column, class_array(column, dtype), np.array(found, dtype=np.int64)
        kind = value_type(table.schema.field(self.name).type)
        labels, found_dtype = column_labels(pa.array(found, kind), self.name)
        if column is None:
            column, dtype = target_column(labels, self.name), found_dtype
        return column, class_array(column, dtype), code_labels(column, labels).astype(np.int64)


def _name_of(labels: Any, features: Sequence[str]) -> str:
    """Return the name of a series of labels; "class" if it has none, or shares a feature's."""
    name = getattr(labels, "name", None)
    if not isinstance(name, str) or not name or name in features:
        return "class"
    return check_text(name, "The target's name")


def check_no_null(labels: pa.Array, name: str | None = None, start: int = 0) -> None:
    """Raise if a label is missing; `start` is the row of the first label."""
    if labels.null_count:
        row = start + int(np.argmax(labels.is_null().to_numpy(zero_copy_only=False)))
        how = f": open_table(X, drop_missing={name!r}) or --drop-missing-target" if name else ""
        raise DataError(
            f"{_input(name)} contains NaN or null (first in row {row}, counted from 0). "
            f"The class of every row must be known. Drop such rows{how}."
        )


def _check_float(array: NDArray[Any], name: str | None) -> None:
    if np.isnan(array).any():
        raise DataError(
            f"{_input(name)} contains NaN. The class of every row must be known. Drop such rows."
        )
    if np.isinf(array).any():
        raise DataError(
            f"{_input(name)} contains infinity or a value too large for dtype('float64'). "
            "Labels must be strings, integers, booleans or categories."
        )
    fractions = array[array != np.floor(array)]
    if len(fractions):
        raise DataError(
            f"Unknown label type: continuous. Maybe the {_called(name)} is one of regression: it "
            f"has fractions such as {fractions[0]:g}. Make classes of it, as with pandas.cut."
        )


def _input(name: str | None) -> str:
    return "Input y" if name is None else f"Target column {name!r}: input y"


def _called(name: str | None) -> str:
    return "target" if name is None else f"target {name!r}"


def as_weights(sample_weight: Any, n_rows: int | None) -> Floats:
    """Return row weights as float64 after checking them; a number is the weight of every row."""
    what, wrong = "sample_weight holds a value that isn't a number", (TypeError, OverflowError)
    with explaining(what, "Pass one number per row.", ValueError, *wrong):
        given = np.asarray(sample_weight)
        if given.dtype.kind in "cmM":
            raise TypeError(f"its type is {given.dtype}")
        weights = admit_array(given.astype(np.float64))
        if np.ma.is_masked(sample_weight):
            weights[np.ma.getmaskarray(sample_weight)] = np.nan
    if weights.ndim == 0 and n_rows is not None:
        weights = np.full(n_rows, float(weights))
    if weights.ndim != 1:
        raise DataError(
            f"Sample weights must be 1D array or scalar, not {weights.shape}. Pass one per row."
        )
    if n_rows is not None and weights.shape[0] != n_rows:
        raise DataError(
            f"sample_weight has {weights.shape[0]} entries where the table has {n_rows} rows. "
            "Pass one weight per row.",
            parameter="sample_weight",
        )
    check_weights(weights, 0)
    if not weights.any():
        raise no_weight_error()
    return weights


def check_weights(weights: Floats, start: int) -> None:
    """Raise if a weight is negative, infinite, missing, tiny or huge, and name the row."""
    good = _are_weights(weights)
    if not good.all():
        row = int(np.argmin(good))
        raise DataError(f"sample_weight of row {start + row} is {weights[row]}. {_WEIGHTS}")


def _are_weights(weights: Floats) -> NDArray[np.bool_]:
    return (weights == 0) | ((weights >= LEAST_WEIGHT) & (weights <= MOST_WEIGHT))


def weights_of(column: pa.Array, name: str, start: int) -> Floats:
    """Return the weights in some rows of a column, from row `start` on, after checking them."""
    is_text = family_of(column.type, name) == "text"
    if is_text or is_temporal(column.type):
        kind = "text" if is_text else "dates or times"
        raise DataError(f"The weights in column {name!r} are {kind}. {_WEIGHTS}")
    numbers, nulls = to_numbers(column, name)
    if nulls is not None:
        row = start + int(np.argmax(nulls))
        raise DataError(f"The weights in column {name!r} have a null (row {row}). {_WEIGHTS}")
    weights = numbers.astype(np.float64, copy=False)
    check_weights(weights, start)
    return weights


def no_weight_error() -> DataError:
    """Return the error for weights that are all zero."""
    return DataError("Every sample_weight is zero: no row is left. Pass some positive weights.")


def class_factors(class_weight: Any, classes: NDArray[Any], sums: Floats) -> Floats:
    """Return the factor of each class's weights; "balanced" gives classes the same total weight."""
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str) and class_weight == "balanced":
        filled = sums > 0
        return np.where(filled, sums.sum() / (filled.sum() * np.where(filled, sums, 1.0)), 1.0)
    if not isinstance(class_weight, Mapping):
        allowed = "None, 'balanced', or a mapping from class to weight"
        raise invalid("class_weight", class_weight, allowed)
    known = classes.tolist()
    strange = [label for label in class_weight if label not in known]
    if strange:
        raise ConfigurationError(
            f"class_weight names {listed(strange)}, which the target does not have. "
            f"Its classes are: {listed(known)}."
        )
    why = ""
    try:
        factors = np.array([float(class_weight.get(label, 1.0)) for label in known])
    except (TypeError, ValueError, OverflowError) as error:
        why, factors = f" has a weight that isn't a number ({error})", np.array([np.nan])
    if not _are_weights(factors).all():
        raise ConfigurationError(f"class_weight={dict(class_weight)!r}{why}. {_ALLOWED}")
    return factors


def exact_sum(weights: Floats) -> Fraction:
    """Return the exact sum of weights, the same in whatever order and parts they are added."""
    mantissa, exponent = np.frexp(weights)
    whole = (mantissa * 2.0**53).astype(np.int64)
    least = int(exponent.min(initial=0))
    # Mantissas are added in two halves per exponent, whose sums stay below 2^53 for 2^26 rows.
    halves = (whole >> 27).astype(np.float64), (whole & (2**27 - 1)).astype(np.float64)
    sums = (np.bincount(exponent - least, half).tolist() for half in halves)
    pairs = enumerate(zip(*sums, strict=True))
    total = sum(((int(high) << 27) + int(low)) << e for e, (high, low) in pairs)
    return total * Fraction(2) ** (least - 53)
