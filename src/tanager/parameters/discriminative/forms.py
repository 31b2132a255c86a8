r"""The three parameterisations: how free parameters become scores.

Each form is a differentiable map from a vector of free parameters z to the scores :math:`\beta` of
all cells and classes, with the transpose of its derivative (Zaidi et al. 2017, table 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tanager.loglinear.curves import basis
from tanager.numerics import Floats, Ints, log_sum_exp
from tanager.parameters.scores import Layout


class Curves(NamedTuple):
    """Rows of parameters, (n_rows, n_classes), that are coefficients of curves over values."""

    rows: slice
    shape: tuple[int, ...]  # of the values
    n_ordered: tuple[int, ...]  # how many are ordered along each axis

    def turn(self, values: Floats, how: Callable[[Floats], Any]) -> None:
        """Multiply the rows by `how` of the basis of each axis, in place."""
        own = values[self.rows].reshape(*self.shape, -1)
        for axis, (size, n_ordered) in enumerate(zip(self.shape, self.n_ordered, strict=True)):
            matrix = basis(size, n_ordered)
            if matrix is not None:
                own = np.moveaxis(np.tensordot(how(matrix), own, (1, axis)), 0, axis)
        values[self.rows] = own.reshape(-1, values.shape[1])


def _turned(curves: Sequence[Curves], values: Floats, how: Callable[[Floats], Any]) -> Floats:
    """Return parameters, (n_rows, n_classes), with all curves multiplied by `how` of the bases."""
    out = values.copy() if curves else values
    for one in curves:
        one.turn(out, how)
    return out


def _squared(matrix: Floats) -> Floats:
    return matrix.T**2


class Direct:
    r"""Free scores, :math:`\beta = z` (equations 8 to 11), or smooth ones.

    `generative` are the parameters with the scores of the first set of the generative tables,
    (n_tables, n_cells, n_classes). Scores of cells in `curves` are smooth, z their coefficients.
    """

    def __init__(self, logs: Floats, curves: Sequence[Curves] = ()) -> None:
        self._shape, self._curves = (1, *logs.shape[1:]), curves
        self.generative = self.free_of(logs[0])
        self.n_free = self.generative.shape[0]

    def free_of(self, scores: Floats) -> Floats:
        """Return the free parameters with these scores, (n_cells, n_classes)."""
        return _turned(self._curves, scores[:-1], np.linalg.inv).ravel()

    def expand(self, free: Floats) -> Floats:
        """Return the scores, (n_tables, n_cells, n_classes)."""
        out = np.zeros(self._shape)
        out[0, :-1] = _turned(self._curves, free.reshape(-1, out.shape[2]), np.asarray)
        return out

    def pull(self, free: Floats, slopes: Floats) -> Floats:  # noqa: ARG002
        """Turn the gradient w.r.t. the scores into that w.r.t. the free parameters."""
        return _turned(self._curves, slopes[0, :-1], np.transpose).ravel()

    def push(self, free: Floats, step: Floats) -> Floats:  # noqa: ARG002
        """Return the change of the scores for a small step of the free parameters."""
        return Direct.expand(self, step)

    def pull_squares(self, curvature: Floats) -> Floats:
        """Turn second derivatives w.r.t. scores into approximate ones w.r.t. free parameters."""
        return _turned(self._curves, curvature[0, :-1], _squared).ravel()


class Extended(Direct):
    r"""Scores that are log-probabilities, by a softmax over the feature's values (equation 13).

    The derivative is that of the softmax (equation 14):
    :math:`g_j - \theta_j \sum_{j'} g_{j'}` within each context and class.
    """

    def __init__(self, layout: Layout, logs: Floats) -> None:
        super().__init__(logs)
        self._layout = layout

    def expand(self, free: Floats) -> Floats:
        """Return the scores."""
        out = super().expand(free)
        out[0, 0] -= log_sum_exp(out[0, 0], 0)
        for family in self._layout.families:
            block = out[0, family.cells].reshape(family.n_contexts, family.arity, -1)
            block -= log_sum_exp(block, 1, keepdims=True)
        return out

    def pull(self, free: Floats, slopes: Floats) -> Floats:
        """Apply equation 14."""
        out = slopes.copy()
        for block, axis, share in self._blocks(out[0], free):
            block -= share * block.sum(axis=axis, keepdims=True)
        return super().pull(free, out)

    def push(self, free: Floats, step: Floats) -> Floats:
        """Apply the transpose of equation 14."""
        out = super().push(free, step)
        for block, axis, share in self._blocks(out[0], free):
            block -= (share * block).sum(axis=axis, keepdims=True)
        return out

    def _blocks(self, flat: Floats, free: Floats) -> Iterator[tuple[Floats, int, Floats]]:
        """Yield views of each normalised block, the axis that sums to one, and probabilities."""
        theta = np.exp(self.expand(free)[0])
        yield flat[0], 0, theta[0]
        for family in self._layout.families:
            shape = (family.n_contexts, family.arity, flat.shape[1])
            own, share = flat[family.cells].reshape(shape), theta[family.cells].reshape(shape)
            yield own, 1, share


class Weighted:
    r"""Weights on generative logarithms, :math:`\beta = w \log\theta` (equations 15 to 21).

    `logs`, (n_tables, n_cells, n_classes), are one set of generative tables, or one per fold;
    `tie_cells` has the levels at which cells share a weight. With `correction`, a free number per
    value and class is added; those of values in `curves` are smooth.
    """

    def __init__(
        self,
        layout: Layout,
        logs: Floats,
        level: int,
        *,
        correction: bool = False,
        curves: Sequence[Curves] = (),
    ) -> None:
        self._terms = [_Term(logs, *tie_cells(layout, level))]
        if correction:
            self._terms.append(_Term(np.ones((1, 1, 1)), *tie_cells(layout, 3)))
        self.n_weights = self._terms[0].n_free
        self.n_free = sum(term.n_free for term in self._terms)
        self.generative = (np.arange(self.n_free) < self.n_weights).astype(np.float64)
        self._shape, self._curves = logs.shape, curves

    def expand(self, free: Floats) -> Floats:
        """Return the scores."""
        out = np.zeros(self._shape)
        parts = np.split(self._turned(free, np.asarray), [self.n_weights])
        for term, part in zip(self._terms, parts, strict=False):
            out += term.look_up(part) * term.logs
        out[:, -1] = 0.0
        return out

    def push(self, free: Floats, step: Floats) -> Floats:  # noqa: ARG002
        """Return the step's scores: the form is linear."""
        return self.expand(step)

    def pull(self, free: Floats, slopes: Floats) -> Floats:  # noqa: ARG002
        """Sum the derivatives of the cells that share a parameter."""
        found = np.concatenate([term.gather(slopes * term.logs) for term in self._terms])
        return self._turned(found, np.transpose)

    def pull_squares(self, curvature: Floats) -> Floats:
        """Sum the second derivatives of the cells that share a parameter."""
        found = np.concatenate([term.gather(curvature * term.logs**2) for term in self._terms])
        return self._turned(found, _squared)

    def weights(self, free: Floats) -> Floats:
        """Return the weight of each cell's logarithm, (n_cells, n_classes)."""
        return self._terms[0].look_up(free[: self.n_weights])

    def _turned(self, free: Floats, how: Callable[[Floats], Any]) -> Floats:
        if not self._curves:
            return free
        weights, added = np.split(free, [self.n_weights])
        turned = _turned(self._curves, added.reshape(-1, self._shape[2]), how)
        return np.concatenate([weights, turned.ravel()])


class _Term(NamedTuple):
    """Logarithms, and the parameter by which each is multiplied."""

    logs: Floats
    ties: Ints
    n_free: int

    def look_up(self, free: Floats) -> Floats:
        """Return each cell's parameter, (n_cells, n_classes)."""
        return np.append(free, np.zeros(self.ties.shape[1]))[self.ties]

    def gather(self, values: Floats) -> Floats:
        """Sum the values that belong to each parameter, from (n_tables, n_cells, n_classes)."""
        by_cell = values.sum(axis=0).ravel()
        sums = np.bincount(self.ties.ravel(), weights=by_cell, minlength=self.n_free)
        return np.asarray(sums[: self.n_free], np.float64)


def tie_cells(layout: Layout, level: int) -> tuple[Ints, int]:
    """Return the weight of every cell and class, shape (n_cells, n_classes), and their number.

    The nested levels of Zaidi et al. (2017, section 5.4) have one weight per feature, and one for
    the class (1); per value, and for each class (2); per value and class (3); per value, class and
    parents' values (4). The class node comes first. The last cell, which holds no parameter, has
    the index one past the last weight.
    """
    n_classes = layout.n_classes
    ties = np.empty((layout.n_cells, n_classes), np.int64)
    classes = np.arange(n_classes)
    if level == 4:
        ties[:] = np.arange(layout.n_cells * n_classes).reshape(-1, n_classes)
        return ties, (layout.n_cells - 1) * n_classes
    ties[0] = 0 if level == 1 else classes
    n = 1 if level == 1 else n_classes
    for family in layout.families:
        values = np.tile(np.arange(family.arity), family.n_contexts)[:, None]
        if level == 3:
            values = values * n_classes + classes
        ties[family.cells] = n + (0 if level == 1 else values)
        n += {1: 1, 2: family.arity, 3: family.arity * n_classes}[level]
    ties[-1] = n
    return ties, n


Form = Direct | Weighted  # a parameterisation over one or more sets of generative tables
