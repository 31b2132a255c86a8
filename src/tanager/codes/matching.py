"""Match the columns of a table to the features of a codebook: the one way from tables to codes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.codes.reading import read_columns
from tanager.codes.rows import Codes
from tanager.errors import DataError, listed
from tanager.sources import Fragment, Source, open_source

if TYPE_CHECKING:
    from tanager.codes.codebook import Codebook


class CodedBatch(NamedTuple):
    """The codes of some rows, and the columns to keep."""

    codes: Codes  # (n_features, n_rows)
    kept: pa.RecordBatch | None  # the columns to keep, as in the table
    start: int  # index of the first row in the table

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.codes.shape[1])


@dataclass(frozen=True, eq=False)
class MatchedTable:
    """A table, and the mapping of its columns to the features of a codebook."""

    codebook: Codebook
    table: Source  # the table as passed
    source: Source  # the table with optional columns added, and text columns as in training
    features: tuple[str, ...]  # the column of each feature
    target: str | None = None  # the column of true classes
    # columns that are passed through unchanged, whether or not they are features
    kept: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        codebook: Codebook,
        X: Any,
        *,
        target: str | None = None,
        kept: Sequence[str] = (),
        ignore_extra: bool = False,
        remedy: str = "Drop unseen columns.",
    ) -> MatchedTable:
        """Match a table's columns by name, or by position if either table has no names.

        target: the column of true classes, if it is to be read; it may be present in any case.
        kept: columns with another purpose. If matched by name, they may also be features.
        ignore_extra: whether to ignore columns unknown to the model, or raise with a `remedy`.
        """
        table = open_source(X)
        source = _complete(codebook, table)
        others = {*kept, target}
        names = source.names
        if not (source.named and codebook.named):
            names = tuple(name for name in names if name not in others)
            if len(names) > len(codebook.columns):
                names = tuple(name for name in names if name != codebook.target.name)
            if len(names) != len(codebook.columns):
                raise DataError(
                    f"X has {len(names)} features, but BayesNetClassifier is expecting "
                    f"{len(codebook.columns)} features as input. Pass the columns of the training "
                    "table, in its order."
                )
        elif names != codebook.domain.names:
            allowed = {*codebook.domain.names, *others, codebook.target.name}
            extra = [] if ignore_extra else [name for name in names if name not in allowed]
            _refuse_names(codebook, names, extra, remedy)
            names = codebook.domain.names
        pairs = zip(names, codebook.columns, strict=True)
        # The types of a CSV file are inferred from its rows: if a column of codes like '01'
        # contained other texts in training, these rows alone may look like numbers.
        texts = [n for n, c in pairs if c.family == "text" or c.name in codebook.readings]
        if target is not None and codebook.target.family == "text":
            texts.append(target)
        return cls(codebook, table, source.as_text(texts), tuple(names), target, tuple(kept))

    @cached_property
    def columns(self) -> list[str]:
        """The columns that are read."""
        target = () if self.target is None else (self.target,)
        return list(dict.fromkeys([*self.features, *self.kept, *target]))

    @property
    def values(self) -> Source:
        """The table with numbers and dates stored as text parsed."""
        pairs = zip(self.features, self.codebook.columns, strict=True)
        known = self.codebook.readings
        readings = {name: known[c.name] for name, c in pairs if c.name in known}
        return read_columns(self.source, readings) if readings else self.source

    def code(self, fragment: Fragment) -> Iterator[CodedBatch]:
        """Iterate over the codes of a fragment of `source`, in batches of limited size."""
        others = [*self.kept, *([] if self.target is None else [self.target])]
        if self.codebook.takes_matrix and not others:
            matrix = fragment.matrix(self.features)
            if matrix is not None:
                yield CodedBatch(self.codebook.encode_chunk((), matrix), None, fragment.start)
                return
        start = fragment.start
        for batch in fragment.batches(self.columns):
            if batch.num_rows:
                arrays = [batch.column(name) for name in self.features]
                kept = batch.select(others) if others else None
                yield CodedBatch(self.codebook.encode_chunk(arrays, None), kept, start)
                start += batch.num_rows

    def batches(self) -> Iterator[CodedBatch]:
        """Iterate over the codes of all rows."""
        for fragment in self.source.fragments():
            yield from self.code(fragment)

    def encode(self) -> Codes:
        """Return the codes of all rows, (n_features, n_rows)."""
        parts = [batch.codes for batch in self.batches()]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def labels(self, batch: CodedBatch) -> NDArray[np.uint16]:
        """Return the class codes of some rows from the target column."""
        assert batch.kept is not None
        assert self.target is not None
        column = batch.kept.column(self.target)
        return self.codebook.encode_labels(column, name=self.target, start=batch.start)


def _complete(codebook: Codebook, source: Source) -> Source:
    """Return the table with absent optional columns added, missing in every row."""
    if not (source.named and codebook.named):
        return source
    absent = [name for name in codebook.domain.names if name not in source.names]
    if not absent or (source.names and len(absent) == len(codebook.columns)):
        return source
    return source.complete(absent) if all(map(codebook.may_lack, absent)) else source


def _refuse_names(
    codebook: Codebook, names: Sequence[str], extra: Sequence[str], remedy: str
) -> None:
    """Raise if a table lacks features or has extra columns; name only what has to change."""
    absent = [name for name in codebook.domain.names if name not in set(names)]
    needed = [name for name in absent if not codebook.may_lack(name)] or absent
    parts, hints = [], []
    if needed:
        parts.append(f"lacks the column(s) {listed(needed)}")
        columns = f"Its columns: {listed(names)}" if names else "It has none"
        without = "" if codebook.missing == "marginalize" else ", or fit with missing='marginalize'"
        hints.append(f"{columns}. Rename or add columns{without}.")
    if extra:
        parts.append(f"has column(s) unseen in fit: {listed(extra)}")
        hints.append(remedy)
    if parts:
        raise DataError(f"The table {' and '.join(parts)}. {' '.join(hints)}")
