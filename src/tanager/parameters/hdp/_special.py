"""Digamma, trigamma and the expected number of tables, for compiled code."""

from __future__ import annotations

import numpy as np

from tanager.numerics.compiling import kernel

# From here on six terms of the asymptotic series leave an error below 1e-13.
_ASYMPTOTIC = 8.0
# Up to this count a sum of reciprocals is cheaper than two digammas.
_SMALL_COUNT = 16.0


@kernel
def digamma_trigamma(x):
    """Return the first two derivatives of log gamma at x > 0.

    The recurrence carries x past 8, the asymptotic series of Abramowitz and
    Stegun, equations 6.3.18 and 6.4.12, does the rest.
    """
    first = 0.0
    second = 0.0
    while x < _ASYMPTOTIC:
        inverse = 1.0 / x
        first -= inverse
        second += inverse * inverse
        x += 1.0
    inverse = 1.0 / x
    square = inverse * inverse
    first += np.log(x) - 0.5 * inverse
    first -= square * (
        1.0 / 12.0
        - square
        * (1.0 / 120.0 - square * (1.0 / 252.0 - square * (1.0 / 240.0 - square * (1.0 / 132.0))))
    )
    second += inverse + 0.5 * square
    second += (
        inverse
        * square
        * (
            1.0 / 6.0
            - square
            * (1.0 / 30.0 - square * (1.0 / 42.0 - square * (1.0 / 30.0 - square * (5.0 / 66.0))))
        )
    )
    return first, second


@kernel
def expected_tables(mass, count):
    r"""Return E[t] and its derivative by log(mass), for a base mass and a count > 0.

    :math:`E[t] = a\,(\psi(a+n) - \psi(a)) = \sum_{i<n} a/(a+i)`, the mean of
    the Chinese restaurant distribution. One step of the recurrence takes the
    pole at a = 0 out of the difference, so that a tiny mass loses no digits.
    """
    if count == 1.0:
        return 1.0, 0.0
    if count <= _SMALL_COUNT and count == np.floor(count):
        tables = 1.0
        slope = 0.0
        for i in range(1, int(count)):
            share = mass / (mass + i)
            tables += share
            slope += share * (1.0 - share)
        return tables, slope
    first_high, second_high = digamma_trigamma(mass + count + 1.0)
    first_low, second_low = digamma_trigamma(mass + 1.0)
    share = count / (mass + count)
    smooth = mass * (first_high - first_low)
    slope = smooth + mass * mass * (second_high - second_low) - share * (1.0 - share)
    return smooth + share, slope
