"""The fixed point of a hierarchical Dirichlet model, by sweeps up and down its tree."""

from __future__ import annotations

import numpy as np
from numba import njit

from tanager.parameters.hdp._special import expected_tables

# Concentrations stay inside these bounds: below, a node trusts its own counts
# alone; above, it repeats its parent whatever it saw.
MIN_CONCENTRATION = 1e-3
MAX_CONCENTRATION = 1e5
# Largest change of a log-concentration in one sweep.
MAX_STEP = 1.5


@njit(nogil=True, cache=True)
def _sweep_up(tree, phi, alpha, counts, totals, sums):
    """Pass the expected tables of every node up to its parent.

    Writes counts (n_cells,) above the leaves, totals (n_nodes,), and per group
    sums (5, n_groups): tables and their derivative by log alpha, alpha times
    [psi(n + alpha) - psi(alpha)] and its derivative, the largest node count.
    """
    depth = tree.level_node.shape[0] - 2
    sums[:] = 0.0
    counts[: tree.level_cell[depth]] = 0.0
    for d in range(depth, 0, -1):
        for u in range(tree.level_node[d], tree.level_node[d + 1]):
            group = tree.node_group[u]
            concentration = alpha[group]
            total = 0.0
            tables = 0.0
            slope = 0.0
            for c in range(tree.node_start[u], tree.node_start[u + 1]):
                count = counts[c]
                if count == 0.0:
                    continue
                above = tree.cell_parent[c]
                if count == 1.0:
                    mean = 1.0
                else:
                    mean, change = expected_tables(concentration * phi[above], count)
                    slope += change
                counts[above] += mean
                tables += mean
                total += count
            totals[u] = total
            if total == 0.0:
                continue
            spread, spread_slope = expected_tables(concentration, total)
            sums[0, group] += tables
            sums[1, group] += slope
            sums[2, group] += spread
            sums[3, group] += spread_slope
            sums[4, group] = max(sums[4, group], total)


@njit(nogil=True, cache=True)
def _move_concentrations(sums, shape, rate, alpha, residual, damping):
    """Take one damped Newton step on every log alpha; returns a bound on its effect.

    The fixed point solves alpha = (shape - 1 + sum t) / (rate + sum [psi(n +
    alpha) - psi(alpha)]). Newton's step on the logarithm of the ratio of both
    sides replaces hundreds of plain iterations; where two levels explain the
    same variation their steps overshoot together, so a change of sign halves a
    group's damping. The bound is on the change of any predictive probability
    (n + alpha phi)/(N + alpha), whose derivative by log alpha is at most
    alpha N / (N + alpha)^2.
    """
    effect = 0.0
    for g in range(alpha.shape[0]):
        if sums[2, g] == 0.0:
            continue
        old = alpha[g]
        above = shape - 1.0 + sums[0, g]
        below = rate[g] * old + sums[2, g]
        if above <= 0.0:
            alpha[g] = MIN_CONCENTRATION
            effect = max(effect, 0.25 * abs(np.log(alpha[g] / old)))
            continue
        value = np.log(above / below)
        slope = sums[1, g] / above - (rate[g] * old + sums[3, g]) / below
        step = -value / slope if slope < 0.0 else value
        damping[g] = 0.5 * damping[g] if value * residual[g] < 0.0 else min(1.0, 1.3 * damping[g])
        residual[g] = value
        step = damping[g] * min(max(step, -MAX_STEP), MAX_STEP)
        alpha[g] = min(max(old * np.exp(step), MIN_CONCENTRATION), MAX_CONCENTRATION)
        share = old / (old + sums[4, g])
        weight = share * (1.0 - share) if share > 0.5 else 0.25
        effect = max(effect, weight * abs(np.log(alpha[g] / old)))
    return effect


@njit(nogil=True, cache=True)
def _sweep_down(tree, alpha, root_mass, arity, counts, totals, last, phi):
    """Blend every node's counts with its parent's estimate, levels 0 to `last`.

    Writes phi (n_cells,) and the root's total; returns the largest change.
    """
    change = 0.0
    total = 0.0
    for c in range(tree.level_cell[1]):
        total += counts[c]
    totals[0] = total
    for c in range(tree.level_cell[1]):
        value = (counts[c] + root_mass / arity) / (total + root_mass)
        change = max(change, abs(value - phi[c]))
        phi[c] = value
    for u in range(1, tree.level_node[last + 1]):
        mass = alpha[tree.node_group[u]]
        scale = 1.0 / (totals[u] + mass)
        for c in range(tree.node_start[u], tree.node_start[u + 1]):
            value = (counts[c] + mass * phi[tree.cell_parent[c]]) * scale
            change = max(change, abs(value - phi[c]))
            phi[c] = value
    return change


@njit(nogil=True, cache=True)
def solve_fixed_point(
    tree, arity, root_mass, shape, rate, tolerance, max_sweeps, alpha, phi, escape, trace
):
    """Sweep until no predictive probability moves by more than `tolerance`.

    rate (n_groups,): of the prior; alpha (n_groups,) holds the start and receives
    the concentrations; writes
    log-probabilities to phi (n_cells,), log escape mass to escape (n_nodes,),
    each sweep's change to trace (max_sweeps,); returns the number of sweeps.
    """
    depth = tree.level_node.shape[0] - 2
    n_nodes = tree.level_node[depth + 1]
    counts = tree.cell_count.copy()
    totals = np.zeros(n_nodes)
    for u in range(n_nodes):
        for c in range(tree.node_start[u], tree.node_start[u + 1]):
            totals[u] += counts[c]
        for c in range(tree.node_start[u], tree.node_start[u + 1]):
            phi[c] = (counts[c] + 1.0 / arity) / (totals[u] + 1.0)
    sums = np.empty((5, tree.n_groups))
    residual = np.zeros(tree.n_groups)
    damping = np.ones(tree.n_groups)
    n_sweeps = 0
    while n_sweeps < max_sweeps:
        _sweep_up(tree, phi, alpha, counts, totals, sums)
        change = _move_concentrations(sums, shape, rate, alpha, residual, damping)
        change += _sweep_down(tree, alpha, root_mass, arity, counts, totals, depth - 1, phi)
        trace[n_sweeps] = change
        n_sweeps += 1
        if change < tolerance:
            break
    _sweep_down(tree, alpha, root_mass, arity, counts, totals, depth, phi)
    for c in range(phi.shape[0]):
        phi[c] = np.log(phi[c])
    for u in range(n_nodes):
        mass = root_mass if u == 0 else alpha[tree.node_group[u]]
        escape[u] = np.log(mass / (totals[u] + mass))
    return n_sweeps
