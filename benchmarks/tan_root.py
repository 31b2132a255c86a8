"""Where TAN's tree is rooted: at the first column, or at the feature that says most.

    python -m benchmarks.tan_root [--write]

Two questions: does one root predict better, and how far do predictions move when nothing
but the order of the columns changes? Tables of ../shared/data with up to 5,000 rows, two
rounds of two folds; every model is fitted again with the columns in two other orders.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

from benchmarks.measuring import ROOT, markdown, publish
from tanager import BayesNetClassifier
from tanager.evaluation.datasets import data_folder, find_dataset
from tanager.evaluation.metrics import log_loss
from tanager.evaluation.protocol import CrossValidation
from tanager.evaluation.statistics import win_draw_loss
from tanager.structure import TAN

PARAMETERS = ("m-estimate", "hdp")
TABLES = (
    "annealing", "audiology", "balance_scale", "breast_w", "car", "cmc", "colic", "glass",
    "haberman", "iris", "segment", "tae", "vehicle", "wine", "splice", "chess551",
)  # fmt: skip


def fit_and_predict(root, parameters, train, y, test):
    estimator = BayesNetClassifier(TAN(root=root), parameters, random_state=0)
    return estimator.fit(train, y).predict_proba(test)


def measure(name, parameters, rng):
    """Return log-loss of the first root and of the informative one, and how far each moves."""
    data = find_dataset(name, data_folder(ROOT.parent / "shared" / "data")).load()
    protocol, losses, moved = CrossValidation(2, 2), {}, {}
    for round_, fold in protocol.places():
        split = protocol.split(data.labels, 0, round_, fold)
        train, test = data.features.take(split.train), data.features.take(split.test)
        present, y = np.unique(data.labels[split.train], return_inverse=True)
        known = np.isin(data.labels[split.test], present)
        truth = np.searchsorted(present, data.labels[split.test][known])
        for root in ("first", "information"):
            p = fit_and_predict(root, parameters, train, y, test)
            losses.setdefault(root, []).append(log_loss(p[known], truth))
            if fold == 0:
                order = rng.permutation(train.num_columns).tolist()
                q = fit_and_predict(root, parameters, train.select(order), y, test.select(order))
                moved.setdefault(root, []).append(np.abs(p - q).max())
    return [np.mean(losses[r]) for r in ("first", "information")], [
        np.max(moved[r]) for r in ("first", "information")
    ]


def main() -> None:
    rng = np.random.default_rng(0)
    head = [
        *("parameters", "tables", "log-loss, first", "log-loss, information"),
        *("information wins–draws–losses", "moved by column order, first", "information"),
    ]
    rows = []
    for parameters in PARAMETERS:
        found = [measure(name, parameters, rng) for name in TABLES]
        loss = np.array([f[0] for f in found])
        moved = np.array([f[1] for f in found])
        record = win_draw_loss(loss[:, 1], loss[:, 0], decimals=4)
        rows.append([
            parameters, len(TABLES), f"{loss[:, 0].mean():.4f}", f"{loss[:, 1].mean():.4f}",
            str(record), f"up to {moved[:, 0].max():.2g}", f"up to {moved[:, 1].max():.2g}",
        ])  # fmt: skip
        print(rows[-1], file=sys.stderr, flush=True)
    publish(
        "tan_root",
        "The root of the tree",
        markdown(head, rows)
        + "\n\nMoved: the largest change of one probability of one test row when the columns stand "
        "in another order. Losses are compared to four decimals.",
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
