"""The fit: scores that make the rows' classes most probable, under a ridge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.loglinear.cells import Terms
from tanager.loglinear.optimiser import Curvature, minimise
from tanager.loglinear.rows import LocatedTable
from tanager.loglinear.steps import minimise_within
from tanager.threads import one_blas_thread

__all__ = ["Fit", "Settings", "fit_scores"]

Floats = NDArray[np.float64]

LEAST_SHARE = 1e-9  # of a class without rows
CLASS_PRECISION = 1e-4  # of the class node, around the classes' shares: so an optimum exists


class Settings(NamedTuple):
    """When the optimiser stops: after so many iterations, or at so small an improvement."""

    max_iter: int = 40
    tol: float = 1e-3

    def finer(self) -> Settings:
        """Return the settings of a fit that is kept, not only judged by held-out rows."""
        return Settings(2 * self.max_iter, self.tol / 30)


class Bends(NamedTuple):
    """The curvature of an objective by scaled parameters, with its prior and the scale.

    Attributes
    ----------
    curvature : Curvature
    precision : ndarray of float64, shape (n_cells, 1)
    scale : ndarray of float64, shape (n_cells, n_columns)
    """

    curvature: Curvature
    precision: Floats
    scale: Floats

    def under(self, precision: Floats, scale: Floats) -> Curvature:
        """Return the curvature under another prior and scale: that of the loss stays.

        The loss's gradient changes along a step as it did, the prior's by its precision.
        """
        ratio = (self.scale / scale).ravel()
        stiffer = ((precision - self.precision) * self.scale * scale).ravel()
        steps, changes = self.curvature
        return Curvature(steps * ratio, changes / ratio + stiffer * steps)


class Fit(NamedTuple):
    """Fitted parameters.

    Attributes
    ----------
    free : ndarray of float64, shape (n_cells, n_columns)
    objective : float
    iterations : int
    passes : int
        Evaluations of the objective, each one pass over the rows.
    converged : bool
    bends : Bends or None
        What was found about the second derivatives.
    """

    free: Floats
    objective: float
    iterations: int
    passes: int
    converged: bool
    bends: Bends | None = None


@one_blas_thread()
def fit_scores(
    terms: Terms,
    rows: LocatedTable,
    strengths: Sequence[float],
    class_shares: Floats,
    *,
    settings: Settings,
    start: Floats | Fit | None = None,
) -> Fit:
    """Fit the parameters of terms by penalised conditional likelihood.

    Parameters
    ----------
    terms : Terms
    rows : LocatedTable
    strengths : sequence of float
        Precision of the Gaussian prior of the layers with 0, 1, ... parents.
    class_shares : ndarray of float64, shape (n_classes,)
        About the classes' shares: they scale the parameters, and the class node starts at
        their logarithms, the centre of its prior.
    settings : Settings
        When to stop.
    start : ndarray of float64, shape (n_cells, n_columns), Fit or None
        Where the optimiser starts; None is the class shares alone. From a fit of the same
        terms it also takes what that found about the second derivatives of the loss.

    Notes
    -----
    Limited-memory BFGS on parameters that are scaled by the square root of
    about their second derivative: the rows' weight in each cell, through the
    bases, and the prior. Deterministic: sums over rows are exact, so the same
    rows in any order and chunking give the same fit.
    """
    shape = (terms.n_cells, terms.n_columns)
    known = np.array([CLASS_PRECISION, *strengths])
    # Two classes share one column, each half of it: the same prior on both halves.
    precision = known[terms.depths + 1][:, None] * (0.5 if terms.n_columns == 1 else 1.0)
    scale = 1.0 / np.sqrt(_curvature(terms, class_shares) + precision)
    weighed = precision * scale * scale
    centre = np.zeros(shape)
    centre[0] = _class_node(class_shares, terms.n_columns)

    def objective(scaled: Floats) -> tuple[float, Floats]:
        given = scaled.reshape(shape)
        loss, slopes = rows.evaluate(given * scale)
        slopes *= scale
        away = given - centre / scale
        pull = weighed * away
        slopes += pull
        return loss + 0.5 * float(np.vdot(pull, away)), slopes.ravel()

    bends = None
    if isinstance(start, Fit):
        bends = start.bends
        start = start.free
    first = (centre if start is None else start) / scale
    # A step that is safe for one table is too long for the sum of many.
    first_step = 1.0 / (1.0 + len(terms.families)) ** 0.5
    if terms.steps is None:
        found = minimise(
            objective,
            first.ravel(),
            **settings._asdict(),
            first_step=first_step,
            curvature=None if bends is None else bends.under(precision, scale),
        )
    else:
        # The bounds are zero or infinite, and so are those of scaled parameters.
        bounds = terms.steps.low, terms.steps.high
        found = minimise_within(objective, first.ravel(), *bounds, **settings._asdict())
    free = found.at.reshape(shape) * scale
    bends = None if found.curvature is None else Bends(found.curvature, precision, scale)
    return Fit(free, found.value, found.iterations, found.evaluations, found.converged, bends)


def _class_node(class_shares: Floats, n_columns: int) -> Floats:
    """Return the class node's scores without features, shape (n_columns,)."""
    logs = np.log(np.maximum(class_shares, LEAST_SHARE))
    return logs[1:] - logs[:1] if n_columns == 1 else logs - logs.mean()


def _curvature(terms: Terms, class_shares: Floats) -> Floats:
    """Return about the second derivative of the loss by each parameter, (n_cells, n_columns)."""
    spread = class_shares * (1.0 - class_shares) + 0.01
    columns = spread[1:2] if terms.n_columns == 1 else spread
    return 0.5 * terms.parameter_mass()[:, None] * columns
