"""The optimiser, `minimise`, and the search for a prior's strength on held-out rows.

Every evaluation of an objective is a pass over rows. By default `minimise` runs a limited-memory
BFGS that respects bounds, can start from the curvature found by an earlier descent, and does
little work around each evaluation. Conjugate gradients, gradient descent and stochastic gradient
descent, whose traces the papers report, are other directions of the same loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.numerics import Floats

Function = Callable[[Floats], tuple[float, Floats]]  # from a vector to value and gradient
Report = Callable[[Floats, float, Floats], None]  # called with a vector, its value and gradient
Bounds = tuple[Floats, Floats]  # least and greatest values, each (n,)

METHODS = ("lbfgs", "cg", "gradient", "sgd")
REMEMBERED = 10  # steps, and the gradient's changes along them
LEAST_REMEMBERED = 3  # with very many parameters: thousands of classes
MOST_NUMBERS = 1 << 21  # in steps and changes, if that allows LEAST_REMEMBERED
ENOUGH = 1e-4  # of the improvement predicted by the gradient
MOST_TRIES = 20  # other step lengths
SMALL_ROUNDS = 5  # of stochastic descent, each at half the rate
TINY = 1e-300
ROUNDING = 1e-12  # relative to the value: smaller improvements are lost in rounding
SMALL, NONE_BETTER = "relative improvement of at most tol", "no step is better"
TOO_LONG = "max_iter iterations"


class Curvature:
    """The last steps of a descent and the gradient's change along each, in ring buffers.

    steps, changes: shape (n_kept, n); products: (n_kept,), those of both.
    n_known: how many are known; newest: the row of the last one.
    """

    def __init__(self, steps: Floats, changes: Floats) -> None:
        self.steps, self.changes, self.products = steps, changes, np.zeros(len(steps))
        self.n_known, self.newest = 0, -1

    def add(self, at: Floats, to: Floats, before: Floats, after: Floats) -> None:
        """Record a step, and the gradient before and after it."""
        place = (self.newest + 1) % len(self.steps)
        np.subtract(to, at, out=self.steps[place])
        np.subtract(after, before, out=self.changes[place])
        self._count()

    def moved(self, steps: Floats, changes: Floats) -> Curvature:
        """Return the same with other steps and changes."""
        out = Curvature(steps, changes)
        out.newest = self.newest - self.n_known
        for _ in range(self.n_known):
            out._count()
        return out

    def in_order(self) -> tuple[Floats, Floats]:
        """Return the known steps and changes, oldest first."""
        order = np.arange(self.newest - self.n_known + 1, self.newest + 1) % len(self.steps)
        return self.steps[order], self.changes[order]

    def _count(self) -> None:
        """Take note of the step that follows the newest."""
        self.newest = at = (self.newest + 1) % len(self.steps)
        self.products[at] = np.dot(self.steps[at], self.changes[at])
        self.n_known = min(self.n_known + 1, len(self.steps))
        if not self.products[at] > 0.0:
            self.n_known = 0  # the curvature is lost in rounding: start over


class Descent(NamedTuple):
    """Where the optimiser stopped, and why."""

    at: Floats
    value: float
    iterations: int
    evaluations: int
    converged: bool  # the improvement, or all that the gradient predicts, became small in time
    reason: str = ""
    curvature: Curvature | None = None


def minimise(
    objective: Function,
    start: Floats,
    *,
    max_iter: int,
    tol: float,
    method: str = "lbfgs",
    first_step: float | None = 1.0,
    curvature: Curvature | None = None,
    bounds: Bounds | None = None,
    sharp: float | None = None,
    batches: Sequence[Function] = (),
    report: Report = lambda *_: None,
) -> Descent:
    """Minimise a function of a vector, (n,).

    tol: stop when an iteration improves the value by less than this times the larger of it and
        one (and, with "lbfgs", the gradient predicts no larger improvement for the next).
    method: {"lbfgs", "cg", "gradient", "sgd"}; limited-memory BFGS, nonlinear conjugate gradients,
        or steps along the gradient, of all rows or of one batch at a time.
    first_step, curvature: with "lbfgs": the length of the first step, in units of the gradient
        (None: of length one); or an earlier descent's curvature, with which the first step is as
        good as that descent's last. It's overwritten.
    bounds: with "lbfgs": lower and upper bounds.
    sharp: with "lbfgs": the largest remaining share of the slope after a step, which is otherwise
        extended; None for any. Scaled parameters don't need it.
    batches: with "sgd": the objective's parts, which sum to it; an iteration goes through all.
    report: called at the start and after each iteration.

    Steps are shortened by a parabola if the value doesn't decrease as predicted. With bounds,
    parameters at a bound that the next step would cross stay fixed, and steps are projected on it.

    Nocedal (1980), DOI 10.1090/S0025-5718-1980-0572855-7: limited-memory BFGS. Bertsekas (1982),
    DOI 10.1137/0320018: projected Newton steps. Polak and Ribière (1969): conjugate gradients.

    >>> found = minimise(lambda x: (float(x @ x), 2 * x), np.ones(3), max_iter=9, tol=0.0)
    >>> found.at.round(6).tolist(), found.converged
    ([0.0, 0.0, 0.0], True)
    """
    if method == "sgd":
        return _follow_batches(objective, batches, start, max_iter, tol, report)
    at = start if bounds is None else np.clip(start, *bounds)
    value, gradient = objective(at)
    rule: _Newton | _Conjugate | _Steepest
    if method == "lbfgs":
        if curvature is None:
            curvature = Curvature(*np.zeros((2, remembered(at.size), at.size)))
        rule = _Newton(curvature, first_step, bounds)
    else:
        rule = {"cg": _Conjugate, "gradient": _Steepest}[method]()
        sharp = rule.sharp
    evaluations = 1
    report(at, value, gradient)

    def stopped(iterations: int, converged: bool, reason: str) -> Descent:
        return Descent(at, value, iterations, evaluations, converged, reason, curvature)

    def is_small(promised: float) -> bool:
        return isfinite(value) and promised <= max(tol, ROUNDING) * max(abs(value), 1.0)

    for iteration in range(max_iter):
        direction, length = rule.direction(at, gradient)
        slope = float(np.dot(gradient, direction))
        if not slope < 0.0:
            return stopped(iteration, is_small(abs(slope)), NONE_BETTER)
        found, search = None, _Search(value, slope)
        for _ in range(MOST_TRIES):
            if not 0.0 < length < inf:
                break  # rounding leaves no step to try
            there = at + length * direction
            promised = length * slope
            if bounds is not None:
                there = np.clip(there, *bounds)
                promised = float(np.dot(gradient, there - at))
            new_value, new_gradient = objective(there)
            evaluations += 1
            new_slope = float(np.dot(new_gradient, direction)) if sharp else 0.0
            if new_value <= value + ENOUGH * promised:
                if found is None or new_value < found[1]:
                    found = there, new_value, new_gradient, length
                if sharp is None or abs(new_slope) <= -sharp * slope:
                    break
            if sharp and isfinite(new_value):
                length = search.next((length, new_value, new_slope))
            else:
                # The parabola through value and slope here and the value there.
                bend = new_value - value - promised
                lowest = -promised / (2.0 * bend) if isfinite(bend) else 0.0
                length *= min(max(lowest, rule.shortest), 0.5)
        if found is None:
            # At the minimum no step is better, up to rounding; anywhere else, value
            # and gradient contradict each other.
            return stopped(iteration, is_small(-slope), NONE_BETTER)
        there, new_value, new_gradient, length = found
        rule.add(at, there, gradient, new_gradient, length)
        gained, size = value - new_value, max(abs(value), abs(new_value), 1.0)
        at, value, gradient = there, new_value, new_gradient
        report(at, value, gradient)
        # A short step may gain little although the gradient still predicts more.
        if gained <= tol * size and is_small(rule.promise(at, gradient)):
            return stopped(iteration + 1, True, SMALL)
    return stopped(max_iter, False, TOO_LONG)


class _Search:
    """The line search of Moré and Thuente (1994), DOI 10.1145/192115.192132, section 4.

    A place along the direction is its length, the value and the slope there.
    """

    def __init__(self, value: float, slope: float) -> None:
        self._best = self._other = 0.0, value, slope  # lowest, and beyond the minimum
        self._enclosed = False  # whether the minimum lies between them

    def next(self, tried: tuple[float, float, float]) -> float:
        """Return the length to try next."""
        enclosed, (start, lowest, steep), (length, value, slope) = self._enclosed, self._best, tried
        gap = length - start
        if gap == 0.0:
            return 0.0
        # The minimum of the cubic through both, and that of a parabola.
        bend = 3.0 * (lowest - value) / gap + steep + slope
        root = np.copysign(max(bend * bend - steep * slope, 0.0) ** 0.5, gap)
        cubic = length - gap * (slope + root - bend) / (slope - steep + 2.0 * root)
        if value > lowest:
            self._other, self._enclosed = tried, True
            parabola = start + 0.5 * gap * steep / ((lowest - value) / gap + steep)
            near = abs(cubic - start) < abs(parabola - start)
            return cubic if near else 0.5 * (cubic + parabola)
        turned = slope * steep < 0.0
        end = self._other[0] if enclosed else length + 4.0 * gap
        if turned:
            self._other, self._enclosed = self._best, True
        self._best = tried
        if not turned and abs(slope) >= abs(steep):
            return 0.5 * (length + end) if enclosed else end
        straight = length - gap * slope / (slope - steep)
        if turned:
            return max(cubic, straight, key=lambda one: abs(one - length))
        if (cubic - length) * gap <= 0.0:
            cubic = end
        found = (min if enclosed else max)(cubic, straight, key=lambda one: abs(one - length))
        if enclosed:
            end = length + 0.66 * (end - length)
        return min(found, end) if end > length else max(found, end)


class _Steepest:
    """Along the gradient, twice as far as last time, halved until the value decreases."""

    sharp: float | None = None
    shortest = 0.5  # minimum factor for shortening a step

    def __init__(self) -> None:
        self._length = 0.0

    def direction(self, _at: Floats, gradient: Floats) -> tuple[Floats, float]:
        """Return the next step's direction, and the length to try first."""
        return -gradient, 2.0 * self._length or _safe_rate(gradient)

    def add(self, _at: Floats, _to: Floats, _before: Floats, _after: Floats, length: float) -> None:
        """Record a step, and the gradient before and after it."""
        self._length = length

    def promise(self, _at: Floats, _gradient: Floats) -> float:
        """Return the gain of the next step if the function were a parabola: unknown."""
        return 0.0


def _safe_rate(gradient: Floats) -> float:
    """Return a length that moves no parameter by more than one, nor by more than its slope."""
    return 1.0 / max(float(np.abs(gradient).max(initial=0.0)), 1.0)


class _Conjugate(_Steepest):
    """Along the new part of the gradient plus the previous direction."""

    sharp = 0.1

    def __init__(self) -> None:
        super().__init__()
        self._last = self._before = np.zeros(0)  # direction and gradient
        self._slope = 0.0

    def direction(self, at: Floats, gradient: Floats) -> tuple[Floats, float]:
        """Return the next step's direction, and the length to try first."""
        ahead, length = super().direction(at, gradient)
        if self._before.size:
            before = max(float(np.dot(self._before, self._before)), TINY)
            new = float(np.dot(gradient, gradient - self._before))
            turned = ahead + max(new / before, 0.0) * self._last
            if float(np.dot(turned, gradient)) < 0.0:
                ahead = turned
        slope = float(np.dot(ahead, gradient))
        if self._slope and slope < 0.0:  # assume the same first-order change as last time
            length = self._length * self._slope / slope
        self._last, self._before, self._slope = ahead, gradient, slope
        return ahead, length


def remembered(size: int) -> int:
    """Return how many steps a descent with `size` parameters remembers."""
    return min(max(MOST_NUMBERS // (2 * max(size, 1)), LEAST_REMEMBERED), REMEMBERED)


class _Newton:
    """Limited-memory BFGS."""

    shortest = 0.1

    def __init__(self, curvature: Curvature, first: float | None, bounds: Bounds | None) -> None:
        self._curvature, self._first_step, self._bounds = curvature, first, bounds

    def direction(self, at: Floats, gradient: Floats) -> tuple[Floats, float]:
        """Return the step of limited-memory BFGS, and its length."""
        if self._bounds is None:
            return self._descend(gradient), 1.0
        low, high = self._bounds
        free = ~(((at <= low) & (gradient > 0)) | ((at >= high) & (gradient < 0)))
        plain, held = gradient * free, ~free
        while True:
            out = self._descend(gradient * ~held, ~held)
            crossing = ((at <= low) & (out < 0)) | ((at >= high) & (out > 0))
            if not crossing.any():
                break
            held |= crossing
        # If everything that would move crosses a bound, the gradient itself doesn't.
        return (-plain if held.all() else out), 1.0

    def _descend(self, gradient: Floats, free: NDArray[np.bool_] | None = None) -> Floats:
        """Return the step from the curvature of all parameters, or of those that are free."""
        out, known = np.empty(gradient.size), self._curvature
        given = known.steps, known.changes, known.products, known.n_known, known.newest
        if free is not None and not free.all():
            steps, changes = (one * free for one in known.in_order())
            products = np.einsum("ij,ij->i", steps, changes)
            good = products > ROUNDING * np.einsum("ij,ij->i", changes, changes)
            n = int(good.sum())
            given = steps[good], changes[good], products[good], n, n - 1
        native.descend(*given, gradient, out)
        if given[3] == 0:
            size = max(float(np.dot(gradient, gradient)) ** 0.5, TINY)
            out *= 1.0 / size if self._first_step is None else self._first_step
        return out

    def promise(self, at: Floats, gradient: Floats) -> float:
        """Return the gain of the next step if the function were a parabola."""
        if not self._curvature.n_known:
            return 0.0
        return -0.5 * float(np.dot(gradient, self.direction(at, gradient)[0]))

    def add(self, at: Floats, to: Floats, before: Floats, after: Floats, _length: float) -> None:
        """Record a step, and the gradient before and after it."""
        self._curvature.add(at, to, before, after)


def _follow_batches(
    objective: Function,
    batches: Sequence[Function],
    start: Floats,
    max_iter: int,
    tol: float,
    report: Report,
) -> Descent:
    """Step along the gradient of one batch at a time, at a rate that suits whole rounds.

    A round that doesn't lower the objective is undone, and the rate halved. Close to the minimum
    the batches pull in different directions: small improvements end it only at smaller rates too.
    """
    at, (value, gradient) = start, objective(start)
    rate, evaluations, growth, n_small = _safe_rate(gradient), 1, 1.2, 0
    report(at, value, gradient)
    for iteration in range(max_iter):
        for _ in range(MOST_TRIES):
            there, evaluations = at.copy(), evaluations + 1
            for part in batches:
                there -= rate * part(there)[1]
            new_value, gradient = objective(there)
            if new_value < value:
                break
            rate, growth = 0.5 * rate, 1.0
        else:
            return Descent(at, value, iteration, evaluations, True, NONE_BETTER)
        small = value - new_value <= tol * max(abs(value), abs(new_value), 1.0)
        at, value = there, new_value
        report(at, value, gradient)
        rate *= 0.5 * growth if small else growth
        n_small = n_small + 1 if small else 0
        if n_small == SMALL_ROUNDS:
            return Descent(at, value, iteration + 1, evaluations, True, SMALL)
    return Descent(at, value, max_iter, evaluations, False, TOO_LONG)


def solve_linear(
    times: Callable[[Floats], Floats], wanted: Floats, scale: Floats, steps: int
) -> Floats:
    """Solve linear systems, one per column of `wanted` (n, n_systems), by conjugate gradients.

    `times` multiplies by a positive definite matrix; `scale` is about one over its diagonal.
    """
    out = np.zeros_like(wanted)
    left, ahead = wanted, scale * wanted
    size = np.einsum("ij,ij->j", left, ahead)
    for _ in range(steps):
        turned = times(ahead)
        bent = np.einsum("ij,ij->j", ahead, turned)
        # Where rounding has used up the curvature, the system is solved.
        step = np.divide(size, bent, out=np.zeros_like(size), where=bent > TINY)
        out += step * ahead
        left = left - step * turned
        scaled = scale * left
        before, size = size, np.einsum("ij,ij->j", left, scaled)
        ahead = scaled + size / np.maximum(before, 1e-300) * ahead
    return out


def strengths(low: int, high: int) -> tuple[float, ...]:
    """Return strengths from weak to strong, each about three times the previous.

    >>> [round(strength, 3) for strength in strengths(-2, 2)]
    [0.1, 0.316, 1.0, 3.162, 10.0]
    """
    return tuple(10.0 ** (power / 2) for power in range(low, high + 1))


def climb(gain: Callable[[int, int], float], start: int, number: int, least: float = 0.0) -> int:
    """Move to stronger strengths while they're no worse, otherwise to weaker ones.

    `gain` is the decrease of the held-out loss from the first to the second of two indices among
    `number` strengths; a weaker strength must be better by more than `least`.
    """
    at = start
    while at + 1 < number and gain(at, at + 1) >= 0.0:
        at += 1
    if at > start:
        return at
    while at > 0 and gain(at, at - 1) > least:
        at -= 1
    return at
