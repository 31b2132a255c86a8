"""How strong a prior is: searched by the loss of held-out rows."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["climb", "strengths"]


def strengths(low: int, high: int) -> tuple[float, ...]:
    """Return strengths from weak to strong, whose neighbours differ by a factor of about three.

    >>> [round(strength, 3) for strength in strengths(-2, 2)]
    [0.1, 0.316, 1.0, 3.162, 10.0]
    """
    return tuple(10.0 ** (power / 2) for power in range(low, high + 1))


def climb(loss: Callable[[int], float], start: int, number: int, least: float = 0.0) -> int:
    """Go from a place to the next stronger while it is no worse, else to weaker ones.

    Parameters
    ----------
    loss : callable
        From a place among the strengths to the loss of held-out rows.
    start : int
    number : int
        Of strengths.
    least : float
        By how much more than this a weaker strength must be better.
    """
    at = start
    while at + 1 < number and loss(at + 1) <= loss(at):
        at += 1
    if at > start:
        return at
    while at > 0 and loss(at - 1) < loss(at) - least:
        at -= 1
    return at
