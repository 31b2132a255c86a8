"""Looking up Stirling ratios."""

from __future__ import annotations

import numpy as np

from tanager.numerics.compiling import kernel


@kernel
def table_ratio(table, n, t):
    """Return V(n, t) = S(n, t + 1) / S(n, t); zero where there is no such table."""
    if n < table.near.shape[0] and t < table.near.shape[1]:
        return table.near[n, t]
    if t >= n or t >= table.rows.shape[1]:
        return 0.0
    if n <= table.dense:
        return table.rows[n, t]
    place = np.log(np.float64(n))
    at = np.searchsorted(table.log_count, place)
    at = min(max(at, 1), table.log_count.shape[0] - 1)
    low = table.log_count[at - 1]
    share = (place - low) / (table.log_count[at] - low)
    row = table.dense + at
    return (1.0 - share) * table.rows[row - 1, t] + share * table.rows[row, t]


@kernel
def growth(table, n, t):
    """Return S(n + 1, t) / S(n, t) for 1 <= t <= n."""
    if n < table.growth.shape[0] and t < table.growth.shape[1]:
        return table.growth[n, t]
    more = n - t * table.discount
    return more if t == 1 else more + 1.0 / table_ratio(table, n, t - 1)
