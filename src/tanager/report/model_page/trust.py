"""How far the probabilities can be trusted: aggregates of held-out rows."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Column
from tanager.evaluation import metrics
from tanager.evaluation.metrics import confusion, row_losses
from tanager.network import Network
from tanager.network.answers import group_labels
from tanager.numerics import Floats
from tanager.report.model_page.network import ShownClasses
from tanager.report.model_page.rows import PageRows, n_groups, pool_neighbours

N_BINS = 10  # of the reliability diagram, equally many rows each
N_BARS = 20  # of the histogram of probabilities
N_STEPS = 200  # of the decision threshold
MIN_SLICE_ROWS = 30
MAX_INTERVALS = 10  # slices along a number
MAX_SLICES = 10
MAX_BY_CLASS = 60
SURE = 3.3  # standard errors for a slice to be significant, among about a hundred


def compare_scores(probabilities: Floats, logistic: Floats, labels: NDArray[Any]) -> dict[str, Any]:
    """Return scores of the model, of logistic regression and of these rows' class frequencies."""
    shares = np.bincount(labels, minlength=probabilities.shape[1]) / len(labels)
    constant = np.broadcast_to(shares, probabilities.shape)
    losses = row_losses(probabilities, labels)
    return {
        "model": _scores(probabilities, labels),
        "logistic": _scores(logistic, labels),
        "shares": {**_scores(constant, labels), "calibration": 0.0},
        "se": float(losses.std() / np.sqrt(len(labels))),
        "rows": len(labels),
    }


def _scores(probabilities: Floats, labels: NDArray[Any]) -> dict[str, float]:
    return {
        "loss": metrics.log_loss(probabilities, labels),
        "errors": metrics.zero_one_loss(probabilities, labels),
        "calibration": metrics.calibration_error(probabilities, labels),
    }


def describe_trust(
    network: Network, classes: ShownClasses, rows: PageRows, probabilities: Floats
) -> dict[str, Any]:
    """Return the data of the page's fifth section."""
    labels = rows.labels
    shown, truth = classes.gather(probabilities), np.array(classes.places)[labels]
    places, counts = range(len(classes.names)), confusion(probabilities, labels)
    of_places = classes.gather(classes.gather(counts).T).T.astype(int)
    facts: dict[str, Any] = {
        "reliability": [reliability_bins(shown[:, c], truth == c) for c in places],
        "histogram": [_histogram(shown[:, c], truth == c) for c in places],
        "confusion": of_places.tolist(),
        "by_class": _by_class(network, counts),
        "slices": find_slices(network, rows, probabilities),
    }
    if probabilities.shape[1] == 2:
        facts["threshold"] = _threshold(probabilities[:, 1], labels == 1)
    return facts


def _by_class(network: Network, counts: NDArray[np.int64]) -> list[list[str | int]]:
    """Return name, rows, predicted and correct rows of each class, from its confusion matrix."""
    facts = np.stack([counts.sum(axis=1), counts.sum(axis=0), np.diag(counts)], axis=1)
    recall = facts[:, 2] / np.maximum(1, facts[:, 0])
    found = [c for c in np.argsort(recall, kind="stable") if facts[c, :2].any()]
    return [[str(network.codebook.classes[c]), *facts[c].tolist()] for c in found[:MAX_BY_CLASS]]


def reliability_bins(
    predicted: Floats, hit: NDArray[np.bool_], n_bins: int = N_BINS
) -> list[list[float]]:
    """Return mean prediction, observed frequency and rows, in bins of about equal size."""
    order = np.argsort(predicted, kind="stable")
    ordered = predicted[order]
    # Rows with the same probability stay in one bin.
    edges = np.searchsorted(ordered, ordered[(len(order) * np.arange(1, n_bins)) // n_bins])
    parts = [part for part in np.split(order, np.unique(edges)) if part.size]
    means = [[round(float(of[part].mean()), 5) for of in (predicted, hit)] for part in parts]
    return [[*pair, part.size] for pair, part in zip(means, parts, strict=True)]


def _histogram(predicted: Floats, hit: NDArray[np.bool_]) -> list[list[int]]:
    """Return the number of rows, and of rows of the class, by probability in equal bins."""
    at = np.minimum((predicted * N_BARS).astype(np.int64), N_BARS - 1)
    return [np.bincount(rows, minlength=N_BARS).tolist() for rows in (at, at[hit])]


def _threshold(predicted: Floats, hit: NDArray[np.bool_]) -> dict[str, list[int]]:
    """Return the rows at or above each threshold 0, 1/200, ..., 1: of the class, and others."""
    grid = np.arange(N_STEPS + 1) / N_STEPS
    parts = {"true": np.sort(predicted[hit]), "false": np.sort(predicted[~hit])}
    return {key: (len(p) - np.searchsorted(p, grid)).tolist() for key, p in parts.items()}


def _slices_of(column: Column, codes: NDArray[Any]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the names of the slices along a feature, and each row's; the last is unknown."""
    counts = np.bincount(codes, minlength=column.arity + 1)[: column.arity]
    groups = pool_neighbours(counts, column.n_ordered, MAX_INTERVALS)
    n_slices = n_groups(groups)
    names = group_labels(column, groups) if n_slices < column.arity else column.labels()
    # A timestamp without trailing zeros.
    shown = [re.sub(r"(T00:00:00)?\.000000\b", "", name) for name in names]
    return shown, np.append(groups, n_slices).astype(int)[codes]


def find_slices(network: Network, rows: PageRows, probabilities: Floats) -> list[dict[str, Any]]:
    """Return the feature values on whose rows the model's loss is highest.

    Numbers are split into at most ten intervals of equal frequency. Ranked by the lower end of a
    90 % interval of the mean loss, so that a few rows don't make a bad slice. Where it's
    significantly higher than the entropy of the posteriors, the model is overconfident.
    """
    labels = rows.labels
    loss = row_losses(probabilities, labels)
    wrong = probabilities.argmax(axis=1) != labels
    entropy = -(probabilities * np.log(np.maximum(probabilities, 1e-300))).sum(axis=1)
    averaged = (loss, loss**2, wrong, entropy, (loss - entropy) ** 2)
    overall, least = loss.mean(), max(MIN_SLICE_ROWS, len(labels) // 200)
    found = []
    for feature in network.structure.selected:
        column = network.codebook.columns[feature]
        names, codes = _slices_of(column, rows.codes[feature])
        n = np.bincount(codes, minlength=len(names) + 1)
        sums = np.stack([np.bincount(codes, of_rows, len(n)) for of_rows in averaged])
        for value in np.flatnonzero((n[:-1] >= least) & (n[:-1] < len(labels))):
            rows_here = int(n[value])
            mean, square, errors, expected, gap = (sums[:, value] / rows_here).tolist()
            if mean > overall:
                excess = mean - expected
                noise = np.sqrt(max(gap - excess**2, 0.0) / rows_here)
                deviation = np.sqrt(max(square - mean**2, 0.0) / rows_here)
                facts: dict[str, Any] = {
                    "feature": column.name,
                    "value": names[value],
                    "rows": rows_here,
                    "loss": round(mean, 4),
                    "expected": round(expected, 4),
                    "errors": round(errors, 4),
                    "sure": bool(excess > SURE * noise),
                }
                found.append((float(mean - 1.645 * deviation), facts))
    found.sort(key=lambda pair: -pair[0])
    return [facts for _, facts in found[:MAX_SLICES]]
