"""Mini-batch Adam on tables, class prior and the distribution over parents.

One thread does the training: a batch is too little work to share, and its
steps depend on one another. Results therefore depend on the seed alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tanager.errors import ConfigurationError, TanagerError
from tanager.losses import Loss, RowLoss
from tanager.numerics.logs import log_softmax, log_sum_exp
from tanager.progress import Progress
from tanager.structure.differentiable.checkpoint import Checkpoint
from tanager.structure.differentiable.model import Layout, Model, TrainingRows, Workspace, log_joint
from tanager.structure.differentiable.sampling import Sampler

__all__ = ["Plan", "Run", "Schedule", "train"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Schedule:
    r"""How long and how fast to train; section 4.2 of Roth and Pernkopf (2020).

    In epoch e of E the tables' learning rate is
    :math:`r \cdot d^{\,e/E}`, the temperature
    :math:`\tau_0 (\tau_1/\tau_0)^{e/(E-1)}`; the rate of the logits over
    parents is constant. `share`, `average` and `dropout` are those of `Differentiable`.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    structure_learning_rate: float = 1e-2
    decay: float = 1e-3
    temperature: tuple[float, float] = (10.0, 0.1)
    share: bool = False
    average: float = 0.0
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            if not getattr(self, name) >= 1:
                raise ConfigurationError(
                    f"{name}={getattr(self, name)!r} must be at least 1, a whole number."
                )
        for name in ("learning_rate", "structure_learning_rate", "decay"):
            if not 0 < getattr(self, name) <= 1:
                raise ConfigurationError(
                    f"{name}={getattr(self, name)!r} must be above 0 and at most 1."
                )
        if not 0 <= self.average < 1:
            raise ConfigurationError(
                f"average={self.average!r} must be at least 0 and below 1: the part of the "
                "training whose tables are averaged. 0 returns the last ones."
            )
        if not 0 <= self.dropout < 1:
            raise ConfigurationError(
                f"dropout={self.dropout!r} must be at least 0 and below 1: the probability with "
                "which a row leaves a feature out of a batch. 0 leaves none out."
            )
        if not min(self.temperature) > 0:
            raise ConfigurationError(
                f"temperature={self.temperature!r} must be two positive numbers, first and last."
            )

    @staticmethod
    def usual_batch(n_rows: int) -> int:
        """Return a tenth of the rows, but 10 at least and 100 at most."""
        return min(max(n_rows // 10, 10), 100)

    def rate(self, epoch: int) -> float:
        """Return the tables' learning rate in an epoch."""
        return float(self.learning_rate * self.decay ** (epoch / self.epochs))

    def tau(self, epoch: int) -> float:
        """Return the temperature in an epoch."""
        first, last = self.temperature
        return float(first * (last / first) ** (epoch / max(self.epochs - 1, 1)))


@dataclass(frozen=True)
class Plan:
    """All that a training needs besides its rows and its model.

    Attributes
    ----------
    random : callable
        The random stream of an epoch, by its number: what lets a resumed run
        draw as the uninterrupted one.
    sampler : Sampler or None
        Draws structures; None trains the tables of slot 0 alone.
    validation : TrainingRows or None
        Rows that choose the epoch to return; without, the last is returned.
    patience : int or None
        Epochs without a better validation score before training stops.
    """

    schedule: Schedule
    loss: Loss
    random: Callable[[int], np.random.Generator]
    sampler: Sampler | None = None
    validation: TrainingRows | None = None
    patience: int | None = None
    checkpoint: Checkpoint | None = None
    progress: Progress = field(default_factory=Progress)
    stage: str = "gradient training"


@dataclass
class Run:
    """Where a training stands.

    Attributes
    ----------
    trace : dict of lists
        Per epoch: loss, accuracy (both of the batches as they were trained
        on), temperature, entropy (mean, nats), learning_rate, and where there
        are validation rows validation_error and validation_log_loss.
    best : Model or None
        The model of the best epoch on the validation rows; without those, the
        average of the last epochs, once training is over.
    theta_sum, prior_sum : ndarray of float64
        Log-tables and log-prior summed over the `n_summed` epochs so far whose
        average is to be returned.
    """

    model: Model
    epoch: int = 0
    trace: dict[str, list[float]] = field(default_factory=dict)
    best: Model | None = None
    best_epoch: int = -1
    stopped: bool = False
    theta_sum: Floats = field(default_factory=lambda: np.zeros(0))
    prior_sum: Floats = field(default_factory=lambda: np.zeros(0))
    n_summed: int = 0

    @property
    def result(self) -> Model:
        """The model to keep."""
        return self.model if self.best is None else self.best

    def add(self) -> None:
        """Add the model as it stands to the average."""
        if self.n_summed == 0:
            self.theta_sum, self.prior_sum = self.model.theta.copy(), self.model.prior.copy()
        else:
            self.theta_sum += self.model.theta
            self.prior_sum += self.model.prior
        self.n_summed += 1

    def averaged(self, layout: Layout) -> Model:
        """Return a copy of the model, with the averaged tables if averaging has begun."""
        model = self.model.copy()
        if self.n_summed:
            model.theta[:] = self.theta_sum / self.n_summed
            model.prior[:] = self.prior_sum / self.n_summed
            model.normalise(layout)
        return model


def train(rows: TrainingRows, layout: Layout, model: Model, plan: Plan) -> Run:
    """Train a model in place, from its checkpoint if there is one; see `Run.result`."""
    run = Run(model)
    if plan.checkpoint is not None:
        _restore(run, plan.checkpoint)
    schedule = plan.schedule
    if schedule.share and run.epoch == 0:
        run.model.share(layout)
    trainer = _Trainer(rows, layout, run.model, plan)
    epochs = schedule.epochs
    plan.progress.start(plan.stage, epochs, unit="epochs")
    plan.progress.advance(run.epoch)
    while run.epoch < epochs and not run.stopped:
        facts = trainer.epoch(run.epoch)
        if run.epoch >= (1 - schedule.average) * epochs:
            run.add()
        if plan.validation is not None:
            facts |= _validate(run, layout, plan, plan.validation)
        for name, value in facts.items():
            run.trace.setdefault(name, []).append(value)
        run.epoch += 1
        plan.progress.advance(1, **{k: v for k, v in facts.items() if k in _SHOWN})
        over = run.epoch == epochs or run.stopped
        if over and plan.validation is None and run.n_summed:
            run.best, run.best_epoch = run.averaged(layout), run.epoch - 1
        if plan.checkpoint is not None and (over or run.epoch % plan.checkpoint.every == 0):
            _save(run, plan.checkpoint)
    plan.progress.finish()
    return run


_SHOWN = ("loss", "accuracy", "validation_error")


def most_probable(model: Model, layout: Layout, sampler: Sampler | None) -> Ints:
    """Return the slots of the most probable structure."""
    if sampler is None:
        return np.zeros(model.phi.shape[0], np.int64)
    return sampler(np.where(layout.used(), _log_softmax(model.phi, layout.used()), -np.inf))


def scores(model: Model, layout: Layout, rows: TrainingRows, chosen: Ints) -> tuple[float, float]:
    """Return error rate and mean log-loss of the most probable class on some rows."""
    joint = log_joint(model, layout, rows, chosen)
    weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
    wrong = joint.argmax(axis=1) != rows.labels
    log_loss = log_sum_exp(joint, axis=1) - joint[np.arange(rows.n_rows), rows.labels]
    return float(np.average(wrong, weights=weights)), float(np.average(log_loss, weights=weights))


def _validate(run: Run, layout: Layout, plan: Plan, rows: TrainingRows) -> dict[str, float]:
    """Score the epoch just done, keep it if it is the best, stop if patience ran out."""
    model = run.averaged(layout)
    chosen = most_probable(model, layout, plan.sampler)
    error, log_loss = scores(model, layout, rows, chosen)
    errors, losses = (run.trace.get(f"validation_{name}", []) for name in ("error", "log_loss"))
    if run.best is None or (error, log_loss) < (errors[run.best_epoch], losses[run.best_epoch]):
        run.best, run.best_epoch = model, run.epoch
    run.stopped = plan.patience is not None and run.epoch - run.best_epoch >= plan.patience
    return {"validation_error": error, "validation_log_loss": log_loss}


class _Trainer:
    """One training's arrays, so that a batch allocates little."""

    def __init__(self, rows: TrainingRows, layout: Layout, model: Model, plan: Plan) -> None:
        self.rows, self.layout, self.model, self.plan = rows, layout, model, plan
        self.space = Workspace.for_layout(layout, model.prior.shape[0])
        self.used = layout.used()
        self.weights = None if rows.weights is None else rows.weights / rows.weights.mean()
        self.chosen = np.zeros(layout.arity.shape[0], np.int64)

    def epoch(self, number: int) -> dict[str, float]:
        """Train on every row once, in random order; returns the epoch's facts."""
        schedule = self.plan.schedule
        rng = self.plan.random(number)
        n_batches = -(-self.rows.n_rows // schedule.batch_size)
        loss = hits = 0.0
        rate, tau = schedule.rate(number), schedule.tau(number)
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
        if self.plan.sampler is not None:
            facts |= {"temperature": tau, "entropy": entropy(self.model.phi, self.used)}
        return facts

    def _batch(
        self, batch: Ints, rate: float, tau: float, rng: np.random.Generator
    ) -> tuple[float, int]:
        """Take one step; returns the mean loss and the number of rows classified rightly."""
        from tanager.structure.differentiable._kernels import add_log_joint, step_tables

        model, layout = self.model, self.layout
        sampler, noisy = self.plan.sampler, np.zeros(0)
        if sampler is not None:
            noisy = np.where(self.used, model.phi + rng.gumbel(size=model.phi.shape), -np.inf)
            self.chosen = sampler(noisy)
        rows = self.rows.take(batch)
        contexts, children = rows.columns()
        if self.plan.schedule.dropout:
            children = self._leave_out(children, rng)
        joint = np.empty((rows.n_rows, model.prior.shape[0]))
        joint[:] = model.prior
        add_log_joint(layout, contexts, children, self.chosen, model.theta, joint)
        value, gradient = self._loss(joint, rows, batch)
        model.n_steps[0] += 1
        if sampler is not None:
            self._step_phi(sampler, contexts, children, gradient, noisy, tau)
        state, chosen = model.tables, self.chosen
        step_tables(layout, contexts, children, chosen, gradient, rate, state, self.space)
        self._step_prior(gradient, rate)
        return value, int(np.count_nonzero(joint.argmax(axis=1) == rows.labels))

    def _leave_out(
        self, children: NDArray[np.integer], rng: np.random.Generator
    ) -> NDArray[np.integer]:
        """Return children (n_features, n_rows), each unknown with the probability of dropout.

        As parents the values stay known: a feature's term is left out, no other's is changed.
        """
        kept = rng.random(children.shape) >= self.plan.schedule.dropout
        unknown = self.layout.arity[:, None].astype(children.dtype)
        return np.where(kept, children, unknown)

    def _loss(self, joint: Floats, rows: TrainingRows, batch: Ints) -> tuple[float, Floats]:
        """Return the loss and its gradient; a row's weight multiplies its share of both."""
        loss = self.plan.loss
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
        sampler: Sampler,
        contexts: NDArray[np.integer],
        children: NDArray[np.integer],
        gradient: Floats,
        noisy: Floats,
        tau: float,
    ) -> None:
        """Step the logits over parents, straight through the sampler."""
        from tanager.structure.differentiable._kernels import add_choice_gradient

        model = self.model
        by_choice = np.zeros_like(model.phi)
        add_choice_gradient(self.layout, contexts, children, gradient, model.theta, by_choice)
        by_phi = sampler.backward(noisy, by_choice, tau)
        rate = self.plan.schedule.structure_learning_rate
        _adam(model.phi, model.phi_first, model.phi_second, by_phi, int(model.n_steps[0]), rate)

    def _step_prior(self, gradient: Floats, rate: float) -> None:
        model = self.model
        by_log = gradient.sum(axis=0)
        by_logit = by_log - np.exp(model.prior) * by_log.sum()
        step = int(model.n_steps[0])
        _adam(model.prior, model.prior_first, model.prior_second, by_logit, step, rate)
        model.prior -= log_sum_exp(model.prior, axis=0)


def _adam(
    value: Floats, first: Floats, second: Floats, gradient: Floats, step: int, rate: float
) -> None:
    """Take one step of Adam (Kingma and Ba, 2015, algorithm 1) in place."""
    from tanager.structure.differentiable._kernels import BETA_1, BETA_2, EPSILON

    first *= BETA_1
    first += (1 - BETA_1) * gradient
    second *= BETA_2
    second += (1 - BETA_2) * gradient * gradient
    spread = np.sqrt(second / (1 - BETA_2**step)) + EPSILON
    value -= rate * (first / (1 - BETA_1**step)) / spread


def entropy(phi: Floats, used: NDArray[np.bool_]) -> float:
    """Return the mean entropy, in nats, of the features that have a choice."""
    log_prob = _log_softmax(phi, used)
    each = -(np.exp(log_prob) * np.where(used, log_prob, 0.0)).sum(axis=1)
    choice = used.sum(axis=1) > 1
    return float(each[choice].mean()) if choice.any() else 0.0


def _log_softmax(phi: Floats, used: NDArray[np.bool_]) -> Floats:
    return log_softmax(np.where(used, phi, -np.inf), axis=1)


def _save(run: Run, checkpoint: Checkpoint) -> None:
    arrays: dict[str, NDArray[Any]] = {f"model.{k}": v for k, v in run.model.arrays().items()}
    if run.best is not None:
        arrays |= {f"best.{k}": v for k, v in run.best.arrays().items()}
    arrays |= {f"trace.{k}": np.array(v) for k, v in run.trace.items()}
    position = [run.epoch, run.best_epoch, run.stopped, run.n_summed]
    arrays["position"] = np.array(position, np.int64)
    arrays |= {"theta_sum": run.theta_sum, "prior_sum": run.prior_sum}
    checkpoint.save(arrays)


def _restore(run: Run, checkpoint: Checkpoint) -> None:
    arrays = checkpoint.load()
    if arrays is None:
        return

    def part(prefix: str) -> dict[str, NDArray[Any]]:
        return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}

    run.model = Model(**part("model."))
    run.best = Model(**part("best.")) if part("best.") else None
    run.trace = {name: values.tolist() for name, values in part("trace.").items()}
    epoch, best_epoch, stopped, n_summed = arrays["position"].tolist()
    run.epoch, run.best_epoch, run.stopped = epoch, best_epoch, bool(stopped)
    run.theta_sum, run.prior_sum = arrays["theta_sum"], arrays["prior_sum"]
    run.n_summed = n_summed
