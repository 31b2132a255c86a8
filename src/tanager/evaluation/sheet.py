"""How well given probabilities do on rows whose classes are known: one sheet of numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.evaluation.metrics import (
    METRICS,
    Reliability,
    auc_by_class,
    confusion,
    reliability,
)

SHEET_METRICS = ("accuracy", "log_loss", "auc", "f1", "brier_score", "calibration_error")


class Sheet(NamedTuple):
    """The scores of some rows."""

    n_rows: int
    classes: tuple[str, ...]
    # Accuracy, log-loss, AUC, F1, Brier score, calibration error. NaN: the rows do not say,
    # as the AUC of one class.
    metrics: dict[str, float]
    # Accuracy and log-loss of always saying the rows' own class frequencies.
    baseline: dict[str, float]
    # (n_classes, n_classes): rows by true class (down) and predicted class (across).
    confusion: NDArray[np.int64]
    precision: NDArray[np.float64]  # (n_classes,): by class; NaN where undefined
    recall: NDArray[np.float64]
    f1: NDArray[np.float64]
    auc: NDArray[np.float64]
    reliability: Reliability  # confidence and accuracy in 15 bins

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; what is undefined is None."""
        by_class = zip(
            self.classes, self.confusion.sum(axis=1), self.precision, self.recall, self.f1,
            self.auc, strict=True,
        )  # fmt: skip
        return {
            "rows": self.n_rows,
            "metrics": {name: _known(value) for name, value in self.metrics.items()},
            "baseline": self.baseline,
            "classes": {
                label: {
                    "rows": int(n),
                    "precision": _known(p),
                    "recall": _known(r),
                    "f1": _known(f),
                    "auc": _known(a),
                }
                for label, n, p, r, f, a in by_class
            },
            "confusion": {
                label: dict(zip(self.classes, map(int, row), strict=True))
                for label, row in zip(self.classes, self.confusion, strict=True)
            },
            "calibration": [
                {"rows": int(n), "confidence": float(c / n), "accuracy": float(k / n)}
                for n, c, k in zip(*self.reliability, strict=True)
                if n
            ],
        }


def make_sheet(
    probabilities: NDArray[np.float64], labels: NDArray[np.integer], classes: tuple[str, ...]
) -> Sheet:
    """Score predicted probabilities (n_rows, n_classes) against true classes as codes.

    >>> p = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    >>> sheet = make_sheet(p, np.array([0, 1, 1]), ("no", "yes"))
    >>> round(sheet.metrics["accuracy"], 3), sheet.confusion.tolist()
    (0.667, [[1, 0], [1, 1]])
    """
    table = confusion(probabilities, labels)
    right, true, said = np.diag(table).astype(float), table.sum(axis=1), table.sum(axis=0)
    shares = true[true > 0] / max(1, len(labels))
    with np.errstate(invalid="ignore", divide="ignore"):
        precision, recall, f1 = right / said, right / true, 2.0 * right / (true + said)
    return Sheet(
        len(labels),
        classes,
        {name: METRICS[name].score(probabilities, labels) for name in SHEET_METRICS},
        {
            "accuracy": float(shares.max(initial=0.0)),
            "log_loss": float(0.0 - (shares * np.log(shares)).sum()),
        },
        table,
        precision,
        recall,
        f1,
        auc_by_class(probabilities, labels),
        reliability(probabilities, labels),
    )


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
