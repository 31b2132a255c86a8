"""Forward, structure gradient and Adam step of gradient training, one mini-batch a call.

Shapes: n features, S slots (candidate parents of a feature; slot 0 is the class
alone), B rows of the batch, C classes. A slot's table is
(n_contexts, arity, C), class last, all tables end to end in `theta`; one
context's (arity, C) cells are a *block*::

    theta   | slot 0 of feature 0 | slot 1 of feature 0 | ... | slot 0 of feature 1 | ...
              block: context 0      context 0, 1, 2, ...

`theta` holds log-probabilities: it is brought back to normal form after every
step, which neither the loss nor Adam can tell from free logits.
"""

from __future__ import annotations

import numpy as np

from tanager.numerics._kernels import exponentials
from tanager.numerics.compiling import kernel

BETA_1 = 0.9
BETA_2 = 0.999
EPSILON = 1e-8


@kernel(inline="always")
def _effective(slots, contexts, i, s, r):
    """Return the slot and context that answer for slot s in row r; slot -1 if none does.

    An unknown parent is answered by the class alone (slot 0), where the
    feature has that choice.
    """
    column = slots.column[i, s]
    if column < 0:
        return s, np.int64(0)
    context = np.int64(contexts[column, r])
    if context < slots.n_contexts[i, s]:
        return s, context
    if s > 0:
        return np.int64(0), np.int64(0)
    return np.int64(-1), np.int64(0)


@kernel
def add_log_joint(slots, contexts, children, chosen, theta, out):
    """Add log p(x_i | chosen parent, c) of every feature to out (B, C); equation 9."""
    n_rows, n_classes = out.shape
    for i in range(children.shape[0]):
        arity = slots.arity[i]
        for r in range(n_rows):
            x = np.int64(children[i, r])
            if x >= arity:
                continue
            slot, context = _effective(slots, contexts, i, chosen[i], r)
            if slot < 0:
                continue
            at = slots.cell[i, slot] + (context * arity + x) * n_classes
            for c in range(n_classes):
                out[r, c] += theta[at + c]


@kernel
def add_choice_gradient(slots, contexts, children, gradient, theta, out):
    """Write dL/ds, the loss's derivative by the one-hot choice, to out (n, S).

    gradient (B, C) is the loss's derivative by the log-joint. The rules of
    `_effective` are spelled out here: this is the innermost loop over all
    candidates, and what does not change with the row is read once a slot.
    """
    n_rows, n_classes = gradient.shape
    sums = np.empty(n_classes)
    for i in range(children.shape[0]):
        arity = slots.arity[i]
        alone = slots.cell[i, 0]
        for s in range(slots.n_slots[i]):
            column = slots.column[i, s]
            n_contexts = slots.n_contexts[i, s]
            start = slots.cell[i, s]
            sums[:] = 0.0
            for r in range(n_rows):
                x = np.int64(children[i, r])
                if x >= arity:
                    continue
                context = np.int64(contexts[column, r]) if column >= 0 else np.int64(0)
                if context < n_contexts:
                    at = start + (context * arity + x) * n_classes
                elif s > 0:
                    at = alone + x * n_classes
                else:
                    continue
                for c in range(n_classes):
                    sums[c] += gradient[r, c] * theta[at + c]
            total = 0.0
            for c in range(n_classes):
                total += sums[c]
            out[i, s] = total


# Python's error model checks every division for zero, which keeps the loops scalar;
# the divisor in `_adam` is at least EPSILON.
@kernel(error_model="numpy")
def _to_logits(sums, space, arity, theta):
    """Turn sums, the derivative by a block's log-probabilities, into that by its logits.

    All arrays (arity * C,). From g follows g(x, c) - p(x | c) sum_x' g(x', c).
    """
    totals = space.totals
    n_classes = totals.shape[0]
    size = sums.shape[0]
    prob = space.prob[:size]
    totals[:] = 0.0
    for x in range(arity):
        for c in range(n_classes):
            totals[c] += sums[x * n_classes + c]
    exponentials(theta, prob, space.powers[:size])
    for x in range(arity):
        for c in range(n_classes):
            k = x * n_classes + c
            sums[k] -= prob[k] * totals[c]


@kernel(error_model="numpy")
def _adam(gradient, step, rate, value, first, second):
    """Take one Adam step on value, and clear gradient; all arrays of one shape."""
    correct_1 = 1.0 / (1.0 - BETA_1**step)
    correct_2 = 1.0 / (1.0 - BETA_2**step)
    for k in range(gradient.shape[0]):
        g = gradient[k]
        gradient[k] = 0.0
        m = BETA_1 * first[k] + (1.0 - BETA_1) * g
        v = BETA_2 * second[k] + (1.0 - BETA_2) * g * g
        first[k] = m
        second[k] = v
        value[k] -= rate * (m * correct_1) / (np.sqrt(v * correct_2) + EPSILON)


@kernel(error_model="numpy")
def _normalise(space, arity, theta):
    """Bring one block (arity * C,) back to log-probabilities.

    No maximum is taken out: a step moves a log-probability by little, so the
    exponentials can neither overflow nor all vanish.
    """
    totals = space.totals
    n_classes = totals.shape[0]
    prob = space.prob[: theta.shape[0]]
    exponentials(theta, prob, space.powers[: theta.shape[0]])
    totals[:] = 0.0
    for x in range(arity):
        for c in range(n_classes):
            totals[c] += prob[x * n_classes + c]
    for c in range(n_classes):
        totals[c] = np.log(totals[c])
    for x in range(arity):
        for c in range(n_classes):
            theta[x * n_classes + c] -= totals[c]


@kernel
def _step_shared(slots, i, slot, rate, state, space):
    """Move all contexts of a table by one Adam step along `space.shared`, which is cleared."""
    n_contexts = slots.n_contexts[i, slot]
    size = slots.arity[i] * space.totals.shape[0]
    move = space.move[:size]
    move[:] = 0.0
    at = slots.shared[i, slot]
    table = slots.table[i, slot]
    state.shared_steps[table] += 1
    first, second = state.shared_first[at : at + size], state.shared_second[at : at + size]
    _adam(space.shared[:size], state.shared_steps[table], rate, move, first, second)
    for context in range(n_contexts):
        start = slots.cell[i, slot] + context * size
        block = state.theta[start : start + size]
        for k in range(size):
            block[k] += move[k]
        _normalise(space, slots.arity[i], block)


@kernel
def step_tables(slots, contexts, children, chosen, gradient, rate, state, space):
    """Take an Adam step on every block that a row of the batch falls into.

    Where the state has moments for steps that a table's contexts share, all of
    them move along the sum of the blocks' gradients besides. Writes `state` (a
    `TableState`); `space` (a `Workspace`) is left as it was found, with sums
    and shared zero and seen False.
    """
    n_rows, n_classes = gradient.shape
    sums, touched, seen = space.sums, space.touched, space.seen
    for i in range(children.shape[0]):
        arity = slots.arity[i]
        size = arity * n_classes
        # The chosen slot, then slot 0 for the rows that fell back to it.
        for turn in range(2):
            target = chosen[i] if turn == 0 else 0
            if turn == 1 and chosen[i] == 0:
                continue
            n_touched = 0
            for r in range(n_rows):
                x = np.int64(children[i, r])
                if x >= arity:
                    continue
                slot, context = _effective(slots, contexts, i, chosen[i], r)
                if slot != target:
                    continue
                if not seen[context]:
                    seen[context] = True
                    touched[n_touched] = context
                    n_touched += 1
                at = context * size + x * n_classes
                for c in range(n_classes):
                    sums[at + c] += gradient[r, c]
            # With one context the two steps would be the same one, taken twice.
            share = state.shared_steps.shape[0] > 0 and slots.n_contexts[i, target] > 1
            for u in range(n_touched):
                context = touched[u]
                seen[context] = False
                block = slots.block[i, target] + context
                state.steps[block] += 1
                at = slots.cell[i, target] + context * size
                part = sums[context * size : (context + 1) * size]
                theta = state.theta[at : at + size]
                _to_logits(part, space, arity, theta)
                if share:
                    for k in range(size):
                        space.shared[k] += part[k]
                first, second = state.first[at : at + size], state.second[at : at + size]
                _adam(part, state.steps[block], rate, theta, first, second)
                if not share:
                    _normalise(space, arity, theta)
            if share and n_touched > 0:
                _step_shared(slots, i, target, rate, state, space)
