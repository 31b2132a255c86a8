"""What unknown inputs cost: the default with some columns hidden, beside a refit on the others.

    python -m benchmarks.unknown_inputs [--write] [--keep FILE] [table ...]

The default is fitted once on half of a table's rows (2,000 at most). Then one column, or 20, 50 or
80 % of them, drawn at random, are known of the other rows, and the rest is summed out; beside it
the default refitted on the known columns alone, and LightGBM: as it is, with the unknown cells
missing, and trained with gaps: on the rows and twice more on the rows with a random share of each
row's cells missing. Then what the default says of the data it was fitted on: the class
probabilities with nothing known, those of each value, and the held-out log P(x) beside that of
tan/hdp on the same codes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from benchmarks.measuring import KeptRuns, markdown, publish
from benchmarks.order_based import read
from tanager import BayesNetClassifier
from tanager.network import NetworkInformation

TABLES = (
    "pima", "adult", "vehicle", "segment", "heart_cleveland", "breast_w", "cmc", "wine", "nursery",
    "glass", "car", "abalone", "balance_scale", "bupa", "haberman", "mushroom", "new_thyroid",
    "sick", "volcanoes", "shuttle", "chess551", "ionosphere", "letter", "spambase", "satellite",
    "tabarena/Bank_Customer_Churn", "tabarena/Marketing_Campaign", "tabarena/SDSS17",
    "tabarena/airline_passenger_satisfaction", "tabarena/blood-transfusion-service-center",
    "tabarena/credit_card_clients_default", "tabarena/website_phishing",
)  # fmt: skip
ONE = "one column"
SHARES: dict[str, float] = {ONE: 0.0, "20 %": 0.2, "50 %": 0.5, "80 %": 0.8}
DRAWS, MOST, MOST_TEST = 3, 2_000, 3_000
LEAST_LOSS = 0.001  # smaller ones count as this: their ratio says nothing
LEAST_ROWS = 30  # of a value whose class probabilities are compared


def as_frame(features: pa.Table) -> pd.DataFrame:
    """Return a table as LightGBM takes it: numbers with NaN for gaps, and categories."""
    columns: dict[str, Any] = {}
    for at, column in enumerate(features.itercolumns()):
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        else:
            values = pd.Categorical([None if v is None else str(v) for v in column.to_pylist()])
        columns[f"x{at}"] = values  # LightGBM refuses some characters
    return pd.DataFrame(columns)


def fit(X, y) -> BayesNetClassifier:
    return BayesNetClassifier(n_jobs=1, random_state=0).fit(X, y)


def loss(probability: np.ndarray, classes: np.ndarray, y: np.ndarray) -> float:
    place = {label: at for at, label in enumerate(classes)}
    own = [
        p[place[label]] if label in place else 1e-6 for p, label in zip(probability, y, strict=True)
    ]
    return float(-np.log(np.maximum(own, 1e-15)).mean())


def hidden(
    clf: BayesNetClassifier, codes: np.ndarray, known: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return P(class | known columns) and log P(known columns) of coded rows."""
    some = np.array(clf.network_.codebook.domain.arities)[:, None].repeat(codes.shape[1], axis=1)
    some = some.astype(codes.dtype)
    some[known] = codes[known]
    joint = clf.network_.log_joint_of_codes(some)
    total = np.logaddexp.reduce(joint, axis=1)
    return np.exp(joint - total[:, None]), total


def boosted(frame: Any, y: np.ndarray, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return LightGBM fitted on the rows, and on the rows with more and more gaps."""
    import pandas as pd
    from lightgbm import LGBMClassifier

    copies = [frame]
    for _ in range(2):
        gaps = rng.random(frame.shape) < rng.random((len(frame), 1))
        copies.append(frame.mask(pd.DataFrame(gaps, frame.index, frame.columns)))
    many = pd.concat(copies, ignore_index=True)
    for name in frame.columns:
        many[name] = many[name].astype(frame[name].dtype)
    options = {"n_jobs": 1, "verbose": -1, "random_state": 0}
    return (
        LGBMClassifier(**options).fit(frame, y),
        LGBMClassifier(**options).fit(many, np.tile(y, len(copies))),
    )


def agreement(clf: BayesNetClassifier, codes: np.ndarray, y: np.ndarray) -> float:
    """Return the share of P(class | value) within 95 % sampling limits of the counts."""
    information, labels = NetworkInformation(clf.network_), clf.network_.codebook.encode_labels(y)
    inside = []
    for feature, column in enumerate(clf.network_.codebook.columns):
        joint = information.joint(column.name)
        counts = np.zeros(joint.shape)
        seen = codes[feature] < len(joint)
        np.add.at(counts, (codes[feature][seen], labels[seen]), 1.0)
        rows = counts.sum(axis=1, keepdims=True)
        common = rows[:, 0] >= LEAST_ROWS
        said = joint[common] / joint[common].sum(axis=1, keepdims=True)
        share, n = counts[common] / rows[common], rows[common]
        # Wilson's limits: those of a share of 0 or 1 aren't a point.
        middle = (share + 1.92 / n) / (1.0 + 3.84 / n)
        half = 1.96 * np.sqrt(share * (1.0 - share) / n + 0.96 / n**2) / (1.0 + 3.84 / n)
        inside.append((np.abs(said - middle) <= half).ravel())
    return float(np.concatenate(inside).mean()) if inside else float("nan")


def measure(name: str) -> dict[str, Any]:
    X, y = read(name)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    half = min(len(y) // 2, MOST)
    train, test = np.sort(order[:half]), np.sort(order[half : half + MOST_TEST])
    start = time.process_time()
    clf = fit(X.take(train), y[train])
    found: dict[str, Any] = {"cpu": time.process_time() - start}
    new, names = X.take(test), np.array(X.column_names)
    codes, everything = clf.network_.codebook.encode(new), np.arange(len(names))
    probability, density = hidden(clf, codes, everything)
    found["all"] = [loss(probability, clf.classes_, y[test])]
    frame = as_frame(X)
    seen, unseen = frame.iloc[train].reset_index(drop=True), frame.iloc[test]
    trees = boosted(seen, y[train], rng)
    found["all"] += [loss(tree.predict_proba(unseen), tree.classes_, y[test]) for tree in trees]
    for which, share in SHARES.items():
        found[which] = []
        for _ in range(DRAWS):
            size = max(1, round(share * len(names)))
            known = np.sort(rng.choice(everything, size, replace=False))
            columns = list(names[known])
            refit = fit(X.take(train).select(columns), y[train])
            gone = unseen.copy()
            for at in np.setdiff1d(everything, known):
                gone[f"x{at}"] = gone[f"x{at}"].mask(np.ones(len(gone), bool))
            losses = [
                loss(hidden(clf, codes, known)[0], clf.classes_, y[test]),
                loss(refit.predict_proba(new.select(columns)), refit.classes_, y[test]),
            ]
            losses += [loss(tree.predict_proba(gone), tree.classes_, y[test]) for tree in trees]
            found[which].append(losses)
    nothing = hidden(clf, codes[:, :1], everything[:0])[0][0]
    shares = np.array([np.mean(y[train] == label) for label in clf.classes_])
    tan = BayesNetClassifier("tan", "hdp", bins="fine", n_jobs=1).fit(X.take(train), y[train])
    beside = hidden(tan, tan.network_.codebook.encode(new), everything)[1]
    found["off"] = float(0.5 * np.abs(nothing - shares).sum())
    found["values"] = agreement(clf, clf.network_.codebook.encode(X.take(train)), y[train])
    found["density"] = [float(density.mean()), float(beside.mean())]
    return found


def ratio(found: dict[str, Any], which: str, of: int, to: int) -> float:
    """Return the geometric mean, over draws, of one loss divided by another."""
    losses = np.maximum(np.array(found[which]), LEAST_LOSS)
    return float(np.exp(np.mean(np.log(losses[:, of] / losses[:, to]))))


def above(value: float) -> str:
    return f"{100 * (value - 1):+.1f} %"


def _percent(share: float) -> str:
    return "–" if np.isnan(share) else f"{100 * share:.0f} %"


def report(runs: dict[str, dict[str, Any]]) -> str:
    mean = {
        (which, of): float(np.exp(np.mean([np.log(ratio(f, which, of, 1)) for f in runs.values()])))
        for which in SHARES
        for of in (0, 2, 3)
    }
    rows = [
        [name.split("/")[-1], f"{f['cpu']:.2f}", f"{f['all'][0]:.4f}"]
        + [above(ratio(f, which, 0, 1)) for which in SHARES]
        + [f"{f['off']:.3f}", _percent(f["values"]), *(f"{d:.2f}" for d in f["density"])]
        for name, f in runs.items()
    ]
    middle = {which: np.median([ratio(f, which, 0, 1) for f in runs.values()]) for which in SHARES}
    rows.append(["*geometric mean*", "", "", *(above(mean[w, 0]) for w in SHARES), "", "", "", ""])
    rows.append(["*median*", "", "", *(above(middle[w]) for w in SHARES), "", "", "", ""])
    head = ["table", "fit, CPU s", "log-loss, all known", *(f"{which} known" for which in SHARES)]
    head += [
        "P(class), nothing known: off by",
        "P(class \\| value) within 95 %",
        "log P(x)",
        "tan/hdp",
    ]
    trees = [
        [name.split("/")[-1], *(f"{f['all'][of]:.4f}" for of in (0, 1, 2))]
        + [above(ratio(f, which, of, 1)) for which in ("20 %", "50 %", "80 %") for of in (0, 2, 3)]
        for name, f in runs.items()
    ]
    trees.append(
        ["*geometric mean*", "", "", ""]
        + [above(mean[which, of]) for which in ("20 %", "50 %", "80 %") for of in (0, 2, 3)]
    )
    programs = ("default", "LightGBM", "with gaps")
    beside = ["table", *(f"all known: {program}" for program in programs)]
    beside += [f"{which}: {program}" for which in ("20 %", "50 %", "80 %") for program in programs]
    return (
        "Log-loss with a part of the columns known, above that of the default refitted on just "
        f"those: geometric mean of {DRAWS} random sets, on rows that no fit saw. A loss below "
        f"{LEAST_LOSS} counts as that.\n\n"
        f"{markdown(head, rows)}\n\n## Beside LightGBM\n\n"
        "The first columns are the log-loss with everything known; then each program's log-loss "
        "above that of the default refitted on the known columns. LightGBM as it is reads unknown "
        "cells as missing; *with gaps* it was trained on the rows and twice more on the rows with "
        f"a random share of each row's cells missing.\n\n{markdown(beside, trees)}\n\n"
        "`P(class), nothing known` is the total variation from the training shares; "
        f"`P(class | value)` counts the values of {LEAST_ROWS} training rows or more, class by "
        "class, and the 95 % limits are those of the counts. log P(x) is that of held-out rows."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*")
    parser.add_argument("--keep", type=Path, help="a file of results, to go on from")
    arguments = parser.parse_known_args()[0]
    warnings.simplefilter("ignore")
    kept = KeptRuns(arguments.keep)
    names = arguments.tables or TABLES
    runs = {name: kept.of(name, lambda name=name: measure(name)) for name in names}
    publish("unknown_inputs", "Unknown inputs", report(runs))


if __name__ == "__main__":
    main()
