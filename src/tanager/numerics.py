"""Common array types, and sums in log-space."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def log_sum_exp(
    logs: Floats, axis: int, *, keepdims: bool = False, overwrite: bool = False
) -> Floats:
    """Return the logarithm of the sum of exponentials along an axis.

    With `overwrite`, the given array holds intermediate results. SciPy's `logsumexp` is the same,
    but its checks take 0.3 ms per call.
    """
    top = logs.max(axis=axis, keepdims=True, initial=-np.inf)
    top[~np.isfinite(top)] = 0.0  # all zeros, or empty
    with np.errstate(divide="ignore"):
        shifted = np.subtract(logs, top, out=logs if overwrite else None)
        np.exp(shifted, out=shifted)
        total: Floats = np.log(shifted.sum(axis=axis, keepdims=True)) + top
    return total if keepdims else np.squeeze(total, axis)


def log_softmax(logs: Floats, axis: int) -> Floats:
    """Return logarithms whose exponentials sum to one along an axis."""
    return logs - log_sum_exp(logs, axis, keepdims=True)
