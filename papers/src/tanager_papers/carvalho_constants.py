"""Slope, intercept and error of the approximation of the conditional log-likelihood."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from tanager.errors import ConfigurationError
from tanager.numerics import Floats
from tanager.structure.acll import dirichlet_beta, integrate, mean_exp, uniform_beta

__all__ = [
    "Constants",
    "conditional_sampler",
    "dirichlet_constants",
    "dirichlet_sampler",
    "monte_carlo_constants",
    "uniform_constants",
]


class JointSampler(Protocol):
    """Draws from a symmetric distribution over the joint probabilities of one row."""

    def __call__(self, generator: np.random.Generator, n_samples: int, n_classes: int) -> Floats:
        """Return positive draws, shape (n_samples, n_classes)."""


class Constants(NamedTuple):
    r"""Slope and intercept of the approximation; only the slope matters to a maximum."""

    beta: float
    gamma: float
    mean: float  # of what is approximated, :math:`A = -\log \sum_c U_c`
    variance: float
    # :math:`E[(A - (\beta B + \gamma))^2] = \sigma_A^2 - \sigma_{AB}^2 / \sigma_B^2` (equation 21)
    squared_error: float

    @property
    def standard_error(self) -> float:
        """Square root of the mean squared error of the approximation."""
        return float(np.sqrt(self.squared_error))

    @property
    def unexplained(self) -> float:
        """Share of the variance that the approximation leaves: 0 where it is exact."""
        return self.squared_error / self.variance


def dirichlet_constants(n_classes: int, a: float, b: float) -> Constants:
    """Return the constants under Dir(a, ..., a, b), in closed form."""
    from scipy.special import digamma, polygamma

    s, beta = n_classes, dirichlet_beta(n_classes, a, b)
    rest = polygamma(1, s * a + b)
    mean = digamma(s * a + b) - digamma(s * a)
    gamma = mean - beta * s * (digamma(a) - digamma(s * a + b))
    variance = polygamma(1, s * a) - rest
    squared_error = variance - beta**2 * s * (polygamma(1, a) - s * rest)
    return Constants(beta, *map(float, (gamma, mean, variance, squared_error)))


def uniform_constants(n_classes: int) -> Constants:
    """Return the constants under the uniform distribution on the unit cube."""
    beta = uniform_beta(n_classes)
    mean_log_sum = integrate(lambda t: (np.exp(-t) - mean_exp(t) ** n_classes) / t)
    variance = _variance_of_log_sum(n_classes, mean_log_sum)
    squared_error = variance - beta**2 * n_classes  # log U has variance 1
    return Constants(beta, beta * n_classes - mean_log_sum, -mean_log_sum, variance, squared_error)


def _variance_of_log_sum(n_classes: int, mean: float) -> float:
    r"""Return the variance of log S, S the sum of `n_classes` uniform numbers.

    From :math:`E[S^{-p}] = -\int_0^\infty t^p \, d\varphi(t)^s / \Gamma(1 + p)`,
    differentiated twice at p = 0.
    """

    def density(t: float) -> float:
        slope = (
            (np.exp(-t) * (1 + t) - 1) / t**2
            if t > 0.1
            else -(1 / 2 - t * (1 / 3 - t * (1 / 8 - t * (1 / 30 - t * (1 / 144 - t / 840)))))
        )
        return float(-n_classes * mean_exp(t) ** (n_classes - 1) * slope)

    second = integrate(lambda t: np.log(t) ** 2 * density(t))
    first = -mean - np.euler_gamma
    constant = np.euler_gamma**2 - np.pi**2 / 6
    return float(second + 2 * np.euler_gamma * first + constant - mean**2)


def monte_carlo_constants(
    sampler: JointSampler, n_classes: int, n_samples: int, generator: np.random.Generator
) -> Constants:
    """Estimate the constants of any symmetric distribution by regression of A on B over draws.

    A is the negative log of a draw's sum, B the sum of its logs.
    """
    draws = np.asarray(sampler(generator, n_samples, n_classes), np.float64)
    if draws.shape != (n_samples, n_classes) or not (draws > 0).all():
        raise ConfigurationError(
            f"The sampler gave draws of shape {draws.shape}, smallest {draws.min(initial=np.inf)}; "
            f"it must give positive draws of shape {(n_samples, n_classes)}, one row per draw."
        )
    a, b = -np.log(draws.sum(axis=1)), np.log(draws).sum(axis=1)
    centred = b - b.mean()
    beta = float(centred @ (a - a.mean()) / (centred @ centred))
    gamma = float(a.mean() - beta * b.mean())
    squared_error = float(np.mean((a - beta * b - gamma) ** 2))
    return Constants(beta, gamma, float(a.mean()), float(a.var()), squared_error)


def dirichlet_sampler(a: float, b: float) -> JointSampler:
    """Return a sampler of Dir(a, ..., a, b) by Gamma draws (algorithm 2)."""

    def draw(generator: np.random.Generator, n_samples: int, n_classes: int) -> Floats:
        gammas = generator.gamma(a, size=(n_samples, n_classes))
        rest = generator.gamma(b, size=(n_samples, 1))
        draws: Floats = gammas / (gammas.sum(axis=1, keepdims=True) + rest)
        return draws

    return draw


def conditional_sampler(quantile: Callable[[Floats, Floats], Floats]) -> JointSampler:
    """Return a sampler that draws one component after the other (algorithm 1).

    ``quantile(u, earlier)`` inverts the distribution function of the next component given the
    `earlier` ones, (n_samples, number so far), at uniform `u`, (n_samples,).
    """

    def draw(generator: np.random.Generator, n_samples: int, n_classes: int) -> Floats:
        draws = np.empty((n_samples, n_classes))
        for c in range(n_classes):
            draws[:, c] = quantile(1.0 - generator.random(n_samples), draws[:, :c])
        return draws

    return draw
