"""Writes the model files that a release leaves behind for ever: ``make_files.py FOLDER``.

Run it with the release itself, once, and keep what it wrote: for each model its file, and
beside it as JSON some rows and the log-joint that the release gave them.
"""

from __future__ import annotations

import datetime
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa

import tanager
from tanager import BayesNetClassifier
from tanager.structure import KDB

N = 240
WORDS = ["red", "grün", "blue", "o'brien", 'a"b', "tab\there"]


def make_table(rng: np.random.Generator) -> dict[str, list[object]]:
    """Return columns of every type, two of them with gaps, and columns that the audit reads."""
    start = datetime.datetime(2024, 2, 28, 22, 30, tzinfo=datetime.UTC).replace(tzinfo=None)
    words = rng.choice(WORDS, N).tolist()
    prices, months, days = rng.integers(1, 9999, N), rng.integers(1, 13, N), rng.integers(1, 29, N)
    numbers = rng.normal(size=N)
    return {
        "word": [None if i % 17 == 0 else w for i, w in enumerate(words)],
        "number": [None if i % 11 == 0 else float(x) for i, x in enumerate(numbers)],
        "whole": rng.integers(-5, 300, N).tolist(),
        "flag": (rng.random(N) < 0.4).tolist(),
        "when": [start + datetime.timedelta(hours=int(h)) for h in rng.integers(0, 9000, N)],
        "clock": [datetime.time(int(h), 30) for h in rng.integers(0, 24, N)],
        "span": [datetime.timedelta(minutes=int(m)) for m in rng.integers(1, 5000, N)],
        "price": ["n/a?" if i % 40 == 0 else f"{p / 100:.2f}" for i, p in enumerate(prices)],
        "day": [f"2023-{m:02d}-{d:02d}" for m, d in zip(months, days, strict=True)],
        "name": [f"row {i}" for i in range(N)],
        "nothing": [None] * N,
        **{f"code {k}": [f"c{v}" for v in rng.integers(0, 30, N)] for k in range(3)},
    }


def models(columns: dict[str, list[object]], rng: np.random.Generator) -> dict[str, object]:
    """Return fitted classifiers: every kind of table, label and option that a file holds."""
    codes = pa.table({k: values for k, values in columns.items() if k.startswith("code")})
    table = pa.table({k: values for k, values in columns.items() if not k.startswith("code")})
    score = np.array([c is True for c in columns["flag"]]) + rng.normal(size=N) * 0.7
    score += np.array([0.0 if x is None else float(str(x)) for x in columns["number"]])
    two, three = (score > 0.4).astype(int), np.digitize(score, [0.0, 0.8])
    words = np.array(["low", "middle", "hoch"])[three]
    plain = pa.table({k: columns[k] for k in ("word", "number", "flag", "whole")})
    sizes = {"word": WORDS}
    return {
        "default": BayesNetClassifier(random_state=0).fit(table, words),
        "tan-hdp": BayesNetClassifier("tan", "hdp", random_state=0).fit(table, two),
        "kdb-tree": BayesNetClassifier(KDB(k=2, adjusted=False), "m-estimate", random_state=0).fit(
            codes, words.astype(object)
        ),
        "marginalize": BayesNetClassifier("tan", "laplace", missing="marginalize").fit(
            plain, two.astype(bool)
        ),
        "ordered": BayesNetClassifier(
            "naive", "ml", ordered=sizes, class_weight={0: 2.0, 1: 1.0, 2: 0.5}
        ).fit(plain, three.astype(float)),
        "matrix": BayesNetClassifier("naive", "discriminative", categorical_features=[1]).fit(
            np.c_[score, three % 2, rng.normal(size=N)], two.astype(np.int8)
        ),
        "scores": BayesNetClassifier(KDB(k=2), "discriminative", random_state=0).fit(
            plain, three.astype(np.uint16)
        ),
        "monotone": BayesNetClassifier(monotonic={"number": 1}, random_state=0).fit(plain, two),
    }


def main(folder: Path) -> None:
    """Write all models into a folder."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(20)
    columns = make_table(rng)
    for name, model in models(columns, rng).items():
        tanager.save(model, folder / f"{name}.tanager")
        names = list(model.network_.codebook.domain.names)
        rows = [
            {k: columns[k][i] if k in columns else i % 3.0 for k in names} for i in range(0, N, 20)
        ]
        schema = pa.table(columns).select(names).schema if "word" in names else None
        given = (
            [list(row.values()) for row in rows]
            if schema is None
            else pa.Table.from_pylist(rows, schema)
        )
        facts = {
            "release": tanager.__version__,
            "rows": [{k: as_json(v) for k, v in row.items()} for row in rows],
            "log_joint": model.predict_joint_log_proba(given).tolist(),
            "classes": model.classes_.tolist(),
            "dtype": str(model.classes_.dtype),
        }
        text = json.dumps(facts, ensure_ascii=False, indent=1)
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def as_json(value: object) -> object:
    """Return a cell as JSON has it: instants as text, durations as seconds."""
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    return str(value) if isinstance(value, datetime.datetime | datetime.time) else value


if __name__ == "__main__":
    main(Path(sys.argv[1]))
