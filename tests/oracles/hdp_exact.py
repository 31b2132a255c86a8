"""The hierarchical Dirichlet model by enumeration of all table counts and quadrature."""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import numpy as np
from scipy.special import gammaln


@lru_cache(maxsize=None, typed=True)  # 0 and 0.0 apart: integers stay exact
def stirling(n, t, discount=0):
    """Return the generalised Stirling number S(n, t); exact integers for no discount."""
    if n == t:
        return 1
    if t == 0 or t > n:
        return 0
    return stirling(n - 1, t - 1, discount) + (n - 1 - t * discount) * stirling(n - 1, t, discount)


def configurations(leaves, nodes):
    """Iterate over all consistent table counts.

    leaves: {context: [n]}; nodes: contexts from the longest to the shortest,
    root last. Yields ({context: [n]}, {context: [t]}).
    """

    def extend(at, n, t):
        if at == len(nodes) - 1:
            yield n, t
            return
        u = nodes[at]
        choices = [range(1, c + 1) if c > 0 else [0] for c in n[u]]
        for tables in product(*choices):
            above = list(n.get(u[:-1], [0] * len(tables)))
            for k, value in enumerate(tables):
                above[k] += value
            yield from extend(at + 1, {**n, u[:-1]: above}, {**t, u: tables})

    yield from extend(0, dict(leaves), {})


def log_weight(n, t, alpha_of, root_mass, arity, discount=0):
    """Return the logarithm of equation 11 with the root marginalised; alpha_of may give arrays."""
    root = n[()]
    total = gammaln(root_mass) - gammaln(root_mass + sum(root))
    total += sum(gammaln(root_mass / arity + c) - gammaln(root_mass / arity) for c in root)
    for u, tables in t.items():
        alpha = alpha_of(u)
        total = total + sum(np.log(alpha + i * discount) for i in range(sum(tables)))
        total = total + gammaln(alpha) - gammaln(alpha + sum(n[u]))
        for count, k in zip(n[u], tables, strict=True):
            total = total + (np.log(float(stirling(count, k, discount))) if count else 0.0)
    return total


def estimates(n, t, alpha_of, root_mass, arity, order, discount=0):
    """Return {context: [probabilities]} of one state, equations 12 to 14."""
    phi = {}
    for u in order:  # root first
        total = sum(n[u])
        if not u:
            phi[u] = [(c + root_mass / arity) / (total + root_mass) for c in n[u]]
            continue
        alpha = alpha_of(u)
        spare = alpha + discount * sum(t[u])
        above = phi[u[:-1]]
        phi[u] = [
            (n[u][k] - discount * t[u][k] + spare * above[k]) / (total + alpha)
            for k in range(arity)
        ]
    return phi


def posterior_means(leaves, arity, group_of, shape, rate, root_mass, grid, discount=0):
    """Return {context: posterior mean of its probabilities}; see `posterior_sums`."""
    model = (shape, rate, root_mass, grid, discount)
    return posterior_sums(leaves, arity, group_of, *model)[1]


def posterior_sums(leaves, arity, group_of, shape, rate, root_mass, grid, discount=0):
    """Return the log evidence, up to a constant, and {context: mean of its probabilities}.

    Table counts are summed over; the concentrations are integrated over `grid`
    (values evenly spaced in their logarithm), one axis of the arrays per group.
    """
    contexts = {u[:d] for u in leaves for d in range(len(u) + 1)}
    nodes = sorted(contexts, key=lambda u: (-len(u), u))
    groups = sorted({group_of(u) for u in nodes if u}, key=str)
    axes = np.meshgrid(*[grid] * len(groups), indexing="ij", sparse=True)
    alpha = dict(zip(groups, axes, strict=True))
    prior = sum(shape * np.log(a) - rate * a for a in axes)  # d alpha = alpha d log alpha

    def alpha_of(u):
        return alpha[group_of(u)]

    states = list(configurations(leaves, nodes))
    logs = [prior + log_weight(n, t, alpha_of, root_mass, arity, discount) for n, t in states]
    top = max(values.max() for values in logs)
    weight, sums = 0.0, {u: np.zeros(arity) for u in nodes}
    for (n, t), values in zip(states, logs, strict=True):
        share = np.exp(values - top)
        weight += share.sum()
        phi = estimates(n, t, alpha_of, root_mass, arity, nodes[::-1], discount)
        for u in nodes:
            sums[u] += [(share * value).sum() for value in phi[u]]
    return top + np.log(weight), {u: v / weight for u, v in sums.items()}
