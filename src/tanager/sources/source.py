"""Sources, which represent tables of any origin.

A source has named, typed columns and a list of parts: small, picklable references to a few thousand
rows each. Views of a source share its parts; a fragment is a part with the view's transformations.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.errors import ConfigurationError, DataError, explaining, listed
from tanager.sources.gate import admit_array, check_text
from tanager.sources.plain import (
    cast_batch,
    cast_schema,
    is_text,
    join_chunks,
    plain_numbers,
    plain_table,
)
from tanager.sources.remote import changed_error

BATCH_ROWS = 65_536
Batches: TypeAlias = Iterator[pa.RecordBatch]
Change: TypeAlias = Callable[[pa.Array], pa.Array]  # picklable


class SourcePart(ABC):
    """A reference to consecutive rows of a source; small and picklable."""

    n_rows: int

    @abstractmethod
    def read(self, schema: pa.Schema) -> Batches:
        """Iterate over some columns in this order and type, at most `BATCH_ROWS` rows at a time."""

    def matrix(self, columns: Sequence[str]) -> NDArray[Any] | None:  # noqa: ARG002
        """Return columns that form a numeric matrix, (n_rows, n_columns), or None if they don't."""
        return None


class StoredPart(SourcePart):
    """Rows outside of this process's memory, validated on every read."""

    name: str  # used in error messages
    hint: str  # end of error messages

    @abstractmethod
    def stream(self, schema: pa.Schema) -> Batches:
        """Iterate over some columns, in whatever order and types they are stored."""

    def read(self, schema: pa.Schema) -> Batches:
        """Iterate over the rows, cast and validated."""
        n_rows = 0
        with self.explained():
            for batch in self.stream(schema):
                n_rows += batch.num_rows
                for start in range(0, batch.num_rows, BATCH_ROWS):
                    yield cast_batch(batch.slice(start, BATCH_ROWS), schema)
        if n_rows != self.n_rows:
            raise changed_error(self.name)

    def explained(self) -> AbstractContextManager[None]:
        """Convert errors while reading to our own."""
        return explaining(f"{self.name} cannot be read", self.hint, pa.ArrowException, OSError)


class TablePart(SourcePart):
    """One batch of an Arrow table; text requested as a dictionary is hashed only once."""

    def __init__(self, table: pa.Table) -> None:
        self.table, self.n_rows = table, int(table.num_rows)
        self._hashed: dict[str, pa.Array] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return TablePart, (self.table,)

    def read(self, schema: pa.Schema) -> Batches:
        """Yield the rows, without copying them."""
        yield pa.RecordBatch.from_arrays([self._column(field) for field in schema], schema.names)

    def _column(self, field: pa.Field) -> pa.Array:
        column = self.table.column(field.name)
        if column.type == field.type:
            return join_chunks(column)
        if field.name not in self._hashed:
            self._hashed[field.name] = join_chunks(column).dictionary_encode()
        return self._hashed[field.name]


class ArrayPart(SourcePart):
    """One batch of a NumPy matrix."""

    def __init__(self, array: NDArray[Any], names: tuple[str, ...]) -> None:
        self.array, self.names, self.n_rows = array, names, len(array)

    def matrix(self, columns: Sequence[str]) -> NDArray[Any] | None:
        """Return the columns as a matrix, copying only if necessary."""
        if tuple(columns) == self.names:
            return admit_array(self.array)
        if not set(columns) <= set(self.names):
            return None
        return admit_array(self.array[:, [self.names.index(name) for name in columns]])

    def read(self, schema: pa.Schema) -> Batches:
        """Yield the rows, transposed once to make the columns contiguous."""
        matrix = self.matrix(schema.names)
        assert matrix is not None
        arrays = [pa.array(values, from_pandas=True) for values in np.ascontiguousarray(matrix.T)]
        yield pa.RecordBatch.from_arrays(arrays, schema.names)


@dataclass(frozen=True, eq=False)
class Fragment:
    """A reference to consecutive rows of a source: a part, and how to transform its columns."""

    part: SourcePart
    start: int  # index of the first row in the source
    stored: pa.Schema  # the columns of the part; any other is missing in every row
    changes: Mapping[str, tuple[Change, ...]] = field(default_factory=dict)  # by column

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.part.n_rows

    def matrix(self, columns: Sequence[str]) -> NDArray[Any] | None:
        """Return columns that form a numeric matrix, (n_rows, n_columns), or None if they don't."""
        return self.part.matrix(columns) if self.changes.keys().isdisjoint(columns) else None

    def batches(self, columns: Sequence[str]) -> Batches:
        """Read these columns, in this order, at most `BATCH_ROWS` rows at a time."""
        places = map(self.stored.get_field_index, dict.fromkeys(columns))
        schema = pa.schema([self.stored.field(at) for at in places if at >= 0])
        if len(schema):
            read = self.part.read(schema)
        else:  # the number of rows is known without reading
            read = iter(blank_table(self.n_rows).to_batches(BATCH_ROWS))
        as_it_is = schema.names == list(columns) and self.changes.keys().isdisjoint(columns)
        for batch in read:
            yield batch if as_it_is else self._make(batch, columns)

    def _make(self, batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
        given = dict(zip(batch.schema.names, batch.columns, strict=True))
        arrays = []
        for name in columns:
            array = given[name] if name in given else pa.nulls(batch.num_rows)
            for change in self.changes.get(name, ()):
                array = change(array)
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, list(columns))


def blank_table(n_rows: int) -> pa.Table:
    """Return a table with rows but no columns."""
    return pa.table({"": pa.nulls(n_rows)})


class Source:
    """A table that can be read any number of times, in the types of its `schema`."""

    def __init__(
        self,
        schema: pa.Schema,
        parts: Sequence[SourcePart],
        *,
        named: bool = True,  # whether names came with the data; if not, columns match by position
        in_memory: bool = False,
        guessed: Collection[str] = (),  # columns of inferred types, which could also be text
    ) -> None:
        check_names(schema.names)
        self.schema = self._stored = schema
        self.names: tuple[str, ...] = tuple(schema.names)
        self._parts = [part for part in parts if part.n_rows]
        self.n_rows = sum(part.n_rows for part in self._parts)
        self.named, self.in_memory, self._guessed = named, in_memory, frozenset(guessed)
        self._changes: dict[str, tuple[Change, ...]] = {}
        if not self.names or not self.n_rows:
            what = "sample(s)" if self.names else "feature(s)"
            raise DataError(
                f"Found array with 0 {what} (shape=({self.n_rows}, {len(self.names)})) while a "
                "minimum of 1 is required. Pass a table with at least one row and one column."
            )

    @classmethod
    def of_table(cls, table: pa.Table, *, named: bool = True) -> Source:
        """Create a source from an Arrow table in memory."""
        plain = plain_table(table)
        starts = range(0, plain.num_rows, BATCH_ROWS)
        parts = [TablePart(plain.slice(start, BATCH_ROWS)) for start in starts]
        return cls(plain.schema, parts, named=named, in_memory=True)

    @classmethod
    def of_array(cls, array: NDArray[Any]) -> Source:
        """Create a source from a numeric or boolean NumPy matrix; its columns are x0, x1, ..."""
        kind = pa.from_numpy_dtype(admit_array(array[:0]).dtype)
        names = tuple(f"x{i}" for i in range(array.shape[1]))
        starts = range(0, array.shape[0], BATCH_ROWS)
        parts = [ArrayPart(array[start : start + BATCH_ROWS], names) for start in starts]
        return cls(pa.schema([(name, kind) for name in names]), parts, named=False, in_memory=True)

    def fragments(self) -> list[Fragment]:
        """Return references to all rows, in order, without reading anything."""
        starts = accumulate((part.n_rows for part in self._parts), initial=0)
        return [
            Fragment(part, start, self._stored, self._changes)
            for part, start in zip(self._parts, starts, strict=False)
        ]

    def batches(self, columns: Sequence[str] | None = None) -> Batches:
        """Iterate over the rows of all fragments, see `Fragment.batches`."""
        names = self.names if columns is None else columns
        for fragment in self.fragments():
            yield from fragment.batches(names)

    def column(self, name: str) -> pa.Array:
        """Read and return an entire column."""
        kind = self.schema.field(name).type
        chunks = [batch.column(0) for batch in self.batches([name])]
        return join_chunks(pa.chunked_array(chunks, kind))

    def check_has(self, names: Iterable[str], option: str) -> None:
        """Raise if an option names a column that the table doesn't have."""
        absent = [name for name in names if name not in self.names]
        if absent:
            raise ConfigurationError(
                f"{option} names {listed(absent)}, which the table does not have. "
                f"Its columns are: {listed(self.names)}.",
                parameter=option,
            )

    def select(self, columns: Sequence[str]) -> Source:
        """Return a view with some of the columns, in this order."""
        return self._view(schema=pa.schema([self.schema.field(name) for name in columns]))

    def complete(self, absent: Sequence[str]) -> Source:
        """Return a view with absent columns added, missing in every row."""
        empty = [pa.field(name, pa.null()) for name in absent]
        return self._view(schema=pa.schema([*self.schema, *empty]))

    def change(
        self, changes: Mapping[str, Change], kinds: Mapping[str, pa.DataType] | None = None
    ) -> Source:
        """Return a view with some columns transformed, possibly to another type."""
        both = {name: (*self._changes.get(name, ()), one) for name, one in changes.items()}
        schema = cast_schema(self.schema, kinds or {})
        return self._view(schema=schema, _changes={**self._changes, **both})

    def as_text(self, columns: Collection[str]) -> Source:
        """Return a view with some columns as text if their types are inferred, as in CSV files."""
        return self._retype({name: pa.string() for name in columns if name in self._guessed})

    def hash_text(self) -> Source:
        """Return a view with text as dictionaries if in memory, so it's hashed only once."""
        plain = (pa.string(), pa.large_string()) if self.in_memory else ()
        texts = [field for field in self.schema if field.type in plain]
        return self._retype({f.name: pa.dictionary(pa.int32(), f.type) for f in texts})

    def known_rows(self, columns: Sequence[str]) -> Source:
        """Return a view of the rows in which some columns are known; this reads the columns."""
        parts = []
        for one in self.fragments():
            if n_known := sum(int(_known(rows).sum()) for rows in one.batches(columns)):
                parts.append(_KnownPart(one, columns, n_known))
        n_rows = sum(part.n_rows for part in parts)
        if not n_rows:
            raise DataError(f"No row has a value of {listed(columns)}. Name another column.")
        if n_rows == self.n_rows:
            return self
        return self._view(_parts=parts, n_rows=n_rows, _stored=self.schema, _changes={})

    def _retype(self, kinds: Mapping[str, pa.DataType]) -> Source:
        """Return a view in which the parts read stored columns with other types."""
        own = {name: kind for name, kind in kinds.items() if name not in self._changes}
        stored = cast_schema(self._stored, own)
        return self._view(schema=cast_schema(self.schema, own), _stored=stored)

    def _view(self, **facts: Any) -> Source:
        twin = copy.copy(self)
        twin.__dict__.update(facts)
        twin.names = tuple(twin.schema.names)
        return twin

    def __repr__(self) -> str:
        return f"Source({self.n_rows:,} rows, {len(self.names)} columns)"


@dataclass(frozen=True, eq=False)
class _KnownPart(SourcePart):
    """The rows of a fragment in which some columns aren't missing."""

    fragment: Fragment
    needed: Sequence[str]
    n_rows: int

    def read(self, schema: pa.Schema) -> Batches:
        changed = self.fragment.changes
        kinds = {field.name: field.type for field in schema if field.name not in changed}
        one = replace(self.fragment, stored=cast_schema(self.fragment.stored, kinds))
        for batch in one.batches(list(dict.fromkeys([*schema.names, *self.needed]))):
            known = pa.array(_known(batch.select(list(self.needed))))
            yield batch.select(schema.names).filter(known)


def _known(batch: pa.RecordBatch) -> NDArray[np.bool_]:
    """Return a mask of the rows without null or NaN."""
    gaps = [plain_numbers(array.is_null(nan_is_null=True)) for array in batch.columns]
    return ~np.logical_or.reduce(gaps)


def without_texts(source: Source, texts: Sequence[str]) -> Source:
    """Return a source in which some texts count as missing."""
    change = partial(_remove_texts, texts=texts)
    return source.change({field.name: change for field in source.schema if is_text(field.type)})


def _remove_texts(array: pa.Array, texts: Sequence[str]) -> pa.Array:
    """Replace some texts of a column by null."""
    import pyarrow.compute as pc

    coded = pa.types.is_dictionary(array.type)
    values = array.dictionary if coded else array
    gone = pc.is_in(values, pa.array(texts, values.type))
    if not coded:
        return pc.if_else(gone, pa.scalar(None, array.type), array)
    indices = pc.if_else(gone.take(array.indices), pa.scalar(None, pa.int32()), array.indices)
    return pa.DictionaryArray.from_arrays(indices, values, ordered=array.type.ordered)


def check_names(names: Sequence[str]) -> None:
    """Raise if column names aren't unique, since they identify columns, or aren't valid text."""
    for name in names:
        check_text(name, "The name of a column")
    twice = sorted(name for name, n in Counter(names).items() if n > 1)
    if twice:
        raise DataError(
            f"Duplicated column name(s): {listed(twice)}. "
            "Every column needs its own name. Rename or drop the others."
        )
