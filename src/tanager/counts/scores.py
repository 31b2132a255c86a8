"""Scores of pairs of features, over dense and wide pairs alike."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from tanager import native
from tanager.counts.pairs import PairCells, PairCounts
from tanager.numerics import Floats


class PairScore(Protocol):
    """A function of N(x_i, x_j, y), for `Counts.score_pairs`."""

    @property
    def symmetric(self) -> bool:
        """Whether exchanging the features leaves it as it is."""

    def joints(self, pairs: PairCounts) -> Floats:
        """Return the scores of (i, j), shape (n_pairs,); with (j, i) behind if not symmetric."""

    def cells(self, cells: PairCells) -> float:
        """Return the score of a wide pair from the cells seen."""


class ConditionalInformation:
    """I(X_i; X_j | Y) in nats: the plug-in estimate, cells without a count left out."""

    symmetric = True

    def joints(self, pairs: PairCounts) -> Floats:
        """Return the scores of dense pairs."""
        out = np.empty(pairs.left.shape[0])
        native.score_information(
            pairs.flat,
            pairs.start,
            pairs.domain.arities[pairs.left],
            pairs.domain.arities[pairs.right],
            pairs.domain.n_classes,
            out,
        )
        return out

    def cells(self, cells: PairCells) -> float:
        """Return the score of a wide pair."""
        if cells.counts.shape[0] == 0:
            return 0.0
        with_left = cells.margin(cells.left, cells.label)
        with_right = cells.margin(cells.right, cells.label)
        ratio = cells.counts * cells.margin(cells.label) / (with_left * with_right)
        return float((cells.counts * np.log(ratio)).sum() / cells.counts.sum())


class ExplainingAway:
    """I(X_i; X_j | Y) - I(X_i; X_j) in nats: the dependence that the class makes.

    J. Bilmes, "Dynamic Bayesian multinets", UAI 2000.
    """

    symmetric = True

    def joints(self, pairs: PairCounts) -> Floats:
        """Return the scores of dense pairs."""
        out = np.empty((len(pairs.left), 1))
        for (_, _, joint), score in zip(pairs.joints(), out, strict=True):
            native.score_explaining_away(joint, score)
        return out[:, 0]

    def cells(self, cells: PairCells) -> float:
        """Return the score of a wide pair, as sums of n log n over the margins of its cells."""
        if cells.counts.shape[0] == 0:
            return 0.0
        left, right, label, count, _ = cells
        with_class = (left, right, label), (left, label), (right, label), (label,)
        margins = *with_class, (left, right), (left,), (right,)
        signs = zip((1, -1, -1, 1, -1, 1, 1), margins, strict=True)
        # Summed over the cells, log of a margin is n log n of that margin.
        terms = sum(
            sign * float((count * np.log(cells.margin(*columns))).sum()) for sign, columns in signs
        )
        total = float(count.sum())
        return (terms - total * float(np.log(total))) / total
