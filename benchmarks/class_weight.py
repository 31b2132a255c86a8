"""Class weights on the prior against class weights on the rows, over ten imbalanced tables.

    python -m benchmarks.class_weight --data FOLDER [--write]

Each table is a real one, made imbalanced: one class against the rest, and of that class
so many rows kept as make two in a hundred (at least twenty). Two-fold
cross-validation; AUC, log-loss and the rate of positives found at the default decision.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.class_weight import compute_sample_weight

from benchmarks.measuring import markdown, publish
from tanager import BayesNetClassifier
from tanager.evaluation.datasets import find_dataset

TABLES = (
    *("adult", "car", "mushroom", "nursery", "pima", "satellite", "segment", "sick"),
    *("spambase", "vehicle"),
)
SHARE, LEAST, MOST_ROWS, ROUNDS = 0.02, 20, 4000, 1
PAIRS = (("The default", "auto", "layered"), ("TAN with HDP tables", "tan", "hdp"))
WAYS = ("no weights", "on the rows", "on the prior")


def imbalanced(name: str, folder: Path) -> tuple[pa.Table, np.ndarray]:
    dataset = find_dataset(name, folder)
    table = pq.read_table(dataset.source)
    labels = np.array(table.column(dataset.target).to_pylist(), dtype=object).astype(str)
    values, counts = np.unique(labels, return_counts=True)
    positive = values[counts.argmin() if counts.min() >= 2 * LEAST else counts.argsort()[-2]]
    rng = np.random.default_rng(1)
    rest = rng.permutation(np.flatnonzero(labels != positive))[:MOST_ROWS]
    wanted = max(LEAST, int(SHARE * len(rest)))
    rare = rng.permutation(np.flatnonzero(labels == positive))[:wanted]
    rows = rng.permutation(np.concatenate([rest, rare]))
    dropped = [dataset.target, *dataset.drop]
    return table.drop_columns(dropped).take(rows), (labels[rows] == positive).astype(int)


def scores(
    table: pa.Table, y: np.ndarray, structure: str, parameters: str
) -> dict[str, np.ndarray]:
    """Mean AUC, log-loss and recall of each way."""
    found: dict[str, list[tuple[float, ...]]] = {way: [] for way in WAYS}
    for seed in range(ROUNDS):
        for train, test in StratifiedKFold(2, shuffle=True, random_state=seed).split(y, y):
            for way in WAYS:
                weight = "balanced" if way == "on the prior" else None
                rows = compute_sample_weight("balanced", y[train]) if way == "on the rows" else None
                clf = BayesNetClassifier(structure, parameters, class_weight=weight)
                clf.fit(table.take(train), y[train], sample_weight=rows)
                p = clf.predict_proba(table.take(test))
                truth = p[np.arange(len(test)), y[test]]
                recall = (p[:, 1] > 0.5)[y[test] == 1].mean()
                found[way].append(
                    (
                        roc_auc_score(y[test], p[:, 1]),
                        -np.log(np.maximum(truth, 1e-300)).mean(),
                        recall,
                    )
                )
    return {way: np.mean(values, axis=0) for way, values in found.items()}


def summary(means: list[list[np.ndarray]]) -> str:
    """Say on how many tables a way has the better AUC, which four digits decide."""
    auc = np.round([[way[0] for way in table] for table in means], 4)
    found = []
    for at in (1, 2):
        better, worse = int((auc[:, at] > auc[:, 0]).sum()), int((auc[:, at] < auc[:, 0]).sum())
        even = len(auc) - better - worse
        found.append(f"weights {WAYS[at]} {better}–{even}–{worse}")
    return f"AUC against no weights, tables won–even–lost: {', '.join(found)}."


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    folder = parser.parse_known_args()[0].data
    parts = []
    for title, structure, parameters in PAIRS:
        rows, means = [], []
        for name in TABLES:
            table, y = imbalanced(name, folder)
            got = scores(table, y, structure, parameters)
            means.append([got[way] for way in WAYS])
            cells = [f"{got[w][0]:.4f}" for w in WAYS] + [f"{got[w][2]:.2f}" for w in WAYS]
            rows.append((name, f"{len(y):,}", int(y.sum()), *cells))
            print(rows[-1], flush=True)
        mean = np.mean(means, axis=0)
        rows.append(
            ("mean", "", "", *(f"{v:.4f}" for v in mean[:, 0]), *(f"{v:.2f}" for v in mean[:, 2]))
        )
        head = (
            "table",
            "rows",
            "positive",
            *(f"AUC, {w}" for w in WAYS),
            *(f"recall, {w}" for w in WAYS),
        )
        parts.append(f"## {title}\n\n{markdown(head, rows)}\n\n{summary(means)}")
    text = (
        "One class of a real table against the rest, cut down to two rows in a hundred; two-fold "
        "cross-validation. *On the rows*: `sample_weight` that gives both classes the "
        'same total. *On the prior*: `class_weight="balanced"`.\n\n' + "\n\n".join(parts)
    )
    publish("class_weight", "Class weights", text)


if __name__ == "__main__":
    main()
