"""Photograph the HTML pages for the documentation: ``make pictures``.

Needs Playwright and Chromium, and the table of the MAGIC telescope (`make setup` fetches it, the
variable TANAGER_KEEL says where it is); without them the pictures stay as they are.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

PICTURES = Path(__file__).parent / "pictures"
CHROMIUM = Path("/usr/bin/chromium")
WIDTH = 1176
LEARNED = 12_000  # rows; the others measure
# The table's columns, as its authors named them.
MAGIC = (
    *("length", "width", "size", "conc", "conc1"),
    *("asym", "m3_long", "m3_trans", "alpha", "dist"),
)
KNOWN = {"alpha": "12.5", "length": "44", "width": "16", "size": "2.6"}


def read_rays() -> tuple[Any, Any]:
    """Return the MAGIC telescope's table and its classes."""
    import numpy as np
    from pyarrow import csv

    folder = os.environ.get("TANAGER_KEEL")
    found = next(Path(folder).rglob("raw/magic.dat"), None) if folder else None
    if found is None:
        raise SystemExit("no table of the MAGIC telescope: the pictures of pages stay as they are")
    table = csv.read_csv(found, csv.ReadOptions(column_names=[*MAGIC, "kind"]))
    kinds = {"g": "gamma", "h": "hadron"}
    labels = np.array([kinds[kind.strip()] for kind in table["kind"].to_pylist()], object)
    return table.drop_columns(["kind"]), labels


def write_pages(folder: Path) -> dict[str, Path]:
    """Write the page of a model and that of a comparison."""
    import numpy as np
    import pyarrow as pa
    from sklearn.datasets import load_breast_cancer, load_iris, load_wine

    from tanager import BayesNetClassifier
    from tanager.evaluation import CrossValidation, Dataset, Experiment
    from tanager.report import write_comparison

    rays, labels = read_rays()
    order = np.random.default_rng(0).permutation(rays.num_rows)
    train, test = order[:LEARNED], order[LEARNED:]
    clf = BayesNetClassifier().fit(rays.take(train), labels[train])
    shown = rays.take(test), labels[test]
    clf.report(folder / "model.html", *shown, title="Gamma ray or background?")
    tables = []
    for name, load in (("iris", load_iris), ("wine", load_wine), ("tumours", load_breast_cancer)):
        loaded = load(as_frame=True)
        columns = {column: loaded.data[column].to_numpy() for column in loaded.data}
        target = loaded.target.astype(str).to_numpy()
        tables.append(Dataset(name, pa.table({**columns, "class": target})))
    learners = ["auto/layered", "tan/hdp", "naive/laplace", "logistic-regression", "random-forest"]
    metrics = ["log_loss", "accuracy", "auc", "calibration_error"]
    protocol = CrossValidation(1, 2)
    name = "Five classifiers on three tables"
    results = Experiment(tables, learners, protocol, metrics=metrics, name=name).run()
    write_comparison(results, folder / "comparison.html")
    return {"model": folder / "model.html", "comparison": folder / "comparison.html"}


def photograph(
    browser: Any,
    page: Path,
    part: str,
    file: str,
    width: int = WIDTH,
    filled: dict[str, str] | None = None,
) -> None:
    """Write a picture of parts of a page, with a little room around them.

    `filled` has what is typed into the page first.
    """
    view = browser.new_page(viewport={"width": width, "height": 900})
    view.goto(page.as_uri())
    view.wait_for_timeout(400)
    for name, value in (filled or {}).items():
        view.locator(part).get_by_label(name, exact=True).first.fill(value)
    view.evaluate("scrollTo(0, 0)")  # boxes are measured from the top of what is seen
    boxes = [one.bounding_box() for one in view.locator(part).all()]
    room = 12
    left = max(0, min(box["x"] for box in boxes) - room)
    top = max(0, min(box["y"] for box in boxes) - room)
    right = min(width, max(box["x"] + box["width"] for box in boxes) + room)
    end = max(box["y"] + box["height"] for box in boxes) + room
    clip = {"x": left, "y": top, "width": right - left, "height": end - top}
    view.screenshot(path=PICTURES / file, clip=clip, full_page=True)
    view.close()


def main() -> None:
    """Write the pictures of pages, if there is a browser."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sync_playwright = None
    if sync_playwright is None or not CHROMIUM.exists():
        print("no Playwright or no Chromium: the pictures of pages stay as they are")
        return
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        pages = write_pages(Path(folder))
        flags = ["--headless", "--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=flags)
        for part in ("glance", "structure", "features", "ask", "trust"):
            filled = KNOWN if part == "ask" else None
            photograph(browser, pages["model"], f"#{part}", f"report-{part}.png", filled=filled)
        first_screen = "header, .first-screen"
        photograph(browser, pages["comparison"], first_screen, "comparison.png")
        photograph(browser, pages["comparison"], first_screen, "comparison-phone.png", 390)
        browser.close()


if __name__ == "__main__":
    main()
