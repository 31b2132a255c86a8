"""Mini-batch training: Adam on tables, and on the distribution over parents."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.engines import FitContext
from tanager.errors import ConfigurationError, TanagerError
from tanager.losses import Loss, RowLoss
from tanager.numerics import Floats, Ints, log_softmax, log_sum_exp
from tanager.training.model import Model, Slots, TrainingRows, log_joint
from tanager.training.options import Training

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8  # as in src/native/training.c
START, EPOCHS, SPLIT, SEARCH = range(4)  # keys of a fit's random streams
_SHOWN = ("loss", "accuracy", "validation_error")


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


class Sampler(Protocol):
    """Turns slot scores into the best structure under them; with Gumbel noise, into a draw.

    In the backward pass, the choice is replaced by the marginals of the Gibbs distribution at
    temperature tau, whose limit at tau = 0 is the choice.
    """

    def __call__(self, scores: Floats) -> Ints:
        """Return the chosen slot of every feature, from scores (n_features, n_slots)."""

    def backward(self, scores: Floats, by_choice: Floats, tau: float) -> Floats:
        """Return the gradient w.r.t. the scores, given that w.r.t. the one-hot choice."""


@dataclass(frozen=True)
class ParentSearch:
    """How the distribution over parents is trained alongside the tables."""

    sampler: Sampler  # draws structures
    learning_rate: float = 1e-2  # for the logits over parents, in every epoch
    # in the first and last epoch: epoch e of E has tau_0 (tau_1 / tau_0)^(e / (E - 1))
    temperature: tuple[float, float] = (10.0, 0.1)

    def __post_init__(self) -> None:
        if not 0 < self.learning_rate <= 1:
            raise ConfigurationError(
                f"structure_learning_rate={self.learning_rate!r} must be above 0 and at most 1."
            )
        if not min(self.temperature) > 0:
            raise ConfigurationError(
                f"temperature={self.temperature!r} must be two positive numbers, first and last."
            )

    def tau(self, epoch: int, epochs: int) -> float:
        """Return the temperature in an epoch."""
        first, last = self.temperature
        return float(first * (last / first) ** (epoch / max(epochs - 1, 1)))


@dataclass(frozen=True)
class Task:
    """What to train, and how."""

    slots: Slots
    loss: Loss
    training: Training
    # how to learn the structure; None trains only the tables of slot 0
    parents: ParentSearch | None = None
    key: tuple[int, ...] = ()  # key of the random streams
    stage: str = "gradient training"  # its name in progress reports


def loss_name(loss: Loss) -> str:
    """Return a name that identifies a loss across processes."""
    if isinstance(loss, RowLoss):
        return repr(loss)
    kind = loss if hasattr(loss, "__qualname__") else type(loss)
    return f"{kind.__module__}.{kind.__qualname__}"


@dataclass
class Run:
    """The state of a training run."""

    model: Model
    epoch: int = 0
    # per epoch: loss and accuracy (on the batches as they were trained on), learning_rate,
    # temperature, entropy (mean, nats), validation_error and validation_log_loss
    trace: dict[str, list[float]] = field(default_factory=dict)
    # of the best epoch on the validation rows; without any, the average of the last epochs
    best: Model | None = None
    best_epoch: int = -1
    stopped: bool = False
    # log-tables and log-prior summed over the `n_summed` epochs to be averaged
    theta_sum: Floats = field(default_factory=lambda: np.zeros(0))
    prior_sum: Floats = field(default_factory=lambda: np.zeros(0))
    n_summed: int = 0

    @property
    def result(self) -> Model:
        """The model to keep."""
        return self.model if self.best is None else self.best

    def add(self) -> None:
        """Add the current model to the average."""
        if self.n_summed == 0:
            self.theta_sum, self.prior_sum = self.model.theta.copy(), self.model.prior.copy()
        else:
            self.theta_sum += self.model.theta
            self.prior_sum += self.model.prior
        self.n_summed += 1

    def averaged(self, slots: Slots) -> Model:
        """Return a copy of the model, with the averaged tables if averaging has started."""
        model = self.model.copy()
        if self.n_summed:
            model.theta[:] = self.theta_sum / self.n_summed
            model.prior[:] = self.prior_sum / self.n_summed
            model.normalise(slots)
        return model


def train(
    task: Task,
    rows: TrainingRows,
    model: Model,
    context: FitContext,
    validation: TrainingRows | None = None,
) -> Run:
    """Train a model in place; see `Run.result`.

    `validation` rows choose the epoch to return; without any, the last is returned.
    """
    run, slots, training, progress = Run(model), task.slots, task.training, context.progress
    if training.share:
        model.share(slots)
    trainer = _Trainer(task, rows, model)
    progress.start(task.stage, training.epochs, unit="epochs")
    while run.epoch < training.epochs and not run.stopped:
        facts = trainer.epoch(run.epoch, context.generator(*task.key, EPOCHS, run.epoch))
        if run.epoch >= (1 - training.average) * training.epochs:
            run.add()
        if validation is not None:
            facts |= _validate(run, task, validation)
        for name, value in facts.items():
            run.trace.setdefault(name, []).append(value)
        run.epoch += 1
        progress.advance(1, **{k: v for k, v in facts.items() if k in _SHOWN})
    if validation is None and run.n_summed:
        run.best, run.best_epoch = run.averaged(slots), run.epoch - 1
    progress.finish()
    return run


def most_probable(model: Model, slots: Slots, parents: ParentSearch | None) -> Ints:
    """Return the slots of the most probable structure."""
    if parents is None:
        return np.zeros(model.phi.shape[0], np.int64)
    return parents.sampler(np.where(slots.used(), _log_softmax(model.phi, slots.used()), -np.inf))


def scores(model: Model, slots: Slots, rows: TrainingRows, chosen: Ints) -> tuple[float, float]:
    """Return the error rate of the most probable class and the mean log-loss on some rows."""
    joint = log_joint(model, slots, rows, chosen)
    weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
    wrong = joint.argmax(axis=1) != rows.labels
    log_loss = log_sum_exp(joint, axis=1) - joint[np.arange(rows.n_rows), rows.labels]
    return float(np.average(wrong, weights=weights)), float(np.average(log_loss, weights=weights))


def _validate(run: Run, task: Task, rows: TrainingRows) -> dict[str, float]:
    """Score the finished epoch, keep it if it's the best, stop if patience has run out."""
    model = run.averaged(task.slots)
    chosen = most_probable(model, task.slots, task.parents)
    error, log_loss = scores(model, task.slots, rows, chosen)
    errors, losses = (run.trace.get(f"validation_{name}", []) for name in ("error", "log_loss"))
    if run.best is None or (error, log_loss) < (errors[run.best_epoch], losses[run.best_epoch]):
        run.best, run.best_epoch = model, run.epoch
    patience = task.training.early_stopping
    run.stopped = patience is not None and run.epoch - run.best_epoch >= patience
    return {"validation_error": error, "validation_log_loss": log_loss}


class _Trainer:
    """One training run's arrays, so that a batch allocates little."""

    def __init__(self, task: Task, rows: TrainingRows, model: Model) -> None:
        self.task, self.rows, self.slots, self.model = task, rows, task.slots, model
        self.space = self.slots.workspace(model.prior.shape[0])
        self.used = self.slots.used()
        self.weights = None if rows.weights is None else rows.weights / rows.weights.mean()
        self.chosen = np.zeros(self.slots.arity.shape[0], np.int64)

    def epoch(self, number: int, rng: np.random.Generator) -> dict[str, float]:
        """Train on every row once, in random order; return the epoch's metrics."""
        training, parents = self.task.training, self.task.parents
        n_batches = -(-self.rows.n_rows // training.rows_per_batch(self.rows.n_rows))
        loss = hits = 0.0
        rate = training.rate(number)
        tau = 1.0 if parents is None else parents.tau(number, training.epochs)
        for batch in np.array_split(rng.permutation(self.rows.n_rows), n_batches):
            value, right = self._batch(batch, rate, tau, rng)
            loss += value * batch.shape[0]
            hits += right
        loss /= self.rows.n_rows
        if not np.isfinite(loss):
            raise TanagerError(
                f"Training diverged in epoch {number + 1}: the loss is {loss}. "
                "Hint: lower learning_rate, or the loss's lambda_."
            )
        facts = {"loss": loss, "accuracy": hits / self.rows.n_rows, "learning_rate": rate}
        if parents is not None:
            facts |= {"temperature": tau, "entropy": entropy(self.model.phi, self.used)}
        return facts

    def _batch(
        self, batch: Ints, rate: float, tau: float, rng: np.random.Generator
    ) -> tuple[float, int]:
        """Take one step; return the mean loss and the number of correctly classified rows."""
        model, slots = self.model, self.slots
        parents, noisy = self.task.parents, np.zeros(0)
        if parents is not None:
            noisy = np.where(self.used, model.phi + rng.gumbel(size=model.phi.shape), -np.inf)
            self.chosen = parents.sampler(noisy)
        rows = self.rows.take(batch)
        contexts, children = rows.columns()
        if self.task.training.dropout:  # as parents, features stay known
            kept = rng.random(children.shape) >= self.task.training.dropout
            children = np.where(kept, children, slots.arity[:, None].astype(children.dtype))
        joint = np.empty((rows.n_rows, model.prior.shape[0]))
        joint[:] = model.prior
        layout = (slots.column, slots.n_contexts, slots.cell, slots.arity)
        native.add_slot_terms(*layout, contexts, children, self.chosen, model.theta, joint)
        value, gradient = self._loss(joint, rows, batch)
        model.n_steps[0] += 1
        if parents is not None:
            self._step_phi(parents, contexts, children, gradient, noisy, tau)
        step = int(model.n_steps[0]) if self.task.training.dense else 0
        given = (*slots[:7], contexts, children, self.chosen, gradient, rate, step)
        native.step_tables(*given, *model.tables, *self.space)
        self._step_prior(gradient, rate)
        return value, int(np.count_nonzero(joint.argmax(axis=1) == rows.labels))

    def _loss(self, joint: Floats, rows: TrainingRows, batch: Ints) -> tuple[float, Floats]:
        """Return the loss and its gradient; a row's weight multiplies its share of both."""
        loss = self.task.loss
        if self.weights is None:
            value, gradient = loss(joint, rows.labels)
            return float(value), np.ascontiguousarray(gradient, np.float64)
        weights = self.weights[batch]
        if isinstance(loss, RowLoss):
            values, gradient = loss.rows(joint, rows.labels)
            return float((weights * values).mean()), gradient * weights[:, None] / rows.n_rows
        value, gradient = loss(joint, rows.labels)
        return float(value), np.ascontiguousarray(gradient * weights[:, None], np.float64)

    def _step_phi(
        self,
        parents: ParentSearch,
        contexts: NDArray[np.int32],
        children: NDArray[np.int32],
        gradient: Floats,
        noisy: Floats,
        tau: float,
    ) -> None:
        """Update the logits over parents, straight through the sampler."""
        model, slots = self.model, self.slots
        by_choice = np.zeros_like(model.phi)
        layout = (slots.column, slots.n_contexts, slots.cell, slots.arity, slots.n_slots)
        native.add_choice_gradient(*layout, contexts, children, gradient, model.theta, by_choice)
        by_phi = parents.sampler.backward(noisy, by_choice, tau)
        step, rate = int(model.n_steps[0]), parents.learning_rate
        adam_step(model.phi, model.phi_first, model.phi_second, by_phi, step, rate)

    def _step_prior(self, gradient: Floats, rate: float) -> None:
        model = self.model
        by_log = gradient.sum(axis=0)
        by_logit = by_log - np.exp(model.prior) * by_log.sum()
        step = int(model.n_steps[0])
        adam_step(model.prior, model.prior_first, model.prior_second, by_logit, step, rate)
        model.prior -= log_sum_exp(model.prior, axis=0)


def entropy(phi: Floats, used: NDArray[np.bool_]) -> float:
    """Return the mean entropy, in nats, over the features that have a choice."""
    log_prob = _log_softmax(phi, used)
    each = -(np.exp(log_prob) * np.where(used, log_prob, 0.0)).sum(axis=1)
    choice = used.sum(axis=1) > 1
    return float(each[choice].mean()) if choice.any() else 0.0


def _log_softmax(phi: Floats, used: NDArray[np.bool_]) -> Floats:
    return log_softmax(np.where(used, phi, -np.inf), axis=1)
