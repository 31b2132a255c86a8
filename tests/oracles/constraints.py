"""Constraints by their meaning, and every forest and every graph of a few features."""

from itertools import product


def forests(n):
    """Yield every choice of at most one parent per feature that has no cycle."""
    for parents in product(range(-1, n), repeat=n):
        if all(p != i for i, p in enumerate(parents)) and _acyclic(
            [(p,) if p >= 0 else () for p in parents]
        ):
            yield parents


def graphs(n):
    """Yield the parents of every directed graph without a cycle."""
    others = [[j for j in range(n) if j != i] for i in range(n)]
    subsets = [
        [tuple(j for bit, j in enumerate(rest) if mask >> bit & 1) for mask in range(2 ** (n - 1))]
        for rest in others
    ]
    for parents in product(*subsets):
        if _acyclic(parents):
            yield parents


def _acyclic(parents):
    left = set(range(len(parents)))
    while left:
        ready = {i for i in left if not left & set(parents[i])}
        if not ready:
            return False
        left -= ready
    return True


def satisfied(statement, parents, names):
    """Return whether the parents of all features, by index, satisfy one statement."""
    kind, said = statement
    arcs = {(names[p], names[c]) for c, above in enumerate(parents) for p in above}
    if kind == "required":
        return said in arcs
    if kind == "forbidden":
        return not any(said[0] in ("*", p) and said[1] in ("*", c) for p, c in arcs)
    if kind in ("tiers", "order"):
        tier = {name: at for at, group in enumerate(said) for name in group}
        return not any(p in tier and c in tier and tier[p] > tier[c] for p, c in arcs)
    if kind == "roots":
        return not any(c == said for _, c in arcs)
    if kind == "leaves":
        return not any(p == said for p, _ in arcs)
    name, most = said
    return len(parents[names.index(name)]) <= most
