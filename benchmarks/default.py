"""The default classifier against other programs on raw tables, each with its own defaults.

    python benchmarks/default.py --data FOLDER --run FILE [FILE ...] [--only PROGRAM ...]
                                 [--rounds N] [--minutes M] [--write]

The run file survives a kill: the same command goes on where it was. Further run
files are only read, so that programs can run side by side. Smallest tables
first; what the minutes do not suffice for is left out and said so.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa

from benchmarks.measuring import MEASUREMENTS, ROOT, markdown, publish
from tanager import BayesNetClassifier
from tanager.evaluation.datasets import find_dataset
from tanager.evaluation.metrics import log_loss, rmse_true_class, zero_one_loss
from tanager.evaluation.statistics import (
    average_ranks,
    geometric_mean_ratio,
    nemenyi,
    win_draw_loss,
)
from tanager.parameters import Layered
from tanager.structure import KDB

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread for every program

METRICS = {"log-loss": log_loss, "RMSE": rmse_true_class, "0–1 loss": zero_one_loss}
SEED = 20_260  # of the published folds; choices were made on others
FLOOR = 1e-15  # least probability of a class: what scikit-learn's log-loss clips at
LARGE_CHOSEN = ("adult", "connect4", "localization_partial", "satimage_disc", "shuttle")
MANY_ROWS = 24_000  # beyond which there is one round


class Program(NamedTuple):
    """How a program is made, and which kind of table it is given."""

    make: Callable[[], Any]
    table: str  # "arrow", "frame", "text" or "one-hot"
    slow: bool = False
    instead: tuple[str, Any] | None = None  # a constant of Tanager, and another value of it


def programs() -> dict[str, Program]:
    """Return all programs, each with its own defaults and one thread."""
    from catboost import CatBoostClassifier
    from interpret.glassbox import ExplainableBoostingClassifier
    from lightgbm import LGBMClassifier
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from xgboost import XGBClassifier

    return {
        "Tanager": Program(BayesNetClassifier, "arrow"),
        "CatBoost": Program(
            lambda: CatBoostClassifier(verbose=0, thread_count=1, allow_writing_files=False),
            "text",
            slow=True,
        ),
        "LightGBM": Program(lambda: LGBMClassifier(n_jobs=1, verbose=-1), "frame"),
        "XGBoost": Program(lambda: XGBClassifier(n_jobs=1, enable_categorical=True), "frame"),
        "HistGradientBoosting": Program(
            lambda: HistGradientBoostingClassifier(categorical_features="from_dtype"), "frame"
        ),
        "random forest": Program(lambda: RandomForestClassifier(n_jobs=1), "one-hot"),
        "EBM": Program(lambda: ExplainableBoostingClassifier(n_jobs=1), "text", slow=True),
        "logistic regression": Program(
            lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)), "one-hot"
        ),
    }


def choices() -> dict[str, Program]:
    """Return other choices of Tanager's own: what each idea brought."""

    def made(*given: Any, **options: Any) -> Program:
        return Program(lambda: BayesNetClassifier(*given, **options), "arrow")

    return {
        "features alone (no parents)": made("naive", "layered"),
        "one parent": made("ktree(max_parents=1)", "layered"),
        "tables of two numbers not smooth": made()._replace(
            instead=("tanager.loglinear.cells.MOST_SMOOTH", 1)
        ),
        "tree by conditional information": made(KDB(k=2, moral=True), "layered"),
        "without generative tables": made("auto", Layered(generative=None)),
        "bins by class and frequency, not fine": made("auto", "layered", bins=5),
        "bases not turned": made()._replace(instead=("tanager.loglinear.curves.EVEN", np.inf)),
    }


def choices_of_many_rows() -> dict[str, Program]:
    """Return choices that make a difference from 1,000 or 5,000 training rows on."""

    def without(name: str, value: Any) -> Program:
        return Program(BayesNetClassifier, "arrow", instead=(f"tanager.{name}", value))

    return {
        "64 bins at most": without("codes.cuts.FINE_BINS", ((1_500, 64), (0, 32))),
        "one strength, no table of a second parent alone": without(
            "parameters.layered.part.OWN_TABLE_ROWS", np.inf
        ),
        "bases not turned, many rows": without("loglinear.curves.EVEN", np.inf),
        "two parents": without("structure.ktree.THIRD_PARENT_ROWS", np.inf),
    }


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
    """Iterate over the halves of each round, stratified; one round where rows are many."""
    for number in range(rounds if len(labels) <= MANY_ROWS else 1):
        generator = np.random.default_rng([SEED, number])
        order = generator.permutation(len(labels))
        order = order[np.argsort(labels[order], kind="stable")]
        halves = [generator.permutation(order[side::2]) for side in (0, 1)]
        for side in (0, 1):
            yield f"{number}.{side}", halves[side], halves[1 - side]


def measure(program: Program, table: dict[str, Any], labels: Any, train: Any, test: Any) -> Any:
    """Return the losses and the CPU time of one fit."""
    shaped = table[program.table]
    first, second = (
        shaped.take(rows) if program.table == "arrow" else shaped.iloc[rows]
        for rows in (train, test)
    )
    seen, codes = np.unique(labels[train], return_inverse=True)
    model = program.make()
    options = {"cat_features": table["categories"]} if "CatBoost" in type(model).__name__ else {}
    with patch(*program.instead) if program.instead else nullcontext():
        start = time.process_time()
        model.fit(first, codes, **options)
        seconds = time.process_time() - start
    probability = np.full((len(test), int(labels.max()) + 1), FLOOR)
    probability[:, seen] = np.maximum(model.predict_proba(second), FLOOR)
    probability /= probability.sum(axis=1, keepdims=True)
    scores = {name: float(metric(probability, labels[test])) for name, metric in METRICS.items()}
    held_out = None
    if isinstance(model, BayesNetClassifier):
        held_out = (model.info_["parameters"].get("held_out_loss") or [None])[0]
    return {**scores, "seconds": seconds, "held_out": held_out}


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run what is not yet in the first run file, while there is time."""
    warnings.simplefilter("ignore")
    written, *read = arguments.run
    found = json.loads(written.read_text()) if written.exists() else {}
    manifest = json.loads((arguments.data / "manifest.json").read_text())
    entries = sorted(manifest, key=lambda entry: (entry["rows"], entry["slug"]))
    every = {**programs(), **choices(), **choices_of_many_rows()}
    wanted = {title: every[title] for title in arguments.only}
    warm_up(wanted)
    deadline = time.monotonic() + 60 * arguments.minutes
    for fold in [f"{number}.{side}" for number in range(arguments.rounds) for side in (0, 1)]:
        for entry in entries:
            name = entry["slug"]
            keys = {title: f"{name}|{fold}|{title}" for title in wanted}
            if all(key in found for key in keys.values()):
                continue
            loaded = find_dataset(name, arguments.data).load()
            halves = {known: pair for known, *pair in folds(loaded.labels, arguments.rounds)}
            n_rows = len(loaded.labels)
            if fold not in halves or not arguments.min_rows <= n_rows <= arguments.max_rows:
                continue
            table, (train, test) = frames(loaded.features), halves[fold]
            for title, key in keys.items():
                if key in found:
                    continue
                if time.monotonic() > deadline:
                    return _all_of(found, read)
                try:
                    found[key] = measure(wanted[title], table, loaded.labels, train, test)
                except Exception as error:  # a program that fails on a table is a result too
                    found[key] = {"error": f"{type(error).__name__}: {error}"[:200]}
                part = written.with_suffix(".part")
                part.write_text(json.dumps(found))
                part.replace(written)
    return _all_of(found, read)


def _all_of(found: dict[str, Any], files: list[Path]) -> dict[str, Any]:
    """Return what was found, here and in other run files."""
    return {
        key: value for file in files for key, value in json.loads(file.read_text()).items()
    } | found


def warm_up(every: dict[str, Program]) -> None:
    """Load libraries and kernels outside all measured times."""
    generator = np.random.default_rng(0)
    numbers = generator.normal(size=(60, 3))
    features = pa.table({f"x{i}": numbers[:, i] for i in range(3)})
    features = features.append_column("c", pa.array(["a", "b"] * 30))
    table, rows = frames(features), np.arange(60)
    for classes in (2, 3):
        for program in every.values():
            measure(program, table, np.arange(60) % classes, rows, rows)


def chosen_on(name: str) -> bool:
    """Return whether choices were made on this table: half of them, by a hash of the name.

    And some large ones, on which the number of bins and of strengths was chosen.
    """
    return name in LARGE_CHOSEN or hashlib.md5(name.encode()).digest()[0] % 2 == 1


def anywhere(name: str) -> bool:  # noqa: ARG001
    """Return True: all tables."""
    return True


class Scores:
    """Mean scores of tables that all of some programs have."""

    def __init__(self, found: dict[str, Any], names: list[str]) -> None:
        cells: dict[tuple[str, str], dict[str, Any]] = {}
        for key, value in found.items():
            table, fold, title = key.split("|")
            cells.setdefault((table, fold), {})[title] = value
        kept: dict[str, list[dict[str, Any]]] = {}
        self.failed: set[str] = set()
        for (table, _), values in cells.items():
            if not all(name in values for name in names):
                continue
            if any("error" in values[name] for name in names):
                self.failed.add(table)
                continue
            kept.setdefault(table, []).append(values)
        self.tables = list(kept)
        self._kept, self._names = kept, names

    def matrix(self, metric: str, tables: list[str] | None = None) -> np.ndarray:
        """Return the mean of a metric, (n_tables, n_programs)."""
        rows = self.tables if tables is None else tables
        return np.array(
            [
                [np.mean([values[n][metric] for values in self._kept[t]]) for n in self._names]
                for t in rows
            ]
        ).reshape(len(rows), len(self._names))


def duels(found: dict[str, Any], others: list[str], part: Callable[[str], bool]) -> str:
    """Compare the default with each other on the tables that both have."""
    rows = []
    for other in others:
        scores = Scores(found, ["Tanager", other])
        tables = [t for t in scores.tables if part(t)]
        if len(tables) < 2:
            continue
        shown = []
        for metric in METRICS:
            both = scores.matrix(metric, tables)
            outcome = win_draw_loss(both[:, 0], both[:, 1], decimals=4)
            ratio = geometric_mean_ratio(np.maximum(both[:, 0], 1e-4), np.maximum(both[:, 1], 1e-4))
            shown.append(f"{outcome} (p {outcome.p_value:.2g}), ×{ratio:.3f}")
        rows.append((other, len(tables), *shown))
    return markdown(("Tanager against", "tables", *METRICS), rows)


def ranks(found: dict[str, Any], names: list[str], part: Callable[[str], bool]) -> str:
    """Rank programs on log-loss, with their CPU times."""
    scores = Scores(found, names)
    tables = [t for t in scores.tables if part(t)]
    if len(tables) < 2:
        return "The time did not suffice for all of them on two tables."
    mean, seconds = (
        average_ranks(scores.matrix("log-loss", tables)),
        scores.matrix("seconds", tables),
    )
    rows = [
        (
            names[i],
            f"{mean[i]:.2f}",
            f"{np.median(seconds[:, i]):.2f}",
            f"{seconds[:, i].mean():.2f}",
        )
        for i in np.argsort(mean)
    ]
    head = ("program", "mean rank on log-loss", "CPU s a fit, median", "mean")
    return f"{len(tables)} tables that all of them finished.\n\n" + markdown(head, rows)


def draw(found: dict[str, Any], names: list[str]) -> None:
    """Draw the critical-difference diagram, and held-out loss against that of new rows."""
    import matplotlib.pyplot as plt

    from tanager.report.figures import plot_critical_difference

    scores = Scores(found, names)
    axes = plot_critical_difference(names, nemenyi(scores.matrix("log-loss")))
    axes.figure.savefig(MEASUREMENTS / "default-ranks.svg", bbox_inches="tight")
    pairs = held_out_pairs(found)
    figure, axes = plt.subplots(figsize=(4.5, 4.5))
    axes.scatter(pairs[:, 0], pairs[:, 1], s=12)
    axes.plot([0, pairs.max()], [0, pairs.max()], lw=0.8, color="grey")
    axes.set(xlabel="held_out_loss of the fit", ylabel="log-loss on new rows")
    figure.savefig(MEASUREMENTS / "default-held-out.svg", bbox_inches="tight")


def held_out_pairs(found: dict[str, Any]) -> np.ndarray:
    """Return each fit's held-out loss and its loss on new rows, (n_fits, 2)."""
    fits = [v for k, v in found.items() if k.endswith("|Tanager") and v.get("held_out")]
    return np.array([[fit["held_out"], fit["log-loss"]] for fit in fits])


def how_far(found: dict[str, Any], title: str) -> str:
    """Return how many tables have how many folds by a program."""
    seen: dict[str, int] = {}
    for key in found:
        table, _, program = key.split("|")
        if program == title:
            seen[table] = seen.get(table, 0) + 1
    numbers = sorted(set(seen.values()), reverse=True)
    counts = [(n, sum(count == n for count in seen.values())) for n in numbers]
    return ", ".join(f"{n} folds of {tables} tables" for n, tables in counts) or "none"


def report(found: dict[str, Any], data: Path) -> str:
    """Return the page."""
    manifest = json.loads((data / "manifest.json").read_text())
    large = {entry["slug"] for entry in manifest if entry["rows"] > 10_000}
    every, own = list(programs()), list(choices())
    quick = [name for name, program in programs().items() if not program.slow]
    others = every[1:]
    everywhere = Scores(found, quick)
    pairs = held_out_pairs(found)
    gap = pairs[:, 1] - pairs[:, 0]
    losses = everywhere.matrix("log-loss")
    rows = [
        (t, "yes" if chosen_on(t) else "", *(f"{v:.4f}" for v in line))
        for t, line in zip(everywhere.tables, losses, strict=True)
    ]
    failed = sorted(Scores(found, quick).failed)
    return "\n\n".join(
        [
            "`BayesNetClassifier()`, that is structure `auto` with parameters `layered`, against "
            "programs with their own defaults on raw tables, one thread each: strings as native "
            "categories (CatBoost, LightGBM, XGBoost, HistGradientBoosting, EBM) or one-hot with "
            "medians for gaps (random forest, logistic regression). Two-fold cross-validation, "
            f"5 rounds, of tables of more than {MANY_ROWS:,} rows one, as far as the time went, "
            f"small tables first. Tanager: {how_far(found, 'Tanager')}; LightGBM: "
            f"{how_far(found, 'LightGBM')}; CatBoost: {how_far(found, 'CatBoost')}; EBM: "
            f"{how_far(found, 'EBM')}. Two programs are compared on the folds that both have. "
            "Choices were made on other folds of half of the tables, picked by a hash of the name, "
            f"and of {', '.join(LARGE_CHOSEN)}; the others had no part in them. Win–draw–loss "
            "(losses rounded to 4 digits), p of the two-sided sign test, × the ratio of geometric "
            "means (below 1: Tanager is better). The two cores did other work too, so CPU seconds "
            "are somewhat high, for all programs alike. mnist14 is left out; letter_disc and "
            "satimage_disc are second versions of other tables, cut into bins.",
            "## Tables that had no part in the choices\n\n"
            + duels(found, others, lambda t: not chosen_on(t)),
            "## Tables on which choices were made, other folds\n\n"
            + duels(found, others, chosen_on),
            "## All tables\n\n" + duels(found, others, anywhere),
            "## Tables of more than 10,000 rows\n\n" + duels(found, others, large.__contains__),
            "![Critical differences](default-ranks.svg)",
            "## Ranks and time\n\n" + ranks(found, quick, anywhere),
            "With CatBoost and EBM, on smaller tables:\n\n" + ranks(found, every, anywhere),
            "## What each idea brought\n\nThe default against itself without it, two folds of "
            "tables of up to 3,000 rows.\n\n"
            + duels(found, own, lambda t: t not in large)
            + "\n\nAnd the first fold of tables of more than 3,000 rows:\n\n"
            + duels(found, list(choices_of_many_rows()), anywhere),
            "## Is the held-out loss honest?\n\n![Held-out loss](default-held-out.svg)\n\n"
            f"Over {len(gap)} fits the loss on new rows less `held_out_loss` has the mean "
            f"{gap.mean():+.4f} and the median {np.median(gap):+.4f}.",
            "## Log-loss, table by table\n\n" + markdown(("", "chosen on", *quick), rows),
            f"A program failed on: {', '.join(failed)}." if failed else "No program failed.",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--run", type=Path, nargs="+", required=True)
    parser.add_argument("--only", nargs="*", default=[*programs(), *choices()])
    parser.add_argument("--min-rows", type=int, default=0)
    parser.add_argument("--max-rows", type=int, default=1 << 40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    found = run(arguments)
    if arguments.write:
        draw(found, [n for n, program in programs().items() if not program.slow])
    publish("default", "The default classifier", report(found, arguments.data))


if __name__ == "__main__":
    main()
