"""Where gradient training starts from: chance, or the frequencies of the rows."""

from __future__ import annotations

import numpy as np

from tanager.training.model import NO_PARENT, Model, Slots, TrainingRows

PRIOR_ROWS = 5.0  # rows' worth of the table one level down that every context is given


def _random_start(
    slots: Slots, _rows: TrainingRows, n_classes: int, rng: np.random.Generator
) -> Model:
    """Return a model near uniform; section 4.2 of Roth and Pernkopf (2020)."""
    return Model.start(slots, n_classes, rng)


def _generative_start(
    slots: Slots, rows: TrainingRows, n_classes: int, rng: np.random.Generator
) -> Model:
    r"""Return a model whose tables are smoothed frequencies, uniform over parents.

    With m = `PRIOR_ROWS` the class alone has
    :math:`p(x \mid c) = (N_{xc} + m / v) / (N_c + m)`, and a candidate parent
    :math:`p(x \mid u, c) = (N_{xuc} + m\, p(x \mid c)) / (N_{uc} + m)`. All
    candidates then compete from their first draw on; from random tables, those that
    happened to be drawn most would be ahead of the rest.
    """
    model = Model.start(slots, n_classes, rng)
    children = np.ascontiguousarray(rows.children.T)
    labels, weights = rows.labels, rows.weights
    classes = np.bincount(labels, weights, minlength=n_classes) + PRIOR_ROWS / n_classes
    model.prior[:] = np.log(classes / classes.sum())
    for i in range(slots.arity.shape[0]):
        arity = int(slots.arity[i])
        if arity == 0:  # every value was unknown: the tables have no cells
            continue
        alone = np.full((1, arity, 1), 1.0 / arity)
        for slot in range(int(slots.n_slots[i])):
            column, size = int(slots.column[i, slot]), int(slots.n_contexts[i, slot])
            context = np.zeros_like(labels) if column == NO_PARENT else rows.context(column)
            known = (children[i] < arity) & (context < size)
            cell = (context.astype(np.int64) * arity + children[i]) * n_classes + labels
            counts = np.bincount(
                cell[known],
                None if weights is None else weights[known],
                minlength=size * arity * n_classes,
            ).reshape(size, arity, n_classes)
            prob = counts + PRIOR_ROWS * alone
            prob /= prob.sum(axis=1, keepdims=True)
            model.table(slots, i, slot)[:] = np.log(prob)
            if slot == 0:
                alone = prob
    return model


STARTS = {"random": _random_start, "generative": _generative_start}
