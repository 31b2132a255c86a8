"""Threads of the numerical libraries: one if vectors are small.

BLAS parallelises even a product of two short vectors over all cores, and its threads
wait for the next one in a busy loop. An optimiser with thousands of such products
takes ten times the CPU time of a single thread, without being faster.
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
    """Limit BLAS to one thread until the last of all holders exits; also a decorator."""
    global _users, _limit
    with _lock:
        if _users == 0:
            _limit = _controller().limit(limits=1, user_api="blas")
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _limit.restore_original_limits()
                _limit = None


@lru_cache(maxsize=1)
def _controller() -> Any:
    """Find the libraries once, since it takes some milliseconds."""
    import scipy.linalg  # noqa: F401  # loads SciPy's own copy of BLAS
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
