"""Counting kernels: exact sums in float64, whatever the order of rows.

An empty `weights` array stands for "every row weighs one".
"""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

BIT_ROWS = 16_384  # rows whose bit sets stay in the second-level cache


@intrinsic
def _popcount(typing_context, word):  # noqa: ARG001
    """Return the number of set bits of a 64-bit word."""

    def codegen(context, builder, signature, args):  # noqa: ARG001
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), codegen


@njit(nogil=True, cache=True)
def add_value_counts(codes, labels, weights, arities, n_classes, out_start, out):
    """Add N(x_i, y) of every feature; feature i at ``out[out_start[i]:]`` as (arity, class)."""
    weighted = weights.shape[0] > 0
    for i in range(codes.shape[0]):
        base = out_start[i]
        for r in range(codes.shape[1]):
            code = np.int64(codes[i, r])
            if code < arities[i]:
                out[base + code * n_classes + labels[r]] += weights[r] if weighted else 1.0


@njit(nogil=True, cache=True)
def _order_by_class(labels, low, high, n_classes, place, word_start):
    """Give rows low..high bit positions grouped by class, each class from a new word.

    Writes place (high - low,) and word_start (n_classes + 1,).
    """
    filled = np.zeros(n_classes, np.int64)
    for r in range(low, high):
        filled[labels[r]] += 1
    word_start[0] = 0
    for c in range(n_classes):
        word_start[c + 1] = word_start[c] + (filled[c] + 63) // 64
        filled[c] = word_start[c] * 64
    for r in range(low, high):
        c = labels[r]
        place[r - low] = filled[c]
        filled[c] += 1


@njit(nogil=True, cache=True)
def _pack_equal(codes, value, flags, words):
    """Write, 64 codes to a word, which of them equal a value.

    Eight flags in the bytes of a number are gathered into its top byte by one
    multiplication, each landing on a bit of its own.
    """
    for at in range(codes.shape[0]):
        flags[at] = codes[at] == value
    eights = flags.view(np.uint64)
    for w in range(codes.shape[0] // 64):
        word = np.uint64(0)
        for b in range(8):
            packed = (eights[8 * w + b] * np.uint64(0x0102040810204080)) >> np.uint64(56)
            word |= packed << np.uint64(8 * b)
        words[w] = word


@njit(nogil=True, cache=True)
def add_pair_counts_by_bits(codes, labels, arities, n_classes, left, right, out_start, out):
    """Add N(x_i, x_j, y) of unweighted rows for the pairs (left[p], right[p]).

    Each value of each feature is a set of rows held in bits, grouped by class;
    a joint count is the size of an intersection. Pair p stands at
    ``out[out_start[p]:]`` as (arity_i, arity_j, class). Costs
    arity_i * arity_j / 64 word operations per row: for few-valued features.
    """
    n_features, n_rows = codes.shape
    first = np.zeros(n_features + 1, np.int64)
    for i in range(n_features):
        first[i + 1] = first[i] + arities[i]
    n_words = BIT_ROWS // 64 + n_classes
    bits = np.empty((first[n_features], n_words), np.uint64)
    place = np.empty(BIT_ROWS, np.int64)
    word_start = np.empty(n_classes + 1, np.int64)
    grouped = np.empty(n_words * 64, codes.dtype)
    flags = np.empty(n_words * 64, np.uint8)
    for low in range(0, n_rows, BIT_ROWS):
        high = min(low + BIT_ROWS, n_rows)
        _order_by_class(labels, low, high, n_classes, place, word_start)
        size = word_start[n_classes]
        for i in range(n_features):
            for at in range(size * 64):
                grouped[at] = arities[i]  # between the classes: no value at all
            column = codes[i, low:high]
            for r in range(column.shape[0]):
                grouped[place[r]] = column[r]
            for value in range(arities[i]):
                _pack_equal(grouped[: size * 64], value, flags, bits[first[i] + value])
        for p in range(left.shape[0]):
            i, j = left[p], right[p]
            at = out_start[p]
            for a in range(arities[i]):
                row_a = bits[first[i] + a]
                for b in range(arities[j]):
                    row_b = bits[first[j] + b]
                    for c in range(n_classes):
                        set_a = row_a[word_start[c] : word_start[c + 1]]
                        set_b = row_b[word_start[c] : word_start[c + 1]]
                        n = np.uint64(0)
                        for w in range(set_a.shape[0]):
                            n += _popcount(set_a[w] & set_b[w])
                        out[at] += np.int64(n)
                        at += 1


@njit(nogil=True, cache=True)
def add_pair_counts(codes, labels, weights, arities, n_classes, left, right, out_start, out):
    """Add N(x_i, x_j, y), row by row: for many-valued features and for weights."""
    n_features, n_rows = codes.shape
    weighted = weights.shape[0] > 0
    known = np.empty(n_features, np.bool_)
    for i in range(n_features):
        top = 0
        for r in range(n_rows):
            top = max(top, np.int64(codes[i, r]))
        known[i] = top < arities[i]
    for p in range(left.shape[0]):
        i, j = left[p], right[p]
        column_i, column_j = codes[i], codes[j]
        arity_i, arity_j = np.uint64(arities[i]), np.uint64(arities[j])
        classes = np.uint64(n_classes)
        joint = out[out_start[p] : out_start[p] + arities[i] * arities[j] * n_classes]
        if known[i] and known[j] and not weighted:
            for r in range(n_rows):
                a, b = np.uint64(column_i[r]), np.uint64(column_j[r])
                joint[(a * arity_j + b) * classes + np.uint64(labels[r])] += 1.0
        else:
            for r in range(n_rows):
                a, b = np.uint64(column_i[r]), np.uint64(column_j[r])
                if a < arity_i and b < arity_j:
                    at = (a * arity_j + b) * classes + np.uint64(labels[r])
                    joint[at] += weights[r] if weighted else 1.0


@njit(nogil=True, cache=True)
def conditional_mutual_information(joint):
    """Return I(X_i; X_j | Y) in nats from counts (arity_i, arity_j, class)."""
    arity_i, arity_j, n_classes = joint.shape
    n_iy = np.zeros((arity_i, n_classes))
    n_jy = np.zeros((arity_j, n_classes))
    n_y = np.zeros(n_classes)
    for a in range(arity_i):
        for b in range(arity_j):
            for c in range(n_classes):
                n = joint[a, b, c]
                n_iy[a, c] += n
                n_jy[b, c] += n
                n_y[c] += n
    total = 0.0
    for c in range(n_classes):
        total += n_y[c]
    if total <= 0:
        return 0.0
    information = 0.0
    for a in range(arity_i):
        for b in range(arity_j):
            for c in range(n_classes):
                n = joint[a, b, c]
                if n > 0:
                    information += n * np.log(n * n_y[c] / (n_iy[a, c] * n_jy[b, c]))
    return information / total


@njit(nogil=True, cache=True)
def information_of_pairs(flat, start, left_arity, right_arity, n_classes, out):
    """Write I(X_i; X_j | Y) of every pair, counted at ``flat[start[p]:]``, to out (n_pairs,)."""
    for p in range(start.shape[0]):
        shape = (left_arity[p], right_arity[p], n_classes)
        size = left_arity[p] * right_arity[p] * n_classes
        out[p] = conditional_mutual_information(flat[start[p] : start[p] + size].reshape(shape))


@njit(nogil=True, cache=True)
def extend_keys(codes, members, member_arities, keys):
    """Extend each row's mixed-radix key by its members' codes; -1 where one is unknown."""
    for m in range(members.shape[0]):
        arity = member_arities[m]
        column = codes[members[m]]
        for r in range(keys.shape[0]):
            code = np.int64(column[r])
            if code >= arity or keys[r] < 0:
                keys[r] = -1
            else:
                keys[r] = keys[r] * arity + code


@njit(nogil=True, cache=True)
def add_keys(keys, weights, out):
    """Count keys into a dense array; negative keys are left out."""
    weighted = weights.shape[0] > 0
    for r in range(keys.shape[0]):
        if keys[r] >= 0:
            out[keys[r]] += weights[r] if weighted else 1.0


@njit(nogil=True, cache=True)
def run_lengths(keys, weights, out_keys, out_counts):
    """Collapse sorted keys into distinct keys and counts; returns how many."""
    weighted = weights.shape[0] > 0
    last = -1
    for r in range(keys.shape[0]):
        if keys[r] < 0:
            continue
        if last < 0 or out_keys[last] != keys[r]:
            last += 1
            out_keys[last] = keys[r]
            out_counts[last] = 0.0
        out_counts[last] += weights[r] if weighted else 1.0
    return last + 1


@njit(nogil=True, cache=True)
def merge_runs(keys_a, counts_a, keys_b, counts_b, out_keys, out_counts):
    """Merge two sorted runs of distinct keys; returns the length."""
    a = b = n = 0
    while a < keys_a.shape[0] or b < keys_b.shape[0]:
        if b == keys_b.shape[0] or (a < keys_a.shape[0] and keys_a[a] < keys_b[b]):
            out_keys[n] = keys_a[a]
            out_counts[n] = counts_a[a]
            a += 1
        elif a == keys_a.shape[0] or keys_b[b] < keys_a[a]:
            out_keys[n] = keys_b[b]
            out_counts[n] = counts_b[b]
            b += 1
        else:
            out_keys[n] = keys_a[a]
            out_counts[n] = counts_a[a] + counts_b[b]
            a += 1
            b += 1
        n += 1
    return n


@njit(nogil=True, cache=True)
def _sort_distinct(values, arity, place):
    """Sort distinct values, which are those below `arity` with a place of 0, in place.

    Where they are dense among all values a scan finds them in order; elsewhere
    Shell's method. (numba's own sort takes longer to compile than all the rest.)
    """
    n = values.shape[0]
    if n * 16 >= arity:
        at = 0
        for value in range(arity):
            if place[value] == 0:
                values[at] = value
                at += 1
        return
    gap = n // 2
    while gap > 0:
        for i in range(gap, n):
            value = values[i]
            j = i
            while j >= gap and values[j - gap] > value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value
        gap = gap * 5 // 11 if gap > 2 else gap // 2


@njit(nogil=True, cache=True)
def gather_level(
    child, start, cell_value, cell_count, arity, up_start, up_value, up_count, cell_parent
):
    """Sum the cells of sibling nodes into their parents' cells.

    child (n_parents + 1,), start, cell_value, cell_count: the lower level.
    Writes the upper level's start (n_parents + 1,), cells (at most as many as
    below), and for every lower cell the upper cell with the same value.
    Returns the number of upper cells.
    """
    count = np.zeros(arity)
    place = np.empty(arity, np.int64)
    for value in range(arity):
        place[value] = -1
    n = 0
    up_start[0] = 0
    for parent in range(child.shape[0] - 1):
        low, high = start[child[parent]], start[child[parent + 1]]
        begin = n
        for cell in range(low, high):
            value = cell_value[cell]
            if place[value] < 0:
                place[value] = 0
                up_value[n] = value
                n += 1
            count[value] += cell_count[cell]
        _sort_distinct(up_value[begin:n], arity, place)
        for cell in range(begin, n):
            value = up_value[cell]
            place[value] = cell
            up_count[cell] = count[value]
        for cell in range(low, high):
            cell_parent[cell] = place[cell_value[cell]]
        for cell in range(begin, n):
            place[up_value[cell]] = -1
            count[up_value[cell]] = 0.0
        up_start[parent + 1] = n
    return n
