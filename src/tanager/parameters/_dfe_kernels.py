"""Discriminative frequency estimates, row by row."""

from __future__ import annotations

import numpy as np

from tanager.numerics.compiling import kernel


@kernel(error_model="numpy")
def add_misses(cells, sizes, labels, weights, m, frequencies, totals):
    """Read rows in turn; each adds 1 - P(label | x) to its own cells.

    cells (n_families, n_rows), the last one for families that take no part;
    sizes (n_families, 3): first cell, arity, number of contexts. Adds to
    frequencies (n_cells, n_classes) and to totals, their sums per context, the
    class node first. Returns the weighted sum of what the rows missed.
    """
    n_families, n_rows = cells.shape
    blank, n_classes = frequencies.shape[0] - 1, frequencies.shape[1]
    score = np.empty(n_classes)
    missed = 0.0
    for r in range(n_rows):
        for c in range(n_classes):
            # the class node's total is the same for all classes
            score[c] = np.log(frequencies[0, c] + m / n_classes)
        first = 1
        for f in range(n_families):
            cell, arity = cells[f, r], sizes[f, 1]
            if cell != blank:
                at = first + (cell - sizes[f, 0]) // arity
                for c in range(n_classes):
                    score[c] += np.log((frequencies[cell, c] + m / arity) / (totals[at, c] + m))
            first += sizes[f, 2]
        label = labels[r]
        own, others = score[label], 0.0
        for c in range(n_classes):
            if c != label:
                others += np.exp(min(score[c] - own, 700.0))
        miss = weights[r] * others / (1.0 + others)
        missed += miss
        frequencies[0, label] += miss
        first = 1
        for f in range(n_families):
            cell = cells[f, r]
            if cell != blank:
                frequencies[cell, label] += miss
                totals[first + (cell - sizes[f, 0]) // sizes[f, 1], label] += miss
            first += sizes[f, 2]
    return missed
