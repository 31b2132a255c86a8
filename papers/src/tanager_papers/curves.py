"""Beyond one number: bias and variance, learning, missing features, convergence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tanager.errors import ConfigurationError, DataError
from tanager.evaluation.experiment import Experiment
from tanager.evaluation.metrics import resolve_metrics
from tanager.evaluation.results import Results, Scores
from tanager.evaluation.runner import Bench, complete_probabilities, unpack_codes

__all__ = [
    "Curves",
    "Decomposition",
    "bias_variance",
    "iterations_behind",
    "kohavi_wolpert",
    "learning_curves",
    "missing_feature_curves",
]


class Decomposition(NamedTuple):
    """Mean 0-1 loss split in two: `bias` + `variance` is the loss."""

    bias: float
    variance: float


def kohavi_wolpert(predictions: ArrayLike, labels: ArrayLike, n_classes: int) -> Decomposition:
    r"""Split the 0-1 loss of repeated predictions into squared bias and variance.

    Parameters
    ----------
    predictions : array-like of shape (n_rounds, n_rows)
        Class codes predicted for every row by a model of each round.
    labels : array-like of shape (n_rows,)
        True classes.
    n_classes : int

    Notes
    -----
    :math:`\mathrm{bias}^2 = \frac12\sum_y (P(y|x) - \hat P(y|x))^2` and
    :math:`\mathrm{variance} = \frac12(1 - \sum_y \hat P(y|x)^2)`, with
    :math:`\hat P` the share of the rounds that predict y and :math:`P` the
    indicator of the observed class, so that noise counts as bias; averaged
    over rows.

    References
    ----------
    Kohavi, R. and Wolpert, D. (1996). Bias plus variance decomposition for
    zero-one loss functions. ICML. Estimated over rounds of cross-validation as
    by Webb (2000) and in section 7 of Zaidi et al. (2017).

    Examples
    --------
    >>> kohavi_wolpert([[0, 1], [0, 0]], [0, 1], n_classes=2)
    Decomposition(bias=0.125, variance=0.125)
    """
    votes, truth = np.asarray(predictions), np.asarray(labels)
    rows = np.arange(len(truth))
    share = np.zeros((len(truth), n_classes))
    for round_ in votes:
        share[rows, round_] += 1.0 / len(votes)
    squares = np.einsum("ij,ij->i", share, share)
    bias = 0.5 * (1.0 - 2.0 * share[rows, truth] + squares)
    return Decomposition(float(bias.mean()), float(0.5 * (1.0 - squares).mean()))


def bias_variance(experiment: Experiment, results: Results) -> tuple[Scores, Scores]:
    """Return bias and variance of every classifier on every dataset.

    The experiment must have kept ``"predictions"``, under cross-validation of
    two rounds or more.
    """
    if "predictions" not in experiment.keep or experiment.protocol.rounds < 2:
        raise ConfigurationError(
            'bias and variance need keep=["predictions"] and 2 rounds or more in the experiment.'
        )
    if "folds" not in experiment.protocol.to_dict():
        raise ConfigurationError("bias and variance are estimated by cross-validation.")
    bench = Bench(experiment)
    cells = {(c.dataset, c.classifier, c.round, c.fold): c for c in experiment.cells()}
    shape = (len(results.datasets), len(results.classifiers))
    bias, variance = np.full(shape, np.nan), np.full(shape, np.nan)
    for i, dataset in enumerate(results.datasets):
        labels, classes = bench.load(dataset).labels, bench.load(dataset).classes
        for j, classifier in enumerate(results.classifiers):
            records = [
                r
                for r in results.records
                if (r["dataset"], r["classifier"]) == (dataset, classifier)
            ]
            if any(r["status"] != "ok" for r in records):
                continue
            votes = np.full((experiment.protocol.rounds, len(labels)), -1)
            for r in records:
                cell = cells[dataset, classifier, r["round"], r["fold"]]
                votes[r["round"], bench.split(cell).test] = unpack_codes(r["predictions"])
            bias[i, j], variance[i, j] = kohavi_wolpert(votes, labels, len(classes))
    return results.scores("bias", bias), results.scores("variance", variance)


class Curves(NamedTuple):
    """One curve for each classifier, over common points.

    Attributes
    ----------
    x : ndarray of shape (n_points,)
    classifiers : tuple of str
    mean, deviation : ndarray of shape (n_classifiers, n_points)
        Mean over repetitions, and their standard deviation.
    """

    x: NDArray[np.float64]
    classifiers: tuple[str, ...]
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]


def learning_curves(results: Results, dataset: str, metric: str) -> Curves:
    """Gather the learning curves of one dataset from an experiment under `LearningCurve`.

    Sizes at which some classifier failed are left out.
    """
    sizes = results.description["protocol"].get("sizes")
    if sizes is None:
        raise ConfigurationError("the experiment was not run under the protocol LearningCurve.")
    values: dict[tuple[str, int], list[float]] = {}
    for r in results.records:
        if r["dataset"] == dataset and r["status"] == "ok":
            values.setdefault((r["classifier"], r["fold"]), []).append(r[metric])
    names = results.classifiers
    whole = [i for i in range(len(sizes)) if all((name, i) in values for name in names)]
    if not whole:
        raise DataError(f"dataset {dataset!r} has no size at which every classifier worked.")
    grid = [[values[name, i] for i in whole] for name in names]
    return _curves([sizes[i] for i in whole], names, grid)


def missing_feature_curves(
    experiment: Experiment,
    dataset: str,
    n_missing: Sequence[int],
    *,
    repeats: int = 20,
    metric: str = "zero_one_loss",
) -> Curves:
    """Hide features from trained classifiers and measure what is lost.

    Classifiers are trained once, on the experiment's first fold, with all
    features; for each number of missing features the test rows are classified
    `repeats` times with that many features, drawn uniformly, set to missing:
    the same ones for every classifier. As in Pernkopf and Bilmes (2008),
    figure 3. Tanager's pairs should have the option ``missing="marginalize"``.

    Returns
    -------
    Curves
        Over `n_missing`.
    """
    bench = Bench(experiment)
    data = bench.load(dataset)
    names = data.features.column_names
    if max(n_missing) > len(names):
        raise ConfigurationError(
            f"n_missing goes to {max(n_missing)}, but {dataset!r} has {len(names)} features."
        )
    cell = next(c for c in experiment.cells() if c.dataset == dataset)
    split = bench.split(cell)
    present, y = np.unique(data.labels[split.train], return_inverse=True)
    train, test = data.features.take(split.train), data.features.take(split.test)
    truth = data.labels[split.test]
    loss = resolve_metrics((metric,))[metric].function
    if loss is None:
        raise ConfigurationError(f"metric={metric!r} isn't computed from predictions.")
    models = [
        c.build(experiment.seed, experiment.bins).fit(train, y) for c in experiment.contenders
    ]
    grid: list[list[list[float]]] = [[[] for _ in n_missing] for _ in models]
    for point, count in enumerate(n_missing):
        for repeat in range(repeats if 0 < count < len(names) else 1):
            rng = np.random.default_rng([experiment.seed, count, repeat])
            hidden = rng.choice(len(names), count, replace=False)
            masked = _hide(test, [names[i] for i in hidden])
            for model, lines in zip(models, grid, strict=True):
                p = complete_probabilities(
                    model.predict_proba(masked), present, len(data.classes), len(y)
                )
                lines[point].append(loss(p, truth))
    return _curves(n_missing, tuple(c.name for c in experiment.contenders), grid)


def _hide(table: Any, names: Sequence[str]) -> Any:
    import pyarrow as pa

    for name in names:
        place = table.column_names.index(name)
        kind = table.schema.field(name)
        table = table.set_column(place, kind, pa.nulls(len(table), kind.type))
    return table


def _curves(x: Sequence[int], names: tuple[str, ...], grid: list[list[list[float]]]) -> Curves:
    return Curves(
        np.asarray(x, dtype=np.float64),
        names,
        np.array([[np.mean(point) for point in line] for line in grid]),
        np.array([[np.std(point) for point in line] for line in grid]),
    )


def iterations_behind(leader: ArrayLike, follower: ArrayLike, after: int = 5) -> int:
    """Count the iterations by which one optimiser's objective trails another's.

    Parameters
    ----------
    leader, follower : array-like
        Objective before the first iteration and after each one.
    after : int
        Iteration at which the two are compared.

    Returns
    -------
    int
        How many more iterations the follower takes to reach what the leader has
        after `after` iterations, or what is left of its trace where it never
        does; negative, with the roles exchanged, where the leader is behind. As
        in Zaidi et al. (2017), figures 15 to 17.

    Examples
    --------
    >>> iterations_behind([9, 5, 2, 1], [9, 7, 5, 4, 3, 2], after=2)
    3
    """
    first, second = np.asarray(leader, float), np.asarray(follower, float)
    if not (len(first) and len(second)):
        raise DataError("a trace is empty. Keep the experiment's info, and traces with it.")
    at = (first[min(after, len(first) - 1)], second[min(after, len(second) - 1)])
    if at[0] <= at[1]:
        return _steps_to(second, at[0], after)
    return -_steps_to(first, at[1], after)


def _steps_to(trace: NDArray[np.float64], goal: float, after: int) -> int:
    # The last digits of an objective depend on the order of its sum.
    reached = np.flatnonzero(trace[after:] <= goal + 1e-12 * abs(goal))
    return int(reached[0]) if len(reached) else max(0, len(trace) - 1 - after)
