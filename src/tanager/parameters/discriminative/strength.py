"""How strong the priors are: given, or chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from tanager.parameters.discriminative.problem import Problem

__all__ = ["L2_GRID", "Strengths", "choose_strengths"]

# From "the prior decides" to "the rows decide", so that each fit starts near
# the one before it.
L2_GRID = tuple(10.0**power for power in (4, 3, 2, 1, 0, -1, -2))
CORRECTION_GRID = tuple(10.0**power for power in (3, 2, 1.5, 1, 0.5, 0, -1))

PATIENCE = 2


class Strengths(NamedTuple):
    """Precisions of the Gaussian priors on weights or scores, and on corrections."""

    l2: float
    correction: float


def choose_strengths(problem: Problem) -> Strengths:
    """Return the priors' strengths; those given as "cv" have the least held-out loss.

    With both to choose, the correction's is chosen first, under the middle
    strength of the other, then the other under it: a sum of fits, not a product.
    """
    options = problem.options
    l2, correction = options.l2, options.correction
    fixed = Strengths(
        1.0 if isinstance(l2, str) else float(l2),
        0.0 if isinstance(correction, str) or correction is None else float(correction),
    )
    if correction == "cv":
        fixed = _best(problem, [fixed._replace(correction=s) for s in CORRECTION_GRID])
    if l2 == "cv":
        fixed = _best(problem, [fixed._replace(l2=s) for s in L2_GRID])
    return fixed


def _best(problem: Problem, candidates: Sequence[Strengths]) -> Strengths:
    """Return the candidate with the least loss over the held-out folds; the first of equals.

    Candidates go from strong to weak priors; each fold's fit starts from the one
    before. The search ends once two in a row have not improved on the best.
    """
    parts = [problem.held_out(fold) for fold in range(problem.n_folds)]
    trained = [problem.start(form) for form, _, _ in parts]
    losses: list[float] = []
    for strengths in candidates:
        total = 0.0
        for fold, (form, train, score) in enumerate(parts):
            solution = problem.solve(form, train, strengths, start=trained[fold], rough=True)
            trained[fold] = solution.free
            total += problem.objective(form, score, None).loss(solution.free)
        losses.append(total)
        if len(losses) > PATIENCE and min(losses) < min(losses[-PATIENCE:]):
            break
    return candidates[int(np.argmin(losses))]
