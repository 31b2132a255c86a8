"""Twins of hdp.c."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, polygamma

from tests.oracles.kernels.gibbs import Ratios

MIN_CONCENTRATION, MAX_CONCENTRATION, MAX_STEP = 1e-3, 1e5, 1.5


def expected_tables(mass, count):
    """Return the mean number of tables and its derivative by log(mass)."""
    if count == int(count) and count < 10_000:
        share = mass / (mass + np.arange(1, int(count)))
        return 1.0 + share.sum(), (share * (1 - share)).sum()
    share = count / (mass + count)
    first = digamma(mass + count + 1) - digamma(mass + 1)
    second = polygamma(1, mass + count + 1) - polygamma(1, mass + 1)
    return mass * first + share, mass * first + mass**2 * second - share * (1 - share)


def solve_fixed_point(
    level_node,
    level_cell,
    node_start,
    node_group,
    cell_parent,
    cell_count,
    arity,
    root_mass,
    shape,
    rate,
    tolerance,
    max_sweeps,
    alpha,
    phi,
    escape,
    trace,
):
    """Sweep up and down the tree, with Newton steps on the concentrations."""
    depth, n_nodes, n_groups = len(level_node) - 2, len(node_group), len(alpha)
    counts = cell_count.copy()
    cells = [slice(node_start[u], node_start[u + 1]) for u in range(n_nodes)]
    totals = np.array([counts[own].sum() for own in cells])
    for u, own in enumerate(cells):
        phi[own] = (counts[own] + 1 / arity) / (totals[u] + 1)
    residual, damping = np.zeros(n_groups), np.ones(n_groups)
    leaves = level_cell[depth]

    def sweep_up():
        counts[:leaves] = 0
        sums = np.zeros((4, n_groups))
        largest = np.zeros(n_groups)
        for d in range(depth, 0, -1):
            for u in range(level_node[d], level_node[d + 1]):
                g, total = node_group[u], counts[cells[u]].sum()
                totals[u] = total
                if total == 0:
                    continue
                for c in range(cells[u].start, cells[u].stop):
                    if counts[c] > 0:
                        found = expected_tables(alpha[g] * phi[cell_parent[c]], counts[c])
                        counts[cell_parent[c]] += found[0]
                        sums[:2, g] += found
                sums[2:, g] += expected_tables(alpha[g], total)
                largest[g] = max(largest[g], total)
        return sums, largest

    def move(sums, largest):
        effect = 0.0
        for g in np.flatnonzero(sums[2]):
            old, above = alpha[g], shape - 1 + sums[0, g]
            below = rate[g] * old + sums[2, g]
            if above <= 0:
                alpha[g] = MIN_CONCENTRATION
                effect = max(effect, 0.25 * abs(np.log(alpha[g] / old)))
                continue
            value = np.log(above / below)
            slope = sums[1, g] / above - (rate[g] * old + sums[3, g]) / below
            turned = value * residual[g] < 0
            damping[g] = 0.5 * damping[g] if turned else min(1.0, 1.3 * damping[g])
            residual[g] = value
            step = damping[g] * np.clip(-value / slope if slope < 0 else value, -MAX_STEP, MAX_STEP)
            alpha[g] = np.clip(old * np.exp(step), MIN_CONCENTRATION, MAX_CONCENTRATION)
            share = old / (old + largest[g])
            weight = share * (1 - share) if share > 0.5 else 0.25
            effect = max(effect, weight * abs(np.log(alpha[g] / old)))
        return effect

    def sweep_down(last):
        before = phi.copy()
        top = slice(0, level_cell[1])
        totals[0] = counts[top].sum()
        phi[top] = (counts[top] + root_mass / arity) / (totals[0] + root_mass)
        for u in range(1, level_node[last + 1]):
            mass, own = alpha[node_group[u]], cells[u]
            phi[own] = (counts[own] + mass * phi[cell_parent[own]]) / (totals[u] + mass)
        return np.abs(phi - before).max(initial=0.0)

    n_sweeps = 0
    while n_sweeps < max_sweeps:
        change = move(*sweep_up()) + sweep_down(depth - 1)
        trace[n_sweeps] = change
        n_sweeps += 1
        if change < tolerance:
            break
    sweep_down(depth)
    phi[:] = np.log(phi)
    mass = np.where(np.arange(n_nodes) == 0, root_mass, alpha[np.maximum(node_group, 0)])
    escape[:] = np.log(mass / (totals + mass))
    return n_sweeps


def expect_tables(rows, log_count, dense, count, phi, rest, alpha, discount, mean):
    """Write the mean number of tables of every cell, by the sum over all of them."""
    ratios = Ratios(rows, log_count, dense, discount)

    def exact(n, at):
        if n <= 1:
            return float(n)
        weights = [1.0]
        for t in range(1, min(n, rows.shape[1])):
            ratio = ratios.ratio(n, t) * phi[at] * (alpha[at] + discount * (rest[at] + t))
            weights.append(weights[-1] * ratio)
        return np.average(np.arange(1, len(weights) + 1), weights=weights)

    for at, n in enumerate(count):
        low = int(n)
        mean[at] = exact(low, at)
        if n > low:
            mean[at] += (n - low) * (exact(low + 1, at) - mean[at])
