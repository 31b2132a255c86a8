"""Threads of the numerical libraries: one where vectors are small.

BLAS shares even a product of two short vectors among all cores, and its threads
wait for the next one in a busy loop. An optimiser that asks for thousands of
such products takes ten times the CPU time of one thread, and no less time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

_lock = threading.Lock()
_users = 0
_limit: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread; also a decorator.

    The number of threads belongs to the process. It is restored when the last
    of those who hold it leaves, whatever the order in which they came.

    >>> with one_blas_thread():
    ...     total = sum(range(3))
    """
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _users, _limit
    with _lock:
        if _users == 0:
            _limit = _controller().limit(limits=1, user_api="blas")
        _users += 1


def _leave() -> None:
    global _users, _limit
    with _lock:
        _users -= 1
        if _users == 0:
            _limit.restore_original_limits()
            _limit = None


@lru_cache(maxsize=1)
def _controller() -> Any:
    """Find the libraries once: it takes some milliseconds."""
    import scipy.linalg  # noqa: F401  # loads SciPy's own copy of BLAS
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
