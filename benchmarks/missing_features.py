"""Accuracy against the number of missing features (Pernkopf and Bilmes 2008, figure 3).

    python -m benchmarks.missing_features [--write] [table ...]

Classifiers are trained once on two thirds of the rows with all features; then features,
drawn uniformly and the same for all classifiers, are hidden from the test rows and summed
out exactly. The paper's speech data are not public; these are tables of ../shared/data.
"""

from __future__ import annotations

import argparse
import json

import numpy as np

from benchmarks.measuring import MEASUREMENTS, machine, markdown
from benchmarks.order_based import read
from tanager.evaluation import Contender, CrossValidation, Dataset, Experiment
from tanager_papers.curves import missing_feature_curves

STORE = MEASUREMENTS / "missing-features.json"
TABLES = ("vehicle", "segment")
CLASSIFIERS = {
    "NB": "naive/ml",
    "TAN-CMI": "tan/ml",
    "TAN-OMI-CR": "order/ml",
    "TAN-CR": "greedy/ml",
    "2-tree-OMI-CR": "order(max_parents=2)/ml",
    "TAN-aCLL": "acll/ml",
}
REPEATS = 30
MOST_ROWS = 9_000


def run(name: str, store: dict, repeats: int) -> None:
    X, y = read(name)
    chosen = np.sort(np.random.default_rng(0).permutation(len(y))[:MOST_ROWS])
    table = X.take(chosen).append_column("class", [y[chosen]])
    experiment = Experiment(
        datasets=[Dataset(name, table, target="class")],
        classifiers=[Contender(k, v, {"missing": "marginalize"}) for k, v in CLASSIFIERS.items()],
        protocol=CrossValidation(rounds=1, folds=3),
        seed=0,
        bins="mdl",
    )
    n = X.num_columns
    hidden = sorted({0, *(round(share * n) for share in (0.1, 0.2, 0.3, 0.45, 0.6, 0.75, 0.9))})
    curves = missing_feature_curves(experiment, name, hidden, repeats=repeats)
    store[name] = {
        "features": n,
        "rows": len(chosen),
        "hidden": hidden,
        "repeats": repeats,
        "error": {k: curves.mean[i].tolist() for i, k in enumerate(curves.classifiers)},
    }
    STORE.parent.mkdir(parents=True, exist_ok=True)
    STORE.write_text(json.dumps(store) + "\n")
    print(page({name: store[name]}), flush=True)


def page(store: dict) -> str:
    parts = [
        "# Missing features",
        f"Made by `python -m benchmarks.missing_features --write`. {machine()}.",
        "Test accuracy in per cent against the number of features hidden from every test row, "
        "mean over draws of them, the same for all classifiers; hidden features are summed out "
        "exactly. ML tables, two thirds of the rows for training.",
    ]
    for name, entry in store.items():
        rows = [
            [k, *(f"{100 * (1 - e):.2f}" for e in errors)] for k, errors in entry["error"].items()
        ]
        parts += [
            f"## {name}, {entry['features']} features, {entry['rows']} rows, "
            f"{entry['repeats']} draws",
            markdown(["hidden", *map(str, entry["hidden"])], rows),
        ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="draws of hidden features")
    parser.add_argument("--write", action="store_true", help="write the page")
    arguments = parser.parse_args()
    store = json.loads(STORE.read_text()) if STORE.is_file() else {}
    for name in arguments.tables or (() if arguments.write and store else TABLES):
        run(name, store, arguments.repeats)
    if arguments.write:
        STORE.with_suffix(".md").write_text(page(store))


if __name__ == "__main__":
    main()
