"""The objective as a pass over rows, and as a function for an optimiser."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.engines import FitContext
from tanager.parameters.discriminative.forms import Form
from tanager.parameters.discriminative.packed import PackedRows, PackedTable
from tanager.progress import Progress

__all__ = ["OBJECTIVES", "Objective", "ObjectivePass", "Penalty"]

Floats = NDArray[np.float64]

OBJECTIVES = {"cll": 0, "mse": 1}


class _State(NamedTuple):
    loss: NDArray[np.int64]  # whole part, fraction in 2^-52
    slopes: NDArray[np.int64]  # on the grid of the pass's `scale`


class ObjectivePass:
    """Sums loss and derivatives over packed rows; see `_kernels`.

    The same object serves every evaluation of one optimisation: set the scores,
    then run it.

    Parameters
    ----------
    rows : PackedTable
    kind : {"cll", "mse"}
    tables : ndarray of int64, shape (n_folds,)
        The set of tables that each fold's rows read; -1 leaves the fold out.
    """

    def __init__(self, rows: PackedTable, kind: str, tables: NDArray[np.int64]) -> None:
        self._packing = rows.packing
        self._kind = OBJECTIVES[kind]
        self._tables = tables
        self._unit = rows.unit
        # Residuals are below 2 in size: on this grid their sums stay below 2^61.
        self._scale = 2.0 ** (60 - ceil(log2(max(rows.total_weight, 1.0))))
        self._scores: Floats = np.zeros((1, 1))

    def with_scores(self, scores: Floats) -> ObjectivePass:
        """Set the scores (n_tables, n_cells, n_classes) of the next run."""
        self._scores = self._packing.expand(scores)
        return self

    def zero(self) -> _State:
        """Return no rows' sums."""
        return _State(np.zeros(2, np.int64), np.zeros(self._scores.shape, np.int64))

    def update(self, state: _State, chunk: PackedRows) -> _State:
        """Add a chunk's rows."""
        from tanager.parameters.discriminative._kernels import evaluate

        evaluate(
            chunk,
            self._packing.starts,
            self._tables,
            self._scores,
            self._packing.n_slots,
            self._kind,
            self._scale,
            state.loss,
            state.slopes,
        )
        return state

    def merge(self, a: _State, b: _State) -> _State:
        """Add sums; exact, since they are integers."""
        a.loss[:] += b.loss
        a.slopes[:] += b.slopes
        return a

    def finish(self, state: _State) -> tuple[float, Floats]:
        """Return the loss and its derivatives by the scores (n_tables, n_cells, n_classes)."""
        loss = (float(state.loss[0]) + float(state.loss[1]) * 2.0**-52) / self._unit
        return loss, self._packing.pull(state.slopes / (self._scale * self._unit))


@dataclass(frozen=True)
class Penalty:
    """A Gaussian prior: half of strength times squared distance from a centre.

    Attributes
    ----------
    strength : float or ndarray of float64, shape (n_free,)
        The prior's precision.
    centre : ndarray of float64, shape (n_free,)
    """

    strength: float | Floats
    centre: Floats

    def value(self, free: Floats) -> tuple[float, Floats]:
        """Return the penalty and its gradient."""
        away = free - self.centre
        pull = self.strength * away
        return 0.5 * float(pull @ away), pull


class Objective:
    """Penalised loss and gradient of a vector of free parameters.

    Parameters
    ----------
    form : Form
    pass_ : ObjectivePass
    rows : PackedTable
    context : FitContext
    penalty : Penalty or None
    frozen : ndarray of bool, shape (n_free,), or None
        Parameters that keep their first value.

    Attributes
    ----------
    passes : int
        Evaluations so far; each is one pass over the rows.
    latest : float
        The last loss, without the penalty.
    """

    def __init__(
        self,
        form: Form,
        pass_: ObjectivePass,
        rows: PackedTable,
        context: FitContext,
        penalty: Penalty | None = None,
        frozen: NDArray[np.bool_] | None = None,
    ) -> None:
        self._form = form
        self._pass = pass_
        self._rows = rows
        self._context = context
        self._penalty = penalty
        self._frozen = frozen
        self.passes = 0
        self.latest = np.nan

    def loss(self, free: Floats) -> float:
        """Return the loss alone, without the penalty."""
        return self._run(free)[0]

    def __call__(self, free: Floats) -> tuple[float, Floats]:
        """Return value and gradient."""
        value, slopes = self._run(free)
        self.latest = value
        gradient = self._form.pull(free, slopes)
        if self._penalty is not None:
            extra, pull = self._penalty.value(free)
            value += extra
            gradient = gradient + pull
        if self._frozen is not None:
            gradient = np.where(self._frozen, 0.0, gradient)
        return value, gradient

    def _run(self, free: Floats) -> tuple[float, Floats]:
        self.passes += 1
        pass_ = self._pass.with_scores(self._form.expand(free))
        # The optimiser reports its iterations; a bar for each pass would bury them.
        return self._context.engine.run(pass_, self._rows, Progress(), "parameters")
