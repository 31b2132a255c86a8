"""The distinct values of a column: what a categorical domain is made of."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager import native
from tanager.codes.columns import infinite_error
from tanager.codes.rows import MAX_ARITY
from tanager.codes.values import FAMILY_TYPES, family_of, is_temporal, to_family, to_numbers
from tanager.errors import DataError
from tanager.sources.plain import decimals_to_floats

# Integers in a range up to this are marked in a table; past it they are hashed.
MARK_RANGE = 1 << 20


class Distinct(NamedTuple):
    """The distinct values of some rows, in no order, and whether a row was missing."""

    values: pa.Array  # int64, float64, bool or string; no nulls
    missing: bool


def distinct_values(array: pa.Array, name: str) -> Distinct:
    """Return the distinct values of a column of any type."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _distinct_dictionary(array, name)
    if is_temporal(kind):
        array = to_family(array, "text", name)
    family = family_of(array.type, name)
    if family == "null":
        return Distinct(pa.array([], pa.null()), len(array) > 0)
    if family == "integer" and kind != pa.uint64():
        numbers, nulls = to_numbers(array, name)
        valid = numbers if nulls is None else numbers[~nulls]
        return Distinct(check_arity(pa.array(distinct_integers(valid)), name), nulls is not None)
    unique = array.unique()
    found = unique.drop_null()
    if pa.types.is_decimal(kind):
        found = _exact_floats(check_arity(found, name), name)
    elif family == "real":
        found = _finite(found, name)
    elif found.type != FAMILY_TYPES[family]:
        check_arity(found, name)
        found = to_integers(found, name) if family == "integer" else to_family(found, family, name)
    missing = array.null_count > 0 or bool(array.is_null(nan_is_null=True).true_count)
    return Distinct(check_arity(found, name), missing)


def _distinct_dictionary(array: pa.DictionaryArray, name: str) -> Distinct:
    """Look only at the dictionary's entries that occur: declared is not seen."""
    indices, missing = array.indices, array.null_count > 0
    if missing:
        indices = indices.drop_null()
    counts = np.bincount(indices.to_numpy(zero_copy_only=False), minlength=len(array.dictionary))
    used = array.dictionary.take(pa.array(np.flatnonzero(counts)))
    if pa.types.is_dictionary(used.type):
        used = used.dictionary_decode()
    found = distinct_values(used, name)
    return Distinct(found.values, missing or found.missing)


def distinct_integers(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the distinct values, ascending; no hashing where the range is small."""
    if numbers.shape[0] == 0:
        return numbers
    low, high = int(numbers.min()), int(numbers.max())
    if high - low >= MARK_RANGE:
        return np.unique(numbers)
    zero = np.zeros(1, dtype=np.int64)
    present = np.zeros(high - low + 1, dtype=np.uint8)
    column = numbers.reshape(-1, 1)
    native.mark_present(column, zero, np.array([low], dtype=np.int64), zero, present)
    return np.flatnonzero(present) + low


def _finite(values: pa.Array, name: str) -> pa.Array:
    numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if np.isinf(numbers).any():
        raise infinite_error(name)
    # -0.0 and 0.0 are one number.
    return pa.array(np.unique(numbers[~np.isnan(numbers)] + 0.0))


def _exact_floats(values: pa.Array, name: str) -> pa.Array:
    """Return decimals as floats; refuse one that a float would take for another."""
    floats = decimals_to_floats(values)
    for decimal, number in zip(values.to_pylist(), floats.to_pylist(), strict=True):
        if (int(number) if number.is_integer() else Decimal(repr(number))) != decimal:
            raise DataError(
                f"Column {name!r} has categories of more digits than a float holds, such as "
                f"{decimal}. Turn the column into strings, or treat it as numeric."
            )
    return _finite(floats, name)


def to_integers(values: pa.Array, name: str) -> pa.Array:
    """Return unsigned integers as int64."""
    try:
        return values.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise DataError(
            f"Column {name!r} has integers past 2^63, too large for a category. "
            "Turn the column into strings, or treat it as numeric."
        ) from error


def unite_values(a: pa.Array, b: pa.Array, name: str) -> pa.Array:
    """Return the distinct values of both."""
    if len(a) == 0 or a.type == pa.null():
        return b
    if len(b) == 0 or a.equals(b):
        return a
    return check_arity(pa.concat_arrays([a, b]).unique(), name)


def sort_values(values: pa.Array) -> pa.Array:
    """Sort: numbers by value, text by code points, False before True."""
    if len(values) < 2:
        return values
    if pa.types.is_boolean(values.type):
        return pa.array(sorted(values.to_pylist()), pa.bool_())
    return values.sort()


def check_arity(values: pa.Array, name: str) -> pa.Array:
    """Refuse more values than codes."""
    if len(values) > MAX_ARITY:
        raise DataError(
            f"Column {name!r} has more than {MAX_ARITY:,} distinct values as a category. "
            "Drop it if it identifies rows, group its rare values, or, if it holds numbers, "
            "leave it out of categorical_features so that it is discretised."
        )
    return values
