"""Rows that were never seen: what experts know, as counts to be added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tanager.counts.families import Family, FamilyCounts
from tanager.errors import MemoryBoundError
from tanager.numerics import Floats

MAX_CELLS = 1 << 22  # of a family that a prior is spread over


@dataclass(frozen=True, eq=False)
class PriorCounts:
    """Counts to be added to those of the rows."""

    classes: Floats  # (n_classes,)
    # by feature, some of its parents and counts of shape (n_classes, *parents, values)
    families: Mapping[int, tuple[tuple[int, ...], Floats]]

    def add(
        self, families: Sequence[Family], counts: Sequence[FamilyCounts], names: Sequence[str]
    ) -> list[FamilyCounts]:
        """Return the families' counts by class with the prior's.

        The prior is spread evenly over further parents.
        """
        pairs = zip(families, counts, strict=True)
        return [self._add(*family, known, names) for family, known in pairs]

    def _add(
        self, feature: int, parents: tuple[int, ...], counts: FamilyCounts, names: Sequence[str]
    ) -> FamilyCounts:
        if feature not in self.families:
            return counts
        shape = counts.arities
        moved = self.aligned(feature, parents, shape, names)
        spread = prod(shape[1 + at] for at in range(len(parents)) if moved.shape[1 + at] == 1)
        return counts.plus(FamilyCounts.from_dense(np.broadcast_to(moved / spread, shape).copy()))

    def aligned(
        self, feature: int, parents: tuple[int, ...], shape: tuple[int, ...], names: Sequence[str]
    ) -> Floats:
        """Return a feature's prior as (n_classes, *parents, values), length 1 along other parents.

        `shape` is that of the family's counts.
        """
        own, values = self.families[feature]
        if prod(shape) > MAX_CELLS:
            raise MemoryBoundError(
                f"The prior for {names[feature]!r} would be spread over {prod(shape):,} cells, "
                f"beyond the bound of {MAX_CELLS:,}. Learn a structure with fewer parents."
            )
        # Parents that the structure lacks are summed out.
        values = values.sum(axis=tuple(1 + at for at, p in enumerate(own) if p not in parents))
        own = tuple(parent for parent in own if parent in parents)
        order = [own.index(parent) for parent in parents if parent in own]
        moved = values.transpose(0, *(1 + axis for axis in order), values.ndim - 1)
        lengths = iter(moved.shape[1:-1])
        wide = [next(lengths) if parent in own else 1 for parent in parents]
        return moved.reshape(moved.shape[0], *wide, moved.shape[-1])
