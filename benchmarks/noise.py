"""What the default makes of pure noise: features that say nothing about the class.

The truth is known: every class has the same probability whatever the features
are. So the expected loss of a model is exact up to the choice of new rows,

    loss = mean over x of -(1 / C) sum over c of log p_c(x),

without the noise of drawn labels. It is compared with that of the shares of the
classes among the training rows, and split: what the model says in the mean (the
normalised geometric mean of its answers, a class prior of its own) and what it
says differently of different rows, which is all due to noise.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from benchmarks.measuring import markdown, publish
from tanager import BayesNetClassifier

SHAPES = ((100, 100), (1000, 20), (200, 500))
CLASSES = (2, 5)
NEW_ROWS = 2000
LIMIT = 0.01


def make_table(n_rows: int, n_features: int, n_classes: int, seed: int):
    """Return noise: two thirds of the columns numbers, one third categories of four values."""
    generator = np.random.default_rng([n_rows, n_features, n_classes, seed])
    X = generator.normal(size=(n_rows + NEW_ROWS, n_features))
    X[:, ::3] = generator.integers(0, 4, (n_rows + NEW_ROWS, len(range(0, n_features, 3))))
    y = generator.integers(0, n_classes, n_rows)
    return X[:n_rows], y, X[n_rows:]


def run(n_rows: int, n_features: int, n_classes: int, seed: int) -> dict[str, float]:
    """Fit once, and return the losses."""
    X, y, new = make_table(n_rows, n_features, n_classes, seed)
    categories = list(range(0, n_features, 3))
    clf = BayesNetClassifier(categorical_features=categories).fit(X, y)
    logs = clf.predict_log_proba(new)
    mean = logs.mean(axis=0)
    shares = np.bincount(y, minlength=n_classes) / n_rows
    record = clf.info_["parameters"]
    return {
        "model": float(-logs.mean()),
        "shares": float(-np.log(shares).mean()),
        "mean": float(-mean.mean() + np.logaddexp.reduce(mean)),
        "truth": float(np.log(n_classes)),
        "pool_shares": list(record["shares"]),
    }


def summary(found: list[dict[str, float]]) -> list[str]:
    """Return the cells of a shape's row."""
    column = {key: np.array([one[key] for one in found]) for key in found[0] if "_" not in key}
    over = column["model"] - column["shares"]
    own = column["mean"] - column["shares"]
    rows = column["model"] - column["mean"]
    sampling = column["shares"] - column["truth"]
    return [
        f"{over.mean():+.4f}",
        f"{over.min():+.4f}",
        f"{over.max():+.4f}",
        f"{int((over <= LIMIT).sum())} / {len(over)}",
        f"{own.mean():+.4f}",
        f"{rows.mean():+.4f}",
        f"{rows.max():+.4f}",
        f"{sampling.mean():+.4f}",
    ]


def main() -> None:
    """Run all shapes, or what is kept of an earlier run, and publish."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--kept", type=Path, help="a file of finished runs, to go on from")
    parser.add_argument("--finished", action="store_true", help="publish finished runs alone")
    arguments, _ = parser.parse_known_args()
    kept = {}
    if arguments.kept is not None and arguments.kept.is_file():
        kept = json.loads(arguments.kept.read_text())
    table = []
    for n_rows, n_features in SHAPES:
        for n_classes in CLASSES:
            found = []
            for seed in range(arguments.seeds):
                key = f"{n_rows} {n_features} {n_classes} {seed}"
                if key not in kept and arguments.finished:
                    continue
                if key not in kept:
                    kept[key] = run(n_rows, n_features, n_classes, seed)
                    if arguments.kept is not None:
                        arguments.kept.write_text(json.dumps(kept))
                found.append(kept[key])
            shape = f"{n_rows:,} × {n_features}"
            table.append([shape, n_classes, len(found), *summary(found)])
    head = (
        "rows × features",
        "classes",
        "tables",
        "mean",
        "least",
        "most",
        f"within {LIMIT}",
        "of it: own prior",
        "of it: differences between rows",
        "the most of those",
        "shares against the truth",
    )
    publish("noise", "Noise stays noise", TEXT + markdown(head, table) + MEMBERS)


TEXT = """Features that say nothing about the class: two thirds numbers, one third categories of
four values; classes that are equally probable. The loss of `BayesNetClassifier()` less the loss of
the classes' shares among the training rows, in nats. Both are expectations under the known truth
(2,000 new rows, no drawn labels), so a difference is the model's own. It is split into what the
model says of all rows alike (its class prior) and what it says differently of different rows, which
is all mistaken for information. The last column is what the shares themselves lose by being counted
on a sample: (C − 1) / 2N in the mean.

"""

MEMBERS = """

Generative tables are left out of the pool where they lose against the classes' shares on held-out
rows: on five tables of 100 × 100, of two classes as of five, only smooth scores without parents are
left. On those of two classes they say at most 0.0009 nats of different rows, a TAN with HDP tables
0.29 to 0.34.
"""


if __name__ == "__main__":
    main()
