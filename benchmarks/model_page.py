"""How long the page of a model takes to make and to open, and how large it is.

Run: python -m benchmarks.model_page [--write]

Opening is measured in headless Chromium: from the start of the navigation until
every chart stands, as the page itself notes it. The table of the MAGIC telescope is in
the folder that TANAGER_KEEL names.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.measuring import markdown, publish
from tanager import BayesNetClassifier
from tanager.report.model_page import render_report
from tanager.structure import Fixed

CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]


class Line(NamedTuple):
    """One page, measured."""

    name: str
    made: float
    size: int
    opened: float


def tumours() -> tuple[str, BayesNetClassifier, pa.Table, np.ndarray]:
    """Return breast cancer, which comes with scikit-learn, and its model."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    table = pa.table({str(n): x for n, x in zip(data.feature_names, data.data.T, strict=True)})
    labels = data.target_names[data.target].astype(object)
    clf = BayesNetClassifier("tan", "hdp").fit(table, labels)
    return "breast cancer: 30 features, 2 classes", clf, table, labels


def rays() -> tuple[str, BayesNetClassifier, pa.Table, np.ndarray]:
    """Return the default model of more than 5,000 rows, whose numbers have 255 intervals."""
    from tests.keel import read_keel

    table, labels = read_keel("magic")
    order = np.random.default_rng(0).permutation(table.num_rows)
    n_train = min(12_000, 2 * len(order) // 3)
    train, test = order[:n_train], order[n_train:]
    clf = BayesNetClassifier().fit(table.take(train), labels[train])
    title = f"MAGIC gamma rays: the default, {table.num_columns} numbers of 255 intervals"
    return title, clf, table.take(test), labels[test]


def wide(n_features: int, n_classes: int, n_values: int) -> tuple[str, Any, pa.Table, np.ndarray]:
    """Return a tree of many features over many classes, one column of very many values."""
    rng = np.random.default_rng(0)
    n = max(4_000, n_values)
    y = rng.integers(0, n_classes, n)
    columns = {"id": [f"v{v % n_values}" for v in range(n)]}
    for i in range(n_features - 1):
        noise = np.where(rng.random(n) < 0.5, y, rng.integers(0, n_classes, n))
        columns[f"feature {i}"] = [f"{v}" for v in noise % 3]
    names = list(columns)
    parents = {name: [names[(i - 1) // 2]] if i > 2 else [] for i, name in enumerate(names)}
    parents[names[0]] = [names[1]]
    labels = np.array([f"class {v}" for v in y], dtype=object)
    clf = BayesNetClassifier(Fixed(parents), "laplace", audit=False).fit(pa.table(columns), labels)
    title = f"{n_features} features, {n_classes} classes, one column of {n_values:,} values"
    return title, clf, pa.table(columns).slice(0, 1000), labels[:1000]


def measure(browser: Any, case: tuple[str, Any, pa.Table, np.ndarray], folder: Path) -> Line:
    """Make one page and open it."""
    name, clf, table, labels = case
    start = time.process_time()
    text = render_report(clf, table, labels, folds=0)
    made = time.process_time() - start
    file = folder / "page.html"
    file.write_text(text, encoding="utf-8")
    times = []
    for _ in range(3):
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]")
        times.append(float(page.get_attribute("html", "data-ready")) / 1000)
        page.close()
    return Line(name, made, len(text.encode()), min(times))


def main() -> None:
    """Measure, print, and write where asked."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as name:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        cases = [tumours(), rays(), wide(60, 5, 50), wide(300, 50, 10_000)]
        lines = [measure(browser, case, Path(name)) for case in cases]
    rows = [
        (x.name, f"{x.made:.2f} s", f"{x.size / 1000:,.0f} kB", f"{x.opened:.2f} s") for x in lines
    ]
    text = (
        "Made: CPU time from model and rows to the text, without cross-validation. Opened: from "
        "the start of the navigation until every chart stands, in headless Chromium, best of "
        "three.\n\n"
    )
    table = markdown(("model", "made", "size", "opened"), rows)
    publish("model_page", "The model's own page", text + table)


if __name__ == "__main__":
    main()
