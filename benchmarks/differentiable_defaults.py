"""Defaults of `differentiable` with `hybrid`, chosen by validation, and win-draw-loss of them.

    python benchmarks/differentiable_defaults.py --write   # docs/measurements/...

For a user who will not tune. Each table (at most 1,500 rows of it, drawn at
random) is split in two halves that take turns as training rows. On each half a
fifth is held out, and the candidate configurations are ranked on it; the
configuration with the least mean rank is the default. Only it is then trained
on whole halves and compared, on the other halves, with TAN under other
parameter learners.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from tanager import BayesNetClassifier
from tanager.evaluation.datasets import find_dataset
from tanager.losses import HybridMargin
from tanager.parameters import Hybrid
from tanager.structure import Differentiable

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"
PAGE = ROOT / "docs/measurements/differentiable-defaults.md"
STORE = PAGE.with_suffix(".json")
MAX_ROWS = 1_500
TABLES = [
    "annealing",
    "vehicle",
    "pima",
    "localization_partial",
    "breast_w",
    "connect4",
    "shuttle",
    "balance_scale",
    "adult",
    "chess551",
    "nursery",
    "colic",
    "ionosphere",
    "mushroom",
    "bupa",
    "satellite",
    "haberman",
    "optdigits",
    "heart_cleveland",
    "audiology",
    "nettalk",
    "new_thyroid",
    "glass",
    "spambase",
    "sonar",
    "abalone",
    "wine",
    "sick",
    "tae",
    "splice",
    "iris",
    "segment",
    "car",
    "echocardiogram",
    "volcanoes",
    "cmc",
    "postoperative",
    "labor",
]

# Loss, learning rate, batch size (None: a tenth of the rows, 10 to 100).
CONFIGS = {
    "λ=10 γ=10 η=10, rate 0.03, batch 100": (HybridMargin(10, 10, 10), 0.03, 100),
    "λ=100 γ=3 η=10, rate 0.1, batch 100": (HybridMargin(100, 3, 10), 0.1, 100),
    "λ=30 γ=10 η=10, rate 0.1, batch 100": (HybridMargin(30, 10, 10), 0.1, 100),
    "λ=10 γ=1 η=10, rate 0.1, batch 100": (HybridMargin(10, 1, 10), 0.1, 100),
    "λ=10 γ=1 η=10, rate 0.03, batch 10 to 100": (HybridMargin(10, 1, 10), 0.03, None),
    "λ=30 γ=10 η=10, rate 0.03, batch 10 to 100": (HybridMargin(30, 10, 10), 0.03, None),
    "λ=1 γ=1 η=1, rate 0.03, batch 10 to 100": (HybridMargin(1, 1, 1), 0.03, None),
}
RIVALS = {
    "tan/m-estimate": lambda: ("tan", "m-estimate"),
    "tan/hdp": lambda: ("tan", "hdp"),
    "tan/discriminative": lambda: ("tan", "discriminative"),
    "tan/hybrid": None,  # the same loss and rate on the Chow-Liu tree
}


def classifier(config: str, *, searched: bool = True) -> BayesNetClassifier:
    loss, rate, batch = CONFIGS[config]
    common = {"loss": loss, "learning_rate": rate, "batch_size": batch}
    if not searched:
        return BayesNetClassifier("tan", Hybrid(**common), random_state=0)
    structure = Differentiable(**common)
    return BayesNetClassifier(structure, "hybrid", random_state=0)


def halves(name: str):
    """Yield training and test rows (features, labels) of both turns."""
    loaded = find_dataset(name, DATA).load()
    shuffled = np.random.default_rng(0).permutation(len(loaded.labels))[:MAX_ROWS]
    parts = shuffled[::2], shuffled[1::2]
    for train, test in (parts, parts[::-1]):
        if len(np.unique(loaded.labels[train])) > 1:
            yield tuple((loaded.features.take(at), loaded.labels[at]) for at in (train, test))


def score(model, train, test) -> list[float]:
    """Return error, log-loss and CPU seconds; a class never seen in training costs log(1e-15)."""
    start = time.process_time()
    model.fit(*train)
    seconds = time.process_time() - start
    features, labels = test
    proba = model.predict_proba(features)
    place = {label: at for at, label in enumerate(model.classes_)}
    at = np.array([place.get(label, -1) for label in labels])
    own = np.where(at >= 0, proba[np.arange(len(at)), at], 0.0)
    error = float(np.mean(proba.argmax(axis=1) != at))
    return [error, float(-np.mean(np.log(np.maximum(own, 1e-15)))), seconds]


def validate(tables: list[str]) -> None:
    validation = kept("validation")
    for name in tables:
        if name in validation:
            continue
        for (features, labels), _ in halves(name):
            cut = len(labels) // 5
            held, rest = np.arange(cut), np.arange(cut, len(labels))
            train, test = ((features.take(at), labels[at]) for at in (rest, held))
            if len(np.unique(train[1])) < 2:
                continue
            for config in CONFIGS:
                row = score(classifier(config), train, test)
                validation.setdefault(name, {}).setdefault(config, []).append(row)
        print(
            name, {c: float(round(np.mean(r, axis=0)[0], 3)) for c, r in validation[name].items()}
        )
        keep("validation", validation)


def compare(tables: list[str]) -> None:
    best = ranks(kept("validation"))[0][0]
    results = kept("results")
    for name in tables:
        if name in results:
            continue
        for train, test in halves(name):
            for rival, make in RIVALS.items():
                model = BayesNetClassifier(*make(), random_state=0) if make else None
                row = score(model or classifier(best, searched=False), train, test)
                results.setdefault(name, {}).setdefault(rival, []).append(row)
            row = score(classifier(best), train, test)
            results[name].setdefault("differentiable/hybrid", []).append(row)
        print(name, {c: float(round(np.mean(r, axis=0)[0], 3)) for c, r in results[name].items()})
        keep("results", results)


def ranks(validation) -> list[tuple[str, float, float]]:
    """Return (configuration, mean rank by error, mean rank by log-loss), best first."""
    means = np.array(
        [[np.mean(rows[config], axis=0)[:2] for config in CONFIGS] for rows in validation.values()]
    )
    rank = np.mean([rankdata(table.round(12), axis=0) for table in means], axis=0)
    order = np.argsort(rank[:, 0], kind="stable")
    names = list(CONFIGS)
    return [(names[i], float(rank[i, 0]), float(rank[i, 1])) for i in order]


def kept(key: str) -> dict[str, dict[str, list[list[float]]]]:
    """Return what earlier runs measured, by table."""
    return json.loads(STORE.read_text()).get(key, {}) if STORE.exists() else {}


def keep(key: str, value: object) -> None:
    store = json.loads(STORE.read_text()) if STORE.exists() else {}
    store[key] = value
    STORE.parent.mkdir(parents=True, exist_ok=True)
    STORE.write_text(json.dumps(store) + "\n")


def write() -> None:
    store = json.loads(STORE.read_text())
    lines = [
        "# Defaults of differentiable structure learning",
        "",
        "Written by `python benchmarks/differentiable_defaults.py --write`. "
        + " ".join(__doc__.split("\n\n")[2].split()),
        "",
        f"Ranks of the configurations on held-out training rows ({len(store['validation'])} "
        "tables, 1 is best):",
        "",
        "| configuration | mean rank by error | by log-loss |",
        "|---|---|---|",
    ]
    lines += [
        f"| {c} | {error:.2f} | {loss:.2f} |" for c, error, loss in ranks(store["validation"])
    ]
    tables = store["results"]
    ours = "differentiable/hybrid"
    lines += [
        "",
        "Tables: " + ", ".join(store["validation"]) + ".",
        "",
        "A caveat: the halves take turns, so a row that was held out in one turn is a test row in "
        "the other. The choice among the configurations has in that sense seen test rows, which "
        "flatters the comparison below a little; the rivals had nothing chosen for them.",
        "",
        f"Wins–draws–losses of `{ours}` under the first of them, on test rows of {len(tables)} "
        f"tables (mean of the two halves, rounded to four decimals): {', '.join(tables)}.",
        "",
        "| against | error | log-loss | mean error, ours | theirs | CPU s a fit, ours | theirs |",
        "|---|---|---|---|---|---|---|",
    ]
    for rival in RIVALS:
        a, b = (np.array([np.mean(t[k], axis=0) for t in tables.values()]) for k in (ours, rival))
        won, lost = ((x.round(4) < y.round(4)).sum(axis=0) for x, y in ((a, b), (b, a)))
        counts = [f"{won[m]}–{len(a) - won[m] - lost[m]}–{lost[m]}" for m in (0, 1)]
        lines.append(
            f"| {rival} | {counts[0]} | {counts[1]} | {a[:, 0].mean():.4f} | {b[:, 0].mean():.4f} "
            f"| {a[:, 2].mean():.2f} | {b[:, 2].mean():.2f} |"
        )
    PAGE.write_text("\n".join([*lines, ""]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the page after measuring")
    parser.add_argument(
        "--tables", nargs="*", default=TABLES, help="all by default; none: page only"
    )
    parser.add_argument("--stage", choices=["validate", "compare", "both"], default="both")
    options = parser.parse_args()
    if options.stage != "compare":
        validate(options.tables)
    if options.stage != "validate":
        compare(options.tables)
    if options.write:
        write()


if __name__ == "__main__":
    main()
