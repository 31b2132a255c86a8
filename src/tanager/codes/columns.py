"""How the values of a column are encoded, and how codes are decoded and displayed.

The codes of a column are 0 .. arity-1: its values in order (the user's, or ascending), or its
intervals from left to right, and finally, under ``missing="value"``, a code for "missing" if it
occurred in the training rows. Code `arity` means unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager import native
from tanager.codes.rows import Codes
from tanager.codes.values import (
    FAMILY_TYPES,
    family_of,
    infinite_error,
    refuse_temporal,
    to_family,
    to_numbers,
)
from tanager.numerics import Floats
from tanager.sources.plain import EXACT, plain_array, plain_numbers

# Lookup tables cover integer ranges up to this size; for larger ones, values are searched.
LOOKUP_RANGE = 1 << 16
FEWEST_DIGITS = 4
DAY = 86_400
_MICROSECOND_YEARS = 9e12  # seconds: 285,000 years, the most that 64 bits can hold in microseconds
UNITS = ((DAY, "d"), (3600, "h"), (60, "min"), (1, "s"))


class Frozen:
    """Keeps cached values out of pickles: only the fields are stored."""

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


class _CodedColumn(Frozen):
    """The part common to all columns: codes of known values, and possibly one for "missing"."""

    name: str
    missing_code: int | None  # the code of "missing", or None if missing values are unknown
    n_known: int  # number of codes of known values
    _names: list[str]  # display names of known values
    middles: Floats | None = None  # (n_ordered,): the values of ordered codes, up to a factor

    @cached_property
    def arity(self) -> int:
        """Number of codes."""
        return self.n_known + (self.missing_code is not None)

    @property
    def null_code(self) -> int:
        """The code of a missing cell: that of "missing" if there is one, otherwise unknown."""
        return self.arity if self.missing_code is None else self.missing_code

    def labels(self) -> list[str]:
        """Return the display names of the codes, all different."""
        if self.missing_code is None:
            return [*self._names]
        name = "missing"
        while name in self._names:  # a value may be called so, too
            name += " "
        return [*self._names, name]

    @cached_property
    def _tables(self) -> LookupTables:
        return LookupTables([self])  # type: ignore[list-item]

    def _encode_numbers(
        self, numbers: NDArray[Any], nulls: NDArray[np.bool_] | None, out: Codes
    ) -> None:
        """Write the codes of numbers to `out`; `nulls` marks missing ones."""
        self._tables.encode(numbers.reshape(-1, 1), out.reshape(1, -1))
        if nulls is not None:
            out[nulls] = self.null_code

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and bool(self.to_dict() == other.to_dict())  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((self.name, self.arity))


@dataclass(frozen=True, eq=False)
class CategoricalColumn(_CodedColumn):
    """A column of distinct values."""

    name: str
    # int64, float64, bool or string, in their own order or ascending; of type null if none
    values: pa.Array
    missing_code: int | None
    ordered: bool = False  # whether the order of the values is meaningful
    other_code: int | None = None  # shared by all values that aren't listed; None: unknown

    kind = "categorical"
    temporal = ""

    def __getstate__(self) -> dict[str, Any]:
        # Arrow arrays are rebuilt from plain values: not every serialiser restores them correctly.
        return self.to_dict()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(vars(column_from_dict(state)))

    @property
    def n_known(self) -> int:  # type: ignore[override]
        """Number of values."""
        return len(self.values)

    @property
    def unlisted_code(self) -> int:
        """The code of a value that isn't listed: the shared one if it exists, otherwise unknown."""
        return self.arity if self.other_code is None else self.other_code

    @property
    def n_ordered(self) -> int:
        """The number of leading codes that are ordered; false comes before true."""
        return self.n_known if self.ordered or self.family == "boolean" else 0

    @cached_property
    def family(self) -> str:
        """The family of the values: 'integer', 'real', 'boolean', 'text' or 'null'."""
        return next(name for name, kind in FAMILY_TYPES.items() if kind == self.values.type)

    @cached_property
    def _names(self) -> list[str]:  # type: ignore[override]
        return [str(value) for value in self.values.to_pylist()]

    def code_values(self, values: pa.Array) -> NDArray[np.uint16]:
        """Return the codes of values of any type, shape (len(values),)."""
        import pyarrow.compute as pc

        codes = np.full(len(values), self.unlisted_code, dtype=np.uint16)
        if len(self.values):
            found = to_family(values, self.family, self.name, self.values)
            if self.family == "real":
                found = pc.add(found, 0.0)  # -0.0, which is looked up as another number than 0.0
            found = pc.index_in(found, value_set=self.values)
            known = plain_numbers(found.is_valid())
            codes[known] = plain_numbers(found.drop_null())
        codes[plain_numbers(values.is_null(nan_is_null=True))] = self.null_code
        return codes

    def encode(self, array: pa.Array, out: Codes) -> None:
        """Write the codes of a column to `out`, shape (n_rows,)."""
        if self.family in ("integer", "boolean", "real") and not pa.types.is_dictionary(array.type):
            refuse_temporal(array, self.name)
            numbers, nulls = to_numbers(array, self.name)
            if self._tables.fits:
                self._encode_numbers(numbers, nulls, out)
                return
            if np.isinf(numbers).any():
                raise infinite_error(self.name)
            array = pa.array(numbers, mask=nulls)
        family_of(array.type, self.name)  # nested columns are rejected
        array = array.dictionary_encode()
        table = self.code_values(array.dictionary)
        # Null rows look up an extra entry, so a single gather is enough.
        table = np.append(table, np.uint16(self.null_code)).astype(out.dtype)
        indices = array.indices
        if indices.null_count:
            indices = indices.fill_null(len(table) - 1)
        np.take(table, plain_numbers(indices), out=out, mode="clip")

    def to_dict(self) -> dict[str, Any]:
        """Return plain data: strings, numbers, lists."""
        what = {"name": self.name, "kind": self.kind, "family": self.family}
        facts = {"missing_code": self.missing_code, "ordered": self.ordered}
        other = {} if self.other_code is None else {"other_code": self.other_code}
        return {**what, "values": self.values.to_pylist(), **facts, **other}


class SeenNumbers(NamedTuple):
    """The distribution of a column's training numbers, in up to 33 intervals."""

    # The upper end of each interval, inclusive; the first contains only the smallest number.
    ends: NDArray[np.float64]
    counts: NDArray[np.float64]  # number of sampled rows in each interval


@dataclass(frozen=True, eq=False)
class NumericColumn(_CodedColumn):
    """A column of numbers, split into intervals."""

    name: str
    cuts: Floats  # ascending; a value equal to a cut goes to the left
    missing_code: int | None
    temporal: str = ""  # "date" (since 1970), "time" or "duration" if the numbers are seconds
    # Of the training numbers, set by a fit as the reference for drift; it doesn't affect any code.
    seen: SeenNumbers | None = None

    kind = "numeric"
    family = "real"

    @property
    def n_known(self) -> int:  # type: ignore[override]
        """Number of intervals."""
        return len(self.cuts) + 1

    n_ordered = n_known

    @property
    def middles(self) -> Floats | None:  # type: ignore[override]
        """The middles of the intervals, over the largest cut; None with fewer than two cuts."""
        largest = float(np.abs(self.cuts).max(initial=0.0))
        if len(self.cuts) < 2 or largest == 0.0:
            return None
        cuts = self.cuts / largest  # outer intervals are taken to be as wide as their neighbours
        ends = np.concatenate([[2 * cuts[0] - cuts[1]], cuts, [2 * cuts[-1] - cuts[-2]]])
        return np.asarray(0.5 * (ends[1:] + ends[:-1]))

    @cached_property
    def _names(self) -> list[str]:  # type: ignore[override]
        ends = show_cuts(self.cuts, self.temporal)
        if not ends:
            return ["any value"]
        return [f"<= {ends[0]}", *(f"({a}, {b}]" for a, b in pairwise(ends)), f"> {ends[-1]}"]

    def encode(self, array: pa.Array, out: Codes) -> None:
        """Write the codes of a column to `out`, shape (n_rows,)."""
        if not self.temporal:
            refuse_temporal(array, self.name)
        self._encode_numbers(*to_numbers(array, self.name, temporal=self.temporal), out)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; floats survive JSON exactly."""
        facts = {"missing_code": self.missing_code, "temporal": self.temporal}
        return {"name": self.name, "kind": self.kind, "cuts": self.cuts.tolist(), **facts}


Column: TypeAlias = CategoricalColumn | NumericColumn


def column_from_dict(data: dict[str, Any]) -> Column:
    """Restore a column from `to_dict`."""
    name, missing_code = data["name"], data["missing_code"]
    if data["kind"] == "numeric":
        cuts = np.asarray(data["cuts"], dtype=np.float64)
        return NumericColumn(name, cuts, missing_code, str(data["temporal"]))
    values = plain_array(data["values"], FAMILY_TYPES[data["family"]])
    ordered, other_code = bool(data["ordered"]), data.get("other_code")
    return CategoricalColumn(name, values, missing_code, ordered, other_code)


def as_kernel_matrix(x: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as C-ordered int64 or float64."""
    wide = x.dtype == np.uint64 and x.size and int(x.max()) > np.iinfo(np.int64).max
    kind = np.float64 if x.dtype.kind == "f" or wide else np.int64
    return np.ascontiguousarray(x, dtype=kind)


class LookupTables:
    """Columns packed for `native.encode_matrix`; `fits` is whether numeric lookups are enough."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = columns
        self.kind, self.low, self.start, self.size = np.zeros((4, len(columns)), dtype=np.int64)
        self.unknown = np.array([c.arity for c in columns], dtype=np.int64)
        self.missing = np.array([c.null_code for c in columns], dtype=np.int64)
        self.fits = True
        lookups: list[NDArray[np.uint16]] = []
        tables: list[Floats] = []
        for j, column in enumerate(columns):
            self._pack(j, column, lookups, tables)
        for packed in (self.kind == 1, self.kind != 1):  # in lookups, in tables
            self.start[packed] = np.cumsum(self.size[packed]) - self.size[packed]
        self.lookup = np.concatenate([*lookups, np.zeros(1, dtype=np.uint16)])
        self.table = np.concatenate([*tables, np.zeros(1)])

    def _pack(self, j: int, column: Column, lookups: list[Any], tables: list[Any]) -> None:
        if isinstance(column, NumericColumn):
            self.size[j] = len(column.cuts)
            tables.append(column.cuts)
            return
        if column.family == "text":
            self.fits = False
            return
        values = column.values
        if column.family in ("boolean", "null"):
            values = values.cast(pa.int64())
        numbers = plain_numbers(values)
        whole = column.family != "real" and len(numbers) > 0
        low, high = (int(numbers.min()), int(numbers.max())) if whole else (0, 0)
        if whole and high - low < LOOKUP_RANGE:
            self.kind[j], self.low[j] = 1, low
            table = np.full(high - low + 1, column.arity, dtype=np.uint16)
            table[numbers - low] = np.arange(len(numbers))
            self.size[j] = len(table)
            lookups.append(table)
            return
        # Floats can't represent all integers past 2^53, so these can't be searched for among
        # floats. Nor can numbers whose order isn't ascending.
        if max(abs(low), abs(high)) >= EXACT or bool((np.diff(numbers) < 0).any()):
            self.fits = False
        self.kind[j], self.size[j] = 2, len(numbers)
        tables.append(numbers.astype(np.float64))

    def encode(self, x: NDArray[Any], out: Codes) -> None:
        """Write the codes of a C-ordered int64 or float64 matrix to out, (n_columns, n_rows)."""
        places = self.kind, self.low, self.start, self.size
        tables = self.lookup, self.table, self.missing, self.unknown
        bad = native.encode_matrix(x, *places, *tables, out)
        if bad >= 0:
            raise infinite_error(self.columns[bad].name)


def column_edges(column: NumericColumn, ends: Floats | None = None) -> Floats:
    """Return the finite edges of a column's intervals, (n_intervals + 1,).

    The outer intervals are as wide as their neighbours, or one; without cuts, the only one extends
    over the training numbers if their `ends` are passed.
    """
    cuts = column.cuts
    if not len(cuts):
        return np.array([-0.5, 0.5]) if ends is None or not len(ends) else ends[[0, -1]]
    first, last = (cuts[1] - cuts[0], cuts[-1] - cuts[-2]) if len(cuts) > 1 else (1.0, 1.0)
    return np.concatenate([[cuts[0] - first], cuts, [cuts[-1] + last]])


def decode(
    column: Column, codes: Codes, places: Floats | None = None, ends: Floats | None = None
) -> pa.Array:
    """Return the values of codes, shape (n_rows,); "missing" and unknown are null.

    Seconds become dates, times of day or durations. `places`, shape (n_rows,), is the position of
    each number in its interval, in (0, 1], halfway by default. If all cuts are multiples of one
    half, the numbers are whole. `ends` is as in `column_edges`, and decides if there are no cuts.
    """
    if isinstance(column, CategoricalColumn):
        known = codes < len(column.values)
        return column.values.take(pa.array(codes.astype(np.int64), mask=~known))
    edges, n = column_edges(column, ends), len(column.cuts) + 1
    known = codes < n
    at = np.where(known, codes, 0).astype(np.int64)
    inside = 0.5 if places is None else places
    numbers = edges[at] + inside * (edges[at + 1] - edges[at])
    shown = column.cuts if n > 1 or ends is None else ends
    if not column.temporal and bool((shown * 2 % 1 == 0).all()):
        # A number at a cut belongs to its left: whole numbers above one edge, up to the next.
        low = np.floor(edges[at]) + 1 if n > 1 else np.ceil(edges[at])
        high = np.floor(edges[at + 1])
        whole = np.clip(low - 1 + np.ceil(inside * (high - low + 1)), low, high)
        numbers = np.where(low <= high, whole, numbers)
    seconds = pa.array(numbers, mask=~known)
    if not column.temporal:
        return seconds
    import pyarrow.compute as pc

    kinds = {"date": pa.timestamp("us"), "time": pa.time64("us"), "duration": pa.duration("us")}
    micros = pc.round(pc.multiply(seconds, 1e6))
    if column.temporal == "time":
        micros = pc.min_element_wise(pc.max_element_wise(micros, 0.0), 86_400e6 - 1)
    return micros.cast(pa.int64()).cast(kinds[column.temporal])


def show_cuts(cuts: Floats | Sequence[float], temporal: str = "") -> list[str]:
    """Return the shortest texts that distinguish ascending cuts.

    >>> show_cuts([0.123456, 0.2, 1234567.5])
    ['0.1235', '0.2', '1234568']
    >>> show_cuts([0.12345, 0.12346])
    ['0.12345', '0.12346']
    >>> show_cuts([86400 * 365, 86400 * 366.5], "date"), show_cuts([90, 36000], "time")
    (['1971-01-01', '1971-01-02'], ['00:01:30', '10:00:00'])
    >>> show_cuts([90, 5400, 90000], "duration")
    ['1 min 30 s', '1 h 30 min', '1 d 1 h']
    """
    numbers = [float(cut) for cut in cuts]
    for precision in _PRECISIONS[temporal]:
        texts = [_show(number, temporal, precision) for number in numbers]
        if len(set(texts)) == len(texts):
            return texts
    return [repr(number) for number in numbers]


# From coarse to fine: digits, units of time, or a number of units followed by digits of seconds.
_PRECISIONS: dict[str, Sequence[Any]] = {
    "": range(FEWEST_DIGITS, 18),
    "date": ("D", "m", "s", "ms", "us"),
    "time": ("s", "ms", "us"),
    "duration": (2, 3, 4, *range(6, 18)),
}


def _show(number: float, temporal: str, precision: Any) -> str:
    if temporal == "duration":
        return _show_duration(number, precision)
    if not temporal:
        # The whole part is written out up to a billion: 1234567, not 1.235e+06.
        whole = len(f"{abs(number):.0f}")
        return f"{number:.{max(precision, whole) if 1 <= whole <= 9 else precision}g}"
    if abs(number) >= 2.0**62:
        return f"{number!r} s"
    instant = np.datetime64(round(number), "s")
    if abs(number) < _MICROSECOND_YEARS:
        instant = np.datetime64(round(number * 1e6), "us").astype(f"datetime64[{precision}]")
    return str(instant).partition("T")[2] if temporal == "time" else str(instant)


def _show_duration(seconds: float, precision: int) -> str:
    """Return a duration in up to four units, rounding down the last, or in seconds."""
    if precision > len(UNITS):
        return f"{seconds:.{precision}g} s"
    left, texts = abs(seconds), list[str]()
    for size, name in UNITS:
        number = int(left // size)
        if number and len(texts) < precision:
            texts.append(f"{number} {name}")
            left -= number * size
    return ("-" if seconds < 0 else "") + (" ".join(texts) or f"{abs(seconds):.3g} s")
