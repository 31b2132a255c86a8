r"""How the scores of a feature's values depend on each other.

The scores of a category are free. Those of k ordered values are a sum of
cosines of the value's rank,

.. math:: s_b = \sum_j z_j \sigma_j \sqrt{2} \cos(\pi j (b + \tfrac12) / k)

with independent z of variance one and :math:`\sigma_j^2` falling as
:math:`1 / (1 + \tau (2 k \sin(\pi j / 2 k))^2)`: the eigenvectors of a ridge on
the scores and on the differences of neighbours. In this basis the prior is a
plain ridge, and the fit well conditioned. The mean variance of the scores is
one, as that of free scores. Blocks of cells of ordered features, and of pairs of
them, are padded to the size of the largest, so that one product does for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from weakref import WeakValueDictionary

import numpy as np

from tanager.numerics import Floats, Ints

SMOOTHNESS = 0.3  # tau: of differences, against that of the scores themselves
LEAST_ORDERED = 3  # two values have one difference: there is nothing to be smooth over
EVEN = 1.5  # the heaviest value, in mean weights, up to which the cosines are as good as aligned
MOST_ORDERED = 256  # past it the matrices would cost more than smoothness brings: free scores

PADDED = 8  # sizes of bases that differ by less are padded to the largest
SMALL = 1 << 16  # numbers of all bases, up to which one product of all is the quickest

# Bases that are in use, by what they are of: members of all depths have the same curves.
_ALIGNED: WeakValueDictionary[bytes, Floats] = WeakValueDictionary()


@lru_cache(maxsize=256)
def basis(arity: int, n_ordered: int) -> Floats | None:
    """Return the scores of unit parameters, shape (arity, arity); None for free scores.

    The first `n_ordered` of the values stand in order; "missing" does not.

    >>> basis(4, 0) is None
    True
    >>> matrix = basis(5, 4)
    >>> (matrix @ matrix.T).diagonal().round(2).tolist()
    [1.1, 0.9, 0.9, 1.1, 1.0]
    """
    if not LEAST_ORDERED <= n_ordered <= MOST_ORDERED:
        return None
    out = np.eye(arity)
    out[:n_ordered, :n_ordered] = curve_basis(n_ordered)
    out.setflags(write=False)
    return out


@lru_cache(maxsize=256)
def curve_basis(n_ordered: int) -> Floats:
    """Return the cosines of values that all stand in order, shape (n_ordered, n_ordered)."""
    j = b = np.arange(n_ordered)
    waves = np.cos(np.pi * j * (b[:, None] + 0.5) / n_ordered) * np.where(j == 0, 1, np.sqrt(2.0))
    variance = basis_variances(n_ordered)
    out: Floats = waves * np.sqrt(variance / variance.sum())
    out.setflags(write=False)
    return out


def basis_variances(n_ordered: int) -> Floats:
    """Return about how much each cosine varies, the constant first, shape (n_ordered,)."""
    rough = (2 * n_ordered * np.sin(np.pi * np.arange(n_ordered) / (2 * n_ordered))) ** 2
    variances: Floats = 1.0 / (1.0 + SMOOTHNESS * rough)
    return variances


def align(matrix: Floats, mass: Floats) -> Floats:
    """Turn a basis, (arity, arity), so that its parameters do not interact.

    A rotation of the parameters leaves their prior as it is. Of all rotations this one makes
    the second derivatives of a loss that is even over the rows diagonal: with heavy values
    beside light ones, a fit takes a fifth of the passes. `mass` is the weight of each value.

    >>> mass = np.array([90.0, 5.0, 4.0, 1.0])
    >>> turned = align(basis(4, 4), mass)
    >>> bends = turned.T @ (mass[:, None] * turned)
    >>> bool(np.abs(bends - np.diag(bends.diagonal())).max() < 1e-12)
    True
    """
    if mass.max() <= EVEN * mass.mean():
        return matrix
    key = matrix.diagonal().tobytes() + mass.tobytes()
    turned = _ALIGNED.get(key)
    if turned is None:
        _, rotation = np.linalg.eigh(matrix.T @ (mass[:, None] * matrix))
        turned = matrix @ rotation
        turned.setflags(write=False)
        _ALIGNED[key] = turned
    return turned


class Curves:
    """The cells of `chosen` families, ordered features alone, in one block.

    `start` is the block's first cell, `firsts` those of the families, counted from it, and `size`
    the number of cells of each; the last is always zero.
    """

    def __init__(self, chosen: Sequence[int], bases: Sequence[Floats]) -> None:
        self.size = 1 + max((len(matrix) for matrix in bases), default=0)
        self.firsts = {at: row * self.size for row, at in enumerate(chosen)}
        self.n_cells = len(chosen) * self.size
        self.start = 0
        self._groups = _alike(bases)

    def places(self, shape: tuple[int, ...]) -> Ints:
        """Return the cells of a family's joint values, counted from its first, (*shape)."""
        return np.arange(shape[0])

    def expand(self, values: Floats) -> None:
        """Turn the block's parameters, among those of all cells, into scores, in place."""
        own = self._families(values)
        for rows, matrix in self._groups:
            side = matrix.shape[-1]
            own[rows, :side] = _turn(matrix, own[rows, :side])
            own[rows, side:] = 0.0

    def pull(self, slopes: Floats) -> None:
        """Turn the block's derivatives by scores into those by parameters, in place."""
        own = self._families(slopes)
        for rows, matrix in self._groups:
            side = matrix.shape[-1]
            own[rows, :side] = _turn(matrix.swapaxes(-1, -2), own[rows, :side])
            own[rows, side:] = 0.0

    def pull_mass(self, mass: Floats) -> None:
        """Turn the block's second derivatives by scores into those by parameters, in place."""
        own = self._families(mass[:, None])
        for rows, matrix in self._groups:
            side = matrix.shape[-1]
            own[rows, :side] = _turn(matrix.swapaxes(-1, -2) ** 2, own[rows, :side])

    def _families(self, cells: Floats) -> Floats:
        """Return the block's part of all cells, (n_families, size, n_columns)."""
        own = cells[self.start : self.start + self.n_cells]
        return own.reshape(len(self.firsts), self.size, cells.shape[1])


def _alike(bases: Sequence[Floats]) -> list[tuple[Ints | slice, Floats]]:
    """Return families that are turned by one product, with their matrix or matrices.

    All of them where their matrices are small. Else numbers whose values are about as
    heavy share one basis, (side, side), and the others are stacked by size. Stacked
    matrices are padded with zeros, (n_families, side, side).
    """
    if len(bases) * max((len(matrix) for matrix in bases), default=0) ** 2 <= SMALL:
        return [(slice(None), _stack(bases))] if len(bases) else []
    same: dict[int, list[int]] = {}
    for row, matrix in enumerate(bases):
        same.setdefault(id(matrix), []).append(row)
    shared = [rows for rows in same.values() if len(rows) > 1]
    by_size: dict[int, list[int]] = {}
    for rows in same.values():
        if len(rows) == 1:
            by_size.setdefault(-(-len(bases[rows[0]]) // PADDED), []).append(rows[0])
    return [(np.array(rows), bases[rows[0]]) for rows in shared] + [
        (np.array(rows), _stack([bases[row] for row in rows])) for rows in by_size.values()
    ]


def _turn(matrix: Floats, cells: Floats) -> Floats:
    """Return a matrix, or one for each family, times its cells (n_families, side, n_columns)."""
    if matrix.ndim == 3:
        return np.matmul(matrix, cells)
    return np.tensordot(cells, matrix, ((1,), (1,))).transpose(0, 2, 1)


class Sheets:
    """The cells of families of two columns or more, in one block: a basis along each axis.

    `bases` are those of each family, which all have as many axes. Attributes are those of
    `Curves`.
    """

    def __init__(self, chosen: Sequence[int], bases: Sequence[Sequence[Floats]]) -> None:
        # One more value along the first axis, whose cells are always zero.
        along = enumerate(zip(*bases, strict=True))
        self._bases = [_stack(matrices, blank=int(axis == 0)) for axis, matrices in along]
        self._back = [np.ascontiguousarray(b.transpose(0, 2, 1)) for b in self._bases]
        self._sides = tuple(b.shape[1] for b in self._bases)
        self.size = prod(self._sides)
        self.firsts = {at: row * self.size for row, at in enumerate(chosen)}
        self.n_cells = len(chosen) * self.size
        self.start = 0

    def places(self, shape: tuple[int, ...]) -> Ints:
        """Return the cells of a family's joint values, counted from its first, (*shape)."""
        within = tuple(slice(size) for size in shape)
        return np.arange(self.size).reshape(self._sides)[within]

    def expand(self, values: Floats) -> None:
        """Turn the block's parameters, among those of all cells, into scores, in place."""
        self._turn(values, self._bases)

    def pull(self, slopes: Floats) -> None:
        """Turn the block's derivatives by scores into those by parameters, in place."""
        self._turn(slopes, self._back)

    def pull_mass(self, mass: Floats) -> None:
        """Turn the block's second derivatives by scores into those by parameters, in place."""
        self._turn(mass[:, None], [matrix**2 for matrix in self._back])

    def _turn(self, values: Floats, matrices: Sequence[Floats]) -> None:
        """Multiply the block's cells by a matrix along each axis, in place."""
        own = values[self.start : self.start + self.n_cells]
        cells, before = own, 1
        for matrix in matrices:
            n, side, _ = matrix.shape
            cells = np.matmul(matrix[:, None], cells.reshape(n, before, side, -1))
            before *= side
        own[...] = cells.reshape(own.shape)


def _stack(bases: Sequence[Floats], blank: int = 0) -> Floats:
    """Return square matrices in one array, with at least so many rows and columns of zeros."""
    side = blank + max((len(b) for b in bases), default=0)
    out = np.zeros((len(bases), side, side))
    for at, matrix in enumerate(bases):
        out[at, : len(matrix), : len(matrix)] = matrix
    return out
