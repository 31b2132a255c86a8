"""The default and other programs on Adult as the reference numbers have it: coded, 25,000 rows.

    python benchmarks/adult_reference.py [--data FOLDER] [--write]

Every column is cut into at most 42 codes, so that less can be said about the class than
from the raw table. Codes are given as numbers and as categories, whichever a program likes better.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.measuring import ROOT, markdown, publish
from tanager import BayesNetClassifier

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread for every program


def programs() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Return each program with its own defaults."""
    from catboost import CatBoostClassifier
    from lightgbm import LGBMClassifier
    from sklearn.ensemble import HistGradientBoostingClassifier
    from xgboost import XGBClassifier

    yield "Tanager", BayesNetClassifier
    yield "LightGBM", lambda: LGBMClassifier(verbose=-1)
    yield (
        "HistGradientBoosting",
        lambda: HistGradientBoostingClassifier(categorical_features="from_dtype"),
    )
    yield "XGBoost", lambda: XGBClassifier(enable_categorical=True)
    yield (
        "CatBoost",
        lambda: CatBoostClassifier(verbose=0, thread_count=1, allow_writing_files=False),
    )


def tables(folder: Path) -> tuple[dict[str, tuple[pd.DataFrame, pd.DataFrame]], Any, Any]:
    """Return the rows to learn from and the new ones in two shapes, and their classes."""
    old, new = (np.load(folder / f"{name}.npy") for name in ("adult25k", "adult_test"))
    names = [f"x{at}" for at in range(old.shape[1] - 1)]
    numbers = [pd.DataFrame(rows[:, :-1], columns=names) for rows in (old, new)]
    kinds = {n: pd.CategoricalDtype(np.unique(numbers[0][n]).tolist()) for n in names}
    categories = [rows.astype(kinds) for rows in numbers]
    shapes = {"numbers": tuple(numbers), "categories": tuple(categories)}
    return shapes, old[:, -1], new[:, -1]  # type: ignore[return-value]


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "reference" / "hdp")
    parser.add_argument("--write", action="store_true", help="keep the report")
    shapes, labels, answers = tables(parser.parse_args().data)
    lines = []
    for name, make in programs():
        for shape, (rows, new) in shapes.items():
            if name == "CatBoost" and shape == "categories":
                continue  # it wants their names once more, and text
            start = time.process_time()
            model = make().fit(rows, labels)
            spent = time.process_time() - start
            said = model.predict_proba(new)
            own = np.maximum(said[np.arange(len(answers)), answers], 1e-15)
            errors = (said.argmax(axis=1) != answers).mean()
            lines.append(
                [name, shape, f"{-np.log(own).mean():.4f}", f"{errors:.4f}", f"{spent:.1f}"]
            )
    head = ["program", "codes as", "log-loss", "errors", "CPU s"]
    text = (
        f"{len(labels):,} training rows and {len(answers):,} new ones of Adult, coded as the "
        "reference numbers have it; every program with its own defaults.\n\n"
        + markdown(head, lines)
    )
    publish("adult_reference", "Adult, coded", text)


if __name__ == "__main__":
    main()
