"""The target: from labels of any kind to class codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.codes.columns import CategoricalColumn
from tanager.codes.distinct import distinct_values, sort_values
from tanager.codes.rows import code_dtype
from tanager.errors import DataError
from tanager.sources.plain import join_chunks, numpy_dtype, plain_column, text_array

__all__ = ["as_labels", "check_no_null", "class_array", "code_labels", "target_column"]


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
    if hasattr(y, "__arrow_c_stream__") and (shape is None or len(shape) == 1):
        try:
            return column_labels(pa.chunked_array(y), name, start)
        except (pa.ArrowException, TypeError, ValueError):
            pass  # a pandas Series of mixed objects: NumPy tells what is in it
    if isinstance(y, pa.Array | pa.ChunkedArray):
        return column_labels(y, name, start)
    array = np.asarray(y)
    if array.dtype.kind == "U" and isinstance(y, list | tuple) and _has_nul(y):
        array = np.array(y, dtype=object)  # NumPy's own texts lose a NUL at their end
    if array.ndim != 1:
        from sklearn.utils import column_or_1d

        try:
            array = column_or_1d(array, warn=warn)
        except ValueError as error:
            raise DataError(
                f"{error} Pass one class a row, or the name of their column in X."
            ) from error
    if array.dtype.kind == "f":
        _check_float(array, name)
    elif array.dtype.kind not in "biuOUST":
        raise _no_classes(array.dtype, name)
    try:
        fixed = array.dtype.kind in "US"
        labels = text_array(array.astype(str)) if fixed else pa.array(array, from_pandas=True)
    except UnicodeDecodeError as error:
        raise DataError(
            f"The {_called(name)} has bytes that are no ASCII ({error}). Decode them first."
        ) from error
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        kinds = {type(label).__name__ for label in array}
        if len(kinds) == 1:
            raise _no_classes(kinds.pop(), name) from error
        raise DataError(
            f"Unknown label type: the {_called(name)} mixes types ({error}). "
            "Make every label a string, or every label an integer."
        ) from error
    check_no_null(labels, name, start)
    if array.dtype == object and pa.types.is_floating(labels.type):
        _check_float(labels.to_numpy(zero_copy_only=False), name)
    return labels, array.dtype


def _has_nul(labels: Any) -> bool:
    return all(isinstance(text, str) for text in labels) and any("\0" in text for text in labels)


def column_labels(
    column: Any, name: str | None = None, start: int = 0
) -> tuple[pa.Array, np.dtype[Any]]:
    """Return an Arrow column as labels, and the dtype the classes shall have."""
    if not isinstance(column, pa.ChunkedArray):
        column = pa.chunked_array([column])
    column = join_chunks(plain_column(column))
    check_no_null(column, name, start)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
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
        "integers, booleans, categories. Turn it into one of them first, for example with "
        "astype(str)."
    )


def target_column(labels: pa.Array, name: str) -> CategoricalColumn:
    """Return the codes of the classes that occur."""
    return CategoricalColumn(name, sort_values(distinct_values(labels, name).values), None)


def class_array(target: CategoricalColumn, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the classes in the dtype of the labels, in the order of their codes."""
    values = target.values.to_pylist()
    if dtype.kind == "O":
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
        raise DataError(
            f"{_input(name)} contains NaN or null (first in row {row}, counted from 0). "
            "The class of every row must be known. Drop such rows."
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
