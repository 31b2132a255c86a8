"""Adam on all tables in every batch, against its definition and the kernel's own step."""

from __future__ import annotations

import numpy as np
import pytest

from tanager import native
from tanager.errors import ConfigurationError
from tanager.numerics import log_softmax
from tanager.training import Training
from tanager.training.model import NO_PARENT, Model, Slots
from tests.oracles.dense_adam import dense_gradient, step_all


def model_of(seed=0):
    """Return a feature with a parent of three values, and one without; two classes."""
    slots = Slots.build([[NO_PARENT], [NO_PARENT, 0]], [[1], [1, 3]], np.array([3, 2]), 2)
    return slots, Model.start(slots, np.random.default_rng(seed))


def test_the_gradient_is_that_of_finite_differences():
    slots, model = model_of()
    rng = np.random.default_rng(1)
    children = np.array([[0, 2, 1, 3], [1, 0, 1, 1]], np.uint8)  # 3: unknown
    weights = rng.normal(size=(4, 2))
    chosen = np.array([0, 1])

    def value(logits):
        total = 0.0
        for i, slot in enumerate(chosen):
            at, shape = slots.cell[i, slot], (slots.n_contexts[i, slot], slots.arity[i], 2)
            alone = log_softmax(logits[slots.cell[i, 0] :][: 2 * slots.arity[i]].reshape(-1, 2), 0)
            table = log_softmax(logits[at : at + np.prod(shape)].reshape(shape), axis=1)
            for r in range(4):
                x, context = children[i, r], children[0, r] if slot else 0
                if x < slots.arity[i]:
                    term = table[context, x] if context < shape[0] else alone[x]
                    total += weights[r] @ term
        return total

    found = dense_gradient(model, slots, children, children, chosen, weights)
    for k in range(model.theta.shape[0]):
        step = np.zeros_like(model.theta)
        step[k] = 1e-6
        expected = (value(model.theta + step) - value(model.theta - step)) / 2e-6
        assert found[k] == pytest.approx(expected, abs=1e-7)


def test_a_table_without_gradient_goes_on_by_its_momentum():
    slots, model = model_of()
    gradient = np.zeros_like(model.theta)
    gradient[:2] = [0.5, -0.5]
    model.n_steps[0] = 1
    step_all(model, slots, gradient, 0.1)
    logits, first, second = model.theta.copy(), 0.1 * gradient, 0.001 * gradient**2
    model.n_steps[0] = 2
    step_all(model, slots, np.zeros_like(gradient), 0.1)
    first, second = 0.9 * first, 0.999 * second
    moved = first / (1 - 0.9**2) / (np.sqrt(second / (1 - 0.999**2)) + 1e-8)
    logits -= 0.1 * moved
    expected = log_softmax(logits[:6].reshape(3, 2), axis=0).ravel()
    np.testing.assert_allclose(model.theta[:6], expected, atol=1e-12)


def test_a_table_that_rests_and_comes_back_is_where_the_definition_has_it():
    slots, model = model_of()
    model.normalise(slots)
    by_definition = model.copy()
    rng = np.random.default_rng(2)
    space = slots.workspace()
    for step in range(1, 1200):
        # Slot 1 of the second feature is drawn at first, then for a while not, then again; its
        # third context is hardly ever in a batch.
        chosen = np.array([0, int(step < 50 or step > 900)])
        children = rng.integers(0, [[2], [2]], (2, 6)).astype(np.int32)
        children[0, 0] = 2 if step % 400 == 7 else children[0, 0]
        gradient = rng.normal(size=(6, 2))
        by_definition.n_steps[0] = step
        by_logit = dense_gradient(by_definition, slots, children, children, chosen, gradient)
        step_all(by_definition, slots, by_logit, 0.05)
        given = (*slots[:7], children, children, chosen, gradient, 0.05, step)
        native.step_tables(*given, *model.tables, *space)
    np.testing.assert_allclose(model.theta, by_definition.theta, atol=1e-12)


def test_where_every_batch_has_every_context_both_steps_are_one():
    from tanager import BayesNetClassifier
    from tanager.parameters import Hybrid

    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (60, 3)).astype(str)
    y = rng.integers(0, 2, 60)
    models = [
        BayesNetClassifier(
            "naive", Hybrid(training=Training(4, batch_size=30, dropout=0.0, dense=dense))
        ).fit(X, y)
        for dense in (False, True)
    ]
    np.testing.assert_allclose(*(m.predict_proba(X) for m in models), atol=1e-9)


def test_dense_and_shared_steps_exclude_each_other():
    with pytest.raises(ConfigurationError, match="Allowed: False with share=True"):
        Training(dense=True, share=True).check()
