"""Cut points as people read them: short, and never two alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

FEWEST_DIGITS = 4
DAY = 86_400
_MICROSECOND_YEARS = 9e12  # seconds: 285,000 years, past which 64 bits hold no microseconds
UNITS = ((DAY, "d"), (3600, "h"), (60, "min"), (1, "s"))


def show_cuts(cuts: NDArray[np.float64] | Sequence[float], temporal: str = "") -> list[str]:
    """Return a text for each cut: the shortest that tell them all apart.

    cuts: ascending.
    temporal: {"", "date", "time", "duration"}; what they are seconds of.

    >>> show_cuts([0.123456, 0.2, 1234567.5])
    ['0.1235', '0.2', '1234568']
    >>> show_cuts([0.12345, 0.12346])
    ['0.12345', '0.12346']
    >>> show_cuts([86400 * 365, 86400 * 366.5], "date"), show_cuts([90, 36000], "time")
    (['1971-01-01', '1971-01-02'], ['00:01:30', '10:00:00'])
    >>> show_cuts([90, 5400, 90000], "duration")
    ['1 min 30 s', '1 h 30 min', '1 d 1 h']
    """
    numbers = [float(cut) for cut in cuts]
    for show in _WAYS[temporal]:
        texts = [show(number) for number in numbers]
        if len(set(texts)) == len(texts):
            return texts
    return [repr(number) for number in numbers]


def _digits(digits: int) -> Callable[[float], str]:
    def show(number: float) -> str:
        # A whole part up to a thousand million is written out: 1234567, not 1.235e+06.
        whole = len(f"{abs(number):.0f}")
        return f"{number:.{max(digits, whole) if 1 <= whole <= 9 else digits}g}"

    return show


def _date(unit: str) -> Callable[[float], str]:
    def show(seconds: float) -> str:
        if abs(seconds) < _MICROSECOND_YEARS:
            return str(np.datetime64(round(seconds * 1e6), "us").astype(f"datetime64[{unit}]"))
        if abs(seconds) < 2.0**62:
            return str(np.datetime64(round(seconds), "s"))
        return f"{seconds!r} s"

    return show


def _time(unit: str) -> Callable[[float], str]:
    shown = _date(unit)
    return lambda seconds: shown(seconds).partition("T")[2]


def _duration(parts: int) -> Callable[[float], str]:
    """Return how durations are shown in so many units, the last rounded down."""

    def show(seconds: float) -> str:
        left = abs(seconds)
        texts: list[str] = []
        for size, name in UNITS:
            number = int(left // size)
            if number and len(texts) < parts:
                texts.append(f"{number} {name}")
                left -= number * size
        return ("-" if seconds < 0 else "") + (" ".join(texts) or f"{abs(seconds):.3g} s")

    return show


_WAYS: dict[str, list[Callable[[float], str]]] = {
    "": [_digits(digits) for digits in range(FEWEST_DIGITS, 18)],
    "date": [_date(unit) for unit in ("D", "m", "s", "ms", "us")],
    "time": [_time(unit) for unit in ("s", "ms", "us")],
    "duration": [_duration(parts) for parts in (2, 3, 4)]
    + [lambda s, digits=digits: f"{s:.{digits}g} s" for digits in range(6, 18)],  # type: ignore[misc]
}
