r"""How the scores of a feature's values depend on one another.

The scores of a categorical feature are free. Those of k ordered values are a sum of
cosines of the value's rank,

.. math:: s_b = \sum_j z_j \sigma_j \sqrt{2} \cos(\pi j (b + \tfrac12) / k)

with independent z of variance one and :math:`\sigma_j^2` decreasing as
:math:`1 / (1 + \tau (2 k \sin(\pi j / 2 k))^2)`: the eigenvectors of a ridge on
the scores and on the differences of adjacent ones. In this basis the prior is a
plain ridge, and the fit is well conditioned. The mean variance of the scores is
one, like that of free scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from tanager import native
from tanager.numerics import Floats, Ints

SMOOTHNESS = 0.3  # tau: weight of differences relative to the scores themselves
LEAST_ORDERED = 3  # two values have a single difference, nothing to smooth
EVEN = 1.5  # largest weight of a value, in mean weights, that needs no alignment
MOST_ORDERED = 256  # beyond that, matrices cost more than smoothing gains: free scores

DIGITS = 9  # significant digits of sums, so that ties don't depend on units
TRACE = 1e-9  # weight that gives a value without rows a bin

# Bases in use, by content: members of all depths have the same curves.
_ALIGNED: WeakValueDictionary[bytes, Floats] = WeakValueDictionary()


@lru_cache(maxsize=256)
def basis(arity: int, n_ordered: int) -> Floats | None:
    """Return the scores for unit parameters, shape (arity, arity); None for free scores.

    The first `n_ordered` of the values are ordered; "missing" isn't.

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
    """Return the cosines of values that are all ordered, shape (n_ordered, n_ordered)."""
    j = b = np.arange(n_ordered)
    waves = np.cos(np.pi * j * (b[:, None] + 0.5) / n_ordered) * np.where(j == 0, 1, np.sqrt(2.0))
    variance = basis_variances(n_ordered)
    out: Floats = waves * np.sqrt(variance / variance.sum())
    out.setflags(write=False)
    return out


def basis_variances(n_ordered: int) -> Floats:
    """Return the approximate variance of each cosine, the constant first, shape (n_ordered,)."""
    rough = (2 * n_ordered * np.sin(np.pi * np.arange(n_ordered) / (2 * n_ordered))) ** 2
    variances: Floats = 1.0 / (1.0 + SMOOTHNESS * rough)
    return variances


def align(matrix: Floats, mass: Floats) -> Floats:
    """Rotate a basis, (arity, arity), so that its parameters do not interact.

    A rotation of the parameters leaves their prior unchanged. This one makes the Hessian of
    a loss that is uniform over the rows diagonal: if some values are much more frequent
    than others, a fit takes a fifth of the passes. `mass` is the weight of each value.

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


class Slant(NamedTuple):
    """A direction: the addend of each ordered value of either member of a pair."""

    first: tuple[float, ...]
    second: tuple[float, ...]

    def bins(self, mass: Floats) -> Ints:
        """Return the bin of each joint value, shape (n_first, n_second), from low sums to high.

        The bins have equal `mass`, the weight of each joint value, and there are about as many as
        both members have values; equal sums share one.
        """
        order, bins = self.in_order(mass)
        out = np.empty_like(bins)
        out[order] = bins
        return out.reshape(mass.shape)

    def in_order(self, mass: Floats) -> tuple[Ints, Ints]:
        """Return joint values from low sums to high, and their bins, both (n_first * n_second,)."""
        sums = np.add.outer(self.first, self.second).ravel().round(DIGITS)
        order = np.argsort(sums, kind="stable")
        sums = sums[order]
        starts = np.flatnonzero(np.append(True, sums[1:] != sums[:-1]))
        own = np.add.reduceat(mass.ravel()[order] + TRACE, starts)
        ranks = (np.cumsum(own) - 0.5 * own) / own.sum()
        lengths = np.diff(np.append(starts, len(sums)))
        return order, np.repeat((self.n_bins * ranks).astype(np.int64), lengths)

    @property
    def n_bins(self) -> int:
        """Number of bins, some of which may be empty."""
        return len(self.first) + len(self.second) - 1


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
