"""The default against gradient boosting on small tables, with the threads that a user has.

    python benchmarks/small_tables.py [--data FOLDER] [--write]

Nothing limits the threads of any program: two rounds of all tables of up to 5,000
rows, one process a program, half of each table to learn from. CPU seconds are those of
all threads of the process, wall seconds those of a clock.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from benchmarks.measuring import ROOT, markdown, publish
from tanager.evaluation.datasets import find_dataset

MAX_ROWS = 5_000
SEED = 20_260  # of the published folds
FLOOR = 1e-15  # least probability of a class: what scikit-learn's log-loss clips at
LIMITS = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"


def frames(features: pa.Table) -> dict[str, Any]:
    """Return a table in the shapes that programs take."""
    numeric, categories = {}, {}
    for at, column in enumerate(features.itercolumns()):
        name = f"x{at}"  # XGBoost and LightGBM refuse some characters
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            numeric[name] = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        else:
            categories[name] = [None if v is None else str(v) for v in column.to_pylist()]
    as_categories = {name: pd.Categorical(v) for name, v in categories.items()}
    as_text = {name: ["missing" if v is None else v for v in c] for name, c in categories.items()}
    rows = pd.RangeIndex(features.num_rows)
    spread = pd.get_dummies(pd.DataFrame(as_text, rows), dtype=float) if as_text else None
    filled = pd.DataFrame(numeric, rows)
    gaps = filled.isna()
    gaps = gaps.loc[:, gaps.any()].astype(float).add_prefix("missing ")
    filled = filled.fillna(filled.median()).fillna(0.0)
    return {
        "arrow": features,
        "frame": pd.DataFrame({**numeric, **as_categories}),
        "text": pd.DataFrame({**numeric, **as_text}),
        "one-hot": pd.concat([filled, gaps, spread], axis=1),  # what is None is left out
        "categories": list(categories),
    }


def folds(labels: np.ndarray, rounds: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Iterate over the halves of each round, stratified."""
    for number in range(rounds):
        generator = np.random.default_rng([SEED, number])
        order = generator.permutation(len(labels))
        order = order[np.argsort(labels[order], kind="stable")]
        halves = [generator.permutation(order[side::2]) for side in (0, 1)]
        for side in (0, 1):
            yield f"{number}.{side}", halves[side], halves[1 - side]


def make(program: str) -> tuple[Any, str]:
    """Return a classifier with its own defaults, and the shape of table that it takes."""
    if program == "Tanager":
        from tanager import BayesNetClassifier

        return BayesNetClassifier(), "arrow"
    if program == "LightGBM":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(verbose=-1), "frame"
    if program == "XGBoost":
        from xgboost import XGBClassifier

        return XGBClassifier(enable_categorical=True), "frame"
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(categorical_features="from_dtype"), "frame"


def measure(program: str, data: Path) -> dict[str, list[float]]:
    """Fit every small table twice; return CPU seconds, wall seconds and log-loss of each.

    A table on which the program fails is left out.
    """
    warnings.simplefilter("ignore")
    manifest = json.loads((data / "manifest.json").read_text())
    found: dict[str, list[float]] = {}
    for entry in sorted(manifest, key=lambda entry: entry["rows"]):
        if entry["rows"] > MAX_ROWS:
            continue
        loaded = find_dataset(entry["slug"], data).load()
        table, times = frames(loaded.features), []
        for _, train, test in folds(loaded.labels, 1):
            model, shape = make(program)
            rows = table[shape]
            first, second = (
                rows.take(half) if shape == "arrow" else rows.iloc[half] for half in (train, test)
            )
            seen, codes = np.unique(loaded.labels[train], return_inverse=True)
            wall, cpu = time.perf_counter(), time.process_time()
            try:
                model.fit(first, codes)
            except ValueError as error:
                print(f"{program} on {entry['slug']}: {error}", file=sys.stderr)
                break
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            said = np.full((len(test), int(loaded.labels.max()) + 1), FLOOR)
            said[:, seen] = np.maximum(model.predict_proba(second), FLOOR)
            own = said[np.arange(len(test)), loaded.labels[test]]
            times.append((cpu, wall, -float(np.log(own).mean())))
        if len(times) == 2:
            found[entry["slug"]] = np.mean(times, axis=0).tolist()
    return found


def report(found: dict[str, dict[str, list[float]]]) -> str:
    """Return the page."""
    ours = found["Tanager"]
    lines = []
    for program, tables in found.items():
        cpu, wall, _ = np.array(list(tables.values())).T
        quicker = sum(ours[name][0] < tables[name][0] for name in tables)
        better = sum(ours[name][2] < tables[name][2] for name in tables)
        rest = ["", ""] if program == "Tanager" else [quicker, better]
        shown = [f"{value:.2f}" for value in (np.median(cpu), cpu.mean(), np.median(wall))]
        lines.append([program, len(tables), *shown, *rest])
    head = ["program", "tables", "CPU s a fit, median", "mean", "wall s, median",
            "Tanager takes less CPU on", "Tanager has less log-loss on"]  # fmt: skip
    names = [f"{name} {'; '.join(_seconds(found[p], name) for p in found)}" for name in ours]
    return (
        f"{len(ours)} tables of up to {MAX_ROWS:,} rows, half of each to learn from, two folds, "
        "every program with its own defaults and with all the threads that it takes on this "
        "machine.\n\n" + markdown(head, lines) + "\n\n"
        f"CPU seconds table by table, from small to large ({'; '.join(found)}): "
        + ", ".join(names) + "."
    )  # fmt: skip


def _seconds(tables: dict[str, list[float]], name: str) -> str:
    return f"{tables[name][0]:.2f}" if name in tables else "failed"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--program", help="measure this one here, and print what was found")
    arguments, _ = parser.parse_known_args()
    if arguments.program:
        print(json.dumps(measure(arguments.program, arguments.data)))
        return
    free = {name: value for name, value in os.environ.items() if name not in LIMITS}
    found = {}
    for program in ("Tanager", "HistGradientBoosting", "LightGBM", "XGBoost"):
        command = [sys.executable, "-m", "benchmarks.small_tables", "--program", program]
        done = subprocess.run(
            [*command, "--data", str(arguments.data)], env=free, cwd=ROOT,
            stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        found[program] = json.loads(done.stdout.splitlines()[-1])
    publish("small_tables", "Small tables", report(found))


if __name__ == "__main__":
    main()
