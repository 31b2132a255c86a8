"""Prior knowledge as counts added to those of the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tanager.counts.families import Family, FamilyCounts
from tanager.errors import MemoryBoundError
from tanager.numerics import Floats

MAX_CELLS = 1 << 22  # in a family that a prior is spread over


@dataclass(frozen=True, eq=False)
class PriorCounts:
    """Counts to add to those of the rows."""

    classes: Floats  # (n_classes,)
    # by feature: some of its parents, and counts of shape (n_classes, *parents, values)
    families: Mapping[int, tuple[tuple[int, ...], Floats]]

    def add(
        self, families: Sequence[Family], counts: Sequence[FamilyCounts], names: Sequence[str]
    ) -> list[FamilyCounts]:
        """Return the families' counts plus the prior's, spread evenly over additional parents."""
        found = list(counts)
        for at, (feature, parents) in enumerate(families):
            if feature in self.families:
                shape = counts[at].arities
                moved = self.aligned(feature, parents, shape, names)
                axes = range(1, 1 + len(parents))
                spread = moved / prod(shape[axis] for axis in axes if moved.shape[axis] == 1)
                more = FamilyCounts.from_dense(np.broadcast_to(spread, shape).copy())
                found[at] = counts[at].plus(more)
        return found

    def aligned(
        self, feature: int, parents: tuple[int, ...], shape: tuple[int, ...], names: Sequence[str]
    ) -> Floats:
        """Return a feature's prior as (n_classes, *parents, values), length 1 along other parents.

        `shape` is that of the family's counts.
        """
        own, values = self.families[feature]
        if prod(shape) > MAX_CELLS:
            raise MemoryBoundError(
                f"The prior for {names[feature]!r} would need {prod(shape):,} cells, more than the "
                f"limit of {MAX_CELLS:,}. Learn a structure with fewer parents."
            )
        # Parents missing from the structure are summed out.
        values = values.sum(axis=tuple(1 + at for at, p in enumerate(own) if p not in parents))
        own = tuple(parent for parent in own if parent in parents)
        order = [own.index(parent) for parent in parents if parent in own]
        moved = values.transpose(0, *(1 + axis for axis in order), values.ndim - 1)
        lengths = iter(moved.shape[1:-1])
        wide = [next(lengths) if parent in own else 1 for parent in parents]
        return moved.reshape(moved.shape[0], *wide, moved.shape[-1])
