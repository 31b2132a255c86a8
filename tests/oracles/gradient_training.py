"""Slow, obvious twin of gradient training: dictionaries, loops over rows, Adam by the book."""

from __future__ import annotations

import numpy as np


def log_softmax(logits, axis):
    top = logits.max(axis=axis, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(axis=axis, keepdims=True))


class Twin:
    """Tables as free logits, one array (n_contexts, arity, n_classes) per (feature, slot).

    ``columns[i][s]`` is the context column of slot s, None for the class alone.
    """

    def __init__(self, columns, sizes, arities, tables, prior, *, share=False):
        self.columns, self.sizes, self.arities = columns, sizes, arities
        self.tables = {key: table.copy() for key, table in tables.items()}
        self.prior = prior.copy()
        self.phi = {i: np.zeros(len(slots)) for i, slots in enumerate(columns)}
        self.moments = {}
        self.share = share

    def answer(self, i, s, contexts, r):
        """Return the (slot, context) that answers, or None."""
        column = self.columns[i][s]
        if column is None:
            return s, 0
        context = int(contexts[r, column])
        if context < self.sizes[i][s]:
            return s, context
        return (0, 0) if s > 0 else None

    def term(self, i, s, contexts, children, r):
        """Return log p(x_i | slot s, c) for all classes; zeros where it is unknown."""
        x = int(children[r, i])
        found = self.answer(i, s, contexts, r)
        if x >= self.arities[i] or found is None:
            return np.zeros(self.prior.shape[0])
        slot, context = found
        return log_softmax(self.tables[i, slot][context], 0)[x]

    def log_joint(self, contexts, children, choice):
        """Return the log-joint for choices s_i (weights over slots, one-hot or soft)."""
        n_rows = children.shape[0]
        out = np.tile(log_softmax(self.prior, 0), (n_rows, 1))
        for r in range(n_rows):
            for i, weights in enumerate(choice):
                for s, weight in enumerate(weights):
                    if weight:
                        out[r] += weight * self.term(i, s, contexts, children, r)
        return out

    def one_hot(self, chosen):
        return [np.eye(len(self.columns[i]))[s] for i, s in enumerate(chosen)]

    def adam(self, key, value, gradient, rate):
        """Take one Adam step on one array with its own step count; returns the new value."""
        first, second, t = self.moments.get(key, (0.0, 0.0, 0))
        t += 1
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        self.moments[key] = (first, second, t)
        return value - rate * (first / (1 - 0.9**t)) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)

    def step(self, contexts, children, gradient, noisy, chosen, rate, structure_rate, tau):
        """Take one step from the loss's gradient (n_rows, n_classes) by the log-joint."""
        if noisy is not None:
            self._step_phi(contexts, children, gradient, noisy, structure_rate, tau)
        by_log = {}
        for r in range(children.shape[0]):
            for i, s in enumerate(chosen):
                found = self.answer(i, s, contexts, r)
                x = int(children[r, i])
                if x >= self.arities[i] or found is None:
                    continue
                key = (i, *found)
                blank = np.zeros((self.arities[i], self.prior.shape[0]))
                by_log.setdefault(key, blank)[x] += gradient[r]
        together = {}
        for (i, slot, context), g in by_log.items():
            block = self.tables[i, slot][context]
            by_logit = g - np.exp(log_softmax(block, 0)) * g.sum(axis=0)
            new = self.adam(("table", i, slot, context), block, by_logit, rate)
            self.tables[i, slot][context] = new
            if self.share and self.sizes[i][slot] > 1:
                together[i, slot] = together.get((i, slot), 0.0) + by_logit
        for (i, slot), g in together.items():
            move = self.adam(("shared", i, slot), 0.0, g, rate)
            self.tables[i, slot] = self.tables[i, slot] + move
        g = gradient.sum(axis=0)
        by_logit = g - np.exp(log_softmax(self.prior, 0)) * g.sum()
        self.prior = self.adam("prior", self.prior, by_logit, rate)

    def _step_phi(self, contexts, children, gradient, noisy, rate, tau):
        for i, slots in enumerate(self.columns):
            by_choice = np.array(
                [
                    sum(
                        gradient[r] @ self.term(i, s, contexts, children, r)
                        for r in range(children.shape[0])
                    )
                    for s in range(len(slots))
                ]
            )
            soft = np.exp(log_softmax(noisy[i][: len(slots)] / tau, 0))
            jacobian = (np.diag(soft) - np.outer(soft, soft)) / tau
            self.phi[i] = self.adam(("phi", i), self.phi[i], jacobian @ by_choice, rate)
