"""Contexts of several parents, put together when they are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Composed(NamedTuple):
    """Further columns of contexts: the joint values of several columns.

    Held as recipes, since all of them together would be many times the rows: a
    batch has them made for its own rows, a finished structure for the few that
    it chose.
    """

    members: Ints  # (n_composed, n_members); columns that are joined; -1 where a recipe has fewer
    arities: Ints  # (n_composed, n_members); their numbers of values, 1 where a recipe has fewer

    @classmethod
    def build(cls, cliques: Sequence[tuple[int, ...]], arities: Ints) -> Composed:
        """Lay out recipes for the joint values of features with the given arities."""
        width = max((len(clique) for clique in cliques), default=1)
        members = np.full((len(cliques), width), -1, np.int64)
        sizes = np.ones((len(cliques), width), np.int64)
        for at, clique in enumerate(cliques):
            members[at, : len(clique)] = clique
            sizes[at, : len(clique)] = arities[list(clique)]
        return cls(members, sizes)

    def of(self, columns: NDArray[np.integer], wanted: Ints | None = None) -> Ints:
        """Return the joint values (n_wanted, n_rows) of columns (n_columns, n_rows).

        Where a member is unknown the joint value is one past the last.
        """
        members = self.members if wanted is None else self.members[wanted]
        arities = self.arities if wanted is None else self.arities[wanted]
        number = np.zeros((members.shape[0], columns.shape[1]), np.int64)
        unknown = np.zeros(number.shape, np.bool_)
        for place in range(members.shape[1]):
            there = members[:, place] >= 0
            values = columns[members[:, place]] * there[:, None]  # column -1 stands in, as zero
            number *= arities[:, place, None]
            number += values
            unknown |= values >= arities[:, place, None]
        past = np.broadcast_to(arities.prod(axis=1)[:, None], number.shape)
        number[unknown] = past[unknown]
        return number
