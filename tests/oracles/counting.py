"""Counts by plain loops: the slow, obvious twin of `tanager.counts`."""

from __future__ import annotations

from collections import Counter
from math import log


def joint_counts(codes, labels, weights, arities, members):
    """Return {(y, member codes...): weight}, rows with an unknown member left out."""
    counts = Counter()
    for r in range(len(labels)):
        values = [int(codes[m][r]) for m in members]
        if all(v < arities[m] for v, m in zip(values, members, strict=True)):
            counts[(int(labels[r]), *values)] += float(weights[r])
    return {key: n for key, n in counts.items() if n != 0}


def conditional_information(counts):
    """Return I(A; B | Y) in nats from {(y, a, b): n}."""
    total = sum(counts.values())
    n_y, n_ya, n_yb = Counter(), Counter(), Counter()
    for (y, a, b), n in counts.items():
        n_y[y] += n
        n_ya[y, a] += n
        n_yb[y, b] += n
    return sum(
        n / total * log(n * n_y[y] / (n_ya[y, a] * n_yb[y, b])) for (y, a, b), n in counts.items()
    )


def tree_levels(counts, depth):
    """Return per level 0..depth {context prefix: {value: n}} from {(context..., value): n}."""
    levels = []
    for d in range(depth + 1):
        level = {}
        for key, n in counts.items():
            cells = level.setdefault(key[:d], Counter())
            cells[key[-1]] += n
        levels.append(level)
    return levels


def as_dictionaries(tree):
    """Return a ContextTree in the form of `tree_levels`, checking its links on the way."""
    levels = []
    above_contexts = [()]
    for d, level in enumerate(tree.levels):
        contexts = (
            [()]
            if d == 0
            else [
                (*above_contexts[p], int(v)) for p, v in zip(level.parent, level.value, strict=True)
            ]
        )
        found = {}
        for u, context in enumerate(contexts):
            span = range(level.start[u], level.start[u + 1])
            found[context] = {int(level.cell_value[c]): float(level.cell_count[c]) for c in span}
            assert len(found[context]) == len(span)
            assert list(found[context]) == sorted(found[context])
            if d > 0:
                above = tree.levels[d - 1]
                parent = tree.level_node[d - 1] + level.parent[u]
                node = tree.level_node[d] + u
                assert tree.node_child[parent] <= node < tree.node_child[parent + 1]
                for c in span:
                    up = level.cell_parent[c]
                    assert above.cell_value[up] == level.cell_value[c]
                    assert above.start[level.parent[u]] <= up < above.start[level.parent[u] + 1]
        assert contexts == sorted(contexts)
        levels.append(found)
        above_contexts = contexts
    return levels
