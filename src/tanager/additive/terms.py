"""Where the scores of families stand, and how free parameters become scores.

::

    cell 0            the class node
    ordered features  (n_ordered_features, width) cells: each one's values, then
                      cells of zero up to the width that all of them share
    other families    their joint values that training rows have, the feature's
                      minor, then one cell of zero

A row with an unknown member of a family, or with joint values that no training
row has, reads a cell of zero. Every cell is also a parameter. Of an ordered
feature alone the scores are a matrix times the parameters (see `bases`);
elsewhere they are the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from tanager.additive.bases import basis
from tanager.codes import Codes, Domain

__all__ = ["Terms", "by_class"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Terms:
    """The cells of some families.

    Parameters
    ----------
    families : sequence of tuple of int
        Rows of the codes: a feature's parents in order, then the feature.
    domain : Domain
        Of the codes.
    codes : Codes
        Of the training rows.

    Attributes
    ----------
    families : tuple of tuple of int
    n_cells : int
    starts : ndarray of int64, shape (n_families,)
        Each family's first cell.
    depths : ndarray of int64, shape (n_cells,)
        Number of parents of each cell's family; -1 for the class node.
    n_columns : int
        Columns of scores: one a class; a single one for two classes, the
        second's score less the first's.
    """

    def __init__(self, families: Sequence[tuple[int, ...]], domain: Domain, codes: Codes) -> None:
        self.families = tuple(families)
        self.domain = domain
        self.n_columns = 1 if domain.n_classes == 2 else domain.n_classes
        self.starts = np.zeros(len(self.families), np.int64)
        self._places: dict[int, NDArray[np.uint16]] = {}
        matrices = {at: self._matrix(family) for at, family in enumerate(self.families)}
        ordered = [at for at, matrix in matrices.items() if matrix is not None]
        width = 1 + max((domain.arities[self.families[at][-1]] for at in ordered), default=0)
        self._bases = np.zeros((len(ordered), width, width))
        for row, at in enumerate(ordered):
            matrix = matrices[at]
            assert matrix is not None
            self._bases[row, : len(matrix), : len(matrix)] = matrix
            self.starts[at] = 1 + row * width
        self._ordered = slice(1, 1 + len(ordered) * width)
        depths, blank, start = [np.array([-1]), np.zeros(len(ordered) * width)], [], 0
        start = self._ordered.stop
        for at, family in enumerate(self.families):
            if matrices[at] is not None:
                continue
            self.starts[at] = start
            n_seen = self._number(at, family, codes)
            depths.append(np.full(n_seen + 1, len(family) - 1))
            blank.append(start + n_seen)
            start += n_seen + 1
        self.n_cells = start
        self.depths = np.concatenate(depths).astype(np.int64)
        self._blank = np.array(blank, np.int64)

    def _matrix(self, family: tuple[int, ...]) -> Floats | None:
        """Return the basis of a feature alone; None where its scores are free."""
        if len(family) > 1:
            return None
        return basis(int(self.domain.arities[family[0]]), self.domain.n_ordered[family[0]])

    def shape(self, at: int) -> tuple[int, ...]:
        """Return the arities of a family's members."""
        return tuple(int(self.domain.arities[column]) for column in self.families[at])

    def _number(self, at: int, family: tuple[int, ...], codes: Codes) -> int:
        """Give numbers to a family's joint values that rows have; returns how many there are."""
        size = prod(self.shape(at))
        if len(family) == 1:
            return size
        seen = np.flatnonzero(np.bincount(self._joint(at, codes), minlength=size + 1)[:size])
        place = np.full(size + 1, len(seen), np.uint16)
        place[seen] = np.arange(len(seen))
        self._places[at] = place
        return len(seen)

    def _joint(self, at: int, codes: Codes) -> Ints:
        """Return each row's joint value; one past the last where a member is unknown."""
        shape = self.shape(at)
        joint = np.zeros(codes.shape[1], np.int64)
        unknown = np.zeros(codes.shape[1], np.bool_)
        for column, arity in zip(self.families[at], shape, strict=True):
            joint *= arity
            joint += codes[column]
            unknown |= codes[column] >= arity
        return np.where(unknown, prod(shape), joint)

    def locate(self, codes: Codes) -> NDArray[np.uint16]:
        """Return each family's cell of each row, counted from `starts`, (n_rows, n_families)."""
        out = np.empty((codes.shape[1], len(self.families)), np.uint16)
        for at in range(len(self.families)):
            joint = self._joint(at, codes)
            out[:, at] = self._places[at][joint] if at in self._places else joint
        return out

    def expand(self, free: Floats) -> Floats:
        """Return the scores of parameters, both (n_cells, n_columns)."""
        out = free.copy()
        part = free[self._ordered].reshape(*self._bases.shape[:2], free.shape[1])
        out[self._ordered] = np.matmul(self._bases, part).reshape(-1, free.shape[1])
        return out

    def pull(self, slopes: Floats) -> Floats:
        """Turn derivatives by scores into those by parameters, in place; returns them."""
        part = slopes[self._ordered].reshape(*self._bases.shape[:2], slopes.shape[1])
        back = np.matmul(self._bases.transpose(0, 2, 1), part)
        slopes[self._ordered] = back.reshape(-1, slopes.shape[1])
        slopes[self._blank] = 0.0
        return slopes

    def pull_mass(self, mass: Floats) -> Floats:
        """Turn second derivatives by scores, (n_cells,), into those by parameters."""
        out = mass.copy()
        part = mass[self._ordered].reshape(self._bases.shape[:2])
        out[self._ordered] = np.einsum("fij,fi->fj", self._bases**2, part).ravel()
        return out

    def family_scores(self, scores: Floats) -> list[Floats]:
        """Return each family's scores with one a class, (*arities, n_classes)."""
        out: list[Floats] = []
        for at, start in enumerate(self.starts):
            shape = self.shape(at)
            places = self._places.get(at, np.arange(prod(shape) + 1))[:-1]
            cells = by_class(scores[start + places.astype(np.int64)])
            out.append(cells.reshape(*shape, self.domain.n_classes))
        return out


def by_class(scores: Floats) -> Floats:
    """Return scores with one column a class, from one that tells two classes apart."""
    if scores.shape[1] > 1:
        return scores
    return np.concatenate([-0.5 * scores, 0.5 * scores], axis=1)
