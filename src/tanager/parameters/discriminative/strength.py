"""How strong the priors are: given, or chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tanager.parameters.discriminative.problem import Problem

__all__ = ["L2_GRID", "Strengths", "choose_strengths"]

Floats = NDArray[np.float64]

# From "the prior decides" to "the rows decide", so that each fit starts near
# the one before it.
L2_GRID = tuple(10.0**power for power in (4, 3, 2, 1, 0, -1, -2))
CORRECTION_GRID = tuple(10.0**power for power in (3, 2, 1.5, 1, 0.5, 0, -1))


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
    """Return the candidate with the least loss over the held-out folds; the first of equals."""
    losses = np.zeros(len(candidates))
    for fold in range(problem.n_folds):
        form, train, score = problem.held_out(fold)
        held_out = problem.objective(form, score, None)
        start: Floats | None = None
        for at, strengths in enumerate(candidates):
            solution = problem.solve(form, train, strengths, start=start)
            start = solution.free
            losses[at] += held_out.loss(solution.free)
    return candidates[int(np.argmin(losses))]
