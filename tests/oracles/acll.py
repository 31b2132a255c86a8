"""The approximate conditional log-likelihood, row by row from its definition."""

from __future__ import annotations

import numpy as np


def theta(codes, labels, arities, n_classes, child, parents, beta, floor):
    """Theorem 3.8: table (*parents, value, class)."""
    shape = (*(arities[p] for p in parents), arities[child], n_classes)
    counts = np.zeros(shape)
    for row, c in enumerate(labels):
        counts[(*(codes[p, row] for p in parents), codes[child, row], c)] += 1
    weight = (1 + beta) * counts + beta * (counts.sum(axis=-1, keepdims=True) - counts)
    clipped = np.maximum(weight, floor)
    return clipped / clipped.sum(axis=-2, keepdims=True)


def prior(labels, n_classes, beta, floor):
    counts = np.bincount(labels, minlength=n_classes)
    clipped = np.maximum(counts + beta * counts.sum(), floor)
    return clipped / clipped.sum()


def acll(codes, labels, log_prior, log_tables, parents, beta):
    """Equation 22 without the constant: sum over rows of log U_true + beta * sum_c log U_c."""
    total = 0.0
    for row, c in enumerate(labels):
        log_u = log_prior.copy()
        for child, (ps, table) in enumerate(zip(parents, log_tables, strict=True)):
            log_u = log_u + table[(*(codes[p, row] for p in ps), codes[child, row])]
        total += log_u[c] + beta * log_u.sum()
    return total
