"""One fit by gradient: validation split, random search over losses, checkpoint, training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.losses import HybridMargin, Loss, RowLoss, resolve_loss
from tanager.threads import one_blas_thread
from tanager.training.checkpoint import Checkpoint
from tanager.training.model import Model, Slots, TrainingRows
from tanager.training.optimiser import ParentSearch, Plan, Run, most_probable, scores, train
from tanager.training.options import Training

# Random streams of a fit, by what they are for.
START, EPOCHS, SPLIT, SEARCH = range(4)

# The paper's two, for 500 epochs, and a larger one: shorter runs want it.
SEARCH_RATES = (3e-3, 3e-2, 1e-1)
SEARCH_DROPOUTS = (0.0, 0.2, 0.4, 0.6)


@dataclass(frozen=True)
class Task:
    """What is to be learned."""

    rows: TrainingRows
    slots: Slots
    # makes the initial model from the training rows and a random stream
    start: Callable[[TrainingRows, np.random.Generator], Model]
    loss: str | Loss
    training: Training
    parents: ParentSearch | None  # how to learn the structure; None for the tables alone
    key: tuple[int, ...]  # names the random streams of this fit
    stage: str  # what progress calls it

    def __post_init__(self) -> None:
        if self.training.tune and not isinstance(resolve_loss(self.loss), HybridMargin):
            raise ConfigurationError(
                f"tune={self.training.tune} searches lambda_, gamma and eta of the hybrid loss, "
                f"but loss={self.loss!r}. Hint: loss='hybrid', or tune=0."
            )

    @property
    def batch_size(self) -> int:
        """Rows of a step."""
        return self.training.rows_per_batch(self.rows.n_rows)


@one_blas_thread()
def fit(task: Task, context: FitContext) -> tuple[Run, dict[str, Any]]:
    """Train as the task says; returns the run and what is worth knowing about it."""
    loss, training = resolve_loss(task.loss), task.training
    info: dict[str, Any] = {}
    rows, validation = task.rows, None
    if training.early_stopping is not None or training.tune:
        rows, validation = _split(task, context)
    if training.tune and validation is not None:
        loss, training, info["search"] = _search(task, context, rows, validation)
    if training.early_stopping is None:
        rows, validation = task.rows, None
    run = _train(task, context, rows, validation, loss, training)
    info |= {
        "loss": _name(loss),
        "learning_rate": training.learning_rate,
        "dropout": training.dropout,
        "epochs": run.epoch,
        "best_epoch": run.best_epoch if run.best is not None else run.epoch - 1,
        "stopped_early": run.stopped,
        "trace": run.trace,
    }
    return run, info


def _split(task: Task, context: FitContext) -> tuple[TrainingRows, TrainingRows]:
    """Return the training and the validation rows."""
    n_rows = task.rows.n_rows
    if n_rows < 2:
        raise ConfigurationError(
            f"{n_rows} rows cannot be split for validation. "
            "Hint: early_stopping=None and tune=0 need no split."
        )
    n_held = min(max(1, round(task.training.validation_fraction * n_rows)), n_rows - 1)
    shuffled = context.generator(*task.key, SPLIT).permutation(n_rows)
    return task.rows.take(np.sort(shuffled[n_held:])), task.rows.take(np.sort(shuffled[:n_held]))


def _train(
    task: Task,
    context: FitContext,
    rows: TrainingRows,
    validation: TrainingRows | None,
    loss: Loss,
    training: Training,
    number: int | None = None,
) -> Run:
    """Train on some rows, as a numbered trial of a search or for good."""
    model = task.start(rows, context.generator(*task.key, START))
    key = task.key if number is None else (*task.key, SEARCH, number)
    checkpoint = None
    if context.checkpoint is not None:
        held_out = None if validation is None else validation.labels
        start = rows.codes, rows.labels, rows.weights, held_out, model.theta
        composed = () if rows.composed is None else rows.composed
        settings = _settings(task, training, loss, context) | {"key": key}
        checkpoint = Checkpoint.of(context.checkpoint, settings, *start, *composed, *task.slots)
    plan = Plan(
        training,
        task.batch_size,
        loss,
        lambda epoch: context.generator(*key, EPOCHS, epoch),
        task.parents,
        validation,
        checkpoint,
        context.progress,
        task.stage if number is None else f"search {number + 1} of {training.tune}",
    )
    return train(rows, task.slots, model, plan)


def _search(
    task: Task, context: FitContext, rows: TrainingRows, validation: TrainingRows
) -> tuple[Loss, Training, list[dict[str, float]]]:
    """Return the best loss and training of a random search (section 4.2, setting I)."""
    table: list[dict[str, float]] = []
    judge = validation if task.training.early_stopping is not None else None
    for number in range(task.training.tune):
        loss, training = _draw(context.generator(*task.key, SEARCH, number), task.training)
        found = _train(task, context, rows, judge, loss, training, number).result
        chosen = most_probable(found, task.slots, task.parents)
        error, log_loss = scores(found, task.slots, validation, chosen)
        table.append(
            asdict(loss)
            | {"learning_rate": training.learning_rate, "dropout": training.dropout}
            | {"validation_error": error, "validation_log_loss": log_loss}
        )
    best = min(table, key=lambda row: (row["validation_error"], row["validation_log_loss"]))
    loss = HybridMargin(best["lambda_"], best["gamma"], best["eta"])
    return loss, _changed(task.training, best["learning_rate"], best["dropout"]), table


def _draw(rng: np.random.Generator, training: Training) -> tuple[HybridMargin, Training]:
    """Draw lambda in 1..1000 and gamma in 0.1..100 log-uniformly, eta in 1..20, rate, dropout."""
    lambda_, gamma = 10.0 ** rng.uniform(0, 3), 10.0 ** rng.uniform(-1, 2)
    loss = HybridMargin(float(lambda_), float(gamma), float(rng.uniform(1, 20)))
    rate = SEARCH_RATES[int(rng.integers(len(SEARCH_RATES)))]
    dropout = SEARCH_DROPOUTS[int(rng.integers(len(SEARCH_DROPOUTS)))]
    return loss, _changed(training, rate, dropout)


def _changed(training: Training, rate: float, dropout: float) -> Training:
    return clone(training).set_params(learning_rate=rate, dropout=dropout)


def _settings(task: Task, training: Training, loss: Loss, context: FitContext) -> dict[str, object]:
    """Return what a run is made of besides its rows."""
    parents = task.parents and (
        type(task.parents.sampler).__name__,
        task.parents.learning_rate,
        task.parents.temperature,
    )
    return training.get_params(deep=False) | {
        "stage": task.stage,
        "entropy": context.seed.entropy,
        "spawn_key": context.seed.spawn_key,
        "batch_size": task.batch_size,
        "parents": parents,
        "loss": _name(loss),
    }


def _name(loss: Loss) -> str:
    """Return what identifies a loss from one process to the next."""
    if isinstance(loss, RowLoss):
        return repr(loss)
    kind = loss if hasattr(loss, "__qualname__") else type(loss)
    return f"{kind.__module__}.{kind.__qualname__}"
