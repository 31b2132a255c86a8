"""The discount of a Pitman-Yor process, drawn given the tables of a chain."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tanager.parameters.hdp.stirling import Ratios, stirling_ratios
from tanager.parameters.hdp.tying import TiedTree

__all__ = ["GRID", "draw_discount", "log_likelihood", "shared_ratios"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# The discounts that are told apart; their prior is uniform.
GRID = tuple(round(0.05 * i, 2) for i in range(20))
# Steps to a neighbour of the grid in one draw.
STEPS = 4


@lru_cache(maxsize=24)
def shared_ratios(max_count: int, discount: float) -> Ratios:
    """Return the table of Stirling ratios, made once for all families."""
    return stirling_ratios(max_count, discount)


def draw_discount(
    flat: TiedTree,
    state: tuple[Ints, Ints, Ints, Ints],
    alpha: Floats,
    discount: float,
    max_count: int,
    generator: np.random.Generator,
) -> float:
    """Return the next discount of a chain: Metropolis steps to neighbours on the grid."""
    place = GRID.index(discount)
    now = log_likelihood(flat, state, alpha, discount, max_count)
    for _ in range(STEPS):
        other = place + (1 if generator.random() < 0.5 else -1)
        chance = generator.random()
        if not 0 <= other < len(GRID):
            continue
        there = log_likelihood(flat, state, alpha, GRID[other], max_count)
        if np.log(chance) < there - now:
            place, now = other, there
    return GRID[place]


def log_likelihood(
    flat: TiedTree,
    state: tuple[Ints, Ints, Ints, Ints],
    alpha: Floats,
    discount: float,
    max_count: int,
) -> float:
    r"""Return the terms of the tables' probability that depend on the discount.

    .. math:: \sum_u \sum_{i < t_u} \log(\alpha_u + i d) + \sum_c \log S_d(n_c, t_c)

    over the nodes and cells below the root, whose Dirichlet has no discount.
    """
    counts, tables, _, node_tables = state
    below = slice(int(flat.level_cell[1]), None)
    busy = counts[below] > 1
    pairs, times = np.unique(
        np.stack([counts[below][busy], tables[below][busy]]), axis=1, return_counts=True
    )
    total = float(times @ _log_stirling(pairs[0], pairs[1], discount, max_count))
    concentration = alpha[flat.node_group[1:]]
    if discount == 0.0:
        return total + float(node_tables[1:] @ np.log(concentration))
    from scipy.special import gammaln

    # prod_{i<t} (alpha + i d) = d^t Gamma(alpha/d + t) / Gamma(alpha/d)
    start = concentration / discount
    rising = gammaln(start + node_tables[1:]) - gammaln(start)
    return total + float(rising.sum() + node_tables[1:].sum() * np.log(discount))


def _log_stirling(counts: Ints, tables: Ints, discount: float, max_count: int) -> Floats:
    """Return log S_d(n, t), from S_d(n, 1) = Gamma(n - d) / Gamma(1 - d) and the ratios."""
    from scipy.special import gammaln

    ratios = shared_ratios(max_count, discount)
    logs = gammaln(counts - discount) - gammaln(1.0 - discount)
    for at, (n, t) in enumerate(zip(counts.tolist(), tables.tolist(), strict=True)):
        logs[at] += np.log(ratios.row(n)[1:t]).cumsum()[-1] if t > 1 else 0.0
    return np.asarray(logs, np.float64)
