"""Training rows as slot numbers: families joined into few look-ups a row.

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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log2, prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tanager.codes import Chunk, Codes, Rows
from tanager.codes.hashing import folds_of
from tanager.counts import ContextTree, FoldPlan
from tanager.engines import FitContext, Piece
from tanager.loglinear.joining import join_sets
from tanager.parameters.scores import FamilyCells, Layout
from tanager.progress import Progress

__all__ = ["Group", "PackedRows", "PackedTable", "Packing"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_JOINT = 1 << 16  # joint values are held as uint16
GROUP_SLOTS = 1 << 10  # a few groups' tables of one class stay in the first-level cache
ROWS_PER_SLOT = 8  # fewer rows do not repay the joining


@dataclass(frozen=True)
class Group:
    """Features with few joint values, and the families within them.

    Attributes
    ----------
    features : tuple of int
    radices : tuple of int
        Number of values of each, "unknown" counted where it occurs.
    families : tuple of FamilyCells
    """

    features: tuple[int, ...]
    radices: tuple[int, ...]
    families: tuple[FamilyCells, ...]

    @property
    def size(self) -> int:
        """Number of joint values."""
        return prod(self.radices)

    def find(self) -> tuple[Ints, Ints]:
        """Return pairs of a joint value and a cell whose term it adds, as two arrays."""
        values = np.unravel_index(np.arange(self.size), self.radices)
        joint, cells = [], []
        for family in self.families:
            members = [values[self.features.index(m)] for m in family.members.tolist()]
            pairs = zip(members, family.shape, strict=True)
            known = np.flatnonzero(np.all([value < arity for value, arity in pairs], axis=0))
            joint.append(known)
            places = np.ravel_multi_index([value[known] for value in members], family.shape)
            cells.append(family.start + places)
        return np.concatenate(joint), np.concatenate(cells)


class Packing:
    """Turns cells into slots and rows' codes into slot numbers.

    Parameters
    ----------
    layout : Layout
    trees : list of ContextTree
        Each family's counts: they tell whether unknown values occur.
    rows : Rows
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

    def __init__(self, layout: Layout, trees: list[ContextTree], rows: Rows) -> None:
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
        self._terms = self._find_terms()
        self._terms_back = self._terms.T.tocsr()

    def code(self, codes: Codes) -> tuple[NDArray[np.uint16], NDArray[np.int32]]:
        """Return rows' joint values (n_groups, n_rows) and slots (n_wide, n_rows)."""
        n_rows = codes.shape[1]
        joint = np.zeros((len(self.groups), n_rows), np.uint16)
        for at, group in enumerate(self.groups):
            for feature, radix in zip(group.features, group.radices, strict=True):
                joint[at] *= np.uint16(radix)
                joint[at] += codes[feature]
        slots = np.empty((len(self.wide), n_rows), np.int32)
        for at, (family, start) in enumerate(self.wide):
            slots[at] = start + family.find(codes, self.n_slots - 1 - start)
        return joint, slots

    def expand(self, scores: Floats) -> Floats:
        """Pack scores (n_tables, n_cells, n_classes) as (n_classes - 1, n_tables * n_slots)."""
        n_tables, _, n_classes = scores.shape
        out = np.zeros((n_classes - 1, n_tables, self.n_slots))
        for at in range(n_tables):
            differences = scores[at, :, 1:] - scores[at, :, :1]
            out[:, at, : self._terms.shape[0]] = (self._terms @ differences).T
            for family, start in self.wide:
                size = family.n_contexts * family.arity
                out[:, at, start : start + size] = differences[family.cells].T
        return out.reshape(n_classes - 1, -1)

    def pull(self, slopes: Floats) -> Floats:
        """Turn derivatives by slots into derivatives by cells; the transpose of `expand`."""
        packed = slopes.reshape(slopes.shape[0], -1, self.n_slots)
        n_differences, n_tables, _ = packed.shape
        out = np.empty((n_tables, self.layout.n_cells, n_differences + 1))
        for at in range(n_tables):
            by_cells = self._terms_back @ packed[:, at, : self._terms.shape[0]].T
            for family, start in self.wide:
                size = family.n_contexts * family.arity
                by_cells[family.cells] = packed[:, at, start : start + size].T
            out[at, :, 1:] = by_cells
            out[at, :, 0] = -by_cells.sum(axis=1)
        return out

    def _find_terms(self) -> csr_array:
        """Return which cells' terms the class node's and the groups' slots sum up.

        A matrix of ones, (1 + number of the groups' slots, n_cells).
        """
        slots, cells = [np.zeros(1, np.int64)], [np.zeros(1, np.int64)]
        for group, start in zip(self.groups, self.starts, strict=True):
            joint, cell = group.find()
            slots.append(start + joint)
            cells.append(cell)
        row, column = np.concatenate(slots), np.concatenate(cells)
        shape = (1 + sum(group.size for group in self.groups), self.layout.n_cells)
        return csr_array((np.ones(row.shape[0]), (row, column)), shape=shape)


class PackedRows(NamedTuple):
    """Some rows.

    Attributes
    ----------
    joint : (n_groups, n_rows) of uint16
    slots : (n_wide, n_rows) of int32
    labels : (n_rows,) of uint16
    weights : (n_rows,) of float64, or empty where every weight is one
    folds : (n_rows,) of uint8, or empty where there is one fold
    """

    joint: NDArray[np.uint16]
    slots: NDArray[np.int32]
    labels: NDArray[np.uint16]
    weights: NDArray[np.float64]
    folds: NDArray[np.uint8]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.labels.shape[0]


class PackedTable:
    """A table's rows, packed once and kept by the engine.

    Parameters
    ----------
    rows : Rows
    packing : Packing
    context : FitContext
        Its engine packs and keeps the rows.
    folds : FoldPlan or None
        How rows are dealt into folds.

    Attributes
    ----------
    n_rows : int
    unit : float
        The power of two by which weights were multiplied, to be about one a row.
    total_weight : float
        After that.
    """

    def __init__(
        self, rows: Rows, packing: Packing, context: FitContext, folds: FoldPlan | None = None
    ) -> None:
        self.packing = packing
        self.n_rows = rows.n_rows
        ratio = max(rows.n_rows, 1) / rows.total_weight if rows.total_weight > 0 else 1.0
        self.unit = 2.0 ** round(log2(ratio))
        self.total_weight = rows.total_weight * self.unit
        packer = _Packer(packing, folds, self.unit)
        self._pieces = context.engine.keep(
            packer, rows.pieces(), context.rows_limit, Progress(), "pack rows"
        )

    def pieces(self) -> Sequence[Piece[PackedRows]]:
        """Return the addresses of the packed rows."""
        return self._pieces


@dataclass(frozen=True, eq=False)
class _Packer:
    """How rows are packed."""

    packing: Packing
    folds: FoldPlan | None
    unit: float

    def __call__(self, piece: Piece[Chunk]) -> Iterator[PackedRows]:
        """Pack the rows of a piece."""
        for chunk in piece.chunks():
            joint, slots = self.packing.code(chunk.codes)
            weights = np.zeros(0) if chunk.weights is None else chunk.weights * self.unit
            folds = np.zeros(0, np.uint8)
            if self.folds is not None:
                folds = folds_of(self.folds.seed, chunk.indices, self.folds.n_folds)
            yield PackedRows(joint, slots, chunk.labels, weights, folds)


def _unknown(layout: Layout, trees: list[ContextTree], total_weight: float) -> NDArray[np.bool_]:
    """Return which features have unknown values in some family's rows, shape (n_features,)."""
    out = np.zeros(layout.domain.n_features, np.bool_)
    for family, tree in zip(layout.families, trees, strict=True):
        # Sums of counts are exact, so any difference is a row left out.
        if tree.total != total_weight:
            out[family.members] = True
    return out


def _fits(family: FamilyCells, radices: Ints) -> bool:
    return family.contexts is None and prod(radices[family.members].tolist()) <= MAX_JOINT


def _join(families: list[FamilyCells], radices: Ints, cap: int) -> Iterator[Group]:
    """Join families into groups of few joint values."""
    members = [tuple(family.members.tolist()) for family in families]
    # A constant counts as two values, so that no group has more features than an array has axes.
    sizes = np.maximum(radices, 2).tolist()
    for features, inside in join_sets(members, sizes, cap, MAX_JOINT):
        own = tuple(radices[list(features)].tolist())
        yield Group(features, own, tuple(families[at] for at in inside))
