r"""Class offsets that make a model's mean prediction match the class frequencies of the rows.

A geometric pool of models, or a fit that stops within a tolerance, may not predict as many rows
of a class as there are. The offsets b in

.. math:: P(y \mid x) \propto \exp(s_y(x) + b_y)

that maximise the conditional likelihood of the rows do: at the maximum
:math:`\sum_i w_i P(y \mid x_i) = \sum_i w_i [y_i = y]` for every class. They are part of the
model, fitted last, with all other scores fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log2
from typing import NamedTuple

import numpy as np

from tanager import native
from tanager.codes import Chunk, Codes, Rows
from tanager.engines import FitContext
from tanager.loglinear.optimiser import minimise
from tanager.numerics import Floats
from tanager.progress import Progress

LogJoint = Callable[[Codes], Floats]  # from codes (n_features, n_rows) to (n_rows, n_classes)

BLOCK_CELLS = 1 << 19  # rows times classes of the scores in memory at a time
MAX_ITER = 50  # of either method
NEAR = 0.3  # log of predicted over actual below which a parabola is a good approximation
LEAST_SPREAD = 1e-6
NEVER = -1e5  # the offset of a class without rows while fitting the others
MOST_LOST = 1000.0  # maximum loss of one row, in nats
COARSE = 2.0**-10
LEAST_GAIN = 1e-7  # nats in total: then even a class of one row is off by only a few 1e-4


def fit_offsets(
    rows: Rows, log_joint: LogJoint, class_counts: Floats, context: FitContext
) -> Floats:
    """Return the offset of each class, shape (n_classes,), with mean zero over those with rows.

    `log_joint` returns the scores of coded rows; it must be picklable, and a row's result must not
    depend on its chunk. A class without rows (`class_counts`) keeps its score, and is excluded
    from the predictions of the others.

    About five passes, one per evaluation. First each class's score moves by the logarithm
    of its actual over its predicted frequency (iterative scaling: converges from
    anywhere), then a quasi-Newton descent continues from there. Exact for any number of threads and
    chunks: each row's share is rounded to a grid on which all sums are exact.

    Darroch and Ratcliff (1972), DOI 10.1214/aoms/1177692379: iterative scaling.
    """
    n_classes = len(class_counts)
    seen = np.flatnonzero(class_counts > 0)
    if len(seen) < 2:
        return np.zeros(n_classes)
    top = ceil(log2(rows.total_weight))
    grid = 2.0 ** (50 - top)

    offsets, wanted = np.full(n_classes, NEVER), class_counts[seen]

    def predict(free: Floats) -> _Predicted:
        offsets[seen] = free
        pass_ = _OffsetPass(log_joint, offsets, grid)
        return context.engine.run(pass_, rows, Progress(), "class offsets")

    free = np.zeros(len(seen))
    for _ in range(MAX_ITER):
        found = predict(free)
        away = np.log(wanted / np.maximum(found.totals[seen], np.finfo(float).tiny))
        if np.abs(away).max() < NEAR:
            break
        free = free + away
    scale = 1.0 / np.sqrt(np.maximum(found.spreads[seen], LEAST_SPREAD * wanted))

    def objective(scaled: Floats) -> tuple[float, Floats]:
        found = predict(scaled * scale)
        return found.loss, (found.totals[seen] - wanted) * scale

    tol = LEAST_GAIN / max(found.loss, 1.0)
    end = minimise(objective, free / scale, max_iter=MAX_ITER, tol=tol, first_step=0.5)
    offsets[seen] = end.at * scale - (end.at * scale).mean()
    return np.where(class_counts > 0, offsets, 0.0)


class _Predicted(NamedTuple):
    """The rows' loss, and each class's sum of posteriors p and of p (1 - p)."""

    loss: float
    totals: Floats
    spreads: Floats


@dataclass(frozen=True, eq=False)
class _OffsetPass:
    """Sums the loss of rows, and the posterior of each class, under some offsets."""

    log_joint: LogJoint
    offsets: Floats
    grid: float  # steps of the grid per unit

    def zero(self) -> Floats:
        return np.zeros((2, 1 + len(self.offsets)))  # the loss in two parts; each class

    def update(self, state: Floats, chunk: Chunk) -> Floats:
        for part in chunk.split(BLOCK_CELLS // len(self.offsets)):
            self._add(state, part)
        return state

    def _add(self, state: Floats, chunk: Chunk) -> None:
        scores = self.log_joint(chunk.codes) + self.offsets
        native.normalize(scores, True)
        lost = np.minimum(-scores[np.arange(chunk.n_rows), chunk.labels], MOST_LOST)
        native.normalize(scores, False)
        weights = chunk.row_weights
        # A row of a common class loses a millionth of a nat, one of a rare class many nats.
        coarse = np.rint(lost * weights * self.grid * COARSE)
        state[0, 0] += coarse.sum()
        state[1, 0] += np.rint(lost * weights * self.grid - coarse / COARSE).sum()
        weighed = (weights * self.grid)[:, None]
        state[0, 1:] += np.rint(scores * weighed).sum(axis=0)
        state[1, 1:] += np.rint(scores * (1.0 - scores) * weighed).sum(axis=0)

    def merge(self, a: Floats, b: Floats) -> Floats:
        return a + b

    def finish(self, state: Floats) -> _Predicted:
        loss = float(state[0, 0] / COARSE + state[1, 0]) / self.grid
        return _Predicted(loss, *(state[:, 1:] / self.grid))
