"""Twins of loglinear.c, shares.c and cuts.c."""

from __future__ import annotations

import numpy as np


def _row_scores(cells, starts, scores):
    return np.array([scores[0] + scores[starts + row].sum(axis=0) for row in cells.astype(int)])


def add_sums(cells, starts, scores, out):
    """Write the sum of each row's scores."""
    out[:] = _row_scores(cells, starts, scores)


def evaluate_sums(
    cells,
    starts,
    labels,
    weights,
    folds,
    fold,
    inside,
    scores,
    scale,
    loss_scale,
    loss,
    slopes,
):
    """Add the loss of rows and its derivatives, in whole steps of their grids."""
    weights = weights if len(weights) else np.ones(len(labels))
    counts = (folds == fold) == inside if len(folds) else np.ones(len(labels), bool)
    sums = _row_scores(cells, starts, scores)
    full = np.append(np.zeros((len(sums), 1)), sums, axis=1) if sums.shape[1] == 1 else sums
    log_p = full - np.logaddexp.reduce(full, axis=1)[:, None]
    for r in np.flatnonzero(counts):
        own = int(labels[r])
        loss[0] += np.rint(min(-log_p[r, own], 1000.0) * weights[r] * loss_scale)
        miss = np.exp(log_p[r]) - (np.arange(full.shape[1]) == own)
        step = np.rint(miss[-sums.shape[1] :] * weights[r] * scale)
        for at in (0, *(starts + cells[r].astype(int))):
            slopes[at] += step


def _joints(codes, features, table_start, shares, share_start):
    """Yield each table's joint value of every row."""
    for t in range(len(table_start) - 1):
        joint = np.zeros(codes.shape[1], np.int64)
        for m in range(table_start[t], table_start[t + 1]):
            joint += shares[share_start[m] + codes[features[m]].astype(int)]
        yield joint


def locate_rows(codes, features, table_start, shares, share_start, places, place_start, out):
    """Write the place of each row in each table."""
    joints = _joints(codes, features, table_start, shares, share_start)
    for t, joint in enumerate(joints):
        out[:, t] = places[place_start[t] + joint]


def weigh_joints(codes, features, table_start, shares, share_start, weights, place_start, mass):
    """Add the rows' weight to each joint value of each table."""
    joints = _joints(codes, features, table_start, shares, share_start)
    for t, joint in enumerate(joints):
        np.add.at(mass, place_start[t] + joint, weights if len(weights) else 1.0)


def descend(steps, changes, products, n_known, newest, gradient, out):
    """Write minus the inverse Hessian of BFGS, spelled out, times the gradient."""
    n, m = len(gradient), len(steps)
    inverse = np.eye(n)
    kept = [(newest - k) % m for k in range(n_known)][::-1]
    if kept:
        inverse *= products[newest] / (changes[newest] @ changes[newest])
    for at in kept:
        left = np.eye(n) - np.outer(steps[at], changes[at]) / products[at]
        inverse = left @ inverse @ left.T + np.outer(steps[at], steps[at]) / products[at]
    out[:] = -inverse @ gradient


def _cell_sums(rows, *columns):
    """Return the sums of residuals, spreads and weighted spreads of each cell, {cell: (3, n)}."""
    residuals, spreads, weights = rows
    cells = {}
    for r, cell in enumerate(zip(*columns, strict=True)):
        parts = np.array([residuals[r], spreads[r], spreads[r] * weights[r]])
        cells[cell] = cells.get(cell, 0.0) + parts
    return cells


def _gain(parts, shrink):
    return (parts[0] ** 2 - parts[2]) / (parts[1] + shrink)


def score_gains(codes, arities, residuals, spreads, weights, shrink, singles, gains):
    """Write the gain of a table of each feature, and of each pair of features."""
    rows = (residuals, spreads, weights)

    def gain(*features):
        known = [
            r for r in range(codes.shape[1]) if all(codes[i, r] < arities[i] for i in features)
        ]
        part = tuple(each[known] for each in rows)
        cells = _cell_sums(part, *(codes[i, known].tolist() for i in features))
        return 0.5 * sum(_gain(parts, shrink).sum() for parts in cells.values())

    for i in range(len(arities)):
        singles[i] = gain(i)
        for j in range(i):
            gains[i, j] = gains[j, i] = gain(i, j)


def find_cuts(codes, arities, n_ordered, residuals, spreads, weights, shrink, pairs, gains, cuts):
    """Write the best cuts of each pair, and what their quadrants gain."""
    nothing = np.zeros((3, residuals.shape[1]))
    for p, (first, second) in enumerate(pairs.tolist()):
        gains[p], cuts[p] = 0.0, -1
        both = n_ordered[first] > 1 and n_ordered[second] > 1
        swapped = n_ordered[first] <= 1
        i, j = (second, first) if swapped else (first, second)
        height, width = int(n_ordered[i]), int(n_ordered[j] if both else arities[j])
        if height <= 1:
            continue
        known = (codes[i] < height) & (codes[j] < width)
        rows = (residuals[known], spreads[known], weights[known])
        cells = _cell_sums(rows, codes[i, known].tolist(), codes[j, known].tolist())

        def total(where, cells=cells):
            return sum((s for cell, s in cells.items() if where(*cell)), nothing)

        def halves(where):
            inside, outside = total(where), total(lambda x, z: not where(x, z))
            return np.maximum(_gain(inside, shrink) + _gain(outside, shrink), 0.0).sum()

        for a in range(height - 1):
            own = halves(lambda x, _, a=a: x <= a)
            for b in range(width - 1) if both else (-1,):
                if both:
                    quadrants = [
                        total(lambda x, z, a=a, b=b, s=s, t=t: (x <= a) == s and (z <= b) == t)
                        for s in (True, False)
                        for t in (True, False)
                    ]
                    other = halves(lambda _, z, b=b: z <= b)
                else:
                    quadrants = [
                        total(lambda x, z, a=a, v=v, s=s: z == v and (x <= a) == s)
                        for v in range(width)
                        for s in (True, False)
                    ]
                    values = [total(lambda _, z, v=v: z == v) for v in range(width)]
                    other = np.maximum(sum(_gain(v, shrink) for v in values), 0.0).sum()
                gain = 0.5 * (sum(_gain(q, shrink).sum() for q in quadrants) - own - other)
                if gain > gains[p]:
                    gains[p] = gain
                    cuts[p] = (-1, a) if swapped else (a, b)


def normalize_scores(table, total):
    """Make exp(table) sum to one over the values, and write the logarithms of the old sums."""
    total[:] = np.logaddexp.reduce(table, axis=1)
    table -= total[:, None]


def spread_shares(table, outer, out):
    """Write the shares of joint values."""
    out[:] = outer[:, None] * np.exp(table)


def evaluate_scores(
    joint,
    slots,
    labels,
    weights,
    folds,
    starts,
    tables,
    flat,
    n_slots,
    kind,
    scale,
    loss,
    gradient,
):
    """Add loss and gradient of rows that read one slot per group or wide family."""
    n_rows = len(labels)
    weights = weights if len(weights) else np.ones(n_rows)
    folds = folds if len(folds) else np.zeros(n_rows, int)
    lost = 0.0
    for r in range(n_rows):
        table = tables[folds[r]]
        if table < 0:
            continue
        read = [0, *(starts + joint[:, r]), *slots[:, r]]
        read = [int(table * n_slots + at) for at in read]
        scores = np.append(0.0, flat[:, read].sum(axis=1))
        p = np.exp(scores - np.logaddexp.reduce(scores))
        own = np.arange(len(p)) == labels[r]
        if kind == 0:
            lost -= weights[r] * np.log(p[labels[r]])
            slope = p - own
        else:
            lost += weights[r] * ((p - own) ** 2).sum()
            slope = 2 * p * ((p - own) - ((p - own) * p).sum())
        step = np.rint(slope * weights[r] * scale).astype(np.int64)[1:]
        for at in read:
            gradient[:, at] += step
    loss[0] += int(lost)
    loss[1] += round((lost - int(lost)) * 2**52)
