"""Adam on whole arrays, in NumPy: one step, and steps of every table in every batch.

The compiled step moves a context only in batches that have a row of it. `step_all`
is the optimiser as the paper has it: all contexts have a step count in common, and
one without a gradient goes on by its momentum. Some ten times slower: for comparisons.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tanager.training.model import Model, Slots

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8  # as in src/native/training.c


def adam_step(
    value: Floats, first: Floats, second: Floats, gradient: Floats, step: int, rate: float
) -> None:
    """Take one step of Adam (Kingma and Ba, 2015, algorithm 1) in place."""
    first *= BETA_1
    first += (1 - BETA_1) * gradient
    second *= BETA_2
    second += (1 - BETA_2) * gradient * gradient
    spread = np.sqrt(second / (1 - BETA_2**step)) + EPSILON
    value -= rate * (first / (1 - BETA_1**step)) / spread


def step_all(model: Model, slots: Slots, gradient: Floats, rate: float) -> None:
    """Take one Adam step on all logits, shape (n_cells,), and normalise the tables."""
    step = int(model.n_steps[0])
    adam_step(model.theta, model.theta_first, model.theta_second, gradient, step, rate)
    model.theta_steps[:] = step
    model.normalise(slots)


def dense_gradient(
    model: Model,
    slots: Slots,
    contexts: NDArray[np.integer],
    children: NDArray[np.integer],
    chosen: Ints,
    by_joint: Floats,
) -> Floats:
    """Return the loss's derivative by the logits of all tables, from that by the log-joint.

    A row whose parent is unknown is answered by the class alone, slot 0.
    """
    total = np.zeros_like(model.theta)
    n_classes = model.prior.shape[0]
    for i, arity in enumerate(slots.arity.tolist()):
        x = children[i].astype(np.int64)
        known = x < arity
        slot = int(chosen[i])
        column, n_contexts = int(slots.column[i, slot]), int(slots.n_contexts[i, slot])
        context = contexts[column].astype(np.int64) if column >= 0 else np.zeros_like(x)
        seen = known & (context < n_contexts)
        pieces = [(slot, seen, context)]
        if slot > 0:
            pieces.append((0, known & ~seen, np.zeros_like(x)))
        for place, rows, at in pieces:
            if not rows.any():
                continue
            size = int(slots.n_contexts[i, place]) * arity * n_classes
            start = int(slots.cell[i, place])
            part = total[start : start + size].reshape(-1, arity, n_classes)
            np.add.at(part, (at[rows], x[rows]), by_joint[rows])
            part -= np.exp(model.table(slots, i, place)) * part.sum(axis=1, keepdims=True)
    return total
