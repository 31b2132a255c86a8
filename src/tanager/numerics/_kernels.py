"""Exponentials of arrays for compiled loops, without branches or calls.

A compiled loop over np.exp calls a scalar routine; this is vectorised, three times
as fast. The arrays given to one call must not overlap: a loop that finds them
overlapping runs on one number at a time.
"""

from __future__ import annotations

import numpy as np

from tanager.numerics.compiling import kernel

# exp(x) = 2^k exp(r) with |r| <= log(2)/2. Adding 1.5 * 2^52 rounds to an integer
# and leaves it in the low bits.
LOG2_E = 1.4426950408889634
LOG_2_HIGH = 6.93147180369123816490e-01
LOG_2_LOW = 1.90821492927058770002e-10
ROUNDER = 6755399441055744.0
LEAST = -700.0


@kernel
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
