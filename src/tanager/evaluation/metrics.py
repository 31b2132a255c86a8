"""Metrics of predicted probabilities, one function each.

Each takes the probabilities of the test rows, shape (n_rows, n_classes), and the true classes as
codes 0..C-1. Lower is better, except for `accuracy`, `auc` and `f1`, as their `Metric` declares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tanager.errors import ConfigurationError, DataError
from tanager.network import Network
from tanager.network.network import network_of
from tanager.numerics import Floats
from tanager.parameters import posterior

N_BINS = 15

Labels = NDArray[np.integer]


def zero_one_loss(probabilities: Floats, labels: Labels) -> float:
    """Share of rows whose most probable class is wrong; the first class wins a tie."""
    return float(np.mean(probabilities.argmax(axis=1) != labels))


def accuracy(probabilities: Floats, labels: Labels) -> float:
    """Share of rows whose most probable class is right."""
    return 1.0 - zero_one_loss(probabilities, labels)


def confusion(probabilities: Floats, labels: Labels) -> NDArray[np.int64]:
    """Count the rows of each true class (down) by predicted class (across)."""
    n_classes = probabilities.shape[1]
    cells = labels.astype(np.int64) * n_classes + probabilities.argmax(axis=1)
    return np.bincount(cells, minlength=n_classes**2).reshape(n_classes, n_classes)


def f1(probabilities: Floats, labels: Labels) -> float:
    """Return the mean over classes of 2 TP / (2 TP + FP + FN).

    As in scikit-learn's ``f1_score(average="macro")``, over classes in the rows or predicted.
    """
    table = confusion(probabilities, labels)
    both = table.sum(axis=0) + table.sum(axis=1)
    seen = both > 0
    return float(np.mean(2.0 * np.diag(table)[seen] / both[seen]))


def auc(probabilities: Floats, labels: Labels) -> float:
    """Return the area under the ROC curve; with more than two classes, the one-vs-rest mean.

    The probability that a row of the class is ranked above another row; ties count half. Classes
    that don't occur are left out; if all rows have the same class, the result is NaN.
    """
    areas = auc_by_class(probabilities, labels)
    if len(areas) == 2:
        return float(areas[1])
    known = areas[np.isfinite(areas)]
    return float(known.mean()) if len(known) else float("nan")


def auc_by_class(probabilities: Floats, labels: Labels) -> Floats:
    """Return the area under the ROC curve of each class against the rest, NaN if undefined."""
    n_rows, n_classes = probabilities.shape
    areas = np.full(n_classes, np.nan)
    for code, column in enumerate(probabilities.T):
        inside = labels == code
        n_in = int(inside.sum())
        if 0 < n_in < n_rows:
            # Not scipy.stats.rankdata: importing it takes longer than scoring a small table.
            _, place, counts = np.unique(column, return_inverse=True, return_counts=True)
            mean_rank = np.cumsum(counts) - (counts - 1) / 2.0  # of equal probabilities
            above = mean_rank[place[inside]].sum() - n_in * (n_in + 1) / 2.0
            areas[code] = above / (n_in * (n_rows - n_in))
    return areas


def rmse_true_class(probabilities: Floats, labels: Labels) -> float:
    r"""RMSE of the true class, :math:`\sqrt{E (1 - p_y)^2}`, as in Martínez et al. (2016)."""
    missed = 1.0 - _of_true_class(probabilities, labels)
    return float(np.sqrt(np.mean(missed * missed)))


def rmse_class_averaged(probabilities: Floats, labels: Labels) -> float:
    r"""RMSE over rows and classes, :math:`\sqrt{E (p_c - 1[y=c])^2}` (Zaidi et al., 2017; Weka)."""
    return float(np.sqrt(brier_score(probabilities, labels) / probabilities.shape[1]))


def brier_score(probabilities: Floats, labels: Labels) -> float:
    r"""Brier's score, the mean over rows of :math:`\sum_c (p_c - 1[y=c])^2`, between 0 and 2."""
    squares = np.einsum("ij,ij->i", probabilities, probabilities)
    return float(np.mean(squares - 2.0 * _of_true_class(probabilities, labels) + 1.0))


def log_loss(probabilities: Floats, labels: Labels) -> float:
    r"""Mean of :math:`-\log p_y` in nats.

    Probabilities are clipped at 2.2e-16, as in scikit-learn, so that one error of a forest doesn't
    make the loss infinite.
    """
    return float(np.mean(row_losses(probabilities, labels)))


def row_losses(probabilities: Floats, labels: Labels) -> Floats:
    """Return the log-loss of each row; see `log_loss`."""
    floor = np.finfo(np.float64).eps
    # Subtracted from zero: a negated zero would be printed as -0.0.
    return 0.0 - np.log(np.maximum(_of_true_class(probabilities, labels), floor))


class Reliability(NamedTuple):
    """Confidence and accuracy by bin of confidence, as sums that can be added over folds."""

    rows: NDArray[np.int64]  # (15,): rows whose highest probability falls in the bin
    confidence: NDArray[np.float64]  # (15,): sum of those probabilities
    correct: NDArray[np.int64]  # (15,): number of those rows classified correctly

    def error(self) -> float:
        """Mean distance between confidence and accuracy, weighted by rows."""
        return float(np.abs(self.confidence - self.correct).sum() / max(1, self.rows.sum()))


def reliability(probabilities: Floats, labels: Labels) -> Reliability:
    """Bin rows by the probability of the predicted class, in bins of equal width over [0, 1]."""
    confidence = probabilities.max(axis=1)
    correct = probabilities.argmax(axis=1) == labels
    bins = np.minimum((confidence * N_BINS).astype(np.int64), N_BINS - 1)
    return Reliability(
        np.bincount(bins, minlength=N_BINS).astype(np.int64),
        np.bincount(bins, weights=confidence, minlength=N_BINS).astype(np.float64),
        np.bincount(bins[correct], minlength=N_BINS).astype(np.int64),
    )


def calibration_error(probabilities: Floats, labels: Labels) -> float:
    """Return the expected calibration error of the predicted class, over 15 equal bins.

    With few rows, it's mostly noise: a bin of one row is off by its whole confidence. So
    `Results.mean` sums the bins of a round's folds first (Guo et al., 2017, "On calibration of
    modern neural networks", equation 5).
    """
    return reliability(probabilities, labels).error()


def conditional_relative_entropy(probabilities: Floats, labels: Labels, groups: Labels) -> float:
    r"""Divergence of the model's P(y|x) from the rows' own frequencies, in nats.

    :math:`\sum_x \hat P(x)\, D_{KL}(\hat P(y | x) \,\|\, P(y | x))`: the log-loss minus the
    conditional entropy of the class among rows with identical features, which no model can avoid;
    if all rows are distinct, the log-loss (Carvalho, Adão and Mateus, 2013, Entropy 15, equation
    29). `groups` (n_rows,) has one code for rows with the same features.

    >>> p = np.array([[0.5, 0.5]] * 4)
    >>> round(conditional_relative_entropy(p, np.array([0, 1, 0, 1]), np.zeros(4, int)), 12)
    0.0
    """
    joint = np.zeros((int(groups.max()) + 1, probabilities.shape[1]))
    np.add.at(joint, (groups, labels), 1.0)
    share = joint / np.maximum(joint.sum(axis=1, keepdims=True), 1.0)
    logs = np.log(np.where(share > 0, share, 1.0))
    return log_loss(probabilities, labels) + float((joint * logs).sum() / len(labels))


def ranked_probability_score(probabilities: Floats, labels: Labels) -> float:
    r"""Mean of :math:`\sum_k (P(c \le k) - 1[y \le k])^2`, for classes ordered by their codes."""
    reached = np.arange(probabilities.shape[1]) >= np.asarray(labels)[:, None]
    gaps = np.cumsum(probabilities, axis=1) - reached
    return float(np.mean((gaps * gaps).sum(axis=1)))


def rank_error(probabilities: Floats, labels: Labels) -> float:
    """Return the mean number of classes by which the median class is off, for ordered classes."""
    median = (np.cumsum(probabilities, axis=1) < 0.5 - 1e-12).sum(axis=1)
    return float(np.mean(np.abs(median - labels)))


def _of_true_class(probabilities: Floats, labels: Labels) -> Floats:
    return np.asarray(probabilities[np.arange(len(labels)), labels])


class Metric(NamedTuple):
    """A metric with its title and how to compute and compare it."""

    title: str
    function: Callable[..., float] | None  # of probabilities and labels; None: a time or memory
    greater: bool = False
    needs_groups: bool = False  # also takes the groups of rows with identical features
    pooled: bool = False  # computed over all rows of a round: mostly noise on few rows
    ordinal: bool = False  # for ordered classes


#: The metrics that experiments can measure, by name.
METRICS: Mapping[str, Metric] = {
    "accuracy": Metric("accuracy", accuracy, greater=True),
    "auc": Metric("AUC", auc, greater=True),
    "f1": Metric("F1", f1, greater=True),
    "zero_one_loss": Metric("0-1 loss", zero_one_loss),
    "rmse_true_class": Metric("RMSE (true class)", rmse_true_class),
    "rmse_class_averaged": Metric("RMSE (class-averaged)", rmse_class_averaged),
    "log_loss": Metric("log-loss", log_loss),
    "brier_score": Metric("Brier score", brier_score),
    "calibration_error": Metric("calibration error", calibration_error, pooled=True),
    "conditional_relative_entropy": Metric(
        "conditional relative entropy", conditional_relative_entropy, needs_groups=True
    ),
    "ranked_probability_score": Metric(
        "ranked probability score", ranked_probability_score, ordinal=True
    ),
    "rank_error": Metric("rank error", rank_error, ordinal=True),
    "fit_seconds": Metric("fit, seconds", None),
    "fit_cpu_seconds": Metric("fit, CPU seconds", None),
    "predict_seconds": Metric("predict, seconds", None),
    "predict_cpu_seconds": Metric("predict, CPU seconds", None),
    "peak_memory_mb": Metric("peak memory, MB", None),
}

# Times and memory of a cell: always measured, but metrics only on request.
COSTS = tuple(name for name, metric in METRICS.items() if metric.function is None)
DEFAULT_METRICS = tuple(
    name for name, m in METRICS.items() if m.function and not (m.needs_groups or m.ordinal)
)


def resolve_metrics(names: tuple[str, ...]) -> dict[str, Metric]:
    """Look metrics up by name."""
    for name in names:
        if name not in METRICS:
            hint = f"Allowed: {', '.join(METRICS)}."
            raise ConfigurationError(f"metrics has {name!r}, which isn't valid. {hint}")
    return {name: METRICS[name] for name in names}


def make_sheet(probabilities: Floats, labels: Labels, classes: Sequence[str]) -> dict[str, Any]:
    """Score predicted probabilities (n_rows, n_classes) against true classes as codes.

    Returns plain data: the metrics, accuracy and log-loss of the rows' own class frequencies,
    scores by class, the confusion matrix by true and predicted class, and calibration by bin.
    Undefined values, such as the AUC of a single class, are None.

    >>> p = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    >>> sheet = make_sheet(p, np.array([0, 1, 1]), ("no", "yes"))
    >>> round(sheet["metrics"]["accuracy"], 3), sheet["confusion"]["yes"]
    (0.667, {'no': 1, 'yes': 1})
    """
    table = confusion(probabilities, labels)
    right, true, said = np.diag(table).astype(float), table.sum(axis=1), table.sum(axis=0)
    shares = true[true > 0] / max(1, len(labels))
    with np.errstate(invalid="ignore", divide="ignore"):
        by_class = {
            "precision": right / said,
            "recall": right / true,
            "f1": 2.0 * right / (true + said),
            "auc": auc_by_class(probabilities, labels),
        }
    return {
        "rows": len(labels),
        "metrics": {
            metric.__name__: known_number(metric(probabilities, labels))
            for metric in (accuracy, log_loss, auc, f1, brier_score, calibration_error)
        },
        "baseline": {
            "accuracy": float(shares.max(initial=0.0)),
            "log_loss": float(0.0 - (shares * np.log(shares)).sum()),
        },
        "classes": {
            label: {"rows": int(true[c])}
            | {name: known_number(values[c]) for name, values in by_class.items()}
            for c, label in enumerate(classes)
        },
        "confusion": {
            label: dict(zip(classes, row, strict=True))
            for label, row in zip(classes, table.tolist(), strict=True)
        },
        "calibration": [
            {"rows": int(n), "confidence": float(c / n), "accuracy": float(k / n)}
            for n, c, k in zip(*reliability(probabilities, labels), strict=True)
            if n
        ],
    }


def known_number(value: float) -> float | None:
    """Return None for NaN, which JSON doesn't have."""
    return None if np.isnan(value) else float(value)


def loss_without_features(model: Any, X: Any, y: ArrayLike) -> Floats:
    """Return the increase in log-loss when a feature is unknown, one number per feature.

    `model` is a classifier or a network, and X and y are rows it wasn't trained on; on training
    rows, every feature seems to matter. The numbers are in nats per row: zero for features that the
    structure left out, negative where the model would be better without the feature.

    Notes
    -----
    The feature is summed out exactly, so this is the loss of the same joint distribution with one
    feature unobserved: no retraining, no permutation, and no impossible rows. Two redundant
    features each have a small loss.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> from tanager.evaluation.metrics import loss_without_features
    >>> X = [["a", "u"], ["b", "u"], ["a", "v"], ["b", "v"]] * 10
    >>> clf = BayesNetClassifier("naive", "laplace").fit(X, [0, 1, 0, 1] * 10)
    >>> loss_without_features(clf, X, [0, 1, 0, 1] * 10).round(2)
    array([0.65, 0.  ])
    """
    network = network_of(model)
    codes, labels = network.codebook.encode(X), network.codebook.encode_labels(y)
    if codes.shape[1] != labels.shape[0]:
        raise DataError(f"X has {codes.shape[1]} rows, but y has {labels.shape[0]}.")
    return losses_without_features(network, codes, labels, network.structure.selected)


def losses_without_features(
    network: Network, codes: Any, labels: Labels, features: Sequence[int]
) -> Floats:
    """Return `loss_without_features` of coded rows; zero for features that aren't tried."""

    def loss(codes: Any) -> float:
        return log_loss(posterior(network.log_joint_of_codes(codes)), labels)

    before, out = loss(codes), np.zeros(codes.shape[0])
    for feature in features:
        fewer = codes.copy()
        fewer[feature] = network.codebook.domain.arities[feature]  # unknown
        out[feature] = loss(fewer) - before
    return out
