"""Families joined into few look-ups a row.

One look-up costs the same whether it adds one family's term or the sum of
several, so small families are joined: a group is a set of features with few
joint values, and its table holds, for each joint value, the sum of the terms of
all families within it. Naive Bayes with 30 features of 5 values needs 8
look-ups a row instead of 30. The derivative by a family's cell is the sum over
the group's joint values that agree with it.

A packed vector of scores, for every class but the first (whose score is
subtracted from the others')::

    slot 0          the class node
    group 0         the joint values of its features, row-major
    group 1         ...
    wide family     its cells, as in the layout: a family too large for a group
    last slot       zero, read by rows with an unknown member of a wide family

Where training rows have unknown values of a feature, "unknown" is one more of
its values in a group, at which its families' terms are zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.codes import CodedRows, Codes
from tanager.counts import ContextTree
from tanager.parameters.discriminative.layout import FamilyCells, Layout

__all__ = ["Group", "Packing"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_JOINT = 1 << 16  # joint values are held as uint16
GROUP_SLOTS = 1 << 10  # a few groups' tables of one class stay in the first-level cache
MAX_FEATURES = 32  # of a group: NumPy's arrays have 64 axes at most
ROWS_PER_SLOT = 8  # fewer rows do not repay the joining


class _Place(NamedTuple):
    """How one family's table lies in its group's; axes 0 and 1 are class and set of tables."""

    family: FamilyCells
    order: tuple[int, ...]  # brings the members' axes into the group's order
    back: tuple[int, ...]  # and back
    spread: tuple[int, ...]  # the ordered members' arities, ones for the other features
    known: tuple[slice, ...]  # the part of the group's table without the members' "unknown"
    others: tuple[int, ...]  # axes of the features that are not members


@dataclass(frozen=True)
class Group:
    """Features with few joint values, and the families within them.

    Attributes
    ----------
    features : tuple of int
    radices : tuple of int
        Number of values of each, "unknown" counted where it occurs.
    places : tuple of _Place
        Where the group's families are in its table.
    """

    features: tuple[int, ...]
    radices: tuple[int, ...]
    places: tuple[_Place, ...]

    @property
    def size(self) -> int:
        """Number of joint values."""
        return prod(self.radices)


class Packing:
    """Turns cells into slots and rows' codes into slot numbers.

    Parameters
    ----------
    layout : Layout
    trees : list of ContextTree
        Each family's counts: they tell whether unknown values occur.
    rows : CodedRows
        Only their number and weight are read here.

    Attributes
    ----------
    groups : tuple of Group
    starts : ndarray of int64, shape (n_groups,)
        Each group's first slot.
    wide : list of (FamilyCells, int)
        The families outside groups, and each one's first slot.
    n_slots : int
    """

    def __init__(self, layout: Layout, trees: list[ContextTree], rows: CodedRows) -> None:
        self.layout = layout
        radices = layout.domain.arities + _unknown(layout, trees, rows.total_weight)
        n_differences = max(layout.n_classes - 1, 1)
        cap = min(GROUP_SLOTS, rows.n_rows // ROWS_PER_SLOT // n_differences)
        narrow = [f for f in layout.families if _fits(f, radices)]
        self.groups = tuple(_join(narrow, radices, cap))
        self.starts = np.cumsum([1] + [g.size for g in self.groups])[:-1].astype(np.int64)
        start = 1 + sum(g.size for g in self.groups)
        self.wide: list[tuple[FamilyCells, int]] = []
        for family in layout.families:
            if not _fits(family, radices):
                self.wide.append((family, start))
                start += family.n_contexts * family.arity
        self.n_slots = start + 1

    def code(self, codes: Codes) -> tuple[NDArray[np.uint16], NDArray[np.int32]]:
        """Return rows' joint values (n_groups, n_rows) and slots (n_wide, n_rows)."""
        from tanager.parameters.discriminative._kernels import find_slots, join_codes

        n_rows = codes.shape[1]
        joint = np.zeros((len(self.groups), n_rows), np.uint16)
        for at, group in enumerate(self.groups):
            join_codes(codes, np.array(group.features), np.array(group.radices), joint[at])
        slots = np.empty((len(self.wide), n_rows), np.int32)
        arities = self.layout.domain.arities
        for at, (family, start) in enumerate(self.wide):
            context = family.find(codes, arities)
            column = codes[family.members[-1]]
            find_slots(context, column, family.arity, start, self.n_slots - 1, slots[at])
        return joint, slots

    def expand(self, scores: Floats) -> Floats:
        """Pack scores (n_tables, n_cells, n_classes) as (n_classes - 1, n_tables * n_slots)."""
        n_tables, _, n_classes = scores.shape
        lead = (n_classes - 1, n_tables)
        differences = (scores[:, :, 1:] - scores[:, :, :1]).transpose(2, 0, 1)
        out = np.zeros((*lead, self.n_slots))
        out[:, :, 0] = differences[:, :, 0]
        for group, start in zip(self.groups, self.starts, strict=True):
            table = np.zeros((*lead, *group.radices))
            for place in group.places:
                values = differences[:, :, place.family.cells].reshape(*lead, *place.family.shape)
                spread = values.transpose(place.order).reshape(*lead, *place.spread)
                table[place.known] += spread
            out[:, :, start : start + group.size] = table.reshape(*lead, -1)
        for family, start in self.wide:
            size = family.n_contexts * family.arity
            out[:, :, start : start + size] = differences[:, :, family.cells]
        return out.reshape(n_classes - 1, -1)

    def pull(self, slopes: Floats) -> Floats:
        """Turn derivatives by slots into derivatives by cells; the transpose of `expand`."""
        packed = slopes.reshape(slopes.shape[0], -1, self.n_slots)
        lead = packed.shape[:2]
        out = np.zeros((lead[1], self.layout.n_cells, lead[0] + 1))
        others = out[:, :, 1:].transpose(2, 0, 1)
        others[:, :, 0] = packed[:, :, 0]
        for group, start in zip(self.groups, self.starts, strict=True):
            table = packed[:, :, start : start + group.size].reshape(*lead, *group.radices)
            for place in group.places:
                summed = table[place.known].sum(axis=place.others)
                cells = summed.transpose(place.back).reshape(*lead, -1)
                others[:, :, place.family.cells] = cells
        for family, start in self.wide:
            size = family.n_contexts * family.arity
            others[:, :, family.cells] = packed[:, :, start : start + size]
        out[:, :, 0] = -out[:, :, 1:].sum(axis=2)
        return out


def _unknown(layout: Layout, trees: list[ContextTree], total_weight: float) -> NDArray[np.bool_]:
    """Return which features have unknown values in some family's rows, shape (n_features,)."""
    out = np.zeros(layout.domain.n_features, np.bool_)
    for family, tree in zip(layout.families, trees, strict=True):
        # Sums of counts are exact, so any difference is a row left out.
        if tree.levels[0].cell_count.sum() != total_weight:
            out[family.members] = True
    return out


def _fits(family: FamilyCells, radices: Ints) -> bool:
    return family.contexts is None and prod(radices[family.members].tolist()) <= MAX_JOINT


def _join(families: list[FamilyCells], radices: Ints, cap: int) -> Iterator[Group]:
    """Put each family into the group that it enlarges least, within the cap."""
    groups: list[tuple[set[int], list[FamilyCells]]] = []
    for family in sorted(families, key=lambda f: (-prod(f.shape), f.start)):
        members = set(family.members.tolist())
        best, growth = -1, 0.0
        for at, (features, _) in enumerate(groups):
            joined = features | members
            grown = prod(int(radices[f]) for f in joined)
            ratio = grown / prod(int(radices[f]) for f in features)
            fits = grown <= cap and len(joined) <= MAX_FEATURES
            if (fits or members <= features) and (best < 0 or ratio < growth):
                best, growth = at, ratio
        if best < 0:
            groups.append((members, [family]))
        else:
            groups[best][0].update(members)
            groups[best][1].append(family)
    for features, inside in groups:
        ordered = tuple(sorted(features))
        places = tuple(_place(ordered, family) for family in inside)
        yield Group(ordered, tuple(int(radices[f]) for f in ordered), places)


def _place(features: tuple[int, ...], family: FamilyCells) -> _Place:
    members = family.members.tolist()
    arity = dict(zip(members, family.shape, strict=True))
    order = np.argsort([features.index(m) for m in members])
    return _Place(
        family,
        (0, 1, *(order + 2).tolist()),
        (0, 1, *(np.argsort(order) + 2).tolist()),
        tuple(arity.get(f, 1) for f in features),
        (slice(None), slice(None), *(slice(0, arity.get(f)) for f in features)),
        tuple(axis + 2 for axis, f in enumerate(features) if f not in arity),
    )
