"""The objective: a pass over rows, a function of the free parameters, and its minimum."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from math import ceil, log2
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.engines import FitContext
from tanager.parameters.discriminative.forms import Form
from tanager.parameters.discriminative.rows import PackedRows, PackedTable, Packing
from tanager.progress import Progress

__all__ = ["OBJECTIVES", "Objective", "ObjectivePass", "Penalty", "Solution", "minimise"]

Floats = NDArray[np.float64]

OBJECTIVES = {"cll": 0, "mse": 1}
CORRECTIONS = 5  # of L-BFGS-B: pairs of steps and gradients it remembers


class _State(NamedTuple):
    loss: NDArray[np.int64]  # whole part, fraction in 2^-52
    slopes: NDArray[np.int64]  # on the grid of the pass's `scale`


class ObjectivePass:
    """Sums loss and derivatives over packed rows; see src/native/scores.c.

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
        self._packing: Packing | None = rows.packing
        self._starts, self._n_slots = rows.packing.starts, rows.packing.n_slots
        self._kind = OBJECTIVES[kind]
        self._tables = tables
        self._unit = rows.unit
        # Residuals are below 2 in size: on this grid their sums stay below 2^61.
        self._scale = 2.0 ** (60 - ceil(log2(max(rows.total_weight, 1.0))))
        self._scores: Floats = np.zeros((1, 1))

    def __getstate__(self) -> dict[str, Any]:
        # Workers add rows and merge; only who runs the pass unpacks the result.
        return {**self.__dict__, "_packing": None}

    def with_scores(self, scores: Floats) -> ObjectivePass:
        """Set the scores (n_tables, n_cells, n_classes) of the next run."""
        assert self._packing is not None
        self._scores = self._packing.expand(scores)
        return self

    def zero(self) -> _State:
        """Return no rows' sums."""
        return _State(np.zeros(2, np.int64), np.zeros(self._scores.shape, np.int64))

    def update(self, state: _State, chunk: PackedRows) -> _State:
        """Add a chunk's rows."""
        native.evaluate_scores(
            chunk.joint,
            chunk.slots,
            chunk.labels,
            chunk.weights,
            chunk.folds,
            self._starts,
            self._tables,
            self._scores,
            self._n_slots,
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
        assert self._packing is not None
        loss = (float(state.loss[0]) + float(state.loss[1]) * 2.0**-52) / self._unit
        return loss, self._packing.pull(state.slopes / (self._scale * self._unit))


class Prior(Protocol):
    """What is added to the loss: a function of the free parameters."""

    def value(self, free: Floats) -> tuple[float, Floats]:
        """Return the penalty and its gradient."""


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
    penalty : Prior or None
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
        penalty: Prior | None = None,
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


@dataclass(frozen=True)
class Solution:
    """Where the optimiser stopped, and how it got there.

    Attributes
    ----------
    free : ndarray of float64, shape (n_free,)
    value : ndarray of float64, shape (n_iterations + 1,)
        The objective before the first and after each iteration.
    loss : ndarray of float64, shape (n_iterations + 1,)
        Its part without the penalty.
    gradient_norm : ndarray of float64, shape (n_iterations + 1,)
        The largest absolute component of the gradient.
    passes : int
        Evaluations of the objective, each one pass over the rows.
    converged : bool
    reason : str
        Why the optimiser stopped.
    """

    free: Floats
    value: Floats
    loss: Floats
    gradient_norm: Floats
    passes: int
    converged: bool
    reason: str

    def record(self) -> dict[str, Any]:
        """Return all but the parameters, as plain data."""
        return {
            "objective": self.value.tolist(),
            "loss": self.loss.tolist(),
            "gradient_norm": self.gradient_norm.tolist(),
            "iterations": len(self.value) - 1,
            "passes": self.passes,
            "converged": self.converged,
            "reason": self.reason,
        }


def minimise(
    objective: Objective,
    start: Floats,
    *,
    max_iter: int,
    tol: float,
    progress: Progress | None = None,
    warn: bool = True,
) -> Solution:
    """Minimise an objective; a ConvergenceWarning where the budget ends first.

    Stops where an iteration improves the objective by less than `tol` times
    the larger of it and one (Zhu et al. 1997, DOI 10.1145/279232.279236).
    """
    from scipy import optimize

    progress = progress or Progress()
    progress.start("parameters", None, unit="iterations")
    latest: list[tuple[float, float, float]] = []
    history: list[tuple[float, float, float]] = []

    def evaluate(free: Floats) -> tuple[float, Floats]:
        value, gradient = objective(free)
        latest.append((value, objective.latest, float(np.abs(gradient).max(initial=0.0))))
        if not history:
            history.append(latest[0])
        return value, gradient

    def report(intermediate_result: Any) -> None:
        # The accepted point is one of the line search's; the last with its value.
        value = float(intermediate_result.fun)
        history.append(next(point for point in reversed(latest) if point[0] == value))
        latest.clear()
        progress.advance(1, objective=value)

    options = {"maxcor": CORRECTIONS, "ftol": tol, "gtol": 0.0}
    budget = {"maxiter": max_iter, "maxfun": 20 * max_iter + 20}
    first = objective.passes
    result: Any = optimize.minimize(
        evaluate, start, jac=True, method="L-BFGS-B", callback=report, options=options | budget
    )
    progress.finish()
    # A line search that finds nothing lower stops at a minimum to machine precision.
    converged = result.status != 1
    if not converged and warn:
        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(
            f"The discriminative parameters did not converge in {max_iter} iterations. "
            "Hint: raise max_iter, or add a prior (l2 > 0), under which an optimum always exists.",
            ConvergenceWarning,
            stacklevel=2,
        )
    values, losses, norms = np.array(history).T
    passes = objective.passes - first
    return Solution(result.x, values, losses, norms, passes, converged, str(result.message))
