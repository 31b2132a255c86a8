r"""Estimate class shares and calibration of the rows that a model scores.

The class shares of rows without labels are estimated by EM on the prior: with posteriors
:math:`p_{rc}` under the shares :math:`\pi^0`, the shares :math:`\pi` that maximise
:math:`\sum_r \log \sum_c p_{rc} \pi_c / \pi^0_c`. EM is slow if classes are hard to distinguish:
SQUAREM extrapolates its steps.

References
----------
M. Saerens, P. Latinne and C. Decaestecker (2002). Adjusting the outputs of a classifier to new a
priori probabilities: a simple procedure. Neural Computation 14(1), 21-41.
doi:10.1162/089976602753284446

R. Varadhan and C. Roland (2008). Simple and globally convergent methods for accelerating the
convergence of any EM algorithm. Scandinavian Journal of Statistics 35(2), 335-353.
doi:10.1111/j.1467-9469.2007.00585.x
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tanager.numerics import Floats

STILL = 1e-9  # change in a share or calibration that counts as converged


def estimate_shares(posteriors: Floats, assumed: Floats, n_steps: int = 500) -> Floats:
    """Return the class shares of rows without labels, by EM on the prior.

    `posteriors`, (n_rows, n_classes), assume the shares `assumed`; `n_steps` is the largest number
    of extrapolated steps.

    >>> posteriors = np.array([[0.9, 0.1]] * 30 + [[0.1, 0.9]] * 70)
    >>> estimate_shares(posteriors, np.array([0.5, 0.5])).round(3)
    array([0.25, 0.75])
    """
    ratios = posteriors / np.where(assumed > 0, assumed, np.inf)

    def step(shares: Floats) -> Floats:
        total = np.maximum(ratios @ shares, 1e-300)
        return np.asarray(shares * ((1.0 / total) @ ratios) / len(ratios))

    shares = np.array(assumed, np.float64)
    for _ in range(n_steps):
        once = step(shares)
        twice = step(once)
        change, bend = once - shares, twice - 2 * once + shares
        if np.abs(change).max() < STILL:
            break
        ratio = np.linalg.norm(change).item() / max(np.linalg.norm(bend).item(), 1e-300)
        length = min(max(1.0, ratio), 1e3)
        far = shares + 2 * length * change + length**2 * bend
        # An extrapolation beyond the simplex isn't a distribution, so use the plain step.
        shares = step(far / far.sum()) if (far > 0).all() else twice
    return shares


def log_likelihood_of(shares: Floats, posteriors: Floats, assumed: Floats) -> float:
    """Return the log-likelihood of class shares, up to a constant."""
    ratios = posteriors / np.where(assumed > 0, assumed, np.inf)
    return float(np.log(np.maximum(ratios @ shares, 1e-300)).sum())


class Recalibration(NamedTuple):
    """Relates observed classes to predicted probabilities: logit q = intercept + slope logit p."""

    intercept: float
    slope: float

    def apply(self, p: Floats) -> Floats:
        """Return the probabilities q."""
        return _expit(self.intercept + self.slope * _logit(p))


def _inside(p: Floats) -> Floats:
    return np.clip(p, 1e-9, 1 - 1e-9)


def _logit(p: Floats) -> Floats:
    inside = _inside(p)
    return np.log(inside) - np.log1p(-inside)


def _expit(logits: Floats) -> Floats:
    return np.exp(-np.logaddexp(0.0, -logits))


def recalibrate(p: Floats, hit: Floats, weights: Floats | None = None) -> Recalibration:
    """Return Cox's recalibration of the probabilities of one class, by Newton's method.

    `hit` is 1 if the row is of the class, otherwise 0. A normal prior around (0, 1) with the weight
    of about one row keeps it finite if the probabilities separate the classes.
    """
    w = np.ones(len(p)) if weights is None else weights / max(float(weights.mean()), 1e-300)
    design = np.column_stack([np.ones(len(p)), _logit(p)])
    ideal = np.array([0.0, 1.0])
    at = ideal
    for _ in range(50):
        q = _expit(design @ at)
        slope = design.T @ (w * (hit - q)) - (at - ideal)
        curvature = (design * (w * q * (1 - q))[:, None]).T @ design + np.eye(2)
        change = np.linalg.solve(curvature, slope)
        at = at + np.clip(change, -1.0, 1.0)
        if np.abs(change).max() < STILL:
            break
    return Recalibration(float(at[0]), float(at[1]))


def calibration_test(p: Floats, hit: Floats) -> tuple[float, float]:
    """Return the score test statistic (two degrees of freedom) for calibration of p, and effect.

    The alternative is Cox's recalibration; the effect is how far it moves p on average.
    """
    p = _inside(p)
    design = np.column_stack([np.ones(len(p)), _logit(p)])
    slope = design.T @ (hit - p)
    curvature = (design * (p * (1 - p))[:, None]).T @ design + 1e-9 * np.eye(2)
    statistic = float(slope @ np.linalg.solve(curvature, slope))
    return statistic, float(np.abs(recalibrate(p, hit).apply(p) - p).mean())
