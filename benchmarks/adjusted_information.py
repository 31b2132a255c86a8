"""Information adjusted for chance against the plug-in estimate, as the score of edges.

    python -m benchmarks.adjusted_information --data FOLDER [--write]

Log-loss of TAN and kDB-2 with HDP tables under both, two-fold cross-validation on the
tables of up to MOST rows; and on 4,000 rows of Adult with columns that tell nothing.
"""

from __future__ import annotations

import argparse
import json
import uuid
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from sklearn.model_selection import KFold

from benchmarks.measuring import markdown, publish
from tanager import BayesNetClassifier
from tanager.evaluation.datasets import Loaded, find_dataset
from tanager.evaluation.metrics import log_loss
from tanager.evaluation.statistics import geometric_mean_ratio, wilcoxon, win_draw_loss
from tanager.structure import KDB, TAN

MOST, ROUNDS = 10_000, 1
STRUCTURES = {"TAN": partial(TAN, root="information"), "kDB-2": partial(KDB, 2)}


def losses(
    table: pa.Table, y: np.ndarray, n_classes: int, *, audit: bool = True
) -> dict[tuple[str, bool], float]:
    found: dict[tuple[str, bool], list[float]] = {}
    for seed in range(ROUNDS):
        for train, test in KFold(2, shuffle=True, random_state=seed).split(y):
            present, codes = np.unique(y[train], return_inverse=True)
            for name, make in STRUCTURES.items():
                for adjusted in (False, True):
                    clf = BayesNetClassifier(make(adjusted=adjusted), "hdp", audit=audit)
                    clf.fit(table.take(train), codes)
                    full = np.full((len(test), n_classes), 1e-4)
                    full[:, present] = clf.predict_proba(table.take(test))
                    found.setdefault((name, adjusted), []).append(log_loss(full, y[test]))
    return {key: float(np.mean(values)) for key, values in found.items()}


def dirty(data: Loaded, rng: np.random.Generator) -> dict[str, Loaded]:
    """Adult, 4,000 rows, with a column that says nothing."""
    rows = rng.permutation(len(data.labels))[:4000]
    table, y = data.features.take(rows), data.labels[rows]
    names = pa.array([str(uuid.UUID(bytes=rng.bytes(16))) for _ in rows])
    zips = pa.array([f"z{v:03d}" for v in rng.integers(0, 500, len(rows))])
    extra = {"adult as it is": {}, "with uuids": {"id": names}, "with 500 zip codes": {"zip": zips}}
    found = {}
    for title, columns in extra.items():
        made = table
        for name, values in columns.items():
            made = made.append_column(name, values)
        found[title] = data._replace(features=made, labels=y)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    folder = parser.parse_known_args()[0].data
    manifest = json.loads((folder / "manifest.json").read_text())
    names = [e["slug"] for e in manifest if e["rows"] <= MOST and "_disc" not in e["slug"]]
    rows, table = [], []
    for title, data in dirty(
        find_dataset("adult", folder).load(), np.random.default_rng(0)
    ).items():
        got = losses(data.features, data.labels, len(data.classes), audit=False)
        rows.append((title, *(f"{got[name, a]:.4f}" for name in STRUCTURES for a in (False, True))))
        print(rows[-1], flush=True)
    for name in sorted(names):
        data = find_dataset(name, folder).load()
        got = losses(data.features, data.labels, len(data.classes))
        table.append((name, [got[key] for key in got]))
        print(name, [round(v, 4) for v in got.values()], flush=True)
    values = np.array([v for _, v in table])
    head = ("table", *(f"{n}, {w}" for n in STRUCTURES for w in ("plug-in", "adjusted")))
    lines = [(name, *(f"{v:.4f}" for v in vs)) for name, vs in table]
    lines.append(("mean", *(f"{v:.4f}" for v in values.mean(axis=0))))
    said = []
    for at, name in enumerate(STRUCTURES):
        plain, adjusted = values[:, 2 * at], values[:, 2 * at + 1]
        record = win_draw_loss(adjusted, plain)
        said.append(
            f"{name}: adjusted against plug-in {record} (Wilcoxon p "
            f"{wilcoxon(adjusted, plain).p_value:.2g}), geometric mean of the ratios "
            f"{geometric_mean_ratio(adjusted, plain):.4f}, mean log-loss {adjusted.mean():.4f} "
            f"against {plain.mean():.4f}."
        )
    text = (
        "Two-fold cross-validation, HDP tables. " + " ".join(said) + "\n\n"
        "## A column that tells nothing\n\nAdult, 4,000 rows, log-loss; without the audit, "
        "which would leave the uuids out:\n\n"
        f"{markdown(head, rows)}\n\n## {len(table)} tables\n\n{markdown(head, lines)}"
    )
    publish("adjusted_information", "Information adjusted for chance", text)


if __name__ == "__main__":
    main()
