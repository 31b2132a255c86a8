"""Drift: false alarms on unchanged halves of ten tables, and 20 kinds of change found.

    python -m benchmarks.drift [--write] [--splits N] [table ...]

A model is fitted to a random half of a table (at most 2,000 rows) and compared with the other
half: as it is, without and with labels (an alarm is false), and with one change of one column,
drawn at random, at a time (the column must be named). The last lines compare the CPU time of
`tanager drift` to that of `tanager predict` on a Parquet file of 1,000,000 rows and 30 columns.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.measuring import in_new_process, markdown, publish
from benchmarks.order_based import read
from tanager import BayesNetClassifier, save

TABLES = ("abalone", "adult", "car", "cmc", "mushroom", "nursery", "pima", "segment", "sick",
          "vehicle")  # fmt: skip
MOST = 2_000
MODELS = {"default": ("auto", "layered"), "tan": ("tan", "hdp")}


def some(x, rng, share):
    """Return which rows are meant, so large a share."""
    return pa.array(rng.random(len(x)) < share)


def of_numbers(change):
    def work(x, rng):
        numbers = x.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return pa.array(change(numbers, rng), from_pandas=True)

    return work


def but_one(change):
    def work(x, _):
        return pa.concat_arrays([change(x.slice(0, len(x) - 1)), x.slice(len(x) - 1)])

    return work


def common(x, place=0):
    """Return the most frequent value, or the next."""
    counts = sorted(x.value_counts().to_pylist(), key=lambda one: -one["counts"])
    return counts[min(place, len(counts) - 1)]["values"]


def exchanged(x, _):
    first, second = common(x), common(x, 1)
    return pc.if_else(pc.equal(x, first), second, pc.if_else(pc.equal(x, second), first, x))


NUMBERS = {
    "× 100": of_numbers(lambda x, _: x * 100),
    "× 30": of_numbers(lambda x, _: x * 30),
    "× 1.8 + 32": of_numbers(lambda x, _: x * 1.8 + 32),
    "+ half a standard deviation": of_numbers(lambda x, _: x + 0.5 * np.nanstd(x)),
    "negated": of_numbers(lambda x, _: -x),
    "noise of one standard deviation": of_numbers(
        lambda x, rng: x + np.nanstd(x) * rng.normal(size=len(x))
    ),
    "capped at the median": of_numbers(lambda x, _: np.minimum(x, np.nanmedian(x))),
    "always the median": of_numbers(lambda x, _: np.full(len(x), np.nanmedian(x))),
    "-999 in 10 % of rows": of_numbers(lambda x, rng: np.where(rng.random(len(x)) < 0.1, -999, x)),
    "missing in 20 % of rows": lambda x, rng: pc.if_else(some(x, rng, 0.2), None, x),
}
CATEGORIES = {
    "in capitals, but one row": but_one(pc.utf8_upper),
    "blanks around, but one row": but_one(lambda x: pc.binary_join_element_wise(" ", x, " ", "")),
    "a new value in 10 % of rows": lambda x, rng: pc.if_else(some(x, rng, 0.1), "new!", x),
    "most frequent value renamed": lambda x, _: pc.if_else(pc.equal(x, common(x)), "renamed", x),
    "two values exchanged": exchanged,
    "always the most frequent value": lambda x, _: pa.array([common(x)] * len(x)),
    "category missing in 20 % of rows": lambda x, rng: pc.if_else(some(x, rng, 0.2), None, x),
}


def changes(X: pa.Table, y: np.ndarray, clf, rng):
    """Yield what changed, the columns of which one must be named, and the rows."""
    # A constant column has nothing to be changed, and one that the fit leaves out isn't watched.
    known = [n for n in X.column_names if not clf.network_.codebook.leaves_out(n)]
    columns = {name: pc.unique(X[name].drop_null()) for name in known}
    spread = [name for name, values in columns.items() if len(values) > 1]
    kinds = {name: X[name].type for name in spread}
    numbers = [n for n, kind in kinds.items() if not pa.types.is_string(kind)]
    texts = [n for n, kind in kinds.items() if pa.types.is_string(kind)]
    for names, ways in ((numbers, NUMBERS), (texts, CATEGORIES)):
        for way, change in ways.items() if names else ():
            name = names[int(rng.integers(len(names)))]
            column = X[name].combine_chunks()
            new = change(column, rng)
            if not new.equals(column):
                place = X.column_names.index(name)
                yield way, {name}, X.set_column(place, name, new), y
    name = clf.network_.structure.features[int(rng.integers(len(clf.network_.structure.features)))]
    place = X.column_names.index(name)
    yield "shuffled", {name}, X.set_column(place, name, X[name].take(rng.permutation(len(y)))), y
    classes, counts = np.unique(y, return_counts=True)
    target = clf.network_.codebook.target.name
    kept = (y != classes[counts.argmax()]) | (rng.random(len(y)) < 0.3)
    yield "7 of 10 rows of a class dropped", {target}, X.filter(pa.array(kept)), y[kept]
    flipped = np.where(rng.random(len(y)) < 0.3, rng.permutation(y), y)
    yield "3 of 10 labels shuffled", {target, *map(str, classes)}, X, flipped


def measure(name: str, model: str, splits: int):
    """Return false alarms, and how often each change was named."""
    X, y = read(name)
    alarms, named, why = np.zeros(2), defaultdict(list), []
    for split in range(splits):
        rng = np.random.default_rng(split)
        order = rng.permutation(len(y))
        half = min(len(y) // 2, MOST)
        train, test = order[:half], order[half : 2 * half]
        clf = BayesNetClassifier(*MODELS[model], random_state=0).fit(X.take(train), y[train])
        known = np.isin(y[test], clf.classes_)
        test = test[known]
        new, labels = X.take(test), y[test]
        for at, given in enumerate((None, labels)):
            drift = clf.network_.drift(new, given)
            alarms[at] += bool(drift.moved)
            why += [f"{s.kind} {s.columns} {s.effect:.3f} {s.p_value:.4f}" for s in drift.moved]
        if split >= 10:
            continue
        for way, wanted, rows, given in changes(new, labels, clf, rng):
            with_labels = given if way.startswith("3 of") else None
            found = clf.network_.drift(rows, with_labels)
            hit = any(wanted & set(shift.columns) for shift in found.moved)
            named[way].append(hit)
    return alarms, named, why


def make_rows(n: int, rng: np.random.Generator) -> pa.Table:
    """Return rows of 20 numbers and 10 categories, and a class."""
    hidden = rng.normal(size=(n, 5))
    columns = {f"n{i}": (hidden[:, i % 5] + rng.normal(size=n)).round(3) for i in range(20)}
    for i in range(10):
        values = hidden[:, i % 5] + rng.normal(size=n)
        columns[f"c{i}"] = np.digitize(values, [-1, -0.3, 0.3, 1]).astype(str)
    columns["y"] = np.where(hidden[:, 0] + rng.normal(size=n) > 0.5, "yes", "no")
    return pa.table(columns)


RUN = """
import json, sys, time
from tanager.cli.app import run
start = time.process_time(); run({arguments!r})
print(json.dumps(time.process_time() - start))
"""


def measure_speed() -> list[tuple[str, str, str, str]]:
    """Return CPU seconds of predict and drift, each the least of three processes."""
    rng, rows = np.random.default_rng(0), []
    with tempfile.TemporaryDirectory() as folder:
        data, out = f"{folder}/rows.parquet", f"{folder}/out.parquet"
        parts = [make_rows(100_000, rng) for _ in range(10)]
        pq.write_table(pa.concat_tables(parts), data, row_group_size=100_000)
        for name, learners in MODELS.items():
            model = f"{folder}/{name}.tanager"
            clf = BayesNetClassifier(*learners, random_state=0)
            save(clf.fit(make_rows(20_000, rng), "y"), model)
            predict = ["predict", model, data, "-o", out, "--force"]
            times = [
                min(in_new_process(RUN.format(arguments=one)) for _ in range(3))
                for one in (predict, ["drift", model, data])
            ]
            rows.append((name, *(f"{t:.2f} s" for t in times), f"{times[1] / times[0]:.2f}"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tables", nargs="*")
    parser.add_argument("--splits", type=int, default=20)
    arguments, _ = parser.parse_known_args()
    warnings.simplefilter("ignore")
    speed = measure_speed()
    print(*speed, sep="\n", flush=True)
    tables, n = arguments.tables or TABLES, arguments.splits
    rows: list[list[str]] = [[name] for name in tables]
    named: dict[str, dict[str, list[bool]]] = {}
    totals = ["all"]
    for model in MODELS:
        total, hits = np.zeros(2), defaultdict(list)
        for row in rows:
            alarms, found, why = measure(row[0], model, n)
            total += alarms
            for way, some in found.items():
                hits[way] += some
            share = np.mean([hit for some in found.values() for hit in some])
            row += [f"{alarms[0] / n:.0%}", f"{alarms[1] / n:.0%}", f"{share:.0%}"]
            print(model, *row, *why[:4], flush=True)
        named[model] = hits
        share = np.mean([hit for some in hits.values() for hit in some])
        totals += [*(f"{a / (n * len(tables)):.1%}" for a in total), f"{share:.0%}"]
    head = [f"{m}: {what}" for m in MODELS for what in ("false alarms", "with labels", "named")]
    ways = [
        (way, *(x for m in MODELS for x in (len(named[m][way]), f"{np.mean(named[m][way]):.0%}")))
        for way in named["default"]
    ]
    parts = [
        f"{n} random halves of each table, of at most {MOST:,} rows. An alarm of unchanged rows is "
        "false; a change counts as named where its column (or the class) is among what moved.",
        markdown(("table", *head), [*rows, totals]),
        "Shuffling a column that depends on no other, exchanging two values of equal share and "
        "changes to labels that the model can't predict anyway leave nothing to be seen.",
        markdown(
            ("change", *(f"{m}: {what}" for m in MODELS for what in ("tried", "named"))), ways
        ),
        "CPU time on a Parquet file of 1,000,000 rows, 20 numbers and 10 categories, models of "
        "20,000 rows, least of three:",
        markdown(("model", "tanager predict", "tanager drift", "ratio"), speed),
    ]
    publish("drift", "Drift", "\n\n".join(parts))


if __name__ == "__main__":
    main()
