"""One fit by gradient: validation split, random search over losses, checkpoint, training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.losses import HybridMargin, Loss, RowLoss, resolve_loss
from tanager.structure.differentiable.checkpoint import Checkpoint, fingerprint
from tanager.structure.differentiable.model import Layout, Model, TrainingRows
from tanager.structure.differentiable.sampling import Sampler
from tanager.structure.differentiable.training import (
    Plan,
    Run,
    Schedule,
    most_probable,
    scores,
    train,
)
from tanager.threads import one_blas_thread

__all__ = ["Problem", "Settings", "fit"]

Ints = NDArray[np.int64]

# Random streams of a fit, by what they are for.
START, EPOCHS, SPLIT, SEARCH = range(4)

# The paper's two, for 500 epochs, and a larger one: shorter runs want it.
SEARCH_RATES = (3e-3, 3e-2, 1e-1)
SEARCH_DROPOUTS = (0.0, 0.2, 0.4, 0.6)


@dataclass(frozen=True)
class Settings:
    """What both gradient learners are told; see `Differentiable` for the meanings."""

    loss: str | Loss
    schedule: Schedule
    early_stopping: int | None = None
    validation_fraction: float = 0.1
    tune: int = 0
    checkpoint: str | PathLike[str] | None = None
    checkpoint_every: int = 10

    def __post_init__(self) -> None:
        if not 0 < self.validation_fraction < 1:
            raise ConfigurationError(
                f"validation_fraction={self.validation_fraction!r} must be between 0 and 1."
            )
        if self.early_stopping is not None and self.early_stopping < 1:
            raise ConfigurationError(
                f"early_stopping={self.early_stopping!r} must be None or at least 1 epoch."
            )
        if self.tune < 0 or self.checkpoint_every < 1:
            raise ConfigurationError(
                f"tune={self.tune!r} must not be negative, nor "
                f"checkpoint_every={self.checkpoint_every!r} below 1."
            )
        if self.tune and not isinstance(resolve_loss(self.loss), HybridMargin):
            raise ConfigurationError(
                f"tune={self.tune} searches lambda_, gamma and eta of the hybrid loss, but "
                f"loss={self.loss!r}. Hint: loss='hybrid', or tune=0."
            )


@dataclass(frozen=True)
class Problem:
    """What is to be learned.

    Attributes
    ----------
    start : callable
        Makes the initial model from the training rows and a random stream.
    key : tuple of int
        Names the random streams of this fit.
    """

    rows: TrainingRows
    layout: Layout
    start: Callable[[TrainingRows, np.random.Generator], Model]
    sampler: Sampler | None
    key: tuple[int, ...]
    stage: str


@one_blas_thread()
def fit(problem: Problem, settings: Settings, context: FitContext) -> tuple[Run, dict[str, Any]]:
    """Train as the settings say; returns the run and what is worth knowing about it."""
    loss, schedule = resolve_loss(settings.loss), settings.schedule
    info: dict[str, Any] = {}
    training, validation = problem.rows, None
    if settings.early_stopping is not None or settings.tune:
        training, validation = _split(problem, settings.validation_fraction, context)
    if settings.tune and validation is not None:
        loss, schedule, info["search"] = _search(problem, settings, context, training, validation)
    if settings.early_stopping is None:
        training, validation = problem.rows, None
    model = problem.start(training, context.generator(*problem.key, START))
    facts = {"loss": _name(loss), **asdict(schedule)}
    plan = Plan(
        schedule,
        loss,
        lambda epoch: context.generator(*problem.key, EPOCHS, epoch),
        problem.sampler,
        validation,
        settings.early_stopping,
        _checkpoint(problem, settings, context, "training", model, **facts),
        context.progress,
        problem.stage,
    )
    run = train(training, problem.layout, model, plan)
    info |= {
        "loss": _name(loss),
        "learning_rate": schedule.learning_rate,
        "dropout": schedule.dropout,
        "epochs": run.epoch,
        "best_epoch": run.best_epoch if run.best is not None else run.epoch - 1,
        "stopped_early": run.stopped,
        "trace": run.trace,
    }
    return run, info


def _split(
    problem: Problem, fraction: float, context: FitContext
) -> tuple[TrainingRows, TrainingRows]:
    """Return the training and the validation rows."""
    n_rows = problem.rows.n_rows
    if n_rows < 2:
        raise ConfigurationError(
            f"{n_rows} rows cannot be split for validation. "
            "Hint: early_stopping=None and tune=0 need no split."
        )
    n_held = min(max(1, round(fraction * n_rows)), n_rows - 1)
    shuffled = context.generator(*problem.key, SPLIT).permutation(n_rows)
    rows = problem.rows
    return rows.take(np.sort(shuffled[n_held:])), rows.take(np.sort(shuffled[:n_held]))


def _search(
    problem: Problem,
    settings: Settings,
    context: FitContext,
    training: TrainingRows,
    validation: TrainingRows,
) -> tuple[Loss, Schedule, list[dict[str, float]]]:
    """Return the best loss and schedule of a random search; section 4.2, setting (I).

    The search is scored on validation rows, by error, then by log-loss.
    """
    table: list[dict[str, float]] = []
    start = problem.start(training, context.generator(*problem.key, START))
    store = _checkpoint(problem, settings, context, "search", start, **asdict(settings.schedule))
    done = None if store is None else store.load()
    for number in range(settings.tune):
        loss, schedule = _draw(context.generator(*problem.key, SEARCH, number), settings.schedule)
        if done is not None and number < done["scores"].shape[0]:
            error, log_loss = done["scores"][number].tolist()
        else:
            key = (*problem.key, SEARCH, number)
            run = train(
                training,
                problem.layout,
                start.copy(),
                Plan(
                    schedule,
                    loss,
                    lambda epoch, key=key: context.generator(*key, EPOCHS, epoch),  # type: ignore[misc]
                    problem.sampler,
                    validation if settings.early_stopping is not None else None,
                    settings.early_stopping,
                    progress=context.progress,
                    stage=f"search {number + 1} of {settings.tune}",
                ),
            )
            chosen = most_probable(run.result, problem.layout, problem.sampler)
            error, log_loss = scores(run.result, problem.layout, validation, chosen)
        table.append(
            asdict(loss)
            | {"learning_rate": schedule.learning_rate, "dropout": schedule.dropout}
            | {"validation_error": error, "validation_log_loss": log_loss}
        )
        if store is not None:
            kept = [[row["validation_error"], row["validation_log_loss"]] for row in table]
            store.save({"scores": np.array(kept)})
    ranked = [(row["validation_error"], row["validation_log_loss"]) for row in table]
    best = table[min(range(len(ranked)), key=ranked.__getitem__)]
    loss = HybridMargin(best["lambda_"], best["gamma"], best["eta"])
    rate, dropout = best["learning_rate"], best["dropout"]
    return loss, replace(settings.schedule, learning_rate=rate, dropout=dropout), table


def _draw(rng: np.random.Generator, schedule: Schedule) -> tuple[HybridMargin, Schedule]:
    """Draw lambda in 1..1000 and gamma in 0.1..100 log-uniformly, eta in 1..20, rate, dropout."""
    lambda_, gamma = 10.0 ** rng.uniform(0, 3), 10.0 ** rng.uniform(-1, 2)
    loss = HybridMargin(float(lambda_), float(gamma), float(rng.uniform(1, 20)))
    rate = SEARCH_RATES[int(rng.integers(len(SEARCH_RATES)))]
    dropout = SEARCH_DROPOUTS[int(rng.integers(len(SEARCH_DROPOUTS)))]
    return loss, replace(schedule, learning_rate=rate, dropout=dropout)


def _checkpoint(
    problem: Problem,
    settings: Settings,
    context: FitContext,
    kind: str,
    start: Model,
    **more: object,
) -> Checkpoint | None:
    if settings.checkpoint is None:
        return None
    path = Path(settings.checkpoint)
    if kind != "training":
        path = path.with_name(f"{path.name}.{kind}")
    facts: dict[str, object] = {
        "kind": kind,
        "stage": problem.stage,
        "entropy": context.seed.entropy,
        "spawn_key": context.seed.spawn_key,
        "early_stopping": settings.early_stopping,
        "validation_fraction": settings.validation_fraction,
        "tune": settings.tune,
        "sampler": type(problem.sampler).__name__,
        **more,
    }
    rows = problem.rows
    data = (rows.contexts, rows.children, rows.labels, rows.weights, *problem.layout, start.theta)
    return Checkpoint(path, settings.checkpoint_every, fingerprint(facts, *data))


def _name(loss: Loss) -> str:
    """Return what identifies a loss from one process to the next."""
    if isinstance(loss, RowLoss):
        return repr(loss)
    kind = loss if hasattr(loss, "__qualname__") else type(loss)
    return f"{kind.__module__}.{kind.__qualname__}"
