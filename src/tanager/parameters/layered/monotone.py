"""Generative tables that rise or fall along a feature: the nearest ones that do."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tanager.counts import Counts
from tanager.loglinear import Signs
from tanager.parameters.tables import DenseTable, Tables
from tanager.structure import Structure

__all__ = ["apart", "project_scores", "project_tables"]

Floats = NDArray[np.float64]


def apart(structure: Structure, signs: Signs) -> Structure:
    """Return the structure without edges at features along which the class rises or falls.

    A generative table of such a feature's child may fall along it where the sum
    of all tables rises; term by term nothing could be promised.
    """

    def allowed(feature: int, parents: tuple[int, ...]) -> bool:
        return not parents or not any(one in signs for one in (feature, *parents))

    return structure.restricted(allowed) if signs else structure


def project_tables(structure: Structure, tables: Tables, counts: Counts, signs: Signs) -> Tables:
    """Return tables of a structure that is `apart`, those of the signed features projected."""
    if not signs:
        return tables
    families = []
    for feature, table in zip(structure.selected, tables.families, strict=True):
        if feature in signs:
            n_ordered = counts.domain.n_ordered[feature]
            logs = table.to_dense().log_prob.copy()
            rows = counts.values[feature][:n_ordered].sum(axis=1)
            logs[:n_ordered] = project_scores(logs[:n_ordered], signs[feature], rows)
            table = DenseTable(logs)
        families.append(table)
    return Tables(tables.log_prior, tuple(families), normalized=False)


def project_scores(scores: Floats, signs: NDArray[np.int8], weights: Floats) -> Floats:
    """Return scores (n_ordered, n_classes) that rise and fall as asked, near the given ones.

    Differences to a reference (the class that is asked about; with one that
    rises and one that falls, the mean of the others) are replaced by their
    isotonic regression, weighted by the rows of each value.

    >>> scores = np.array([[0.0, 0.3], [0.0, 0.1], [0.0, 0.5]])
    >>> project_scores(scores, np.array([0, 1], np.int8), np.ones(3)).round(2).tolist()
    [[0.1, 0.3], [-0.1, 0.1], [0.0, 0.5]]
    """
    from scipy.optimize import isotonic_regression

    known = np.maximum(weights, 1e-3)
    others = np.flatnonzero(signs == 0)
    rising, falling = np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)
    out = scores.copy()
    if rising.size and falling.size and others.size:
        reference = scores[:, others].mean(axis=1)
        gaps = scores[:, others] - reference[:, None]
        out[:, others] = reference[:, None] + np.average(gaps, axis=0, weights=known)
        ways = [(rising[0], True), (falling[0], False)]
    else:
        asked = int(rising[0] if rising.size else falling[0])
        reference = scores[:, asked]
        ways = [(c, not rising.size) for c in range(scores.shape[1]) if c != asked]
    for c, increasing in ways:
        gap = scores[:, c] - reference
        found = isotonic_regression(gap, weights=known, increasing=increasing)
        out[:, c] = reference + found.x
    return out
