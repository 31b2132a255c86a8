r"""Losses of the log-joint, minimised by gradient training.

A loss is any callable ``loss(log_joint, y) -> (value, gradient)``: `log_joint`, float64 of shape
(n_rows, n_classes), holds :math:`\log p(x_r, c)` of a mini-batch, `y`, integers of shape (n_rows,),
the true classes; `value` is the mean over the rows, and `gradient`, with the shape of `log_joint`,
its derivative. The losses here also have ``rows(log_joint, y) -> (values, gradients)``, the same
per row, so that row weights are applied exactly. Equations are those of Roth and Pernkopf (2020),
Differentiable TAN structure learning for Bayesian network classifiers, PMLR 138 (PGM 2020).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from tanager.errors import invalid
from tanager.numerics import Floats

__all__ = [
    "ConditionalLogLikelihood",
    "HybridMargin",
    "Margin",
    "NegativeLogLikelihood",
    "RankedProbability",
    "RowLoss",
]

Labels = NDArray[np.integer]
Loss = Callable[[Floats, Labels], tuple[float, Floats]]


class RowLoss(ABC):
    """A loss that is the mean of one term per row."""

    @abstractmethod
    def rows(self, log_joint: Floats, y: Labels) -> tuple[Floats, Floats]:
        """Return each row's loss (n_rows,) and its gradient (n_rows, n_classes)."""

    def __call__(self, log_joint: Floats, y: Labels) -> tuple[float, Floats]:
        """Return the mean loss and its gradient (n_rows, n_classes)."""
        values, gradients = self.rows(log_joint, y)
        return float(values.mean()), gradients / values.shape[0]


@dataclass(frozen=True)
class NegativeLogLikelihood(RowLoss):
    r"""Generative: :math:`-\log p(x, c)` of the true class (equation 5).

    Minimised by relative frequencies. Choose it to model the table rather than the class.

    Examples
    --------
    >>> value, gradient = NegativeLogLikelihood()(np.log([[0.1, 0.2]]), np.array([1]))
    >>> round(value, 4), gradient.tolist()
    (1.6094, [[0.0, -1.0]])
    """

    def rows(self, log_joint: Floats, y: Labels) -> tuple[Floats, Floats]:
        """Return each row's loss and its gradient."""
        at, gradient = np.arange(y.shape[0]), np.zeros_like(log_joint)
        gradient[at, y] = -1.0
        return -log_joint[at, y], gradient


@dataclass(frozen=True)
class ConditionalLogLikelihood(RowLoss):
    r"""Discriminative: :math:`-\log p(c \mid x)` of the true class, the log-loss.

    Choose it for calibrated posteriors.

    Examples
    --------
    >>> value, gradient = ConditionalLogLikelihood()(np.log([[0.1, 0.3]]), np.array([1]))
    >>> round(value, 4), gradient.round(2).tolist()
    (0.2877, [[0.25, -0.25]])
    """

    def rows(self, log_joint: Floats, y: Labels) -> tuple[Floats, Floats]:
        """Return each row's loss and its gradient."""
        at = np.arange(y.shape[0])
        shifted = log_joint - log_joint.max(axis=1, keepdims=True)
        gradient = np.exp(shifted)
        total = gradient.sum(axis=1)
        gradient /= total[:, None]
        gradient[at, y] -= 1.0
        return np.log(total) - shifted[at, y], gradient


@dataclass(frozen=True)
class Margin(RowLoss):
    r"""Discriminative: the shortfall of the probabilistic margin (equations 6 and 7).

    .. math:: \max\bigl(0,\ \gamma - \log p(x, t)
              + \tfrac1\eta \log \sum_{c \ne t} p(x, c)^\eta\bigr)

    for true class t. Rows that are correct by the margin :math:`\gamma` (in
    nats) have zero gradient; choose it for few errors rather than for calibration.

    Parameters
    ----------
    gamma : float, default=1
        Desired log-margin, positive.
    eta : float, default=1
        Sharpness of the soft maximum over the other classes, at least 1; 1 sums over them.

    Examples
    --------
    >>> value, gradient = Margin(gamma=1.0)(np.log([[0.1, 0.2]]), np.array([1]))
    >>> round(value, 4), gradient.tolist()
    (0.3069, [[1.0, -1.0]])
    """

    gamma: float = 1.0
    eta: float = 1.0

    def __post_init__(self) -> None:
        if not (isinstance(self.gamma, Real) and self.gamma > 0):
            raise invalid("gamma", self.gamma, "a positive margin in nats")
        if not (isinstance(self.eta, Real) and self.eta >= 1):
            raise invalid("eta", self.eta, "1 or more; the larger, the closer to a maximum")

    def rows(self, log_joint: Floats, y: Labels) -> tuple[Floats, Floats]:
        """Return each row's loss and its gradient."""
        at = np.arange(y.shape[0])
        true = log_joint[at, y]
        if log_joint.shape[1] == 1:
            return np.zeros_like(true), np.zeros_like(log_joint)
        rivals = self.eta * log_joint
        rivals[at, y] = -np.inf
        top = rivals.max(axis=1)
        rivals -= top[:, None]
        gradient = np.exp(rivals, out=rivals)
        total = gradient.sum(axis=1)
        shortfall = self.gamma - true + (top + np.log(total)) / self.eta
        active = shortfall > 0
        gradient *= (active / total)[:, None]
        gradient[at, y] -= active
        return np.where(active, shortfall, 0.0), gradient


@dataclass(frozen=True)
class HybridMargin(RowLoss):
    r"""A combination of generative and discriminative loss (equation 8).

    :math:`-\log p(x, t) + \lambda` times the `Margin` loss. The likelihood keeps the tables near
    probabilities and regularises; the margin improves accuracy.

    Parameters
    ----------
    lambda_ : float, default=10
        Weight of the margin, non-negative; 0 is `NegativeLogLikelihood`.
    gamma : float, default=1
    eta : float, default=10
        As in `Margin`.

    Notes
    -----
    The defaults did best by error and log-loss combined on held-out rows of 38 small tables
    (docs/measurements/differentiable-defaults.md). For the error alone, and on letters and digits
    with thousands of rows, larger ones did better, such as ``HybridMargin(100, 20, 10)`` with a
    learning rate of 0.1, `share`, `average=0.5` and `decay=0.1`
    (docs/measurements/differentiable.md): use `tune`, or start from those.

    Examples
    --------
    >>> value, gradient = HybridMargin(2.0, gamma=1.0)(np.log([[0.1, 0.2]]), np.array([1]))
    >>> round(value, 4), gradient.tolist()
    (2.2231, [[2.0, -3.0]])
    """

    lambda_: float = 10.0
    gamma: float = 1.0
    eta: float = 10.0

    def __post_init__(self) -> None:
        if not (isinstance(self.lambda_, Real) and self.lambda_ >= 0):
            raise invalid("lambda_", self.lambda_, "0, the likelihood alone, or more")
        Margin(self.gamma, self.eta)

    def rows(self, log_joint: Floats, y: Labels) -> tuple[Floats, Floats]:
        """Return each row's loss and its gradient."""
        values, gradient = Margin(self.gamma, self.eta).rows(log_joint, y)
        at = np.arange(y.shape[0])
        values *= self.lambda_
        gradient *= self.lambda_
        values -= log_joint[at, y]
        gradient[at, y] -= 1.0
        return values, gradient


@dataclass(frozen=True)
class RankedProbability(RowLoss):
    r"""The ranked probability score, for ordered classes.

    :math:`\sum_k (P(c \le k \mid x) - [y \le k])^2`, a proper score that takes into account
    how far off the predicted classes are. Classes are in the order of their codes, see
    ``classes_ordered`` of `BayesNetClassifier`.

    References
    ----------
    E. S. Epstein (1969), "A scoring system for probability forecasts of ranked categories",
    Journal of Applied Meteorology 8.

    Examples
    --------
    >>> near, _ = RankedProbability()(np.log([[0.1, 0.7, 0.2]]), np.array([2]))
    >>> far, _ = RankedProbability()(np.log([[0.7, 0.1, 0.2]]), np.array([2]))
    >>> round(near, 2), round(far, 2)
    (0.65, 1.13)
    """

    def rows(self, log_joint: Floats, y: Labels) -> tuple[Floats, Floats]:
        """Return each row's loss and its gradient."""
        chances = np.exp(log_joint - log_joint.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        gaps = np.cumsum(chances, axis=1) - (np.arange(log_joint.shape[1]) >= y[:, None])
        # d/dp_c of the sum is twice the sum of the gaps from c on; then through the softmax.
        by_chance = 2.0 * np.cumsum(gaps[:, ::-1], axis=1)[:, ::-1]
        mean = (chances * by_chance).sum(axis=1, keepdims=True)
        return (gaps * gaps).sum(axis=1), chances * (by_chance - mean)


_LOSSES: dict[str, Callable[[], Loss]] = {
    "nll": NegativeLogLikelihood,
    "cll": ConditionalLogLikelihood,
    "margin": Margin,
    "hybrid": HybridMargin,
    "rps": RankedProbability,
}


def resolve_loss(loss: str | Mapping[str, float] | Loss) -> Loss:
    """Turn a name ('nll', 'cll', 'margin', 'hybrid', 'rps') into a loss; return a callable as is.

    A mapping, such as ``{"lambda_": 100.0, "gamma": 20.0}``, is a `HybridMargin` with those
    parameters, for options given as text.
    """
    if isinstance(loss, str) and loss in _LOSSES:
        return _LOSSES[loss]()
    if isinstance(loss, Mapping):
        try:
            return HybridMargin(**loss)
        except TypeError as error:
            raise invalid("loss", loss, f"lambda_, gamma and eta ({error})") from error
    if callable(loss):
        return loss
    names = ", ".join(map(repr, _LOSSES))
    raise invalid("loss", loss, f"{names}, or any callable loss(log_joint, y) -> (value, gradient)")
