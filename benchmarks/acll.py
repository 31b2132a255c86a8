"""Approximate conditional log-likelihood beside Carvalho, Adão and Mateus (2013).

    python -m benchmarks.acll time            # the structure's CPU time beside the plain TAN's
    python -m benchmarks.acll likelihood      # conditional log-likelihood, Wilcoxon signed-rank
    python -m benchmarks.acll --write         # the page of all that was measured

Numbers are kept in docs/measurements/acll.json. Data: ../shared/data.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
from scipy.stats import wilcoxon
from sklearn.model_selection import KFold

from benchmarks.measuring import MEASUREMENTS, cpu_seconds, machine, markdown
from benchmarks.order_based import DATA, MOST_ROWS, SKIPPED, read
from tanager import BayesNetClassifier
from tanager.codes import learn_codebook
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.parameters import ACLLParameters, MEstimate
from tanager.structure import ACLL, TAN, FitPlan

STORE = MEASUREMENTS / "acll.json"
SMOOTH = MEstimate(m=5.0)
MODELS = {
    "LL": (TAN(), SMOOTH),
    "aCLL Dir": (ACLL("dirichlet"), SMOOTH),
    "aCLL Unif": (ACLL("uniform"), SMOOTH),
    "aCLL Dir, own tables": (ACLL("dirichlet"), ACLLParameters("dirichlet")),
    "aCLL Unif, own tables": (ACLL("uniform"), ACLLParameters("uniform")),
}
TIMED = ("vehicle", "satellite", "letter", "splice", "musk1", "optdigits", "adult", "mnist14")


def run_time(store: dict) -> None:
    for name in TIMED:
        X, y = read(name)
        _, rows = learn_codebook(X, y, bins="mdl", context=FitContext())

        def learn(learner: object, rows: object = rows) -> None:
            context = FitContext(info={"structure": {}})
            learner.learn(Counts(rows, context), FitPlan(context))

        domain = rows.domain
        entry = {"shape": [rows.n_rows, domain.n_features, domain.n_classes]}
        for key, learner in (("TAN", TAN()), ("Dir", ACLL()), ("Unif", ACLL("uniform"))):
            entry[key] = cpu_seconds(lambda learner=learner: learn(learner))
        store.setdefault("time", {})[name] = entry
        keep(store)
        print(name, entry, flush=True)


def mean_cll(model: tuple, train: tuple, test: tuple) -> float:
    """Return the mean conditional log-likelihood of the test rows, in nats."""
    clf = BayesNetClassifier(*model, bins="mdl", random_state=0).fit(*train)
    log_p = clf.predict_log_proba(test[0])
    column = np.searchsorted(clf.classes_, test[1]).clip(max=len(clf.classes_) - 1)
    known = clf.classes_[column] == test[1]
    # A class that the training fold lacks is given what a last count of one row would give.
    floor = -np.log(len(clf.classes_) * (len(train[1]) + 1.0))
    return float(np.where(known, log_p[np.arange(len(column)), column], floor).mean())


def run_likelihood(store: dict) -> None:
    for name in sorted(p.stem for p in DATA.glob("*.parquet") if p.stem not in SKIPPED):
        X, y = read(name)
        chosen = np.random.default_rng(0).permutation(len(y))[: 2 * MOST_ROWS]
        X, y = X.take(chosen), y[chosen]
        entry: dict[str, object] = {"classes": len(set(y)), "rows": len(y)}
        folds = list(KFold(2, shuffle=True, random_state=0).split(y))
        for key, model in MODELS.items():
            held_out = [mean_cll(model, (X.take(a), y[a]), (X.take(b), y[b])) for a, b in folds]
            entry[key] = [mean_cll(model, (X, y), (X, y)), float(np.mean(held_out))]
        store.setdefault("likelihood", {})[name] = entry
        keep(store)
        print(name, entry, flush=True)


def compare(store: dict, a: str, b: str, at: int, names: list[str]) -> str:
    """Return wins–draws–losses of a over b, Wilcoxon's z and two-sided p."""
    delta = np.array([store[n][a][at] - store[n][b][at] for n in names])
    delta = np.where(np.abs(delta) < 1e-12, 0.0, delta)
    record = f"{(delta > 0).sum()}–{(delta == 0).sum()}–{(delta < 0).sum()}"
    if not delta.any():
        return record
    test = wilcoxon(delta, method="approx")
    z = abs(test.zstatistic) * np.sign(np.sum(np.sign(delta) * np.argsort(np.argsort(abs(delta)))))
    return f"{record}, z={z:.2f}, p={test.pvalue:.2g}"


def keep(store: dict) -> None:
    MEASUREMENTS.mkdir(parents=True, exist_ok=True)
    STORE.write_text(json.dumps(store) + "\n")


def page(store: dict) -> str:
    parts = [
        "# The approximate conditional log-likelihood",
        f"Made by `python -m benchmarks.acll --write`. {machine()}.",
    ]
    if "time" in store:
        rows = [
            [
                name,
                "×".join(map(str, e["shape"])),
                f"{e['TAN']:.4f}",
                f"{e['Dir']:.4f}",
                f"{e['Unif']:.4f}",
                f"{e['Dir'] / e['TAN']:.2f}",
            ]
            for name, e in store["time"].items()
        ]
        head = ["table", "rows×features×classes", "TAN, CPU s", "aCLL Dir", "aCLL Unif", "Dir/TAN"]
        parts += ["## Time of the structure, pair counts included", markdown(head, rows)]
    if "likelihood" in store:
        parts += likelihood_part(store["likelihood"])
    return "\n\n".join(parts) + "\n"


def likelihood_part(store: dict) -> list[str]:
    binary = [n for n, e in store.items() if e["classes"] == 2]
    more = [n for n, e in store.items() if e["classes"] > 2]
    pairs = [
        ("aCLL Dir", "LL"),
        ("aCLL Unif", "LL"),
        ("aCLL Dir", "aCLL Unif"),
        ("aCLL Dir, own tables", "LL"),
        ("aCLL Unif, own tables", "LL"),
        ("aCLL Dir, own tables", "aCLL Dir"),
    ]
    rows = [
        [a, b, *(compare(store, a, b, at, names) for names in (binary, more) for at in (0, 1))]
        for a, b in pairs
    ]
    head = ["this", "against", f"binary ({len(binary)}), training", "binary, held out"]
    head += [f"multi-class ({len(more)}), training", "multi-class, held out"]
    values = [
        [name, e["classes"], e["rows"], *(f"{e[m][0]:.4f} / {e[m][1]:.4f}" for m in MODELS)]
        for name, e in store.items()
    ]
    return [
        "## Conditional log-likelihood",
        "Wins–draws–losses over tables and Wilcoxon's signed-rank test (two-sided). TAN structures "
        "by likelihood (LL) and by aCLL; tables are m-estimates with m = 5 for all, or those of "
        "theorem 3.8 with N′ = 5 (own tables). Training: the rows that were learned from, as in "
        "the paper. Held out: 2-fold cross-validation.",
        markdown(head, rows),
        f"Mean conditional log-likelihood in nats, training / held out (at most {2 * MOST_ROWS:,} "
        "rows of a table):",
        markdown(["table", "classes", "rows", *MODELS], values),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=["time", "likelihood", []])
    parser.add_argument("--write", action="store_true", help="write the page")
    arguments = parser.parse_args()
    store = json.loads(STORE.read_text()) if STORE.is_file() else {}
    for part in arguments.parts or ([] if arguments.write else ["time"]):
        {"time": run_time, "likelihood": run_likelihood}[part](store)
    text = page(store)
    if arguments.write:
        (MEASUREMENTS / "acll.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
