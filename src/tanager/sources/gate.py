"""Convert columns and labels of any kind to types that the rest of the package handles.

NumPy arrays keep a dtype that Arrow and the compiled loops support; everything else becomes one
Arrow array of a plain type: no views or wrapper types, validated before use. Distinct values stay
distinct.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.errors import ColumnTypeError, DataError
from tanager.escaping import abridged

EXACT = 2**53  # floats represent every whole number up to here
_INSTANTS = (np.datetime64, np.timedelta64)
_TIMES = (date, time, timedelta)
_ODD_FLOATS = (np.float16, np.longdouble)  # Arrow cuts off their fractions among integers
_UNREADABLE = (pa.ArrowException, TypeError, ValueError, OverflowError)


def admit_array(array: NDArray[Any]) -> NDArray[Any]:
    """Return a NumPy array in native byte order, aligned, and with a dtype that kernels support."""
    kind = array.dtype
    if kind.kind == "f" and kind.itemsize not in (4, 8):  # half or extended floats
        with np.errstate(over="ignore"):  # those out of range become infinite: rejected later
            array = array.astype(np.float64)
    elif kind.kind in "Mm":
        unit, step = np.datetime_data(kind)
        if kind.kind == "m" and unit in ("Y", "M", "generic"):
            raise TypeError("a duration needs a unit of fixed length")
        known = {"ms": "ms", "us": "us", "ns": "ns", "ps": "ns", "fs": "ns", "as": "ns"}
        wanted = f"{kind.kind}8[{known.get(unit, 's')}]"
        array = array.astype(wanted) if (unit, step) != (known.get(unit, "s"), 1) else array
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array if array.flags.aligned else np.require(array, requirements="A")


def admit_column(values: Any, what: str) -> pa.Array:
    """Return a column of any kind as one Arrow array of a plain type; errors call it `what`."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return _from_arrow(values, what)
    if isinstance(values, np.ndarray):
        return _from_numpy(values, what)
    if isinstance(values, Mapping | Set) or hasattr(values, "columns"):
        raise ColumnTypeError(
            f"{what} is a {type(values).__name__}, which has no order of rows. Pass its values as "
            "a list or an array."
        )
    if _misleads(values):
        return _from_objects(np.asarray(values), what)
    if hasattr(values, "__arrow_c_stream__"):
        if type(getattr(values, "dtype", None)).__name__ == "PeriodDtype":
            values = values.dt.to_timestamp()
        try:
            found = pa.chunked_array(values)
        except _UNREADABLE:  # a pandas Series of objects, or of a type that Arrow lacks
            return _from_numpy(np.asarray(values), what)
        return _from_arrow(found, what)
    given = np.empty(len(values), dtype=object)
    given[:] = list(values)
    return _from_numpy(given, what)


def pandas_to_arrow(frame: Any) -> pa.Table:
    """Return a pandas DataFrame as an Arrow table, without its index."""
    for at, (name, kind) in enumerate(frame.dtypes.items()):
        convert = _pandas_conversion(kind, f"Column {str(name)!r}")
        if convert is not None:
            frame = frame.copy(deep=False)
            frame.isetitem(at, convert(frame.iloc[:, at]))
    names = [str(name) for name in frame.columns]
    if not any(_misleads(frame.iloc[:, at]) for at in range(len(names))):
        try:
            table = pa.Table.from_pandas(frame, preserve_index=False)
            return table.replace_schema_metadata(None).rename_columns(names)
        except _UNREADABLE:
            pass  # a column has mixed types or one that Arrow lacks: convert each separately
    columns = [admit_column(frame.iloc[:, at], f"Column {name!r}") for at, name in enumerate(names)]
    return pa.table(columns, names=names)


def _pandas_conversion(kind: Any, what: str) -> Callable[[Any], Any] | None:
    """Return how to convert a pandas column to a type that Arrow has; None if it has the type."""
    if hasattr(kind, "fill_value"):
        raise DataError(
            f"{what} is sparse, but dense data is required. Convert it first: X.sparse.to_dense()."
        )
    if getattr(kind, "kind", "") == "c":
        raise complex_error(what)
    if type(kind).__name__ == "PeriodDtype":
        return lambda column: column.dt.to_timestamp()
    # From pandas.cut: Arrow has no such categories, so their names are used instead.
    if str(getattr(getattr(kind, "categories", None), "dtype", "")).startswith(
        ("interval", "period")
    ):
        return lambda column: column.cat.rename_categories(str)
    return None


def check_text(text: str, what: str) -> str:
    """Return a text if it can be encoded as UTF-8; raise if it contains a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _not_unicode(what, f"{abridged(text, 40)!a}") from None
    return text


def _not_unicode(what: str, where: str) -> DataError:
    return DataError(
        f"{what} has a text that isn't valid Unicode: {where}. Decode it with the encoding it was "
        "written in, or replace it."
    )


def _from_arrow(values: pa.Array | pa.ChunkedArray, what: str) -> pa.Array:
    column = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    try:
        check_columns(pa.table({"": column}))
    except pa.ArrowInvalid as error:
        raise DataError(f"{what} cannot be read: {error}. Recreate it.") from error
    return join_chunks(plain_column(column, what))


def _from_numpy(values: NDArray[Any], what: str) -> pa.Array:
    if isinstance(values, np.ma.MaskedArray):
        return _from_masked(values, what)
    kind = values.dtype.kind
    if kind in "US":
        return _from_fixed_texts(values, what)
    if kind == "T":
        values, kind = values.astype(object), "O"
    if kind == "O":
        return _from_objects(values, what)
    if kind == "c":
        raise complex_error(what)
    try:
        return pa.array(admit_array(values), from_pandas=True)
    except _UNREADABLE as error:
        raise DataError(
            f"{what} is of the type {values.dtype}, which has no meaning as a column "
            f"({abridged(str(error), 100)}). Convert it first."
        ) from error


def _from_masked(values: np.ma.MaskedArray[Any, Any], what: str) -> pa.Array:
    """Convert a masked array; what is masked is missing, whatever it holds."""
    import pyarrow.compute as pc

    hidden, plain = np.ma.getmaskarray(values), np.array(values.data)
    if plain.dtype.kind == "O":
        plain[hidden] = None
    known = _from_numpy(plain, what)
    return pc.if_else(hidden, pa.scalar(None, known.type), known)


def _from_fixed_texts(values: NDArray[Any], what: str) -> pa.Array:
    """Convert fixed-width NumPy texts or bytes; Arrow's own conversion truncates them at a NUL."""
    try:
        if values.dtype.kind == "S":
            values = np.char.decode(values, "utf-8")
        texts = _joined(pa.array(values.tolist(), pa.string()))
        texts.validate(full=True)  # NumPy lets numbers through that are no character
        return texts
    except UnicodeDecodeError as error:
        raise DataError(
            f"{what} has bytes that aren't valid UTF-8 ({error}). Decode them first."
        ) from error
    except (UnicodeError, ValueError, SystemError) as error:  # a lone surrogate, or no character
        raise _not_unicode(what, str(error)) from error


def _joined(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return text as one array; Arrow splits more than 16 MiB of it into several."""
    if not isinstance(values, pa.ChunkedArray):
        return values
    return join_chunks(values.cast(pa.large_string()) if values.type == pa.string() else values)


def _misleads(values: Any) -> bool:
    """Return whether a pandas column has objects of which Arrow would lose a part."""
    kind, odd = getattr(values, "dtype", None), (*_TIMES, *_ODD_FLOATS)
    objects = isinstance(kind, np.dtype) and kind.kind == "O"
    return objects and any(issubclass(one, odd) for one in set(map(type, np.asarray(values))))


def _from_objects(values: NDArray[Any], what: str) -> pa.Array:
    """Convert Python objects to the type that Arrow infers, or to numbers; raise otherwise."""
    array, kinds = None, set(map(type, values))
    try:
        if any(issubclass(kind, _INSTANTS) for kind in kinds):
            return pa.array(_instants(values), from_pandas=True)
        if any(issubclass(kind, _TIMES) for kind in kinds):
            array = pa.array(_times(values), from_pandas=True)
        elif not any(issubclass(kind, _ODD_FLOATS) for kind in kinds):
            array = _joined(pa.array(values, from_pandas=True))
    except _UNREADABLE:
        pass
    if array is not None and not pa.types.is_nested(array.type):
        return _from_arrow(array, what)
    return _from_mixed(values, what)


def _times(values: NDArray[Any]) -> list[Any]:
    """Return Python dates, times or durations; dates among instants become midnights.

    Arrow would cut instants among dates to days, and count numbers from 1970.
    """
    found = [None if _is_gap(value) else value for value in values]
    present = [value for value in found if value is not None]
    if not any(all(isinstance(value, kind) for value in present) for kind in _TIMES):
        raise TypeError("dates, times or durations among other values")
    if any(isinstance(value, datetime) for value in present):
        for at, value in enumerate(found):
            if value is not None and not isinstance(value, datetime):
                found[at] = datetime.combine(value, time())
    return found


def _instants(values: NDArray[Any]) -> NDArray[Any]:
    """Return NumPy dates or durations in the finest of their units."""
    kind = "M8" if any(isinstance(value, np.datetime64) for value in values) else "m8"
    if any(
        isinstance(value, str | bytes | Real) and not isinstance(value, _INSTANTS)
        for value in values
    ):
        raise TypeError("instants among other values")
    return admit_array(np.array(values.tolist(), dtype=kind))


def _from_mixed(values: NDArray[Any], what: str) -> pa.Array:
    """Convert numbers of several types; raise a readable error for anything else."""
    gaps = np.array([_is_gap(v) for v in values], dtype=np.bool_)
    present = values[~gaps].tolist()
    texts = [v for v in present if isinstance(v, str)]
    for text in texts:
        check_text(text, what)
    strange = [v for v in present if not isinstance(v, str | Real | Decimal | np.bool_)]
    if strange and isinstance(strange[0], complex):
        raise complex_error(what)
    if strange:
        raise ColumnTypeError(
            f"{what} holds a {type(strange[0]).__name__}: every argument must be a string or a "
            "number. Convert its values to one of them, or drop the column."
        )
    if texts:
        raise DataError(
            f"{what} mixes strings and numbers. Make all of them one or the other, for example "
            "with astype(str)."
        )
    try:
        floats = [None if gap else float(v) for gap, v in zip(gaps, values, strict=True)]
    except OverflowError as error:
        raise DataError(
            f"{what} contains infinity or a value too large for dtype('float64'). Replace it by "
            "the largest that has a meaning."
        ) from error
    if len(set(floats) - {None}) < len(set(present)):
        raise DataError(
            f"{what} has whole numbers that floats can't tell apart, past 64 bits or among "
            "fractions. Turn the column into strings."
        )
    return pa.array(floats)


def _is_gap(value: Any) -> bool:
    """Return whether a Python value means "missing": None, NaN of any type, pandas NA or NaT."""
    if isinstance(value, Decimal):
        return value.is_nan()
    lost = isinstance(value, float | np.floating) and value != value
    return value is None or lost or type(value).__name__ in ("NAType", "NaTType")


def complex_error(what: str) -> DataError:
    """Return the error for complex numbers."""
    return DataError(
        f"{what}: Complex data not supported. Pass the real and imaginary parts as columns."
    )


_INT64_DIGITS, _DECIMAL128_DIGITS = 18, 38
_EXACT_POWER = 22  # the largest power of ten that a float represents exactly
_TEXTS = {
    pa.string_view(): pa.large_string(),
    pa.binary_view(): pa.large_string(),
    pa.binary(): pa.string(),
    pa.large_binary(): pa.large_string(),
}
# Arrow type names that differ from NumPy's.
_NUMPY_NAMES = {"halffloat": "float16", "float": "float32", "double": "float64"}


def plain_array(values: Sequence[Any] | NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Return ``pa.array(values, kind)`` for values without nulls, without importing pandas.

    Arrow imports pandas if it's installed, which takes longer than the rest of a prediction.
    Supports null, bool, string, and integers and floats of 32 or 64 bits.
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
    """Return the type in which a column is read: no views or wrapper types, bytes as text.

    Decimals are integers if 64 bits hold all of their digits, otherwise of 128 or 256 bits.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return pa.dictionary(pa.int32(), plain_type(kind.value_type), kind.ordered)
    if pa.types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if pa.types.is_decimal(kind):
        narrow = kind.scale == 0 and kind.precision <= _INT64_DIGITS
        return pa.int64() if narrow else _wide_decimal(kind)
    return _TEXTS.get(kind, kind)


def _wide_decimal(kind: pa.DataType) -> pa.DataType:
    """Return a decimal of 128 or 256 bits: Arrow lacks most functions for narrower ones."""
    wide = pa.decimal128 if kind.precision <= _DECIMAL128_DIGITS else pa.decimal256
    return wide(kind.precision, kind.scale)


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
    """Raise if the memory of a column doesn't match its type, and name the column.

    Arrow would follow a corrupt file's offsets out of bounds. The check adds 1 % to coding.
    """
    for name, column in zip(table.schema.names, table.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(f"column {name!r} is damaged: {error}") from error


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the schema's columns, order and types, validated."""
    check_columns(batch)
    arrays = []
    for field in schema:
        array = batch.column(batch.schema.get_field_index(field.name))
        arrays.append(cast_plain(array, field.type, f"Column {field.name!r}"))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
