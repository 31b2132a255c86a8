"""The fit: scores that make the rows' classes most probable, under a ridge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.additive.terms import Terms, by_class
from tanager.threads import one_blas_thread

__all__ = ["Fit", "LocatedRows", "Settings", "fit_scores", "log_joint"]

Floats = NDArray[np.float64]

CLASS_PRECISION = 1e-3  # of the class node: enough that an optimum exists
CORRECTIONS = 10  # of L-BFGS-B: pairs of steps and gradients it remembers


class LocatedRows(NamedTuple):
    """Rows as cells of some terms.

    Attributes
    ----------
    cells : (n_rows, n_families) of uint16
        As `Terms.locate` has them.
    labels : (n_rows,)
    weights : (n_rows,), or empty where every weight is one
    """

    cells: NDArray[np.uint16]
    labels: NDArray[np.uint16]
    weights: Floats

    @property
    def total_weight(self) -> float:
        """The sum of the rows' weights."""
        return float(self.weights.sum() if self.weights.size else self.labels.shape[0])


class Settings(NamedTuple):
    """When the optimiser stops: after so many iterations, or at so small an improvement."""

    max_iter: int = 40
    tol: float = 3e-4

    def finer(self) -> Settings:
        """Return the settings of a fit that is kept, not only judged by held-out rows."""
        return Settings(2 * self.max_iter, self.tol / 10)


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
    """

    free: Floats
    objective: float
    iterations: int
    passes: int
    converged: bool


@one_blas_thread()
def fit_scores(
    terms: Terms,
    rows: LocatedRows,
    strengths: Sequence[float],
    *,
    start: Floats | None = None,
    settings: Settings | None = None,
) -> Fit:
    """Fit the parameters of terms by penalised conditional likelihood.

    Parameters
    ----------
    terms : Terms
    rows : LocatedRows
    strengths : sequence of float
        Precision of the Gaussian prior of the layers with 0, 1, ... parents.
    start : ndarray of float64, shape (n_cells, n_columns), or None
        Where the optimiser starts; None is zero.
    settings : Settings or None
        When to stop; None is the defaults.

    Notes
    -----
    L-BFGS-B on parameters that are scaled by the square root of a bound on
    their second derivative: the rows' weight in each cell, through the bases,
    and the prior. Deterministic: the same rows in the same order, the same fit.
    """
    from scipy.optimize import minimize

    settings = settings or Settings()
    n_columns = terms.n_columns
    known = np.array([CLASS_PRECISION, *strengths])
    # Two classes share one column, each half of it: the same prior on both halves.
    precision = known[terms.depths + 1][:, None] * (0.5 if n_columns == 1 else 1.0)
    scale = 1.0 / np.sqrt(_curvature(terms, rows) + precision)
    slopes, loss = np.empty((terms.n_cells, n_columns)), np.empty(1)

    def objective(scaled: Floats) -> tuple[float, Floats]:
        free = scaled.reshape(terms.n_cells, n_columns) * scale
        scores = terms.expand(free)
        native.evaluate_sums(
            rows.cells, terms.starts, rows.labels, rows.weights, scores, slopes, loss
        )
        gradient = terms.pull(slopes) + precision * free
        penalty = 0.5 * float((precision * free * free).sum())
        return float(loss[0]) + penalty, (gradient * scale).ravel()

    first = np.zeros((terms.n_cells, n_columns)) if start is None else start
    options = {
        "maxiter": settings.max_iter,
        "ftol": settings.tol,
        "gtol": 1e-6,
        "maxcor": CORRECTIONS,
    }
    found = minimize(
        objective, (first / scale).ravel(), jac=True, method="L-BFGS-B", options=options
    )
    free = found.x.reshape(terms.n_cells, n_columns) * scale
    return Fit(free, float(found.fun), int(found.nit), int(found.nfev), bool(found.status == 0))


def log_joint(terms: Terms, cells: NDArray[np.uint16], free: Floats) -> Floats:
    """Return the sum of each row's scores, (n_rows, n_classes), less what all classes share."""
    out = np.empty((cells.shape[0], terms.n_columns))
    native.add_sums(cells, terms.starts, terms.expand(free), out)
    return by_class(out)


def _curvature(terms: Terms, rows: LocatedRows) -> Floats:
    """Return about the second derivative of the loss by each parameter, (n_cells, n_columns)."""
    weights = rows.weights if rows.weights.size else None
    mass = np.zeros(terms.n_cells)
    mass[0] = rows.total_weight
    for at, start in enumerate(terms.starts):
        counts = np.bincount(rows.cells[:, at], weights)
        mass[start : start + counts.shape[0]] += counts
    shares = np.bincount(rows.labels, weights, max(terms.domain.n_classes, 2)) / max(mass[0], 1.0)
    spread = shares * (1.0 - shares) + 0.01
    columns = spread[1:2] if terms.n_columns == 1 else spread
    return 0.5 * terms.pull_mass(mass)[:, None] * columns
