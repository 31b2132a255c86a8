"""The codebook: frozen domains of all columns and of the target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.codes.columns import (
    CategoricalColumn,
    Column,
    Frozen,
    LookupTables,
    NumericColumn,
    as_kernel_matrix,
    column_from_dict,
    infinite_error,
)
from tanager.codes.read_sources import CompletedSource, ReadSource
from tanager.codes.reading import Reading
from tanager.codes.rows import Codes, Domain, code_dtype
from tanager.codes.targets import as_labels, class_array, code_labels
from tanager.errors import DataError, listed
from tanager.sources import Fragment, Source, open_source

__all__ = ["Codebook"]

# Up to this many rows are coded cell by cell in Python: it costs less than
# setting out for Arrow and compiled loops.
_FEW_ROWS = 4

# Python types whose values are looked up as they are, by the column's family.
# Python's 3, 3.0 and True hash alike, which is the conversion between numbers.
# A float in a column of text is NaN, or not to be looked up.
_NUMBERS = frozenset((int, float, bool, type(None)))
_CELL_TYPES = {
    "integer": _NUMBERS,
    "real": _NUMBERS,
    "boolean": _NUMBERS,
    "text": frozenset((str, type(None))),
    "null": frozenset((type(None),)),
}
_ANY = frozenset((str, *_NUMBERS))  # of a column that is left out
_INSTANTS = (np.datetime64, np.timedelta64)
_NO_FLOAT = 2**1024 - 2**970  # whole numbers from here on are past the range of floats


@dataclass(frozen=True, eq=False)
class Codebook(Frozen):
    """From a table's columns to small integers, and back to names.

    Made by `learn_codebook`; immutable and safe to share between threads.

    Attributes
    ----------
    columns : tuple of CategoricalColumn or NumericColumn
        One a feature, in the order of the training table.
    target : CategoricalColumn
        The classes' codes.
    classes : ndarray, shape (n_classes,)
        The labels, sorted, in the dtype of the training labels.
    missing : {'value', 'marginalize'}
        The policy the codes were learned under.
    named : bool
        Whether the training table had column names of its own.
    readings : mapping of str to Reading
        The features whose values are not read as they are written, see `audit_columns`.

    Examples
    --------
    >>> from tanager.codes import learn_codebook
    >>> from tanager.engines import FitContext
    >>> codebook, rows = learn_codebook(
    ...     [["a", 1.5], ["b", None], ["a", 2.5]], ["no", "yes", "no"], context=FitContext())
    >>> codebook.domain.arities.tolist(), codebook.columns[1].labels()
    ([2, 2], ['any value', 'missing'])
    >>> codebook.encode([["b", 7.0], ["never seen", None]]).tolist()
    [[1, 2], [0, 1]]
    """

    columns: tuple[Column, ...]
    target: CategoricalColumn
    classes: NDArray[Any]
    missing: str = "value"
    named: bool = True
    readings: Mapping[str, Reading] = field(default_factory=dict)
    domain: Domain = field(init=False)

    def __post_init__(self) -> None:
        arities = np.array([column.arity for column in self.columns], dtype=np.int64)
        names = tuple(column.name for column in self.columns)
        ordered = tuple(column.n_ordered for column in self.columns)
        object.__setattr__(self, "domain", Domain(names, arities, len(self.classes), ordered))

    @cached_property
    def dtype(self) -> np.dtype[np.uint8] | np.dtype[np.uint16]:
        """The codes' dtype."""
        return code_dtype(self.domain.arities)

    @cached_property
    def _tables(self) -> LookupTables:
        return LookupTables(self.columns)

    @cached_property
    def takes_matrix(self) -> bool:
        """Whether a numeric matrix can be coded at once: no column holds text or dates."""
        temporal = any(isinstance(c, NumericColumn) and c.temporal for c in self.columns)
        return self._tables.fits and not temporal and not self.readings

    def encode(self, X: Any) -> Codes:
        """Return the codes of a table, shape (n_features, n_rows).

        Columns are matched by name, in any order; those of a table without
        names (NumPy arrays, lists of rows) by position. Values never seen are
        unknown, and so is "missing" where the training rows had none.

        Parameters
        ----------
        X : Source or anything `tanager.sources.open_source` takes
        """
        few = self.encode_few(X)
        if few is not None:
            return few
        source, names = self.open(X)
        parts = [codes for f in source.fragments() for codes in self.encode_fragment(f, names)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def open(self, X: Any) -> tuple[Source, list[str]]:
        """Open a table, and return it with the columns that are the features, in their order."""
        source = self.complete(open_source(X))
        names = self.match(source.names, named=source.named)
        return self.read_as_trained(source, names), names

    def complete(self, source: Source) -> Source:
        """Return the table with the columns that it may lack, each missing in every row.

        Those are the columns that the model leaves out, and under
        ``missing="marginalize"`` any: what is not there is summed out.
        """
        if not (source.named and self.named):
            return source
        absent = [name for name in self.domain.names if name not in source.names]
        if not absent or len(absent) == len(self.columns):
            return source
        return CompletedSource(source, absent) if all(map(self.may_lack, absent)) else source

    def may_lack(self, name: str) -> bool:
        """Return whether a table to be coded may do without a feature."""
        return self.missing == "marginalize" or self.leaves_out(name)

    def leaves_out(self, name: str) -> bool:
        """Return whether the values of a feature are not read at all."""
        return name in self.readings and self.readings[name].kind == "nothing"

    def encode_fragment(self, fragment: Fragment, names: Sequence[str]) -> Iterator[Codes]:
        """Iterate over the codes of a fragment, (n_features, n_rows), a bounded part at a time.

        `names` are the columns that are the features, see `open`.
        """
        matrix = fragment.matrix(names) if self.takes_matrix else None
        if matrix is not None:
            yield self.encode_chunk((), matrix)
            return
        for batch in fragment.batches(names):
            if batch.num_rows:
                yield self.encode_chunk(batch.columns, None)

    def text_as_trained(
        self, source: Source, names: Sequence[str], target: str | None = None
    ) -> Source:
        """Return the source with columns of text as text.

        `names` are the features' columns, `target` is the one of the classes,
        if it is there. A CSV file's types are guessed from its rows: where a
        column of codes like '01' held other text in training, its rows alone
        may look like numbers.
        """
        pairs = zip(names, self.columns, strict=True)
        texts = [name for name, c in pairs if c.family == "text" or c.name in self.readings]
        if target is not None and self.target.family == "text":
            texts.append(target)
        return source.as_text(texts)

    def readings_of(self, names: Sequence[str]) -> dict[str, Reading]:
        """Return how some of the features' columns are read; `names` are all of them."""
        pairs = zip(names, self.columns, strict=True)
        return {name: self.readings[c.name] for name, c in pairs if c.name in self.readings}

    def read_as_trained(
        self, source: Source, names: Sequence[str], target: str | None = None
    ) -> Source:
        """Return the source with the columns of features and classes read as in training."""
        source, readings = self.text_as_trained(source, names, target), self.readings_of(names)
        return ReadSource(source, readings) if readings else source

    def encode_chunk(self, columns: Sequence[pa.Array], matrix: NDArray[Any] | None) -> Codes:
        """Return the codes of some rows, given as one array a feature or as a numeric matrix."""
        if matrix is not None:
            if self.takes_matrix:
                out = np.empty((len(self.columns), matrix.shape[0]), dtype=self.dtype)
                self._tables.encode(as_kernel_matrix(matrix), out)
                return out
            by_column = np.ascontiguousarray(matrix.T)
            columns = [pa.array(values, from_pandas=True) for values in by_column]
        n_rows = len(columns[0])
        out = np.empty((len(self.columns), n_rows), dtype=self.dtype)
        for column, array, codes in zip(self.columns, columns, out, strict=True):
            if n_rows <= _FEW_ROWS and _cells_fit(column, array.type):
                codes[:] = [column.code_cell(value) for value in array.to_pylist()]
            else:
                column.encode(array, codes)
        return out

    def encode_few(self, X: Any) -> Codes | None:
        """Code a few rows cell by cell; None where they are many or need a conversion."""
        coders = self._cell_coders
        if coders is None:
            return None
        rows, order = self._few_rows(X)
        if rows is None:
            return None
        found = []
        for row in rows:
            if len(row) != len(coders):
                return None  # opened as a table, they get the error that fits
            cells = row if order is None else [row[place] for place in order]
            codes: list[int] = []
            for (code, allowed), given in zip(coders, cells, strict=True):
                cell = given.item() if isinstance(given, np.generic) else given
                if type(cell) not in allowed:
                    return None
                if type(cell) is int:
                    if isinstance(given, _INSTANTS):
                        return None  # nanoseconds, which Python has as whole numbers
                    if not -_NO_FLOAT < cell < _NO_FLOAT:
                        raise infinite_error(self.columns[len(codes)].name)
                codes.append(code(cell))
            found.append(codes)
        out = np.empty((len(self.columns), len(found)), dtype=self.dtype)
        out[:] = np.array(found).T
        return out

    @cached_property
    def null_codes(self) -> NDArray[np.int64]:
        """Each column's code of a missing value, shape (n_features,)."""
        return np.array([column.null_code for column in self.columns], dtype=np.int64)

    @cached_property
    def _cell_coders(self) -> list[tuple[Callable[[Any], int], frozenset[Any]]] | None:
        """What codes one cell of each column, and of which types; None where one needs more."""
        temporal = any(isinstance(c, NumericColumn) and c.temporal for c in self.columns)
        if temporal or not all(map(self.leaves_out, self.readings)):
            return None
        return [
            (_left_out, _ANY)
            if self.leaves_out(column.name)
            else (column.code_cell, _CELL_TYPES[column.family])
            for column in self.columns
        ]

    def _few_rows(self, X: Any) -> tuple[Sequence[Any] | None, list[int] | None]:
        """Return few rows as Python values, and which place is each feature's."""
        if isinstance(X, np.ndarray):
            if X.ndim == 2 and 0 < X.shape[0] <= _FEW_ROWS and X.dtype.kind in "biufUO":
                return X.tolist(), None
        elif isinstance(X, list | tuple):
            if 0 < len(X) <= _FEW_ROWS and all(type(row) in (list, tuple) for row in X):
                return X, None
        elif (
            type(X).__module__.partition(".")[0] == "pandas"
            and hasattr(X, "columns")
            and 0 < len(X) <= _FEW_ROWS
        ):
            # Turning a frame of one row into Arrow takes a millisecond, most of
            # it for metadata nobody reads.
            names = X.columns.tolist()
            if self.named and tuple(names) == self.domain.names:
                return _frame_rows(X), None
            if self.named and all(isinstance(name, str) for name in names):
                if set(names) != set(self.domain.names):
                    return None, None  # opened as a table, it is completed or refused
                place = {name: at for at, name in enumerate(names)}
                return _frame_rows(X), [place[name] for name in self.domain.names]
        return None, None

    def encode_labels(
        self, y: Any, *, name: str | None = None, start: int = 0
    ) -> NDArray[np.uint16]:
        """Return the class codes of labels; a label never seen is an error.

        Where they are a part of a table's column, errors call it by `name`, and count
        rows from `start`, the table's row that is the first of them.
        """
        return code_labels(self.target, as_labels(y, name=name, start=start)[0])

    def match(
        self,
        names: Sequence[str],
        *,
        named: bool,
        kept: Sequence[str] = (),
        ignore_extra: bool = False,
        remedy: str = "Drop unseen columns.",
    ) -> list[str]:
        """Return which column of a table is each feature.

        Columns are matched by name, or by position where the table or the
        training table had no names of its own.

        Parameters
        ----------
        names : sequence of str
            The table's columns.
        named : bool
            Whether they are names of its own.
        kept : sequence of str
            Columns that are there for something else. By name they may be features too.
        ignore_extra : bool, default=False
            Whether columns that the model does not know are passed over, or refused.
        remedy : str
            What the error says of those.
        """
        if not (named and self.named):
            rest = [name for name in names if name not in kept]
            if len(rest) != len(self.columns):
                raise self._count_error(len(rest))
            return rest
        if tuple(names) != self.domain.names:
            # The rows of a fit may be passed as they are, with their classes.
            allowed = {*self.domain.names, *kept, self.target.name}
            extra = [] if ignore_extra else [name for name in names if name not in allowed]
            self._refuse_names(names, extra, remedy)
        return list(self.domain.names)

    def _refuse_names(self, names: Sequence[str], extra: Sequence[str], remedy: str) -> None:
        """Refuse a table that lacks features or has extra columns; name what is needed alone."""
        there = set(names)
        absent = [name for name in self.domain.names if name not in there]
        needed = [name for name in absent if not self.may_lack(name)] or absent
        parts, hints = [], []
        if needed:
            parts.append(f"lacks the column(s) {listed(needed)}")
            hints.append(f"Its columns: {listed(names)}. Rename or add columns.")
        if extra:
            parts.append(f"has column(s) unseen in fit: {listed(extra)}")
            hints.append(remedy)
        if parts:
            raise DataError(f"The table {' and '.join(parts)}. {' '.join(hints)}")

    def _count_error(self, n: int) -> DataError:
        return DataError(
            f"X has {n} features, but BayesNetClassifier is expecting {len(self.columns)} "
            "features as input. Pass the columns of the training table, in its order."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that survives JSON exactly: what a model file holds."""
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
        """Undo `to_dict`."""
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
        return isinstance(other, Codebook) and (
            self.columns == other.columns
            and self.target == other.target
            and self.classes.dtype == other.classes.dtype
            and self.missing == other.missing
            and self.named == other.named
            and self.readings == other.readings
        )

    def __hash__(self) -> int:
        return hash((self.columns, self.missing))


def _frame_rows(frame: Any) -> list[list[Any]]:
    """Return the rows of a small pandas DataFrame as lists of Python values."""
    column = getattr(frame, "_get_column_array", None)
    if column is None or len(frame) != 1:
        rows: list[list[Any]] = frame.to_numpy(dtype=object).tolist()
        return rows
    # One array of objects would cost pandas a conversion for every column of text.
    return [[column(at)[0] for at in range(frame.shape[1])]]


def _left_out(cell: object) -> int:  # noqa: ARG001
    """Return the code of a column whose values are not read: it has one."""
    return 0


def _cells_fit(column: Column, kind: pa.DataType) -> bool:
    """Return whether a column's Python values need no conversion on the way to codes."""
    if isinstance(column, NumericColumn):
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind)) and not column.temporal
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if column.family == "text":
        return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
    return column.family != "null" and bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    )
