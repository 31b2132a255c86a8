"""Scores of one more family on the running log-joint, in exact integers.

Log-probabilities are even multiples of one unit, so that sums do not depend on
their order. A row's log-joint holds one unit more for every class before the
true one: a class that ties with the true class then beats it exactly where
"the first of equals wins" says so, and a row is right when nothing exceeds the
true class. `rows` are the arrays of `joint.SortedRows`. Tables are indexed
(fold, context, value, class); the last value of the child stands for "unknown".
"""

from __future__ import annotations

import numpy as np

from tanager.numerics.compiling import kernel


@kernel
def count_family(context, child, labels, weights, folds, counts):
    """Add every row to counts (n_folds, n_contexts, arity + 1, n_classes)."""
    for r in range(labels.shape[0]):
        counts[folds[r], context[r], child[r], labels[r]] += weights[r]


@kernel
def log_table(counts, known, shorter, ratio, epsilon, half, out):
    """Turn counts into log-frequencies in units, rounded to even numbers.

    counts (n_folds, n_contexts, arity + 1, n_classes); with more than one fold
    each fold's table comes from the rows of the others. Zero frequencies become
    `epsilon`, then all are normalised. A context never seen with a class (or not
    `known`) answers as in `shorter`, the table without the last parent, whose
    context is ``context // ratio``. Writes out, of the shape of counts.
    """
    n_folds, n_contexts, width, n_classes = counts.shape
    arity = width - 1
    column = np.empty(arity)
    for f in range(n_folds):
        for k in range(n_contexts):
            for c in range(n_classes):
                total = 0.0
                zeros = 0
                if known[k]:
                    for x in range(arity):
                        n = counts[f, k, x, c]
                        if n_folds > 1:
                            n = -n
                            for g in range(n_folds):
                                n += counts[g, k, x, c]
                        column[x] = n
                        total += n
                        zeros += n == 0.0
                if total == 0.0:
                    for x in range(width):
                        out[f, k, x, c] = shorter[f, k // ratio, x, c]
                    continue
                for x in range(arity):
                    p = column[x] / total if column[x] > 0.0 else epsilon
                    out[f, k, x, c] = 2 * np.int64(
                        np.rint(half * np.log(p / (1 + epsilon * zeros)))
                    )
                out[f, k, arity, c] = 0


@kernel
def replace_table(table, current, counts, change, adverse):
    """Express a table as the change from the child's current one, which has one context.

    Writes change (n_folds, n_contexts, width, n_classes) and adverse, of the
    same shape: by how much the change favours the most favoured class over
    this. Returns, over the cells in which rows were counted, the farthest that a
    true class can gain on another, and lose.
    """
    n_folds, n_contexts, width, n_classes = table.shape
    most_gained = 0
    most_lost = 0
    for f in range(n_folds):
        for k in range(n_contexts):
            for x in range(width):
                top = table[f, k, x, 0] - current[f, 0, x, 0]
                bottom = top
                for c in range(n_classes):
                    moved = table[f, k, x, c] - current[f, 0, x, c]
                    change[f, k, x, c] = moved
                    top = max(top, moved)
                    bottom = min(bottom, moved)
                for c in range(n_classes):
                    moved = change[f, k, x, c]
                    adverse[f, k, x, c] = top - moved
                    if counts[f, k, x, c] > 0.0:
                        most_gained = max(most_gained, moved - bottom)
                        most_lost = max(most_lost, top - moved)
    return most_gained, most_lost


@kernel
def add_change(context, child, folds, change, log_joint):
    """Add a family's table to log_joint (n_rows, n_classes)."""
    for r in range(log_joint.shape[0]):
        row = change[folds[r], context[r], child[r]]
        for c in range(log_joint.shape[1]):
            log_joint[r, c] += row[c]


@kernel
def margins(log_joint, labels, margin, rival):
    """Write each row's lead of the true class over its strongest rival, and that rival."""
    for r in range(labels.shape[0]):
        y = np.int64(labels[r])
        best = -1
        for c in range(log_joint.shape[1]):
            if c != y and (best < 0 or log_joint[r, c] > log_joint[r, best]):
                best = c
        if best < 0:
            margin[r] = np.iinfo(np.int32).max
            rival[r] = y
        else:
            margin[r] = log_joint[r, y] - log_joint[r, best]
            rival[r] = best


@kernel(inline="always")
def _is_right(joint, row, y):
    true = joint[y] + row[y]
    for c in range(joint.shape[0]):  # noqa: SIM110  a generator would not compile to a loop
        if c != y and joint[c] + row[c] > true:
            return False
    return True


@kernel
def rate_gain(rows, ends, context, child, change, adverse, floor):
    """Return by how much a change raises the weight of rows that are right.

    Rows stand sorted by margin, the wrong ones first. What those gain bounds the
    whole, and every right row that turns wrong lowers the bound; once it is at
    most `floor` it is returned as it stands. ends: the first wrong row within
    reach of the change, the number of wrong rows, and the end of the right rows
    within reach.

    Most rows are settled by one comparison: a wrong row whose rival stays ahead
    is still wrong, a right row whose margin covers the most adverse move is
    still right.
    """
    log_joint, labels, weights, folds, margin, rival = rows
    gain = 0.0
    for r in range(ends[0], ends[1]):
        y = labels[r]
        row = change[folds[r], context[r], child[r]]
        if margin[r] + row[y] - row[rival[r]] >= 0 and _is_right(log_joint[r], row, y):
            gain += weights[r]
    if gain <= floor:
        return gain
    for r in range(ends[1], ends[2]):
        y = labels[r]
        f, k, x = folds[r], context[r], child[r]
        if margin[r] < adverse[f, k, x, y] and not _is_right(log_joint[r], change[f, k, x], y):
            gain -= weights[r]
            if gain <= floor:
                return gain
    return gain


@kernel
def rate_gains(rows, codes, child, parents, widths, pack, n_wrong, floor, prune, out):
    """Write `rate_gain` of a child with each of some single parents to out (n_parents,).

    codes (n_features, n_rows); pack: a `joint.Pack` of the child. With `prune`
    the best so far is the floor of those after it.
    """
    margin = rows.margin
    n_classes = rows.log_joint.shape[1]
    best = floor
    for j in range(parents.shape[0]):
        p = parents[j]
        shape = (pack.n_folds, widths[p], widths[child], n_classes)
        start, end = pack.start[p], pack.start[p + 1]
        change = pack.change[start:end].reshape(shape)
        adverse = pack.adverse[start:end].reshape(shape)
        first = np.searchsorted(margin, np.int32(-pack.most_gained[p]))
        last = np.searchsorted(margin, np.int32(pack.most_lost[p]))
        ends = (first, n_wrong, last)
        out[j] = rate_gain(rows, ends, codes[p], codes[child], change, adverse, best)
        if prune:
            best = max(best, out[j])


@kernel(inline="always")
def _log_posterior(joint, row, y, unit):
    """Return log P(y | x) of one row; classes far behind the true one add nothing."""
    true = (joint[y] & ~1) + row[y]
    total = 1.0
    for c in range(joint.shape[0]):
        if c != y:
            lead = unit * ((joint[c] & ~1) + row[c] - true)
            if lead > 600.0:  # exp would overflow soon; beyond doubt this class has it all
                return -lead
            if lead > -45.0:
                total += np.exp(lead)
    return -np.log(total)


@kernel
def likelihood_gain(rows, grid, score, context, child, change, floor):
    """Return by how much a change raises the conditional log-likelihood, in multiples of a step.

    grid: the unit of log-probabilities and the step, in nats. Each row's term is
    rounded to a multiple of the step, so the sum is exact in any order. Terms are
    never positive: the running sum is a bound, returned as it stands once it is
    at most `floor`.
    """
    log_joint, labels, weights, folds = rows[:4]
    unit, step = grid
    gain = -score
    for r in range(labels.shape[0]):
        row = change[folds[r], context[r], child[r]]
        gain += np.rint(weights[r] * _log_posterior(log_joint[r], row, labels[r], unit) / step)
        if gain <= floor:
            return gain
    return gain


@kernel
def likelihood(rows, grid):
    """Return the conditional log-likelihood in multiples of the step."""
    log_joint, labels, weights = rows[:3]
    unit, step = grid
    nothing = np.zeros(log_joint.shape[1], np.int32)
    score = 0.0
    for r in range(labels.shape[0]):
        score += np.rint(weights[r] * _log_posterior(log_joint[r], nothing, labels[r], unit) / step)
    return score


@kernel
def compose(context, width, codes, out):
    """Extend contexts by one more parent whose codes are below `width`."""
    for r in range(codes.shape[0]):
        out[r] = context[r] * width + codes[r]
