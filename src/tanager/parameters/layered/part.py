"""Some training rows at two resolutions: each feature's values, and their groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tanager.additive import LocatedRows, Terms
from tanager.codes import Codes, Domain, Groups, Rows, group_codes, grouped_domain, learn_groups
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.structure import Structure, StructureLearner

__all__ = ["Part"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Part:
    """Rows in memory, with the groups and the structure that they tell.

    Attributes
    ----------
    rows : Rows
        With the features' own codes.
    groups : tuple of Groups
        Of each feature, by which it is read as a parent.
    structure : Structure
    context : FitContext
    """

    rows: Rows
    groups: tuple[Groups, ...]
    structure: Structure
    context: FitContext

    @classmethod
    def of(
        cls,
        rows: Rows,
        context: FitContext,
        structure: Structure,
        learner: StructureLearner | None = None,
        limit: int | None = None,
    ) -> Part:
        """Learn groups from some rows; with a learner, the structure too.

        `limit` is the most numbers of a table.
        """
        counts = Counts(rows, context)
        pairs = zip(counts.values, rows.domain.n_ordered, strict=True)
        groups = tuple(learn_groups(values, n_ordered) for values, n_ordered in pairs)
        part = cls(rows, groups, structure, context)
        if learner is None:
            return part
        found = learner.learn(part.grouped_counts, context)
        if limit is not None:
            found = found.within(part.grouped_counts.domain, limit)
        return cls(rows, groups, found, context)

    @cached_property
    def _chunk(self) -> tuple[Codes, NDArray[np.uint16], Floats]:
        codes, labels, weights = self.rows.gather()[:3]
        return codes, labels, np.zeros(0) if weights is None else weights

    @cached_property
    def grouped_counts(self) -> Counts:
        """Counts of the groups."""
        codes, labels, weights = self._chunk
        domain = grouped_domain(self.rows.domain, self.groups)
        kept = Rows.in_memory(
            domain, group_codes(codes, self.groups), labels, weights if weights.size else None
        )
        return Counts(kept, self.context)

    @cached_property
    def domain(self) -> Domain:
        """Of the features, then of their groups."""
        own, coarse = self.rows.domain, grouped_domain(self.rows.domain, self.groups)
        return Domain(
            own.names + coarse.names,
            np.concatenate([own.arities, coarse.arities]),
            own.n_classes,
            own.n_ordered + coarse.n_ordered,
        )

    def both(self, codes: Codes) -> Codes:
        """Return codes and, below them, their groups."""
        return np.concatenate([codes, group_codes(codes, self.groups).astype(codes.dtype)])

    def terms(self, depth: int) -> Terms:
        """Return the terms of each feature, and of its groups under 1, 2, .. `depth` parents."""
        n_features = self.rows.domain.n_features
        families: list[tuple[int, ...]] = [(one,) for one in self.structure.selected]
        for feature, parents in self.interactions(depth):
            families.append(tuple(n_features + one for one in (*parents, feature)))
        return Terms(families, self.domain, self._both)

    def interactions(self, depth: int) -> list[tuple[int, tuple[int, ...]]]:
        """Return each feature with its first, first two, ... up to `depth` parents."""
        pairs = zip(self.structure.selected, self.structure.parent_indices, strict=True)
        return [
            (feature, parents[:number])
            for feature, parents in pairs
            for number in range(1, min(depth, len(parents)) + 1)
        ]

    @cached_property
    def _both(self) -> Codes:
        return self.both(self._chunk[0])

    def located(self, terms: Terms) -> LocatedRows:
        """Return the rows as cells of terms."""
        _, labels, weights = self._chunk
        return LocatedRows(terms.locate(self._both), labels, weights)
