"""The tables of every choice of parents: of none, of one candidate, of cliques of candidates."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Domain
from tanager.structure.differentiable.sampling import KTreeSampler
from tanager.structure.limits import Limits
from tanager.training.composed import Composed
from tanager.training.model import NO_PARENT, Slots

Ints = NDArray[np.int64]
Parents = tuple[int, ...]


class CandidateFamilies(NamedTuple):
    """What each feature chooses from."""

    slots: Slots
    parents: list[list[Parents]]  # the parents of every slot of every feature, () for none
    composed: Composed | None  # the columns that slots with several parents read

    def sampler(self) -> KTreeSampler:
        """Return what draws k-trees among these slots."""
        widest = max(len(p) for slots in self.parents for p in slots)
        members = np.full((*self.slots.column.shape, max(widest, 1)), -1, np.int64)
        for i, slots in enumerate(self.parents):
            for s, parents in enumerate(slots):
                members[i, s, : len(parents)] = parents
        return KTreeSampler(members, self.slots.n_slots, np.array(_order(self.parents), np.int64))


def families_of(
    candidates: Sequence[Sequence[int]],
    max_parents: int,
    domain: Domain,
    limits: Limits | None = None,
) -> CandidateFamilies:
    """Return the families of up to `max_parents` of each feature's candidates.

    Several parents must be able to be joined among themselves: one a candidate
    of the other. Smaller families come first. With limits, every family of a feature has
    its required parent, of which there is at most one.
    """
    limits = limits or Limits.none([""] * len(candidates))
    parents = []
    for feature, mine in enumerate(candidates):
        most, required = int(limits.most[feature]), set(limits.required[feature])
        found = _cliques(mine, candidates, min(max_parents, most))
        parents.append([family for family in found if required <= set(family)])
    several = sorted({p for slots in parents for p in slots if len(p) > 1})
    n, arities = len(candidates), domain.arities
    column: dict[Parents, int] = {(): NO_PARENT}
    column |= {(j,): j for j in range(n)}
    column |= {clique: n + at for at, clique in enumerate(several)}
    slots = Slots.build(
        [[column[p] for p in slots] for slots in parents],
        [[prod(int(arities[j]) for j in p) for p in slots] for slots in parents],
        arities,
        domain.n_classes,
        domain.names,
    )
    return CandidateFamilies(slots, parents, Composed.build(several, arities) if several else None)


def _cliques(
    mine: Sequence[int], candidates: Sequence[Sequence[int]], max_parents: int
) -> list[Parents]:
    """Return the families of one feature's candidates, members in the candidates' order."""
    layer: list[tuple[Parents, list[int]]] = [((), list(mine))]
    found: list[Parents] = [()]
    for _ in range(max_parents):
        layer = [
            ((*clique, p), [q for q in rest[at + 1 :] if q in candidates[p] or p in candidates[q]])
            for clique, rest in layer
            for at, p in enumerate(rest)
        ]
        found += [clique for clique, _ in layer]
    return found


def _order(parents: Sequence[Sequence[Parents]]) -> list[int]:
    """Return the features, each after all that its slots name."""
    waiting = {i: {j for p in slots for j in p} for i, slots in enumerate(parents)}
    order: list[int] = []
    while waiting:
        ready = [i for i, needed in waiting.items() if not needed & waiting.keys()]
        order += ready
        for i in ready:
            del waiting[i]
    return order
