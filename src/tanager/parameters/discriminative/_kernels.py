"""The objective's pass over rows: gather scores, softmax, scatter residuals.

A row is scored by adding one slot per group or wide family (see `packing`), for
every class but the first, whose score is zero. Blocks of rows are scored class by
class, so that a block's tile of scores and a class's tables stay in the
first-level cache and each column is read as one run.

Residuals are scattered as integers on a fixed grid: integer sums are exact, so the
gradient depends neither on the chunking nor on the number of threads.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tanager.numerics._kernels import exponentials, log1ps

ROW_BLOCK = 512
FRACTION_BITS = 52  # of the loss

CLL, MSE = 0, 1

# Divisions that test for zero keep loops from running on several rows at a
# time: the kernels that divide use NumPy's rule, and never divide by zero.


@njit(nogil=True, cache=True, error_model="numpy")
def evaluate(rows, starts, tables, flat, n_slots, kind, scale, loss, gradient):
    """Add loss and gradient of a chunk of rows (equations 9 to 11).

    rows: a `PackedRows`; starts (n_groups,); tables (n_folds,): the set of
    tables that each fold's rows read, -1 for rows that do not count; flat
    (n_classes - 1, n_tables * n_slots). Adds to loss (2,) of int64, whole part
    and fraction, and on the grid of `scale` to gradient of flat's shape.
    """
    n_rows, others = rows.labels.shape[0], flat.shape[0]
    block = min(ROW_BLOCK, n_rows)
    no_starts = np.zeros(rows.slots.shape[0], np.int64)
    label = np.zeros(block, np.int64)
    shift = np.zeros(block, np.uint32)
    weight = np.zeros(block)
    score = np.zeros((others, block))
    share = np.empty((others + 1, block))
    work = np.empty((7, block))
    residual = np.empty((others, block), np.int64)
    for low in range(0, n_rows, ROW_BLOCK):
        size = min(ROW_BLOCK, n_rows - low)
        _choose(rows, tables, n_slots, low, label, shift, weight)
        for c in range(others):
            for r in range(size):
                score[c, r] = flat[c, shift[r]]
            _gather(flat[c], starts, rows.joint, low, shift[:size], score[c])
            _gather(flat[c], no_starts, rows.slots, low, shift[:size], score[c])
        if others == 1 and kind == CLL:
            _logistic(label, weight, scale, score[0], work, residual[0], loss)
        else:
            _softmax(label, weight, scale, kind, score, share, work, residual, loss)
        for c in range(others):
            for r in range(size):
                gradient[c, shift[r]] += residual[c, r]
            _scatter(residual[c], starts, rows.joint, low, shift[:size], gradient[c])
            _scatter(residual[c], no_starts, rows.slots, low, shift[:size], gradient[c])


@njit(nogil=True, cache=True)
def _choose(rows, tables, n_slots, low, label, shift, weight):
    """Write a block's labels, where each row's tables begin, and its weight, zero if left out.

    What the last block has no rows for is left out as well.
    """
    size = min(label.shape[0], rows.labels.shape[0] - low)
    label[:size] = rows.labels[low : low + size]
    if rows.weights.shape[0]:
        weight[:size] = rows.weights[low : low + size]
    else:
        weight[:size] = 1.0
    weight[size:] = 0.0
    if rows.folds.shape[0]:
        for r in range(size):
            table = tables[rows.folds[low + r]]
            shift[r] = max(table, 0) * n_slots
            weight[r] = weight[r] if table >= 0 else 0.0
    else:
        shift[:] = max(tables[0], 0) * n_slots
        if tables[0] < 0:
            weight[:] = 0.0


# Four columns at a time, so that a row's sum is read and written once for four
# look-ups. Unsigned numbers need no test for a negative index.


@njit(nogil=True, cache=True)
def _gather(flat, starts, columns, low, shift, score):
    """Add each row's slots to its score; columns (n_columns, n_rows), read from `low` on."""
    n_columns, size = columns.shape[0], shift.shape[0]
    fours = n_columns - n_columns % 4
    for g in range(0, fours, 4):
        flat_0, flat_1 = flat[starts[g] :], flat[starts[g + 1] :]
        flat_2, flat_3 = flat[starts[g + 2] :], flat[starts[g + 3] :]
        at_0, at_1 = columns[g][low:], columns[g + 1][low:]
        at_2, at_3 = columns[g + 2][low:], columns[g + 3][low:]
        for r in range(size):
            s = shift[r]
            a = flat_0[np.uint32(at_0[r]) + s] + flat_1[np.uint32(at_1[r]) + s]
            b = flat_2[np.uint32(at_2[r]) + s] + flat_3[np.uint32(at_3[r]) + s]
            score[r] += a + b
    for g in range(fours, n_columns):
        from_, at = flat[starts[g] :], columns[g][low:]
        for r in range(size):
            score[r] += from_[np.uint32(at[r]) + shift[r]]


@njit(nogil=True, cache=True)
def _scatter(residual, starts, columns, low, shift, gradient):
    """Add each row's residual to its slots."""
    n_columns, size = columns.shape[0], shift.shape[0]
    fours = n_columns - n_columns % 4
    for g in range(0, fours, 4):
        to_0, to_1 = gradient[starts[g] :], gradient[starts[g + 1] :]
        to_2, to_3 = gradient[starts[g + 2] :], gradient[starts[g + 3] :]
        at_0, at_1 = columns[g][low:], columns[g + 1][low:]
        at_2, at_3 = columns[g + 2][low:], columns[g + 3][low:]
        for r in range(size):
            s, value = shift[r], residual[r]
            to_0[np.uint32(at_0[r]) + s] += value
            to_1[np.uint32(at_1[r]) + s] += value
            to_2[np.uint32(at_2[r]) + s] += value
            to_3[np.uint32(at_3[r]) + s] += value
    for g in range(fours, n_columns):
        to, at = gradient[starts[g] :], columns[g][low:]
        for r in range(size):
            to[np.uint32(at[r]) + shift[r]] += residual[r]


@njit(nogil=True, cache=True)
def _add_loss(losses, floors, loss):
    """Add a block's losses, the fractions in units of 2^-52; floors is room to work in."""
    for r in range(losses.shape[0]):
        floors[r] = np.floor(losses[r])
        losses[r] = np.rint((losses[r] - floors[r]) * 4503599627370496.0)
    whole, fraction = 0, 0
    for r in range(losses.shape[0]):
        whole += np.int64(floors[r])
        fraction += np.int64(losses[r])
    loss[0] += whole + (fraction >> FRACTION_BITS)
    loss[1] += fraction & ((1 << FRACTION_BITS) - 1)
    loss[0] += loss[1] >> FRACTION_BITS
    loss[1] &= (1 << FRACTION_BITS) - 1


# The loops below hold no branches and no calls, so that they run on several rows
# at a time.


@njit(nogil=True, cache=True, error_model="numpy")
def _logistic(label, weight, scale, score, work, residual, loss):
    """Two classes: turn scores of class 1 against class 0 into residuals, add the loss."""
    size = label.shape[0]
    value, small, powers, lost = work[0], work[1], work[2], work[3]
    for r in range(size):
        value[r] = -abs(score[r])
    exponentials(value, small, powers)
    log1ps(small, lost, powers)
    for r in range(size):
        side = 1.0 - 2.0 * label[r]
        wrong = side * score[r]
        lost[r] = weight[r] * (max(wrong, 0.0) + lost[r])
        # the probability of the class that is not the row's
        miss = (1.0 if wrong > 0.0 else small[r]) / (1.0 + small[r])
        value[r] = np.rint(weight[r] * scale * (side * miss))
    for r in range(size):
        residual[r] = np.int64(value[r])
    _add_loss(lost, powers, loss)


@njit(nogil=True, cache=True, error_model="numpy")
def _softmax(label, weight, scale, kind, score, share, work, residual, loss):
    """Any number of classes: turn scores against class 0's into residuals, add the loss.

    share (n_classes, n_rows) and work (7, n_rows) are room to work in.
    """
    size, n_classes = label.shape[0], share.shape[0]
    top, away, powers, lost, factor = work[0], work[1], work[2], work[3], work[4]
    top[:] = 0.0
    for c in range(1, n_classes):
        for r in range(size):
            top[r] = max(top[r], score[c - 1, r])
    for r in range(size):
        away[r] = -top[r]
    exponentials(away, share[0], powers)
    for c in range(1, n_classes):
        for r in range(size):
            away[r] = score[c - 1, r] - top[r]
        exponentials(away, share[c], powers)
    if kind == CLL:
        for r in range(size):
            away[r] = (score[label[r] - 1, r] if label[r] else 0.0) - top[r]
        _log_slopes(label, share, work)
    else:
        for r in range(size):
            lost[r], factor[r] = _square_slope(share[:, r], label[r])
    for r in range(size):
        lost[r] *= weight[r]
        factor[r] *= weight[r] * scale
    for c in range(1, n_classes):
        for r in range(size):
            powers[r] = np.rint(share[c, r] * factor[r])
        for r in range(size):
            residual[c - 1, r] = np.int64(powers[r])
    _add_loss(lost, powers, loss)


@njit(nogil=True, cache=True, error_model="numpy")
def _log_slopes(label, share, work):
    """Find the rows' -log P(label) and the factors that make `share` their slopes.

    share: exponentials of the scores less the highest. work: the label's score
    less the highest is read from 1; loss and factor go to 3 and 4.
    """
    size = label.shape[0]
    own, powers, lost, factor = work[1], work[2], work[3], work[4]
    mine, others = work[5], work[6]
    # The label is left out of the sum, not subtracted from it, so that a row
    # that is all but certain keeps its loss and slope.
    for r in range(size):
        mine[r] = share[label[r], r]
        share[label[r], r] = 0.0
    others[:] = 0.0
    for c in range(share.shape[0]):
        for r in range(size):
            others[r] += share[c, r]
    for r in range(size):
        share[label[r], r] = -others[r]
    for r in range(size):
        total = others[r] + mine[r]
        factor[r] = 1.0 / total
        # all but the highest, whose share is one
        mine[r] = others[r] if own[r] == 0.0 else total - 1.0
    log1ps(mine, lost, powers)
    for r in range(size):
        lost[r] -= own[r]


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
