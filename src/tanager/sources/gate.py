"""Convert columns and labels of any kind to types that the rest of the package handles.

NumPy arrays keep a dtype that Arrow and the compiled loops support; everything else becomes one
Arrow array of a plain type, validated. Distinct values stay distinct.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.errors import ColumnTypeError, DataError, explaining, one_line
from tanager.escaping import abridged
from tanager.sources.plain import check_columns, join_chunks, plain_column

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
            f"{what} is a {type(values).__name__} and has no row order. Pass its values as a list."
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
    categories = getattr(getattr(kind, "categories", None), "dtype", "")
    if str(categories).startswith(("interval", "period")):
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
    with explaining(f"{what} cannot be read", "Recreate it.", pa.ArrowInvalid):
        check_columns(pa.table({"": column}))
    return join_chunks(plain_column(column, what))


def _from_numpy(values: NDArray[Any], what: str) -> pa.Array:
    if isinstance(values, np.ma.MaskedArray):
        return _from_masked(values, what)
    kind = values.dtype.kind
    if kind in "US":
        return _from_fixed_texts(values, what)
    if kind in "OT":
        return _from_objects(values.astype(object, copy=False), what)
    if kind == "c":
        raise complex_error(what)
    try:
        return pa.array(admit_array(values), from_pandas=True)
    except _UNREADABLE as error:
        raise DataError(
            f"{what} is of the type {values.dtype}, which has no meaning as a column: "
            f"{one_line(error)}. Convert it first."
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
    """Return Python dates, times or durations; dates among instants become midnights."""
    found = [None if _is_gap(value) else value for value in values]
    present = [value for value in found if value is not None]
    if not any(all(isinstance(value, kind) for value in present) for kind in _TIMES):
        raise TypeError("dates, times or durations among other values")  # Arrow counts from 1970
    if any(isinstance(value, datetime) for value in present):  # Arrow cuts them to days
        for at, value in enumerate(found):
            if value is not None and not isinstance(value, datetime):
                found[at] = datetime.combine(value, time())
    return found


def _instants(values: NDArray[Any]) -> NDArray[Any]:
    """Return NumPy dates or durations in the finest of their units."""
    kind = "M8" if any(isinstance(value, np.datetime64) for value in values) else "m8"
    others = [value for value in values if not isinstance(value, _INSTANTS)]
    if any(isinstance(value, str | bytes | Real) for value in others):
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
    if strange:
        if isinstance(strange[0], complex):
            raise complex_error(what)
        raise ColumnTypeError(
            f"{what} holds a {type(strange[0]).__name__}: every argument must be a string or a "
            "number. Convert its values to one of them, or drop the column."
        )
    if texts:
        raise DataError(
            f"{what} mixes strings and numbers. Make all one or the other, as with astype(str)."
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
