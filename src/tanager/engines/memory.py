"""The peak memory of this process."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["peak_memory_mb", "reset_peak_memory"]


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
