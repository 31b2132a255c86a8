"""Compiled loops of the codebook: ranges, look-ups and MDL cuts.

Matrices are read as ``x[row, column]`` and codes written as ``out[column,
row]``; blocks of rows keep the transposition inside the cache. A single
column is a matrix of one column. Numbers are int64 or float64, codes uint8 or
uint16.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

__all__ = ["count_cells", "encode_matrix", "mark_present", "mdl_split"]

_BLOCK = 128  # rows; 128 × 30 columns × 8 bytes about fill the first-level cache

# How a column is looked up.
CUTS, LOOKUP, SEARCH = 0, 1, 2


@njit(nogil=True, cache=True)
def mark_present(x, columns, low, start, present):
    """Set present[start[k] + v - low[k]] for every value v of column columns[k]."""
    n_rows = x.shape[0]
    for first in range(0, n_rows, _BLOCK):
        last = min(first + _BLOCK, n_rows)
        for k in range(columns.shape[0]):
            j = columns[k]
            base = start[k] - low[k]
            for r in range(first, last):
                present[base + x[r, j]] = 1


@njit(nogil=True, cache=True)
def count_cells(x, labels, weights, low, n_classes, cells):
    """Add each row's weight to cells[(x - low) * n_classes + label]; x is one int64 column."""
    for r in range(x.shape[0]):
        cells[(x[r] - low) * n_classes + labels[r]] += weights[r]


@njit(nogil=True, cache=True)
def encode_matrix(x, kind, low, start, size, lookup, table, missing, unknown, out):
    """Write the code of every cell; return the first column with an infinite number, or -1.

    kind[j] says how column j is coded: CUTS counts the cut points below the
    value, table[start : start + size]; LOOKUP reads lookup[start + value -
    low]; SEARCH finds the value in the sorted table[start : start + size]. NaN
    gets missing[j], what is not found gets unknown[j].
    """
    n_rows, n_columns = x.shape
    bad = -1
    for first in range(0, n_rows, _BLOCK):
        last = min(first + _BLOCK, n_rows)
        for j in range(n_columns):
            begin, count, none = start[j], size[j], unknown[j]
            if kind[j] == LOOKUP:
                offset = low[j]
                for r in range(first, last):
                    v = x[r, j]
                    code = none
                    if v != v:
                        code = missing[j]
                    elif v - v != 0:
                        bad = j
                    else:
                        whole = np.int64(v)
                        place = whole - offset
                        if 0 <= place < count and whole == v:
                            code = lookup[begin + place]
                    out[j, r] = code
            else:
                exact = kind[j] == SEARCH
                for r in range(first, last):
                    v = x[r, j]
                    code = none
                    if v != v:
                        code = missing[j]
                    elif v - v != 0:
                        bad = j
                    else:
                        left = 0
                        right = count
                        while left < right:
                            middle = (left + right) >> 1
                            if table[begin + middle] < v:
                                left = middle + 1
                            else:
                                right = middle
                        if not exact or (left < count and table[begin + left] == v):
                            code = left
                    out[j, r] = code
    return bad


@njit(nogil=True, cache=True)
def _entropy(counts, total):
    """Return the entropy in bits of the counts, and how many are positive."""
    h = 0.0
    k = 0
    for c in range(counts.shape[0]):
        if counts[c] > 0.0:
            k += 1
            p = counts[c] / total
            h -= p * math.log2(p)
    return h, k


@njit(nogil=True, cache=True)
def _best_boundary(values, labels, weights, begin, end, n_classes):
    """Return the boundary of rows begin..end-1 with the least class entropy, and that entropy.

    The boundary is the index of the first row on the right; -1 if there is
    none. A boundary lies between two distinct values, unless all rows of both
    are of one and the same class. Ties go to the lowest.
    """
    left = np.zeros(n_classes)
    right = np.zeros(n_classes)
    n_right = 0.0
    for r in range(begin, end):
        right[labels[r]] += weights[r]
        n_right += weights[r]
    total = n_right
    n_left = 0.0
    best, best_entropy = -1, np.inf
    previous = -2  # class of the group before if pure, -1 if mixed, -2 if there is none
    r = begin
    while r < end:
        stop = r + 1
        pure = np.int64(labels[r])
        while stop < end and values[stop] == values[r]:
            if labels[stop] != labels[r]:
                pure = -1
            stop += 1
        if previous != -2 and (pure == -1 or pure != previous):
            entropy = (
                n_left * _entropy(left, n_left)[0] + n_right * _entropy(right, n_right)[0]
            ) / total
            # Equal entropies may differ in the last bits: their sums are over other cells.
            if entropy < best_entropy - 1e-12:
                best, best_entropy = r, entropy
        for q in range(r, stop):
            w = weights[q]
            left[labels[q]] += w
            right[labels[q]] -= w
            n_left += w
            n_right -= w
        previous = pure
        r = stop
    return best, best_entropy


@njit(nogil=True, cache=True)
def _accepts(labels, weights, begin, cut, end, n_classes, split_entropy):
    """Return whether the MDLPC criterion accepts the split at row `cut`."""
    left = np.zeros(n_classes)
    right = np.zeros(n_classes)
    for r in range(begin, cut):
        left[labels[r]] += weights[r]
    for r in range(cut, end):
        right[labels[r]] += weights[r]
    n_left, n_right = left.sum(), right.sum()
    n = n_left + n_right
    if n <= 1.0:
        return False
    h, k = _entropy(left + right, n)
    h_left, k_left = _entropy(left, n_left)
    h_right, k_right = _entropy(right, n_right)
    # log2(3^k - 2) without overflow for many classes.
    types = k * math.log2(3.0) + math.log2(1.0 - 2.0 * 3.0 ** (-k))
    delta = types - (k * h - k_left * h_left - k_right * h_right)
    return h - split_entropy > (math.log2(n - 1.0) + delta) / n


@njit(nogil=True, cache=True)
def mdl_split(values, labels, weights, n_classes, cuts):
    """Write the accepted boundaries (first row on the right) to cuts; return how many.

    Rows are sorted by value. Fayyad and Irani (1993), depth first with an
    explicit stack; `cuts` has room for one entry a row.
    """
    stack = [(0, values.shape[0])]
    n_cuts = 0
    while len(stack) > 0:
        begin, end = stack.pop()
        cut, entropy = _best_boundary(values, labels, weights, begin, end, n_classes)
        if cut >= 0 and _accepts(labels, weights, begin, cut, end, n_classes, entropy):
            cuts[n_cuts] = cut
            n_cuts += 1
            stack.append((begin, cut))
            stack.append((cut, end))
    return n_cuts
