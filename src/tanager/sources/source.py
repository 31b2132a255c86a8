"""Sources: what every table becomes, whatever it came from.

A source has named, typed columns and can be read from the start as often as
needed. Sources in memory also give whole columns, and a numeric NumPy array
stays reachable as it is (`dense`), because going through columns would cost
two transpositions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tanager.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BATCH_ROWS", "ArraySource", "DatasetSource", "Source", "TableSource"]

BATCH_ROWS = 65_536


class Source(ABC):
    """A restartable table: the base of all sources.

    Attributes
    ----------
    names : tuple of str
        Column names, in the table's order.
    schema : pyarrow.Schema
        The columns' types.
    n_rows : int or None
        Number of rows; None where only reading would tell.
    in_memory : bool
        Whether whole columns are at hand, without reading.
    named : bool
        Whether the names came with the data. Columns of an unnamed table are
        matched by position.
    dense : ndarray or None
        The numeric matrix behind the columns, shape (n_rows, n_columns).
    """

    in_memory = False
    named = True
    dense: NDArray[Any] | None = None

    def __init__(self, schema: pa.Schema, n_rows: int | None) -> None:
        check_names(schema.names)
        self.schema = schema
        self.names: tuple[str, ...] = tuple(schema.names)
        self.n_rows = n_rows
        if not self.names:
            raise DataError(
                f"Found array with 0 feature(s) (shape=({n_rows or 0}, 0)) while a minimum of 1 "
                "is required. Pass a table with at least one column."
            )
        if n_rows == 0:
            raise DataError(
                f"Found array with 0 sample(s) (shape=(0, {len(self.names)})) while a minimum of 1 "
                "is required. Pass a table with at least one row."
            )

    @abstractmethod
    def batches(
        self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows from the start, a bounded number at a time.

        Parameters
        ----------
        columns : sequence of str, optional
            The columns to read, in this order; the others are not touched.
        batch_rows : int
            The most rows in one batch.
        """

    def column(self, name: str) -> pa.Array:
        """Return a whole column; a streamed source reads it for this."""
        kind = self.schema.field(name).type
        chunks = [batch.column(0) for batch in self.batches([name])]
        return TableSource(pa.table({name: pa.chunked_array(chunks, kind)})).column(name)

    def select(self, columns: Sequence[str]) -> Source:
        """Return some of the columns, in this order."""
        return _Selected(self, columns)

    def as_text(self, columns: Collection[str]) -> Source:  # noqa: ARG002
        """Return the table with some columns as the text they were written in.

        Only CSV files are written so, and a column's type is then a guess from
        the rows at hand; every other table has types of its own and stays as
        it is.
        """
        return self

    def filter(self, kept: NDArray[np.bool_]) -> Source:  # noqa: ARG002
        """Return some of the rows; only where `in_memory`."""
        raise DataError(f"{self!r} is streamed: rows are taken out of tables in memory only.")

    def __repr__(self) -> str:
        rows = "?" if self.n_rows is None else f"{self.n_rows:,}"
        return f"{type(self).__name__}({rows} rows, {len(self.names)} columns)"


class _Selected(Source):
    """Some columns of a streamed source."""

    def __init__(self, source: Source, columns: Sequence[str]) -> None:
        self._source = source
        self.named = source.named
        super().__init__(pa.schema([source.schema.field(name) for name in columns]), source.n_rows)

    def batches(
        self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the selected columns."""
        return self._source.batches(self.names if columns is None else columns, batch_rows)

    def as_text(self, columns: Collection[str]) -> Source:
        """Return the selected columns, some of them as text."""
        return _Selected(self._source.as_text(columns), self.names)


class TableSource(Source):
    """An Arrow table in memory."""

    in_memory = True

    def __init__(self, table: pa.Table, *, named: bool = True) -> None:
        self.named = named
        super().__init__(table.schema, table.num_rows)
        self._table = plain_table(table)
        self.schema = self._table.schema

    def batches(
        self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over slices of the table, without a copy."""
        table = self._table if columns is None else self._table.select(list(columns))
        # A table whose chunks differ in their dictionaries cannot be sliced
        # across them, which `to_batches` respects.
        yield from table.to_batches(max_chunksize=batch_rows)

    def select(self, columns: Sequence[str]) -> Source:
        """Return some of the columns."""
        return TableSource(self._table.select(list(columns)), named=self.named)

    def filter(self, kept: NDArray[np.bool_]) -> Source:
        """Return some of the rows, copied."""
        return TableSource(self._table.filter(pa.array(kept)), named=self.named)

    def column(self, name: str) -> pa.Array:
        """Return a whole column."""
        chunked = self._table.column(name)
        if chunked.num_chunks == 1:
            return chunked.chunk(0)
        if pa.types.is_dictionary(chunked.type):
            chunked = chunked.unify_dictionaries()
        combined = chunked.combine_chunks()
        # Newer Arrow releases return an array, older ones a chunked array.
        return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


class ArraySource(Source):
    """A numeric or boolean NumPy matrix; columns are named x0, x1, ...

    Record batches are row blocks transposed once, so that each column lies
    contiguous in memory and Arrow uses it without a second copy.
    """

    in_memory = True
    named = False

    def __init__(self, array: NDArray[Any], names: Sequence[str] | None = None) -> None:
        if array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8):
            array = array.astype(np.float64)
        kind = pa.from_numpy_dtype(array.dtype.newbyteorder("="))
        if names is None:
            names = [f"x{i}" for i in range(array.shape[1])]
        super().__init__(pa.schema([(name, kind) for name in names]), array.shape[0])
        self.dense = array

    def batches(
        self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over transposed row blocks."""
        assert self.dense is not None
        assert self.n_rows is not None
        names = list(self.names if columns is None else columns)
        picks = [self.names.index(name) for name in names]
        for start in range(0, self.n_rows, batch_rows):
            block = self.dense[start : start + batch_rows]
            if columns is not None:
                block = block[:, picks]
            by_column = np.ascontiguousarray(block.T)
            yield pa.RecordBatch.from_arrays([_to_arrow(values) for values in by_column], names)

    def select(self, columns: Sequence[str]) -> Source:
        """Return some of the columns, copied."""
        assert self.dense is not None
        return ArraySource(self.dense[:, [self.names.index(name) for name in columns]], columns)

    def filter(self, kept: NDArray[np.bool_]) -> Source:
        """Return some of the rows, copied."""
        assert self.dense is not None
        return ArraySource(self.dense[kept], self.names)

    def column(self, name: str) -> pa.Array:
        """Return a whole column, copied."""
        assert self.dense is not None
        return _to_arrow(np.ascontiguousarray(self.dense[:, self.names.index(name)]))


class DatasetSource(Source):
    """A pyarrow dataset: many files, partitions and filters, read as it says."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        super().__init__(plain_schema(dataset.schema), int(dataset.count_rows()))

    def batches(
        self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the scanner's batches, with little read ahead."""
        names = list(self.names if columns is None else columns)
        scanner = self._dataset.scanner(
            columns=names, batch_size=batch_rows, batch_readahead=1, fragment_readahead=1
        )
        schema = pa.schema([self.schema.field(name) for name in names])
        try:
            for batch in scanner.to_batches():
                if batch.num_rows:
                    yield cast_batch(batch, schema)
        except (pa.ArrowException, OSError) as error:
            text = " ".join(str(error).split()).rstrip(".")
            raise DataError(
                f"The dataset cannot be read: {text}. One of its files may be damaged, or of other "
                "types than its schema; write it again."
            ) from error


def check_names(names: Sequence[str]) -> None:
    """Refuse duplicated column names: a column is known by its name."""
    if len(set(names)) == len(names):
        return
    seen: set[str] = set()
    twice = sorted({name for name in names if name in seen or seen.add(name)})  # type: ignore[func-returns-value]
    raise DataError(
        f"Duplicated column name(s): {', '.join(map(repr, twice))}. "
        "Every column needs its own name. Rename or drop the others."
    )


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which a column is read: no views, no wrappers."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return pa.dictionary(pa.int32(), plain_type(kind.value_type))
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
        if array.type != field.type:
            array = array.cast(field.type)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _to_arrow(values: NDArray[Any]) -> pa.Array:
    """Wrap a contiguous column; NaN becomes null."""
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    return pa.array(values, from_pandas=True)
