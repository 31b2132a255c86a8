"""The default against gradient boosting: CPU time, memory and log-loss by rows, classes, columns.

    python -m benchmarks.rows_and_time [--rows 1000000] [--run FILE] [--write]

Every fit runs in a process of its own, which reports CPU time (one thread),
peak memory and the log-loss on 50,000 new rows. The programs take turns on the
same rows, so that ratios hold on a busy machine. Small tables: scikit-learn's
own, half of each to learn from. The run file keeps what was measured: the same
command goes on from there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.measuring import in_new_process, markdown, publish

PROGRAMS = {
    "Tanager": "from tanager import BayesNetClassifier as C; model = C()",
    "LightGBM": "from lightgbm import LGBMClassifier as C; model = C(n_jobs=1, verbose=-1)",
    "XGBoost": (
        "from xgboost import XGBClassifier as C; model = C(n_jobs=1, enable_categorical=True)"
    ),
    "HistGradientBoosting": (
        "from sklearn.ensemble import HistGradientBoostingClassifier as C; "
        "model = C(categorical_features='from_dtype')"
    ),
}
TEST_ROWS = 50_000
FIT = """
import json, time, warnings
warnings.filterwarnings("ignore")
import numpy as np
from benchmarks.rows_and_time import {maker}
from tanager.engines.keeping import peak_memory_mb, reset_peak_memory
X, y, X_new, y_new = {maker}({arguments})
{program}
before = peak_memory_mb()
reset_peak_memory()
times = []
for _ in range({repeats}):
    cpu = time.process_time()
    model.fit(X, y)
    times.append(time.process_time() - cpu)
cpu = min(times)
peak = peak_memory_mb()
start = time.process_time()
said = model.predict_proba(X_new)
a_row = (time.process_time() - start) / len(y_new) * 1e6
own = said[np.arange(len(y_new)), y_new]
loss = -np.log(np.maximum(own, 1e-15)).mean()
print(json.dumps(dict(cpu=cpu, peak=peak, a_row=a_row, loss=float(loss))))
"""

Floats = NDArray[np.float64]
Split = tuple[pd.DataFrame, NDArray[np.int64], pd.DataFrame, NDArray[np.int64]]


def mixed(n_rows: int, n_classes: int = 2, n_numbers: int = 15, n_categories: int = 15) -> Split:
    """Return rows of numbers and categories: six hidden causes, curves, pairs and triples.

    The classes' scores are sums of sines of single columns, products of the sign
    of one and a bounded function of another, and corners of three; then Gumbel's
    noise, so that the best log-loss is not zero.
    """
    total, n_columns = n_rows + TEST_ROWS, n_numbers + n_categories
    draws, world = np.random.default_rng(0), np.random.default_rng(99)
    causes = draws.normal(size=(total, 6))
    columns = causes @ world.normal(size=(n_columns, 6)).T + draws.normal(size=(total, n_columns))
    table: dict[str, Any] = {}
    for at in range(n_numbers):
        table[f"n{at}"] = np.exp(columns[:, at] / 2) if at % 3 == 0 else columns[:, at]
    for at in range(n_categories):
        size = int(world.integers(2, 20))
        cuts = np.sort(world.normal(size=size - 1) * 2)
        codes = np.searchsorted(cuts, columns[:, n_numbers + at])
        table[f"c{at}"] = pd.Categorical.from_codes(codes, [f"v{k}" for k in range(size)])
    scores = np.stack([_score(columns, world) for _ in range(n_classes)], axis=1)
    labels = (scores + draws.gumbel(size=scores.shape)).argmax(axis=1)
    frame = pd.DataFrame(table)
    return frame.iloc[:n_rows], labels[:n_rows], frame.iloc[n_rows:], labels[n_rows:]


def _score(columns: Floats, world: np.random.Generator) -> Floats:
    n_columns = columns.shape[1]
    out = np.zeros(len(columns))
    for _ in range(8):
        one = columns[:, world.integers(n_columns)]
        out += 0.5 * world.normal() * np.sin(one * world.uniform(0.5, 2))
    for _ in range(6):
        one, two = columns[:, world.integers(n_columns, size=2)].T
        out += 0.5 * world.normal() * np.sign(one) * np.tanh(two)
    for _ in range(3):
        three = columns[:, world.integers(n_columns, size=3)]
        out += 0.7 * world.normal() * (three > 0).all(axis=1)
    return out


def small(name: str, seed: int) -> Split:
    """Return half of one of scikit-learn's own tables to learn from, and the other half."""
    from sklearn import datasets

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    frame = pd.DataFrame(X).add_prefix("x")
    train, test = order[: len(y) // 2], order[len(y) // 2 :]
    return frame.iloc[train], y[train], frame.iloc[test], y[test]


class Runs:
    """What was measured, kept in a file."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        known = path is not None and path.exists()
        self._known: dict[str, dict[str, float]] = json.loads(path.read_text()) if known else {}

    def fit(self, program: str, maker: str, *arguments: Any) -> dict[str, float]:
        """Fit a program in a new process with one thread."""
        given = ", ".join(map(repr, arguments))
        name = f"{program}: {maker}({given})"
        if name not in self._known:
            # The first small fit loads what the others have at hand.
            repeats = 3 if maker == "small" else 1
            code = FIT.format(
                program=PROGRAMS[program], maker=maker, arguments=given, repeats=repeats
            )
            self._known[name] = in_new_process(code)
            if self._path is not None:
                self._path.write_text(json.dumps(self._known, indent=1))
        return self._known[name]

    def has(self, maker: str, *arguments: Any) -> bool:
        """Return whether all programs were fitted."""
        given = ", ".join(map(repr, arguments))
        return all(f"{program}: {maker}({given})" in self._known for program in PROGRAMS)

    def compare(self, maker: str, *arguments: Any) -> dict[str, dict[str, float]]:
        """Fit all programs, one after the other."""
        return {program: self.fit(program, maker, *arguments) for program in PROGRAMS}


HEAD = [
    "rows",
    "columns",
    "classes",
    "program",
    "CPU s",
    "of LightGBM",
    "peak MB",
    "CPU µs to predict a row",
    "log-loss",
]


def large(runs: Runs, cases: list[tuple[int, int, int]]) -> str:
    """Compare on mixed tables of so many rows, classes and columns."""
    rows = []
    for n_rows, n_classes, n_columns in cases:
        half = n_columns // 2
        found = runs.compare("mixed", n_rows, n_classes, half, half)
        for program, one in found.items():
            rows.append(
                [
                    f"{n_rows:,}",
                    n_columns,
                    n_classes,
                    program,
                    f"{one['cpu']:.1f}",
                    f"{one['cpu'] / found['LightGBM']['cpu']:.2f}",
                    f"{one['peak']:,.0f}",
                    f"{one['a_row']:.2f}",
                    f"{one['loss']:.4f}",
                ]
            )
    return markdown(HEAD, rows)


SMALL = ("iris", "wine", "breast_cancer", "digits")


def few(measured: Runs, names: Sequence[str]) -> str:
    """Compare on small tables: the least of two runs, halves by two seeds."""
    rows = []
    for name in names:
        runs = [measured.compare("small", name, seed) for seed in (0, 1)]
        line: list[str] = [name]
        for program in PROGRAMS:
            cpu = min(run[program]["cpu"] for run in runs)
            loss = np.mean([run[program]["loss"] for run in runs])
            line.append(f"{cpu:.2f} s, {loss:.3f}")
        rows.append(line)
    return markdown(["table", *PROGRAMS], rows)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the largest table")
    parser.add_argument("--run", type=Path, help="what was measured is kept here")
    parser.add_argument("--known", action="store_true", help="report what the run file has")
    parser.add_argument("--write", action="store_true", help="keep the report")
    return parser.parse_args()


def main() -> None:
    """Measure, and report."""
    options = parse()
    runs, most = Runs(options.run), options.rows
    cases = [(10_000, 2, 30), (100_000, 2, 30), (100_000, 2, 10), (100_000, 10, 30)]
    cases += [(1_000_000, 2, 30)]
    cases = [case for case in cases if case[0] <= most]
    names: Sequence[str] = SMALL
    if options.known:
        cases = [c for c in cases if runs.has("mixed", c[0], c[1], c[2] // 2, c[2] // 2)]
        names = [n for n in SMALL if all(runs.has("small", n, seed) for seed in (0, 1))]
    text = (
        "The default, `BayesNetClassifier()`, and gradient boosting with its own defaults, on one "
        "thread each, in turns on the same rows. CPU time, because the machine is shared. Peak "
        "memory is the process's, the table included.\n\n## Mixed columns\n\n"
        "Half numbers, half categories of 2 to 19 values; 50,000 new rows judge.\n\n"
        + large(runs, cases)
    )
    if names:
        text += (
            "\n\n## Small tables\n\nscikit-learn's own: CPU time of a fit on half of the rows, the "
            "least of three, and log-loss on the other half.\n\n" + few(runs, names)
        )
    publish("rows_and_time", "Rows and time", text)


if __name__ == "__main__":
    main()
