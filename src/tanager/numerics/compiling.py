"""The decorator of the kernels that numba compiles when they are first called.

The loops of everyday fits are compiled with the package (src/native) and need
none of this. What numba compiles is kept on disk for the next process, in the
package's folder or the user's cache folder. Where neither can be written, the
kernels are compiled anew in every process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core import event

__all__ = ["kernel"]

logger = logging.getLogger(__name__)
_told: list[str] = []  # what was said already: once a process is enough


class _Teller(event.Listener):
    """Says once a process that a first call is slow because it compiles."""

    def on_start(self, event: Any) -> None:
        """Hear that numba begins to compile a function, which it did not find on disk."""
        ours = event.data["dispatcher"].py_func.__module__.startswith("tanager.")
        if ours and "compiling" not in _told:
            _told.append("compiling")
            logger.warning(
                "Compiling the loops of this learner: it takes some seconds, once. They are kept "
                "for the next time."
            )

    def on_end(self, event: Any) -> None:
        """Hear that it is done."""


event.register("numba:compile", _Teller())


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function on its first call; it then runs without the interpreter's lock."""
    if function is None:
        return lambda given: kernel(given, **options)
    try:
        return njit(nogil=True, cache=True, **options)(function)
    except RuntimeError:  # numba found no folder that it can write to
        if "no cache" not in _told:
            _told.append("no cache")
            logger.warning(
                "Compiled loops cannot be kept: neither the package's folder nor the user's cache "
                "folder can be written. Set NUMBA_CACHE_DIR to a folder that can."
            )
        return njit(nogil=True, **options)(function)
