"""The objective's pass over rows: gather scores, softmax, scatter residuals.

A row is scored by adding one slot per group or wide family (see `packing`), for
every class but the first, whose score is zero. Blocks of rows are scored group
by group and class by class, so that a block's tile of scores stays in the
first-level cache and each column is read as one run. Residuals are scattered as
integers on a fixed grid: integer sums are exact, so the gradient depends neither
on the chunking nor on the number of threads.
"""

from __future__ import annotations

import numpy as np
from numba import njit

ROW_BLOCK = 512
FRACTION_BITS = 52  # of the loss

CLL, MSE = 0, 1

# Divisions that test for zero keep loops from running on several rows at a
# time: the kernels that divide use NumPy's rule, and never divide by zero.


@njit(nogil=True, cache=True)
def join_codes(codes, features, radices, joint):
    """Write the joint value of some features, row-major, into joint (n_rows,) of uint16."""
    for at in range(features.shape[0]):
        column = codes[features[at]]
        radix = np.uint32(radices[at])
        for r in range(column.shape[0]):
            joint[r] = np.uint16(np.uint32(joint[r]) * radix + np.uint32(column[r]))


@njit(nogil=True, cache=True)
def find_slots(contexts, column, arity, start, blank, slots):
    """Write the slot of each row's cell into slots (n_rows,); `blank` where it has none."""
    for r in range(column.shape[0]):
        known = (contexts[r] >= 0) & (column[r] < arity)
        slots[r] = start + contexts[r] * arity + column[r] if known else blank


@njit(nogil=True, cache=True)
def find_contexts(codes, arities, parents, keys, key_start, ids):
    """Walk the prefix tree of seen contexts; writes ids (n_rows,) of int32, -1 where unseen.

    keys[key_start[d]:key_start[d+1]] are the sorted (node above) * arity + code
    of the nodes at depth d + 1; a node's id is its position there.
    """
    for r in range(codes.shape[1]):
        node = np.int64(0)
        for d in range(parents.shape[0]):
            code = np.int64(codes[parents[d], r])
            arity = arities[parents[d]]
            if code >= arity:
                node = -1
                break
            wanted = node * arity + code
            low, high = key_start[d], key_start[d + 1]
            while low < high:
                middle = (low + high) // 2
                if keys[middle] < wanted:
                    low = middle + 1
                else:
                    high = middle
            if low == key_start[d + 1] or keys[low] != wanted:
                node = -1
                break
            node = low - key_start[d]
        ids[r] = node


@njit(nogil=True, cache=True, error_model="numpy")
def evaluate(rows, starts, tables, flat, n_slots, kind, scale, loss, gradient):
    """Add loss and gradient of a chunk of rows (equations 9 to 11).

    rows: a `PackedRows`; starts (n_groups,); tables (n_folds,): the set of
    tables that each fold's rows read, -1 for rows that do not count; flat
    (n_classes - 1, n_tables * n_slots). Adds to loss (2,) of int64, whole part
    and fraction, and on the grid of `scale` to gradient of flat's shape.
    """
    n_groups, n_wide = rows.joint.shape[0], rows.slots.shape[0]
    n_rows = rows.labels.shape[0]
    others = flat.shape[0]
    at = np.empty((n_groups + n_wide, ROW_BLOCK), np.int32)
    shift = np.empty(ROW_BLOCK, np.int32)
    weight = np.empty(ROW_BLOCK)
    score = np.empty((others, ROW_BLOCK))
    work = np.empty((3, ROW_BLOCK))
    share = np.empty((others + 1, ROW_BLOCK))
    residual = np.empty((others, ROW_BLOCK), np.int64)
    for low in range(0, n_rows, ROW_BLOCK):
        size = min(ROW_BLOCK, n_rows - low)
        for r in range(size):
            table = tables[rows.folds[low + r]] if rows.folds.shape[0] else tables[0]
            shift[r] = max(table, 0) * n_slots
            given = rows.weights[low + r] if rows.weights.shape[0] else 1.0
            weight[r] = given if table >= 0 else 0.0
        for g in range(n_groups):
            base, column, place = np.int32(starts[g]), rows.joint[g], at[g]
            for r in range(size):
                place[r] = base + np.int32(column[low + r]) + shift[r]
        for g in range(n_wide):
            column, place = rows.slots[g], at[n_groups + g]
            for r in range(size):
                place[r] = column[low + r] + shift[r]
        for c in range(others):
            _gather(flat[c], at, shift, size, score[c])
        labels = rows.labels[low : low + size]
        if others == 1 and kind == CLL:
            _logistic(labels, weight, scale, work, score[0], residual[0], loss)
        else:
            _softmax(labels, weight, scale, kind, score, share, residual, loss)
        for c in range(others):
            _scatter(residual[c], at, shift, size, gradient[c])


@njit(nogil=True, cache=True)
def _gather(flat, at, shift, size, score):
    """Write each row's sum of slots into score."""
    for r in range(size):
        score[r] = flat[shift[r]]
    for g in range(at.shape[0]):
        place = at[g]
        for r in range(size):
            score[r] += flat[place[r]]


@njit(nogil=True, cache=True)
def _scatter(residual, at, shift, size, gradient):
    """Add each row's residual to its slots."""
    for r in range(size):
        gradient[shift[r]] += residual[r]
    for g in range(at.shape[0]):
        place = at[g]
        for r in range(size):
            gradient[place[r]] += residual[r]


@njit(nogil=True, cache=True)
def _add_loss(whole, fraction, loss):
    """Add a block's loss, its fraction in units of 2^-52, and carry."""
    loss[0] += whole + (fraction >> FRACTION_BITS)
    loss[1] += fraction & ((1 << FRACTION_BITS) - 1)
    loss[0] += loss[1] >> FRACTION_BITS
    loss[1] &= (1 << FRACTION_BITS) - 1


@njit(nogil=True, cache=True, error_model="numpy")
def _logistic(labels, weight, scale, work, score, residual, loss):
    """Two classes: turn scores of class 1 against class 0 into residuals, add the loss.

    The loops hold no branches and no calls, so that they run on several rows at
    a time; exp and log1p are a range reduction with a polynomial, right to the
    last bits.
    """
    size = labels.shape[0]
    small, value, part = work[0], work[1], work[2]
    for r in range(size):
        small[r] = -min(abs(score[r]), 700.0)
    _exp(small[:size])
    for r in range(size):
        # log(1 + e) = 2 artanh(e / (2 + e)), halved first where e is large, so
        # that the argument of the series stays below 0.172
        e = small[r]
        large = e > 0.41421356237309503
        t = ((e - 1.0) if large else e) / ((e + 3.0) if large else (e + 2.0))
        q = t * t
        total = 0.047619047619047616  # 1/21, then 1/19, 1/17, ...
        total = total * q + 0.05263157894736842
        total = total * q + 0.058823529411764705
        total = total * q + 0.06666666666666667
        total = total * q + 0.07692307692307693
        total = total * q + 0.09090909090909091
        total = total * q + 0.1111111111111111
        total = total * q + 0.14285714285714285
        total = total * q + 0.2
        total = total * q + 0.3333333333333333
        total = total * q * t + t
        value[r] = 2.0 * total + (0.6931471805599453 if large else 0.0)
    for r in range(size):
        side = 1.0 - 2.0 * labels[r]
        wrong = side * score[r]
        lost = weight[r] * (max(wrong, 0.0) + value[r])
        # the probability of the class that is not the row's
        miss = (1.0 if wrong > 0.0 else small[r]) / (1.0 + small[r])
        small[r] = np.floor(lost)
        part[r] = (lost - small[r]) * 4503599627370496.0
        value[r] = weight[r] * scale * (side * miss)
    whole, fraction = 0, 0
    for r in range(size):
        whole += np.int64(small[r])
        fraction += np.int64(np.rint(part[r]))
        residual[r] = np.int64(np.rint(value[r]))
    _add_loss(whole, fraction, loss)


@njit(nogil=True, cache=True, error_model="numpy")
def _exp(x):
    """Replace x in [-700, 0] by exp(x), within two units in the last place."""
    bits = np.empty(x.shape[0], np.int64)
    for r in range(x.shape[0]):
        k = np.floor(x[r] * 1.4426950408889634 + 0.5)
        bits[r] = (np.int64(np.int32(k)) + 1023) << 52
        y = (x[r] - k * 0.6931471803691238) - k * 1.9082149292705877e-10
        p = 1.0 / 6227020800.0
        p = p * y + 1.0 / 479001600.0
        p = p * y + 1.0 / 39916800.0
        p = p * y + 1.0 / 3628800.0
        p = p * y + 1.0 / 362880.0
        p = p * y + 1.0 / 40320.0
        p = p * y + 1.0 / 5040.0
        p = p * y + 1.0 / 720.0
        p = p * y + 1.0 / 120.0
        p = p * y + 1.0 / 24.0
        p = p * y + 1.0 / 6.0
        p = p * y + 0.5
        p = p * y + 1.0
        x[r] = p * y + 1.0
    power = bits.view(np.float64)
    for r in range(x.shape[0]):
        x[r] *= power[r]


@njit(nogil=True, cache=True, error_model="numpy")
def _softmax(labels, weight, scale, kind, score, share, residual, loss):
    """Any number of classes: turn scores against class 0's into residuals, add the loss.

    share (n_classes, ROW_BLOCK) is room to work in.
    """
    size, n_classes = labels.shape[0], share.shape[0]
    top, factor = np.zeros(size), np.empty(size)
    for c in range(1, n_classes):
        for r in range(size):
            top[r] = max(top[r], score[c - 1, r])
    for r in range(size):
        share[0, r] = max(-top[r], -700.0)
    for c in range(1, n_classes):
        for r in range(size):
            share[c, r] = max(score[c - 1, r] - top[r], -700.0)
    for c in range(n_classes):
        _exp(share[c, :size])
    whole, fraction = 0, 0
    for r in range(size):
        label = labels[r]
        own = (0.0 if label == 0 else score[label - 1, r]) - top[r]
        if kind == CLL:
            lost, factor[r] = _log_slope(share[:, r], label, own)
        else:
            lost, factor[r] = _square_slope(share[:, r], label)
        lost *= weight[r]
        floor = np.floor(lost)
        whole += np.int64(floor)
        fraction += np.int64(np.rint((lost - floor) * 4503599627370496.0))
        factor[r] *= weight[r] * scale
    for c in range(1, n_classes):
        for r in range(size):
            residual[c - 1, r] = np.int64(np.rint(share[c, r] * factor[r]))
    _add_loss(whole, fraction, loss)


@njit(nogil=True, cache=True, error_model="numpy")
def _log_slope(share, label, own):
    """Return one row's -log P(label) and the factor that makes `share` its slopes.

    share: exponentials of the scores less the highest; own: the label's score
    less the highest.
    """
    # The label is left out of the sum, not subtracted from it, so that a row
    # that is all but certain keeps its loss and slope.
    mine = share[label]
    share[label] = 0.0
    others = 0.0
    for c in range(share.shape[0]):
        others += share[c]
    share[label] = -others
    total = others + mine
    lost = np.log1p(others / mine) if others < mine else np.log(total) - own
    return lost, 1.0 / total


@njit(nogil=True, cache=True, error_model="numpy")
def _square_slope(share, label):
    """Return one row's squared error of the posterior and the factor of its slopes."""
    n_classes = share.shape[0]
    total, others = 0.0, 0.0
    for c in range(n_classes):
        total += share[c]
        others += share[c] if c != label else 0.0
    lost, mean = 0.0, 0.0
    for c in range(n_classes):
        miss = (-others if c == label else share[c]) / total
        lost += miss * miss
        mean += miss * share[c] / total
    for c in range(n_classes):
        miss = (-others if c == label else share[c]) / total
        share[c] *= 2.0 * (miss - mean)
    return lost, 1.0 / total


@njit(nogil=True, cache=True, error_model="numpy")
def add_misses(cells, sizes, labels, weights, m, frequencies, totals):
    """Read rows in turn; each adds 1 - P(label | x) to its own cells.

    cells (n_families, n_rows), the last one for families that take no part;
    sizes (n_families, 3): first cell, arity, number of contexts. Adds to
    frequencies (n_cells, n_classes) and to totals, their sums per context, the
    class node first. Returns the weighted sum of what the rows missed.
    """
    n_families, n_rows = cells.shape
    blank, n_classes = frequencies.shape[0] - 1, frequencies.shape[1]
    score = np.empty(n_classes)
    missed = 0.0
    for r in range(n_rows):
        for c in range(n_classes):
            # the class node's total is the same for all classes
            score[c] = np.log(frequencies[0, c] + m / n_classes)
        first = 1
        for f in range(n_families):
            cell, arity = cells[f, r], sizes[f, 1]
            if cell != blank:
                at = first + (cell - sizes[f, 0]) // arity
                for c in range(n_classes):
                    score[c] += np.log((frequencies[cell, c] + m / arity) / (totals[at, c] + m))
            first += sizes[f, 2]
        label = labels[r]
        own, others = score[label], 0.0
        for c in range(n_classes):
            if c != label:
                others += np.exp(min(score[c] - own, 700.0))
        miss = weights[r] * others / (1.0 + others)
        missed += miss
        frequencies[0, label] += miss
        first = 1
        for f in range(n_families):
            cell = cells[f, r]
            if cell != blank:
                frequencies[cell, label] += miss
                totals[first + (cell - sizes[f, 0]) // sizes[f, 1], label] += miss
            first += sizes[f, 2]
    return missed
