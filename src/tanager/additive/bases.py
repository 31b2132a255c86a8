r"""How the scores of a feature's values hang together.

The scores of a category are free. Those of k ordered values are a sum of
cosines of the value's rank,

.. math:: s_b = \sum_j z_j \sigma_j \sqrt{2} \cos(\pi j (b + \tfrac12) / k)

with independent z of variance one and :math:`\sigma_j^2` falling as
:math:`1 / (1 + \tau (2 k \sin(\pi j / 2 k))^2)`: the eigenvectors of a ridge on
the scores and on the differences of neighbours. In this basis the prior is a
plain ridge, and the fit well conditioned. The mean variance of the scores is
one, as that of free scores.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

__all__ = ["SMOOTHNESS", "align", "basis", "basis_variances"]

Floats = NDArray[np.float64]

SMOOTHNESS = 0.3  # tau: of differences, against that of the scores themselves
LEAST_ORDERED = 3  # two values have one difference: there is nothing to be smooth over
EVEN = 1.5  # the heaviest value, in mean weights, up to which the cosines are as good as aligned
MOST_ORDERED = 256  # past it the matrices would cost more than smoothness brings: free scores

# Bases that are in use, by what they are of: members of all depths have the same curves.
_ALIGNED: WeakValueDictionary[bytes, Floats] = WeakValueDictionary()


@lru_cache(maxsize=256)
def basis(arity: int, n_ordered: int) -> Floats | None:
    """Return the scores of unit parameters, shape (arity, arity); None for free scores.

    Parameters
    ----------
    arity : int
        Number of values.
    n_ordered : int
        How many of them, from the first, stand in order; "missing" does not.

    Examples
    --------
    >>> basis(4, 0) is None
    True
    >>> matrix = basis(5, 4)
    >>> (matrix @ matrix.T).diagonal().round(2).tolist()
    [1.1, 0.9, 0.9, 1.1, 1.0]
    """
    if not LEAST_ORDERED <= n_ordered <= MOST_ORDERED:
        return None
    j, b = np.arange(n_ordered), np.arange(n_ordered)
    waves = np.cos(np.pi * j * (b[:, None] + 0.5) / n_ordered) * np.where(j == 0, 1, np.sqrt(2.0))
    variance = basis_variances(n_ordered)
    out = np.eye(arity)
    out[:n_ordered, :n_ordered] = waves * np.sqrt(variance / variance.sum())
    out.setflags(write=False)
    return out


def basis_variances(n_ordered: int) -> Floats:
    """Return about how much each cosine varies, the constant first, shape (n_ordered,)."""
    rough = (2 * n_ordered * np.sin(np.pi * np.arange(n_ordered) / (2 * n_ordered))) ** 2
    variances: Floats = 1.0 / (1.0 + SMOOTHNESS * rough)
    return variances


def align(matrix: Floats, mass: Floats) -> Floats:
    """Turn a basis so that its parameters do not pull at each other.

    A rotation of the parameters leaves their prior as it is. Of all rotations
    this one makes the second derivatives of a loss that is even over the rows
    diagonal: with heavy values beside light ones, a fit takes a fifth of the
    passes.

    Parameters
    ----------
    matrix : ndarray of float64, shape (arity, arity)
        The scores of unit parameters.
    mass : ndarray of float64, shape (arity,)
        The weight of the rows of each value.

    Examples
    --------
    >>> mass = np.array([90.0, 5.0, 4.0, 1.0])
    >>> turned = align(basis(4, 4), mass)
    >>> bends = turned.T @ (mass[:, None] * turned)
    >>> bool(np.abs(bends - np.diag(bends.diagonal())).max() < 1e-12)
    True
    """
    if mass.max() <= EVEN * mass.mean():
        return matrix
    given = blake2b(matrix.tobytes())
    given.update(mass.tobytes())
    key = given.digest()
    turned = _ALIGNED.get(key)
    if turned is None:
        _, rotation = np.linalg.eigh(matrix.T @ (mass[:, None] * matrix))
        turned = matrix @ rotation
        turned.setflags(write=False)
        _ALIGNED[key] = turned
    return turned
