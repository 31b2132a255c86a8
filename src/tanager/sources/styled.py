"""What a user says about the texts of a table, where the reader of the file cannot see to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tanager.errors import ConfigurationError, DataError, listed
from tanager.sources.plain import is_text, plain_numbers
from tanager.sources.source import BATCH_ROWS, Batches, Fragment, MappedSource, Source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tanager.sources.text import TextStyle


def apply_style(source: Source, style: TextStyle | None) -> Source:
    """Make texts missing in a table that is no CSV file; refuse an encoding or a decimal mark."""
    if style is None:
        return source
    for name, given, usual in (
        ("encoding", style.encoding, "utf-8"),
        ("decimal", style.decimal, "."),
        ("header", style.header, None),
    ):
        if given != usual:
            raise ConfigurationError(
                f"{name}={given!r} applies only to CSV files, and this table isn't one. Leave "
                "it out."
            )
    return without_texts(source, style.na_values) if style.na_values else source


def without_texts(source: Source, texts: Sequence[str]) -> Source:
    """Return a source in which some texts are missing values."""
    change = partial(_without, texts=tuple(texts))
    found = [field.name for field in source.schema if is_text(field.type)]
    again = partial(without_texts, texts=tuple(texts))
    return MappedSource(source, source.schema, again, dict.fromkeys(found, change))


class KnownRows(MappedSource):
    """The rows of a source in which some columns are known."""

    def __init__(self, source: Source, columns: Sequence[str], n_known: Sequence[int]) -> None:
        again = partial(KnownRows, columns=tuple(columns), n_known=tuple(n_known))
        super().__init__(source, source.schema, again)
        self._columns, self._n_known = tuple(columns), tuple(n_known)
        self.n_rows = sum(n_known)

    @classmethod
    def of(cls, source: Source, columns: Sequence[str]) -> Source:
        """Count the rows; the source itself where all are known."""
        n_known = [
            sum(int(_known(batch).sum()) for batch in fragment.batches(columns))
            for fragment in source.fragments()
        ]
        if not any(n_known):
            raise DataError(f"No row has a value of {listed(columns)}. Name another column.")
        return source if sum(n_known) == source.n_rows else cls(source, columns, n_known)

    def fragments(self) -> list[Fragment]:
        """Return the fragments of the source that have such rows."""
        found: list[Fragment] = []
        start = 0
        for fragment, n_rows in zip(self._source.fragments(), self._n_known, strict=True):
            if n_rows:
                found.append(_KnownFragment(fragment, self._columns, start, n_rows))
            start += n_rows
        return found


@dataclass(frozen=True, eq=False)
class _KnownFragment(Fragment):
    """The rows of a fragment in which some columns are known."""

    fragment: Fragment
    needed: tuple[str, ...]
    start: int
    n_rows: int

    def batches(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Batches:
        """Iterate over the rows."""
        read = list(dict.fromkeys([*columns, *self.needed]))
        for batch in self.fragment.batches(read, batch_rows):
            known = _known(batch.select(list(self.needed)))
            yield batch.select(list(columns)).filter(pa.array(known))


def _known(batch: pa.RecordBatch) -> NDArray[np.bool_]:
    """Return the rows that have no null and no NaN."""
    gaps = [plain_numbers(array.is_null(nan_is_null=True)) for array in batch.columns]
    return ~np.logical_or.reduce(gaps)


def _without(array: pa.Array, texts: Sequence[str]) -> pa.Array:
    """Return a column of text with some texts made null."""
    import pyarrow.compute as pc

    if pa.types.is_dictionary(array.type):
        values = array.dictionary
        gone = plain_numbers(pc.is_in(values, pa.array(texts, values.type)))
        if not gone.any():
            return array
        # The dictionary is made anew: a value that no row has is no value of the column.
        places = pa.array(np.cumsum(~gone) - 1, pa.int32(), mask=gone)
        return pa.DictionaryArray.from_arrays(
            places.take(array.indices), values.filter(pa.array(~gone))
        )
    gone = pc.is_in(array, pa.array(texts, array.type))
    return pc.if_else(gone, pa.scalar(None, array.type), array)
