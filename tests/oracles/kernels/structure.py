"""Twins of structure.c and joint.c."""

from __future__ import annotations

import numpy as np

from tests.oracles.arborescence import best_arborescence


def _n_log_n(counts):
    counts = np.asarray(counts, float)
    return float(sum(n * np.log(n) for n in counts.ravel() if n > 0))


def score_acll(joint, beta, pseudo_count, out):
    """Write equation 28 of Carvalho et al. (2013) for one family."""
    score = 0.0
    for counts in joint:
        if not counts.any():
            continue
        weight = counts + beta * counts.sum(axis=1, keepdims=True)
        clipped = np.maximum(weight, pseudo_count)
        theta = clipped / clipped.sum(axis=0)
        score += float((weight[weight != 0] * np.log(theta[weight != 0])).sum())
    out[0] = score


def sum_groups(start, codes, labels, weights, rows, width, n_classes, out):
    """Write the sums of n log n over (group, value, class) and (group, value)."""
    cells = np.zeros((len(start) - 1, width, n_classes))
    for g in range(len(start) - 1):
        for r in rows[start[g] : start[g + 1]]:
            cells[g, codes[r], labels[r]] += weights[r]
    out[:] = _n_log_n(cells), _n_log_n(cells.sum(axis=2))


def _information(joint, given):
    """Return I(A; B | C) in nats from counts, C the axis `given`, or none."""
    joint = np.moveaxis(joint, given, -1) if given is not None else joint[..., None]
    terms = _n_log_n(joint) - _n_log_n(joint.sum(0)) - _n_log_n(joint.sum(1))
    return (terms + _n_log_n(joint.sum((0, 1)))) / joint.sum() if joint.sum() > 0 else 0.0


def score_class_information(joint, out):
    """Write I(C; X_i | X_j)."""
    out[0] = _information(joint, 1)


def score_explaining_away(joint, out):
    """Write I(X_i; X_j | C) - I(X_i; X_j)."""
    out[0] = _information(joint, 2) - _information(joint.sum(axis=2), None)


def find_arborescence(weight, parents):
    """Write the heaviest arborescence of all; only few vertices."""
    n = len(parents)
    parents[:] = best_arborescence(weight[:, :n].T)
    weight[:] = np.nan  # destroyed


def count_family(context, child, labels, weights, folds, counts):
    """Add every row."""
    np.add.at(counts, (folds, context, child, labels), weights)


def log_table(counts, known, shorter, ratio, epsilon, half, out):
    """Write log-frequencies in even units."""
    n_folds, n_contexts, width, n_classes = counts.shape
    for f, k, c in np.ndindex(n_folds, n_contexts, n_classes):
        column = counts[f, k, :-1, c]
        if n_folds > 1:
            column = counts[:, k, :-1, c].sum(axis=0) - column
        if not known[k] or column.sum() == 0:
            out[f, k, :, c] = shorter[f, k // ratio, :, c]
            continue
        p = np.where(column > 0, column / column.sum(), epsilon)
        out[f, k, :-1, c] = 2 * np.rint(half * np.log(p / (1 + epsilon * (column == 0).sum())))
        out[f, k, width - 1, c] = 0


def replace_table(table, current, counts, change, adverse, reach):
    """Write a table as the change from the current one."""
    change[:] = table - current
    adverse[:] = change.max(axis=3, keepdims=True) - change
    gained = change - change.min(axis=3, keepdims=True)
    seen = counts > 0
    reach[:] = gained.max(where=seen, initial=0), adverse.max(where=seen, initial=0)


def add_change(context, child, folds, change, log_joint):
    """Add a family's table."""
    log_joint += change[folds, context, child]


def find_margins(log_joint, labels, margin, rival):
    """Write the lead over the strongest rival, and the rival."""
    for r, own in enumerate(labels):
        others = [c for c in range(log_joint.shape[1]) if c != own]
        if not others:
            margin[r], rival[r] = np.iinfo(np.int32).max, own
            continue
        rival[r] = max(others, key=lambda c: (log_joint[r, c], -c))
        margin[r] = log_joint[r, own] - log_joint[r, rival[r]]


def _rise(log_joint, labels, weights, moved):
    """Return by how much the weight of right rows rises where the log-joint moves."""
    own = np.arange(len(labels))
    before = (log_joint <= log_joint[own, labels][:, None]).all(axis=1)
    after = log_joint + moved
    after = (after <= after[own, labels][:, None]).all(axis=1)
    return float(weights @ after - weights @ before)


def rate_gain(
    log_joint,
    labels,
    weights,
    folds,
    margin,
    rival,
    n_wrong,
    most_gained,
    most_lost,
    context,
    child,
    change,
    adverse,
    floor,
    out,
):
    """Write the rise in the weight of right rows; the floor must not bind."""
    del margin, rival, n_wrong, most_gained, most_lost, adverse, floor
    out[0] = _rise(log_joint, labels, weights, change[folds, context, child])


def rate_gains(
    log_joint,
    labels,
    weights,
    folds,
    margin,
    rival,
    n_wrong,
    codes,
    child,
    parents,
    widths,
    start,
    change,
    adverse,
    most_gained,
    most_lost,
    n_folds,
    floor,
    prune,
    out,
):
    """Write the same for each single parent; neither floor nor pruning must bind."""
    del margin, rival, n_wrong, adverse, most_gained, most_lost, floor, prune
    for j, p in enumerate(parents):
        shape = (n_folds, widths[p], widths[child], log_joint.shape[1])
        table = change[start[p] : start[p + 1]].reshape(shape)
        out[j] = _rise(log_joint, labels, weights, table[folds, codes[p], codes[child]])


def _log_likelihood(log_joint, labels, weights, unit, step):
    plain = unit * (log_joint.astype(np.int64) & ~1)
    lead = plain - plain[np.arange(len(labels)), labels][:, None]
    terms = weights * -np.log(np.exp(lead).sum(axis=1))
    return float(np.rint(terms / step).sum())


def likelihood_gain(
    log_joint,
    labels,
    weights,
    folds,
    unit,
    step,
    score,
    context,
    child,
    change,
    floor,
    out,
):
    """Write the rise of the conditional log-likelihood; the floor must not bind."""
    del floor
    moved = (log_joint & ~1) + change[folds, context, child]
    out[0] = _log_likelihood(moved, labels, weights, unit, step) - score


def likelihood(log_joint, labels, weights, unit, step, out):
    """Write the conditional log-likelihood in multiples of the step."""
    out[0] = _log_likelihood(log_joint, labels, weights, unit, step)
