"""What scikit-learn calls X, before it becomes a table."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from tanager.errors import DataError
from tanager.sources import Source

__all__ = ["as_table", "has_names"]


def has_names(X: Any) -> bool:
    """Return whether the table names its columns (arrays and lists do not)."""
    if isinstance(X, (str, PathLike)):
        return True
    if isinstance(X, Source):
        return True
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and isinstance(X[0], (str, PathLike))
    # Asked of the type: of a lazy frame the names alone would be computed.
    return (
        not isinstance(X, np.ndarray)
        and not hasattr(X, "__array_interface__")
        and any(hasattr(type(X), name) for name in ("__arrow_c_stream__", "columns", "schema"))
    )


def as_table(X: Any) -> Any:
    """Return X itself if it names its columns, else a 2-D array checked as scikit-learn does.

    Lists of rows stay lists: one array of them would turn the numbers of a
    row that also holds text into text.
    """
    if has_names(X) or isinstance(X, list | tuple):
        return X
    try:
        return check_array(X, dtype=None, ensure_all_finite=False, estimator="BayesNetClassifier")
    except ValueError as error:
        raise DataError(str(error)) from error
