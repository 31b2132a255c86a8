"""The codebook: the frozen domains of all columns and the target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.codes.cells import CellCoder
from tanager.codes.columns import (
    CategoricalColumn,
    Column,
    Frozen,
    LookupTables,
    NumericColumn,
    as_kernel_matrix,
    column_from_dict,
)
from tanager.codes.reading import Reading, read_columns
from tanager.codes.rows import Codes, Domain, code_dtype
from tanager.codes.targets import as_labels, class_array, code_labels
from tanager.errors import DataError, listed, nearest
from tanager.numerics import Ints
from tanager.sources import Fragment, Source, open_source


@dataclass(frozen=True, eq=False)
class Codebook(Frozen):
    """Maps a table's columns to small integers, and back to names.

    Created by `learn_codebook`; immutable and safe to share between threads.

    >>> from tanager.codes import learn_codebook
    >>> from tanager.engines import FitContext
    >>> codebook, rows = learn_codebook(
    ...     [["a", 1.5], ["b", None], ["a", 2.5]], ["no", "yes", "no"], context=FitContext())
    >>> codebook.domain.arities.tolist(), codebook.columns[1].labels()
    ([2, 2], ['any value', 'missing'])
    >>> codebook.encode([["b", 7.0], ["never seen", None]]).tolist()
    [[1, 2], [0, 1]]
    """

    columns: tuple[Column, ...]  # one per feature, in the order of the training table
    target: CategoricalColumn  # the codes of the classes
    classes: NDArray[Any]  # (n_classes,), in the labels' dtype; sorted, or in the order specified
    missing: str = "value"  # {'value', 'marginalize'}; the policy the codes were learned under
    named: bool = True  # whether the training table had column names
    # features whose values are parsed or ignored instead of read as written, see `audit_columns`
    readings: Mapping[str, Reading] = field(default_factory=dict)
    domain: Domain = field(init=False)

    def __post_init__(self) -> None:
        arities = np.array([column.arity for column in self.columns], dtype=np.int64)
        names = tuple(column.name for column in self.columns)
        ordered = tuple(column.n_ordered for column in self.columns)
        object.__setattr__(self, "domain", Domain(names, arities, len(self.classes), ordered))

    @property
    def class_name(self) -> str:
        """The target column's name, or "class"; no feature has it."""
        name = self.target.name or "class"
        while name in self.domain.names:
            name += "_"
        return name

    @cached_property
    def dtype(self) -> np.dtype[np.uint8] | np.dtype[np.uint16]:
        """The dtype of the codes."""
        return code_dtype(self.domain.arities)

    @cached_property
    def _tables(self) -> LookupTables:
        return LookupTables(self.columns)

    @cached_property
    def takes_matrix(self) -> bool:
        """Whether a numeric matrix can be coded at once, that is, no column holds text or dates."""
        temporal = any(isinstance(c, NumericColumn) and c.temporal for c in self.columns)
        return self._tables.fits and not temporal and not self.readings

    def encode(self, X: Any) -> Codes:
        """Return the codes of a table, shape (n_features, n_rows).

        Columns are matched by name, or by position if the table has no names (arrays, lists of
        rows). Unseen values are unknown, and so is "missing" if it didn't occur in training.
        """
        few = self.few.encode(X)
        return MatchedTable.of(self, X).encode() if few is None else few

    @cached_property
    def few(self) -> CellCoder:
        """Codes a few rows, cell by cell, without opening a table."""
        return CellCoder(self)

    def may_lack(self, name: str) -> bool:
        """Return whether a table to be coded may omit a feature."""
        return self.missing == "marginalize" or self.leaves_out(name)

    def leaves_out(self, name: str) -> bool:
        """Return whether the values of a feature are ignored."""
        return name in self.readings and self.readings[name].kind == "nothing"

    def encode_columns(self, columns: Sequence[pa.Array]) -> Codes:
        """Return the codes of some rows, passed as one array per feature."""
        out = np.empty((len(self.columns), len(columns[0])), dtype=self.dtype)
        for column, array, codes in zip(self.columns, columns, out, strict=True):
            reading = self.readings.get(column.name)
            column.encode(array if reading is None else reading.read(array, column.name), codes)
        return out

    def encode_matrix(self, matrix: NDArray[Any]) -> Codes:
        """Return the codes of a numeric matrix, (n_rows, n_features), if `takes_matrix`."""
        out = np.empty((len(self.columns), matrix.shape[0]), dtype=self.dtype)
        self._tables.encode(as_kernel_matrix(matrix), out)
        return out

    @cached_property
    def null_codes(self) -> Ints:
        """The code of a missing value in each column, shape (n_features,)."""
        return np.array([column.null_code for column in self.columns], dtype=np.int64)

    def encode_labels(
        self, y: Any, *, name: str | None = None, start: int = 0
    ) -> NDArray[np.uint16]:
        """Return the class codes of labels; errors call them `name` and count from `start`."""
        return code_labels(self.target, as_labels(y, name=name, start=start)[0])

    def forget_numbers(self) -> Codebook:
        """Return the codebook without `NumericColumn.seen`, as loading a model file does."""
        columns = [
            replace(one, seen=None) if isinstance(one, NumericColumn) else one
            for one in self.columns
        ]
        return replace(self, columns=tuple(columns))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a model file; it survives a round trip through JSON exactly."""
        return {
            "columns": [column.to_dict() for column in self.columns],
            "target": self.target.to_dict(),
            "classes_dtype": self.classes.dtype.str,
            "missing": self.missing,
            "named": self.named,
            "readings": {name: [r.kind, r.style] for name, r in self.readings.items()},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Codebook:
        """Restore a codebook from `to_dict`."""
        target = column_from_dict(data["target"])
        assert isinstance(target, CategoricalColumn)
        return cls(
            tuple(column_from_dict(column) for column in data["columns"]),
            target,
            class_array(target, np.dtype(data["classes_dtype"])),
            str(data["missing"]),
            bool(data["named"]),
            {name: Reading(*reading) for name, reading in data.get("readings", {}).items()},
        )

    def __repr__(self) -> str:
        return f"Codebook({len(self.columns)} features, {len(self.classes)} classes)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Codebook) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.columns, self.missing))


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
    kept: tuple[str, ...] = ()  # columns passed through unchanged, whether or not features

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
        if target is not None and target not in table.names:
            raise DataError(
                f"The table has no column {target!r} of true classes. Give the name of the column "
                f"that holds them, one of {listed(table.names)}.{nearest(target, table.names)}",
                parameter="target",
            )
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
            _refuse(codebook, names, extra, remedy)
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
                yield CodedBatch(self.codebook.encode_matrix(matrix), None, fragment.start)
                return
        start = fragment.start
        for batch in fragment.batches(self.columns):
            if batch.num_rows:
                arrays = [batch.column(name) for name in self.features]
                kept = batch.select(others) if others else None
                yield CodedBatch(self.codebook.encode_columns(arrays), kept, start)
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
    by_name = source.named and codebook.named
    absent = [name for name in codebook.domain.names if by_name and name not in source.names]
    strange = source.names and len(absent) == len(codebook.columns)
    optional = all(map(codebook.may_lack, absent)) and not strange
    return source.complete(absent) if absent and optional else source


def _refuse(codebook: Codebook, names: Sequence[str], extra: Sequence[str], remedy: str) -> None:
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
