"""Counts by fold: the fold of a row joins its class while counting.

A pass that counts by class counts by (fold, class) when it is given labels
``fold * n_classes + class``, so that no pass knows about folds. What was
counted then has the fold as an axis, and "all rows but those of a fold" is a
subtraction, exact because counts are.
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
    """How rows are dealt into folds: by a hash of seed and row index."""

    seed: int  # from `FitContext.row_seed`
    n_folds: int

    def domain(self, domain: Domain) -> Domain:
        """Return the domain with (fold, class) in place of the class."""
        if self.n_folds * domain.n_classes > MOST_LABELS:
            raise ConfigurationError(
                f"{self.n_folds} folds of {domain.n_classes:,} classes are more than "
                f"{MOST_LABELS:,} together. Use parameters without folds, such as 'hdp'."
            )
        return replace(domain, n_classes=self.n_folds * domain.n_classes)

    def relabel(self, chunk: Chunk, n_classes: int) -> Chunk:
        """Return the chunk with (fold, class) in place of the class."""
        fold = folds_of(self.seed, chunk.indices, self.n_folds).astype(np.uint16)
        return chunk._replace(labels=chunk.labels + fold * np.uint16(n_classes))


class FoldPass:
    """Runs a pass over rows whose labels are (fold, class)."""

    def __init__(self, inner: Any, plan: FoldPlan, n_classes: int) -> None:
        self._inner = inner
        self._plan = plan
        self._n_classes = n_classes

    def zero(self) -> Any:
        """Return the statistic of no rows."""
        return self._inner.zero()

    def update(self, state: Any, chunk: Chunk) -> Any:
        """Add a chunk."""
        return self._inner.update(state, self._plan.relabel(chunk, self._n_classes))

    def merge(self, a: Any, b: Any) -> Any:
        """Merge two statistics."""
        return self._inner.merge(a, b)

    def finish(self, state: Any) -> Any:
        """Finish the statistic."""
        return self._inner.finish(state)
