"""Common array types, sums in log-space, and the threads of numerical libraries."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Item = TypeVar("Item")

# Stands for log 0: exp gives 0, and a row that no class allows still has a posterior. A row without
# it doesn't get near half of it, even with ten thousand columns.
LOG_ZERO = -1e5
IMPOSSIBLE = 0.5 * LOG_ZERO


def starts_of(sizes: Sequence[int] | NDArray[np.integer]) -> Ints:
    """Return where each of n pieces laid out end to end starts, and where the last ends, (n + 1,).

    >>> starts_of([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def split_by_size(items: Iterable[Item], sizes: Iterable[int], limit: int) -> list[list[Item]]:
    """Split items, in order, into groups whose sizes add up to the limit at most.

    An item beyond the limit is alone.

    >>> split_by_size("abcd", [3, 2, 2, 9], limit=5)
    [['a', 'b'], ['c'], ['d']]
    """
    groups: list[list[Item]] = []
    room = -1
    for item, size in zip(items, sizes, strict=True):
        if size > room:
            groups.append([])
            room = limit
        groups[-1].append(item)
        room -= size
    return groups


def log_or_zero(values: Floats) -> Floats:
    """Return the logarithms of probabilities, finite even for zeros."""
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(values), LOG_ZERO)


def log_sum_exp(logs: Floats, axis: int, *, keepdims: bool = False) -> Floats:
    """Return the logarithm of the sum of exponentials along an axis.

    SciPy's `logsumexp` is the same, but its checks take 0.3 ms per call.
    """
    top = logs.max(axis=axis, keepdims=True, initial=-np.inf)
    top[~np.isfinite(top)] = 0.0  # all zeros, or empty
    with np.errstate(divide="ignore"):
        shifted = logs - top
        np.exp(shifted, out=shifted)
        total: Floats = np.log(shifted.sum(axis=axis, keepdims=True)) + top
    return total if keepdims else np.squeeze(total, axis)


def log_softmax(logs: Floats, axis: int) -> Floats:
    """Return logarithms whose exponentials sum to one along an axis."""
    return logs - log_sum_exp(logs, axis, keepdims=True)


_lock = threading.Lock()
_users = 0
_limit: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread until the last of all holders exits; also a decorator.

    BLAS spreads even a product of two short vectors over all cores, and its threads wait for the
    next one in a busy loop: an optimiser takes ten times the CPU time, and isn't faster.
    """
    global _users, _limit
    with _lock:
        if _users == 0:
            # SciPy has a BLAS of its own, but few fits load it.
            _limit = _controller("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _limit.restore_original_limits()
                _limit = None


@lru_cache(maxsize=2)
def _controller(has_scipy: bool) -> Any:  # noqa: ARG001
    """Find the libraries once, with and without SciPy's, since it takes some milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def rank_distinct(keys: Ints, n_possible: int) -> tuple[Ints, Ints]:
    """Return the rank of each key among the distinct keys, and the distinct keys, sorted."""
    if n_possible > max(16 * keys.shape[0], 1 << 20):
        distinct, ranks = np.unique(keys, return_inverse=True)
        return ranks, distinct
    # Marking dense keys costs a fraction of sorting them.
    present = np.zeros(n_possible, np.bool_)
    present[keys] = True
    return (np.cumsum(present) - 1)[keys], np.flatnonzero(present)
