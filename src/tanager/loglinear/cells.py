"""The layout of families' scores, and how free parameters become scores.

::

    cell 0           the class node
    features         their values
    smooth pairs     all joint values of a parent and a feature, one of them ordered
    slanted pairs    a curve along a sum of one addend per member's value, shared by
                     many of their joint values
    other families   their joint values that occur in rows, the feature's minor

in the order of the families, each followed by one cell of zeros.

A row with an unknown member of a family, or with joint values of another family that don't occur in
training, uses a cell of zeros. Every cell is also a parameter. For a single ordered feature, a pair
along its ordered members, and along a slant, the scores are matrices times the parameters (see
`curves`), so that adjacent values have similar scores; otherwise they are the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.codes import Rows
from tanager.engines import FitContext
from tanager.loglinear import curves
from tanager.loglinear.joining import Columns, Joint, Places, join_families, weigh_joints
from tanager.numerics import Floats, Ints

Number = TypeVar("Number", bound=np.generic)

MOST_SMOOTH = 2  # maximum number of members of a smooth family
MOST_CELLS = 1 << 12  # maximum joint values of a smooth pair: all have cells


class SmoothTables:
    """The cells of smooth families: of one column, or of two, with a basis along each or one.

    `bases` are the bases of each family, None for a column without one; `starts` their first cells.
    """

    def __init__(
        self,
        bases: Sequence[Sequence[Floats | None]],
        shapes: Sequence[tuple[int, ...]],
        starts: Sequence[int],
    ) -> None:
        # Families share matrices.
        known = {id(matrix): matrix for pair in bases for matrix in pair if matrix is not None}
        offsets = dict(zip(known, np.cumsum([0, *(m.size for m in known.values())]), strict=False))
        tables = []
        for start, shape, pair in zip(starts, shapes, bases, strict=True):
            # A side without a matrix has a place before the first of them.
            places = [offsets.get(id(one), -n * n) for one, n in zip(pair, shape, strict=True)]
            tables.append((start, *(*shape, 1)[:2], *(*places, -1)[:2]))
        self._tables = np.array(tables, np.int64).reshape(-1, 5).T.copy()
        self._matrices = np.concatenate([np.zeros(0), *(m.ravel() for m in known.values())])
        self._transposed = np.concatenate([np.zeros(0), *(m.T.ravel() for m in known.values())])
        self._largest = int((self._tables[1] * self._tables[2]).max(initial=0))

    def expand(self, values: Floats) -> None:
        """Turn the families' parameters, among those of all cells, into scores, in place."""
        self._turn(values, self._matrices, self._transposed)

    def pull(self, slopes: Floats) -> None:
        """Turn the families' gradient w.r.t. scores into that w.r.t. parameters, in place."""
        self._turn(slopes, self._transposed, self._matrices)

    def pull_mass(self, mass: Floats) -> None:
        """Turn the families' second derivatives w.r.t. scores into those w.r.t. parameters."""
        self._turn(mass[:, None], self._transposed**2, self._matrices**2)

    def _turn(self, values: Floats, matrices: Floats, transposed: Floats) -> None:
        between = np.empty(self._largest * values.shape[1])
        starts, n_rows, n_columns, along, across = self._tables
        given = starts, n_rows, n_columns, along, across, matrices, transposed
        native.turn_tables(*given, values, between)


class TableSteps:
    """The cells of tables whose scores are levels and steps.

    `low` and `high`, (n_cells, n_columns), bound all parameters; infinite if unbounded.
    """

    def __init__(self, n_cells: int, n_columns: int) -> None:
        self._parts: list[tuple[Ints, Floats]] = []
        self.low = np.full((n_cells, n_columns), -np.inf)
        self.high = np.full((n_cells, n_columns), np.inf)

    def bound(self, cells: Ints, signs: NDArray[np.int8]) -> None:
        """Bound all but the first of some cells, shape (n_contexts, n_ordered), by their sign."""
        low, high = curves.column_bounds(signs, self.low.shape[1])
        self.low[cells[:, 1:]] = low
        self.high[cells[:, 1:]] = high

    def add_table(
        self, places: Ints, n_ordered: Sequence[int], asked: Sequence[NDArray[np.int8]]
    ) -> None:
        """Add a table of one or two features along which scores rise or fall as in `asked`.

        `places` are its cells, with those features' axes last; -1 for none. The first `n_ordered`
        values of each are ordered.
        """
        sizes = places.shape[-len(asked) :]
        choices = [[slice(k), *range(k, size)] for k, size in zip(n_ordered, sizes, strict=True)]
        for chosen in product(*choices):
            # A value outside the order has its own level; along the other feature there are steps.
            inside = [at for at, one in enumerate(chosen) if isinstance(one, slice)]
            if not inside:
                continue
            size = prod(n_ordered[at] for at in inside)
            if len(inside) == 1:
                matrix = curves.step_matrix(size, size, smooth=False)
            else:
                matrix = curves.corner_matrix(*n_ordered, opposite=curves.relation(*asked) < 0)
            cells = places[(..., *chosen)].reshape(-1, size)
            cells = cells[cells[:, 0] >= 0]
            self._parts.append((cells, matrix))
            self.bound(cells, asked[inside[0]])

    def expand(self, values: Floats) -> None:
        """Turn parameters into scores, in place."""
        for cells, matrix in self._parts:
            values[cells] = np.einsum("bj,njc->nbc", matrix, values[cells])

    def pull(self, slopes: Floats) -> None:
        """Turn the gradient w.r.t. scores into that w.r.t. parameters, in place."""
        for cells, matrix in self._parts:
            slopes[cells] = np.einsum("bj,nbc->njc", matrix, slopes[cells])

    def pull_mass(self, mass: Floats) -> None:
        """Turn second derivatives w.r.t. scores, (n_cells,), into those w.r.t. parameters."""
        for cells, matrix in self._parts:
            mass[cells] = mass[cells] @ (matrix * matrix)


class Terms:
    """The cells of some families, each given as the columns of the parents, then of the feature.

    `rows` are the training rows, and those to predict later. Scores rise or fall along the columns
    in `signs`, at most two per family, see `can_hold`. A pair with a slant has one curve, along it.

    starts, blank, n_parents: shape (n_families,); each family's first cell, cell of zeros, and
        number of parents.
    owners, depths: shape (n_cells,); each cell's family and its number of parents; -1 for the class
        node.
    mass: shape (n_cells,); the weight of each cell's rows.
    n_columns: columns of scores: one per class, or for two classes a single one, the second's score
        minus the first's.
    joint: the tables used by rows.
    steps: the scores that rise or fall, with the bounds of the parameters.
    """

    def __init__(
        self,
        families: Sequence[tuple[int, ...]],
        columns: Columns,
        rows: Rows,
        context: FitContext,
        signs: curves.Signs | None = None,
        slants: Sequence[curves.Slant | None] = (),
    ) -> None:
        self.families = tuple(families)
        self.slants = tuple(slants) or (None,) * len(self.families)
        self._signs: curves.Signs = signs or {}
        self.columns, self.n_classes = columns, rows.domain.n_classes
        self.n_columns = 1 if self.n_classes == 2 else self.n_classes
        arities = columns.arities.tolist()
        self._shapes = [tuple(arities[column] for column in family) for family in self.families]
        tables = join_families(self.families, columns, rows.n_rows, self.n_columns)
        weighed = weigh_joints(tables, columns, rows, context)
        masses = _family_masses(self.families, tables, weighed)
        for at, family in enumerate(self.families):
            for axis in curves.signed_axes(family, self._signs):
                masses[at] = curves.fill_order(masses[at], axis, columns.n_ordered[family[axis]])
        self._blocks: list[SmoothTables | TableSteps] = [self._lay_out(masses)]
        self.mass[0] = rows.total_weight
        self.steps = self._find_steps() if self._signs else None
        if self.steps is not None:
            self._blocks.append(self.steps)
        if len(tables) == len(self.families):
            own = Places.of(self.families, columns, [one.ravel() for one in self._places])
            self.joint = Joint(self.starts, self.n_cells, own)
        else:
            given = self.families, columns, tables, weighed, self.find, self.n_cells
            self.joint = Joint.summed(*given)

    def _lay_out(self, masses: Sequence[Floats]) -> SmoothTables:
        """Assign cells to every family, given the weights of its joint values, (*(arity + 1))."""
        bases = [self._basis(column) for column in range(len(self.columns.arities))]
        smooth: dict[int, list[Floats | None]] = {}
        # By family: the cell of each joint value, with "unknown" as an extra value of each member,
        # relative to the family's start, (*(arity + 1)).
        self._places: list[Ints] = []
        mass: list[Floats] = [np.zeros(1)]
        for at, (family, slant) in enumerate(zip(self.families, self.slants, strict=True)):
            known = _known(masses[at])
            aligned = None if slant else self._align(family, [bases[one] for one in family], known)
            where: Any = known > 0  # several features have cells for the joint values in rows
            if slant is not None:  # values outside the order have no cells
                where = slice(len(slant.first)), slice(len(slant.second))
                smooth[at], cells = [curves.curve_basis(slant.n_bins)], slant.bins(known[where])
                sums = np.bincount(cells.ravel(), known[where].ravel(), slant.n_bins)
                own = np.asarray(sums, np.float64)
            elif aligned is None and len(family) > 1:
                own = known[where]
                cells = np.arange(len(own))
            else:
                where, own = ..., known.ravel()
                cells = np.arange(known.size).reshape(known.shape)
                if aligned is not None:
                    smooth[at] = aligned
            places = np.full(masses[at].shape, len(own))
            _known(places)[where] = cells
            self._places.append(places)
            mass += [own, np.zeros(1)]
        sizes = [len(own) + 1 for own in mass[1::2]]
        ends = 1 + np.cumsum(sizes, dtype=np.int64)
        self.starts, self.blank = ends - sizes, ends - 1
        self.mass = np.concatenate(mass)
        self.n_cells = len(self.mass)
        self.owners = np.append(-1, np.repeat(np.arange(len(sizes)), sizes))
        self.n_parents = np.array([len(family) - 1 for family in self.families], np.int64)
        self.depths = np.append(-1, np.repeat(self.n_parents, sizes))
        self._kept = smooth  # kept alive, so that other terms reuse the same bases
        shapes = [(sizes[at] - 1,) if self.slants[at] else self._shapes[at] for at in smooth]
        return SmoothTables(list(smooth.values()), shapes, self.starts[list(smooth)].tolist())

    def _basis(self, column: int) -> Floats | None:
        """Return the basis of a column; None if its scores are free."""
        arity, n_ordered = int(self.columns.arities[column]), self.columns.n_ordered[column]
        if column in self._signs:
            return curves.step_matrix(arity, n_ordered, smooth=True)
        matrix, line = curves.basis(arity, n_ordered), self.columns.lines.get(column)
        return matrix if matrix is None or line is None else curves.with_line(matrix, line)

    def _align(
        self, family: tuple[int, ...], bases: list[Floats | None], mass: Floats
    ) -> list[Floats | None] | None:
        """Return the bases of a family, aligned with its values' weight; None if it's free."""
        several = len(family) > 1
        large = len(family) > MOST_SMOOTH or mass.size > MOST_CELLS
        if several and (large or any(column in self._signs for column in family)):
            return None
        out = list(bases)
        for axis, (column, matrix) in enumerate(zip(family, bases, strict=True)):
            # A sign's bounds apply to the parameters as they are.
            if matrix is not None and column not in self._signs:
                along = mass.sum(axis=tuple(other for other in range(mass.ndim) if other != axis))
                out[axis] = curves.align(matrix, along)
        return out if any(matrix is not None for matrix in out) else None

    def _find_steps(self) -> TableSteps:
        """Return the cells whose scores rise or fall."""
        steps = TableSteps(self.n_cells, self.n_columns)
        for at, family in enumerate(self.families):
            axes = curves.signed_axes(family, self._signs)
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
                out[self.cells(at)] = free[other.cells(theirs[key])]
        return out

    def family_scores(self, scores: Floats) -> list[Floats]:
        """Return each family's scores, one per class, (*arities, n_classes)."""
        whole = by_class(scores)
        return [whole[self.cells(at)] for at in range(len(self.families))]


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
            if families[at] == columns:
                out[at] = mass
                continue
            kept = [columns.index(column) for column in families[at]]
            dropped = tuple(axis for axis in range(len(columns)) if axis not in kept)
            out[at] = mass.sum(axis=dropped).transpose(np.argsort(np.argsort(kept)))
    return out
