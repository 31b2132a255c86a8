"""Information that features carry about the class."""

from __future__ import annotations

import numpy as np

from tanager.numerics.compiling import kernel


@kernel
def grouped_terms(start, codes, labels, weights, rows, cells, values):
    """Return the sums of n log n over the cells (B, X, C) and (B, X).

    Rows of one pattern of B stand side by side: group g is
    ``rows[start[g]:start[g+1]]``. `cells` (arity + 1, n_classes) and `values`
    (arity + 1,) are zeros, and are zeros again afterwards: only what a group
    touched is cleared, so that many small groups cost no more than their rows.
    """
    with_class = 0.0
    without = 0.0
    for g in range(start.shape[0] - 1):
        for at in range(start[g], start[g + 1]):
            r = rows[at]
            cells[codes[r], labels[r]] += weights[r]
            values[codes[r]] += weights[r]
        for at in range(start[g], start[g + 1]):
            r = rows[at]
            n = cells[codes[r], labels[r]]
            if n > 0.0:
                if n != 1.0:
                    with_class += n * np.log(n)
                cells[codes[r], labels[r]] = 0.0
            n = values[codes[r]]
            if n > 0.0:
                if n != 1.0:
                    without += n * np.log(n)
                values[codes[r]] = 0.0
    return with_class, without


@kernel
def _n_log_n(n):
    return n * np.log(n) if n > 0.0 else 0.0


@kernel
def class_information(joint):
    """Return I(C; X_i | X_j) of counts joint (arity_i, arity_j, n_classes)."""
    total = 0.0
    terms = 0.0
    for j in range(joint.shape[1]):
        n_j = 0.0
        for c in range(joint.shape[2]):
            n_jc = 0.0
            for i in range(joint.shape[0]):
                n_jc += joint[i, j, c]
                terms += _n_log_n(joint[i, j, c])
            n_j += n_jc
            terms -= _n_log_n(n_jc)
        for i in range(joint.shape[0]):
            n_ij = 0.0
            for c in range(joint.shape[2]):
                n_ij += joint[i, j, c]
            terms -= _n_log_n(n_ij)
        terms += _n_log_n(n_j)
        total += n_j
    return terms / total if total > 0.0 else 0.0


@kernel
def explaining_away(joint):
    """Return I(X_i; X_j | C) - I(X_i; X_j) of counts joint (arity_i, arity_j, n_classes)."""
    n_i, n_j, n_classes = joint.shape
    pooled_i, pooled_j, pooled = np.zeros(n_i), np.zeros(n_j), 0.0
    terms = 0.0
    for c in range(n_classes):
        by_i, by_j, n_c = np.zeros(n_i), np.zeros(n_j), 0.0
        for i in range(n_i):
            for j in range(n_j):
                n = joint[i, j, c]
                terms += _n_log_n(n)
                by_i[i] += n
                by_j[j] += n
                n_c += n
        for i in range(n_i):
            terms -= _n_log_n(by_i[i])
            pooled_i[i] += by_i[i]
        for j in range(n_j):
            terms -= _n_log_n(by_j[j])
            pooled_j[j] += by_j[j]
        terms += _n_log_n(n_c)
        pooled += n_c
    for i in range(n_i):
        for j in range(n_j):
            n = 0.0
            for c in range(n_classes):
                n += joint[i, j, c]
            terms -= _n_log_n(n)
    for i in range(n_i):
        terms += _n_log_n(pooled_i[i])
    for j in range(n_j):
        terms += _n_log_n(pooled_j[j])
    terms -= _n_log_n(pooled)
    return terms / pooled if pooled > 0.0 else 0.0
