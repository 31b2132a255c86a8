"""Sources: what every table becomes, whatever it came from.

A source has named, typed columns and is a list of fragments: addresses of
some thousand rows each, small and picklable. Whoever needs the rows reads the
fragment there, as often as needed. A numeric NumPy array stays reachable as it
is (`Fragment.matrix`), because going through columns would cost two
transpositions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from tanager.errors import DataError, listed, one_line
from tanager.sources.gate import admit_array, check_text
from tanager.sources.plain import cast_batch, join_chunks, plain_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

BATCH_ROWS = 65_536
Batches: TypeAlias = Iterator[pa.RecordBatch]


class Fragment(ABC):
    """The address of consecutive rows of a source."""

    start: int  # index of the first row in the source
    n_rows: int

    @abstractmethod
    def batches(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Batches:
        """Read these columns, in this order, at most `batch_rows` rows at a time."""

    def matrix(self, columns: Sequence[str]) -> NDArray[Any] | None:  # noqa: ARG002
        """Return some columns as the numeric matrix they are, (n_rows, n_columns), or None."""
        return None


class Source(ABC):
    """A table that can be read any number of times: the base of all sources.

    `named` says whether the names came with the data; columns without are matched by position.
    """

    in_memory = False
    named = True

    def __init__(self, schema: pa.Schema, n_rows: int) -> None:
        check_names(schema.names)
        self.schema = schema
        self.names: tuple[str, ...] = tuple(schema.names)
        self.n_rows = n_rows
        if not self.names:
            raise DataError(
                f"Found array with 0 feature(s) (shape=({n_rows}, 0)) while a minimum of 1 "
                "is required. Pass a table with at least one column."
            )
        if n_rows == 0:
            raise DataError(
                f"Found array with 0 sample(s) (shape=(0, {len(self.names)})) while a minimum of 1 "
                "is required. Pass a table with at least one row."
            )

    @abstractmethod
    def fragments(self) -> list[Fragment]:
        """Return the addresses of all rows, in order; reads nothing."""

    def batches(
        self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows of all fragments, see `Fragment.batches`."""
        names = self.names if columns is None else columns
        for fragment in self.fragments():
            yield from fragment.batches(names, batch_rows)

    def column(self, name: str) -> pa.Array:
        """Return a whole column; it is read for this."""
        kind = self.schema.field(name).type
        chunks = [batch.column(0) for batch in self.batches([name])]
        return join_chunks(pa.chunked_array(chunks, kind))

    def select(self, columns: Sequence[str]) -> Source:
        """Return some of the columns, in this order."""
        return select_columns(self, columns)

    def as_text(self, columns: Collection[str]) -> Source:  # noqa: ARG002
        """Return the table with some columns as written: only a CSV file's types are guesses."""
        return self

    @property
    def bytes_read(self) -> int:
        """Bytes that this process has fetched over the network so far."""
        return 0

    def keep(self, limit: int) -> None:  # noqa: B027 - only remote tables have something to keep
        """Keep up to so many bytes of what is fetched over the network, for the next read."""

    def hash_text(self) -> Source:
        """Return the table with its text as dictionaries, if in memory: hashed once."""
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_rows:,} rows, {len(self.names)} columns)"


class Place(Protocol):
    """Where some rows are stored: small and picklable; errors call it `name`, and end in `hint`."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def hint(self) -> str: ...  # noqa: D102

    def read(self, columns: list[str], batch_rows: int) -> Batches:
        """Iterate over the rows, in whatever types they are stored."""


@dataclass(frozen=True, eq=False)
class StoredFragment(Fragment):
    """Rows of a place, read in the types of the table."""

    place: Place
    schema: pa.Schema
    start: int
    n_rows: int

    def batches(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Batches:
        """Iterate over the rows, cast and checked."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        try:
            for batch in self.place.read(list(columns), batch_rows):
                for start in range(0, batch.num_rows, batch_rows):
                    yield cast_batch(batch.slice(start, batch_rows), schema)
        except MemoryError:  # which can be an ArrowException, too
            raise
        except (pa.ArrowException, OSError) as error:
            raise DataError(
                f"{self.place.name} cannot be read: {one_line(error)}. {self.place.hint}"
            ) from error


class FragmentSource(Source):
    """A table whose fragments are known once it is opened."""

    def __init__(self, schema: pa.Schema, fragments: Sequence[Fragment]) -> None:
        super().__init__(schema, sum(fragment.n_rows for fragment in fragments))
        self._fragments = list(fragments)

    @classmethod
    def of_places(cls, schema: pa.Schema, places: Iterable[tuple[Place, int]]) -> FragmentSource:
        """Return the rows of places, each with its number of rows, one after the other."""
        fragments: list[Fragment] = []
        start = 0
        for place, n_rows in places:
            if n_rows:
                fragments.append(StoredFragment(place, schema, start, n_rows))
            start += n_rows
        return cls(schema, fragments)

    def fragments(self) -> list[Fragment]:
        """Return the addresses of all rows."""
        return list(self._fragments)


Change: TypeAlias = Callable[[pa.Array], pa.Array]


class MappedSource(Source):
    """The rows of a source with other columns, in the same fragments.

    schema: the columns; one that the source lacks is missing in every row.
    again: makes the same of another source.
    changes: picklable functions from a column's array to the one that is read.
    """

    def __init__(
        self,
        source: Source,
        schema: pa.Schema,
        again: Callable[[Source], Source],
        changes: Mapping[str, Change] | None = None,
    ) -> None:
        self._source, self._again, self._changes = source, again, dict(changes or {})
        self.named, self.in_memory = source.named, source.in_memory
        super().__init__(schema, source.n_rows)

    def as_text(self, columns: Collection[str]) -> Source:
        """Return the same of a table with some columns as text."""
        return self._again(self._source.as_text(columns))

    def hash_text(self) -> Source:
        """Return the same of a table with its text as dictionaries."""
        return self._again(self._source.hash_text())

    def fragments(self) -> list[Fragment]:
        """Return the fragments of the source, each read so."""
        there = set(self._source.names)
        absent = frozenset(name for name in self.names if name not in there)
        if not absent and not self._changes:
            return self._source.fragments()
        first = (*self._source.names, *self.names)[0]
        found = self._source.fragments()
        return [MappedFragment(one, absent, first, self._changes) for one in found]


@dataclass(frozen=True, eq=False)
class MappedFragment(Fragment):
    """A fragment with other columns."""

    fragment: Fragment
    absent: frozenset[str]
    first: str  # a column that is there: it tells the number of rows
    changes: Mapping[str, Change]

    @property
    def start(self) -> int:  # type: ignore[override]
        """Index of the first row in the source."""
        return self.fragment.start

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        """Number of rows."""
        return self.fragment.n_rows

    def matrix(self, columns: Sequence[str]) -> NDArray[Any] | None:
        """Return a numeric matrix where all of its columns are as the source has them."""
        if any(name in self.absent or name in self.changes for name in columns):
            return None
        return self.fragment.matrix(columns)

    def batches(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Batches:
        """Iterate over the rows."""
        there = [name for name in columns if name not in self.absent] or [self.first]
        for batch in self.fragment.batches(there, batch_rows):
            given = dict(zip(there, batch.columns, strict=True))
            arrays = [
                self.changes[name](given[name])
                if name in self.changes
                else pa.nulls(batch.num_rows)
                if name in self.absent
                else given[name]
                for name in columns
            ]
            yield pa.RecordBatch.from_arrays(arrays, list(columns))


def select_columns(source: Source, columns: Sequence[str]) -> Source:
    """Return some columns of a source, in this order."""
    schema = pa.schema([source.schema.field(name) for name in columns])
    return MappedSource(source, schema, partial(select_columns, columns=tuple(columns)))


def complete_columns(source: Source, absent: Sequence[str]) -> Source:
    """Return a source with columns that it lacks: every row's value is missing."""
    schema = pa.schema([*source.schema, *(pa.field(name, pa.null()) for name in absent)])
    return MappedSource(source, schema, partial(complete_columns, absent=tuple(absent)))


class TableSource(Source):
    """An Arrow table in memory."""

    in_memory = True

    def __init__(self, table: pa.Table, *, named: bool = True) -> None:
        self.named = named
        super().__init__(table.schema, table.num_rows)
        self._table = plain_table(table)
        self.schema = self._table.schema

    def fragments(self) -> list[Fragment]:
        """Return slices of the table, without a copy."""
        return [
            TableFragment(self._table.slice(start, BATCH_ROWS), start)
            for start in range(0, self.n_rows, BATCH_ROWS)
        ]

    def column(self, name: str) -> pa.Array:
        """Return a whole column."""
        return join_chunks(self._table.column(name))

    def select(self, columns: Sequence[str]) -> Source:
        """Return some of the columns."""
        return TableSource(self._table.select(list(columns)), named=self.named)

    def hash_text(self) -> Source:
        """Return the table with its text as dictionaries."""
        kinds = (pa.string(), pa.large_string())
        columns = [
            column.dictionary_encode() if column.type in kinds else column
            for column in self._table.columns
        ]
        return TableSource(pa.table(columns, names=list(self.names)), named=self.named)


@dataclass(frozen=True, eq=False)
class TableFragment(Fragment):
    """Some rows of an Arrow table."""

    table: pa.Table
    start: int

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        """Number of rows."""
        return int(self.table.num_rows)

    def batches(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Batches:
        """Iterate over slices, without a copy."""
        table = self.table.select(list(columns))
        if any(column.num_chunks > 1 for column in table.columns):
            table = pa.table([join_chunks(column) for column in table.columns], list(columns))
        yield from table.to_batches(max_chunksize=batch_rows)


class BareSource(Source):
    """Rows of which nothing is known: no columns, only their number."""

    in_memory = True

    def __init__(self, n_rows: int) -> None:
        self.schema, self.names, self.n_rows = pa.schema([]), (), n_rows

    def fragments(self) -> list[Fragment]:
        """Return parts of the rows."""
        return [
            BareFragment(start, min(BATCH_ROWS, self.n_rows - start))
            for start in range(0, self.n_rows, BATCH_ROWS)
        ]


@dataclass(frozen=True, eq=False)
class BareFragment(Fragment):
    """Some rows of which nothing is known."""

    start: int
    n_rows: int

    def batches(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Batches:
        """Iterate over rows without a value."""
        for start in range(0, self.n_rows, batch_rows):
            nulls = pa.nulls(min(batch_rows, self.n_rows - start))
            yield pa.RecordBatch.from_arrays([nulls] * len(columns), list(columns))


class ArraySource(Source):
    """A numeric or boolean NumPy matrix; columns are named x0, x1, ..."""

    in_memory = True
    named = False

    def __init__(self, array: NDArray[Any], names: Sequence[str] | None = None) -> None:
        kind = pa.from_numpy_dtype(admit_array(array[:0]).dtype)
        if names is None:
            names = [f"x{i}" for i in range(array.shape[1])]
        super().__init__(pa.schema([(name, kind) for name in names]), array.shape[0])
        self._array = array

    def fragments(self) -> list[Fragment]:
        """Return blocks of rows, without a copy."""
        return [
            ArrayFragment(self._array[start : start + BATCH_ROWS], self.names, start)
            for start in range(0, self.n_rows, BATCH_ROWS)
        ]


@dataclass(frozen=True, eq=False)
class ArrayFragment(Fragment):
    """Some rows of a NumPy matrix."""

    array: NDArray[Any]
    names: tuple[str, ...]
    start: int

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        """Number of rows."""
        return int(self.array.shape[0])

    def matrix(self, columns: Sequence[str]) -> NDArray[Any]:
        """Return the columns as a matrix; a copy only where needed."""
        if tuple(columns) == self.names:
            return admit_array(self.array)
        return admit_array(self.array[:, [self.names.index(name) for name in columns]])

    def batches(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Batches:
        """Iterate over row blocks, each transposed once: so its columns are contiguous."""
        block = self.matrix(columns)
        for start in range(0, self.n_rows, batch_rows):
            by_column = np.ascontiguousarray(block[start : start + batch_rows].T)
            arrays = [pa.array(values, from_pandas=True) for values in by_column]
            yield pa.RecordBatch.from_arrays(arrays, list(columns))


def check_names(names: Sequence[str]) -> None:
    """Refuse duplicated column names, for a column is known by its name, and broken text."""
    for name in names:
        check_text(name, "The name of a column")
    if len(set(names)) == len(names):
        return
    seen: set[str] = set()
    twice = sorted({name for name in names if name in seen or seen.add(name)})  # type: ignore[func-returns-value]
    raise DataError(
        f"Duplicated column name(s): {listed(twice)}. "
        "Every column needs its own name. Rename or drop the others."
    )
