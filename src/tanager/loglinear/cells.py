"""The layout of families' scores, and how free parameters become scores.

::

    cell 0           the class node
    features         their values
    smooth pairs     all joint values of a parent and a feature, one of them ordered
    slanted pairs    a curve along a sum of one addend per member's value, shared by
                     many of their joint values
    other families   their joint values that occur in rows, the feature's minor

in the order of the families, each followed by one cell of zeros.

A row with an unknown member of a family, or with joint values of another family
that don't occur in training, uses a cell of zeros. Every cell is also a parameter.
For a single ordered feature, a pair along its ordered members, and along a
slant, the scores are matrices times the parameters (see `curves`), so that adjacent values have
similar scores; otherwise they are the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Rows
from tanager.engines import FitContext
from tanager.loglinear.curves import (
    Signs,
    Slant,
    SmoothTables,
    TableSteps,
    align,
    basis,
    curve_basis,
    fill_order,
    signed_axes,
    step_matrix,
)
from tanager.loglinear.joining import Columns, Joint, join_families, weigh_joints
from tanager.numerics import Floats, Ints

Number = TypeVar("Number", bound=np.generic)

MOST_SMOOTH = 2  # maximum number of members of a smooth family
MOST_CELLS = 1 << 12  # maximum joint values of a smooth pair: all have cells


class Terms:
    """The cells of some families, each given as the columns of the parents, then of the feature.

    `rows` are the training rows, and those to predict later. Scores rise or fall along
    the columns in `signs`, at most two per family, see `can_hold`. A pair of ordered
    members with a slant has one curve, along it.

    starts: shape (n_families,); each family's first cell.
    depths: shape (n_cells,); number of parents of each cell's family; -1 for the class node.
    owners: shape (n_cells,); each cell's family; -1 for the class node.
    mass: shape (n_cells,); the weight of each cell's rows.
    n_columns: columns of scores: one per class, or for two classes a single one, the second's score
        minus the first's.
    blank: shape (n_families,); each family's cell of zeros.
    joint: the tables used by rows.
    steps: the scores that rise or fall, with the bounds of the parameters.
    """

    def __init__(
        self,
        families: Sequence[tuple[int, ...]],
        columns: Columns,
        rows: Rows,
        context: FitContext,
        signs: Signs | None = None,
        slants: Sequence[Slant | None] = (),
    ) -> None:
        self.families = tuple(families)
        self.slants = tuple(slants) or (None,) * len(self.families)
        self._signs: Signs = signs or {}
        self.columns = columns
        arities = columns.arities.tolist()
        self._shapes = [tuple(arities[column] for column in family) for family in self.families]
        n_classes = rows.domain.n_classes
        self.n_classes = n_classes
        self.n_columns = 1 if n_classes == 2 else n_classes
        tables = join_families(self.families, columns, rows.n_rows, self.n_columns)
        weighed = weigh_joints(tables, columns, rows, context)
        self._masses = _family_masses(self.families, tables, weighed)
        for at, family in enumerate(self.families):
            for axis in signed_axes(family, self._signs):
                n_ordered = columns.n_ordered[family[axis]]
                self._masses[at] = fill_order(self._masses[at], axis, n_ordered)
        self._lay_out(columns)
        self.mass[0] = rows.total_weight
        self.steps = self._find_steps() if self._signs else None
        self._blocks: list[SmoothTables | TableSteps] = [self._smooth]
        if self.steps is not None:
            self._blocks.append(self.steps)
        if len(tables) == len(self.families):
            own = [self._places[at].ravel() for at in range(len(self.families))]
            self.joint = Joint.alone(self.families, columns, self.starts, own, self.n_cells)
        else:
            given = self.families, columns, tables, weighed, self.find, self.n_cells
            self.joint = Joint.summed(*given)

    def _lay_out(self, columns: Columns) -> None:
        """Assign cells to every family."""
        bases = [self._basis(column) for column in range(len(columns.arities))]
        smooth: dict[int, list[Floats | None]] = {}
        # By family: the cell of each joint value, with "unknown" as an extra value of each member,
        # relative to the family's start, (*(arity + 1)).
        self._places: list[Ints] = []
        sizes: list[int] = []
        mass: list[Floats] = [np.zeros(1)]
        for at, family in enumerate(self.families):
            known = _known(self._masses[at])
            cells, n_own = np.arange(known.size).reshape(known.shape), known.size
            slant = self.slants[at]
            if slant is not None:  # values outside the order have no cells
                inside = slice(len(slant.first)), slice(len(slant.second))
                n_own, cells = slant.n_bins, np.full(known.shape, -1)
                cells[inside] = slant.bins(known[inside])
                smooth[at] = [curve_basis(n_own)]
            elif self._is_smooth(at, bases):
                smooth[at] = self._aligned(at, bases)
            elif len(family) > 1:
                # A single feature has cells for all values; several features, for those in rows.
                n_own = int(np.count_nonzero(known))
                cells = np.where(known > 0, np.cumsum(known > 0).reshape(known.shape) - 1, -1)
            places = np.full(self._masses[at].shape, n_own)
            _known(places)[...] = np.where(cells < 0, n_own, cells)
            self._places.append(places)
            own = np.bincount(_known(places).ravel(), known.ravel(), n_own + 1)[:-1]
            mass += [own.astype(np.float64), np.zeros(1)]
            sizes.append(n_own + 1)
        ends = 1 + np.cumsum(sizes, dtype=np.int64)
        self.starts, self.blank = ends - sizes, ends - 1
        self.mass = np.concatenate(mass)
        self.n_cells = len(self.mass)
        self.owners = np.append(-1, np.repeat(np.arange(len(sizes)), sizes))
        depths = [len(family) - 1 for family in self.families]
        self.depths = np.append(-1, np.repeat(depths, sizes)).astype(np.int64)
        self._kept = smooth  # kept alive, so that other terms reuse the same bases
        shapes = [(sizes[at] - 1,) if self.slants[at] else self._shapes[at] for at in smooth]
        starts = [int(self.starts[at]) for at in smooth]
        self._smooth = SmoothTables(list(smooth.values()), shapes, starts)

    def _is_smooth(self, at: int, bases: list[Floats | None]) -> bool:
        """Whether adjacent values of a family have similar scores."""
        family = self.families[at]
        if self.slants[at]:
            return False
        if len(family) == 1:
            return bases[family[0]] is not None
        return (
            len(family) <= MOST_SMOOTH
            and prod(self._shapes[at]) <= MOST_CELLS
            and any(bases[column] is not None for column in family)
            and not set(family) & set(self._signs)
        )

    def _basis(self, column: int) -> Floats | None:
        """Return the basis of a column; None if its scores are free."""
        arity, n_ordered = int(self.columns.arities[column]), self.columns.n_ordered[column]
        if column in self._signs:
            return step_matrix(arity, n_ordered, smooth=True)
        return basis(arity, n_ordered)

    def _aligned(self, at: int, bases: list[Floats | None]) -> list[Floats | None]:
        """Return the basis along each axis of a family, aligned with the weight of its values."""
        mass, out = _known(self._masses[at]), []
        for axis, column in enumerate(self.families[at]):
            matrix = bases[column]
            # A sign's bounds apply to the parameters as they are.
            if matrix is not None and column not in self._signs:
                along = mass.sum(axis=tuple(other for other in range(mass.ndim) if other != axis))
                matrix = align(matrix, along)
            out.append(matrix)
        return out

    def _find_steps(self) -> TableSteps:
        """Return the cells whose scores rise or fall."""
        steps = TableSteps(self.n_cells, self.n_columns)
        for at, family in enumerate(self.families):
            axes = signed_axes(family, self._signs)
            if not axes:
                continue
            signs = [self._signs[family[axis]] for axis in axes]
            n_ordered = [self.columns.n_ordered[family[axis]] for axis in axes]
            if len(family) == 1:
                steps.bound(self.starts[at] + np.arange(n_ordered[0])[None], signs[0])
                continue
            places = _known(self._places[at])
            cells = np.where(places < self._places[at].flat[-1], self.starts[at] + places, -1)
            steps.add_table(np.moveaxis(cells, axes, range(-len(axes), 0)), n_ordered, signs)
        return steps

    def cells(self, at: int) -> Ints:
        """Return the cell of each joint value of a family, (*arities)."""
        return np.asarray(self.starts[at] + _known(self._places[at]))

    def find(self, at: int, digits: Sequence[Ints]) -> Ints:
        """Return the cells of joint values of a family; a digit past its arity means unknown."""
        return np.asarray(self.starts[at] + self._places[at][tuple(digits)])

    def scores(self, free: Floats) -> Floats:
        """Return the scores of parameters, both (n_cells, n_columns)."""
        out = free.copy()
        for block in self._blocks:
            block.expand(out)
        return out

    def expand(self, free: Floats) -> Floats:
        """Return the scores used by rows, (n_table_cells, n_columns), from parameters."""
        return self.joint.expand(self.scores(free))

    def pull(self, slopes: Floats) -> Floats:
        """Turn the gradient w.r.t. table scores into that w.r.t. parameters; transpose of `expand`.

        `slopes` may be changed.
        """
        slopes = self.joint.pull(slopes)
        for block in self._blocks:
            block.pull(slopes)
        slopes[self.blank] = 0.0
        return slopes

    @cached_property
    def parameter_mass(self) -> Floats:
        """The weight of the rows behind each parameter, shape (n_cells,)."""
        out = self.mass.copy()
        for block in self._blocks:
            block.pull_mass(out)
        return out

    def carry(self, free: Floats, other: Terms) -> Floats:
        """Convert parameters of other terms of the same rows to these terms; zero if new."""
        out = np.zeros((self.n_cells, self.n_columns))
        out[0] = free[0]
        theirs = {key: at for at, key in enumerate(zip(other.families, other.slants, strict=True))}
        for at, key in enumerate(zip(self.families, self.slants, strict=True)):
            if key in theirs:
                before = theirs[key]
                out[self.cells(at)] = free[other.cells(before)]
        return out

    def family_scores(self, scores: Floats) -> list[Floats]:
        """Return each family's scores, one per class, (*arities, n_classes)."""
        out: list[Floats] = []
        for at, shape in enumerate(self._shapes):
            cells = by_class(scores[self.cells(at).ravel()])
            out.append(cells.reshape(*shape, self.n_classes))
        return out


def by_class(scores: Floats) -> Floats:
    """Return scores with one column per class, from a single column for two classes."""
    if scores.shape[1] > 1:
        return scores
    return np.concatenate([-0.5 * scores, 0.5 * scores], axis=1)


def _known(array: NDArray[Number]) -> NDArray[Number]:
    """Return the part of an array (*(arity + 1)) without unknown values."""
    return array[(slice(-1),) * array.ndim]


def _family_masses(
    families: Sequence[tuple[int, ...]],
    tables: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
    weighed: Sequence[Floats],
) -> list[Floats]:
    """Return the weight of each joint value of each family, (*(arity + 1))."""
    out: list[Floats] = [np.zeros(0)] * len(families)
    for (columns, inside), mass in zip(tables, weighed, strict=True):
        for at in inside:
            kept = [columns.index(column) for column in families[at]]
            dropped = tuple(axis for axis in range(len(columns)) if axis not in kept)
            left = sorted(kept)
            out[at] = mass.sum(axis=dropped).transpose([left.index(axis) for axis in kept])
    return out
