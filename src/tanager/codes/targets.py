"""The target: from labels of any kind to class codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.codes.columns import CategoricalColumn
from tanager.codes.distinct import distinct_values, sort_values
from tanager.codes.rows import code_dtype
from tanager.codes.values import FAMILY_TYPES, family_of
from tanager.errors import ConfigurationError, DataError
from tanager.sources.gate import EXACT, admit_column
from tanager.sources.plain import numpy_dtype

MOST_LABEL_BYTES = 1 << 20  # of all classes in a NumPy array of texts of one width


def as_labels(
    y: Any, *, warn: bool = True, name: str | None = None, start: int = 0
) -> tuple[pa.Array, np.dtype[Any]]:
    """Return 1-D labels as an Arrow array, and the dtype the classes shall have.

    The dtype is what ``np.unique(np.asarray(y))`` would have. One column of two dimensions
    is taken, with scikit-learn's warning. Errors call labels by `name`, or a series by its
    own, and count rows from `start`.
    """
    own = getattr(y, "name", None)
    name = own if name is None and isinstance(own, str) else name
    shape = getattr(y, "shape", None)
    arrow = isinstance(y, pa.Array | pa.ChunkedArray) or hasattr(y, "__arrow_c_stream__")
    if getattr(getattr(y, "dtype", None), "kind", "") == "c":
        raise _no_classes(y.dtype, name)
    if arrow and (shape is None or len(shape) == 1):
        labels = _admit(y, name)
        if pa.types.is_nested(_value_type(labels)):
            raise _no_classes(type(next(iter(y))).__name__, name)
        if pa.types.is_temporal(labels.type):
            raise _no_classes(getattr(y, "dtype", labels.type), name)
        return column_labels(labels, name, start)
    array = _as_array(y, warn, name)
    if array.dtype.kind not in "biufOUST":
        raise _no_classes(array.dtype, name)
    labels, dtype = column_labels(_admit(array, name), name, start)
    if array.dtype.kind == "S":
        return labels, np.dtype(f"U{array.dtype.itemsize}")
    kept = "biufUO" if isinstance(y, np.ndarray) else "biufU"
    if array.dtype.kind in kept and array.dtype.char != "g":  # g: extended floats
        return labels, array.dtype.newbyteorder("=")
    return labels, dtype


def _as_array(y: Any, warn: bool, name: str | None) -> NDArray[Any]:
    """Return labels as a NumPy array of one dimension."""
    try:
        array = np.asarray(y)
        if isinstance(y, list | tuple) and _loses(array, y):
            array = np.empty(len(y), dtype=object)
            array[:] = y
        if array.ndim == 1:
            return array
        from sklearn.utils import column_or_1d

        found: NDArray[Any] = column_or_1d(array, warn=warn)
        return found
    except ValueError as error:
        raise DataError(
            f"The {_called(name)} is no list of labels: {error} Pass one class a row, or the name "
            "of their column in X."
        ) from error


def _loses(array: NDArray[Any], labels: Sequence[Any]) -> bool:
    """Return whether NumPy makes one of two labels: of texts with a NUL, of large numbers."""
    if array.dtype.kind == "f":
        return any(isinstance(label, int) and abs(label) >= EXACT for label in labels)
    if array.dtype.kind != "U" or array.ndim != 1:
        return False
    return all(isinstance(t, str) for t in labels) and any("\0" in text for text in labels)


def _admit(y: Any, name: str | None) -> pa.Array:
    """Let labels through the gate of all columns."""
    try:
        return admit_column(y, f"the {_called(name)}")
    except (DataError, TypeError) as error:
        raise DataError(f"Unknown label type: {error}") from error


def column_labels(
    column: Any, name: str | None = None, start: int = 0
) -> tuple[pa.Array, np.dtype[Any]]:
    """Return an Arrow column of a plain type as labels, and the dtype the classes shall have."""
    check_no_null(column, name, start)
    kind = _value_type(column)
    if pa.types.is_temporal(kind) or pa.types.is_nested(kind):
        raise _no_classes(kind, name)
    if pa.types.is_floating(kind):
        plain = column.dictionary if pa.types.is_dictionary(column.type) else column
        _check_float(plain.to_numpy(zero_copy_only=False), name)
    simple = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return column, numpy_dtype(kind) if simple else np.dtype(object)


def _value_type(column: pa.Array) -> pa.DataType:
    return column.type.value_type if pa.types.is_dictionary(column.type) else column.type


def _no_classes(kind: object, name: str | None) -> DataError:
    return DataError(
        f"Unknown label type: the {_called(name)} is of the type {kind}. Allowed: strings, "
        "integers, booleans, categories. Turn it into one of them first, for example with "
        "astype(str)."
    )


def target_column(labels: pa.Array, name: str) -> CategoricalColumn:
    """Return the codes of the classes that occur."""
    return CategoricalColumn(name, sort_values(distinct_values(labels, name).values), None)


def ordered_target(order: Any, name: str) -> tuple[CategoricalColumn, np.dtype[Any]]:
    """Return the codes of classes that stand in an order, and the dtype they shall have."""
    if isinstance(order, str) or not isinstance(order, Sequence | np.ndarray):
        raise ConfigurationError(
            f"classes_ordered={order!r}. Give all classes in a list, the lowest first."
        )
    values, dtype = as_labels(list(order))
    if len(values) < 2 or len(values.unique()) < len(values):
        raise ConfigurationError(
            f"classes_ordered={list(order)!r}. Give at least two classes, each of them once."
        )
    kind = FAMILY_TYPES[family_of(values.type, name)]
    # Numbers and texts as columns hold them: 64 bits, not what the list happens to have.
    return CategoricalColumn(name, values.cast(kind), None, ordered=True), dtype


def class_array(target: CategoricalColumn, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the classes in the dtype of the labels, in the order of their codes.

    Texts of a fixed width take the longest one's room for each: beyond `MOST_LABEL_BYTES`
    they are Python's.
    """
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
    """Return the class codes of labels; a label never seen is an error that names it.

    `name` is that of the labels' own column, and `start` the row that is the first of them.
    """
    check_no_null(labels, name or target.name, start)
    # As narrow as features' codes mostly are: the same kernel serves both.
    narrow = code_dtype(np.array([target.arity]))
    codes = np.empty(len(labels), dtype=narrow)
    target.encode(labels, codes)
    if len(codes) and int(codes.max()) >= target.arity:
        strange = labels[int(np.argmax(codes >= target.arity))].as_py()
        known = ", ".join(map(repr, target.values.to_pylist()[:20]))
        raise DataError(
            f"The label {strange!r} is not one of the classes {known}. "
            "Fit again with rows of that class, or mend the label."
        )
    return codes.astype(np.uint16)


def check_no_null(labels: pa.Array, name: str | None = None, start: int = 0) -> None:
    """Refuse labels that are missing; `start` is the row of the first of them."""
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
    if (array != np.floor(array)).any():
        raise DataError(
            f"Unknown label type: continuous. Maybe the {_called(name)} is one of regression: it "
            f"has numbers with fractions, such as {array[array != np.floor(array)][0]:g}. Turn it "
            "into classes first, for example with pandas.cut."
        )


def _input(name: str | None) -> str:
    return "Input y" if name is None else f"Target column {name!r}: input y"


def _called(name: str | None) -> str:
    return "target" if name is None else f"target {name!r}"
