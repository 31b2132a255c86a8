"""Counts by fold: while counting, the label of a row is ``fold * n_classes + class``.

Passes don't need to know about folds. Their counts have the fold as an axis, and leaving a fold
out is a subtraction, which is exact because counts are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tanager.codes import Chunk, Domain
from tanager.codes.hashing import folds_of
from tanager.errors import ConfigurationError

MOST_LABELS = 65_535  # labels are uint16


class FoldPlan(NamedTuple):
    """How rows are assigned to folds: by a hash of seed and row index."""

    seed: int  # from `FitContext.row_seed`
    n_folds: int

    def domain(self, domain: Domain) -> Domain:
        """Return the domain with (fold, class) instead of the class."""
        if self.n_folds * domain.n_classes > MOST_LABELS:
            raise ConfigurationError(
                f"{self.n_folds} folds of {domain.n_classes:,} classes exceed the limit of "
                f"{MOST_LABELS:,} labels. Use parameters without folds, such as 'hdp'."
            )
        return replace(domain, n_classes=self.n_folds * domain.n_classes)


class FoldPass:
    """Runs a pass over rows whose labels are (fold, class)."""

    def __init__(self, inner: Any, plan: FoldPlan, n_classes: int) -> None:
        self.zero, self.merge, self.finish = inner.zero, inner.merge, inner.finish
        self._inner, self._plan, self._n_classes = inner, plan, n_classes

    def update(self, state: Any, chunk: Chunk) -> Any:
        """Add a relabelled chunk."""
        plan = self._plan
        fold = folds_of(plan.seed, chunk.indices, plan.n_folds).astype(np.uint16)
        labels = chunk.labels + fold * np.uint16(self._n_classes)
        return self._inner.update(state, chunk._replace(labels=labels))
