"""Arrow arrays of plain types: no views or wrapper types, texts as text, validated before use.

Their numbers become NumPy arrays without importing pandas, as Arrow's own conversions would.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.errors import DataError

EXACT = 2**53  # floats represent every whole number up to here
_INT64_DIGITS, _DECIMAL128_DIGITS = 18, 38
_EXACT_POWER = 22  # the largest power of ten that a float represents exactly
_TEXTS = dict.fromkeys((pa.string_view(), pa.binary_view(), pa.large_binary()), pa.large_string())
_TEXTS[pa.binary()] = pa.string()
# Arrow type names that differ from NumPy's.
_NUMPY_NAMES = {"halffloat": "float16", "float": "float32", "double": "float64"}


def plain_array(values: Sequence[Any] | NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Return ``pa.array(values, kind)`` without importing pandas, which takes Arrow long.

    Supports null, bool, string, and integers and floats of 32 or 64 bits, all without nulls.
    """
    if kind == pa.null():
        return pa.nulls(len(values))
    if kind == pa.string():
        texts = [value.encode() for value in values]
        ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
    elif kind == pa.bool_():
        bits = np.packbits(np.asarray(values, dtype=np.bool_), bitorder="little")
        buffers = [None, pa.py_buffer(bits)]
    else:
        buffers = [None, pa.py_buffer(np.ascontiguousarray(values, dtype=numpy_dtype(kind)))]
    return pa.Array.from_buffers(kind, len(values), buffers)


def plain_numbers(array: pa.Array) -> NDArray[Any]:
    """Return numbers or booleans without nulls as a NumPy array, without importing pandas."""
    if array.null_count:
        raise ValueError("an array with gaps has no plain numbers")
    start, end = array.offset, array.offset + len(array)
    data = array.buffers()[1]
    if pa.types.is_boolean(array.type):
        bits = np.frombuffer(data or b"", np.uint8)
        return np.unpackbits(bits, count=end, bitorder="little")[start:].view(np.bool_)
    return np.frombuffer(data or b"", numpy_dtype(array.type))[start:end]


def numpy_dtype(kind: pa.DataType) -> np.dtype[Any]:
    """Return the NumPy dtype of numbers or booleans; Arrow's own method may need pandas."""
    name = str(kind)
    return np.dtype(_NUMPY_NAMES.get(name, name))


def value_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column's values, whether or not they are dictionary-encoded."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column holds text, plain or dictionary-encoded."""
    return bool(value_type(kind) in (pa.string(), pa.large_string()))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which a column is read: no views or wrapper types, bytes as text."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return pa.dictionary(pa.int32(), plain_type(kind.value_type), kind.ordered)
    if pa.types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if pa.types.is_decimal(kind):
        # Integers if 64 bits hold all of their digits.
        narrow = kind.scale == 0 and kind.precision <= _INT64_DIGITS
        return pa.int64() if narrow else _wide_decimal(kind)
    return _TEXTS.get(kind, kind)


def _wide_decimal(kind: pa.DataType) -> pa.DataType:
    """Return a decimal of 128 or 256 bits: Arrow lacks most functions for narrower ones."""
    wide = pa.decimal128 if kind.precision <= _DECIMAL128_DIGITS else pa.decimal256
    return wide(kind.precision, kind.scale)


def cast_schema(schema: pa.Schema, kinds: Mapping[str, pa.DataType]) -> pa.Schema:
    """Return the schema with the types of some columns replaced."""
    return pa.schema([(field.name, kinds.get(field.name, field.type)) for field in schema])


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with all types made plain."""
    return pa.schema([(field.name, plain_type(field.type)) for field in schema])


def plain_table(table: pa.Table) -> pa.Table:
    """Return the table with all columns of plain types, copying only where needed."""
    named = zip(table.schema.names, table.columns, strict=True)
    columns = [plain_column(column, f"Column {name!r}") for name, column in named]
    return pa.table(columns, names=table.schema.names)


def plain_column(column: pa.ChunkedArray, what: str) -> pa.ChunkedArray:
    """Return an entire column in its plain type; errors call it `what`."""
    wanted = plain_type(column.type)
    if column.type != wanted or pa.types.is_dictionary(wanted):
        chunks = [cast_plain(chunk, wanted, what) for chunk in column.chunks]
        column = pa.chunked_array(chunks, type=wanted)
    if pa.types.is_decimal(wanted) and wanted.scale == 0:
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            pass  # more than 64 bits
    return column


def cast_plain(array: pa.Array, wanted: pa.DataType, what: str) -> pa.Array:
    """Cast an array to a plain type; nulls in a dictionary's values move to its indices."""
    if isinstance(array, pa.ExtensionArray):
        return cast_plain(array.storage, wanted, what)
    if pa.types.is_run_end_encoded(array.type):
        import pyarrow.compute as pc

        return cast_plain(pc.run_end_decode(array), wanted, what)
    if not pa.types.is_dictionary(wanted) or not pa.types.is_dictionary(array.type):
        if array.type == wanted:
            return array
        try:
            if pa.types.is_decimal(array.type):
                array = array.cast(_wide_decimal(array.type))
            return array.cast(wanted)
        except pa.ArrowInvalid as error:
            if wanted not in (pa.string(), pa.large_string()) or "UTF8" not in str(error):
                raise
            raise DataError(
                f"{what} has bytes that aren't valid UTF-8. Decode them first, or encode them as "
                "text, for example as hexadecimal digits."
            ) from error
    values = array.dictionary
    if array.type == wanted and values.null_count == 0:
        return array
    # Cast only indices and values, which is ten times faster than Arrow's own cast.
    indices = array.indices.cast(wanted.index_type)
    if values.null_count:
        known = plain_numbers(values.is_valid())
        places = pa.array(np.cumsum(known) - 1, wanted.index_type, mask=~known)
        indices, values = places.take(indices), values.drop_null()
    values = cast_plain(values, wanted.value_type, what)
    return pa.DictionaryArray.from_arrays(indices, values, ordered=wanted.ordered, safe=False)


def decimals_to_floats(array: pa.Array) -> pa.Array:
    """Return decimals as the nearest floats; Arrow's own cast is often off by one bit."""
    kind = array.type
    if kind.bit_width == 128 and abs(kind.scale) <= _EXACT_POWER:
        halves = np.frombuffer(array.buffers()[1] or b"", np.int64).reshape(-1, 2)
        low, high = halves[array.offset : array.offset + len(array)].T
        nulls = plain_numbers(array.is_null()) if array.null_count else None
        if nulls is not None:
            low, high = np.where(nulls, 0, low), np.where(nulls, 0, high)
        if bool(((high == low >> 63) & (low < 1 << 53) & (low > -(1 << 53))).all()):
            # Both numbers are exact, so their quotient is rounded only once.
            scale = 10.0 ** abs(kind.scale)
            return pa.array(low / scale if kind.scale > 0 else low * scale, mask=nulls)
    return array.cast(pa.string()).cast(pa.float64())


def join_chunks(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array; dictionaries are unified."""
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    joined = column.combine_chunks()
    # Newer Arrow releases return an array, older ones a chunked array.
    return joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined


def check_columns(table: pa.Table | pa.RecordBatch) -> None:
    """Raise if the memory of a column doesn't match its type, and name the column."""
    # Arrow would follow a corrupt file's offsets out of bounds. The check adds 1 % to coding.
    for name, column in zip(table.schema.names, table.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(f"column {name!r} is damaged: {error}") from error


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the schema's columns, order and types, validated."""
    check_columns(batch)
    wanted = zip(schema.names, schema.types, strict=True)
    arrays = [cast_plain(batch.column(name), kind, f"Column {name!r}") for name, kind in wanted]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
