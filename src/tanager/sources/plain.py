"""Arrow columns of few plain types: no views, no wrappers, checked before use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "cast_batch",
    "check_columns",
    "join_chunks",
    "numpy_dtype",
    "plain_array",
    "plain_column",
    "plain_numbers",
    "plain_schema",
    "plain_table",
    "plain_type",
    "text_array",
]

# Where Arrow's names of types are not NumPy's.
_NUMPY_NAMES = {"halffloat": "float16", "float": "float32", "double": "float64"}


def plain_array(values: Sequence[Any] | NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Return ``pa.array(values, kind)`` of values without a gap.

    Arrow's own would first import pandas where it is installed: longer than all the rest of
    a prediction. Types: null, bool, string, and whole numbers and floats of 32 or 64 bits.
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
        numbers = np.ascontiguousarray(values, dtype=numpy_dtype(kind))
        buffers = [None, pa.py_buffer(numbers)]
    return pa.Array.from_buffers(kind, len(values), buffers)


def text_array(values: NDArray[Any]) -> pa.Array:
    r"""Return NumPy's texts or bytes of a fixed width as Arrow's.

    Arrow's own ends a text where a NUL stands in it, so that different ones become one.

    >>> text_array(np.array(["a\0b", "a"])).to_pylist()
    ['a\x00b', 'a']
    """
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8")
    letters = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("="), copy=False))
    if values.size and values.dtype.itemsize > 4:
        codes = letters.view(np.uint32).reshape(values.shape[0], -1)
        if bool(((codes[:, :-1] == 0) & (codes[:, 1:] != 0)).any()):
            return pa.array(values.astype(object))
    return pa.array(letters)


def plain_numbers(array: pa.Array) -> NDArray[Any]:
    """Return ``array.to_numpy(zero_copy_only=False)`` of numbers or booleans without a gap.

    Arrow's own would first import pandas, see `plain_array`. Numbers are not copied.
    """
    if array.null_count:
        raise ValueError("an array with gaps has no plain numbers")
    start, end = array.offset, array.offset + len(array)
    data = array.buffers()[1]
    if pa.types.is_boolean(array.type):
        bits = np.frombuffer(data or b"", np.uint8)
        return np.unpackbits(bits, count=end, bitorder="little")[start:].view(np.bool_)
    return np.frombuffer(data or b"", numpy_dtype(array.type))[start:end]


def numpy_dtype(kind: pa.DataType) -> np.dtype[Any]:
    """Return NumPy's type for numbers or booleans; Arrow's own may import pandas, or miss it.

    >>> numpy_dtype(pa.float64()), numpy_dtype(pa.bool_())
    (dtype('float64'), dtype('bool'))
    """
    name = str(kind)
    return np.dtype(_NUMPY_NAMES.get(name, name))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which a column is read: no views, no wrappers."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return pa.dictionary(pa.int32(), plain_type(kind.value_type), kind.ordered)
    if pa.types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if _is_view(kind):
        return pa.large_string()
    return kind


def _is_view(kind: pa.DataType) -> bool:
    return kind in (pa.string_view(), pa.binary_view())


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with every type made plain."""
    return pa.schema([(field.name, plain_type(field.type)) for field in schema])


def plain_table(table: pa.Table) -> pa.Table:
    """Return the table with every column of a plain type, copying only where needed."""
    columns = [plain_column(column) for column in table.columns]
    return pa.table(columns, names=table.schema.names)


def plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the column in its plain type."""
    wanted = plain_type(column.type)
    if column.type == wanted:
        return column
    if isinstance(column.type, pa.BaseExtensionType):
        chunks = [chunk.storage for chunk in column.chunks]
        return plain_column(pa.chunked_array(chunks, type=column.type.storage_type))
    if pa.types.is_run_end_encoded(column.type):
        import pyarrow.compute as pc

        decoded = [pc.run_end_decode(chunk) for chunk in column.chunks]
        return plain_column(pa.chunked_array(decoded, type=column.type.value_type))
    return column.cast(wanted)


def join_chunks(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array; dictionaries are made one."""
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    joined = column.combine_chunks()
    # Newer Arrow releases return an array, older ones a chunked array.
    return joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined


def check_columns(table: pa.Table | pa.RecordBatch) -> None:
    """Refuse columns whose memory is not what their type says, by name.

    Offsets and dictionary codes of a damaged file point outside their buffers,
    and Arrow follows them: the process dies. A full check costs 1 % of coding.
    """
    for name, column in zip(table.schema.names, table.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(f"column {name!r} is damaged: {error}") from error


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the schema's columns, in its order and of its types; checked."""
    check_columns(batch)
    if batch.schema.equals(schema):
        return batch
    arrays = []
    for field in schema:
        array = batch.column(batch.schema.get_field_index(field.name))
        arrays.append(array if array.type == field.type else _cast(array, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Cast an array; of a dictionary whose values are right only the indices, ten times faster."""
    kind = array.type
    if (
        pa.types.is_dictionary(kind)
        and pa.types.is_dictionary(wanted)
        and kind.value_type == wanted.value_type
    ):
        indices = array.indices.cast(wanted.index_type)
        return pa.DictionaryArray.from_arrays(
            indices, array.dictionary, ordered=wanted.ordered, safe=False
        )
    return array.cast(wanted)
