"""Predictions of Dask DataFrames: as lazy as their input."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial, wraps
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tanager.sources.dask_frames import is_dask_frame

Method = TypeVar("Method", bound=Callable[..., Any])


def check_fitted(estimator: Any) -> None:
    """Refuse to predict before `fit`."""
    if not hasattr(estimator, "network_"):
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(
            f"This {type(estimator).__name__} instance is not fitted yet. Call 'fit' with "
            "appropriate arguments before using this estimator."
        )


def lazy_for_dask(method: Method) -> Method:
    """Make a method that predicts rows give a lazy Dask array for a Dask DataFrame.

    Each partition is predicted where it is computed, when the array is.
    """

    @wraps(method)
    def predict(self: Any, X: Any) -> Any:
        if not is_dask_frame(X):
            return method(self, X)
        check_fitted(self)
        plain = copy(self)
        plain.engine, plain.n_jobs, plain.verbose, plain._kept_counts = "local", None, 0, None
        # The result's type and number of columns, from one row without a known value.
        unknown = {name: [None] for name in self.network_.codebook.domain.names}
        like = np.asarray(method(plain, unknown))[:0]
        work = partial(_predict_partition, plain, method.__name__, like)
        return X.map_partitions(work, meta=like)

    return predict  # type: ignore[return-value]


def _predict_partition(
    classifier: Any, method: str, empty: NDArray[Any], frame: Any
) -> NDArray[Any]:
    found: NDArray[Any] = getattr(classifier, method)(frame) if len(frame) else empty
    return found
