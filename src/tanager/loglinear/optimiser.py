"""The one optimiser, `minimise`, and the search for a prior's strength by held-out rows.

Every value of an objective is a pass over rows. By default `minimise` runs a limited-memory BFGS
of our own, which goes on from the curvature that an earlier descent found and does little around
each evaluation. SciPy's L-BFGS-B is there for bounds, and as the reference whose traces, like
those of conjugate gradients, gradient descent and stochastic gradient descent, the papers report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from tanager import native
from tanager.numerics import Floats

Function = Callable[[Floats], tuple[float, Floats]]  # from a vector to value and gradient

METHODS = ("lbfgs", "cg", "gradient", "sgd")
REMEMBERED = 10  # steps, and the changes of the gradient along them
ENOUGH = 1e-4  # of the improvement that the gradient promises
MOST_TRIES = 20  # of shorter steps
SMALL_ROUNDS = 5  # of stochastic descent, each at half the rate
ROUNDING = 1e-12  # of the value: improvements below it are lost in sums over rows


class Curvature(NamedTuple):
    """What is known of the second derivatives: the last steps, the oldest first."""

    steps: Floats  # (n_known, n)
    changes: Floats  # (n_known, n): how the gradient changed along each


class Descent(NamedTuple):
    """Where the optimiser stopped, and why."""

    at: Floats
    value: float
    iterations: int
    evaluations: int
    # Whether the improvement became small, or all that the gradient promises did, in time.
    converged: bool
    reason: str = ""
    curvature: Curvature | None = None


def minimise(
    objective: Function,
    start: Floats,
    *,
    max_iter: int,
    tol: float,
    method: str | None = None,
    first_step: float = 1.0,
    curvature: Curvature | None = None,
    gradient_tol: float = 0.0,
    corrections: int = 5,
    bounds: tuple[Floats, Floats] | None = None,
    batches: Sequence[Function] = (),
    report: Callable[[float], None] = lambda _: None,
) -> Descent:
    """Minimise a function of a vector, (n,).

    tol: stops where an iteration improves the value by less than this times the larger of it and
        one (and, by default, the gradient promises no more of the next).
    method: {None, "lbfgs", "cg", "gradient", "sgd"}; none for our own limited-memory BFGS, whose
        steps are shortened by a parabola where the value does not fall as promised; SciPy's
        L-BFGS-B or nonlinear conjugate gradients; steps along the gradient, of all rows or of one
        batch after the other.
    first_step, curvature: with None: the length of the first step, in units of the gradient; or
        what is known of the second derivatives, with which the first step is as good as the last of
        a descent.
    gradient_tol, corrections, bounds: with "lbfgs": the largest component of the gradient at which
        it stops, the number of steps it remembers, and least and greatest values.
    batches: with "sgd": the objective's parts, which sum to it; an iteration goes through all.
    report: with a named method: told the value after each iteration.

    Nocedal (1980), DOI 10.1090/S0025-5718-1980-0572855-7: limited-memory BFGS. Byrd, Lu, Nocedal
    and Zhu (1995), DOI 10.1137/0916069: L-BFGS-B. Polak and Ribière (1969): conjugate gradients.

    >>> found = minimise(lambda x: (float(x @ x), 2 * x), np.ones(3), max_iter=9, tol=0.0)
    >>> found.at.round(6).tolist(), found.converged
    ([0.0, 0.0, 0.0], True)
    """
    if method == "gradient":
        return _follow_gradient(objective, start, max_iter, tol, report)
    if method == "sgd":
        return _follow_batches(objective, batches, start, max_iter, tol, report)
    if method is not None:
        options: dict[str, Any] = {"maxiter": max_iter, "gtol": gradient_tol}
        if method == "lbfgs":
            options |= {"maxcor": corrections, "ftol": tol, "maxfun": 20 * max_iter + 20}
        return _minimise_by_scipy(objective, start, tol, method, options, bounds, report)
    at = start
    value, gradient = objective(at)
    memory = _Memory(at.size, curvature)
    del curvature  # large, and copied
    evaluations = 1

    def stopped(iterations: int, converged: bool) -> Descent:
        return Descent(at, value, iterations, evaluations, converged, "", memory.curvature())

    def is_small(promised: float) -> bool:
        return isfinite(value) and promised <= max(tol, ROUNDING) * max(abs(value), 1.0)

    for iteration in range(max_iter):
        direction = memory.direction(gradient)
        if memory.n_known == 0:
            direction *= first_step
        slope = float(np.dot(gradient, direction))
        if not slope < 0.0:
            return stopped(iteration, is_small(abs(slope)))
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
            # At the minimum no step is better, as far as floats can tell; anywhere else, value
            # and gradient contradict each other.
            return stopped(iteration, is_small(-slope))
        memory.add(found - at, new_gradient - gradient)
        gained, size = value - new_value, max(abs(value), abs(new_value), 1.0)
        at, value, gradient = found, new_value, new_gradient
        # A short step may gain little where the gradient still promises more.
        if gained <= tol * size and is_small(memory.promise(gradient)):
            return stopped(iteration + 1, True)
    return stopped(max_iter, False)


def _minimise_by_scipy(
    objective: Function,
    start: Floats,
    tol: float,
    method: str,
    options: dict[str, Any],
    bounds: tuple[Floats, Floats] | None,
    report: Callable[[float], None],
) -> Descent:
    """Run L-BFGS-B, or conjugate gradients with its rule for stopping."""
    from scipy.optimize import Bounds, minimize

    values: list[float] = []

    def after(intermediate_result: Any) -> None:
        values.append(float(intermediate_result.fun))
        report(values[-1])
        # L-BFGS-B has this rule of its own.
        if method == "cg" and len(values) > 1:
            gained, size = values[-2] - values[-1], max(*map(abs, values[-2:]), 1.0)
            if gained <= tol * size:
                raise StopIteration

    found: Any = minimize(
        objective,
        start,
        jac=True,
        method={"lbfgs": "L-BFGS-B", "cg": "CG"}[method],
        bounds=None if bounds is None else Bounds(*bounds),
        callback=after,
        options=options,
    )
    # A line search that finds nothing lower stops at a minimum to machine precision.
    converged = bool(found.status != 1)
    at, value = np.asarray(found.x, np.float64), float(found.fun)
    return Descent(at, value, int(found.nit), int(found.nfev), converged, str(found.message))


def _follow_gradient(
    objective: Function, start: Floats, max_iter: int, tol: float, report: Callable[[float], None]
) -> Descent:
    """Step along the gradient, twice as far as the last time, halved until the value falls."""
    at, (value, gradient) = start, objective(start)
    length, evaluations = 1.0 / max(float(np.abs(gradient).max(initial=0.0)), 1.0), 1
    for iteration in range(max_iter):
        steepness = float(np.dot(gradient, gradient))
        for _ in range(MOST_TRIES):
            there = at - length * gradient
            new_value, new_gradient = objective(there)
            evaluations += 1
            if new_value <= value - ENOUGH * length * steepness:
                break
            length *= 0.5
        else:
            return Descent(at, value, iteration, evaluations, True, "no step is better")
        gained, size = value - new_value, max(abs(value), abs(new_value), 1.0)
        at, value, gradient = there, new_value, new_gradient
        report(value)
        length *= 2.0
        if gained <= tol * size:
            reason = "relative improvement of at most tol"
            return Descent(at, value, iteration + 1, evaluations, True, reason)
    return Descent(at, value, max_iter, evaluations, False, "max_iter iterations")


def _follow_batches(
    objective: Function,
    batches: Sequence[Function],
    start: Floats,
    max_iter: int,
    tol: float,
    report: Callable[[float], None],
) -> Descent:
    """Step along the gradient of one batch after the other, at a rate that suits whole rounds.

    A round that does not lower the objective is taken back, and the rate halved: close to the
    minimum the batches pull in different directions. So a small improvement ends the descent only
    if smaller rates bring no more.
    """
    at, (value, gradient) = start, objective(start)
    rate, rounds = 1.0 / max(float(np.abs(gradient).max(initial=0.0)), 1.0), 0
    growth, n_small = 1.2, 0
    for iteration in range(max_iter):
        for _ in range(MOST_TRIES):
            there, rounds = at.copy(), rounds + 1
            for part in batches:
                there -= rate * part(there)[1]
            new_value, _ = objective(there)
            if new_value < value:
                break
            rate, growth = 0.5 * rate, 1.0
        else:
            return Descent(at, value, iteration, rounds, True, "no round is better")
        gained, size = value - new_value, max(abs(value), abs(new_value), 1.0)
        at, value = there, new_value
        report(value)
        rate *= growth
        if gained > tol * size:
            n_small = 0
            continue
        rate, n_small = 0.5 * rate, n_small + 1
        if n_small == SMALL_ROUNDS:
            reason = "relative improvement of at most tol"
            return Descent(at, value, iteration + 1, rounds, True, reason)
    return Descent(at, value, max_iter, rounds, False, "max_iter iterations")


class _Memory:
    """The last steps and changes of the gradient, in rows that are used in turn."""

    def __init__(self, size: int, curvature: Curvature | None) -> None:
        self._steps, self._changes = np.zeros((2, REMEMBERED, size))
        self._products = np.zeros(REMEMBERED)
        self.n_known, self._newest = 0, -1
        if curvature is not None:
            for step, change in zip(*curvature, strict=True):
                self.add(step, change)

    def direction(self, gradient: Floats) -> Floats:
        """Return the step of limited-memory BFGS."""
        out = np.empty(gradient.size)
        known = self._steps, self._changes, self._products, self.n_known, self._newest
        native.descend(*known, gradient, out)
        return out

    def promise(self, gradient: Floats) -> float:
        """Return what the next step would gain if the function were a parabola."""
        return -0.5 * float(np.dot(gradient, self.direction(gradient))) if self.n_known else 0.0

    def add(self, step: Floats, change: Floats) -> None:
        """Remember a step."""
        self._newest = at = (self._newest + 1) % REMEMBERED
        self._steps[at], self._changes[at] = step, change
        self._products[at] = np.dot(step, change)
        self.n_known = min(self.n_known + 1, REMEMBERED)
        if not self._products[at] > 0.0:
            self.n_known = 0  # rounding has hidden the curvature: begin anew

    def curvature(self) -> Curvature:
        """Return what is known, the oldest first."""
        first = self._newest - self.n_known + 1
        if first >= 0:
            rows = slice(first, self._newest + 1)
            return Curvature(self._steps[rows], self._changes[rows])
        order = np.arange(first, self._newest + 1) % REMEMBERED
        return Curvature(self._steps[order], self._changes[order])


def solve_linear(
    times: Callable[[Floats], Floats], wanted: Floats, scale: Floats, steps: int
) -> Floats:
    """Solve linear systems, one per column of `wanted` (n, n_systems), by conjugate gradients.

    `times` multiplies by a symmetric, positive matrix; `scale` is about one over its diagonal.
    """
    out = np.zeros_like(wanted)
    left, ahead = wanted, scale * wanted
    size = np.einsum("ij,ij->j", left, ahead)
    for _ in range(steps):
        turned = times(ahead)
        step = size / np.maximum(np.einsum("ij,ij->j", ahead, turned), 1e-300)
        out += step * ahead
        left = left - step * turned
        scaled = scale * left
        before, size = size, np.einsum("ij,ij->j", left, scaled)
        ahead = scaled + size / np.maximum(before, 1e-300) * ahead
    return out


def strengths(low: int, high: int) -> tuple[float, ...]:
    """Return strengths from weak to strong, whose neighbours differ by a factor of about three.

    >>> [round(strength, 3) for strength in strengths(-2, 2)]
    [0.1, 0.316, 1.0, 3.162, 10.0]
    """
    return tuple(10.0 ** (power / 2) for power in range(low, high + 1))


def climb(loss: Callable[[int], float], start: int, number: int, least: float = 0.0) -> int:
    """Go from a place to the next stronger while it is no worse, else to weaker ones.

    `loss` is that of held-out rows at a place among `number` strengths; a weaker strength must
    be better by more than `least`.
    """
    at = start
    while at + 1 < number and loss(at + 1) <= loss(at):
        at += 1
    if at > start:
        return at
    while at > 0 and loss(at - 1) < loss(at) - least:
        at -= 1
    return at
