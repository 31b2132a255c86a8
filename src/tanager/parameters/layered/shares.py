"""How much each member of a pool counts: fitted to held-out rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.parameters.folds import N_FOLDS
from tanager.parameters.tables import log_posterior

__all__ = ["FLOOR", "LEAST_ROWS", "HeldOut", "fit_shares"]

Floats = NDArray[np.float64]

LEAST_ROWS = 2 * N_FOLDS  # below, held-out rows say nothing
FLOOR = -690.0  # a probability of 0 is taken for 1e-300, that no member vetoes alone
PRECISION = 100.0  # of the prior around equal shares


class HeldOut(NamedTuple):
    """Rows, and what every member says of them by tables that leave their fold out.

    Attributes
    ----------
    log_posteriors : ndarray of float64, shape (n_members, n_rows, n_classes)
    labels : (n_rows,)
    weights : (n_rows,)
    log_shares : ndarray of float64, shape (n_rows, n_classes)
        The logarithms of the classes' shares in the other folds: what the pool says of a row
        where no member has a share.
    """

    log_posteriors: Floats
    labels: NDArray[np.uint16]
    weights: Floats
    log_shares: Floats

    def loss(self, shares: Floats) -> tuple[float, Floats]:
        """Return the pool's total log-loss, and its derivatives by the shares."""
        # Sums by einsum, not by BLAS: the same whatever its number of threads.
        pooled = np.einsum("mnc,m->nc", self.log_posteriors, shares)
        pooled += (1.0 - shares.sum()) * self.log_shares
        pooled = log_posterior(pooled)
        at = np.arange(self.labels.shape[0])
        residuals = np.exp(pooled)
        residuals[at, self.labels] -= 1.0
        residuals *= self.weights[:, None]
        slopes = np.einsum("mnc,nc->m", self.log_posteriors, residuals)
        slopes -= np.einsum("nc,nc->", self.log_shares, residuals)
        return -float((self.weights * pooled[at, self.labels]).sum()), slopes

    def mean_loss(self, shares: Floats) -> float:
        """Return the pool's log-loss."""
        return self.loss(shares)[0] / float(self.weights.sum())


def fit_shares(held_out: HeldOut) -> Floats:
    """Return the shares of least held-out loss, at least 0, with a prior around equal ones.

    Where the pool predicts worse than the class shares alone, all of them are made smaller, down
    to the best share of what the members say.
    """
    from scipy.optimize import minimize, minimize_scalar

    n_members = held_out.log_posteriors.shape[0]
    equal = np.full(n_members, 1.0 / n_members)

    def objective(shares: Floats) -> tuple[float, Floats]:
        loss, slopes = held_out.loss(shares)
        gap = shares - equal
        return loss + 0.5 * PRECISION * float(gap @ gap), slopes + PRECISION * gap

    found = minimize(
        objective, equal, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * n_members
    )
    shares = np.asarray(found.x, np.float64)
    if held_out.loss(shares)[0] <= held_out.loss(0.0 * shares)[0]:
        return shares
    part = minimize_scalar(lambda part: held_out.loss(part * shares)[0], bounds=(0.0, 1.0))
    better = float(part.fun) < held_out.loss(0.0 * shares)[0]
    return shares * (float(part.x) if better else 0.0)
