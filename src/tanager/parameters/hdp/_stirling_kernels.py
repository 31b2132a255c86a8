"""The recurrence of the Stirling ratios, and their look-up."""

from __future__ import annotations

import numpy as np

from tanager.numerics.compiling import kernel


@kernel
def fill_ratios(wanted, discount, rows):
    """Write V(n, t) for the increasing counts `wanted` to rows (n_wanted, n_columns)."""
    n_columns = rows.shape[1]
    old = np.zeros(n_columns)
    new = np.zeros(n_columns)
    at = 0
    while at < wanted.shape[0] and wanted[at] <= 1:
        at += 1  # V(1, 1) = S(1, 2) / S(1, 1) = 0
    for n in range(1, wanted[-1]):
        # V(n + 1, t) from V(n, .); past t = n both numbers vanish.
        last = min(n, n_columns - 1)
        new[1] = ((n - 2.0 * discount) * old[1] + 1.0) / (n - discount)
        for t in range(2, last + 1):
            above = (n - (t + 1) * discount) * old[t] + 1.0
            new[t] = above * old[t - 1] / ((n - t * discount) * old[t - 1] + 1.0)
        old, new = new, old
        if wanted[at] == n + 1:
            rows[at, : last + 1] = old[: last + 1]
            at += 1


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
