"""Constraints on a structure as learners read them: features by their places."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from tanager.errors import ConfigurationError
from tanager.structure.structure import Structure

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Arc = tuple[int, int]  # from parent to child

NO_LIMIT = 1 << 30


class Ban(NamedTuple):
    """A statement that rules out arcs."""

    text: str
    arcs: frozenset[Arc]


@dataclass(frozen=True, eq=False)
class Limits:
    """Constraints on features by their places; see `Constraints`."""

    names: tuple[str, ...]
    # (n, n); whether the column's feature may be a parent of the row's; the diagonal says nothing
    allowed: Flags
    required: tuple[tuple[int, ...], ...]  # the parents that each feature must have
    most: Ints  # (n,); the most parents of each feature
    before: Flags  # (n, n); whether tiers or order put the row's feature before the column's
    bans: tuple[Ban, ...] = field(default=(), repr=False)

    @classmethod
    def none(cls, names: Sequence[str]) -> Limits:
        """Return limits that allow everything."""
        n = len(names)
        every, no = (np.broadcast_to(np.bool_(flag), (n, n)) for flag in (True, False))
        return cls(tuple(names), every, ((),) * n, np.full(n, NO_LIMIT, np.int64), no)

    @property
    def n_required(self) -> int:
        """The greatest number of parents that one feature must have."""
        return max((len(parents) for parents in self.required), default=0)

    def take(self, features: Sequence[int] | Ints) -> Limits:
        """Return the limits of some features, in the order given; arcs to others are gone."""
        kept = np.asarray(features, np.int64)
        place = {int(feature): at for at, feature in enumerate(kept)}
        required = tuple(tuple(place[p] for p in self.required[int(f)] if p in place) for f in kept)
        return Limits(
            tuple(self.names[int(f)] for f in kept),
            self.allowed[np.ix_(kept, kept)],
            required,
            self.most[kept],
            self.before[np.ix_(kept, kept)],
        )

    def parents_of(self, feature: int, earlier: Ints, k: int) -> tuple[tuple[int, ...], Ints, int]:
        """Return required parents, the earlier features that may be more, and room for how many."""
        required = self.required[feature]
        others = earlier[self.allowed[feature, earlier] & ~np.isin(earlier, required)]
        return required, others, max(min(k, int(self.most[feature])) - len(required), 0)

    def check_learner(self, most: int, learner: str) -> None:
        """Refuse what a learner cannot give: more required parents than it gives to a feature."""
        for child, parents in enumerate(self.required):
            if len(parents) > most:
                arcs = [self._required_text((p, child)) for p in parents[: most + 1]]
                refuse_contradiction(
                    [*arcs, f"{learner} gives a feature at most {most} parents besides the class"]
                )

    def _required_text(self, arc: Arc) -> str:
        return f"required ({self.names[arc[0]]!r}, {self.names[arc[1]]!r})"

    def arrange(self, order: Sequence[int] | Ints) -> Ints:
        """Return an order in which required parents come first, and earlier tiers where they can.

        Among the features that may come next, the first in the order given does.
        """
        if not (self.n_required or self.before.any()):
            return np.array(order, np.int64)
        given = np.asarray(order, np.int64)
        needed = self.needed
        if not needed.any() and not self.before.any():
            return given
        hard, soft = needed.sum(axis=0), self.before.sum(axis=0)
        left, result = np.ones(len(given), np.bool_), []
        for _ in given:
            ready = left & (hard[given] == 0)
            early = ready & (soft[given] == 0)
            place = int(np.argmax(early if early.any() else ready))
            left[place] = False
            result.append(int(given[place]))
            hard, soft = hard - needed[result[-1]], soft - self.before[result[-1]]
        return np.array(result, np.int64)

    @cached_property
    def needed(self) -> Flags:
        """Whether the row's feature is a required parent of the column's, shape (n, n)."""
        needed = np.zeros_like(self.before)
        for child, required in enumerate(self.required):
            needed[list(required), child] = True
        return needed

    def moral(self, order: Sequence[int] | Ints) -> Limits:
        """Return limits that also require arcs between the required parents of one feature.

        For learners whose parents are joined among themselves. `order` is what `arrange`
        returns; arcs go along it.
        """
        place = {int(feature): at for at, feature in enumerate(order)}
        required = [set(parents) for parents in self.required]
        for child in sorted(place, key=place.__getitem__, reverse=True):
            parents = sorted(required[child], key=place.__getitem__)
            for at, later in enumerate(parents):
                for earlier in parents[:at]:
                    if not self.allowed[later, earlier]:
                        self._refuse_unjoined(child, earlier, later)
                    required[later].add(earlier)
        kept = tuple(
            (*self.required[f], *sorted(more - set(self.required[f]), key=place.__getitem__))
            for f, more in enumerate(required)
        )
        for child, above in enumerate(kept):
            if len(above) > self.most[child]:
                refuse_contradiction(
                    [
                        *(self._required_text((p, child)) for p in self.required[child]),
                        f"max_parents of {self.names[child]!r}: {self.most[child]}",
                        "parents that are joined among themselves",
                    ]
                )
        return Limits(self.names, self.allowed, kept, self.most, self.before, self.bans)

    def _refuse_unjoined(self, child: int, earlier: int, later: int) -> NoReturn:
        texts = [self._required_text((p, child)) for p in (earlier, later)]
        bans = [ban.text for ban in self.bans if (earlier, later) in ban.arcs][:1]
        refuse_contradiction([*texts, *bans, "parents that are joined among themselves"])

    def check_structure(self, structure: Structure, left_out: Collection[int] = ()) -> None:
        """Refuse a structure that does not satisfy the constraints."""
        found = dict(zip(structure.selected, structure.parent_indices, strict=True))
        for child, parents in enumerate(self.required):
            for parent in parents:
                if parent in found.get(child, ()):
                    continue
                gone = [self.names[f] for f in (parent, child) if f in left_out]
                why = (
                    f"the audit leaves out {gone[0]!r}. Name it in categorical_features."
                    if gone
                    else "its table would be too large, or the learner does not give it. Choose "
                    "another learner, or coarser bins."
                )
                raise ConfigurationError(
                    f"The structure lacks the {self._required_text((parent, child))}: {why}"
                )
        for child, parents in found.items():
            wrong = [p for p in parents if not self.allowed[child, p]]
            if wrong or len(parents) > self.most[child]:
                arc = f" has the parent {self.names[wrong[0]]!r}" if wrong else " has more parents"
                raise ConfigurationError(
                    f"The structure does not satisfy the constraints: {self.names[child]!r}{arc}"
                    f"{'' if wrong else f' than {self.most[child]}'}. Change the constraints, or "
                    "choose a learner that takes them."
                )


def refuse_contradiction(texts: Sequence[str]) -> NoReturn:
    """Refuse statements that cannot hold together."""
    told = f"{', '.join(texts[:-1])} and {texts[-1]}"
    raise ConfigurationError(f"The constraints cannot hold together: {told}. Give up one of them.")
