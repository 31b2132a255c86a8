"""The default against LightGBM on a large table of numbers and categories, from the same files.

    python -m benchmarks.large_default --rows 10000000 --folder /data

Fifteen numbers and fifteen categories (2 to 60 values) in a folder of Parquet
files, and a class that depends on single columns and on pairs. Each program runs
in a process of its own, which reports its CPU time, its peak memory, and its
log-loss on rows that it has not seen. LightGBM has its defaults (100 trees), reads
the files with PyArrow, and has one thread: on a busy machine its threads spend their
time waiting for one another.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measuring import in_new_process, machine, markdown

FILE_ROWS = 500_000
N_NUMBERS = N_CATEGORIES = 15
SIZES = np.array([2, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 60])

TANAGER = """
import json, time
from tanager import BayesNetClassifier
from tanager.engines.keeping import peak_memory_mb, reset_peak_memory
from benchmarks.large_default import log_loss
reset_peak_memory()
wall, cpu = time.perf_counter(), time.process_time()
clf = BayesNetClassifier(n_jobs=2, memory_limit={limit!r}).fit({train!r}, "y")
found = dict(cpu=time.process_time() - cpu, wall=time.perf_counter() - wall,
             peak_mb=peak_memory_mb())
found["stages"] = {{s: r["cpu_seconds"] for s, r in clf.info_.items() if "cpu_seconds" in r}}
print(json.dumps(found | dict(loss=log_loss(
    lambda rows: clf.predict_proba(rows.drop_columns(["y"]))[:, 1], {test!r}))))
"""

LIGHTGBM = """
import json, time
import lightgbm, numpy as np, pyarrow as pa, pyarrow.parquet as pq
from tanager.engines.keeping import peak_memory_mb, reset_peak_memory
from benchmarks.large_default import log_loss, numbers_of
reset_peak_memory()
wall, cpu = time.perf_counter(), time.process_time()
table = pq.read_table({train!r})
X, y = numbers_of(table)
del table
options = dict(objective="binary", num_threads=1, verbose=-1)
data = lightgbm.Dataset(X, y, categorical_feature=list(range(15, 30)), free_raw_data=True)
model = lightgbm.train(options, data.construct(), num_boost_round=100)
found = dict(cpu=time.process_time() - cpu, wall=time.perf_counter() - wall,
             peak_mb=peak_memory_mb())
found["loss"] = log_loss(lambda rows: model.predict(numbers_of(rows)[0]), {test!r})
print(json.dumps(found))
"""


def make_rows(n_rows: int, part: int) -> pa.Table:
    """Draw one file's rows."""
    rng = np.random.default_rng([17, part])
    model = np.random.default_rng(18)
    numbers = rng.normal(size=(N_NUMBERS, n_rows)).astype(np.float32)
    numbers[3] = np.exp(numbers[3])
    numbers[5] += numbers[4]
    codes = [rng.integers(0, size, n_rows) for size in SIZES]
    score = np.sin(2 * numbers[0]) + 0.6 * numbers[1] * (codes[0] * 2 - 1) - 0.3 * numbers[4] ** 2
    for code, size in zip(codes, SIZES, strict=True):
        score += 0.25 * model.normal(size=size)[code]
    score += 0.8 * model.normal(size=(int(SIZES[7]), int(SIZES[4])))[codes[7], codes[4]]
    y = rng.random(n_rows) < 1 / (1 + np.exp(-score))
    columns = {f"n{i}": numbers[i] for i in range(N_NUMBERS)}
    for i, (code, size) in enumerate(zip(codes, SIZES, strict=True)):
        names = pa.array([f"v{v:02}" for v in range(size)])
        columns[f"c{i}"] = pa.DictionaryArray.from_arrays(pa.array(code, pa.int8()), names)
    return pa.table({**columns, "y": y.astype(np.int8)})


def write_rows(folder: Path, n_rows: int) -> Path:
    """Write the training files and one test file, once; memory holds one file."""
    place = folder / f"mixed-{n_rows}"
    if not place.exists():
        unfinished = place.with_suffix(".part")
        (unfinished / "train").mkdir(parents=True)
        for part in range(-(-n_rows // FILE_ROWS)):
            size = min(FILE_ROWS, n_rows - part * FILE_ROWS)
            pq.write_table(make_rows(size, part), unfinished / "train" / f"{part:04}.parquet")
        pq.write_table(make_rows(200_000, 10**6), unfinished / "test.parquet")
        unfinished.rename(place)
    return place


def numbers_of(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Return the features as float32 (n_rows, 30), categories by number, and the classes."""
    X = np.empty((table.num_rows, N_NUMBERS + N_CATEGORIES), np.float32)
    for at, column in enumerate(table.columns[:-1]):
        if pa.types.is_dictionary(column.type):
            column = pa.chunked_array(
                [chunk.indices for chunk in column.unify_dictionaries().chunks]
            )
        X[:, at] = column.to_numpy()
    return X, table.column("y").to_numpy()


def log_loss(probability, path: str) -> float:
    """Return the log-loss on a file."""
    rows = pq.read_table(path)
    p = np.clip(np.asarray(probability(rows), float), 1e-15, 1 - 1e-15)
    y = rows.column("y").to_numpy() == 1
    return float(-np.log(np.where(y, p, 1 - p)).mean())


def main() -> None:
    """Read the arguments, write the files, fit both, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--memory-limit")
    parser.add_argument("--only", choices=["Tanager", "LightGBM"])
    options = parser.parse_args()
    place = write_rows(options.folder, options.rows)
    files = {"train": str(place / "train"), "test": str(place / "test.parquet")}
    codes = {
        "Tanager": TANAGER.format(limit=options.memory_limit, **files),
        "LightGBM": LIGHTGBM.format(**files),
    }
    print(machine(), "load", os.getloadavg()[0])
    lines = []
    for name, code in codes.items():
        if options.only in (None, name):
            found = in_new_process(code)
            print(name, found, flush=True)
            line = [name, f"{options.rows:,}", f"{found['cpu']:.1f}", f"{found['peak_mb']:,.0f}"]
            lines.append([*line, f"{found['loss']:.5f}", f"{found['wall']:.0f}"])
    print(markdown(["program", "rows", "CPU s", "peak MB", "log-loss", "wall s"], lines))


if __name__ == "__main__":
    main()
