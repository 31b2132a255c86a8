"""The hierarchical Dirichlet model by dictionaries and plain iteration."""

from __future__ import annotations

from math import log

from scipy.special import digamma

from tests.oracles.counting import tree_levels


def fixed_point(counts, depth, arity, group_of, shape, rate, root_mass, rounds=20_000):
    """Iterate the equations as they are written until nothing moves.

    counts: {(context..., value): n}; group_of(context) names a node's
    concentration. Returns ({context: [probabilities]}, {group: concentration}).
    """
    nodes = [list(level) for level in tree_levels(counts, depth)]
    leaves = tree_levels(counts, depth)[depth]
    groups = {group_of(u) for level in nodes[1:] for u in level}
    alpha = dict.fromkeys(groups, 2.0)
    raw = tree_levels(counts, depth)
    phi = {
        u: [(cells.get(k, 0) + 1 / arity) / (sum(cells.values()) + 1) for k in range(arity)]
        for level in raw
        for u, cells in level.items()
    }
    for _ in range(rounds):
        n = {u: [0.0] * arity for level in nodes for u in level}
        for u, cells in leaves.items():
            n[u] = [cells.get(k, 0.0) for k in range(arity)]
        tables, spread = dict.fromkeys(groups, 0.0), dict.fromkeys(groups, 0.0)
        for level in reversed(nodes[1:]):
            for u in level:
                g = group_of(u)
                for k in range(arity):
                    if n[u][k] > 0:
                        a = alpha[g] * phi[u[:-1]][k]
                        t = a * (digamma(a + n[u][k]) - digamma(a))
                        n[u[:-1]][k] += t
                        tables[g] += t
                spread[g] += digamma(sum(n[u]) + alpha[g]) - digamma(alpha[g])
        new = {g: (shape - 1 + tables[g]) / (rate + spread[g]) for g in groups}
        old_phi, phi = phi, {}
        for level in nodes:
            for u in level:
                mass = new[group_of(u)] if u else root_mass
                base = phi[u[:-1]] if u else [1 / arity] * arity
                phi[u] = [(n[u][k] + mass * base[k]) / (sum(n[u]) + mass) for k in range(arity)]
        moved = max(abs(log(new[g] / alpha[g])) for g in groups)
        moved = max(
            [moved, *(abs(a - b) for u in phi for a, b in zip(phi[u], old_phi[u], strict=True))]
        )
        alpha = new
        if moved < 1e-13:
            break
    return phi, alpha


def group_by(tying):
    """Return the function from a context to the name of its concentration."""
    return {"level": len, "parent": lambda u: u[:-1], "single": lambda u: 0}[tying]
