"""Twins of training.c, on the dictionaries of `tests.oracles.gradient_training`."""

from __future__ import annotations

import numpy as np

from tanager.training import adam_step
from tests.oracles.gradient_training import Twin, log_softmax


def _twin(column, n_contexts, cell, arity, n_slots, theta, n_classes, *, share=False):
    """Return the plain model of some slots; those past n_slots are padding."""
    columns = [
        [None if c < 0 else int(c) for c in row[:n]] for row, n in zip(column, n_slots, strict=True)
    ]
    sizes = [[int(n) for n in row] for row in n_contexts]
    tables = {}
    for i, slots in enumerate(columns):
        for s in range(len(slots)):
            shape = (sizes[i][s], int(arity[i]), n_classes)
            start = int(cell[i, s])
            tables[i, s] = theta[start : start + int(np.prod(shape))].reshape(shape)
    return Twin(columns, sizes, [int(a) for a in arity], tables, np.zeros(n_classes), share=share)


def add_slot_terms(column, n_contexts, cell, arity, contexts, children, chosen, theta, out):
    """Add the chosen slots' terms of every feature."""
    every = [column.shape[1]] * len(arity)
    twin = _twin(column, n_contexts, cell, arity, every, theta, out.shape[1])
    for r in range(out.shape[0]):
        for i, s in enumerate(chosen):
            out[r] += twin.term(i, int(s), contexts.T, children.T, r)


def add_choice_gradient(
    column, n_contexts, cell, arity, n_slots, contexts, children, gradient, theta, out
):
    """Write the derivative by the one-hot choice."""
    twin = _twin(column, n_contexts, cell, arity, n_slots, theta, gradient.shape[1])
    for i in range(len(arity)):
        for s in range(n_slots[i]):
            terms = [
                gradient[r] @ twin.term(i, s, contexts.T, children.T, r)
                for r in range(gradient.shape[0])
            ]
            out[i, s] = sum(terms)


def step_tables(
    column,
    n_contexts,
    block,
    cell,
    table,
    shared,
    arity,
    contexts,
    children,
    chosen,
    gradient,
    rate,
    step,
    theta,
    first,
    second,
    steps,
    shared_first,
    shared_second,
    shared_steps,
    sums,
    seen,
):
    """Take an Adam step on every block that a row falls into, or with a step on all of them."""
    del sums, seen
    if step:
        state = theta, first, second, steps
        _step_all(column, n_contexts, block, cell, arity, contexts, children, chosen, gradient,
                  rate, step, *state)  # fmt: skip
        return
    n_classes, every = gradient.shape[1], [column.shape[1]] * len(arity)
    share = len(shared_steps) > 0
    twin = _twin(column, n_contexts, cell, arity, every, theta, n_classes, share=share)

    def block_of(i, s, context):
        start = int(cell[i, s]) + context * int(arity[i]) * n_classes
        return slice(start, start + int(arity[i]) * n_classes)

    blocks = {}
    for i, s in np.ndindex(*column.shape):
        shape = (int(arity[i]), n_classes)
        for context in range(n_contexts[i, s]):
            cells, key = block_of(i, s, context), ("table", i, s, context)
            blocks[key] = (cells, int(block[i, s]) + context)
            twin.moments[key] = (
                first[cells].reshape(shape),
                second[cells].reshape(shape),
                int(steps[blocks[key][1]]),
            )
        if share:
            at = slice(int(shared[i, s]), int(shared[i, s]) + int(np.prod(shape)))
            twin.moments["shared", i, s] = (
                shared_first[at].reshape(shape),
                shared_second[at].reshape(shape),
                int(shared_steps[table[i, s]]),
            )
    slots = [int(s) for s in chosen]
    twin.step(contexts.T, children.T, gradient, None, slots, rate, 0.0, 1.0)
    for (_, i, s, context), (cells, at) in blocks.items():
        theta[cells] = log_softmax(twin.tables[i, s][context], 0).ravel()
        one, two, steps[at] = twin.moments["table", i, s, context]
        first[cells], second[cells] = np.ravel(one), np.ravel(two)
        if share and context == 0:
            at = slice(int(shared[i, s]), int(shared[i, s]) + len(np.ravel(one)))
            one, two, shared_steps[table[i, s]] = twin.moments["shared", i, s]
            shared_first[at], shared_second[at] = np.ravel(one), np.ravel(two)


def _step_all(
    column, n_contexts, block, cell, arity, contexts, children, chosen, gradient, rate, step,
    theta, first, second, steps,
):  # fmt: skip
    """Take the step of dense Adam: every block moves, with a gradient or without."""
    n_classes, every = gradient.shape[1], [column.shape[1]] * len(arity)
    twin = _twin(column, n_contexts, cell, arity, every, theta, n_classes)
    for i, s in np.ndindex(*column.shape):
        sums = np.zeros((n_contexts[i, s], arity[i], n_classes))
        for r in range(gradient.shape[0]):
            answer = twin.answer(i, int(chosen[i]), contexts.T, r)
            if answer is not None and answer[0] == s and children[i, r] < arity[i]:
                sums[answer[1], children[i, r]] += gradient[r]
                steps[block[i, s] + answer[1]] = step
        logits = twin.tables[i, s]
        by_logit = sums - np.exp(log_softmax(logits, 1)) * sums.sum(axis=1, keepdims=True)
        cells = slice(int(cell[i, s]), int(cell[i, s]) + sums.size)
        adam_step(logits.ravel(), first[cells], second[cells], by_logit.ravel(), step, rate)
        theta[cells] = log_softmax(logits, 1).ravel()
