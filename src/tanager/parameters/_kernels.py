"""Table look-ups: log-probabilities of coded rows, for all classes at once."""

from __future__ import annotations

import numpy as np
from numba import njit

ROW_BLOCK = 512  # rows whose log-joint stays in the first-level cache over all families


@njit(nogil=True, cache=True)
def add_dense_terms(codes, arities, members, member_start, flat, flat_start, out):
    """Add every dense family's log P(x | y, parents) to the log-joint.

    codes (n_features, n_rows); members: parents then child of each family, one
    after the other, family f at ``member_start[f]:member_start[f+1]``; flat:
    tables (*parents, child, class) end to end, family f from ``flat_start[f]``,
    and `n_classes` zeros at the end for families with an unknown member;
    writes out (n_rows, n_classes).
    """
    n_rows = codes.shape[1]
    n_classes = out.shape[1]
    buffer = np.zeros(ROW_BLOCK, np.uint32)
    for low in range(0, n_rows, ROW_BLOCK):
        size = min(ROW_BLOCK, n_rows - low)
        part = out[low : low + size]
        index = buffer[:size]
        for f in range(flat_start.shape[0]):
            family = members[member_start[f] : member_start[f + 1]]
            known = True
            for m in range(family.shape[0]):
                column = codes[family[m], low : low + size]
                arity = np.uint32(arities[family[m]] if m > 0 else 0)
                top = np.uint32(0)
                for r in range(size):
                    code = np.uint32(column[r])
                    top = max(top, code)
                    index[r] = index[r] * arity + code
                known &= top < arities[family[m]]
            table = flat[flat_start[f] :]
            if not known:
                zeros = np.uint32(table.shape[0] // n_classes - 1)
                for m in range(family.shape[0]):
                    for r in range(size):
                        if codes[family[m], low + r] >= arities[family[m]]:
                            index[r] = zeros
            # Unsigned indices spare the test for negative ones; two classes, a loop.
            if n_classes == 2:
                for r in range(size):
                    at = np.uint64(2) * np.uint64(index[r])
                    part[r, 0] += table[at]
                    part[r, 1] += table[at + np.uint64(1)]
            else:
                for r in range(size):
                    at = np.uint64(n_classes) * np.uint64(index[r])
                    for c in range(n_classes):
                        part[r, c] += table[at + np.uint64(c)]


@njit(nogil=True, cache=True)
def _find(values, low, high, wanted):
    """Return the position of `wanted` in sorted distinct ``values[low:high]``, or -1.

    Distinct non-negative integers put value v at offset v at the latest; where
    the run is complete that first guess hits.
    """
    guess = low + wanted
    if guess < high and values[guess] == wanted:
        return guess
    high = min(high, guess + 1)
    while low < high:
        middle = (low + high) // 2
        if values[middle] < wanted:
            low = middle + 1
        elif values[middle] > wanted:
            high = middle
        else:
            return middle
    return -1


@njit(nogil=True, cache=True)
def add_tree_terms(
    codes,
    arities,
    members,
    node_child,
    node_value,
    node_parent,
    node_start,
    node_log_escape,
    cell_value,
    cell_log_prob,
    inherit,
    backoff,
    out,
):
    """Add one tree-shaped family's log P(x | y, parents) to the log-joint.

    members: parents in back-off order, then the child; the node arrays are
    those of `TreeTable`; writes out (n_rows, n_classes). A row with an unknown
    member contributes nothing.
    """
    n_rows = codes.shape[1]
    n_classes = out.shape[1]
    n_parents = members.shape[0] - 1
    child = members[n_parents]
    log_uniform = -np.log(arities[child])
    for r in range(n_rows):
        known = True
        for m in range(n_parents + 1):
            known &= codes[members[m], r] < arities[members[m]]
        if not known:
            continue
        x = np.int64(codes[child, r])
        for c in range(n_classes):
            node = _find(node_value, node_child[0], node_child[1], c)
            depth = 0
            if node < 0:
                node = 0
            else:
                depth = 1
                for m in range(n_parents):
                    code = np.int64(codes[members[m], r])
                    below = _find(node_value, node_child[node], node_child[node + 1], code)
                    if below < 0:
                        break
                    node = below
                    depth += 1
            if not backoff and depth < n_parents + 1:
                out[r, c] += log_uniform
                continue
            total = 0.0
            while True:
                cell = _find(cell_value, node_start[node], node_start[node + 1], x)
                if cell >= 0:
                    total += cell_log_prob[cell]
                    break
                total += node_log_escape[node]
                if not inherit:
                    break
                if node == 0:
                    total += log_uniform
                    break
                node = node_parent[node]
            out[r, c] += total


@njit(nogil=True, cache=True)
def normalize_in_place(log_joint, in_logs):
    """Turn a log-joint (n_rows, n_classes) into posteriors, or into their logs."""
    n_rows, n_classes = log_joint.shape
    for r in range(n_rows):
        row = log_joint[r]
        best = 0
        for c in range(1, n_classes):
            if row[c] > row[best]:
                best = c
        top = row[best]
        total = 1.0
        for c in range(n_classes):
            row[c] -= top
            if c != best:
                term = np.exp(row[c])
                total += term
                if not in_logs:
                    row[c] = term
        if in_logs:
            log_total = np.log(total)
            for c in range(n_classes):
                row[c] -= log_total
        else:
            row[best] = 1.0
            for c in range(n_classes):
                row[c] /= total
