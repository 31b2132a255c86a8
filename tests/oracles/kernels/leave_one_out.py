"""Twins of leave_one_out.c: one row, feature and depth at a time."""

from __future__ import annotations

import numpy as np

from tests.oracles.leave_one_out import loss

SCORES = ("rmse", "rmse-all", "zero-one", "log-loss")
LOWEST, HIGHEST = 1e-250, 1e250


def _walk(codes, r, members, cell_start, child, value):
    """Yield the cells that a row goes through; it was counted, so that all of them exist."""
    cell = None
    for level, member in enumerate(members):
        code = int(codes[member, r])
        if level == 0:
            cell = int(cell_start) + code
        else:
            cell = next(c for c in range(child[cell], child[cell + 1]) if value[c] == code)
        yield cell


def score_odds(
    codes,
    labels,
    level_start,
    member,
    cell_start,
    width,
    child,
    value,
    odds,
    score,
    scale,
    state,
    totals,
):
    """Multiply the odds of every row by its cells' ratios, and add the losses."""
    del width
    n_depths, n_features = totals.shape
    for r, own in enumerate(labels.tolist()):
        for f in range(n_features):
            levels = slice(level_start[f], level_start[f + 1])
            start = cell_start[level_start[f]]
            path = list(_walk(codes, r, member[levels], start, child, value))
            for d in range(n_depths):
                ratio = odds[path[min(d, len(path) - 1)], own]
                state[r, d] = min(max(state[r, d] * ratio, LOWEST), HIGHEST)
                wrong = state[r, d] / (1 + state[r, d])
                posterior = [wrong, wrong]
                posterior[own] = 1 - wrong
                if SCORES[score] == "log-loss":
                    lost = np.log1p(state[r, d])
                elif SCORES[score] == "zero-one":
                    lost = loss(posterior, own, "zero-one")
                else:
                    lost = wrong**2
                totals[d, f] += round(lost * scale)


def score_posteriors(
    codes,
    labels,
    level_start,
    member,
    cell_start,
    width,
    child,
    value,
    arities,
    weights,
    shares,
    joint,
    context,
    context_count,
    smoothing,
    strength,
    score,
    scale,
    state,
    totals,
):
    """Multiply the posteriors of every row by its estimates, and add the losses."""
    del width
    n_depths, n_features = totals.shape
    for r, own in enumerate(labels.tolist()):
        removed = shares[r] * (np.arange(joint.shape[1]) == own)
        for f in range(n_features):
            members = member[level_start[f] : level_start[f + 1]].tolist()
            known = [codes[m, r] < arities[m] for m in [*members, -1][:-1]]
            members = members[: known.index(False)] if False in known else members
            start = cell_start[level_start[f]]
            path = list(_walk(codes, r, members, start, child, value)) if weights[r] > 0 else []
            even, estimate = smoothing / arities[member[level_start[f]]], None
            for d in range(n_depths):
                if d < len(path):
                    own_counts = joint[path[d]] - removed
                    above = context_count[context[path[d]]] - removed
                    if d == 0:
                        marginal = (own_counts.sum() + even) / (max(above.sum(), 0) + smoothing)
                        everyone = joint[path[d]].sum() + even
                        everyone /= context_count[context[path[d]]].sum() + smoothing
                        fall_back = np.where(removed > 0, marginal, everyone)
                        seen = (own_counts + even) / (above + smoothing)
                        estimate = np.where(above > 0, seen, fall_back)
                    elif strength > 0:
                        above, own_counts = np.maximum(above, 0), np.maximum(own_counts, 0)
                        estimate = (own_counts + strength * estimate) / (above + strength)
                    else:
                        seen = (own_counts + even) / np.where(above > 0, above + smoothing, 1.0)
                        estimate = np.where(above > 0, seen, estimate)
                if path:
                    state[r, d] *= estimate
                    state[r, d] = np.maximum(state[r, d] / state[r, d].sum(), LOWEST)
                lost = weights[r] * loss(state[r, d].tolist(), own, SCORES[score])
                totals[d, f] += int(lost * scale + 0.5)
