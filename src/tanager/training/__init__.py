"""Training of tables by mini-batch Adam: options, a fit, and a random search over losses."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from tanager import native
from tanager.engines import FitContext
from tanager.errors import ConfigurationError, TanagerError
from tanager.estimator import Estimator
from tanager.losses import HybridMargin, Loss, RowLoss, resolve_loss
from tanager.numerics import Floats, Ints, log_sum_exp, one_blas_thread
from tanager.training.model import Model, Slots, TrainingRows, log_joint

__all__ = ["Training"]

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8  # as in src/native/training.c
START, EPOCHS, SPLIT, SEARCH = range(4)  # keys of a fit's random streams
# The paper's two rates, for 500 epochs, and a larger one for shorter runs.
SEARCH_RATES = (3e-3, 3e-2, 1e-1)
SEARCH_DROPOUTS = (0.0, 0.2, 0.4, 0.6)


@dataclass(eq=False, repr=False)
class Training(Estimator):
    r"""How tables are trained by gradient descent, in both `Hybrid` and `Differentiable`.

    Parameters
    ----------
    epochs : int, default=100
        Number of passes over the training rows.
    batch_size : int or None, default=None
        Rows per step; None uses a tenth of the rows, at least 10 and at most 100.
    learning_rate : float, default=0.03
        For the tables, in the first epoch.
    decay : float, default=0.001
        Factor by which `learning_rate` decays, geometrically, over the run.
    share : bool, default=False
        Take a second Adam step with all contexts of a table together, along the sum of their
        gradients. Rare contexts then follow their table, as with back-off; choose it if tables have
        many contexts for the number of rows.
    dense : bool, default=False
        Apply Adam to all tables in every batch, with a single step count: contexts not in the batch
        continue with their momentum, as in Roth and Pernkopf (2020). Up to twice as slow, and meant
        for comparisons; can't be combined with `share`.
    average : float, default=0
        Final share of the training run over which the tables' log-probabilities are averaged, epoch
        by epoch; 0 returns the last. Choose 0.5 together with ``decay=0.1`` for a short run.
    dropout : float, default=0.2
        Probability of dropping a feature's term from a row's log-joint, drawn anew for each batch,
        which regularises a long run. Choose about 0.5 with hundreds of pixels, 0 for a short run.
    validation_fraction : float, default=0.1
        Share of the rows held out for `tune`.
    tune : int, default=0
        Number of random configurations of the hybrid loss (`lambda_`, `gamma`, `eta`),
        `learning_rate` and `dropout` to try on held-out rows first, each by a full training run.

    Notes
    -----
    Adam (Kingma and Ba, 2015) with :math:`\beta_1=0.9, \beta_2=0.999, \epsilon=10^{-8}`. In epoch e
    of E the learning rate is :math:`r \cdot d^{\,e/E}`, with `learning_rate` r and `decay` d.

    Examples
    --------
    >>> from tanager.parameters import Hybrid
    >>> learner = Hybrid("cll", training=Training(epochs=30, dropout=0.0))
    >>> learner.set_params(training__epochs=50).training.epochs
    50
    """

    epochs: int = 100
    _: KW_ONLY
    batch_size: int | None = None
    learning_rate: float = 0.03
    decay: float = 0.001
    share: bool = False
    dense: bool = False
    average: float = 0.0
    dropout: float = 0.2
    validation_fraction: float = 0.1
    tune: int = 0

    def check(self) -> None:
        """Raise a ConfigurationError for invalid options."""
        self._allow_whole("epochs", least=1)
        self._allow_whole("batch_size", least=1, none=True)
        self._allow_numbers("learning_rate", "decay", most=1)
        self._allow_numbers("average", "dropout", zero=True, below=1)
        self._allow_flags("share", "dense")
        self._allow("dense", not (self.dense and self.share), "False with share=True")
        self._allow_numbers("validation_fraction", below=1)
        self._allow_whole("tune", least=0)

    def rows_per_batch(self, n_rows: int) -> int:
        """Return the number of rows per step."""
        return min(max(n_rows // 10, 10), 100) if self.batch_size is None else self.batch_size

    def rate(self, epoch: int) -> float:
        """Return the tables' learning rate in an epoch."""
        return float(self.learning_rate * self.decay ** (epoch / self.epochs))


class Trained(Estimator):
    """A learner with options `loss` and `training`; None uses `Training` with its defaults."""

    loss: str | Loss
    training: Training | None

    def set_params(self, **params: Any) -> Self:
        """Set parameters, including nested ones such as ``training__epochs=50``."""
        if any(name.startswith("training__") for name in params):
            params.setdefault("training", Training() if self.training is None else self.training)
        return super().set_params(**params)

    def resolve_training(self) -> Training:
        """Return the training options after validating them."""
        training = Training() if self.training is None else self.training
        allowed = "None, or Training(...) of tanager.training"
        self._allow("training", isinstance(training, Training), allowed)
        training.check()
        return training

    def train_tables(
        self, slots: Slots, rows: TrainingRows, context: FitContext, **task: Any
    ) -> tuple[Model, dict[str, Any]]:
        """Train the tables of slots with these options, and those of the `Task`; see `fit`."""
        given = slots, resolve_loss(self.loss), self.resolve_training()
        return fit(Task(*given, **task), rows, context)


Trace = dict[str, list[float]]


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


@dataclass
class ParentSearch:
    """How the distribution over parents is trained: by default every feature draws its own.

    In the backward pass, the choice is replaced by the marginals of the Gibbs distribution at
    temperature tau, whose limit at tau = 0 is the choice.
    """

    learning_rate: float = 1e-2  # for the logits over parents, in every epoch
    # in the first and last epoch: epoch e of E has tau_0 (tau_1 / tau_0)^(e / (E - 1))
    temperature: tuple[float, float] = (10.0, 0.1)

    def choose(self, scores: Floats) -> Ints:
        """Return the slots of best score (n_features, n_slots); with Gumbel noise, a draw (11)."""
        return np.asarray(scores.argmax(axis=1), np.int64)

    def backward(self, scores: Floats, by_choice: Floats, tau: float) -> Floats:
        """Return the gradient w.r.t. the scores, from that w.r.t. the choice, by equation 13."""
        soft = np.exp((scores - scores.max(axis=1, keepdims=True)) / tau)
        soft /= soft.sum(axis=1, keepdims=True)
        mean = (soft * by_choice).sum(axis=1, keepdims=True)
        by_scores: Floats = soft * (by_choice - mean) / tau
        return by_scores

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
    parents: ParentSearch | None = None  # how to learn the structure; None trains only slot 0
    key: tuple[int, ...] = ()  # key of the random streams
    stage: str = "gradient training"  # its name in progress reports
    generative: bool = False  # start with smoothed frequencies instead of random tables

    def start(self, rows: TrainingRows, rng: np.random.Generator) -> Model:
        """Return the initial model."""
        model = Model.start(self.slots, rng)
        if self.generative:
            model.set_frequencies(self.slots, rows)
        return model

    def changed(self, **options: Any) -> Task:
        """Return the task with other training options."""
        return replace(self, training=clone(self.training).set_params(**options))

    def configured(self, drawn: dict[str, float]) -> Task:
        """Return the task with a configuration of the random search."""
        loss = HybridMargin(drawn["lambda_"], drawn["gamma"], drawn["eta"])
        task = self.changed(learning_rate=drawn["learning_rate"], dropout=drawn["dropout"])
        return replace(task, loss=loss)


@one_blas_thread()
def fit(task: Task, rows: TrainingRows, context: FitContext) -> tuple[Model, dict[str, Any]]:
    """Train as specified by the task; return the model and diagnostics."""
    training = task.training
    if training.tune and not isinstance(task.loss, HybridMargin):
        raise ConfigurationError(
            f"tune={training.tune} searches lambda_, gamma and eta of the hybrid loss, "
            f"but loss={task.loss!r}. Hint: loss='hybrid', or tune=0."
        )
    # Keep the batch size the same when some rows are held out.
    task = task.changed(batch_size=training.rows_per_batch(rows.n_rows))
    info = dict[str, Any]()
    if training.tune:
        task, info["search"] = _search(task, rows, context)
    model = task.start(rows, context.generator(*task.key, START))
    model, trace = train(task, rows, model, context)
    kind: Any = task.loss if hasattr(task.loss, "__qualname__") else type(task.loss)
    named = isinstance(task.loss, RowLoss)
    info["loss"] = repr(task.loss) if named else f"{kind.__module__}.{kind.__qualname__}"
    info |= {name: getattr(task.training, name) for name in ("learning_rate", "dropout", "epochs")}
    return model, info | {"trace": trace}


def _search(
    task: Task, rows: TrainingRows, context: FitContext
) -> tuple[Task, list[dict[str, float]]]:
    """Return the task with the best configuration of a random search (section 4.2, setting I)."""
    if rows.n_rows < 2:
        raise ConfigurationError(
            f"{rows.n_rows} rows cannot be split for validation. Hint: tune=0 needs no split."
        )
    n_held = min(max(1, round(task.training.validation_fraction * rows.n_rows)), rows.n_rows - 1)
    shuffled = context.generator(*task.key, SPLIT).permutation(rows.n_rows)
    validation, rows = (rows.take(np.sort(part)) for part in np.split(shuffled, [n_held]))
    table: list[dict[str, float]] = []
    for number in range(task.training.tune):
        key = (*task.key, SEARCH, number)
        drawn = _draw(context.generator(*key))
        stage = f"search {number + 1} of {task.training.tune}"
        trial = replace(task.configured(drawn), key=key, stage=stage)
        model = task.start(rows, context.generator(*task.key, START))
        found, _ = train(trial, rows, model, context)
        chosen = most_probable(found, task.slots, task.parents)
        error, log_loss = scores(found, task.slots, validation, chosen)
        table.append(drawn | {"validation_error": error, "validation_log_loss": log_loss})
    best = min(table, key=lambda row: (row["validation_error"], row["validation_log_loss"]))
    return task.configured(best), table


def _draw(rng: np.random.Generator) -> dict[str, float]:
    """Draw lambda in 1..1000 and gamma in 0.1..100 log-uniformly, eta in 1..20, rate, dropout."""
    return {
        "lambda_": float(10.0 ** rng.uniform(0, 3)),
        "gamma": float(10.0 ** rng.uniform(-1, 2)),
        "eta": float(rng.uniform(1, 20)),
        "learning_rate": SEARCH_RATES[int(rng.integers(len(SEARCH_RATES)))],
        "dropout": SEARCH_DROPOUTS[int(rng.integers(len(SEARCH_DROPOUTS)))],
    }


def train(task: Task, rows: TrainingRows, model: Model, context: FitContext) -> tuple[Model, Trace]:
    """Train a model in place; return it, or a copy with the average of the last epochs' tables."""
    slots, training, progress = task.slots, task.training, context.progress
    if training.share:
        model.share(slots)
    trainer, trace = _Trainer(task, rows, model), Trace()
    n_summed, theta, prior = 0, np.zeros(()), np.zeros(())
    progress.start(task.stage, training.epochs, unit="epochs")
    for epoch in range(training.epochs):
        facts = trainer.epoch(epoch, context.generator(*task.key, EPOCHS, epoch))
        if epoch >= (1 - training.average) * training.epochs:
            n_summed += 1
            theta, prior = theta + model.theta, prior + model.prior
        for name, value in facts.items():
            trace.setdefault(name, []).append(value)
        progress.advance(1, loss=facts["loss"], accuracy=facts["accuracy"])
    progress.finish()
    if n_summed:
        model = model.copy()
        model.theta[:], model.prior[:] = theta / n_summed, prior / n_summed
        model.normalise(slots)
    return model, trace


def most_probable(model: Model, slots: Slots, parents: ParentSearch | None) -> Ints:
    """Return the slots of the most probable structure."""
    if parents is None:
        return np.zeros(model.phi.shape[0], np.int64)
    return parents.choose(model.log_choice(slots))


def scores(model: Model, slots: Slots, rows: TrainingRows, chosen: Ints) -> tuple[float, float]:
    """Return the error rate of the most probable class and the mean log-loss on some rows."""
    joint = log_joint(model, slots, rows.columns(), chosen)
    weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
    wrong = joint.argmax(axis=1) != rows.labels
    log_loss = log_sum_exp(joint, axis=1) - joint[np.arange(rows.n_rows), rows.labels]
    return float(np.average(wrong, weights=weights)), float(np.average(log_loss, weights=weights))


class _Trainer:
    """One training run's arrays, so that a batch allocates little."""

    def __init__(self, task: Task, rows: TrainingRows, model: Model) -> None:
        self.task, self.slots, self.model = task, task.slots, model
        self.space, self.used = self.slots.workspace(), self.slots.used()
        weights = None if rows.weights is None else rows.weights / rows.weights.mean()
        self.rows = rows._replace(weights=weights)
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
            facts |= {"temperature": tau, "entropy": entropy(self.model.log_choice(self.slots))}
        return facts

    def _batch(
        self, batch: Ints, rate: float, tau: float, rng: np.random.Generator
    ) -> tuple[float, int]:
        """Take one step; return the mean loss and the number of correctly classified rows."""
        model, slots = self.model, self.slots
        parents, noisy = self.task.parents, np.zeros(0)
        if parents is not None:
            noisy = np.where(self.used, model.phi + rng.gumbel(size=model.phi.shape), -np.inf)
            self.chosen = parents.choose(noisy)
        rows = self.rows.take(batch)
        contexts, children = rows.columns()
        if self.task.training.dropout:  # as parents, features stay known
            kept = rng.random(children.shape) >= self.task.training.dropout
            children = np.where(kept, children, slots.arity[:, None].astype(children.dtype))
        joint = log_joint(model, slots, (contexts, children), self.chosen)
        value, gradient = self._loss(joint, rows)
        model.n_steps[0] += 1
        if parents is not None:  # straight through the draw
            by_choice = np.zeros_like(model.phi)
            native.add_choice_gradient(
                *(slots.column, slots.n_contexts, slots.cell, slots.arity, slots.n_slots),
                *(contexts, children, gradient, model.theta, by_choice),
            )
            step, by_phi = int(model.n_steps[0]), parents.backward(noisy, by_choice, tau)
            moments = model.phi_first, model.phi_second
            adam_step(model.phi, *moments, by_phi, step, parents.learning_rate)
        step = int(model.n_steps[0]) if self.task.training.dense else 0
        given = (*slots[:7], contexts, children, self.chosen, gradient, rate, step)
        native.step_tables(*given, *model.tables, *self.space)
        model, by_log = self.model, gradient.sum(axis=0)
        by_logit = by_log - np.exp(model.prior) * by_log.sum()
        moments = model.prior_first, model.prior_second
        adam_step(model.prior, *moments, by_logit, int(model.n_steps[0]), rate)
        model.prior -= log_sum_exp(model.prior, axis=0)
        return value, int(np.count_nonzero(joint.argmax(axis=1) == rows.labels))

    def _loss(self, joint: Floats, rows: TrainingRows) -> tuple[float, Floats]:
        """Return the loss and its gradient; a row's weight multiplies its share of both."""
        loss, weights = self.task.loss, rows.weights
        if weights is not None and isinstance(loss, RowLoss):
            values, gradient = loss.rows(joint, rows.labels)
            return float((weights * values).mean()), gradient * weights[:, None] / rows.n_rows
        value, gradient = loss(joint, rows.labels)
        gradient = gradient if weights is None else gradient * weights[:, None]
        return float(value), np.ascontiguousarray(gradient, np.float64)


def entropy(log_prob: Floats) -> float:
    """Return the mean entropy of distributions over slots, in nats, where there's a choice."""
    used = np.isfinite(log_prob)
    each = -(np.exp(log_prob) * np.where(used, log_prob, 0.0)).sum(axis=1)
    choice = used.sum(axis=1) > 1
    return float(each[choice].mean()) if choice.any() else 0.0
