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
    zeros = flat.shape[0] - n_classes
    index = np.empty(ROW_BLOCK, np.int64)
    known = np.empty(ROW_BLOCK, np.bool_)
    for low in range(0, n_rows, ROW_BLOCK):
        size = min(ROW_BLOCK, n_rows - low)
        for f in range(flat_start.shape[0]):
            index[:size] = 0
            known[:size] = True
            for m in range(member_start[f], member_start[f + 1]):
                column = codes[members[m]]
                arity = arities[members[m]]
                for r in range(size):
                    code = np.int64(column[low + r])
                    known[r] &= code < arity
                    index[r] = index[r] * arity + code
            base = flat_start[f]
            if n_classes == 2:
                for r in range(size):
                    at = base + 2 * index[r] if known[r] else zeros
                    out[low + r, 0] += flat[at]
                    out[low + r, 1] += flat[at + 1]
            else:
                for r in range(size):
                    at = base + n_classes * index[r] if known[r] else zeros
                    for c in range(n_classes):
                        out[low + r, c] += flat[at + c]


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
def posterior_in_place(log_joint):
    """Turn a log-joint (n_rows, n_classes) into log-posteriors; returns log-evidence (n_rows,)."""
    n_rows, n_classes = log_joint.shape
    evidence = np.empty(n_rows)
    for r in range(n_rows):
        top = log_joint[r, 0]
        for c in range(1, n_classes):
            top = max(top, log_joint[r, c])
        total = 0.0
        for c in range(n_classes):
            total += np.exp(log_joint[r, c] - top)
        log_total = top + np.log(total)
        evidence[r] = log_total
        for c in range(n_classes):
            log_joint[r, c] -= log_total
    return evidence
