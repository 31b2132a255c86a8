"""L-BFGS-B, with its course kept as data."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tanager.parameters.discriminative.objective import Objective
from tanager.progress import Progress

__all__ = ["Solution", "minimise"]

Floats = NDArray[np.float64]

CORRECTIONS = 5


@dataclass(frozen=True)
class Solution:
    """Where the optimiser stopped, and how it came there.

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
        """Return the course as plain data."""
        return {
            "objective": self.value.tolist(),
            "loss": self.loss.tolist(),
            "gradient_norm": self.gradient_norm.tolist(),
            "iterations": len(self.value) - 1,
            "passes": self.passes,
            "converged": self.converged,
            "reason": self.reason,
        }


def minimise(
    objective: Objective,
    start: Floats,
    *,
    max_iter: int,
    tol: float,
    progress: Progress | None = None,
    warn: bool = True,
) -> Solution:
    """Minimise an objective; a ConvergenceWarning where the budget ends first.

    Stops where an iteration improves the objective by less than `tol` times
    the larger of it and one (Zhu et al. 1997, DOI 10.1145/279232.279236).
    """
    from scipy import optimize

    progress = progress or Progress()
    progress.start("parameters", None, unit="iterations")
    latest: list[tuple[float, float, float]] = []
    course: list[tuple[float, float, float]] = []

    def evaluate(free: Floats) -> tuple[float, Floats]:
        value, gradient = objective(free)
        latest.append((value, objective.latest, float(np.abs(gradient).max(initial=0.0))))
        if not course:
            course.append(latest[0])
        return value, gradient

    def report(intermediate_result: Any) -> None:
        # The accepted point is one of the line search's; the last with its value.
        value = float(intermediate_result.fun)
        course.append(next(point for point in reversed(latest) if point[0] == value))
        latest.clear()
        progress.advance(1, objective=value)

    options = {"maxcor": CORRECTIONS, "ftol": tol, "gtol": 0.0}
    budget = {"maxiter": max_iter, "maxfun": 20 * max_iter + 20}
    first = objective.passes
    result: Any = optimize.minimize(
        evaluate, start, jac=True, method="L-BFGS-B", callback=report, options=options | budget
    )
    progress.finish()
    # A line search that finds nothing lower stops at a minimum to machine precision.
    converged = result.status != 1
    if not converged and warn:
        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(
            f"The discriminative parameters did not converge in {max_iter} iterations. "
            "Hint: raise max_iter, or add a prior (l2 > 0), under which an optimum always exists.",
            ConvergenceWarning,
            stacklevel=2,
        )
    values, losses, norms = np.array(course).T
    passes = objective.passes - first
    return Solution(result.x, values, losses, norms, passes, converged, str(result.message))
