"""Scores of families under the approximate conditional log-likelihood."""

from __future__ import annotations

import numpy as np

from tanager.numerics.compiling import kernel


@kernel
def family_score(joint, beta, pseudo_count):
    """Return a family's part of equation 28, without the constant.

    joint (n_contexts, arity, n_classes): N_ijck. The weight of log theta_ijck is
    N_ijck + beta * sum over all classes of N_ijck, and theta comes from the same
    weights, clipped at the pseudo-count (theorem 3.8).
    """
    n_contexts, arity, n_classes = joint.shape
    totals = np.empty(arity)
    score = 0.0
    for j in range(n_contexts):
        seen = False
        for k in range(arity):
            total = 0.0
            for c in range(n_classes):
                total += joint[j, k, c]
            totals[k] = beta * total
            seen |= total > 0.0
        if not seen:
            continue
        for c in range(n_classes):
            mass = 0.0
            for k in range(arity):
                mass += max(joint[j, k, c] + totals[k], pseudo_count)
            log_mass = np.log(mass)
            for k in range(arity):
                weight = joint[j, k, c] + totals[k]
                if weight != 0.0:
                    score += weight * (np.log(max(weight, pseudo_count)) - log_mass)
    return score
