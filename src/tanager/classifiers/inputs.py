"""What scikit-learn calls X, before it becomes a table."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np

from tanager.errors import DataError
from tanager.sources import Source


def has_names(X: Any) -> bool:
    """Return whether the table names its columns (plain arrays and lists do not)."""
    if isinstance(X, np.ndarray):
        return X.dtype.names is not None
    if isinstance(X, (str, PathLike)):
        return True
    if isinstance(X, Source):
        return True
    if isinstance(X, Mapping):
        return not hasattr(X, "nnz")  # one kind of sparse matrix is a mapping of its cells
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and isinstance(X[0], (str, PathLike, Mapping))
    # Asked of the type: of a lazy frame the names alone would be computed.
    return not hasattr(X, "__array_interface__") and any(
        hasattr(type(X), name) for name in ("__arrow_c_stream__", "columns", "schema")
    )


def as_table(X: Any) -> Any:
    """Return X, refused where it is a single value; whatever else is no table is not opened."""
    if X is None or (np.isscalar(X) and not isinstance(X, str)):
        raise DataError(f"Expected 2D array, got {X!r} instead. Pass a table, or the path of one.")
    return X


def target_among(X: Any, y: Any) -> str | None:
    """Return the name of the column of X that `y` was taken from and is still there; else None.

    A series of another table may have the name of a feature, so its values have to agree too.
    """
    name = getattr(y, "name", None)
    if not isinstance(name, str) or name not in getattr(X, "columns", ()):
        return None
    if hasattr(X, "compute"):
        return None  # a Dask frame would be read for it
    column = X[name]
    return name if type(column) is type(y) and column.equals(y) else None
