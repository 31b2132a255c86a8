"""How strong the priors are: given, or chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tanager.parameters.discriminative.folds import judging_folds

if TYPE_CHECKING:
    from tanager.parameters.discriminative.problem import Problem

__all__ = ["GRID", "Strengths", "choose_strengths"]

MIDDLE = 3.0
GRID = tuple(MIDDLE * 10.0 ** (power / 2) for power in range(-6, 7))


class Strengths(NamedTuple):
    """Precisions of the Gaussian priors on weights or scores, and on corrections."""

    l2: float
    correction: float


def choose_strengths(problem: Problem) -> Strengths:
    """Return the priors' strengths; those given as "cv" have the least held-out loss.

    With both to choose, they are chosen in turn: the correction's under the
    middle strength of the other, then the other's under it.
    """
    options = problem.options
    l2, correction = options.l2, options.correction
    fixed = Strengths(
        MIDDLE if isinstance(l2, str) else float(l2),
        MIDDLE if isinstance(correction, str) else float(correction or 0.0),
    )
    trial = _Trial(problem) if "cv" in (l2, correction) else None
    if trial is not None and correction == "cv":
        fixed = _climb(trial, [fixed._replace(correction=s) for s in GRID])
    if trial is not None and l2 == "cv":
        fixed = _climb(trial, [fixed._replace(l2=s) for s in GRID])
    return fixed


class _Trial:
    """Held-out losses of strengths; fits start from the last one of their fold."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._parts = [problem.held_out(fold) for fold in judging_folds(problem.folds)]
        self._free = [problem.start(form) for form, _, _ in self._parts]
        self._known: dict[Strengths, float] = {}

    def loss(self, strengths: Strengths) -> float:
        """Return the loss of the held-out rows."""
        if strengths not in self._known:
            total = 0.0
            for fold, (form, train, score) in enumerate(self._parts):
                solution = self._problem.solve(
                    form, train, strengths, start=self._free[fold], rough=True
                )
                self._free[fold] = solution.free
                total += self._problem.objective(form, score, None).loss(solution.free)
            self._known[strengths] = total
        return self._known[strengths]


def _climb(trial: _Trial, candidates: Sequence[Strengths]) -> Strengths:
    """Go from the middle candidate to better neighbours, as far as they improve."""
    at = len(candidates) // 2
    while True:
        steps = [i for i in (at - 1, at, at + 1) if 0 <= i < len(candidates)]
        best = min(steps, key=lambda i: trial.loss(candidates[i]))
        if best == at:
            return candidates[at]
        at = best
