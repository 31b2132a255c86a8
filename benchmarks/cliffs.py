"""Tables whose counts are many: many classes, many values, many features.

    python -m benchmarks.cliffs                 every case
    python -m benchmarks.cliffs --only classes  one of them

Each case runs in a process of its own, which reports its CPU time and its peak
memory, and is stopped after --minutes of CPU time or past --gigabytes.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring import in_new_process, machine, markdown

# rows, features, values, classes, model
CASES: dict[str, tuple[int, int, int, int, str]] = {
    "classes": (100_000, 30, 10, 50, "skdb(max_k=5)"),
    "values": (100_000, 30, 256, 2, "skdb(max_k=5)"),
    "features": (100_000, 300, 10, 2, "skdb(max_k=5)"),
    "prediction": (100_000, 30, 10, 50, "kdb(k=5)"),
    "prediction-two": (100_000, 30, 10, 2, "kdb(k=5)"),
}

RUN = """
import json, resource, time
from benchmarks.cliffs import make_rows
resource.setrlimit(resource.RLIMIT_AS, ({bytes}, {bytes}))
resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
from tanager import BayesNetClassifier
from tanager.engines.keeping import peak_memory_mb, reset_peak_memory
X, y = make_rows({n_rows}, {n_features}, {n_values}, {n_classes})
clf = BayesNetClassifier({structure!r}, "hdp", n_jobs=2, memory_limit={limit!r},
                         categorical_features="all")
reset_peak_memory()
start = time.process_time()
clf.fit(X, y)
fit, peak = time.process_time() - start, peak_memory_mb()
Z, _ = make_rows(20_000, {n_features}, {n_values}, {n_classes}, seed=1)
codes = clf.network_.codebook.encode(Z)
clf.network_.log_joint_of_codes(codes[:, :100])
start = time.process_time()
clf.network_.log_joint_of_codes(codes)
print(json.dumps(dict(fit=fit, peak=peak, row=(time.process_time() - start) / 20_000 * 1e6,
                      peak_after=peak_memory_mb())))
"""


def make_rows(
    n_rows: int, n_features: int, n_values: int, n_classes: int, seed: int = 0
) -> tuple[NDArray[np.int16], NDArray[np.int64]]:
    """Draw rows whose values depend on the class, on the value before, or on nothing."""
    model, rng = np.random.default_rng(5), np.random.default_rng([seed, 6])
    y = rng.integers(0, n_classes, n_rows)
    columns = np.empty((n_features, n_rows), np.int16)
    for i in range(n_features):
        of_class = model.integers(0, n_values, n_classes)
        of_last = model.permutation(n_values)
        column = rng.integers(0, n_values, n_rows)
        chance = rng.random(n_rows)
        column = np.where(chance < 0.2, of_class[y], column)
        if i:
            column = np.where(chance > 0.6, of_last[columns[i - 1]], column)
        columns[i] = column
    return columns.T, y


def measure(name: str, options: argparse.Namespace) -> list[Any]:
    """Run one case; return a line of the report."""
    n_rows, n_features, n_values, n_classes, structure = CASES[name]
    code = RUN.format(
        n_rows=n_rows,
        n_features=n_features,
        n_values=n_values,
        n_classes=n_classes,
        structure=structure,
        limit=options.memory_limit,
        bytes=int(options.gigabytes * 1e9),
        seconds=int(options.minutes * 60),
    )
    table = [f"{n_rows:,} × {n_features}", n_values, n_classes, f"`{structure}` / `hdp`"]
    try:
        found = in_new_process(code, OPENBLAS_NUM_THREADS="1")
    except RuntimeError as error:
        return [*table, f"stopped: {str(error).strip().splitlines()[-1:]}", "", ""]
    return [*table, f"{found['fit']:.1f}", f"{found['peak']:,.0f}", f"{found['row']:.1f}"]


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--memory-limit")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--gigabytes", type=float, default=8)
    options = parser.parse_args()
    print(machine())
    lines = []
    for name in [options.only] if options.only else CASES:
        lines.append(measure(name, options))
        print(lines[-1], flush=True)
    head = ["rows × features", "values", "classes", "model", "fit, CPU s", "peak MB",
            "prediction, CPU µs a row"]  # fmt: skip
    print(markdown(head, lines))


if __name__ == "__main__":
    main()
