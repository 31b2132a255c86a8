"""Losses of predicted probabilities, one function each.

Every metric takes the probabilities of the test rows, shape (n_rows, n_classes),
and the true classes as codes 0..C-1, and returns one number; less is better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.errors import ConfigurationError

__all__ = [
    "METRICS",
    "Metric",
    "Reliability",
    "brier_score",
    "calibration_error",
    "log_loss",
    "reliability",
    "resolve_metrics",
    "rmse_class_averaged",
    "rmse_true_class",
    "zero_one_loss",
]

N_BINS = 15


def zero_one_loss(probabilities: NDArray[np.float64], labels: NDArray[np.integer]) -> float:
    """Share of rows whose most probable class is wrong; the first class wins a tie."""
    return float(np.mean(probabilities.argmax(axis=1) != labels))


def rmse_true_class(probabilities: NDArray[np.float64], labels: NDArray[np.integer]) -> float:
    r"""Root mean squared error of the true class, :math:`\sqrt{E (1 - p_y)^2}`.

    The RMSE of selective kDB (Martínez et al., 2016).
    """
    missed = 1.0 - _of_true_class(probabilities, labels)
    return float(np.sqrt(np.mean(missed * missed)))


def rmse_class_averaged(probabilities: NDArray[np.float64], labels: NDArray[np.integer]) -> float:
    r"""Root mean squared error over rows and classes, :math:`\sqrt{E (p_c - 1[y=c])^2}`.

    The RMSE of Zaidi et al. (2017), and of Weka.
    """
    return float(np.sqrt(brier_score(probabilities, labels) / probabilities.shape[1]))


def brier_score(probabilities: NDArray[np.float64], labels: NDArray[np.integer]) -> float:
    r"""Brier's score, the mean over rows of :math:`\sum_c (p_c - 1[y=c])^2`, between 0 and 2."""
    squares = np.einsum("ij,ij->i", probabilities, probabilities)
    return float(np.mean(squares - 2.0 * _of_true_class(probabilities, labels) + 1.0))


def log_loss(probabilities: NDArray[np.float64], labels: NDArray[np.integer]) -> float:
    r"""Mean of :math:`-\log p_y` in nats.

    Probabilities below 2.2e-16 count as that much, as in scikit-learn, so that
    a forest that is sure and wrong does not lose everything at once.
    """
    floor = np.finfo(np.float64).eps
    return float(-np.mean(np.log(np.maximum(_of_true_class(probabilities, labels), floor))))


class Reliability(NamedTuple):
    """Confidence and accuracy by bin of confidence; sums, so that folds add up.

    Attributes
    ----------
    rows : ndarray of shape (15,), int64
        Rows whose highest probability falls in the bin.
    confidence : ndarray of shape (15,), float64
        Sum of those probabilities.
    correct : ndarray of shape (15,), int64
        How many of the rows are classified right.
    """

    rows: NDArray[np.int64]
    confidence: NDArray[np.float64]
    correct: NDArray[np.int64]

    def error(self) -> float:
        """Mean distance between confidence and accuracy, weighted by rows."""
        return float(np.abs(self.confidence - self.correct).sum() / max(1, self.rows.sum()))


def reliability(
    probabilities: NDArray[np.float64], labels: NDArray[np.integer], n_bins: int = N_BINS
) -> Reliability:
    """Bin rows by the probability of the predicted class, into equal widths of [0, 1]."""
    confidence = probabilities.max(axis=1)
    correct = probabilities.argmax(axis=1) == labels
    bins = np.minimum((confidence * n_bins).astype(np.int64), n_bins - 1)
    return Reliability(
        np.bincount(bins, minlength=n_bins).astype(np.int64),
        np.bincount(bins, weights=confidence, minlength=n_bins).astype(np.float64),
        np.bincount(bins[correct], minlength=n_bins).astype(np.int64),
    )


def calibration_error(probabilities: NDArray[np.float64], labels: NDArray[np.integer]) -> float:
    """Return the expected calibration error of the predicted class, over 15 equal bins.

    References
    ----------
    Guo, C., Pleiss, G., Sun, Y. and Weinberger, K. Q. (2017). On calibration of
    modern neural networks. ICML, equation 5.
    """
    return reliability(probabilities, labels).error()


def _of_true_class(
    probabilities: NDArray[np.float64], labels: NDArray[np.integer]
) -> NDArray[np.float64]:
    return np.asarray(probabilities[np.arange(len(labels)), labels])


class Metric(NamedTuple):
    """A loss with the words to show it."""

    title: str
    function: Callable[[NDArray[np.float64], NDArray[np.integer]], float]


METRICS: Mapping[str, Metric] = {
    "zero_one_loss": Metric("0-1 loss", zero_one_loss),
    "rmse_true_class": Metric("RMSE (true class)", rmse_true_class),
    "rmse_class_averaged": Metric("RMSE (class-averaged)", rmse_class_averaged),
    "log_loss": Metric("log-loss", log_loss),
    "brier_score": Metric("Brier score", brier_score),
    "calibration_error": Metric("calibration error", calibration_error),
}


def resolve_metrics(names: tuple[str, ...]) -> dict[str, Metric]:
    """Look metrics up by name."""
    for name in names:
        if name not in METRICS:
            raise ConfigurationError(
                f"metrics has {name!r}, which is not known. Allowed: {', '.join(METRICS)}."
            )
    return {name: METRICS[name] for name in names}
