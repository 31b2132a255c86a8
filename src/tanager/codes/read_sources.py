"""Tables as a codebook reads them: columns in their own way, and those that are absent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tanager.codes.reading import Reading, is_text
from tanager.sources import Fragment, Source
from tanager.sources.source import BATCH_ROWS, FragmentView, SourceView

__all__ = ["CompletedSource", "ReadSource"]


class CompletedSource(SourceView):
    """A source with columns that it lacks: every row's value is missing."""

    def __init__(self, source: Source, absent: Sequence[str]) -> None:
        fields = [*source.schema, *(pa.field(name, pa.null()) for name in absent)]
        super().__init__(source, pa.schema(fields))
        self._absent = tuple(absent)

    def again(self, source: Source) -> Source:
        """Return another source, completed alike."""
        return CompletedSource(source, self._absent)

    def fragments(self) -> list[Fragment]:
        """Return the fragments of the source, completed."""
        first = (*self._source.names, *self._absent)[0]
        return [_CompletedFragment(f, self._absent, first) for f in self._source.fragments()]


@dataclass(frozen=True, eq=False)
class _CompletedFragment(FragmentView):
    """A fragment with columns of nulls."""

    absent: tuple[str, ...]
    first: str  # a column that is there: it tells the number of rows

    def matrix(self, columns: Sequence[str]) -> Any:
        """Return a numeric matrix where none of its columns is absent."""
        if any(name in self.absent for name in columns):
            return None
        return self.fragment.matrix(columns)

    def batches(
        self, columns: Sequence[str], batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows."""
        there = [name for name in columns if name not in self.absent] or [self.first]
        for batch in self.fragment.batches(there, batch_rows):
            arrays = [
                pa.nulls(batch.num_rows) if name in self.absent else batch.column(name)
                for name in columns
            ]
            yield pa.RecordBatch.from_arrays(arrays, list(columns))


class ReadSource(SourceView):
    """A source, some columns of which are read in their own way."""

    def __init__(self, source: Source, readings: Mapping[str, Reading]) -> None:
        self._readings = dict(readings)
        fields = [(field.name, self._type(field.name, field.type)) for field in source.schema]
        super().__init__(source, pa.schema(fields))

    def again(self, source: Source) -> Source:
        """Return another source whose columns are read alike."""
        return ReadSource(source, self._readings)

    def _type(self, name: str, kind: pa.DataType) -> pa.DataType:
        reading = self._readings.get(name)
        if reading is None or (reading.kind != "nothing" and not is_text(kind)):
            return kind
        return reading.type

    def fragments(self) -> list[Fragment]:
        """Return the fragments of the source, each read so."""
        return [_ReadFragment(one, self._readings) for one in self._source.fragments()]


@dataclass(frozen=True, eq=False)
class _ReadFragment(FragmentView):
    """A fragment whose columns are read in their own way, where it is read."""

    readings: Mapping[str, Reading]

    def matrix(self, columns: Sequence[str]) -> Any:
        """Return a numeric matrix where no column of it is read in another way."""
        if any(name in self.readings for name in columns):
            return None
        return self.fragment.matrix(columns)

    def batches(
        self, columns: Sequence[str], batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows."""
        for batch in self.fragment.batches(columns, batch_rows):
            arrays = [
                self.readings[name].read(array, name) if name in self.readings else array
                for name, array in zip(columns, batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, list(columns))
