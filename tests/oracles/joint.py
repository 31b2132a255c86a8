"""Posteriors by enumeration: the slow, obvious twin of `tanager.network`."""

from __future__ import annotations

from itertools import product

import numpy as np


def log_term(tables, structure, at, row, y):
    """Return log P(x | y, parents) of one family, from its dense table."""
    table = tables.families[at].to_dense().log_prob
    members = (*structure.parent_indices[at], structure.selected[at])
    return table[(*(row[m] for m in members), y)]


def log_joint(tables, structure, arities, codes):
    """Return the log-joint (n_rows, n_classes), summing over every unknown feature."""
    n_classes = len(tables.log_prior)
    out = np.empty((codes.shape[1], n_classes))
    for r in range(codes.shape[1]):
        unknown = [f for f in structure.selected if codes[f, r] >= arities[f]]
        for y in range(n_classes):
            total = 0.0
            for values in product(*(range(arities[f]) for f in unknown)):
                row = {f: int(codes[f, r]) for f in structure.selected}
                row.update(zip(unknown, values, strict=True))
                terms = (
                    log_term(tables, structure, at, row, y) for at in range(len(structure.selected))
                )
                total += np.exp(sum(terms))
            out[r, y] = tables.log_prior[y] + np.log(total)
    return out
