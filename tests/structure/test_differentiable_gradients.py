"""Gradients by finite differences, and the trainer step by step against its slow twin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tanager.losses import (
    ConditionalLogLikelihood,
    HybridMargin,
    Margin,
    NegativeLogLikelihood,
)
from tanager.structure.differentiable.model import Layout, Model, TrainingRows, log_joint
from tanager.structure.differentiable.sampling import Arborescence, BestParent
from tanager.structure.differentiable.training import Plan, Schedule, _Trainer, entropy, train
from tests.oracles.gradient_training import Twin, log_softmax

LOSSES = [
    NegativeLogLikelihood(),
    ConditionalLogLikelihood(),
    Margin(3.0, 2.0),
    HybridMargin(5.0, 2.0, 3.0),
]
N_CLASSES = 3
ARITIES = np.array([2, 3, 4])
COLUMNS = [[None], [None, 0], [None, 0, 1]]
SIZES = [[1], [1, 2], [1, 2, 3]]


@pytest.fixture
def problem():
    """Return a layout, its model and rows, some of whose values are unknown."""
    rng = np.random.default_rng(11)
    columns = [[-1 if c is None else c for c in slots] for slots in COLUMNS]
    layout = Layout.build(columns, SIZES, ARITIES, N_CLASSES)
    model = Model.start(layout, N_CLASSES, np.random.default_rng(2))
    codes = np.stack([rng.integers(0, a + 1, 40) for a in ARITIES], axis=1).astype(np.uint8)
    weights = rng.uniform(0.5, 2.0, 40)
    rows = TrainingRows(codes, codes, rng.integers(0, N_CLASSES, 40), weights)
    return layout, model, rows


def twin_of(layout, model, *, share=False):
    tables = {
        (i, s): model.table(layout, i, s)
        for i, slots in enumerate(COLUMNS)
        for s in range(len(slots))
    }
    return Twin(COLUMNS, SIZES, ARITIES, tables, model.prior, share=share)


def one_step(layout, model, rows, loss, sampler, schedule):
    plan = Plan(schedule, loss, lambda epoch: np.random.default_rng(epoch), sampler)
    trainer = _Trainer(rows, layout, model, plan)
    trainer.epoch(0)
    return trainer


def test_log_joint_matches_the_twin_for_every_choice(problem):
    layout, model, rows = problem
    twin = twin_of(layout, model)
    for chosen in np.ndindex(1, 2, 3):
        ours = log_joint(model, layout, rows, np.array(chosen))
        theirs = twin.log_joint(rows.contexts, rows.children, twin.one_hot(chosen))
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_table_and_prior_gradients_are_the_derivatives(problem, loss):
    layout, model, rows = problem
    rows = rows._replace(weights=None)
    before = model.copy()
    trainer = one_step(layout, model, rows, loss, BestParent(), Schedule(1, 40, 1e-3))
    chosen = trainer.chosen
    twin = twin_of(layout, before)

    def value():
        joint = twin.log_joint(rows.contexts, rows.children, twin.one_hot(chosen))
        return loss(joint, rows.labels)[0]

    def derivative(array, at, step=1e-6):
        kept = array[at]
        array[at] = kept + step
        above = value()
        array[at] = kept - step
        below = value()
        array[at] = kept
        return (above - below) / (2 * step)

    # From rest, Adam's first moment is a tenth of the gradient.
    for i, slots in enumerate(COLUMNS):
        for s in range(len(slots)):
            table = twin.tables[i, s]
            numeric = np.array([derivative(table, at) for at in np.ndindex(*table.shape)])
            start = layout.cell[i, s]
            ours = model.theta_first[start : start + table.size] / 0.1
            np.testing.assert_allclose(ours, numeric, atol=1e-7)
    numeric = np.array([derivative(twin.prior, at) for at in np.ndindex(N_CLASSES)])
    np.testing.assert_allclose(model.prior_first / 0.1, numeric, atol=1e-7)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("tau", [10.0, 0.5])
def test_structure_gradient_goes_straight_through_the_softmax(problem, loss, tau):
    layout, model, rows = problem
    rows = rows._replace(weights=None)
    before = model.copy()
    schedule = Schedule(1, 40, 1e-3, temperature=(tau, tau))
    trainer = one_step(layout, model, rows, loss, BestParent(), schedule)
    rng = np.random.default_rng(0)
    rng.permutation(40)
    noise = rng.gumbel(size=model.phi.shape)
    twin = twin_of(layout, before)
    hard = twin.one_hot(trainer.chosen)

    def surrogate(i, phi):
        # The loss is linearised at the one-hot draw: s moves by the softmax's change.
        soft = np.exp(log_softmax((phi + noise[i, : phi.size]) / tau, 0))
        rest = np.exp(log_softmax(noise[i, : phi.size] / tau, 0))
        choice = [*hard]
        choice[i] = hard[i] + soft - rest
        return loss(twin.log_joint(rows.contexts, rows.children, choice), rows.labels)[0]

    for i, slots in enumerate(COLUMNS):
        for s in range(len(slots)):
            step = 1e-6 * np.eye(len(slots))[s]
            numeric = (surrogate(i, step) - surrogate(i, -step)) / 2e-6
            assert model.phi_first[i, s] / 0.1 == pytest.approx(numeric, abs=1e-7)


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_ten_batches_match_the_twin(problem, weighted, share, dropout):
    layout, model, rows = problem
    loss = HybridMargin(5.0, 2.0, 3.0)
    if not weighted:
        rows = rows._replace(weights=None)
    twin = twin_of(layout, model, share=share)
    schedule = Schedule(2, 8, 0.05, 0.02, temperature=(3.0, 0.7), share=share, dropout=dropout)
    plan = Plan(schedule, loss, lambda epoch: np.random.default_rng(epoch), BestParent())
    train(rows, layout, model, plan)
    for epoch in range(2):
        rng = np.random.default_rng(epoch)
        for batch in np.array_split(rng.permutation(40), 5):
            noise = rng.gumbel(size=model.phi.shape)
            noisy = [twin.phi[i] + noise[i, : len(slots)] for i, slots in enumerate(COLUMNS)]
            chosen = [int(np.argmax(scores)) for scores in noisy]
            part = rows.take(batch)
            children = part.children
            if dropout:
                kept = dropout <= rng.random((len(COLUMNS), batch.size)).T
                children = np.where(kept, children, ARITIES)
            joint = twin.log_joint(part.contexts, children, twin.one_hot(chosen))
            gradient = loss(joint, part.labels)[1]
            if weighted:
                gradient *= (part.weights / rows.weights.mean())[:, None]
            rates = (schedule.rate(epoch), schedule.structure_learning_rate, schedule.tau(epoch))
            twin.step(part.contexts, children, gradient, noisy, chosen, *rates)
    for (i, s), table in twin.tables.items():
        np.testing.assert_allclose(model.table(layout, i, s), log_softmax(table, 1), atol=1e-10)
    np.testing.assert_allclose(model.prior, log_softmax(twin.prior, 0), atol=1e-10)
    for i, phi in twin.phi.items():
        np.testing.assert_allclose(model.phi[i, : phi.size], phi, atol=1e-10)


@pytest.mark.parametrize("share", [False, True])
def test_the_average_is_that_of_the_last_epochs(problem, share):
    layout, model, rows = problem
    loss, first = HybridMargin(5.0, 2.0, 3.0), model.copy()
    ends = []
    # decay=1: a shorter training is then the beginning of a longer one.
    for epochs in (2, 3, 4):
        schedule = Schedule(epochs, 8, 0.05, decay=1.0, temperature=(1.0, 1.0), share=share)
        plan = Plan(schedule, loss, lambda epoch: np.random.default_rng(epoch), BestParent())
        ends.append(train(rows, layout, first.copy(), plan).result)
    plan = replace(plan, schedule=replace(schedule, average=0.75))
    run = train(rows, layout, first.copy(), plan)
    assert run.n_summed == 3
    for i, slots in enumerate(COLUMNS):
        for s in range(len(slots)):
            mean = np.mean([end.table(layout, i, s) for end in ends], axis=0)
            ours = run.result.table(layout, i, s)
            np.testing.assert_allclose(ours, log_softmax(mean, 1), atol=1e-12)
    mean = np.mean([end.prior for end in ends], axis=0)
    np.testing.assert_allclose(run.result.prior, log_softmax(mean, 0), atol=1e-12)
    assert np.array_equal(run.result.phi, ends[-1].phi)
    assert np.array_equal(run.model.theta, ends[-1].theta)


def test_schedules_go_from_first_to_last():
    schedule = Schedule(500, 100, 3e-2)
    assert schedule.rate(0) == 3e-2
    assert schedule.rate(500) == pytest.approx(3e-5)
    assert schedule.tau(0) == 10.0
    assert schedule.tau(499) == pytest.approx(0.1)
    assert schedule.tau(100) / schedule.tau(99) == pytest.approx(schedule.tau(2) / schedule.tau(1))


def test_small_tables_get_small_batches():
    assert [Schedule.usual_batch(n) for n in (5, 150, 500, 20_000)] == [10, 15, 50, 100]


def test_entropy_of_uniform_logits_is_the_log_of_the_choices():
    used = np.array([[True, False, False], [True, True, True]])
    assert entropy(np.zeros((2, 3)), used) == pytest.approx(np.log(3))
    assert entropy(np.zeros((1, 1)), np.ones((1, 1), np.bool_)) == 0.0


@pytest.mark.parametrize("tau", [2.0, 0.4])
def test_a_free_ordering_goes_back_through_the_marginals_of_all_forests(tau):
    rng = np.random.default_rng(8)
    candidates = [[1, 2], [0, 2], [1, 0], [2]]
    layout = Layout.build(
        [[-1, *c] for c in candidates], [[1] + [2] * len(c) for c in candidates], np.full(4, 2), 2
    )
    scores = np.where(layout.used(), rng.normal(size=layout.column.shape), -np.inf)
    pull = np.where(layout.used(), rng.normal(size=layout.column.shape), 0.0)
    forests = [chosen for chosen in np.ndindex(*layout.n_slots) if is_forest(layout, chosen)]
    assert len(forests) < np.prod(layout.n_slots)

    def mean_pull(values):
        weights = [np.exp(sum(values[i, s] for i, s in enumerate(f)) / tau) for f in forests]
        pulls = [sum(pull[i, s] for i, s in enumerate(f)) for f in forests]
        return np.average(pulls, weights=weights)

    ours = Arborescence(layout).backward(scores, pull, tau)
    for i, s in zip(*np.nonzero(layout.used()), strict=True):
        step = np.zeros_like(scores)
        step[i, s] = 1e-6
        numeric = (mean_pull(scores + step) - mean_pull(scores - step)) / 2e-6
        assert ours[i, s] == pytest.approx(numeric, abs=1e-8)


def is_forest(layout, chosen):
    parents = [int(layout.column[i, s]) for i, s in enumerate(chosen)]
    for i in range(len(parents)):
        at, hops = i, 0
        while at >= 0 and hops <= len(parents):
            at, hops = parents[at], hops + 1
        if at >= 0:
            return False
    return True


def test_a_cycle_of_best_edges_leaves_finite_gradients():
    layout = Layout.build([[-1, 1], [-1, 0]], [[1, 2], [1, 2]], np.full(2, 2), 2)
    scores = np.array([[-900.0, 900.0], [-900.0, 900.0]])
    by_scores = Arborescence(layout).backward(scores, np.array([[0.0, 1.0], [0.0, -1.0]]), 0.1)
    assert np.isfinite(by_scores).all()
    np.testing.assert_allclose(by_scores.sum(axis=1), 0.0, atol=1e-6)
