r"""The constants of the approximate conditional log-likelihood.

With :math:`U_c = P(x, c)` the approximation replaces
:math:`A = -\log \sum_c U_c` by :math:`\beta B + \gamma`, where
:math:`B = \sum_c \log U_c`. Least squares over a symmetric distribution of
:math:`(U_1, \dots, U_s)` gives :math:`\beta = \mathrm{cov}(A, B) / \mathrm{var}(B)`
and :math:`\gamma = E[A - \beta B]` (theorem 3.2). Natural logarithms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tanager.errors import ConfigurationError

Floats = NDArray[np.float64]


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


class JointSampler(Protocol):
    """Draws from a symmetric distribution of the joint probabilities of one row."""

    def __call__(self, generator: np.random.Generator, n_samples: int, n_classes: int) -> Floats:
        """Return positive draws, shape (n_samples, n_classes)."""


def dirichlet_constants(n_classes: int, a: float, b: float) -> Constants:
    r"""Return the constants under Dir(a, ..., a, b), in closed form.

    The paper draws them by Monte Carlo, but covariances of log-Dirichlet
    variables are trigamma functions, and the sum of the first s components is
    Beta(sa, b):

    .. math:: \beta = -\frac{\psi'(sa) - \psi'(sa + b)}{\psi'(a) - s\,\psi'(sa + b)}

    >>> round(dirichlet_constants(2, 1, 1000).beta, 5)
    -0.39194
    """
    from scipy.special import digamma, polygamma

    s = n_classes
    rest = polygamma(1, s * a + b)
    beta = -(polygamma(1, s * a) - rest) / (polygamma(1, a) - s * rest)
    mean = digamma(s * a + b) - digamma(s * a)
    gamma = mean - beta * s * (digamma(a) - digamma(s * a + b))
    variance = polygamma(1, s * a) - rest
    squared_error = variance - beta**2 * s * (polygamma(1, a) - s * rest)
    return Constants(*map(float, (beta, gamma, mean, variance, squared_error)))


def uniform_constants(n_classes: int) -> Constants:
    r"""Return the constants under the uniform distribution on the unit cube.

    :math:`\beta` does not depend on the cube's size; :math:`\gamma` is for side
    one. Closed forms for two classes (equation 13) and three (example 3.4, whose
    printed form lacks the sign in front); for more, with
    :math:`\log S = \int_0^\infty (e^{-t} - e^{-tS}) \, dt / t`,

    .. math::
        \beta = -\int_0^\infty \varphi(t)^{s-1}
            \left[\frac{\mathrm{Ein}(t)}{t} - \varphi(t)\right] \frac{dt}{t},
        \qquad \varphi(t) = \frac{1 - e^{-t}}{t},

    one smooth integral whatever the number of classes.

    >>> [round(uniform_constants(s).beta, 8) for s in (2, 3, 10)]
    [-0.33876648, -0.20017316, -0.05240725]
    """
    if n_classes == 2:
        beta = (np.pi**2 - 18) / 24
    elif n_classes == 3:
        beta = _ternary_uniform_beta()
    else:
        beta = -_integrate(lambda t: _mean_exp(t) ** (n_classes - 1) * _log_excess(t) / t)
    mean_log_sum = _integrate(lambda t: (np.exp(-t) - _mean_exp(t) ** n_classes) / t)
    variance = _variance_of_log_sum(n_classes, mean_log_sum)
    squared_error = variance - beta**2 * n_classes  # log U has variance 1
    gamma = beta * n_classes - mean_log_sum
    return Constants(*map(float, (beta, gamma, -mean_log_sum, variance, squared_error)))


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
        return float(-n_classes * _mean_exp(t) ** (n_classes - 1) * slope)

    second = _integrate(lambda t: np.log(t) ** 2 * density(t))
    first = -mean - np.euler_gamma
    constant = np.euler_gamma**2 - np.pi**2 / 6
    return float(second + 2 * np.euler_gamma * first + constant - mean**2)


def _ternary_uniform_beta() -> float:
    from scipy.special import spence  # spence(z) = Li2(1 - z)

    log2, log3 = np.log(2), np.log(3)
    dilogarithms = 72 * spence(3.0) + 24 * spence(0.75)  # 72 Li2(-2) + 24 Li2(1/4)
    inner = -11 + 9 * log3 - 12 * log2 + 60 * log2**2 + dilogarithms
    return float(15 * np.pi**2 + 2 * inner) / 36


def _mean_exp(t: float) -> float:
    """Return E[exp(-tU)] for U uniform on [0, 1]."""
    return float(-np.expm1(-t) / t)


def _log_excess(t: float) -> float:
    """Return Ein(t)/t - E[exp(-tU)], by its series near zero, where it is t/4 - t²/9 + ..."""
    from scipy.special import exp1

    if t < 0.1:
        return t * (1 / 4 - t * (1 / 9 - t * (1 / 32 - t * (1 / 150 - t * (1 / 864 - t / 5880)))))
    return float((np.euler_gamma + np.log(t) + exp1(t)) / t) - _mean_exp(t)


def _integrate(function: Callable[[float], float]) -> float:
    """Integrate over (0, inf), split where the integrands change their character."""
    from scipy.integrate import quad

    ends = (0.0, 1.0, 10.0, 100.0)
    pieces = [
        quad(function, low, high, epsabs=1e-13, epsrel=1e-12, limit=200)[0]
        for low, high in zip(ends, (*ends[1:], np.inf), strict=True)
    ]
    return float(np.sum(pieces))


def monte_carlo_constants(
    sampler: JointSampler, n_classes: int, n_samples: int, generator: np.random.Generator
) -> Constants:
    """Estimate the constants of any symmetric distribution from draws.

    Simple linear regression of A on B (step 5 of algorithm 1, step 7 of
    algorithm 2). The standard error falls with the square root of `n_samples`.
    """
    draws = np.asarray(sampler(generator, n_samples, n_classes), np.float64)
    if draws.shape != (n_samples, n_classes) or not (draws > 0).all():
        raise ConfigurationError(
            f"The sampler gave draws of shape {draws.shape}, smallest {draws.min(initial=np.inf)}; "
            f"it must give positive draws of shape {(n_samples, n_classes)}, one row a draw."
        )
    a = -np.log(draws.sum(axis=1))
    b = np.log(draws).sum(axis=1)
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

    quantile: ``quantile(u, earlier)`` inverts the distribution function of the next component given
        the `earlier` ones, at `u` (n_samples,), uniform on (0, 1); `earlier` has shape (n_samples,
        number drawn so far).
    """

    def draw(generator: np.random.Generator, n_samples: int, n_classes: int) -> Floats:
        draws = np.empty((n_samples, n_classes))
        for c in range(n_classes):
            draws[:, c] = quantile(1.0 - generator.random(n_samples), draws[:, :c])
        return draws

    return draw
