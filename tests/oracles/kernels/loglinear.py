"""Twins of loglinear.c and shares.c."""

from __future__ import annotations

import numpy as np

from tanager.loglinear.curves import Slant

FINER, COARSE = 2.0**10, 2.0**20  # steps of the loss's grids


def _read(cells, starts, wide, r):
    """Return the cells whose scores a row adds up, the class node's first."""
    return [0, *(starts + cells[r].astype(int)), *wide[r].astype(int)]


def add_sums(cells, starts, wide, scores, out):
    """Write the sum of each row's scores."""
    for r in range(len(out)):
        out[r] = scores[_read(cells, starts, wide, r)].sum(axis=0)


def share_rows(cells, starts, wide, numbers, out):
    """Add the numbers of each row to its cells."""
    for r in range(len(numbers)):
        np.add.at(out, _read(cells, starts, wide, r), numbers[r])


def sum_cells(ends, sources, values, out):
    """Write the sum of each run of sources."""
    for i in range(len(out)):
        out[i] = values[sources[ends[i] : ends[i + 1]]].sum(axis=0)


def share_slopes(ends, sources, slopes, out):
    """Add the derivatives by each sum to those by its sources."""
    for i, slope in enumerate(slopes):
        for source in sources[ends[i] : ends[i + 1]]:
            out[source] += slope


def turn_tables(starts, n_rows, n_columns, along, across, matrices, transposed, values, between):
    """Multiply each table by a matrix along either side; a negative place stands for none."""

    def matrix(place, size):
        if place < 0:
            return np.eye(size)
        return matrices[place : place + size * size].reshape(size, size)

    for start, a, b, first, second in zip(starts, n_rows, n_columns, along, across, strict=True):
        table = values[start : start + a * b].reshape(a, b, -1)
        half = np.einsum("ij,jlc->ilc", matrix(first, a), table)
        between[: half.size] = half.ravel()
        table[...] = np.einsum("kl,ilc->ikc", matrix(second, b), half)


def evaluate_sums(
    cells,
    starts,
    wide,
    labels,
    weights,
    folds,
    sets,
    scores,
    squared,
    scale,
    loss,
    slopes,
):
    """Add the loss of rows and its derivatives, in whole steps of their grids."""
    n_scores = scores.shape[2]
    for r, label in enumerate(labels.tolist()):
        which = sets[folds[r] if len(folds) else 0]
        if which < 0:
            continue
        read = _read(cells, starts, wide, r)
        row = scores[which, read].sum(axis=0)
        row = np.append(0.0, row) if n_scores == 1 else row
        log_p = row - np.logaddexp.reduce(row)
        p, own = np.exp(log_p), np.arange(len(row)) == label
        if squared:
            lost = ((p - own) ** 2).sum()
            slope = 2 * p * ((p - own) - ((p - own) * p).sum())
        else:
            lost, slope = min(-log_p[label], 1000.0), p - own
        weight = scale * (weights[r] if len(weights) else 1.0)
        coarse = np.rint(lost * weight * FINER / COARSE)
        loss += coarse, np.rint(lost * weight * FINER - coarse * COARSE)
        for at in read:
            slopes[which, at] += np.rint(slope[-n_scores:] * weight)


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


def choose_slants(codes, first, second, said, along, across, n_classes, shrink, least, chosen):
    """Choose the slants that gain most, each on what the earlier ones leave of the residuals."""
    shape = along.shape[1], across.shape[1]
    known = (codes[first] < shape[0]) & (codes[second] < shape[1])
    x, z = codes[first, known], codes[second, known]
    left, spread, chance = np.split(said[known, :-1].copy(), 3, axis=1)
    mass = np.zeros(shape)
    np.add.at(mass, (x, z), said[known, -1])
    slants = [Slant(tuple(a), tuple(b)) for a, b in zip(along, across, strict=True)]
    bins = [np.eye(one.n_bins)[one.bins(mass)[x, z]] for one in slants]
    chosen[:] = -1
    for at in range(len(chosen)):
        parts = [[one.T @ numbers for numbers in (left, spread, chance)] for one in bins]
        gains = np.array([0.5 * _gain(one, shrink).sum() for one in parts])
        gains[chosen[:at]] = -np.inf
        best = int(np.argmax(gains))
        if gains[best] < least:
            break
        chosen[at] = best
        left -= spread * (bins[best] @ (parts[best][0] / (parts[best][1] + shrink)))


def share_families(*given):
    """Turn scores into a network, by sums over the families' cells one at a time."""
    *families, logs, log_prior, log_total, conditionals, shares, values = given
    for cells, contexts, _, links, holder in reversed(_families(*families)):
        total = np.logaddexp.reduce(logs[cells], axis=1)
        logs[cells] -= total[:, None]
        if holder is None:
            log_prior += total[0]
        else:
            logs[holder] += total[links - contexts[0]].reshape(logs[holder].shape)
    log_total[0] = np.logaddexp.reduce(log_prior)
    log_prior -= log_total[0]
    conditionals[:], values[:] = np.exp(logs), 0.0
    for cells, contexts, own, links, holder in _families(*families):
        outer = np.zeros((len(contexts), logs.shape[1]))
        if holder is None:
            outer += np.exp(log_prior)
        else:
            np.add.at(outer, links - contexts[0], shares[holder].reshape(-1, logs.shape[1]))
        shares[cells] = conditionals[cells] * outer[:, None]
        values[own] += shares[cells].sum(axis=0)


def pull_shares(*given):
    """Write the slopes of a loss, family by family: from the leaves, then from the roots."""
    *families, conditionals, shares, prior, by_values, by_prior, slopes = given
    by_share, by_prior = np.zeros_like(slopes), by_prior.copy()
    for cells, _, own, _, _ in _families(*families):
        by_share[cells] = by_values[own]
    for cells, contexts, _, links, holder in reversed(_families(*families)):
        outer = (by_share[cells] * conditionals[cells]).sum(axis=1)
        if holder is None:
            by_prior += outer[0]
        else:
            by_share[holder] += outer[links - contexts[0]].reshape(by_share[holder].shape)
    by_score = prior * (by_prior - (prior * by_prior).sum())
    for cells, contexts, _, links, holder in _families(*families):
        by_log = by_share[cells] * shares[cells]
        outer = by_log.sum(axis=1)
        if holder is None:
            outer -= by_score
        else:
            np.add.at(outer, links - contexts[0], slopes[holder].reshape(-1, len(prior)))
        slopes[cells] = conditionals[cells] * outer[:, None] - by_log


def _families(starts, context_starts, value_starts, sizes, arities, holders, link_starts, links, _):
    """Return each family's cells (contexts, values), contexts, values, links, holder's cells."""
    cells = [
        start + np.arange(size * arity).reshape(size, arity)
        for start, size, arity in zip(starts, sizes, arities, strict=True)
    ]
    out = []
    for f, holder in enumerate(holders):
        above = None if holder < 0 else cells[holder]
        own = links[link_starts[f] :][: 0 if above is None else above.size]
        contexts = context_starts[f] + np.arange(sizes[f])
        out.append((cells[f], contexts, value_starts[f] + np.arange(arities[f]), own, above))
    return out
