"""The only module that knows where tables come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tanager.errors import ColumnTypeError, DataError, explaining, invalid
from tanager.registry import load_plugin
from tanager.sources import datasets
from tanager.sources.files import open_files
from tanager.sources.gate import admit_column, complex_error, pandas_to_arrow
from tanager.sources.plain import EXACT, check_columns
from tanager.sources.remote import IN_ARROW
from tanager.sources.source import Source, blank_table, check_names
from tanager.sources.text import TextStyle, apply_style

_KINDS = (
    "a 2-D NumPy array, a list of rows or of dicts, a dict of columns, a pandas, polars or "
    "Dask DataFrame, a pyarrow Table or Dataset, a DuckDB relation, a Delta or Iceberg table, "
    "anything with __arrow_c_stream__, a path, URL, glob, folder or list of paths of Parquet, "
    "Arrow IPC or CSV files, or the URL of a database"
)


def open_source(X: Any, *, style: TextStyle | None = None) -> Source:
    """Open any table as a source, whose rows are read where they are needed.

    `style` defines how texts are interpreted. Streams and readers are read into memory; files,
    datasets, queries and DuckDB relations are never read as a whole. Neither pandas nor polars nor
    DuckDB is imported.

    >>> source = open_source([["sunny", 31.5], ["rainy", None]])
    >>> source.names, source.n_rows
    (('x0', 'x1'), 2)
    >>> next(source.batches()).column(1).to_pylist()
    [31.5, None]
    """
    X = _from_address(X)
    paths = [X] if isinstance(X, str | Path) else X if isinstance(X, list | tuple) else []
    if paths and all(isinstance(path, str | Path) for path in paths):
        return open_files(paths, style)
    return _open(X) if style is None else apply_style(_open(X), style)


def open_table(
    X: Any,
    *,
    na_values: str | Sequence[str] = (),
    encoding: str = "utf-8",
    decimal: str = ".",
    header: bool | None = None,
    drop: str | Sequence[str] = (),
    drop_missing: str | Sequence[str] = (),
) -> Source:
    """Open a table with options for how it's written; files aren't read yet.

    The result can be passed wherever a table is expected: `fit`, `predict`, `score`, `Dataset`, ...

    Parameters
    ----------
    X : table or path
        Anything that `BayesNetClassifier.fit` accepts.
    na_values : str or sequence of str
        Texts that mean "missing", in addition to the defaults (an empty cell, NA, NaN, null, ...).
    encoding : str
        The encoding of CSV files, such as "latin-1" or "cp1252".
    decimal : {".", ","}
        The decimal separator of CSV files.
    header : bool or None
        Whether the first line of a CSV file contains the column names. By default, it does unless
        all of it is numeric. Without names, columns are called x0, x1, ... and matched by position.
    drop : str or sequence of str
        Columns to omit.
    drop_missing : str or sequence of str
        Drop rows in which one of these columns, such as the target, is missing. Adds a read.

    Returns
    -------
    Source

    Examples
    --------
    >>> import tanager
    >>> table = tanager.open_table({"age": ["31", "?"], "id": [1, 2]}, na_values="?", drop="id")
    >>> table.names, table.column("age").to_pylist()
    (('age',), ['31', None])
    """
    missing = _listed(na_values, "na_values")
    source = open_source(X, style=TextStyle(missing, encoding, decimal, header))
    left_out, needed = _listed(drop, "drop"), _listed(drop_missing, "drop_missing")
    for option, names in (("drop", left_out), ("drop_missing", needed)):
        source.check_has(names, option)
    source = source.known_rows(needed) if needed else source
    kept = [name for name in source.names if name not in left_out]
    return source if len(kept) == len(source.names) else source.select(kept)


def _listed(given: Any, name: str) -> tuple[str, ...]:
    """Return one text or several as a tuple."""
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, Iterable):
        raise invalid(name, given, "a text, or a list of texts")
    return tuple(given)


def _from_address(X: Any) -> Any:
    """Open the table at a URL; return files, and anything that isn't a URL, unchanged."""
    given = X[0] if isinstance(X, list | tuple) and len(X) == 1 else X
    if isinstance(given, Path):
        given = str(given)
    if not isinstance(given, str):
        return X
    scheme, mark, _ = given.partition("://")
    if mark and scheme in datasets.DATABASES:
        return datasets.open_query(given)
    if mark and scheme.partition("+")[0] in ("delta", "iceberg"):
        return datasets.open_lake(given)
    read = load_plugin("tanager.sources", scheme) if mark and scheme not in IN_ARROW else None
    if read is not None:
        return read(given)
    return datasets.open_lake(given) if datasets.is_delta_folder(given) else X


def _open(X: Any) -> Source:
    """Open a table that isn't made of files."""
    if isinstance(X, Source):
        return X
    if isinstance(X, np.ndarray):
        if X.dtype.names is not None and X.ndim == 1:
            return _open_mapping({name: X[name] for name in X.dtype.names})
        return _open_array(X)
    # Not through pa.table(X): the C interface cuts a name at a NUL.
    if isinstance(X, pa.RecordBatch):
        X = pa.Table.from_batches([X])
    if isinstance(X, pa.RecordBatchReader):
        X = X.read_all()
    if isinstance(X, pa.Table):
        return _open_table(X)
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise ColumnTypeError(
            "Sparse data was passed, but dense data is required. Convert it first: X.toarray(). "
            "Categories need no encoding: pass their columns as they are."
        )
    if isinstance(X, Mapping):
        return _open_mapping(X)
    if isinstance(X, list | tuple):
        return _open_list(X)
    if datasets.is_dask_frame(X):
        return datasets.open_dask(X)
    if hasattr(X, "to_frame") and not hasattr(X, "columns"):
        raise DataError(
            f"Expected 2D array, got a single column instead: X is a {type(X).__name__}. "
            "If it is one row, pass X.to_frame().T; if it is one column, X.to_frame()."
        )
    library, name = type(X).__module__.partition(".")[0], type(X).__name__
    if (library, name) == ("pandas", "DataFrame"):
        check_names([str(column) for column in X.columns])
        return Source.of_table(pandas_to_arrow(X))
    if hasattr(X, "scanner") and hasattr(X, "count_rows"):
        return datasets.open_dataset(X)
    if name == "DuckDBPyRelation":
        return datasets.open_relation(X)
    # Recognised by name, so that nothing has to be imported.
    if (library, name) == ("deltalake", "DeltaTable"):
        return datasets.open_delta(X)
    if library == "pyiceberg" and name in ("Table", "StaticTable"):
        return datasets.open_iceberg(X)
    if hasattr(X, "__arrow_c_stream__"):
        hint = "Cast the column to a type that Arrow has."
        with explaining(f"The {name} cannot be read", hint, pa.ArrowInvalid):
            X = pa.RecordBatchReader.from_stream(X).read_all()
        return _open_table(X)
    if hasattr(X, "__array__") or hasattr(X, "__array_interface__"):
        return _open_array(np.asarray(X))
    hint = " Collect it first: X.collect()." if hasattr(X, "collect") else ""
    hint = " Make a list of it first: list(X)." if hasattr(X, "__next__") else hint
    raise DataError(f"X is a {type(X).__name__}.{hint} Allowed: {_KINDS}.")


def _open_table(table: pa.Table) -> Source:
    """Open a table made by other code, possibly from a file that wasn't validated."""
    with explaining("The table cannot be read", "Recreate it.", pa.ArrowInvalid):
        check_columns(table)
    return Source.of_table(table)


def _open_array(array: np.ndarray[Any, Any]) -> Source:
    if array.ndim != 2:
        raise DataError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data: "
            "array.reshape(-1, 1) if it is one column, array.reshape(1, -1) if it is one row."
        )
    if array.dtype.kind == "c":
        raise complex_error("X")
    if array.dtype.kind in "biuf" and not np.ma.is_masked(array):
        return Source.of_array(np.asarray(array))
    names = [f"x{i}" for i in range(array.shape[1])]
    columns = [admit_column(array[:, i], f"Column {name!r}") for i, name in enumerate(names)]
    return Source.of_table(pa.table(columns, names=names), named=False)


def _open_list(rows: Sequence[Any]) -> Source:
    if rows and all(isinstance(row, Mapping) for row in rows):
        names = list(dict.fromkeys(name for row in rows for name in row))
        if not names:
            return Source.of_table(blank_table(len(rows))).select(())
        return _open_mapping({name: [row.get(name) for row in rows] for name in names})
    if any(not hasattr(row, "__len__") or isinstance(row, str | bytes) for row in rows):
        return _open_array(np.asarray(rows, dtype=object))
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        first = next(i for i, row in enumerate(rows) if len(row) != len(rows[0]))
        raise DataError(
            f"Row {first} has {len(rows[first])} values where row 0 has {len(rows[0])}. "
            "Every row needs one value for each column."
        )
    array = np.empty((len(rows), widths.pop() if widths else 0), dtype=object)
    for i, row in enumerate(rows):
        if getattr(row, "ndim", 1) > 1:
            raise DataError(
                f"Row {i} is a {type(row).__name__} of {row.ndim} dimensions. Every row needs one "
                "value for each column; join tables first."
            )
        array[i, :] = row
    if array.size and all(type(value) in (int, float) for value in array.flat):
        numbers = np.asarray(array.tolist())
        # One float turns all into floats, which would merge some whole numbers past 2^53.
        exact = numbers.dtype.kind == "f" and not bool((np.abs(numbers) >= EXACT).any())
        if exact or numbers.dtype.kind in "iu":
            return Source.of_array(numbers)
    return _open_array(array)


def _open_mapping(columns: Mapping[Any, Any]) -> Source:
    """Open columns by name; a mapping of single values is one row."""
    single = [
        not hasattr(v, "__len__") or isinstance(v, str | bytes) or getattr(v, "ndim", 1) == 0
        for v in columns.values()
    ]
    if any(single):
        if not all(single):
            raise DataError(
                "X is a mapping of single values and of columns. Pass a list for every column, "
                "or one value for every column of a single row."
            )
        columns = {name: [value] for name, value in columns.items()}
    names = [str(name) for name in columns]
    check_names(names)
    lengths = [len(values) for values in columns.values()]
    if len(set(lengths)) > 1:
        shown = ", ".join(f"{a!r} {n}" for a, n in list(zip(names, lengths, strict=True))[:5])
        raise DataError(f"The columns have different lengths: {shown}. Every row needs all values.")
    pairs = zip(names, columns.values(), strict=True)
    arrays = [admit_column(column, f"Column {name!r}") for name, column in pairs]
    return Source.of_table(pa.table(arrays, names=names))
