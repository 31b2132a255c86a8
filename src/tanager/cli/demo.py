"""``tanager demo``: a first look at a real dataset."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from tanager.classifiers import BayesNetClassifier
from tanager.cli.console import console, plain_table
from tanager.evaluation.metrics import log_loss, rmse_true_class, zero_one_loss
from tanager.network.explanation import explain_row

# Columns of the gamma telescope's table, as its authors named them.
MAGIC = (
    *("length", "width", "size", "conc", "conc1"),
    *("asym", "m3_long", "m3_trans", "alpha", "dist"),
)
SEED = 7


class Example(NamedTuple):
    """A table with its title and labels."""

    title: str
    table: pa.Table
    labels: NDArray[np.object_]


def demo() -> None:
    """Train on an example dataset and show the result.

    Uses KEEL's table of the MAGIC gamma telescope if the environment variable
    TANAGER_KEEL names a folder that contains it, and otherwise scikit-learn's
    breast cancer dataset.
    """
    example = load_example()
    rng = np.random.default_rng(SEED)
    order = rng.permutation(example.table.num_rows)
    train, test = order[: 2 * len(order) // 3], order[2 * len(order) // 3 :]
    out = console()
    out.print(f"[bold]{example.title}[/]")
    out.print(f"{len(train):,} training rows, {len(test):,} held out\n")
    estimator = BayesNetClassifier(random_state=SEED)
    start = time.process_time()
    estimator.fit(example.table.take(train), example.labels[train])
    seconds = time.process_time() - start
    _print_scores(estimator, example, train, test, seconds)
    out.print("\n[bold]What was learned[/]: which features condition which")
    from tanager.cli.show import print_structure

    print_structure(estimator.network_)
    # A row that is neither certain nor a toss-up has an explanation worth reading.
    top = estimator.predict_proba(example.table.take(test)).max(axis=1)
    row = int(np.argmin(np.abs(top - 0.9)))
    one = example.table.slice(int(test[row]), 1)
    out.print(f"\n[bold]One held-out row, explained[/] (it is {example.labels[test[row]]!s})")
    from tanager.cli.ask import print_explanation

    print_explanation(explain_row(estimator.network_, one))


def _print_scores(
    estimator: Any,
    example: Example,
    train: NDArray[np.int64],
    test: NDArray[np.int64],
    seconds: float,
) -> None:
    """Print the held-out losses next to those of scikit-learn's naive Bayes on the same bins."""
    from sklearn.naive_bayes import CategoricalNB

    codebook = estimator.network_.codebook
    bins = [codebook.encode(example.table.take(rows)).T for rows in (train, test)]
    arities = codebook.domain.arities + 1  # one more for "unknown"
    start = time.process_time()
    peer = CategoricalNB(min_categories=arities).fit(bins[0], example.labels[train])
    peer_seconds = time.process_time() - start
    truth = codebook.encode_labels(example.labels[test])
    learned = estimator.predict_proba(example.table.take(test))
    table = plain_table("held-out", "accuracy", "log-loss", "RMSE", "fit, CPU s")
    for name, probabilities, time_spent in (
        ("Tanager: BayesNetClassifier()", learned, seconds),
        ("scikit-learn: CategoricalNB, same bins", peer.predict_proba(bins[1]), peer_seconds),
    ):
        table.add_row(
            name,
            f"{1 - zero_one_loss(probabilities, truth):.4f}",
            f"{log_loss(np.asarray(probabilities), truth):.4f}",
            f"{rmse_true_class(np.asarray(probabilities), truth):.4f}",
            f"{time_spent:.2f}",
        )
    console().print(table)


def load_example() -> Example:
    """Return the MAGIC telescope's table if KEEL's tables are available, else breast cancer."""
    folder = os.environ.get("TANAGER_KEEL")
    found = next(Path(folder).rglob("raw/magic.dat"), None) if folder else None
    if found is not None:
        names = pacsv.ReadOptions(column_names=[*MAGIC, "kind"])
        table = pacsv.read_csv(found, names)
        kinds = {"g": "gamma", "h": "hadron"}
        labels = np.array([kinds[kind.strip()] for kind in table["kind"].to_pylist()], object)
        title = "Gamma rays or background? (MAGIC telescope, KEEL)"
        return Example(title, table.drop_columns(["kind"]), labels)
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    table = pa.table(dict(zip(map(str, data.feature_names), data.data.T, strict=True)))
    labels = data.target_names[data.target].astype(object)
    return Example("Benign or malignant? (breast cancer, scikit-learn)", table, labels)
