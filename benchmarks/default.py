"""The default classifier against other programs, and against other choices of its own.

    python benchmarks/default.py --data FOLDER --reference FOLDER --run FILE [--rounds N] [--write]

The run file survives a kill: the same command goes on where it was, and more rounds
later add to the earlier ones. REFERENCE has `adult25k.npy` and `adult_test.npy`.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.discriminative_study import METRICS, SHOWN, compare_scores
from benchmarks.measuring import ROOT, markdown, publish
from tanager.evaluation import Contender, CrossValidation, Experiment
from tanager.evaluation.datasets import find_dataset
from tanager.evaluation.metrics import log_loss, rmse_true_class, zero_one_loss
from tanager.evaluation.results import Results
from tanager.evaluation.statistics import average_ranks

DEFAULT = "tan/pooled"
TWO_TREE = "kdb(k=2,moral=True)/pooled"
OTHERS = {
    "random forest": Contender.of("random-forest"),
    "logistic regression": Contender.of("logistic-regression"),
    "XGBoost": Contender.of("xgboost"),
    "HistGradientBoosting": Contender.of("hist-gradient-boosting"),
}
RAW = {
    "random forest, raw numbers": Contender.of(
        "sklearn.ensemble.RandomForestClassifier(n_jobs=1)@raw"
    ),
    "HistGradientBoosting, raw numbers": Contender.of(
        "sklearn.ensemble.HistGradientBoostingClassifier()@raw"
    ),
}
OWN = {
    "bins by mdl": Contender(DEFAULT, DEFAULT, {"bins": "mdl"}),
    "equal shares": Contender.of("tan/pooled(shares='equal')"),
    "skdb, hdp": Contender.of("skdb/hdp"),
    "tan, hdp": Contender.of("tan/hdp"),
}
# Too large for the budget of this study; Adult is measured apart.
LEFT_OUT = {"adult", "mnist14", "covertype", "connect4", "shuttle"}


def experiment(
    folder: Path, rounds: int, max_rows: int, others: dict[str, Contender]
) -> Experiment:
    manifest = json.loads((folder / "manifest.json").read_text())
    entries = sorted(manifest, key=lambda e: (e["rows"], e["slug"]))
    names = [
        e["slug"]
        for e in entries
        if "_disc" not in e["slug"] and e["slug"] not in LEFT_OUT and e["rows"] <= max_rows
    ]
    contenders = [Contender("default", DEFAULT)]
    for name, made in others.items():
        contenders.append(Contender(name, made.use, made.options))
    return Experiment(
        datasets=[find_dataset(name, folder) for name in names],
        classifiers=contenders,
        protocol=CrossValidation(rounds=rounds, folds=2),
        metrics=METRICS,
    )


def table(results: Results, names: list[str]) -> str:
    scores = {metric: results.mean(metric) for metric in SHOWN}
    rows = [
        (name, *(compare_scores(scores[metric], "default", name) for metric in SHOWN))
        for name in names
    ]
    return markdown(("default against", *SHOWN.values()), rows)


def report(results: Results, raw: Results) -> str:
    scores = results.mean("log_loss")
    numbers = "## Other programs, on the numbers as they are\n\n" + table(raw, list(RAW))
    excluded = raw.mean("log_loss").excluded
    if excluded:
        numbers += f"\n\nWithout {', '.join(excluded)}, where one of them fails."
    parts = [
        "## Other programs, on the same bins\n\n" + table(results, list(OTHERS)),
        numbers,
        "## Other choices\n\n" + table(results, list(OWN)),
    ]
    ranks = average_ranks(scores.values)
    seconds = results.mean("fit_cpu_seconds")
    order = np.argsort(ranks)
    parts.append(
        "## Ranks on log-loss, and time\n\n"
        + markdown(
            ("classifier", "mean rank", "CPU s a fit, median", "mean"),
            [
                (
                    scores.classifiers[i],
                    f"{ranks[i]:.2f}",
                    f"{np.median(seconds.of(scores.classifiers[i])):.2f}",
                    f"{seconds.of(scores.classifiers[i]).mean():.2f}",
                )
                for i in order
            ],
        )
    )
    losses = [
        (name, *(f"{v:.4f}" for v in line))
        for name, line in zip(scores.datasets, scores.values, strict=True)
    ]
    parts.append("## Log-loss, table by table\n\n" + markdown(("", *scores.classifiers), losses))
    return "\n\n".join(parts)


def adult(folder: Path) -> str:
    """Train on 25,000 coded rows of Adult, score the test rows once."""
    train, test = np.load(folder / "adult25k.npy"), np.load(folder / "adult_test.npy")
    X, Xt = (
        pa.table({f"x{j}": [f"{v:02d}" for v in rows[:, j]] for j in range(rows.shape[1] - 1)})
        for rows in (train, test)
    )
    y, truth = train[:, -1].astype(np.int64), test[:, -1].astype(np.int64)
    rows = []
    named = {"default": Contender.of(DEFAULT), **OTHERS}
    named |= {"2-tree, pooled": Contender.of(TWO_TREE), "skdb, hdp": OWN["skdb, hdp"]}
    for name, contender in named.items():
        contender.build(0).fit(X.slice(0, 500), y[:500])  # kernels and libraries loaded
        start = time.process_time()
        model = contender.build(0).fit(X, y)
        seconds = time.process_time() - start
        p = model.predict_proba(Xt)
        scores = (f"{m(p, truth):.4f}" for m in (log_loss, rmse_true_class, zero_one_loss))
        rows.append((name, *scores, f"{seconds:.2f}"))
    return (
        f"## Adult\n\n{len(y):,} rows to train on, {len(truth):,} to test, the same codes for all, "
        "in their order; one fit each.\n\n"
        + markdown(("", "log-loss", "RMSE", "0–1 loss", "CPU s to fit"), rows)
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    shared = ROOT.parent / "shared"
    parser.add_argument("--data", type=Path, default=shared / "data")
    parser.add_argument("--reference", type=Path, default=shared / "reference" / "hdp")
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--max-rows", type=int, default=20_000)
    arguments, _ = parser.parse_known_args()
    size = (arguments.data, arguments.rounds, arguments.max_rows)
    results = experiment(*size, {**OTHERS, **OWN}).run(arguments.run)
    raw = experiment(*size, RAW).run(arguments.run, retry_failed=True)
    scores = results.mean("log_loss")
    text = (
        '`BayesNetClassifier()`, that is `BayesNetClassifier("tan", "pooled", bins=5)`, on '
        f"{len(scores.datasets)} tables of up to {arguments.max_rows:,} rows, "
        f"{arguments.rounds} rounds of two-fold cross-validation, everything on the same folds. "
        "Other programs have their own defaults. Win–draw–loss of the default (losses rounded to "
        "4 digits), p of the two-sided sign test, × the ratio of geometric means (below 1: the "
        "default is better). The pool's members, the precision of its shares and the number of "
        "bins were chosen on these tables too, on other folds: somewhat flattering.\n\n"
    )
    if scores.excluded:
        text += f"Left out, because a classifier failed there: {', '.join(scores.excluded)}.\n\n"
    text += report(results, raw) + "\n\n" + adult(arguments.reference)
    publish("default", "The default classifier", text)


if __name__ == "__main__":
    main()
