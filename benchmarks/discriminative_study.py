"""Discriminative parameters under cross-validation: what to choose, and against whom.

    python -m benchmarks.discriminative_study --data FOLDER --run FILE [--twins FILE]
        [--max-rows N] [--write]

The run files survive a kill: the same command goes on where it was. `--twins` adds
bias and variance of discriminative and generative parameters, over three rounds.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks.measuring import ROOT, markdown, publish
from tanager.evaluation import Contender, CrossValidation, Experiment
from tanager.evaluation.datasets import find_dataset
from tanager.evaluation.results import Results, Scores
from tanager.evaluation.statistics import geometric_mean_ratio, win_draw_loss
from tanager_papers.curves import bias_variance

METRICS = ("zero_one_loss", "rmse_true_class", "log_loss")
SHOWN = {"log_loss": "log-loss", "rmse_true_class": "RMSE", "zero_one_loss": "0–1 loss"}

WEIGHTS = "discriminative(level=1,base='hdp',l2='cv',towards='zero')"
CLASSIFIERS = {
    "weights": f"tan/{WEIGHTS}",
    "weights, kDB-2": f"kdb(k=2)/{WEIGHTS}",
    "random forest": "random-forest@binned",
    "logistic regression": "logistic-regression@binned",
    "XGBoost": "xgboost@binned",
    "HistGradientBoosting": "hist-gradient-boosting@codes",
    "skdb, HDP": "skdb(smoothing='back-off')/hdp",
    "TAN, HDP": "tan/hdp",
    "NB": "naive/m-estimate(m=1)",
    "TAN": "tan/m-estimate(m=1)",
    "KDB-1": "kdb(k=1)/m-estimate(m=1)",
    "NBw": "naive/discriminative(max_iter=500)",
    "TANw": "tan/discriminative(max_iter=500)",
    "KDB-1w": "kdb(k=1)/discriminative(max_iter=500)",
    "TANw, l2 by cv": "tan/discriminative(l2='cv')",
    "TANw, unseen generative": "tan/discriminative(max_iter=500,unseen='generative')",
    "TANw, unseen nothing": "tan/discriminative(max_iter=500,unseen='nothing')",
    "TAN, DFE": "tan/dfe",
    "weights towards 1": "tan/discriminative(level=1,base='hdp',l2='cv')",
}
GROUPS = {
    "Weights over HDP tables against other classifiers": (
        ("weights",),
        (
            "random forest",
            "logistic regression",
            "XGBoost",
            "HistGradientBoosting",
            "skdb, HDP",
            "TAN, HDP",
            "TAN",
            "weights, kDB-2",
            "weights towards 1",
        ),
    ),
    "Two parents instead of one": (
        ("weights, kDB-2",),
        ("skdb, HDP", "random forest", "logistic regression", "XGBoost"),
    ),
    "Discriminative against generative, the same structure (table 4)": (
        ("NBw", "TANw", "KDB-1w"),
        ("NB", "TAN", "KDB-1"),
    ),
    "Between the two: a prior towards the generative model, chosen by cross-validation (5.2)": (
        ("TANw, l2 by cv",),
        ("TAN", "TANw", "TAN, DFE"),
    ),
    "Contexts never seen in training (7.5)": (
        ("TANw",),
        ("TANw, unseen generative", "TANw, unseen nothing"),
    ),
}


TWINS = {"NBw": "NB", "TANw": "TAN", "KDB-1w": "KDB-1"}
TWIN_ROUNDS = 3


def experiment(
    folder: Path, max_rows: int, wanted: list[str] | None, rounds: int = 1
) -> Experiment:
    manifest = json.loads((folder / "manifest.json").read_text())
    entries = sorted(manifest, key=lambda e: (e["rows"], e["slug"]))
    names = [e["slug"] for e in entries if e["rows"] <= max_rows and "_disc" not in e["slug"]]
    return Experiment(
        datasets=[find_dataset(name, folder) for name in names],
        classifiers=[
            Contender(name, use)
            for name, use in CLASSIFIERS.items()
            if wanted is None or name in wanted
        ],
        protocol=CrossValidation(rounds=rounds, folds=2),
        seed=0,
        bins="mdl",
        metrics=METRICS,
        keep=("predictions",) if rounds > 1 else (),
    )


def compare(results: Results, a: str, b: str) -> list[str] | None:
    """Return win-draw-loss and the geometric mean ratio on every metric, a against b."""
    row = []
    for metric in SHOWN:
        scores: Scores = results.mean(metric)
        if a not in scores.classifiers or b not in scores.classifiers:
            return None
        row.append(compare_scores(scores, a, b))
    return row


def compare_scores(scores: Scores, a: str, b: str) -> str:
    x, y = scores.of(a), scores.of(b)
    result = win_draw_loss(x, y, decimals=4)
    floor = 1e-4
    ratio = geometric_mean_ratio(x.clip(floor), y.clip(floor))
    return f"{result} (p {result.p_value:.2g}), ×{ratio:.3f}"


def report_twins(folder: Path, max_rows: int, run: Path) -> str:
    """Return bias and variance of discriminative against generative parameters."""
    plan = experiment(folder, max_rows, [*TWINS, *TWINS.values()], TWIN_ROUNDS)
    results = plan.run(run, retry_failed=True)
    bias, variance = bias_variance(plan, results)
    parts = (bias, variance, *(results.mean(m) for m in ("zero_one_loss", "rmse_true_class")))
    rows = [
        (f"{a} against {b}", *(compare_scores(s, a, b) for s in parts)) for a, b in TWINS.items()
    ]
    return (
        f"## Bias and variance of the 0–1 loss (table 4), {TWIN_ROUNDS} rounds of two folds\n\n"
        + markdown(("", "bias", "variance", "0–1 loss", "RMSE"), rows)
    )


def report(results: Results) -> str:
    parts = []
    for title, (ones, others) in GROUPS.items():
        pairs = zip(ones, others, strict=True) if len(ones) > 1 else ((ones[0], b) for b in others)
        rows = []
        for a, b in pairs:
            row = compare(results, a, b)
            if row is not None:
                rows.append((f"{a} against {b}", *row))
        if rows:
            parts.append(f"## {title}\n\n{markdown(('', *SHOWN.values()), rows)}")
    scores = results.mean("log_loss")
    seconds = results.mean("fit_cpu_seconds")
    rows = [
        (name, use, f"{seconds.of(name).mean():.2f}")
        for name, use in CLASSIFIERS.items()
        if name in scores.classifiers
    ]
    parts.append("## Classifiers\n\n" + markdown(("name", "as written", "CPU s a fit"), rows))
    losses = [
        (table, *(f"{v:.4f}" for v in line))
        for table, line in zip(scores.datasets, scores.values, strict=True)
    ]
    parts.append("## Log-loss, table by table\n\n" + markdown(("", *scores.classifiers), losses))
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--twins", type=Path, help="also estimate bias and variance")
    parser.add_argument("--max-rows", type=int, default=4_000)
    parser.add_argument("--only", nargs="*", help="names of the classifiers to run")
    arguments, _ = parser.parse_known_args()
    plan = experiment(arguments.data, arguments.max_rows, arguments.only)
    results = plan.run(arguments.run, retry_failed=True)
    scores = results.mean("log_loss")
    n_tables = len(scores.datasets)
    text = (
        f"{n_tables} tables of up to {arguments.max_rows:,} rows, one round of two-fold "
        "cross-validation, all on the same folds and the same bins (learned on each training "
        "fold). Win–draw–loss of the first named (losses rounded to 4 digits), p of the two-sided "
        "sign test, × the ratio of geometric means (below 1: the first is better).\n\n"
    )
    if scores.excluded:
        text += f"Left out, because a classifier failed there: {', '.join(scores.excluded)}.\n\n"
    text += report(results)
    if arguments.twins is not None:
        text += "\n\n" + report_twins(arguments.data, arguments.max_rows, arguments.twins)
    publish("discriminative_study", "Discriminative parameters, studied", text)


if __name__ == "__main__":
    main()
