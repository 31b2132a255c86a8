"""Fayyad and Irani's discretisation, written as the paper reads."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from math import log2


def entropy(labels):
    counts = Counter(labels)
    return -sum(n / len(labels) * log2(n / len(labels)) for n in counts.values())


def mdl_cuts(values, labels):
    rows = sorted(zip(values, labels, strict=True))
    distinct = sorted(set(values))
    best = None
    for a, b in pairwise(distinct):
        left = [y for x, y in rows if x <= a]
        right = [y for x, y in rows if x >= b]
        at_a, at_b = {y for x, y in rows if x == a}, {y for x, y in rows if x == b}
        if len(at_a | at_b) == 1:
            continue
        split = (len(left) * entropy(left) + len(right) * entropy(right)) / len(rows)
        if best is None or split < best[0] - 1e-12:
            best = split, (a + b) / 2, left, right
    if best is None:
        return []
    split, cut, left, right = best
    whole = [y for _, y in rows]
    n, k, k1, k2 = len(rows), len(set(whole)), len(set(left)), len(set(right))
    delta = log2(3**k - 2) - (k * entropy(whole) - k1 * entropy(left) - k2 * entropy(right))
    if entropy(whole) - split <= (log2(n - 1) + delta) / n:
        return []
    low = [(x, y) for x, y in rows if x <= cut]
    high = [(x, y) for x, y in rows if x > cut]
    return [*mdl_cuts(*zip(*low, strict=True)), cut, *mdl_cuts(*zip(*high, strict=True))]
