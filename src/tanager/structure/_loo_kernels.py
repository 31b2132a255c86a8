"""One pass of leave-one-out over every (number of parents, number of features)."""

from __future__ import annotations

import numpy as np
from numba import njit

ROW_BLOCK = 512  # rows whose posteriors stay in the nearest cache over all features
SQUARED, CLASS_SQUARED, ZERO_ONE, LOG = 0, 1, 2, 3
# Odds and posteriors are kept within these bounds, far outside what a score can tell.
_LOW, _HIGH = 1e-250, 1e250


@njit(nogil=True, cache=True)
def score_binary(codes, labels, trie, odds_ratio, prior_odds, score, scale, totals):
    """Add each row's leave-one-out loss under every model to totals (k + 1, n).

    For two classes and rows of weight one. odds_ratio (n_cells, 2): the factor
    by which a cell multiplies the odds *against* a row's own class y, own count
    removed; prior_odds (2,): those odds before any feature. Losses are added as
    integers of ``1 / scale``, so that their order does not matter.
    """
    n_levels, n_features = totals.shape
    odds = np.empty((n_levels, ROW_BLOCK))
    ratio = np.empty(ROW_BLOCK)
    cell = np.empty(ROW_BLOCK, np.int64)
    own = np.empty(ROW_BLOCK, np.int64)
    for low in range(0, labels.shape[0], ROW_BLOCK):
        size = min(ROW_BLOCK, labels.shape[0] - low)
        for r in range(size):
            own[r] = labels[low + r]
            for d in range(n_levels):
                odds[d, r] = prior_odds[own[r]]
        for f in range(n_features):
            first = trie.level_start[f]
            n_parents = trie.level_start[f + 1] - first - 1
            for d in range(n_levels):
                if d <= n_parents:
                    _descend(codes, trie, first + d, low, size, cell)
                    for r in range(size):
                        ratio[r] = odds_ratio[cell[r], own[r]]
                row = odds[d]
                for r in range(size):
                    row[r] = min(max(row[r] * ratio[r], _LOW), _HIGH)
                totals[d, f] += _binary_loss(row, own, size, score, scale)


@njit(nogil=True, cache=True)
def _descend(codes, trie, level, low, size, cell):
    """Follow each row one level down its trie; cell (ROW_BLOCK,) is read and written.

    A feature's first level starts from its own value, each other adds a parent.
    """
    column = codes[trie.member[level]]
    shift = trie.cell_start[level]
    width = trie.width[level]
    if width == 0:
        for r in range(size):
            cell[r] = shift + np.int64(column[low + r])
    else:
        base = trie.step_start[level] - trie.cell_start[level - 1] * width
        for r in range(size):
            cell[r] = shift + trie.step[base + cell[r] * width + np.int64(column[low + r])]


@njit(nogil=True, cache=True)
def _binary_loss(odds, own, size, score, scale):
    """Return the block's loss in integers of 1 / scale, from the odds against each row's class."""
    total = np.int64(0)
    if score <= CLASS_SQUARED:  # for two classes both squared errors are the same
        for r in range(size):
            error = odds[r] / (1.0 + odds[r])
            total += np.int64(error * error * scale + 0.5)
    elif score == ZERO_ONE:
        for r in range(size):
            wrong = odds[r] > 1.0 or (odds[r] == 1.0 and own[r] == 1)
            total += np.int64(scale) if wrong else np.int64(0)
    else:
        for r in range(size):
            total += np.int64(np.log1p(odds[r]) * scale + 0.5)
    return total


@njit(nogil=True, cache=True)
def score_general(
    codes,
    arities,
    labels,
    weights,
    shares,
    trie,
    table,
    smoothing,
    lean,
    prior,
    score,
    scale,
    totals,
):
    """Add each row's leave-one-out loss under every model to totals (k + 1, n).

    For any number of classes and any weights. weights (n_rows,): of the loss;
    shares (n_rows,): what a row removes from its own counts; smoothing: m of
    the m-estimate; lean: weight of the shorter context's estimate, 0 for none;
    prior (n_classes,): class counts. A row with an unknown member was not counted in
    that family, which then says nothing about it.
    """
    n_levels, n_features = totals.shape
    n_classes = prior.shape[0]
    posterior = np.empty((n_levels, ROW_BLOCK, n_classes))
    kept = np.empty(ROW_BLOCK)
    cell = np.empty(ROW_BLOCK, np.int64)
    known = np.empty(ROW_BLOCK, np.bool_)
    for low in range(0, labels.shape[0], ROW_BLOCK):
        size = min(ROW_BLOCK, labels.shape[0] - low)
        for d in range(n_levels):
            for r in range(size):
                posterior[d, r] = prior + smoothing / n_classes
                posterior[d, r, labels[low + r]] -= shares[low + r]
        for f in range(n_features):
            first = trie.level_start[f]
            last = trie.level_start[f + 1] - 1
            for r in range(size):
                known[r] = weights[low + r] > 0.0
            _find_known(codes, arities, trie, first, last, low, size, known)
            for d in range(n_levels):
                if first + d <= last:
                    level = first + d
                    even = smoothing / arities[trie.member[first]]
                    _descend_known(codes, trie, level, low, size, known, cell)
                    for r in range(size):
                        if known[r]:
                            y = labels[low + r]
                            share = shares[low + r]
                            _leave_out(table, cell[r], y, share, even, smoothing, lean, d, r, kept)
                for r in range(size):
                    if known[r]:
                        y = labels[low + r]
                        _multiply(posterior[d, r], table.probability[cell[r]], y, kept[r])
                for r in range(size):
                    loss = _loss(posterior[d, r], labels[low + r], score)
                    totals[d, f] += np.int64(weights[low + r] * loss * scale + 0.5)


@njit(nogil=True, cache=True)
def _find_known(codes, arities, trie, first, last, low, size, known):
    """Clear the mark of the rows of a block that do not know every member of a family."""
    for level in range(first, last + 1):
        member = trie.member[level]
        for r in range(size):
            known[r] &= codes[member, low + r] < arities[member]


@njit(nogil=True, cache=True)
def _descend_known(codes, trie, level, low, size, known, cell):
    """Do as `_descend` for the marked rows; the others have no cell to go to."""
    column = codes[trie.member[level]]
    shift = trie.cell_start[level]
    width = trie.width[level]
    base = trie.step_start[level] - trie.cell_start[max(level - 1, 0)] * width
    for r in range(size):
        if not known[r]:
            continue
        code = np.int64(column[low + r])
        if width == 0:
            cell[r] = shift + code
        else:
            cell[r] = shift + trie.step[base + cell[r] * width + code]


@njit(nogil=True, cache=True)
def _leave_out(table, cell, own, share, even, smoothing, lean, depth, row, kept):
    """Write the estimate for a row's own class with its own count removed.

    kept[row] holds the one of the level above. A positive `lean` blends with
    it; otherwise it stays where the context is empty without the row. Above the
    class stands the feature's marginal, for a class of one row only.
    """
    rest = table.context[cell, own] - share
    if depth == 0 and rest <= 0.0:
        total = -share
        marginal = -share
        for c in range(table.joint.shape[1]):
            total += table.context[cell, c]
            marginal += table.joint[cell, c]
        kept[row] = (marginal + even) / (max(total, 0.0) + smoothing)
    elif depth > 0 and lean > 0.0:
        count = max(table.joint[cell, own] - share, 0.0)
        kept[row] = (count + lean * kept[row]) / (max(rest, 0.0) + lean)
    elif rest > 0.0:
        kept[row] = (table.joint[cell, own] - share + even) / (rest + smoothing)


@njit(nogil=True, cache=True)
def _multiply(posterior, probability, own, kept):
    """Multiply one row's posterior (n_classes,) by a feature's term, and normalise it."""
    total = 0.0
    for c in range(posterior.shape[0]):
        posterior[c] *= kept if c == own else probability[c]
        total += posterior[c]
    scale = 1.0 / total
    for c in range(posterior.shape[0]):
        posterior[c] = max(posterior[c] * scale, _LOW)


@njit(nogil=True, cache=True)
def _loss(posterior, own, score):
    """Return one row's loss from its posterior (n_classes,)."""
    if score == SQUARED:
        return (1.0 - posterior[own]) ** 2
    if score == LOG:
        return -np.log(posterior[own])
    if score == ZERO_ONE:
        best = 0
        for c in range(1, posterior.shape[0]):
            if posterior[c] > posterior[best]:
                best = c
        return 0.0 if best == own else 1.0
    total = 0.0
    for c in range(posterior.shape[0]):
        error = 1.0 - posterior[c] if c == own else posterior[c]
        total += error * error
    return total / posterior.shape[0]
