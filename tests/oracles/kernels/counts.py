"""Twins of counts.c, codes.c and tables.c."""

from __future__ import annotations

from collections import Counter
from math import isinf, isnan, log

import numpy as np

from tests.oracles.counting import conditional_information
from tests.oracles.mdl import mdl_cuts


def _weights(weights, n_rows):
    return weights if len(weights) else np.ones(n_rows)


def count_values(codes, labels, weights, arities, n_classes, start, out):
    """Add N(x_i, y)."""
    for i, r in np.ndindex(*codes.shape):
        if codes[i, r] < arities[i]:
            at = start[i] + codes[i, r] * n_classes + labels[r]
            out[at] += _weights(weights, len(labels))[r]


def count_pairs(codes, labels, weights, arities, n_classes, left, right, start, out):
    """Add N(x_i, x_j, y)."""
    weights = _weights(weights, len(labels))
    for first, i, j in zip(start, left, right, strict=True):
        for r, (a, b) in enumerate(zip(codes[i].tolist(), codes[j].tolist(), strict=True)):
            if a < arities[i] and b < arities[j]:
                out[first + (a * arities[j] + b) * n_classes + labels[r]] += weights[r]


def count_pairs_by_bits(codes, labels, arities, n_classes, left, right, start, out):
    """Add the same, rows of weight one."""
    count_pairs(codes, labels, (), arities, n_classes, left, right, start, out)


def score_information(flat, start, left_arity, right_arity, n_classes, out):
    """Write I(X_i; X_j | Y) of every pair."""
    for p, (i, j) in enumerate(zip(left_arity, right_arity, strict=True)):
        joint = flat[start[p] : start[p] + i * j * n_classes].reshape(i, j, n_classes)
        cells = {(c, a, b): float(n) for (a, b, c), n in np.ndenumerate(joint) if n > 0}
        out[p] = conditional_information(cells) if cells else 0.0


def extend_keys(codes, members, arities, keys):
    """Extend mixed-radix keys."""
    for member, arity in zip(members, arities, strict=True):
        for r, code in enumerate(codes[member].tolist()):
            keys[r] = -1 if code >= arity or keys[r] < 0 else keys[r] * arity + code


def count_keys(keys, weights, out):
    """Count keys; negative ones are left out."""
    for key, weight in zip(keys, _weights(weights, len(keys)), strict=True):
        if key >= 0:
            out[key] += weight


def _write(counts, out_keys, out_counts):
    n = len(counts)
    out_keys[:n], out_counts[:n] = sorted(counts), [counts[key] for key in sorted(counts)]
    return n


def _summed(keys, weights):
    counts = Counter()
    for key, weight in zip(keys.tolist(), weights, strict=True):
        counts[key] += weight
    return counts


def collapse_keys(keys, weights, out_keys, out_counts):
    """Write distinct keys and their counts."""
    counts = _summed(keys, _weights(weights, len(keys)))
    return _write({key: n for key, n in counts.items() if key >= 0}, out_keys, out_counts)


def merge_runs(keys_a, counts_a, keys_b, counts_b, out_keys, out_counts):
    """Write the union of two sorted runs."""
    counts = _summed(np.append(keys_a, keys_b), np.append(counts_a, counts_b))
    return _write(counts, out_keys, out_counts)


def gather_level(
    child, start, cell_value, cell_count, arity, up_start, up_value, up_count, cell_parent
):
    """Sum the cells of sibling nodes into their parents' cells."""
    del arity
    n = 0
    for parent in range(len(child) - 1):
        up_start[parent] = n
        cells = range(start[child[parent]], start[child[parent + 1]])
        values = sorted({int(cell_value[c]) for c in cells})
        for c in cells:
            cell_parent[c] = n + values.index(cell_value[c])
        for value in values:
            up_value[n] = value
            up_count[n] = sum(cell_count[c] for c in cells if cell_value[c] == value)
            n += 1
    up_start[-1] = n
    return n


def count_cells(x, labels, weights, low, n_classes, cells):
    """Add each row's weight to the cell of its value and class."""
    np.add.at(cells, (x - low) * n_classes + labels, weights)


def encode_matrix(x, kind, low, start, size, lookup, table, missing, unknown, out):
    """Write the code of every cell; return a column with an infinite number, or -1."""
    bad = []
    for (r, j), value in np.ndenumerate(x):
        entries = table[start[j] : start[j] + size[j]].tolist()
        if isnan(value):
            code = missing[j]
        elif kind[j] == 0:
            code = sum(entry < value for entry in entries)
        elif kind[j] == 1:
            there = not isinf(value) and value == int(value) and 0 <= value - low[j] < size[j]
            code = lookup[start[j] + int(value) - low[j]] if there else unknown[j]
        else:
            code = entries.index(value) if value in entries else unknown[j]
        out[j, r] = code
        if isinf(value):
            bad.append(j)
    return min(bad, default=-1)


def split_by_mdl(values, labels, weights, n_classes, cuts):
    """Write the accepted boundaries; rows of whole weights are repeated."""
    del n_classes
    times = weights.astype(int)
    found = mdl_cuts(np.repeat(values, times).tolist(), np.repeat(labels, times).tolist())
    firsts = [int(np.searchsorted(values, cut)) for cut in found]
    cuts[: len(firsts)] = firsts
    return len(firsts)


def add_dense_terms(codes, arities, members, member_start, flat, flat_start, out):
    """Add every dense family's term; a family with an unknown member adds nothing."""
    n_classes = out.shape[1]
    for f, first in enumerate(flat_start):
        family = members[member_start[f] : member_start[f + 1]].tolist()
        for r in range(out.shape[0]):
            at = 0
            for m in family:
                place = ~m if m < 0 else m
                code = int(codes[place, r])
                if code >= arities[place]:
                    break
                at = at if m < 0 else at * int(arities[place]) + code
            else:
                out[r] += flat[first + at * n_classes : first + (at + 1) * n_classes]


def add_tree_terms(
    codes,
    arities,
    members,
    dense,
    first,
    child,
    value,
    entry_start,
    entry_class,
    entry_log_escape,
    cell_start,
    cell_value,
    cell_log_prob,
    n_dense,
    inherit,
    backoff,
    out,
):
    """Add one tree-shaped family, row by row from the dense part down."""
    *parents, x = members.tolist()
    n_classes = out.shape[1]
    for r in range(out.shape[0]):
        row = {m: int(codes[m, r]) for m in members.tolist()}
        if any(row[m] >= arities[m] for m in row):
            continue
        at = 0
        for m in parents[:n_dense]:
            at = at * int(arities[m]) + row[m]
        start = (at * int(arities[x]) + row[x]) * n_classes
        term, context = dense[start : start + n_classes].copy(), int(first[at])
        for m in parents[n_dense:]:
            if context < 0:
                break
            below = range(child[context], child[context + 1])
            context = next((c for c in below if value[c] == row[m]), -1)
            for e in range(entry_start[context], entry_start[context + 1]) if context >= 0 else ():
                cells = range(cell_start[e], cell_start[e + 1])
                hit = next((c for c in cells if cell_value[c] == row[x]), None)
                label = entry_class[e]
                if hit is not None:
                    term[label] = cell_log_prob[hit]
                else:
                    term[label] = entry_log_escape[e] + (term[label] if inherit else 0.0)
        if not backoff and n_dense < len(parents):
            entries = range(entry_start[context], entry_start[context + 1]) if context >= 0 else ()
            seen = {int(entry_class[e]) for e in entries}
            for c in set(range(n_classes)) - seen:
                term[c] = -log(arities[x])
        out[r] += term


def normalize(log_joint, in_logs):
    """Turn a log-joint into posteriors, or their logs."""
    log_joint -= np.logaddexp.reduce(log_joint, axis=1)[:, None]
    if not in_logs:
        log_joint[:] = np.exp(log_joint)
