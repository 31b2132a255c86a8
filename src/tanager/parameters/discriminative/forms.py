r"""The three parameterisations: how free parameters become scores.

Each form is a differentiable map from a vector of free parameters z to the
scores :math:`\beta` of all cells and classes, with the transpose of its
derivative (Zaidi et al. 2017, table 2).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tanager.parameters.discriminative.layout import Layout
from tanager.parameters.discriminative.levels import tie_cells

__all__ = ["Direct", "Extended", "Form", "Weighted"]

Floats = NDArray[np.float64]


class Form(Protocol):
    """A parameterisation over one or more sets of generative tables.

    Attributes
    ----------
    n_free : int
        Number of free parameters.
    generative : ndarray of float64, shape (n_free,)
        The free parameters at which the scores are the generative tables'.
    """

    n_free: int
    generative: Floats

    def expand(self, free: Floats) -> Floats:
        """Return the scores, shape (n_tables, n_cells, n_classes)."""

    def pull(self, free: Floats, slopes: Floats) -> Floats:
        """Turn derivatives by the scores into derivatives by the free parameters."""


class Direct:
    r"""Free scores, :math:`\beta = z` (equations 8 to 11).

    Parameters
    ----------
    logs : ndarray of float64, shape (n_tables, n_cells, n_classes)
        The generative tables; only the first set is used, to start from.
    """

    def __init__(self, logs: Floats) -> None:
        self.generative = logs[0, :-1].ravel()
        self.n_free = self.generative.shape[0]
        self._shape = (1, *logs.shape[1:])

    def expand(self, free: Floats) -> Floats:
        """Return the scores."""
        out = np.zeros(self._shape)
        out[0, :-1] = free.reshape(-1, out.shape[2])
        return out

    def pull(self, free: Floats, slopes: Floats) -> Floats:  # noqa: ARG002
        """Return the derivatives of the cells that hold parameters."""
        return slopes[0, :-1].ravel()


class Extended:
    r"""Scores that are log-probabilities, by a softmax over the feature's values (equation 13).

    The derivative goes through the softmax (equation 14):
    :math:`g_j - \theta_j \sum_{j'} g_{j'}` within each context and class.
    """

    def __init__(self, layout: Layout, logs: Floats) -> None:
        self._layout = layout
        self._direct = Direct(logs)
        self.generative = self._direct.generative
        self.n_free = self._direct.n_free

    def expand(self, free: Floats) -> Floats:
        """Return the scores."""
        out = self._direct.expand(free)
        for block, axis in self._blocks(out[0]):
            top = block.max(axis=axis, keepdims=True)
            block -= top + np.log(np.exp(block - top).sum(axis=axis, keepdims=True))
        return out

    def pull(self, free: Floats, slopes: Floats) -> Floats:
        """Apply equation 14."""
        out = slopes.copy()
        theta = np.exp(self.expand(free))
        for (block, axis), (share, _) in zip(
            self._blocks(out[0]), self._blocks(theta[0]), strict=True
        ):
            block -= share * block.sum(axis=axis, keepdims=True)
        return self._direct.pull(free, out)

    def _blocks(self, flat: Floats) -> list[tuple[Floats, int]]:
        """Return views of each normalised block, and the axis that sums to one."""
        blocks = [(flat[0], 0)]
        for family in self._layout.families:
            shape = (family.n_contexts, family.arity, flat.shape[1])
            blocks.append((flat[family.cells].reshape(shape), 1))
        return blocks


class Weighted:
    r"""Weights on generative logarithms, :math:`\beta = w \log\theta` (equations 15 to 21).

    With `correction`, a free number per value and class is added to the
    weighted term: :math:`\beta = w \log\theta + \delta_{x, y}`.

    Parameters
    ----------
    layout : Layout
    logs : ndarray of float64, shape (n_tables, n_cells, n_classes)
        One set of generative tables, or one per fold.
    level : int
        Which cells share a weight; see `levels`.
    correction : bool
    """

    def __init__(self, layout: Layout, logs: Floats, level: int, *, correction: bool) -> None:
        self._logs = logs
        self._ties, self.n_weights = tie_cells(layout, level)
        self._spots: NDArray[np.int64] | None = None
        self.n_corrections = 0
        if correction:
            self._spots, self.n_corrections = tie_cells(layout, 3)
        self.n_free = self.n_weights + self.n_corrections
        self.generative = np.zeros(self.n_free)
        self.generative[: self.n_weights] = 1.0

    def expand(self, free: Floats) -> Floats:
        """Return the scores."""
        out = _at(free[: self.n_weights], self._ties) * self._logs
        if self._spots is not None:
            out += _at(free[self.n_weights :], self._spots)
        out[:, -1] = 0.0
        return out

    def pull(self, free: Floats, slopes: Floats) -> Floats:  # noqa: ARG002
        """Sum the derivatives of the cells that share a parameter."""
        parts = [_sum_by((slopes * self._logs).sum(axis=0), self._ties, self.n_weights)]
        if self._spots is not None:
            parts.append(_sum_by(slopes.sum(axis=0), self._spots, self.n_corrections))
        return np.concatenate(parts)


def _at(free: Floats, ties: NDArray[np.int64]) -> Floats:
    return np.append(free, np.zeros(ties.shape[1]))[ties]


def _sum_by(values: Floats, ties: NDArray[np.int64], n: int) -> Floats:
    sums = np.bincount(ties.ravel(), weights=values.ravel(), minlength=n)[:n]
    return sums.astype(np.float64, copy=False)
