"""Twins of gibbs.c: the sampler in plain Python, drawing the same stream of random numbers."""

from __future__ import annotations

from math import exp, floor, log, log1p, sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import digamma

LEAST_ALPHA, MOST_ALPHA = 1e-9, 1e9
POOLED = 32
FEW = 4
_MASK = (1 << 64) - 1


def uniform(state):
    """Return the next number in (0, 1) of xoshiro256++."""
    a, b, c, d = (int(word) for word in state)
    total = (a + d) & _MASK
    result = ((((total << 23) | (total >> 41)) & _MASK) + a) & _MASK
    shifted = (b << 17) & _MASK
    c ^= a
    d ^= b
    b ^= c
    a ^= d
    c ^= shifted
    d = ((d << 45) | (d >> 19)) & _MASK
    state[:] = a, b, c, d
    return ((result >> 11) + 0.5) * 2.0**-53


def normal(state):
    """Return a standard normal number, by Marsaglia's polar method."""
    while True:
        x = 2.0 * uniform(state) - 1.0
        y = 2.0 * uniform(state) - 1.0
        square = x * x + y * y
        if 0.0 < square < 1.0:
            return x * sqrt(-2.0 * log(square) / square)


def log_gamma_variate(state, shape):
    """Return the logarithm of a Gamma(shape, 1) number, by Marsaglia and Tsang."""
    boost = 0.0
    if shape < 1.0:
        boost = log(uniform(state)) / shape
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / sqrt(9.0 * d)
    while True:
        x = normal(state)
        v = (1.0 + c * x) ** 3
        if v > 0.0 and log(uniform(state)) < 0.5 * x * x + d - d * v + d * log(v):
            return log(d * v) + boost


def draw_spread(state, mass, n):
    """Return -log of a Beta(mass, n) number."""
    if n > FEW:
        odds = log_gamma_variate(state, float(n)) - log_gamma_variate(state, mass)
        return odds if odds > 40.0 else log1p(exp(odds))
    return -sum(log(uniform(state)) / (mass + i) for i in range(n))


class Ratios(NamedTuple):
    """Stirling ratios, as `tanager_papers.hdp_sampler` tabulates them."""

    rows: np.ndarray
    log_count: np.ndarray
    dense: int
    discount: float

    def ratio(self, n, t):
        """Return V(n, t)."""
        if t >= n or t >= self.rows.shape[1]:
            return 0.0
        if n <= self.dense:
            return self.rows[n, t]
        column = self.rows[self.dense :, t]
        return float(np.interp(log(n), self.log_count, column))

    def growth(self, n, t):
        """Return S(n + 1, t) / S(n, t)."""
        more = n - t * self.discount
        return more if t == 1 else more + 1.0 / self.ratio(n, t - 1)


def start_chain(
    level_node,
    level_cell,
    node_start,
    node_group,
    cell_parent,
    cell_count,
    phi,
    alpha,
    max_tables,
    counts,
    tables,
    node_counts,
    node_tables,
):
    """Set every cell's tables to their rounded mean, leaves first."""
    depth = len(level_node) - 2
    counts[:] = 0
    counts[level_cell[depth] :] = cell_count[level_cell[depth] :]
    tables[:] = 0
    for d in range(depth, -1, -1):
        for u in range(level_node[d], level_node[d + 1]):
            cells = slice(node_start[u], node_start[u + 1])
            node_counts[u] = counts[cells].sum()
            for c in range(cells.start, cells.stop):
                if d > 0 and counts[c] > 0:
                    mass = alpha[node_group[u]] * phi[cell_parent[c]]
                    mean = mass * (digamma(mass + counts[c]) - digamma(mass))
                    tables[c] = min(max(round(mean), 1), counts[c], max_tables)
                    counts[cell_parent[c]] += tables[c]
            node_tables[u] = tables[cells].sum()


def run_chain(
    level_node,
    level_cell,
    node_start,
    node_group,
    node_parent,
    cell_parent,
    rows,
    log_count,
    dense,
    discount,
    near,
    growth,
    root_mass,
    root_share,
    shape,
    rate,
    arity,
    n_sweeps,
    thinning,
    interval,
    window,
    alpha,
    counts,
    tables,
    node_counts,
    node_tables,
    random,
    clock,
    total,
    escape,
):
    """Sweep over tables and concentrations, adding up the estimates of recorded states."""
    del near, growth
    ratios = Ratios(rows, log_count, dense, discount)
    depth, root_part = len(level_node) - 2, root_share * root_mass / arity

    def weigh(c, u, low, high):
        p, above, now = cell_parent[c], node_parent[u], tables[c]
        mass = alpha[node_group[u]] + discount * (node_tables[u] - now)
        whole_mass = root_mass if above == 0 else alpha[node_group[above]]
        weights = [1.0]
        for t in range(low, high):
            gain = ratios.ratio(counts[c], t) * (mass + discount * t)
            n = counts[p] - now + t
            gain *= n + root_part if above == 0 else ratios.growth(n, tables[p])
            weights.append(weights[-1] * gain / (node_counts[above] - now + t + whole_mass))
        return weights

    def sweep_tables():
        for d in range(depth, 0, -1):
            for u in range(level_node[d], level_node[d + 1]):
                for c in range(node_start[u], node_start[u + 1]):
                    if counts[c] <= 1:
                        continue
                    now, p = tables[c], cell_parent[c]
                    least = 1 if d == 1 else max(1, now - (counts[p] - tables[p]))
                    chance = uniform(random) * window
                    offset = floor(chance)
                    low = max(now - offset, least)
                    high = min(now - offset + window - 1, counts[c], rows.shape[1] - 1)
                    if low == high:
                        continue
                    weights = weigh(c, u, low, high)
                    point, moved = (chance - offset) * sum(weights), low - now
                    for weight in weights[:-1]:
                        point -= weight
                        if point < 0.0:
                            break
                        moved += 1
                    tables[c] += moved
                    node_tables[u] += moved
                    counts[p] += moved
                    node_counts[node_parent[u]] += moved

    def sweep_concentrations():
        draw_concentrations(
            node_group, discount, shape, rate, node_counts, node_tables, random, alpha
        )

    def add_probabilities():
        phi = np.zeros(len(total))
        whole = node_counts[0] + root_mass
        escape[0] += root_mass / whole
        for c in range(level_cell[1]):
            phi[c] = (counts[c] + root_mass / arity) / whole
        for u in range(1, len(node_counts)):
            mass = alpha[node_group[u]]
            spare = mass + discount * node_tables[u]
            for c in range(node_start[u], node_start[u + 1]):
                own = counts[c] - discount * tables[c]
                phi[c] = (own + spare * phi[cell_parent[c]]) / (node_counts[u] + mass)
        total[:] += phi

    for sweep in range(n_sweeps):
        sweep_tables()
        clock[0] += 1
        if clock[0] % interval == 0:
            sweep_concentrations()
        if (sweep + 1) % thinning == 0:
            add_probabilities()


def draw_concentrations(node_group, discount, shape, rate, node_counts, node_tables, random, alpha):
    """Draw every concentration given the tables, some nodes' terms together."""
    n_groups = len(alpha)
    successes, spread = np.zeros(n_groups), np.zeros(n_groups)
    sizes = np.zeros((n_groups, POOLED))  # nodes by their number of rows
    busy = [u for u in range(1, len(node_counts)) if node_counts[u] > 0]
    for u in busy:
        g = node_group[u]
        if discount == 0.0:
            successes[g] += node_tables[u]
        else:
            successes[g] += 1
            for i in range(1, node_tables[u]):
                successes[g] += uniform(random) * (alpha[g] + discount * i) < alpha[g]
        sizes[g, min(node_counts[u], POOLED) - 1] += 1
    together = np.zeros(n_groups, int)
    for g in range(n_groups):
        terms = max(np.flatnonzero(sizes[g]), default=-1) + 1
        if terms < 2.0 * sizes[g, :-1].sum():
            together[g] = terms
    for u in busy:
        g = node_group[u]
        if node_counts[u] > together[g]:
            mass = alpha[g] + together[g]
            spread[g] += draw_spread(random, mass, int(node_counts[u] - together[g]))
    for g in range(n_groups):
        nodes = 0.0
        for i in range(POOLED - 1, -1, -1):
            nodes += sizes[g, i]
            if i < together[g]:
                spread[g] += exp(log_gamma_variate(random, nodes)) / (alpha[g] + i)
        if nodes > 0.0:
            drawn = exp(log_gamma_variate(random, shape + successes[g]))
            alpha[g] = min(max(drawn / (rate[g] + spread[g]), LEAST_ALPHA), MOST_ALPHA)
