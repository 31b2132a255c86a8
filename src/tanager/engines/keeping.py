"""Coded chunks within a memory limit: in memory, beyond it in a temporary file."""

from __future__ import annotations

import mmap
import os
import re
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from tanager.errors import MemoryBoundError, invalid

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
UNITS |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
LEAST_MEMORY = 256 << 20  # bytes always allowed for coded rows
_ALIGNMENT = 64  # bytes; arrays in the file start at multiples of it
Chunk = TypeVar("Chunk", bound=tuple[Any, ...])


def default_memory_limit() -> int:
    """Return the bytes allowed for coded rows: half of the free memory, at least 256 MiB."""
    return max(LEAST_MEMORY, free_memory() // 2)


def read_memory_limit(given: str | int | None) -> int:
    """Return a limit in bytes, from a number or a string such as "4GB"; None is the default.

    >>> read_memory_limit("1.5 GB"), read_memory_limit("512MiB"), read_memory_limit(1000)
    (1500000000, 536870912, 1000)
    """
    if given is None:
        return default_memory_limit()
    if isinstance(given, Integral) and not isinstance(given, bool) and given >= 0:
        return int(given)
    if isinstance(given, str):
        found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", given)
        if found and found[2].upper() in UNITS:
            return int(float(found[1]) * UNITS[found[2].upper()])
    texts = "a text such as '4GB', '512MiB' or '1.5TB'"
    allowed = f"a number of bytes, {texts}, or None for half of the free memory"
    raise invalid("memory_limit", given, allowed)


def free_memory() -> int:
    """Return the free bytes of the machine or container; 4 GiB if the system doesn't report it."""
    available = _kib("/proc/meminfo", "MemAvailable:")
    free = [] if available is None else [available << 10]
    with suppress(AttributeError, ValueError, OSError):
        free = free or [os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with suppress(OSError, ValueError):  # without a limit, memory.max isn't a number
        limit, used = (Path("/sys/fs/cgroup", f"memory.{one}") for one in ("max", "current"))
        free.append(max(0, int(limit.read_text()) - int(used.read_text())))
    return min(free, default=4 << 30)


def _kib(path: str, name: str) -> int | None:
    """Return a number that Linux reports in KiB."""
    with suppress(OSError):
        for line in Path(path).read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    return None


def reset_peak_memory() -> None:
    """Reset the high-water mark of resident memory, where Linux allows it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory_mb() -> float | None:
    """Return the process's high-water mark in MiB, on Linux since the reset; None if unknown."""
    peak = _kib("/proc/self/status", "VmHWM:")
    if peak is not None:
        return peak / 1024
    try:
        import resource
    except ImportError:  # not available on Windows
        return None
    units = 2**20 if sys.platform == "darwin" else 2**10
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / units


@dataclass(frozen=True, eq=False)
class KeptChunk(Generic[Chunk]):
    """A chunk as its own address; its `store`, if any, tracks its bytes or has it in a file."""

    chunk: Chunk
    store: Store | None = None
    mapped: mmap.mmap | None = None  # the buffer behind its arrays, if they are in a file

    @property
    def in_memory(self) -> bool:
        """Whether the arrays are in memory."""
        return self.mapped is None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.chunk.n_rows)  # type: ignore[attr-defined]

    def chunks(self) -> Iterator[Chunk]:
        """Yield the chunk."""
        yield self.chunk
        # The next chunk was requested, so this one need not stay in memory. If its arrays are
        # still in use, they are read from the file again.
        if self.mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
            self.mapped.madvise(mmap.MADV_DONTNEED)

    def __reduce__(self) -> tuple[Any, ...]:
        return KeptChunk, (self.chunk,)


class Store:
    """Keeps chunks from any thread: in memory up to a limit, later ones in a temporary file.

    The file is anonymous where the platform allows it, so nothing is left behind if the process is
    killed. It is in Python's temporary folder.
    """

    def __init__(self, memory_limit: int) -> None:
        self.memory_limit = memory_limit
        self.memory_used, self.file_used = 0, 0
        self._lock = threading.Lock()
        self._file: Any = None

    def keep(self, chunk: Chunk) -> KeptChunk[Chunk]:
        """Keep a chunk and return its address."""
        arrays = [field for field in chunk if isinstance(field, np.ndarray)]
        n_bytes = sum(array.nbytes for array in arrays)
        with self._lock:
            fits = self.memory_used + n_bytes <= self.memory_limit
            self.memory_used += n_bytes if fits else 0
        if fits or not n_bytes:
            return KeptChunk(chunk, self)
        with _in_folder("The coded rows need", self.memory_limit):
            mapped = self._write(arrays)
        fields, start = list[Any](), 0
        for field in chunk:
            if isinstance(field, np.ndarray):
                flat = np.frombuffer(mapped, field.dtype, field.size, start)
                start += _padded(field.nbytes, _ALIGNMENT)
                fields.append(flat.reshape(field.shape))
            else:
                fields.append(field)
        return KeptChunk(type(chunk)(*fields), self, mapped)

    def _write(self, arrays: list[np.ndarray[Any, Any]]) -> mmap.mmap:
        """Append arrays to the file; return the new part as a read-only map."""
        with self._lock:
            if self._file is None:
                # Unbuffered: a full disk is reported here, not when the file is read or closed.
                self._file = tempfile.TemporaryFile(prefix="tanager-", buffering=0)  # noqa: SIM115
                weakref.finalize(self, self._file.close)
            at = start = self.file_used
            for array in arrays:
                self._file.seek(at)
                left = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
                while left.size:
                    left = left[self._file.write(left.data) :]
                at += _padded(array.nbytes, _ALIGNMENT)
            self.file_used = start + _padded(at - start, mmap.ALLOCATIONGRANULARITY)
            self._file.truncate(self.file_used)
            where = {"access": mmap.ACCESS_READ, "offset": start}
            return mmap.mmap(self._file.fileno(), at - start, **where)


def _padded(n_bytes: int, step: int) -> int:
    return -(-n_bytes // step) * step


def scratch_array(shape: tuple[int, ...], limit: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return zeros: in memory up to a limit in bytes, otherwise in an anonymous temporary file."""
    n_bytes = 8 * int(np.prod(shape))
    if n_bytes <= limit:
        return np.zeros(shape)
    with (
        _in_folder(f"An array of {n_bytes / 2**20:,.0f} MiB is", limit),
        tempfile.TemporaryFile(prefix="tanager-") as file,
    ):
        # A full disk is reported here: later it would be a signal that kills the process.
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, n_bytes)
        else:
            for low in range(0, n_bytes, 1 << 20):
                file.write(bytes(min(1 << 20, n_bytes - low)))
        return np.memmap(file, np.float64, "r+", shape=shape)


@contextmanager
def _in_folder(what: str, limit: int) -> Iterator[None]:
    """Explain errors of the temporary folder."""
    try:
        yield
    except OSError as error:
        raise MemoryBoundError(
            f"{what} more than the {limit / 2**20:,.0f} MiB of memory allowed, and the temporary "
            f"folder {tempfile.gettempdir()} cannot take it: {error}. Free some room there, set "
            "TMPDIR to a folder with more, or raise memory_limit."
        ) from error


def release(array: np.ndarray[Any, Any]) -> None:
    """Let the system reclaim the memory of a scratch array that is in a file."""
    if isinstance(array, np.memmap) and hasattr(mmap, "MADV_DONTNEED"):
        array._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]
