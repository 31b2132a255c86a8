"""Twins of unknown.c."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np


def sum_unknown(
    arities,
    variable_start,
    members,
    member_start,
    factor_start,
    cell_start,
    factors,
    numbers,
    number_start,
    max_cells,
    marginals,
    log_sums,
    draws,
):
    """Sum, marginalise and draw by enumerating all values of a row's variables."""
    given = factors.copy()
    factors[:] = np.nan  # whatever is left there
    n_classes = factors.shape[1]
    done = 0
    for r in range(len(log_sums)):
        own = numbers[number_start[r] : number_start[r + 1]]
        n_drawn = len(own) * (variable_start[r + 1] - variable_start[r])
        found = draws[done : done + n_drawn].reshape(-1, max(len(own), 1))
        done += n_drawn
        first, end = variable_start[r], variable_start[r + 1]
        sizes = arities[first:end].tolist()
        scopes = [
            members[member_start[f] : member_start[f + 1]].tolist()
            for f in range(factor_start[r], factor_start[r + 1])
        ]
        order, largest = _order(sizes, scopes)
        if largest * n_classes > max_cells:
            log_sums[r] = np.nan
            continue
        tables = [
            np.exp(given[cell_start[f] : cell_start[f + 1]]).reshape(
                [sizes[v] for v in scope] + [n_classes]
            )
            for f, scope in zip(range(factor_start[r], factor_start[r + 1]), scopes, strict=True)
        ]
        joint = np.ones([*sizes, n_classes])
        for values in product(*map(range, sizes)):
            for scope, table in zip(scopes, tables, strict=True):
                joint[values] *= table[tuple(values[v] for v in scope)]
        axes = tuple(range(len(sizes)))
        log_sums[r] = np.log(joint.sum(axis=axes))
        shares = joint / joint.sum(axis=axes)
        if marginals:
            for at, scope in enumerate(scopes):
                f = factor_start[r] + at
                kept = np.moveaxis(shares, scope, range(len(scope)))
                kept = kept.sum(axis=tuple(range(len(scope), len(sizes))))
                factors[cell_start[f] : cell_start[f + 1]] = kept.reshape(-1, n_classes)
        for d, number in enumerate(own):
            found[:, d] = _invert(shares[..., 0], order[::-1], number)


def _order(sizes, scopes):
    """Return variables, always the one with the smallest table first, and the largest table."""
    around = [set().union(*(s for s in scopes if v in s)) | {v} for v in range(len(sizes))]
    waiting, order, largest = list(range(len(sizes))), [], 0
    while waiting:
        cost = [prod(sizes[u] for u in around[v]) for v in waiting]
        largest = max(largest, min(cost))
        best = waiting.pop(cost.index(min(cost)))
        order.append(best)
        for u in waiting:
            if best in around[u]:
                around[u] = (around[u] | around[best]) - {best}
    return order, largest


def _invert(shares, order, number):
    """Return the values at which the distribution function, variables in order, passes a number."""
    ordered = shares.transpose(order)
    values = np.unravel_index(np.searchsorted(ordered.cumsum(), number, "right"), ordered.shape)
    found = np.zeros(len(order), int)
    found[list(order)] = values
    return found
