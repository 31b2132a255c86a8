"""The codebook: frozen domains of all columns and of the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.codes.columns import (
    CategoricalColumn,
    Column,
    Frozen,
    LookupTables,
    NumericColumn,
    column_from_dict,
)
from tanager.codes.rows import BLOCK_ROWS, Codes, Domain, code_dtype
from tanager.codes.targets import as_labels, class_array, code_labels
from tanager.errors import DataError
from tanager.sources import Source, open_source
from tanager.sources.source import check_names

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    domain: Domain = field(init=False)

    def __post_init__(self) -> None:
        arities = np.array([column.arity for column in self.columns], dtype=np.int64)
        names = tuple(column.name for column in self.columns)
        object.__setattr__(self, "domain", Domain(names, arities, len(self.classes)))

    @cached_property
    def dtype(self) -> np.dtype[np.uint8] | np.dtype[np.uint16]:
        """The codes' dtype."""
        return code_dtype(self.domain.arities)

    @cached_property
    def _tables(self) -> LookupTables:
        return LookupTables(list(self.columns))

    @cached_property
    def takes_matrix(self) -> bool:
        """Whether `encode_dense` applies: no column holds text or dates."""
        temporal = any(isinstance(c, NumericColumn) and c.temporal for c in self.columns)
        return self._tables.fits and not temporal

    def encode(self, X: Any) -> Codes:
        """Return the codes of a table, shape (n_features, n_rows).

        Columns are matched by name, in any order; those of a table without
        names (NumPy arrays, lists of rows) by position. Values never seen are
        unknown, and so is "missing" where the training rows had none.

        Parameters
        ----------
        X : Source or anything `tanager.sources.open_source` takes
        """
        few = self._encode_few(X)
        if few is not None:
            return few
        source = open_source(X)
        order = self.match(source)
        if source.dense is not None and self.takes_matrix:
            dense = source.dense
            return self.encode_dense(dense if order is None else dense[:, order])
        names = None if order is None else [source.names[i] for i in order]
        source = self.read_as_trained(source, names or source.names)
        batches = [self._encode_arrays(b.columns) for b in source.batches(names) if b.num_rows]
        if not batches:
            raise DataError("The table has 0 sample(s). Pass at least one row.")
        return batches[0] if len(batches) == 1 else np.concatenate(batches, axis=1)

    def read_as_trained(self, source: Source, names: Sequence[str]) -> Source:
        """Return the source with columns of text read as text; `names` are the features' columns.

        A CSV file's types are guessed from its rows: where a column of codes
        like '01' held other text in training, its rows alone may look like numbers.
        """
        texts = zip(names, self.columns, strict=True)
        return source.as_text([name for name, column in texts if column.family == "text"])

    def encode_batch(self, batch: pa.RecordBatch) -> Codes:
        """Return the codes of a record batch, shape (n_features, n_rows)."""
        order = self._match_names(batch.schema.names)
        columns = batch.columns if order is None else [batch.column(i) for i in order]
        return self._encode_arrays(columns)

    def encode_dense(self, x: NDArray[Any]) -> Codes:
        """Return the codes of a numeric matrix, shape (n_rows, n_features), by position."""
        out = np.empty((len(self.columns), x.shape[0]), dtype=self.dtype)
        for start in range(0, x.shape[0], BLOCK_ROWS):
            block = as_kernel_matrix(x[start : start + BLOCK_ROWS])
            part = out[:, start : start + BLOCK_ROWS]
            if part.shape[1] == out.shape[1]:
                self._tables.encode(block, out)
            else:
                # A slice of columns is not contiguous; kernels know one layout.
                piece = np.empty(part.shape, dtype=out.dtype)
                self._tables.encode(block, piece)
                part[:] = piece
        return out

    def _encode_arrays(self, arrays: Sequence[pa.Array]) -> Codes:
        n_rows = len(arrays[0])
        out = np.empty((len(self.columns), n_rows), dtype=self.dtype)
        for column, array, codes in zip(self.columns, arrays, out, strict=True):
            if n_rows <= _FEW_ROWS and _cells_fit(column, array.type):
                codes[:] = [column.code_cell(value) for value in array.to_pylist()]
            else:
                column.encode(array, codes)
        return out

    def _encode_few(self, X: Any) -> Codes | None:
        """Code a few rows cell by cell; None where they are many or need a conversion."""
        rows, order = self._few_rows(X)
        if rows is None:
            return None
        if any(len(row) != len(self.columns) for row in rows):
            return None  # opened as a table, they get the error that fits
        out = np.empty((len(self.columns), len(rows)), dtype=self.dtype)
        for j, (column, codes) in enumerate(zip(self.columns, out, strict=True)):
            allowed = _CELL_TYPES[column.family]
            if isinstance(column, NumericColumn) and column.temporal:
                return None
            place = j if order is None else order[j]
            for r, row in enumerate(rows):
                if type(row[place]) not in allowed:
                    return None
                codes[r] = column.code_cell(row[place])
        return out

    def _few_rows(self, X: Any) -> tuple[Sequence[Any] | None, list[int] | None]:
        """Return few rows as Python values, and which place is each feature's."""
        if isinstance(X, np.ndarray):
            if X.ndim == 2 and 0 < X.shape[0] <= _FEW_ROWS and X.dtype.kind in "biufUO":
                return X.tolist(), None
        elif isinstance(X, list | tuple):
            if 0 < len(X) <= _FEW_ROWS and all(type(row) in (list, tuple) for row in X):
                return X, None
        elif type(X).__module__.partition(".")[0] == "pandas" and 0 < len(X) <= _FEW_ROWS:
            # Turning a frame of one row into Arrow takes a millisecond, most of
            # it for metadata nobody reads.
            names = list(X.columns)
            if self.named and all(isinstance(name, str) for name in names):
                check_names(names)
                return X.to_numpy(dtype=object).tolist(), self._match_names(names)
        return None, None

    def encode_labels(self, y: Any) -> NDArray[np.uint16]:
        """Return the class codes of labels; a label never seen is an error."""
        return code_labels(self.target, as_labels(y)[0])

    def match(self, source: Source) -> list[int] | None:
        """Return which column of the source is each feature; None: already in order."""
        if source.named and self.named:
            return self._match_names(source.names)
        if len(source.names) != len(self.columns):
            raise self._count_error(len(source.names))
        return None

    def _match_names(self, names: Sequence[str]) -> list[int] | None:
        wanted = self.domain.names
        if tuple(names) == wanted:
            return None
        absent = [name for name in wanted if name not in names]
        extra = [name for name in names if name not in wanted]
        if absent or extra:
            parts = []
            if absent:
                parts.append(f"lacks the column(s) {', '.join(map(repr, absent))}")
            if extra:
                parts.append(f"has column(s) unseen in fit: {', '.join(map(repr, extra))}")
            raise DataError(
                f"The table {' and '.join(parts)}. It needs the {len(wanted)} columns of the "
                "training table, in any order. Add, rename or drop columns."
            )
        place = {name: i for i, name in enumerate(names)}
        return [place[name] for name in wanted]

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
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Codebook) and (
            self.columns == other.columns
            and self.target == other.target
            and self.classes.dtype == other.classes.dtype
            and self.missing == other.missing
            and self.named == other.named
        )

    def __hash__(self) -> int:
        return hash((self.columns, self.missing))


def as_kernel_matrix(x: NDArray[Any]) -> NDArray[Any]:
    """Return a C-ordered int64 or float64 matrix with the same numbers."""
    wide = x.dtype == np.uint64 and x.size and int(x.max()) > np.iinfo(np.int64).max
    kind = np.float64 if x.dtype.kind == "f" or wide else np.int64
    return np.ascontiguousarray(x, dtype=kind)


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
