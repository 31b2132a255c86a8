"""Where the scores of families stand, and how free parameters become scores.

::

    cell 0            the class node
    ordered features  (n_ordered_features, width) cells: each one's values, then
                      cells of zero up to the width that all of them share
    other families    their joint values that rows have, the feature's minor,
                      then one cell of zero

A row with an unknown member of a family, or with joint values that no training
row has, reads a cell of zero. Every cell is also a parameter. Of an ordered
feature alone the scores are a matrix times the parameters (see `bases`);
elsewhere they are the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from tanager.additive.bases import basis
from tanager.additive.joining import Columns, Joint, join_families, weigh_joints
from tanager.additive.steps import Signs, TableSteps, fill_order, monotone_axis, step_matrix
from tanager.codes import Rows
from tanager.engines import FitContext

__all__ = ["Terms", "by_class"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Terms:
    """The cells of some families.

    Parameters
    ----------
    families : sequence of tuple of int
        Columns: a feature's parents in order, then the feature.
    columns : Columns
    rows : Rows
        Training rows, and those that will be asked about.
    context : FitContext
        Its engine looks which joint values the rows have.
    signs : Signs
        Of the columns along which scores rise or fall; a family has at most one
        of them.

    Attributes
    ----------
    families : tuple of tuple of int
    n_cells : int
    starts : ndarray of int64, shape (n_families,)
        Each family's first cell.
    depths : ndarray of int64, shape (n_cells,)
        Number of parents of each cell's family; -1 for the class node.
    mass : ndarray of float64, shape (n_cells,)
        The weight of each cell's rows.
    n_columns : int
        Columns of scores: one a class; a single one for two classes, the
        second's score less the first's.
    joint : Joint
        The tables that rows read.
    steps : TableSteps or None
        The scores that rise or fall, with the bounds of the parameters.
    """

    def __init__(
        self,
        families: Sequence[tuple[int, ...]],
        columns: Columns,
        rows: Rows,
        context: FitContext,
        signs: Signs | None = None,
    ) -> None:
        self.families = tuple(families)
        self._signs: Signs = signs or {}
        self.columns = columns
        n_classes = rows.domain.n_classes
        self.n_classes = n_classes
        self.n_columns = 1 if n_classes == 2 else n_classes
        tables = join_families(self.families, columns, rows.n_rows, self.n_columns)
        weighed = weigh_joints(tables, columns, rows, context)
        self._masses = _family_masses(self.families, tables, weighed)
        for at, family in enumerate(self.families):
            axis = monotone_axis(family, self._signs)
            if axis is not None:
                self._masses[at] = fill_order(
                    self._masses[at], axis, columns.n_ordered[family[axis]]
                )
        self._lay_out(columns)
        self.mass[0] = rows.total_weight
        self.steps = self._find_steps() if self._signs else None
        self.joint = Joint(self.families, columns, tables, weighed, self)

    def _lay_out(self, columns: Columns) -> None:
        """Give every family its cells."""
        self.starts = np.zeros(len(self.families), np.int64)
        matrices = {at: self._matrix(family) for at, family in enumerate(self.families)}
        ordered = [at for at, matrix in matrices.items() if matrix is not None]
        width = 1 + max((columns.arities[self.families[at][-1]] for at in ordered), default=0)
        self._bases = np.zeros((len(ordered), width, width))
        for row, at in enumerate(ordered):
            matrix = matrices[at]
            assert matrix is not None
            self._bases[row, : len(matrix), : len(matrix)] = matrix
            self.starts[at] = 1 + row * width
        start = 1 + len(ordered) * width
        self._ordered = slice(1, start)
        depths, blank, mass = [np.full(1, -1), np.zeros(start - 1, np.int64)], [], [np.zeros(start)]
        self._places: dict[int, Ints] = {}
        for at, family in enumerate(self.families):
            known = _known(self._masses[at])
            if matrices[at] is not None:
                mass[0][self.starts[at] : self.starts[at] + len(known)] = known
                continue
            self.starts[at] = start
            if len(family) > 1:
                seen = np.flatnonzero(known)
                self._places[at] = np.full(known.size, len(seen))
                self._places[at][seen] = np.arange(len(seen))
                known = known.ravel()[seen]
            n_cells = known.size
            depths.append(np.full(n_cells + 1, len(family) - 1))
            mass.append(np.append(known, 0.0))
            blank.append(start + n_cells)
            start += n_cells + 1
        self.n_cells = start
        self.depths, self.mass = np.concatenate(depths), np.concatenate(mass)
        self._blank = np.array(blank, np.int64)

    def _matrix(self, family: tuple[int, ...]) -> Floats | None:
        """Return the basis of a feature alone; None where its scores are free."""
        if len(family) > 1:
            return None
        column = family[0]
        arity, n_ordered = int(self.columns.arities[column]), self.columns.n_ordered[column]
        if column in self._signs:
            return step_matrix(arity, n_ordered, smooth=True)
        return basis(arity, n_ordered)

    def _find_steps(self) -> TableSteps:
        """Return the cells whose scores rise or fall."""
        steps = TableSteps(self.n_cells, self.n_columns)
        for at, family in enumerate(self.families):
            axis = monotone_axis(family, self._signs)
            if axis is None:
                continue
            signs, n_ordered = self._signs[family[axis]], self.columns.n_ordered[family[axis]]
            if len(family) == 1:
                steps.bound(self.starts[at] + np.arange(n_ordered)[None], signs)
                continue
            places = np.moveaxis(self._places[at].reshape(self.shape(at)), axis, -1)
            cells = places[..., :n_ordered].reshape(-1, n_ordered)
            steps.add(self.starts[at] + cells[cells[:, 0] < self._size(at)], signs)
        return steps

    def shape(self, at: int) -> tuple[int, ...]:
        """Return the arities of a family's members."""
        return tuple(int(self.columns.arities[column]) for column in self.families[at])

    def places(self, at: int) -> Ints:
        """Return the cell of each joint value of a family, counted from its start.

        The joint values have "unknown" as one more value of each member, shape
        (prod(arity + 1),).
        """
        shape = self.shape(at)
        if len(shape) == 1:
            return np.arange(shape[0] + 1)
        places = self._places[at].reshape(shape)
        blank = int(np.count_nonzero(_known(self._masses[at])))
        padded = np.full([arity + 1 for arity in shape], blank)
        padded[tuple(slice(arity) for arity in shape)] = places
        return padded.ravel()

    def scores(self, free: Floats) -> Floats:
        """Return the scores of parameters, both (n_cells, n_columns)."""
        out = free.copy()
        if len(self._bases):
            part = free[self._ordered].reshape(*self._bases.shape[:2], free.shape[1])
            out[self._ordered] = np.matmul(self._bases, part).reshape(-1, free.shape[1])
        if self.steps is not None:
            self.steps.expand(out)
        return out

    def expand(self, free: Floats) -> Floats:
        """Return the scores that rows read, (n_table_cells, n_columns), of parameters."""
        return self.joint.expand(self.scores(free))

    def pull(self, slopes: Floats) -> Floats:
        """Turn derivatives by what rows read into those by parameters; the transpose of `expand`.

        `slopes` may be changed.
        """
        slopes = self.joint.pull(slopes)
        if len(self._bases):
            part = slopes[self._ordered].reshape(*self._bases.shape[:2], slopes.shape[1])
            back = np.matmul(self._transposed, part)
            slopes[self._ordered] = back.reshape(-1, slopes.shape[1])
        if self.steps is not None:
            self.steps.pull(slopes)
        slopes[self._blank] = 0.0
        return slopes

    @cached_property
    def _transposed(self) -> Floats:
        return np.ascontiguousarray(self._bases.transpose(0, 2, 1))

    def parameter_mass(self) -> Floats:
        """Return the weight of the rows that each parameter speaks for, shape (n_cells,)."""
        out = self.mass.copy()
        part = out[self._ordered].reshape(self._bases.shape[:2])
        out[self._ordered] = np.einsum("fij,fi->fj", self._bases**2, part).ravel()
        if self.steps is not None:
            self.steps.pull_mass(out)
        return out

    def carry(self, free: Floats, other: Terms) -> Floats:
        """Return parameters of other terms of the same rows as parameters of these; zero if new."""
        out = np.zeros((self.n_cells, self.n_columns))
        out[0] = free[0]
        theirs = {family: at for at, family in enumerate(other.families)}
        for at, family in enumerate(self.families):
            if family in theirs:
                n_cells, start = self._size(at), other.starts[theirs[family]]
                out[self.starts[at] : self.starts[at] + n_cells] = free[start : start + n_cells]
        return out

    def _size(self, at: int) -> int:
        known = _known(self._masses[at])
        return known.size if known.ndim == 1 else int(np.count_nonzero(known))

    def family_scores(self, scores: Floats) -> list[Floats]:
        """Return each family's scores with one a class, (*arities, n_classes)."""
        out: list[Floats] = []
        for at, start in enumerate(self.starts):
            shape = self.shape(at)
            places = self._places.get(at)
            cells = by_class(scores[start + (np.arange(prod(shape)) if places is None else places)])
            out.append(cells.reshape(*shape, self.n_classes))
        return out


def by_class(scores: Floats) -> Floats:
    """Return scores with one column a class, from one that tells two classes apart."""
    if scores.shape[1] > 1:
        return scores
    return np.concatenate([-0.5 * scores, 0.5 * scores], axis=1)


def _known(mass: Floats) -> Floats:
    """Return the part of an array (*(arity + 1)) without unknown values."""
    return mass[tuple(slice(size - 1) for size in mass.shape)]


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
