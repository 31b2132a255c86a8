"""What a true constraint brings on few rows: the default with and without `monotonic`.

Tables whose effects are known to rise or fall: by construction (car, balance
scale, the synthetic table) or by what is known of the field. The effect of
better car parts on "unacceptable", of a heavier left side on "tips to the left"
and of the synthetic features is exactly monotone; the medical ones are believed
to be.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.measuring import KeptRuns, loss_on_new_rows, markdown, publish
from tanager import BayesNetClassifier

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
SIZES = (100, 300)
MOST_TEST = 3000

PRICES, SPACE = ["vhigh", "high", "med", "low"], ["small", "med", "big"]
CAR = {
    "buying": PRICES,
    "maint": PRICES,
    "doors": ["2", "3", "4", "5more"],
    "persons": ["2", "4", "more"],
    "lug_boot": SPACE,
    "safety": ["low", "med", "high"],
}


def synthetic() -> tuple[pd.DataFrame, np.ndarray]:
    """Return three features that rise, one of them more under another, and three that do not."""
    generator = np.random.default_rng(11)
    x = generator.normal(size=(4000, 6))
    score = 0.6 * x[:, 0] + np.maximum(x[:, 0], 0) * (x[:, 3] > 0) - np.tanh(2 * x[:, 1])
    score += 0.5 * (x[:, 2] > 0.5) + x[:, 3] * x[:, 4] + np.sin(2 * x[:, 5])
    labels = np.where(generator.random(4000) < 1 / (1 + np.exp(-score)), "yes", "no")
    return pd.DataFrame(x, columns=[f"x{i}" for i in range(6)]), labels


CASES = {
    "synthetic": {"monotonic": {"x0": 1, "x1": -1, "x2": 1}},
    "car": {"ordered": CAR, "monotonic": {name: {"unacc": -1} for name in CAR}},
    "balance_scale": {
        "monotonic": {
            "left-weight": {"L": 1, "R": -1},
            "left-distance": {"L": 1, "R": -1},
            "right-weight": {"L": -1, "R": 1},
            "right-distance": {"L": -1, "R": 1},
        }
    },
    "breast_w": {"monotonic": "all"},
    "pima": {"monotonic": {"plas": 1, "mass": 1, "pedi": 1, "preg": 1}},
    "haberman": {"monotonic": {"Number_of_positive_axillary_nodes_detected": 1}},
    "heart_cleveland": {"monotonic": {"oldpeak": 1, "ca": 1, "thalach": -1}},
    "adult": {"monotonic": {"education-num": 1, "capital-gain": 1, "hours-per-week": 1}},
}


def load(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Return features and classes."""
    if name == "synthetic":
        return synthetic()
    table = pd.read_parquet(DATA / f"{name}.parquet")
    return table.drop(columns="class"), table["class"].to_numpy()


def runs() -> list[tuple[str, int]]:
    """Return the tables with numbers of training rows that leave rows to be asked about."""
    sizes = {name: len(load(name)[1]) for name in CASES}
    return [(name, n) for name in CASES for n in SIZES if sizes[name] >= n + 100]


def losses(name: str, n_rows: int, seed: int) -> tuple[float, float]:
    """Return the log-loss on new rows without and with the constraint."""
    X, y = load(name)
    options = dict(CASES[name])
    if options["monotonic"] == "all":
        options["monotonic"] = dict.fromkeys(X.columns, 1)
    order = np.random.default_rng([seed, n_rows]).permutation(len(y))
    train, test = order[:n_rows], order[n_rows : n_rows + MOST_TEST]
    out = []
    for constrained in (False, True):
        chosen = options if constrained else {"ordered": options.get("ordered")}
        clf = BayesNetClassifier(audit=False, **chosen).fit(X.iloc[train], y[train])
        out.append(loss_on_new_rows(clf, X.iloc[test], y[test]))
    return out[0], out[1]


def main() -> None:
    """Measure all tables, and publish."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--kept", type=Path, help="a file of finished runs, to go on from")
    arguments, _ = parser.parse_known_args()
    kept, rows = KeptRuns(arguments.kept), []
    for name, n_rows in runs():
        found = np.array(
            [
                kept.of(f"{name} {n_rows} {seed}", partial(losses, name, n_rows, seed))
                for seed in range(arguments.seeds)
            ]
        )
        gain = found[:, 0] - found[:, 1]
        error = gain.std(ddof=1) / np.sqrt(len(gain))
        means = [f"{found[:, at].mean():.4f}" for at in (0, 1)]
        better = f"{int((gain > 0).sum())} of {len(gain)}"
        rows.append([name, n_rows, *means, f"{gain.mean():+.4f} ± {error:.4f}", better])
    head = ("table", "training rows", "free", "monotone", "gain", "better on")
    publish("monotone", "Monotone effects on few rows", TEXT + markdown(head, rows))


TEXT = """Log-loss of `BayesNetClassifier()` on rows it has not seen, without and with `monotonic=`
on effects that are known to rise or fall; means over random training sets, the gain with its
standard error. Ordered categories (car) are ordered in both.

"""


if __name__ == "__main__":
    main()
