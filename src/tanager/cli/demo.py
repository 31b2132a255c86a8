"""``tanager demo``: a first look at a real dataset."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from tanager.classifiers import BayesNetClassifier
from tanager.cli.ask import print_explanation
from tanager.cli.output import console
from tanager.cli.predict import print_sheet
from tanager.cli.show import print_structure
from tanager.evaluation.metrics import make_sheet
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
    out.print(f"{estimator.network_.summary()}; {time.process_time() - start:.2f} CPU s\n")
    chances = estimator.predict_proba(table.take(test))
    codebook = estimator.network_.codebook
    print_sheet(
        make_sheet(chances, codebook.encode_labels(labels[test]), tuple(estimator.classes_))
    )
    out.print("\n[bold]What was learned[/]: which features condition which")
    print_structure(estimator.network_)
    # A row that is neither certain nor a toss-up has an explanation worth reading.
    row = int(np.argmin(np.abs(chances.max(axis=1) - 0.9)))
    one = table.slice(int(test[row]), 1)
    out.print(f"\n[bold]One held-out row, explained[/] (it is {labels[test[row]]!s})")
    print_explanation(explain_row(estimator.network_, one))
