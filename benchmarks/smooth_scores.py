"""What smooth scores bring to `Discriminative` on tables of numbers: held-out log-loss.

Half of the rows train, half are predicted, over a few splits. Logistic scores of
each interval (naive) and of pairs of intervals (TAN), free and as smooth curves,
strengths by cross-validation.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.measuring import loss_on_new_rows, markdown, publish
from tanager import BayesNetClassifier
from tanager.parameters import Discriminative

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
TABLES = (
    "bupa",
    "glass",
    "haberman",
    "ionosphere",
    "iris",
    "new_thyroid",
    "pima",
    "vehicle",
    "wine",
)
ROWS = 500
CONTENDERS = {
    "5 bins": ("naive", False, 5),
    "fine": ("naive", False, "fine"),
    "fine, smooth": ("naive", True, "fine"),
    "TAN, 8 bins": ("tan", False, 8),
    "TAN, 8 bins, smooth": ("tan", True, 8),
}


def run(name: str, contender: str, seed: int) -> tuple[float, float]:
    """Return the log-loss on the other half of the rows, and the CPU seconds of the fit."""
    table = pd.read_parquet(DATA / f"{name}.parquet")
    order = np.random.default_rng(seed).permutation(len(table))[: 2 * ROWS]
    X, y = table.drop(columns="class").iloc[order], table["class"].to_numpy()[order]
    half = len(order) // 2
    structure, smooth, bins = CONTENDERS[contender]
    learner = Discriminative("direct", l2="cv", towards="zero", smooth=smooth, tol=1e-6)
    clf = BayesNetClassifier(structure, learner, bins=bins, audit=False)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(X.iloc[:half], y[:half])
    seconds = time.process_time() - start
    return loss_on_new_rows(clf, X.iloc[half:], y[half:]), seconds


def main() -> None:
    """Measure, and publish."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=3)
    arguments, _ = parser.parse_known_args()
    rows = []
    for name in TABLES:
        cells, spent = [], 0.0
        for contender in CONTENDERS:
            found = [run(name, contender, seed) for seed in range(arguments.splits)]
            cells.append(f"{np.mean([loss for loss, _ in found]):.4f}")
            spent += sum(seconds for _, seconds in found)
        rows.append([name, *cells])
        print(rows[-1], f"{spent:.0f} CPU s", flush=True)
    publish("smooth_scores", "Smooth scores", TEXT + markdown(["table", *CONTENDERS], rows))


TEXT = """Log-loss on the half of the rows (at most 500) that had no part in the fit, means over
three splits. `Discriminative("direct", l2="cv", towards="zero")` on naive Bayes and on TAN, without
and with `smooth=True`.

"""


if __name__ == "__main__":
    main()
