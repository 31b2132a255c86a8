"""Adam on all tables in every batch, by its definition."""

from __future__ import annotations

import numpy as np

from tanager.training import adam_step


def step_all(model, slots, gradient, rate):
    """Take one Adam step on all logits, shape (n_cells,), and normalise the tables."""
    step = int(model.n_steps[0])
    adam_step(model.theta, model.theta_first, model.theta_second, gradient, step, rate)
    model.normalise(slots)


def dense_gradient(model, slots, contexts, children, chosen, by_joint):
    """Return the loss's derivative by all logits; unknown parents are answered by slot 0."""
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
