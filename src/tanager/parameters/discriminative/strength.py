"""How strong the priors are: given, or chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tanager.parameters.discriminative.forms import Form
from tanager.parameters.discriminative.problem import FoldTables, Problem, Strengths
from tanager.parameters.folds import judging_folds

__all__ = ["GRID", "Trial", "choose_strengths"]

Floats = NDArray[np.float64]

MIDDLE = 3.0
GRID = tuple(MIDDLE * 10.0 ** (power / 2) for power in range(-6, 7))


def choose_strengths(trial: Trial) -> Strengths:
    """Return the priors' strengths; those given as "cv" have the least held-out loss.

    With several to choose, they are chosen in turn, each under what was chosen
    before and the middle strength of those that come later: the correction's, the
    smoothness, then that of the ridge.
    """
    options = trial.problem.options
    l2, correction, smooth = options.l2, options.correction, options.smooth
    fixed = Strengths(
        *(MIDDLE if isinstance(one, str) else float(one or 0.0) for one in (l2, correction, smooth))
    )
    if correction == "cv":
        fixed = _climb(trial, [fixed._replace(correction=s) for s in GRID])
    if smooth == "cv":
        fixed = _climb(trial, [fixed._replace(smooth=s) for s in GRID])
    if l2 == "cv":
        fixed = _climb(trial, [fixed._replace(l2=s) for s in GRID])
    return fixed


class Trial:
    """Held-out losses of strengths; fits start from the last one of their fold."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._known: dict[Strengths, float] = {}

    @cached_property
    def _parts(self) -> list[tuple[Form, FoldTables, FoldTables]]:
        return [self.problem.held_out(fold) for fold in judging_folds(self.problem.counts)]

    @cached_property
    def _free(self) -> list[Floats]:
        return [self.problem.start(form) for form, _, _ in self._parts]

    def loss(self, strengths: Strengths) -> float:
        """Return the loss of the held-out rows."""
        if strengths not in self._known:
            self._train(strengths)
            self._known[strengths] = sum(
                self.problem.objective(form, score, None).loss(free)
                for (form, _, score), free in zip(self._parts, self._free, strict=True)
            )
        return self._known[strengths]

    def _train(self, strengths: Strengths) -> None:
        for fold, (form, train, _) in enumerate(self._parts):
            start = self._free[fold]
            solution = self.problem.solve(form, train, strengths, start=start, rough=True)
            self._free[fold] = solution.free


def _climb(trial: Trial, candidates: Sequence[Strengths]) -> Strengths:
    """Go from the middle candidate to better neighbours, as far as they improve."""
    at = len(candidates) // 2
    while True:
        steps = [i for i in (at - 1, at, at + 1) if 0 <= i < len(candidates)]
        best = min(steps, key=lambda i: trial.loss(candidates[i]))
        if best == at:
            return candidates[at]
        at = best
