"""The memory of this process and of the machine."""

from __future__ import annotations

import os
import re
import sys
from numbers import Integral
from pathlib import Path

from tanager.errors import ConfigurationError

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
UNITS |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
LEAST_MEMORY = 256 << 20  # bytes that coded rows may always take


def default_memory_limit() -> int:
    """Return the bytes that coded rows may take: half of what is free, at least 256 MiB."""
    return max(LEAST_MEMORY, free_memory() // 2)


def read_memory_limit(given: str | int | None) -> int:
    """Return a limit in bytes, from a number or a text such as "4GB"; None is the default.

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
    raise ConfigurationError(
        f"memory_limit={given!r}. Allowed: a number of bytes, a text such as '4GB', '512MiB' or "
        "'1.5TB', or None for half of the free memory.",
        parameter="memory_limit",
    )


def free_memory() -> int:
    """Return the bytes of memory that are free: of the machine, or of this container if less.

    4 GiB where the system does not say.
    """
    free = [_machine_memory(), _container_memory()]
    return min((n for n in free if n is not None), default=4 << 30)


def _machine_memory() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except OSError:
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _container_memory() -> int | None:
    folder = Path("/sys/fs/cgroup")
    try:
        allowed = (folder / "memory.max").read_text().strip()
        used = int((folder / "memory.current").read_text())
    except (OSError, ValueError):
        return None
    return None if allowed == "max" else max(0, int(allowed) - used)


def reset_peak_memory() -> None:
    """Start the high-water mark of resident memory afresh, where Linux allows it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_memory_mb() -> float | None:
    """Return the high-water mark in MiB: since the reset on Linux, of the process elsewhere.

    None where the system does not tell.
    """
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak) / (2**20 if sys.platform == "darwin" else 2**10)
