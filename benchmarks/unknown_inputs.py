"""What unknown inputs cost: the default with some columns hidden, beside a refit on the others.

    python benchmarks/unknown_inputs.py [--write] [table ...]

The default is fitted once on half of a table's rows (2,000 at most). Then 20, 50 and 80 % of
the columns, drawn at random, are known of the other rows, and the rest is summed out; beside it
the default refitted on the known columns alone. The last columns compare the class
probabilities with nothing known to the training shares (total variation), and the held-out log
P(x) to that of tan/hdp on the same codes.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measuring import markdown, publish  # noqa: E402
from benchmarks.order_based import read  # noqa: E402
from tanager import BayesNetClassifier  # noqa: E402

TABLES = ("pima", "adult", "vehicle", "segment", "heart_cleveland", "breast_w", "cmc", "wine",
          "nursery", "glass")  # fmt: skip
SHARES, DRAWS, MOST = (0.2, 0.5, 0.8), 2, 2_000


def fit(X, y) -> BayesNetClassifier:
    return BayesNetClassifier(n_jobs=1, random_state=0).fit(X, y)


def loss(probability: np.ndarray, classes: np.ndarray, y: np.ndarray) -> float:
    place = {label: at for at, label in enumerate(classes)}
    own = [
        p[place[label]] if label in place else 1e-6 for p, label in zip(probability, y, strict=True)
    ]
    return float(-np.log(np.maximum(own, 1e-300)).mean())


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


def measure(name: str) -> list[str]:
    X, y = read(name)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    half = min(len(y) // 2, MOST)
    train, test = np.sort(order[:half]), np.sort(order[half : half + 3_000])
    start = time.process_time()
    clf = fit(X.take(train), y[train])
    cpu = time.process_time() - start
    new, names = X.take(test), np.array(X.column_names)
    codes, everything = clf.network_.codebook.encode(new), np.arange(len(names))
    probability, density = hidden(clf, codes, everything)
    cells = [name, f"{cpu:.2f}", f"{loss(probability, clf.classes_, y[test]):.4f}"]
    for share in SHARES:
        ratios = []
        for _ in range(DRAWS):
            known = np.sort(
                rng.choice(everything, max(1, round(share * len(names))), replace=False)
            )
            ours = loss(hidden(clf, codes, known)[0], clf.classes_, y[test])
            columns = list(names[known])
            refit = fit(X.take(train).select(columns), y[train])
            theirs = loss(refit.predict_proba(new.select(columns)), refit.classes_, y[test])
            ratios.append(ours / theirs)
        cells.append(f"{100 * (np.exp(np.mean(np.log(ratios))) - 1):+.1f} %")
    nothing = hidden(clf, codes[:, :1], everything[:0])[0][0]
    shares = np.array([np.mean(y[train] == label) for label in clf.classes_])
    tan = BayesNetClassifier("tan", "hdp", bins="fine", n_jobs=1).fit(X.take(train), y[train])
    beside = hidden(tan, tan.network_.codebook.encode(new), everything)[1]
    cells += [
        f"{0.5 * np.abs(nothing - shares).sum():.3f}",
        f"{density.mean():.2f}",
        f"{beside.mean():.2f}",
    ]
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*")
    names = parser.parse_known_args()[0].tables or TABLES
    warnings.simplefilter("ignore")
    head = ["table", "fit, CPU s", "log-loss, all known"]
    head += [f"{share:.0%} known" for share in SHARES]
    head += ["P(class), nothing known: off by", "log P(x)", "tan/hdp"]
    text = (
        "Log-loss with a part of the columns known, above that of the default refitted on just "
        f"those: geometric mean of {DRAWS} random sets.\n\n"
    )
    publish("unknown_inputs", "Unknown inputs", text + markdown(head, [measure(n) for n in names]))


if __name__ == "__main__":
    main()
