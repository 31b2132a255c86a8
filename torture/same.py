"""The same rows, whatever carries them: equal bit for bit, or as near as is promised."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from torture.campaign import ROOT, Budget, Tally
from torture.input_mutations import write_excel

__all__ = [
    *("LEVELS", "PROMISES", "Rows", "carriers", "digest", "fit", "level", "pairs", "promised"),
    *("promises", "same"),
]

EPOCHS = "training__epochs=4"
GRAPH = "fixed(parents={'a': ['b', 'd'], 'c': ['number']})"
STRUCTURES = (
    *("naive", "tan(root='information')", "kdb(k=2)", "skdb", "ktree", "acll", "order", "greedy"),
    *("random", GRAPH, f"differentiable({EPOCHS})"),
)
PARAMETERS = ("ml", "laplace", "m-estimate", "friedman", "hdp", "acll", "dfe", "discriminative",
              f"hybrid({EPOCHS})", "layered")  # fmt: skip
# A few that between them reach every road through the code.
SHORT = (
    ("kdb(k=2)", "hdp"),
    ("skdb", "m-estimate"),
    ("naive", "discriminative"),
    ("ktree", "layered"),
)


def pairs(only: str = "") -> list[tuple[str, str]]:
    """Return every structure, or those of a name, with every parameter learner."""
    chosen = [structure for structure in STRUCTURES if structure.startswith(only)]
    return [(structure, parameters) for structure in chosen for parameters in PARAMETERS]


class Rows(NamedTuple):
    """A table with its labels and, where there are any, weights."""

    X: pa.Table
    y: Any
    weights: Any = None


def rows(seed: int, n: int = 240) -> Rows:
    """Return words, a number that is exact in 32 bits, gaps, and a target that needs them."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 4, (n, 4))
    number = rng.integers(-40, 40, n) / 8 + codes[:, 0]
    score = codes[:, 0] + (codes[:, 1] == codes[:, 2]) * 2 + number / 4 + rng.normal(size=n)
    table = pa.table(
        {
            "d": [f"d{v}" for v in codes[:, 0]],
            "number": number,
            "b": [f"b{v}" for v in codes[:, 1]],
            "a": [f"a{v}" if v else None for v in codes[:, 2]],
            "c": [f"c{v}" for v in codes[:, 3]],
        }
    )
    return Rows(table, np.array(["u", "v", "w"])[np.digitize(score, [1.0, 3.5])])


def fit(pair: tuple[str, str], data: Rows, probe: Any, **options: Any) -> Any:
    """Return the probabilities of the probe, in the order of sorted class names."""
    from tanager import BayesNetClassifier

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BayesNetClassifier(*pair, random_state=0, **options)
        model.fit(data.X, data.y, sample_weight=data.weights)
        return model.predict_proba(probe)


def carriers(data: Rows, folder: Path) -> Iterator[tuple[str, Any, str]]:
    """Iterate over the same rows on disk and in other types: name, table, target."""
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

    whole, n = data.X.append_column("y", pa.array(data.y)), len(data.y)
    pq.write_table(whole, folder / "t.parquet", row_group_size=n // 5)
    yield "Parquet in row groups", str(folder / "t.parquet"), "y"
    with pa.ipc.new_file(folder / "t.arrow", whole.schema) as writer:
        writer.write_table(whole, max_chunksize=n // 7)
    yield "Arrow file in batches", str(folder / "t.arrow"), "y"
    pacsv.write_csv(whole, folder / "t.csv")
    yield "CSV", str(folder / "t.csv"), "y"
    packed = gzip.compress((folder / "t.csv").read_bytes())
    (folder / "t.csv.gz").write_bytes(packed)
    yield "CSV, packed", str(folder / "t.csv.gz"), "y"
    lines = "".join(json.dumps(row, default=str) + "\n" for row in whole.to_pylist())
    (folder / "t.jsonl").write_text(lines)
    yield "JSON lines", str(folder / "t.jsonl"), "y"
    if find_spec("openpyxl") is not None:
        write_excel(whole, folder / "t.xlsx")
        yield "Excel", str(folder / "t.xlsx"), "y"
    (folder / "many").mkdir(exist_ok=True)
    for at, low in enumerate(range(0, n, n // 3)):
        pq.write_table(whole.slice(low, n // 3), folder / "many" / f"{at}.parquet")
    yield "several Parquet files", str(folder / "many"), "y"
    chunks = pa.concat_tables([whole.slice(low, 7) for low in range(0, len(data.y), 7)])
    yield "a table in chunks of 7 rows", chunks, "y"
    coded = [c.dictionary_encode() if pa.types.is_string(c.type) else c for c in whole.columns]
    yield "dictionaries", pa.table(coded, names=whole.column_names), "y"
    large = [c.cast(pa.large_string()) if pa.types.is_string(c.type) else c for c in whole.columns]
    yield "large strings", pa.table(large, names=whole.column_names), "y"
    narrow = [c.cast(pa.float32()) if pa.types.is_floating(c.type) else c for c in whole.columns]
    yield "numbers of 32 bits", pa.table(narrow, names=whole.column_names), "y"
    yield "pandas", whole.to_pandas(), "y"
    frame = whole.to_pandas()
    for field in whole.schema:
        if pa.types.is_string(field.type):
            frame[field.name] = frame[field.name].astype("category")
    yield "pandas categories", frame, "y"


def same(budget: Budget, tally: Tally, folder: Path) -> None:
    """Threads, chunks, formats, types, processes, hash seeds, BLAS threads: bit for bit."""
    data = rows(budget.seed)
    probe = data.X
    chosen = pairs(budget.only) if budget.cases > len(SHORT) else list(SHORT)
    expected = {pair: _attempt(pair, data, probe, tally) for pair in chosen}
    good = [pair for pair in chosen if expected[pair] is not None]
    tally.facts["pairs"] = len(good)
    for pair in good:
        for n_jobs in (2, 4):
            found = fit(pair, data, probe, n_jobs=n_jobs)
            _equal(found, expected[pair], f"{n_jobs} threads", pair, tally)
        found = fit(pair, data, probe, memory_limit=1)
        _equal(found, expected[pair], "rows kept in a file", pair, tally)
    for name, table, target in carriers(data, folder):
        for pair in good:
            found = fit(pair, Rows(table, target), probe)
            _equal(found, expected[pair], name, pair, tally)
    environments = (
        {"PYTHONHASHSEED": "77", "OMP_NUM_THREADS": "4", "OPENBLAS_NUM_THREADS": "4"},
        {"PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    for environment in environments if len(chosen) > len(SHORT) else environments[:1]:
        digests = _digests_elsewhere(good, budget.seed, environment)
        for pair in good:
            name = "/".join(pair)
            tally.check(
                digests[name] == digest(expected[pair]),
                f"{_short(pair)}: another process with {environment} differs",
            )


def _attempt(pair: tuple[str, str], data: Rows, probe: Any, tally: Tally) -> Any:
    from tanager.errors import TanagerError

    try:
        return fit(pair, data, probe)
    except TanagerError as error:
        tally.facts.setdefault("refused pairs", {})[_short(pair)] = str(error)[:200]
        return None


def _short(pair: tuple[str, str]) -> str:
    """Return a pair as the page names it."""
    return "/".join(pair).replace(f"({EPOCHS})", "").replace(GRAPH, "fixed")


def _equal(found: Any, expected: Any, what: str, pair: tuple[str, str], tally: Tally) -> None:
    moved = 0.0 if np.array_equal(found, expected) else float(np.abs(found - expected).max())
    tally.check(np.array_equal(found, expected), f"{_short(pair)}: {what} differs by {moved:.2g}")


def digest(p: Any) -> str:
    """Return a short text that tells any two arrays apart."""
    return hashlib.sha256(np.ascontiguousarray(p).tobytes()).hexdigest()


def _digests_elsewhere(
    chosen: list[tuple[str, str]], seed: int, environment: dict[str, str]
) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "torture.same", str(seed), *("|".join(p) for p in chosen)],
        capture_output=True, text=True, check=True, cwd=ROOT,
        env={**os.environ, **environment},
    )  # fmt: skip
    found: dict[str, str] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


# How near: the words of the table, from best to worst, with the largest change of one
# probability of one row that each allows.
LEVELS = {"exact": 0.0, "rounding": 1e-9, "tolerance": 2e-3, "another draw": np.inf}

PROMISES = (
    "a weight of 2 is a repeated row",
    "equal weights of 2 are every row twice",
    "weights × 3 are every row three times",
    "rows in another order",
    "columns in another order",
    "classes renamed",
)


def level(moved: float) -> str:
    """Return the word for the largest change of a probability."""
    return next(word for word, most in LEVELS.items() if moved <= most)


def promises(budget: Budget, tally: Tally, folder: Path) -> None:  # noqa: ARG001
    """Weights, and the order of rows, columns and classes: how near, for every pair."""
    chosen = pairs(budget.only) if budget.cases > len(SHORT) else list(SHORT)
    table: dict[str, dict[str, str]] = {}
    moved_by: dict[str, dict[str, float]] = {}
    tally.facts.update(table=table, moved=moved_by)
    for pair in chosen:
        name = _short(pair)
        worst = dict.fromkeys(PROMISES, 0.0)
        for seed in (budget.seed, budget.seed + 1):
            data = rows(seed)
            if _attempt(pair, data, data.X, tally) is None:
                break
            for what, moved in _changes(pair, data, np.random.default_rng(seed)):
                worst[what] = max(worst[what], moved)
        else:
            table[name] = {what: level(moved) for what, moved in worst.items()}
            moved_by[name] = worst
            for what, moved in worst.items():
                allowed = promised(pair, what)
                tally.check(
                    moved <= LEVELS[allowed],
                    f"{name}, {what}: moved by {moved:.2g}, promised: {allowed}",
                )


def _changes(pair: tuple[str, str], data: Rows, rng: Any) -> Iterator[tuple[str, float]]:
    n, X, y = len(data.y), data.X, data.y
    base = fit(pair, data, X)
    double = rng.random(n) < 0.3
    weights = np.where(double, 2.0, 1.0)
    weighted = fit(pair, Rows(X, y, weights), X)
    places = np.r_[np.arange(n), np.flatnonzero(double)]
    repeated = fit(pair, Rows(X.take(places), y[places]), X)
    yield PROMISES[0], _moved(weighted, repeated)
    twice, thrice = np.tile(np.arange(n), 2), np.tile(places, 3)
    yield (
        PROMISES[1],
        _moved(
            fit(pair, Rows(X, y, np.full(n, 2.0)), X), fit(pair, Rows(X.take(twice), y[twice]), X)
        ),
    )
    yield (
        PROMISES[2],
        _moved(
            fit(pair, Rows(X, y, weights * 3), X), fit(pair, Rows(X.take(thrice), y[thrice]), X)
        ),
    )
    order = rng.permutation(n)
    yield PROMISES[3], _moved(fit(pair, Rows(X.take(order), y[order]), X), base)
    columns = rng.permutation(X.column_names).tolist()
    yield PROMISES[4], _moved(fit(pair, Rows(X.select(columns), y), X.select(columns)), base)
    names = {"u": "z", "v": "y", "w": "x"}
    renamed = np.array([names[label] for label in y])
    yield PROMISES[5], _moved(fit(pair, Rows(X, renamed), X)[:, ::-1], base)


def _moved(a: Any, b: Any) -> float:
    return 0.0 if np.array_equal(a, b) else float(np.abs(a - b).max())


def promised(pair: tuple[str, str], what: str) -> str:
    """Return the promise for a pair, the weaker of its structure's and its parameters'."""
    structure, parameters = (text.partition("(")[0] for text in pair)
    words = list(LEVELS)
    own = [
        _STRUCTURES.get(structure, {}).get(what, "rounding"),
        _PARAMETERS.get(parameters, {}).get(what, "rounding"),
    ]
    return max(own, key=words.index)


_WEIGHTS, _ROWS, _COLUMNS, _CLASSES = PROMISES[:3], PROMISES[3], PROMISES[4], PROMISES[5]
_DRAWN = dict.fromkeys(PROMISES, "another draw")
_BY_ROWS = dict.fromkeys((*_WEIGHTS, _ROWS), "another draw")
_STRUCTURES: dict[str, dict[str, str]] = {
    "greedy": {_COLUMNS: "another draw"},  # of equal edges the first wins
    "random": {_COLUMNS: "another draw"},
    "ktree": _BY_ROWS,  # gains on held-out rows
    "differentiable": _DRAWN,
}
_PARAMETERS: dict[str, dict[str, str]] = {
    "m-estimate": _BY_ROWS,
    "dfe": _BY_ROWS,  # takes the rows one by one
    "discriminative": dict.fromkeys(PROMISES, "tolerance"),
    "hybrid": _DRAWN,
    "layered": {**_BY_ROWS, _COLUMNS: "tolerance", _CLASSES: "tolerance"},
}


def main() -> None:
    """Print the digests of some pairs' predictions, for a parent that compares them."""
    data = rows(int(sys.argv[1]))
    chosen = [tuple(text.split("|")) for text in sys.argv[2:]]
    found = {"/".join(pair): digest(fit(pair, data, data.X)) for pair in chosen}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
