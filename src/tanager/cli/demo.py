"""``tanager demo``: a first look at a real dataset."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.classifiers import BayesNetClassifier
from tanager.cli.console import console, plain_table
from tanager.evaluation.metrics import log_loss, rmse_true_class, zero_one_loss
from tanager.network.explanation import explain_row

SEED = 7


def demo() -> None:
    """Train on an example dataset and show the result.

    Uses scikit-learn's breast cancer dataset: is a tumour benign or malignant?
    """
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    table = pa.table(dict(zip(map(str, data.feature_names), data.data.T, strict=True)))
    labels = data.target_names[data.target].astype(object)
    order = np.random.default_rng(SEED).permutation(table.num_rows)
    train, test = order[: 2 * len(order) // 3], order[2 * len(order) // 3 :]
    out = console()
    out.print("[bold]Benign or malignant? (breast cancer, scikit-learn)[/]")
    out.print(f"{len(train):,} training rows, {len(test):,} held out\n")
    estimator = BayesNetClassifier(random_state=SEED)
    start = time.process_time()
    estimator.fit(table.take(train), labels[train])
    seconds = time.process_time() - start
    _print_scores(estimator, table, labels, (train, test), seconds)
    out.print("\n[bold]What was learned[/]: which features condition which")
    from tanager.cli.show import print_structure

    print_structure(estimator.network_)
    # A row that is neither certain nor a toss-up has an explanation worth reading.
    top = estimator.predict_proba(table.take(test)).max(axis=1)
    row = int(np.argmin(np.abs(top - 0.9)))
    one = table.slice(int(test[row]), 1)
    out.print(f"\n[bold]One held-out row, explained[/] (it is {labels[test[row]]!s})")
    from tanager.cli.ask import print_explanation

    print_explanation(explain_row(estimator.network_, one))


def _print_scores(
    estimator: Any,
    rows: pa.Table,
    labels: NDArray[np.object_],
    parts: tuple[NDArray[np.int64], NDArray[np.int64]],
    seconds: float,
) -> None:
    """Print the held-out losses next to those of scikit-learn's naive Bayes on the same bins."""
    from sklearn.naive_bayes import CategoricalNB

    codebook, (train, test) = estimator.network_.codebook, parts
    bins = [codebook.encode(rows.take(part)).T for part in parts]
    arities = codebook.domain.arities + 1  # one more for "unknown"
    start = time.process_time()
    peer = CategoricalNB(min_categories=arities).fit(bins[0], labels[train])
    peer_seconds = time.process_time() - start
    truth = codebook.encode_labels(labels[test])
    learned = estimator.predict_proba(rows.take(test))
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
