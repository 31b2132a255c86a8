"""One gradient-based fit: validation split, random search over losses, training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.losses import HybridMargin
from tanager.threads import one_blas_thread
from tanager.training.model import Model, TrainingRows
from tanager.training.optimiser import (
    SEARCH,
    SPLIT,
    START,
    Run,
    Task,
    loss_name,
    most_probable,
    scores,
    train,
)

# The paper's two rates, for 500 epochs, and a larger one for shorter runs.
SEARCH_RATES = (3e-3, 3e-2, 1e-1)
SEARCH_DROPOUTS = (0.0, 0.2, 0.4, 0.6)


# Creates the initial model from the training rows and a random stream.
Start = Callable[[TrainingRows, np.random.Generator], Model]


@one_blas_thread()
def fit(
    task: Task, rows: TrainingRows, start: Start, context: FitContext
) -> tuple[Run, dict[str, Any]]:
    """Train as specified by the task; return the run and its diagnostics."""
    training = task.training
    if training.tune and not isinstance(task.loss, HybridMargin):
        raise ConfigurationError(
            f"tune={training.tune} searches lambda_, gamma and eta of the hybrid loss, "
            f"but loss={task.loss!r}. Hint: loss='hybrid', or tune=0."
        )
    # Keep the batch size the same when some rows are held out.
    task = _changed(task, batch_size=training.rows_per_batch(rows.n_rows))
    part, validation, info = rows, None, dict[str, Any]()
    if training.early_stopping is not None or training.tune:
        part, validation = _split(task, rows, context)
    if training.tune and validation is not None:
        task, info["search"] = _search(task, part, validation, start, context)
    if training.early_stopping is None:
        part, validation = rows, None
    model = start(part, context.generator(*task.key, START))
    run = train(task, part, model, context, validation)
    info |= {
        "loss": loss_name(task.loss),
        "learning_rate": task.training.learning_rate,
        "dropout": task.training.dropout,
        "epochs": run.epoch,
        "best_epoch": run.best_epoch if run.best is not None else run.epoch - 1,
        "stopped_early": run.stopped,
        "trace": run.trace,
    }
    return run, info


def _split(
    task: Task, rows: TrainingRows, context: FitContext
) -> tuple[TrainingRows, TrainingRows]:
    """Return the training and validation rows."""
    if rows.n_rows < 2:
        raise ConfigurationError(
            f"{rows.n_rows} rows cannot be split for validation. "
            "Hint: early_stopping=None and tune=0 need no split."
        )
    n_held = min(max(1, round(task.training.validation_fraction * rows.n_rows)), rows.n_rows - 1)
    shuffled = context.generator(*task.key, SPLIT).permutation(rows.n_rows)
    return rows.take(np.sort(shuffled[n_held:])), rows.take(np.sort(shuffled[:n_held]))


def _search(
    task: Task, rows: TrainingRows, validation: TrainingRows, start: Start, context: FitContext
) -> tuple[Task, list[dict[str, float]]]:
    """Return the task with the best configuration of a random search (section 4.2, setting I)."""
    table: list[dict[str, float]] = []
    judge = validation if task.training.early_stopping is not None else None
    for number in range(task.training.tune):
        key = (*task.key, SEARCH, number)
        drawn = _draw(context.generator(*key))
        stage = f"search {number + 1} of {task.training.tune}"
        trial = replace(_with(task, drawn), key=key, stage=stage)
        model = start(rows, context.generator(*task.key, START))
        found = train(trial, rows, model, context, judge).result
        chosen = most_probable(found, task.slots, task.parents)
        error, log_loss = scores(found, task.slots, validation, chosen)
        table.append(drawn | {"validation_error": error, "validation_log_loss": log_loss})
    best = min(table, key=lambda row: (row["validation_error"], row["validation_log_loss"]))
    return _with(task, best), table


def _draw(rng: np.random.Generator) -> dict[str, float]:
    """Draw lambda in 1..1000 and gamma in 0.1..100 log-uniformly, eta in 1..20, rate, dropout."""
    return {
        "lambda_": float(10.0 ** rng.uniform(0, 3)),
        "gamma": float(10.0 ** rng.uniform(-1, 2)),
        "eta": float(rng.uniform(1, 20)),
        "learning_rate": SEARCH_RATES[int(rng.integers(len(SEARCH_RATES)))],
        "dropout": SEARCH_DROPOUTS[int(rng.integers(len(SEARCH_DROPOUTS)))],
    }


def _with(task: Task, drawn: dict[str, float]) -> Task:
    """Return the task with the drawn configuration."""
    loss = HybridMargin(drawn["lambda_"], drawn["gamma"], drawn["eta"])
    changed = _changed(task, learning_rate=drawn["learning_rate"], dropout=drawn["dropout"])
    return replace(changed, loss=loss)


def _changed(task: Task, **options: Any) -> Task:
    return replace(task, training=clone(task.training).set_params(**options))
