"""Exponentials and logarithms of arrays, without branches or calls in their loops.

A loop over np.exp or np.log1p calls a scalar routine; these are vectorised, three
and six times as fast. The arrays given to one call must not overlap: a loop that
finds them overlapping runs on one number at a time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

# exp(x) = 2^k exp(r) with |r| <= log(2)/2. Adding 1.5 * 2^52 rounds to an integer
# and leaves it in the low bits.
LOG2_E = 1.4426950408889634
LOG_2 = 0.6931471805599453
LOG_2_HIGH = 6.93147180369123816490e-01
LOG_2_LOW = 1.90821492927058770002e-10
ROUNDER = 6755399441055744.0
LEAST = -700.0

MANTISSA_BITS = np.uint64(52)
ROOT_HALF = np.uint64(0x3FE6A09E667F3BCD)  # the bits of sqrt(1/2)
TWO_52 = np.uint64(0x4330000000000000)  # the bits of 2^52, whose lowest bits count units


@njit(nogil=True, cache=True)
def exponentials(values, out, powers):
    """Write exp(values) to out, within 4 units in the last place; powers is work space.

    Values are at most 700, and those below -700 count as -700. The polynomial is
    Taylor's, to degree 13.
    """
    bits = powers.view(np.int64)
    for k in range(values.shape[0]):
        value = max(values[k], LEAST)
        rounded = value * LOG2_E + ROUNDER
        whole = rounded - ROUNDER
        r = (value - whole * LOG_2_HIGH) - whole * LOG_2_LOW
        r2 = r * r
        r4 = r2 * r2
        low = (1.0 + r) + r2 * (1 / 2 + r * (1 / 6))
        middle = (1 / 24 + r * (1 / 120)) + r2 * (1 / 720 + r * (1 / 5040))
        high = (1 / 40320 + r * (1 / 362880)) + r2 * (1 / 3628800 + r * (1 / 39916800))
        top = 1 / 479001600 + r * (1 / 6227020800)
        out[k] = low + r4 * middle + (r4 * r4) * (high + r4 * top)
        powers[k] = rounded
    for k in range(values.shape[0]):
        bits[k] = (bits[k] + 1023) << 52
    for k in range(values.shape[0]):
        out[k] *= powers[k]


# Python's error model checks every division for zero, which keeps the loop scalar;
# the divisor here is at least 1.7.
@njit(nogil=True, cache=True, error_model="numpy")
def log1ps(values, out, powers):
    """Write log(1 + values) to out, within 4 units in the last place; powers is work space.

    Values are at least 0. 1 + value = 2^k (1 + f) with 1 + f between the roots of
    1/2 and 2, and log(1 + f) = 2 artanh(f / (2 + f)), by its series.
    """
    bits, exponents = out.view(np.uint64), powers.view(np.uint64)
    for k in range(values.shape[0]):
        out[k] = 1.0 + values[k]
    for k in range(values.shape[0]):
        exponent = (bits[k] - ROOT_HALF) >> MANTISSA_BITS
        bits[k] -= exponent << MANTISSA_BITS
        exponents[k] = exponent | TWO_52
    for k in range(values.shape[0]):
        exponent = powers[k] - 4503599627370496.0
        # where 2^k is one, the value itself, which has more digits than 1 + value
        f = values[k] if exponent == 0.0 else out[k] - 1.0
        t = f / (f + 2.0)
        t2 = t * t
        t4 = t2 * t2
        t8 = t4 * t4
        low = (1 / 3 + t2 * (1 / 5)) + t4 * (1 / 7 + t2 * (1 / 9))
        high = (1 / 11 + t2 * (1 / 13)) + t4 * (1 / 15 + t2 * (1 / 17))
        top = 1 / 19 + t2 * (1 / 21)
        total = low + t8 * (high + t8 * top)
        out[k] = exponent * LOG_2 + 2.0 * (t + t * t2 * total)
