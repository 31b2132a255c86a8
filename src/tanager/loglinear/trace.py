"""How a fit went: the objective, the loss and the gradient, iteration by iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tanager.loglinear.objective import Objective
from tanager.loglinear.optimiser import Descent
from tanager.progress import Progress

__all__ = ["Solution", "Traced"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Solution:
    """Where the optimiser stopped, and how it got there.

    Attributes
    ----------
    free : ndarray of float64, shape (n_free,)
    value : ndarray of float64, shape (n_iterations + 1,)
        The objective before the first and after each iteration.
    loss : ndarray of float64, shape (n_iterations + 1,)
        Its part without the penalty.
    gradient_norm : ndarray of float64, shape (n_iterations + 1,)
        The largest absolute component of the gradient.
    passes : int
        Evaluations of the objective, each one pass over the rows.
    converged : bool
    reason : str
        Why the optimiser stopped.
    """

    free: Floats
    value: Floats
    loss: Floats
    gradient_norm: Floats
    passes: int
    converged: bool
    reason: str

    def record(self) -> dict[str, Any]:
        """Return all but the parameters, as plain data."""
        return {
            "objective": self.value.tolist(),
            "loss": self.loss.tolist(),
            "gradient_norm": self.gradient_norm.tolist(),
            "iterations": len(self.value) - 1,
            "passes": self.passes,
            "converged": self.converged,
            "reason": self.reason,
        }


class Traced:
    """An objective that remembers the points which the optimiser accepts."""

    def __init__(self, objective: Objective, progress: Progress) -> None:
        self._objective = objective
        self._progress = progress
        self._tried: list[tuple[float, float, float]] = []
        self._history: list[tuple[float, float, float]] = []
        progress.start("parameters", None, unit="iterations")

    def __call__(self, free: Floats) -> tuple[float, Floats]:
        """Return value and gradient."""
        value, gradient = self._objective(free)
        norm = float(np.abs(gradient).max(initial=0.0))
        self._tried.append((value, self._objective.latest, norm))
        if not self._history:
            self._history.append(self._tried[0])
        return value, gradient

    def accept(self, value: float) -> None:
        """Note an iteration's end: at the last of the points tried that has its value."""
        self._history.append(next(point for point in reversed(self._tried) if point[0] == value))
        self._tried.clear()
        self._progress.advance(1, objective=value)

    def solution(self, found: Descent) -> Solution:
        """Return where the optimiser stopped, with its history."""
        self._progress.finish()
        values, losses, norms = np.array(self._history).T
        passes = self._objective.passes
        return Solution(found.at, values, losses, norms, passes, found.converged, found.reason)
