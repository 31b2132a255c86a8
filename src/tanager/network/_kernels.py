"""Exact sums over unknown features on forests."""

from __future__ import annotations

import numpy as np

from tanager.numerics.compiling import kernel


@kernel
def _log_sum(table, low, arity, n_classes, c, held, offset):
    """Return log sum over x of exp(table[low + x, c] + held[offset + x, c])."""
    top = -np.inf
    for x in range(arity):
        top = max(top, table[low + x * n_classes + c] + held[offset + x * n_classes + c])
    if top == -np.inf:
        return top
    total = 0.0
    for x in range(arity):
        term = table[low + x * n_classes + c] + held[offset + x * n_classes + c]
        total += np.exp(term - top)
    return top + np.log(total)


@kernel
def add_forest_sums(codes, arities, features, parents, flat, flat_start, out):
    """Add, row by row, what the families with an unknown member sum to.

    features: topological order, parents first; parents: each one's parent
    feature or -1; flat: tables (parent, child, class) end to end, in the same
    order. Messages go from the leaves to the roots in logs: an unknown feature
    holds, per value and class, the log-probability of what is known below it.
    Writes out (n_rows, n_classes).
    """
    n_features = arities.shape[0]
    n_classes = out.shape[1]
    offset = np.zeros(n_features + 1, np.int64)
    for i in range(n_features):
        offset[i + 1] = offset[i] + arities[i] * n_classes
    held = np.zeros(offset[n_features])
    holds = np.zeros(n_features, np.bool_)
    for r in range(codes.shape[1]):
        for at in range(features.shape[0] - 1, -1, -1):
            i, p = features[at], parents[at]
            x = np.int64(codes[i, r])
            known = x < arities[i]
            if not known and not holds[i]:
                continue  # nothing known below: sums to one
            parent_known = p < 0 or codes[p, r] < arities[p]
            if known and parent_known:
                continue  # an ordinary term, added elsewhere
            low, high = 0, 1
            if p >= 0:
                low = np.int64(codes[p, r]) if parent_known else 0
                high = low + 1 if parent_known else arities[p]
            for a in range(low, high):
                base = flat_start[at] + a * arities[i] * n_classes
                for c in range(n_classes):
                    if known:
                        term = flat[base + x * n_classes + c]
                    else:
                        term = _log_sum(flat, base, arities[i], n_classes, c, held, offset[i])
                    if parent_known:
                        out[r, c] += term
                    else:
                        held[offset[p] + a * n_classes + c] += term
            if not parent_known:
                holds[p] = True
            if holds[i]:
                held[offset[i] : offset[i + 1]] = 0.0
                holds[i] = False
