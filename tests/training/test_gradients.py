"""Gradients by finite differences, and the trainer step by step against its slow twin."""

from __future__ import annotations

import numpy as np
import pytest

from tanager.engines import FitContext
from tanager.losses import (
    ConditionalLogLikelihood,
    HybridMargin,
    Margin,
    NegativeLogLikelihood,
)
from tanager.structure.differentiable import Arborescence
from tanager.training import EPOCHS, ParentSearch, Task, Training, _Trainer, entropy, train
from tanager.training.model import Model, Slots, TrainingRows, log_joint
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
    """Return a slots, its model and rows, some of whose values are unknown."""
    rng = np.random.default_rng(11)
    columns = [[-1 if c is None else c for c in slots] for slots in COLUMNS]
    slots = Slots.build(columns, SIZES, ARITIES, N_CLASSES)
    model = Model.start(slots, np.random.default_rng(2))
    codes = np.stack([rng.integers(0, a + 1, 40) for a in ARITIES], axis=1).astype(np.uint8)
    weights = rng.uniform(0.5, 2.0, 40)
    rows = TrainingRows(codes, rng.integers(0, N_CLASSES, 40), weights)
    return slots, model, rows


def twin_of(slots, model, *, share=False):
    tables = {
        (i, s): model.table(slots, i, s)
        for i, columns in enumerate(COLUMNS)
        for s in range(len(columns))
    }
    return Twin(COLUMNS, SIZES, ARITIES, tables, model.prior, share=share)


def task_of(slots, training, loss, batch_size=8, **search):
    training.set_params(batch_size=batch_size)
    return Task(slots, loss, training, ParentSearch(**search))


def one_step(slots, model, rows, loss, **search):
    task = task_of(slots, Training(1, learning_rate=1e-3, dropout=0.0), loss, 40, **search)
    trainer = _Trainer(task, rows, model)
    trainer.epoch(0, np.random.default_rng(0))
    return trainer


def test_log_joint_matches_the_twin_for_every_choice(problem):
    slots, model, rows = problem
    twin = twin_of(slots, model)
    for chosen in np.ndindex(1, 2, 3):
        ours = log_joint(model, slots, rows.columns(), np.array(chosen))
        theirs = twin.log_joint(rows.codes, rows.codes, twin.one_hot(chosen))
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_table_and_prior_gradients_are_the_derivatives(problem, loss):
    slots, model, rows = problem
    rows = rows._replace(weights=None)
    before = model.copy()
    trainer = one_step(slots, model, rows, loss)
    chosen = trainer.chosen
    twin = twin_of(slots, before)

    def value():
        joint = twin.log_joint(rows.codes, rows.codes, twin.one_hot(chosen))
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
    for i, columns in enumerate(COLUMNS):
        for s in range(len(columns)):
            table = twin.tables[i, s]
            numeric = np.array([derivative(table, at) for at in np.ndindex(*table.shape)])
            start = slots.cell[i, s]
            ours = model.theta_first[start : start + table.size] / 0.1
            np.testing.assert_allclose(ours, numeric, atol=1e-7)
    numeric = np.array([derivative(twin.prior, at) for at in np.ndindex(N_CLASSES)])
    np.testing.assert_allclose(model.prior_first / 0.1, numeric, atol=1e-7)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("tau", [10.0, 0.5])
def test_structure_gradient_goes_straight_through_the_softmax(problem, loss, tau):
    slots, model, rows = problem
    rows = rows._replace(weights=None)
    before = model.copy()
    trainer = one_step(slots, model, rows, loss, temperature=(tau, tau))
    rng = np.random.default_rng(0)
    rng.permutation(40)
    noise = rng.gumbel(size=model.phi.shape)
    twin = twin_of(slots, before)
    hard = twin.one_hot(trainer.chosen)

    def surrogate(i, phi):
        # The loss is linearised at the one-hot draw: s moves by the softmax's change.
        soft = np.exp(log_softmax((phi + noise[i, : phi.size]) / tau, 0))
        rest = np.exp(log_softmax(noise[i, : phi.size] / tau, 0))
        choice = [*hard]
        choice[i] = hard[i] + soft - rest
        return loss(twin.log_joint(rows.codes, rows.codes, choice), rows.labels)[0]

    for i, columns in enumerate(COLUMNS):
        for s in range(len(columns)):
            step = 1e-6 * np.eye(len(columns))[s]
            numeric = (surrogate(i, step) - surrogate(i, -step)) / 2e-6
            assert model.phi_first[i, s] / 0.1 == pytest.approx(numeric, abs=1e-7)


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_ten_batches_match_the_twin(problem, weighted, share, dropout):
    slots, model, rows = problem
    loss = HybridMargin(5.0, 2.0, 3.0)
    if not weighted:
        rows = rows._replace(weights=None)
    twin = twin_of(slots, model, share=share)
    training = Training(2, learning_rate=0.05, share=share, dropout=dropout)
    task = task_of(slots, training, loss, learning_rate=0.02, temperature=(3.0, 0.7))
    context = FitContext(seed=np.random.SeedSequence(5))
    train(task, rows, model, context)
    for epoch in range(2):
        rng = context.generator(*task.key, EPOCHS, epoch)
        for batch in np.array_split(rng.permutation(40), 5):
            noise = rng.gumbel(size=model.phi.shape)
            noisy = [twin.phi[i] + noise[i, : len(each)] for i, each in enumerate(COLUMNS)]
            chosen = [int(np.argmax(scores)) for scores in noisy]
            part = rows.take(batch)
            children = part.codes
            if dropout:
                kept = dropout <= rng.random((len(COLUMNS), batch.size)).T
                children = np.where(kept, children, ARITIES)
            joint = twin.log_joint(part.codes, children, twin.one_hot(chosen))
            gradient = loss(joint, part.labels)[1]
            if weighted:
                gradient *= (part.weights / rows.weights.mean())[:, None]
            rates = (training.rate(epoch), task.parents.learning_rate, task.parents.tau(epoch, 2))
            twin.step(part.codes, children, gradient, noisy, chosen, *rates)
    for (i, s), table in twin.tables.items():
        np.testing.assert_allclose(model.table(slots, i, s), log_softmax(table, 1), atol=1e-10)
    np.testing.assert_allclose(model.prior, log_softmax(twin.prior, 0), atol=1e-10)
    for i, phi in twin.phi.items():
        np.testing.assert_allclose(model.phi[i, : phi.size], phi, atol=1e-10)


@pytest.mark.parametrize("share", [False, True])
def test_the_average_is_that_of_the_last_epochs(problem, share):
    slots, model, rows = problem
    loss, first = HybridMargin(5.0, 2.0, 3.0), model.copy()
    ends, context = [], FitContext(seed=np.random.SeedSequence(5))
    # decay=1: a shorter training is then the beginning of a longer one.
    for epochs in (2, 3, 4):
        options = {"learning_rate": 0.05, "decay": 1.0, "share": share, "dropout": 0.0}
        task = task_of(slots, Training(epochs, **options), loss, temperature=(1.0, 1.0))
        ends.append(train(task, rows, first.copy(), context)[0])
    task = task_of(slots, Training(4, average=0.75, **options), loss, temperature=(1.0, 1.0))
    given = first.copy()
    found, _ = train(task, rows, given, context)
    for i, columns in enumerate(COLUMNS):
        for s in range(len(columns)):
            mean = np.mean([end.table(slots, i, s) for end in ends], axis=0)
            ours = found.table(slots, i, s)
            np.testing.assert_allclose(ours, log_softmax(mean, 1), atol=1e-12)
    mean = np.mean([end.prior for end in ends], axis=0)
    np.testing.assert_allclose(found.prior, log_softmax(mean, 0), atol=1e-12)
    assert np.array_equal(found.phi, ends[-1].phi)
    assert np.array_equal(given.theta, ends[-1].theta)


def test_joint_values_count_up_with_the_last_member_and_unknown_is_past_the_last(problem):
    _, _, rows = problem
    found = rows.join([(0, 1), (2, 0, 1)], ARITIES)
    for clique, column in zip([(0, 1), (2, 0, 1)], found.joined.T, strict=True):
        every = list(np.ndindex(*ARITIES[list(clique)]))
        for values, joint in zip(rows.codes[:, clique].tolist(), column.tolist(), strict=True):
            known = tuple(values) in every
            assert joint == (every.index(tuple(values)) if known else len(every))
    contexts, children = found.take(np.arange(5, 9)).columns()
    assert np.array_equal(children, rows.codes[5:9].T)
    assert np.array_equal(contexts, np.vstack([children, found.joined[5:9].T]))


def test_schedules_go_from_first_to_last():
    training, search = Training(500, learning_rate=3e-2), ParentSearch()
    assert training.rate(0) == 3e-2
    assert training.rate(500) == pytest.approx(3e-5)
    assert search.tau(0, 500) == 10.0
    assert search.tau(499, 500) == pytest.approx(0.1)
    early, late = (search.tau(e + 1, 500) / search.tau(e, 500) for e in (1, 99))
    assert late == pytest.approx(early)


def test_small_tables_get_small_batches():
    assert [Training().rows_per_batch(n) for n in (5, 150, 500, 20_000)] == [10, 15, 50, 100]


def test_entropy_of_uniform_logits_is_the_log_of_the_choices():
    slots = Slots.build([[-1], [-1, 0, 0]], [[1], [1, 2, 2]], np.array([2, 2]), 2)
    model = Model.start(slots, np.random.default_rng(0))
    assert entropy(model.log_choice(slots)) == pytest.approx(np.log(3))
    assert entropy(np.zeros((1, 1))) == 0.0


@pytest.mark.parametrize("tau", [2.0, 0.4])
def test_a_free_ordering_goes_back_through_the_marginals_of_all_forests(tau):
    rng = np.random.default_rng(8)
    candidates = [[1, 2], [0, 2], [1, 0], [2]]
    slots = Slots.build(
        [[-1, *c] for c in candidates], [[1] + [2] * len(c) for c in candidates], np.full(4, 2), 2
    )
    scores = np.where(slots.used(), rng.normal(size=slots.column.shape), -np.inf)
    pull = np.where(slots.used(), rng.normal(size=slots.column.shape), 0.0)
    forests = [chosen for chosen in np.ndindex(*slots.n_slots) if is_forest(slots, chosen)]
    assert len(forests) < np.prod(slots.n_slots)

    def mean_pull(values):
        weights = [np.exp(sum(values[i, s] for i, s in enumerate(f)) / tau) for f in forests]
        pulls = [sum(pull[i, s] for i, s in enumerate(f)) for f in forests]
        return np.average(pulls, weights=weights)

    ours = Arborescence(slots).backward(scores, pull, tau)
    for i, s in zip(*np.nonzero(slots.used()), strict=True):
        step = np.zeros_like(scores)
        step[i, s] = 1e-6
        numeric = (mean_pull(scores + step) - mean_pull(scores - step)) / 2e-6
        assert ours[i, s] == pytest.approx(numeric, abs=1e-8)


def is_forest(slots, chosen):
    parents = [int(slots.column[i, s]) for i, s in enumerate(chosen)]
    for i in range(len(parents)):
        at, hops = i, 0
        while at >= 0 and hops <= len(parents):
            at, hops = parents[at], hops + 1
        if at >= 0:
            return False
    return True


def test_a_cycle_of_best_edges_leaves_finite_gradients():
    slots = Slots.build([[-1, 1], [-1, 0]], [[1, 2], [1, 2]], np.full(2, 2), 2)
    scores = np.array([[-900.0, 900.0], [-900.0, 900.0]])
    by_scores = Arborescence(slots).backward(scores, np.array([[0.0, 1.0], [0.0, -1.0]]), 0.1)
    assert np.isfinite(by_scores).all()
    np.testing.assert_allclose(by_scores.sum(axis=1), 0.0, atol=1e-6)
