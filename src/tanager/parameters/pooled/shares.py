"""How much each member of a pool counts: fitted to held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.codes import MemoryRows
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.parameters.discriminative.folds import assign_folds, judging_folds
from tanager.parameters.pooled.members import Member
from tanager.parameters.tables import log_posterior
from tanager.progress import Progress

__all__ = ["FLOOR", "LEAST_ROWS", "HeldOut", "fit_shares", "hold_out"]

Floats = NDArray[np.float64]

N_FOLDS = 5
LEAST_ROWS = 2 * N_FOLDS  # below, held-out rows say nothing
FLOOR = -690.0  # a probability of 0 is taken for 1e-300, that no member vetoes alone
PRECISION = 100.0  # of the prior around equal shares
FOLDS_KEY = 6_102  # names the random stream of the folds


class HeldOut(NamedTuple):
    """Rows, and what every member says of them by tables that leave their fold out.

    Attributes
    ----------
    log_posteriors : ndarray of float64, shape (n_members, n_rows, n_classes)
    labels : (n_rows,)
    weights : (n_rows,)
    """

    log_posteriors: Floats
    labels: NDArray[np.uint16]
    weights: Floats

    def loss(self, shares: Floats) -> tuple[float, Floats]:
        """Return the pool's total log-loss, and its derivatives by the shares."""
        pooled = log_posterior(np.tensordot(shares, self.log_posteriors, axes=1))
        at = np.arange(self.labels.shape[0])
        residuals = np.exp(pooled)
        residuals[at, self.labels] -= 1.0
        residuals *= self.weights[:, None]
        slopes = np.einsum("mnc,nc->m", self.log_posteriors, residuals)
        return -float(self.weights @ pooled[at, self.labels]), slopes


def hold_out(members: Sequence[Member], rows: MemoryRows, context: FitContext) -> HeldOut:
    """Ask the members about held-out rows, fold by fold."""
    folds = assign_folds(rows, N_FOLDS, context.generator(FOLDS_KEY), context)
    parts = []
    for fold in judging_folds(folds):
        apart = FitContext(context.engine, context.seed, Progress(), {}, dict(context.carry))
        others = Counts(rows.take(folds != fold), apart)
        codes, labels, weights, _ = rows.take(folds == fold).gather()
        logs = np.empty((len(members), len(labels), rows.domain.n_classes))
        for at, member in enumerate(members):
            tables = member.learn(others, apart)
            joint = tables.log_joint(member.structure, codes, rows.domain.arities)
            logs[at] = np.maximum(log_posterior(joint), FLOOR)
        parts.append(HeldOut(logs, labels, np.ones(len(labels)) if weights is None else weights))
    return HeldOut(
        np.concatenate([part.log_posteriors for part in parts], axis=1),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.weights for part in parts]),
    )


def fit_shares(held_out: HeldOut) -> Floats:
    """Return the shares of least held-out loss, at least 0, with a prior around equal ones."""
    from scipy.optimize import minimize

    n_members = held_out.log_posteriors.shape[0]
    equal = np.full(n_members, 1.0 / n_members)

    def objective(shares: Floats) -> tuple[float, Floats]:
        loss, slopes = held_out.loss(shares)
        gap = shares - equal
        return loss + 0.5 * PRECISION * float(gap @ gap), slopes + PRECISION * gap

    found = minimize(
        objective, equal, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * n_members
    )
    return np.asarray(found.x, np.float64)
