"""Twins of network.c and dfe.c."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.oracles.conditional_likelihood import posterior


def add_forest_sums(codes, arities, features, parents, flat, flat_start, out):
    """Add what the families with an unknown member sum to, by enumeration."""
    n_classes, n_rows = out.shape[1], codes.shape[1]
    members = set(features.tolist())
    for r, c in product(range(n_rows), range(n_classes)):
        unknown = [i for i in sorted(members) if codes[i, r] >= arities[i]]
        terms = []
        for values in product(*(range(arities[i]) for i in unknown)):
            row = dict(enumerate(codes[:, r].tolist())) | dict(zip(unknown, values, strict=True))
            term = 0.0
            for i, p, start in zip(features.tolist(), parents.tolist(), flat_start, strict=True):
                if i not in unknown and p not in unknown:
                    continue
                at = row[i] if p < 0 else row[p] * arities[i] + row[i]
                term += flat[start + at * n_classes + c]
            terms.append(term)
        out[r, c] += np.logaddexp.reduce(terms)


def add_misses(cells, sizes, labels, weights, m, frequencies, totals, missed):
    """Let every row in turn add what it missed to its cells."""
    n_families, n_rows = cells.shape
    blank, n_classes = frequencies.shape[0] - 1, frequencies.shape[1]
    first = np.concatenate([[1], 1 + np.cumsum(sizes[:, 2])])
    missed[0] = 0.0
    for r in range(n_rows):
        here = [(f, int(cells[f, r])) for f in range(n_families) if cells[f, r] != blank]
        above = [int(first[f] + (cell - sizes[f, 0]) // sizes[f, 1]) for f, cell in here]
        scores = np.log(frequencies[0] + m / n_classes)
        for (f, cell), at in zip(here, above, strict=True):
            scores = scores + np.log((frequencies[cell] + m / sizes[f, 1]) / (totals[at] + m))
        miss = weights[r] * (1.0 - posterior(scores.tolist())[labels[r]])
        missed[0] += miss
        frequencies[0, labels[r]] += miss
        for (_, cell), at in zip(here, above, strict=True):
            frequencies[cell, labels[r]] += miss
            totals[at, labels[r]] += miss


def draw_values(contexts, cumulative, numbers, out):
    """Draw the first value whose cumulative probability exceeds the row's share of the last."""
    for row, (context, number) in enumerate(zip(contexts, numbers, strict=True)):
        shares = cumulative[context]
        out[row] = min(at for at, share in enumerate(shares) if share > number * shares[-1])
