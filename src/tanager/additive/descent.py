"""A minimum by limited-memory BFGS, for objectives whose every value is a pass over rows."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager import native

__all__ = ["Descent", "minimise"]

Floats = NDArray[np.float64]

REMEMBERED = 10  # steps, and the changes of the gradient along them
ENOUGH = 1e-4  # of the improvement that the gradient promises
MOST_TRIES = 20  # of shorter steps


class Descent(NamedTuple):
    """Where the optimiser stopped.

    Attributes
    ----------
    at : ndarray of float64
    value : float
    iterations : int
    evaluations : int
    converged : bool
        Whether the improvement became small before the iterations ended.
    """

    at: Floats
    value: float
    iterations: int
    evaluations: int
    converged: bool


def minimise(
    objective: Callable[[Floats], tuple[float, Floats]],
    start: Floats,
    *,
    max_iter: int,
    tol: float,
    first_step: float = 1.0,
) -> Descent:
    """Minimise a convex function of a vector.

    Parameters
    ----------
    objective : callable
        From a vector to the value and the gradient there.
    start : ndarray of float64, shape (n,)
    max_iter : int
    tol : float
        Stops where an iteration improves the value by less than this times the
        larger of it and one.
    first_step : float
        The length of the first step, in units of the gradient.

    Notes
    -----
    Each step is the one of limited-memory BFGS, shortened by a parabola through
    what is known where the value does not fall as the gradient promises. SciPy's
    L-BFGS-B takes about as many evaluations, and longer for all that is
    around them.

    References
    ----------
    Nocedal (1980), DOI 10.1090/S0025-5718-1980-0572855-7: the step.

    Examples
    --------
    >>> found = minimise(lambda x: (float(x @ x), 2 * x), np.ones(3), max_iter=9, tol=0.0)
    >>> found.at.round(6).tolist(), found.converged
    ([0.0, 0.0, 0.0], True)
    """
    at = start
    value, gradient = objective(at)
    steps, changes = np.zeros((2, REMEMBERED, at.size))
    products = np.zeros(REMEMBERED)
    evaluations, n_known, newest = 1, 0, -1
    for iteration in range(max_iter):
        direction = np.empty(at.size)
        native.descend(steps, changes, products, n_known, newest, gradient, direction)
        if n_known == 0:
            direction *= first_step
        slope = float(np.dot(gradient, direction))
        if not slope < 0.0:
            return Descent(at, value, iteration, evaluations, True)
        length, found = 1.0, None
        for _ in range(MOST_TRIES):
            there = at + length * direction
            new_value, new_gradient = objective(there)
            evaluations += 1
            if new_value <= value + ENOUGH * length * slope:
                found = there
                break
            # The parabola through the value and slope here and the value there.
            bend = new_value - value - length * slope
            lowest = -slope * length / (2.0 * bend) if isfinite(bend) else 0.0
            length *= min(max(lowest, 0.1), 0.5)
        if found is None:
            return Descent(at, value, iteration, evaluations, True)
        newest = (newest + 1) % REMEMBERED
        np.subtract(found, at, out=steps[newest])
        np.subtract(new_gradient, gradient, out=changes[newest])
        products[newest] = np.dot(steps[newest], changes[newest])
        n_known = min(n_known + 1, REMEMBERED)
        if not products[newest] > 0.0:
            n_known = 0  # rounding has hidden the curvature: begin anew
        gained, size = value - new_value, max(abs(value), abs(new_value), 1.0)
        at, value, gradient = found, new_value, new_gradient
        if gained <= tol * size:
            return Descent(at, value, iteration + 1, evaluations, True)
    return Descent(at, value, max_iter, evaluations, False)
