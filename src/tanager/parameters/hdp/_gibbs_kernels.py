"""The collapsed Gibbs sampler of a hierarchical Dirichlet (or Pitman-Yor) model."""

from __future__ import annotations

import numpy as np

from tanager.numerics.compiling import kernel
from tanager.parameters.hdp._random_kernels import (
    log_gamma_variate,
    neg_log_beta_variate,
    uniform,
)
from tanager.parameters.hdp._special import expected_tables
from tanager.parameters.hdp._stirling_kernels import growth, table_ratio

# A concentration that the data leave open (under an improper prior, say) stops here.
_LEAST_ALPHA, _MOST_ALPHA = 1e-9, 1e9
# Terms of -log Beta(alpha, n) that may be drawn for all nodes of a group at once, and the width of
# the working space: sum of tables, terms drawn at once, spread, nodes by number of terms.
_POOLED = 32
WORK = 3 + _POOLED
# Up to so many rows -log Beta(alpha, n) is a sum of exponential numbers.
_FEW = 4


@kernel
def start_chain(tree, phi, alpha, max_tables, counts, tables, node_counts, node_tables):
    """Set every cell's tables to their rounded mean under phi and alpha, leaves first.

    Writes counts and tables (n_cells,), node_counts and node_tables (n_nodes,), int64.
    """
    depth = tree.level_node.shape[0] - 2
    for c in range(counts.shape[0]):
        leaf = c >= tree.level_cell[depth]
        counts[c] = np.int64(tree.cell_count[c]) if leaf else 0
        tables[c] = 0
    for d in range(depth, -1, -1):
        for u in range(tree.level_node[d], tree.level_node[d + 1]):
            node_counts[u] = 0
            node_tables[u] = 0
            for c in range(tree.node_start[u], tree.node_start[u + 1]):
                node_counts[u] += counts[c]
                if d == 0 or counts[c] == 0:
                    continue
                above = tree.cell_parent[c]
                mass = alpha[tree.node_group[u]] * phi[above]
                mean, _ = expected_tables(mass, np.float64(counts[c]))
                tables[c] = min(max(np.int64(np.rint(mean)), 1), counts[c], max_tables)
                node_tables[u] += tables[c]
                counts[above] += tables[c]


@kernel
def _weigh(tree, ratios, root, discount, alpha, state, c, u, low, high, weights):
    """Write the relative weights of table counts low .. high of cell c in node u.

    Ratios of equation 11 for one more table: the cell's own Stirling numbers
    and concentration, times the parent's factor. At the root the Dirichlet is
    marginalised; elsewhere that factor is S(n + 1, t) / S(n, t) over the next
    term of the rising factorial. Returns the sum of weights (window,).
    """
    counts, tables, node_counts, node_tables = state
    p = tree.cell_parent[c]
    above = tree.node_parent[u]
    own = counts[c]
    now = tables[c]
    mass = alpha[tree.node_group[u]] + discount * (node_tables[u] - now)
    n = counts[p] - now
    whole = node_counts[above] - now
    whole_mass = root[0] if above == 0 else alpha[tree.node_group[above]]
    weight = 1.0
    total = 1.0
    weights[0] = 1.0
    for t in range(low, high):
        gain = table_ratio(ratios, own, t) * (mass + discount * t)
        if above == 0:
            gain *= n + t + root[1]
        else:
            gain *= growth(ratios, n + t, tables[p])
        weight *= gain / (whole + t + whole_mass)
        weights[t + 1 - low] = weight
        total += weight
    return total


@kernel
def sweep_tables(tree, ratios, root, discount, alpha, state, random, weights):
    """Draw every cell's number of tables given all others, leaves first.

    A cell with one row has one table. Of the others' supports a window with a
    random offset around the current value is considered, which leaves the
    target invariant: each value of a window is as likely to have opened it.
    root: the root's concentration, and what of it each value gets; weights
    (window,) is working space, as wide as the window.
    """
    counts, tables, node_counts, node_tables = state
    window = weights.shape[0]
    depth = tree.level_node.shape[0] - 2
    most = ratios.rows.shape[1] - 1
    for d in range(depth, 0, -1):
        for u in range(tree.level_node[d], tree.level_node[d + 1]):
            above = tree.node_parent[u]
            for c in range(tree.node_start[u], tree.node_start[u + 1]):
                if counts[c] <= 1:
                    continue
                now = tables[c]
                p = tree.cell_parent[c]
                least = 1 if d == 1 else max(1, now - (counts[p] - tables[p]))
                chance = uniform(random) * window
                offset = np.int64(chance)
                low = max(now - offset, least)
                high = min(now - offset + window - 1, counts[c], most)
                if low == high:
                    continue
                total = _weigh(tree, ratios, root, discount, alpha, state, c, u, low, high, weights)
                point = (chance - offset) * total
                moved = low - now
                for at in range(high - low):
                    point -= weights[at]
                    if point < 0.0:
                        break
                    moved += 1
                tables[c] += moved
                node_tables[u] += moved
                counts[p] += moved
                node_counts[above] += moved


@kernel
def _draw_spread(random, mass, n):
    """Return -log of a Beta(mass, n) number; of few rows as a sum of exponential numbers."""
    if n > _FEW:
        return neg_log_beta_variate(random, mass, np.float64(n))
    spread = 0.0
    for i in range(n):
        spread -= np.log(uniform(random)) / (mass + i)
    return spread


@kernel
def sweep_concentrations(tree, discount, shape, rate, state, random, alpha, work):
    """Draw every concentration given the tables; work (n_groups, WORK).

    rate (n_groups,): of the prior. With q_u ~ Beta(alpha, n_u) the conditional
    is Gamma(shape + sum t, rate - sum log q). As -log Beta(alpha, n) is a sum of
    independent exponentials with rates alpha, alpha + 1, ..., alpha + n - 1, the
    first terms of all nodes of a group can be drawn together, as one Gamma number
    each. A group of few nodes is cheaper node by node.
    """
    _, _, node_counts, node_tables = state
    work[:] = 0.0
    for u in range(1, node_counts.shape[0]):
        group = tree.node_group[u]
        n = node_counts[u]
        if n == 0:
            continue
        if discount == 0.0:
            work[group, 0] += node_tables[u]
        else:
            work[group, 0] += 1.0
            for i in range(1, node_tables[u]):
                if uniform(random) * (alpha[group] + discount * i) < alpha[group]:
                    work[group, 0] += 1.0
        work[group, 3 + min(n, _POOLED) - 1] += 1.0
    for g in range(alpha.shape[0]):
        nodes, terms = 0.0, 0
        for i in range(_POOLED):
            if work[g, 3 + i] > 0.0:
                nodes += work[g, 3 + i]
                terms = i + 1
        # A node by itself takes two Gamma numbers; together they take one a term, and those with
        # more rows than terms two more each.
        alone = nodes - work[g, 2 + _POOLED]
        work[g, 1] = terms if terms < 2.0 * alone else 0.0
    for u in range(1, node_counts.shape[0]):
        group = tree.node_group[u]
        together = np.int64(work[group, 1])
        n = node_counts[u]
        if n > together:
            work[group, 2] += _draw_spread(random, alpha[group] + together, n - together)
    for g in range(alpha.shape[0]):
        spread = work[g, 2]
        nodes = 0.0
        for i in range(_POOLED - 1, -1, -1):
            nodes += work[g, 3 + i]
            if i < work[g, 1]:
                spread += np.exp(log_gamma_variate(random, nodes)) / (alpha[g] + i)
        if nodes > 0.0:
            drawn = log_gamma_variate(random, shape + work[g, 0])
            alpha[g] = min(max(np.exp(drawn) / (rate[g] + spread), _LEAST_ALPHA), _MOST_ALPHA)


@kernel
def add_probabilities(tree, root_mass, arity, discount, alpha, state, phi, total, escape):
    """Add the state's estimates of equations 12 to 14 to total (n_cells,).

    phi (n_cells,) is working space; escape (1,) receives the root's share of
    the uniform.
    """
    counts, tables, node_counts, node_tables = state
    whole = node_counts[0] + root_mass
    escape[0] += root_mass / whole
    for c in range(tree.level_cell[1]):
        phi[c] = (counts[c] + root_mass / arity) / whole
        total[c] += phi[c]
    for u in range(1, node_counts.shape[0]):
        mass = alpha[tree.node_group[u]]
        scale = 1.0 / (node_counts[u] + mass)
        spare = mass + discount * node_tables[u]
        for c in range(tree.node_start[u], tree.node_start[u + 1]):
            own = counts[c] - discount * tables[c]
            phi[c] = (own + spare * phi[tree.cell_parent[c]]) * scale
            total[c] += phi[c]


@kernel
def run_chain(
    tree, ratios, prior, rate, arity, n_sweeps, pace, alpha, state, random, clock, total, escape
):
    """Sweep `n_sweeps` times, adding states' estimates to total and escape.

    Every `pace.thinning`-th state is added; concentrations move after every
    `pace.interval`-th sweep; clock (1,) counts the chain's sweeps.
    """
    weights = np.empty(pace.window)
    work = np.empty((alpha.shape[0], WORK))
    phi = np.empty(total.shape[0])
    root_mass = prior.root_concentration
    root = (root_mass, prior.root_share * root_mass / arity)
    discount = prior.discount
    for sweep in range(n_sweeps):
        sweep_tables(tree, ratios, root, discount, alpha, state, random, weights)
        clock[0] += 1
        if clock[0] % pace.interval == 0:
            sweep_concentrations(tree, discount, prior.shape, rate, state, random, alpha, work)
        if (sweep + 1) % pace.thinning == 0:
            add_probabilities(tree, root_mass, arity, discount, alpha, state, phi, total, escape)
