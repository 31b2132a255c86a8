"""Families packed end to end, so that one call of a compiled loop reads all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.codes import Codes, Groups, group_codes
from tanager.codes.groups import tells_all

if TYPE_CHECKING:
    from tanager.parameters.tables import DenseTable, GroupedTable

__all__ = ["Packed", "View"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# From a feature and groups of its values to the row of codes that holds the groups.
View = Callable[[int, Groups], int]

MOST_LOOKUPS = 1 << 22  # entries of all views' look-up tables, spelled out
FEW_ROWS = 16  # up to which one look into all groups at once costs less than a call for each


class _Views(NamedTuple):
    """Features that are read by groups of their values."""

    features: Ints
    groups: list[Groups]
    sizes: Ints
    group_of: NDArray[np.uint16] | None  # by view and code; None where that would be large

    @classmethod
    def of(cls, views: Sequence[tuple[int, Groups]]) -> _Views:
        groups = [group for _, group in views]
        sizes = np.array([int(group.max()) + 1 for group in groups], np.int64)
        widest = max((len(group) for group in groups), default=0) + 1
        group_of = None
        if len(groups) * widest <= MOST_LOOKUPS:
            # Behind the last value stands the code of an unknown one.
            group_of = np.repeat(sizes[:, None].astype(np.uint16), widest, axis=1)
            for row, group in zip(group_of, groups, strict=True):
                row[: len(group)] = group
        return cls(np.array([f for f, _ in views], np.int64), groups, sizes, group_of)

    def add(self, codes: Codes, arities: Ints) -> tuple[Codes, Ints]:
        """Return codes and arities with one more row for each view."""
        n_views, n_features, n_rows = len(self.groups), codes.shape[0], codes.shape[1]
        if n_views == 0:
            return codes, arities
        out = np.empty((n_features + n_views, n_rows), codes.dtype)
        out[:n_features] = codes
        if self.group_of is not None and n_rows <= FEW_ROWS:
            out[n_features:] = self.group_of[np.arange(n_views)[:, None], codes[self.features]]
        else:
            out[n_features:] = group_codes(codes[self.features], self.groups)
        return out, np.concatenate([arities, self.sizes])


class Packed(NamedTuple):
    """All dense and grouped families end to end, for one kernel call."""

    members: Ints
    member_start: Ints
    flat: Floats
    flat_start: Ints
    family_start: Ints  # the look-ups of each family
    views: _Views  # features that are read by groups, after the features

    @classmethod
    def of(
        cls, families: Sequence[tuple[Ints, DenseTable | GroupedTable]], n_features: int
    ) -> Packed:
        """Pack tables with their members: the rows of codes of the parents, then the feature."""
        views: dict[tuple[int, bytes], int] = {}

        def view(feature: int, groups: Groups) -> int:
            # One row of codes a feature and view, however many families read it.
            if tells_all(groups):
                return feature
            return n_features + views.setdefault((feature, groups.tobytes()), len(views))

        by_family = [list(table.pieces(members, view)) for members, table in families]
        pieces = [piece for some in by_family for piece in some]
        n_classes = families[0][1].n_classes if families else 1
        return cls(
            np.concatenate([*(members for members, _ in pieces), np.zeros(0, np.int64)]),
            np.cumsum([0, *(len(members) for members, _ in pieces)]),
            np.concatenate([*(flat for _, flat in pieces), np.zeros(n_classes)]),
            np.cumsum([0, *(len(flat) for _, flat in pieces)])[:-1].astype(np.int64),
            np.cumsum([0, *map(len, by_family)]),
            _Views.of([(feature, np.frombuffer(groups, np.uint16)) for feature, groups in views]),
        )

    def add_terms(self, codes: Codes, arities: Ints, out: Floats) -> None:
        """Add the terms of each row, for every class, to out (n_rows, n_classes)."""
        read, sizes = self.views.add(codes, arities)
        flat = (self.members, self.member_start, self.flat, self.flat_start)
        native.add_dense_terms(read, sizes, *flat, out)

    def add_each_term(self, codes: Codes, arities: Ints, outs: Iterable[Floats]) -> None:
        """Add each family's terms to its own array, (n_rows, n_classes)."""
        read, sizes = self.views.add(codes, arities)
        for (first, end), out in zip(pairwise(self.family_start.tolist()), outs, strict=True):
            start = self.member_start[first : end + 1]
            members = self.members[start[0] : start[-1]]
            flat = (members, start - start[0], self.flat, self.flat_start[first:end])
            native.add_dense_terms(read, sizes, *flat, out)
