"""Families of values, lossless conversions between them, and the distinct values of a column.

Texts in a column that was numeric in training are parsed if all are numbers: the integer 3, the
float 3.0 (to pandas, an integer among missing values) and the text '3' are the same value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.codes.reading import parse_texts
from tanager.codes.rows import MAX_ARITY
from tanager.errors import DataError
from tanager.escaping import abridged
from tanager.numerics import Ints
from tanager.sources.plain import decimals_to_floats, is_text, plain_numbers

FAMILY_TYPES = {
    "integer": pa.int64(),
    "real": pa.float64(),
    "boolean": pa.bool_(),
    "text": pa.string(),
    "null": pa.null(),
}

_DECIMAL = r"^[+-]?\d+\.\d+$"  # a number with a decimal point, as text
MOST_VALUES = 1 << 22  # of a category while rows are read; the rarest are pooled afterwards
DENSE_RANGE = 1 << 20  # integers in a range up to this size are counted; otherwise they are sorted


def is_temporal(kind: pa.DataType) -> bool:
    """Return whether a type is a date, a time of day, an instant or a duration."""
    return bool(pa.types.is_temporal(kind)) and not pa.types.is_interval(kind)


def temporal_kind(kind: pa.DataType) -> str:
    """Return what a column of seconds measures: "date", "time", "duration"; "" for other types."""
    if not is_temporal(kind):
        return ""
    if pa.types.is_time(kind):
        return "time"
    return "duration" if pa.types.is_duration(kind) else "date"


def has_order(kind: pa.DataType) -> bool:
    """Return whether a column's type defines an order of its values."""
    return bool(pa.types.is_dictionary(kind) and kind.ordered)


def infinite_error(name: str) -> DataError:
    """Return the error for an infinite number."""
    return DataError(
        f"Column {name!r} contains infinity. Numbers must be finite, or missing (NaN). "
        "Replace infinite numbers, for example by the largest meaningful one."
    )


def family_of(kind: pa.DataType, name: str) -> str:
    """Return the family of a column's type; dates and decimals are real numbers."""
    if pa.types.is_dictionary(kind):
        return family_of(kind.value_type, name)
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind) or is_temporal(kind):
        return "real"
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_null(kind):
        return "null"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    raise DataError(
        f"Column {name!r} is of the type {kind}. Allowed: numbers, booleans, strings, categories, "
        "dates. Split or flatten the column, or turn it into text."
    )


def to_family(values: pa.Array, family: str, name: str, known: pa.Array | None = None) -> pa.Array:
    """Convert values to a family, or to null; `known` are the values to look them up in."""
    kind, wanted = values.type, FAMILY_TYPES[family]
    own = family_of(kind, name)
    if kind == wanted:
        return values
    if own == "null" or family == "null" or _all_missing(values):
        return pa.nulls(len(values), wanted)
    if family == "text":
        if own in ("text", "integer"):
            return values.cast(wanted)
        if own == "real" and not is_temporal(kind):
            return _whole_texts(values, name, known)
        raise _type_error(name, "text", str(kind))
    refuse_temporal(values, name)
    numbers, nulls = to_numbers(values, name)
    if family == "real":
        return pa.array(numbers.astype(np.float64), mask=nulls)
    whole = numbers if own == "integer" else np.nan_to_num(numbers).astype(np.int64)
    lost = (whole != numbers) | (False if nulls is None else nulls)
    if family == "boolean":
        lost |= (whole != 0) & (whole != 1)
    return pa.array(whole, mask=lost).cast(wanted, safe=False)


def _whole_texts(values: pa.Array, name: str, known: pa.Array | None) -> pa.Array:
    """Return whole floats as texts of integers; raise for others, or if a known text is '1.0'."""
    import pyarrow.compute as pc

    numbers, nulls = to_numbers(values, name)
    gaps = np.isnan(numbers) if nulls is None else np.isnan(numbers) | nulls
    given = numbers[~gaps]
    # Past 2^53, a float represents several integers.
    whole = ((np.abs(given) < 2.0**53) & (given == np.trunc(given))).all()
    decimal = known is not None and pc.any(pc.match_substring_regex(known, _DECIMAL)).as_py()
    if decimal or not whole:
        raise _type_error(name, "text", str(values.type))
    return pa.array(np.where(gaps, 0.0, numbers).astype(np.int64), mask=gaps).cast(pa.string())


def to_numbers(
    array: pa.Array, name: str, *, temporal: str = ""
) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Return a column as int64 or float64, and the mask of its nulls (None if it has none).

    Dates become seconds since 1970, durations become seconds. With `temporal` (see
    `temporal_kind`), only such columns and ISO dates stored as text are accepted.
    """
    kind = array.type
    if pa.types.is_dictionary(kind):
        array, kind = array.dictionary_decode(), kind.value_type
    if temporal == "date" and is_text(kind):
        dates = parse_texts(array, "date", "ISO")
        if dates.null_count > array.null_count:
            raise _type_error(name, "dates or times", str(kind))
        array = _seconds(dates)
    elif is_temporal(kind):
        array = _seconds(array)
    elif temporal and not _all_missing(array):
        raise _type_error(name, "dates or times", str(kind))
    family = family_of(array.type, name)
    if family == "text":
        array = _parse(array, name)
    elif family == "null":
        array = pa.nulls(len(array), pa.float64())
    elif family == "boolean":
        array = array.cast(pa.int64())
    elif family == "integer" and array.type != pa.int64():
        try:
            array = array.cast(pa.int64())
        except pa.ArrowInvalid:  # past 2^63: cut points don't need the last digits
            array = array.cast(pa.float64(), safe=False)
    elif pa.types.is_decimal(array.type):
        array = decimals_to_floats(array)
    elif family == "real" and array.type != pa.float64():
        array = array.cast(pa.float64(), safe=False)
    return split_nulls(array)


def _all_missing(array: pa.Array) -> bool:
    """Return whether all rows are missing: the type, often a guess, is then meaningless."""
    return bool(array.is_null(nan_is_null=True).true_count == len(array))


def refuse_temporal(array: pa.Array, name: str) -> None:
    """Reject dates and times if training had numbers, since their unit would be a guess."""
    if is_temporal(array.type) and not _all_missing(array):
        raise _type_error(name, "numbers or booleans", str(array.type))


def _seconds(array: pa.Array) -> pa.Array:
    """Return instants as seconds since 1970, times of day and durations as seconds."""
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("s"), safe=False)
    elif pa.types.is_time(array.type):
        array = array.cast(pa.time64("ns"))
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[array.type.unit]
    ticks, nulls = split_nulls(array.cast(pa.int64()))
    return pa.array(ticks / per_second, mask=nulls)


def split_nulls(array: pa.Array) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Return numbers, zero where they are null, and the mask of the nulls (None if none is)."""
    if not array.null_count:
        return plain_numbers(array), None
    return plain_numbers(array.fill_null(0)), plain_numbers(array.is_null())


def _parse(array: pa.Array, name: str) -> pa.Array:
    import pyarrow.compute as pc

    try:
        texts = pc.utf8_trim_whitespace(array.cast(pa.string()))
        # Booleans that were written to a CSV file as text: 'True', 'FALSE'.
        texts = pc.replace_substring_regex(texts, "(?i)^true$", "1")
        texts = pc.replace_substring_regex(texts, "(?i)^false$", "0")
        try:
            return texts.cast(pa.int64())  # past 2^53, floats would merge neighbours
        except pa.ArrowInvalid:
            return texts.cast(pa.float64())
    except pa.ArrowInvalid as error:
        raise DataError(
            f"Column {name!r} holds numbers or booleans in the model and text here: "
            f"{abridged(str(error), 200)}. "
            "Name the texts that mean missing, convert the column back, or fit again.",
            parameter="na_values",
        ) from error


def _type_error(name: str, wanted: str, given: str) -> DataError:
    dates = "write dates as 2026-03-01, " if "date" in wanted else ""
    return DataError(
        f"Column {name!r} holds {wanted} in the model and has the type {given} here. "
        f"Convert it, {dates}or fit again."
    )


def distinct_values(array: pa.Array, name: str) -> tuple[pa.Array, bool]:
    """Return a column's values, int64, float64, bool or string in any order, and if any is null."""
    family = family_of(array.type, name)
    if pa.types.is_dictionary(array.type):  # only the entries that occur, not all that are declared
        entries = array.dictionary.take(array.indices.drop_null().unique())
        values, missing = distinct_values(entries, name)
        return values, missing or array.null_count > 0
    missing = bool(array.is_null(nan_is_null=True).true_count)
    if family == "integer" and array.type != pa.uint64():
        numbers, nulls = to_numbers(array, name)
        values = pa.array(distinct_integers(numbers if nulls is None else numbers[~nulls]))
        return check_arity(values, name), missing
    values = check_arity(array.unique().drop_null(), name)
    if family == "integer":
        try:
            values = values.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise _wide_error(name, "integers past 2^63") from error
    if family != "real":
        return to_family(values, family, name), missing
    numbers, _ = to_numbers(values, name)
    if np.isinf(numbers).any():
        raise infinite_error(name)
    # -0.0 and 0.0 are the same number.
    found = np.unique(numbers[~np.isnan(numbers)] + 0.0)
    if pa.types.is_decimal(values.type) and len(found) < len(values):
        raise _wide_error(name, "decimals of more digits than a float holds")
    return pa.array(found), missing


def distinct_integers(numbers: Ints) -> Ints:
    """Return the distinct values, ascending, without sorting if their range is small."""
    low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    if high - low >= DENSE_RANGE or not len(numbers):
        return np.unique(numbers)
    return np.flatnonzero(np.bincount(numbers - low)) + low


def _wide_error(name: str, what: str) -> DataError:
    return DataError(
        f"Column {name!r} has {what}, too large for a category. "
        "Turn the column into strings, or treat it as numeric."
    )


def unite_values(a: pa.Array, b: pa.Array, name: str) -> pa.Array:
    """Return the distinct values of both arrays."""
    if len(a) == 0 or a.type == pa.null():
        return b
    if len(b) == 0 or a.equals(b):
        return a
    return check_arity(pa.concat_arrays([a, b]).unique(), name)


def sort_values(values: pa.Array) -> pa.Array:
    """Sort: numbers by value, text by code points, False before True."""
    if pa.types.is_boolean(values.type):
        return pa.array(sorted(values.to_pylist()), pa.bool_())
    return values.sort() if len(values) > 1 else values


def can_pool(values: pa.Array) -> bool:
    """Return whether values may share a code: texts, and integers, which can become texts."""
    return is_text(values.type) or pa.types.is_integer(values.type)


def check_arity(values: pa.Array, name: str) -> pa.Array:
    """Raise if there are more values than codes or, if these can be pooled, than can be counted."""
    most = MOST_VALUES if can_pool(values) else MAX_ARITY
    if len(values) > most:
        raise too_many_error(name, most)
    return values


def too_many_error(name: str, most: int) -> DataError:
    """Return the error for a category with more than `most` values."""
    return DataError(
        f"Column {name!r} has more than {most:,} distinct values as a category. "
        "Drop it if it identifies rows, group its rare values, or, if it holds numbers, "
        "leave it out of categorical_features so that it is discretised."
    )
