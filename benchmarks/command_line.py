"""The command line: prediction of a large file, show, model files.

Every command runs in its own process; its CPU time and peak memory are those
that the system accounts to it, threads included.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.measuring import in_new_process, markdown, publish

ROWS = int(os.environ.get("ROWS", 10_000_000))
FEATURES = 30
PART = 500_000


def write_table(path: Path, n_rows: int, seed: int) -> None:
    """Write rows of a chain: 20 columns of integers and 10 of text, 2-8 values, 2 classes."""
    rng = np.random.default_rng(seed)
    arities = np.random.default_rng(0).integers(2, 9, FEATURES)
    words = pa.array([f"value {v}" for v in range(8)])
    writer = None
    for start in range(0, n_rows, PART):
        n = min(PART, n_rows - start)
        y = rng.integers(0, 2, n)
        before = y
        columns: dict[str, pa.Array] = {}
        for i, arity in enumerate(arities):
            fresh = rng.random(n, dtype=np.float32) < 0.5
            values = np.where(fresh, rng.integers(0, arity, n), (before + y) % arity)
            before = values
            codes = pa.array(values.astype(np.int8))
            text = i % 3 == 2
            columns[f"f{i}"] = pa.DictionaryArray.from_arrays(codes, words) if text else codes
        columns["y"] = pa.array(y.astype(np.int8))
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def call(*arguments: str | Path) -> dict[str, float]:
    """Run the program; returns CPU seconds, wall seconds and peak memory in MB."""
    read, write = os.pipe()
    start = time.perf_counter()
    child = os.fork()
    if child == 0:
        os.dup2(write, 1)
        os.environ.update(OMP_NUM_THREADS="1")
        os.execv(sys.executable, [sys.executable, "-m", "tanager", *map(str, arguments)])
    os.close(write)
    with os.fdopen(read) as output:
        text = output.read()
    _, status, usage = os.wait4(child, 0)
    if status:
        raise RuntimeError(f"tanager {arguments[0]} failed: {text}")
    return {
        "cpu": usage.ru_utime + usage.ru_stime,
        "wall": time.perf_counter() - start,
        "peak": usage.ru_maxrss / 1024,
    }


def loading(model: Path) -> float:
    """Return the CPU time of loading a model beyond imports, in milliseconds."""
    code = f"""
import json, time
import safetensors, tanager.structure.simple, tanager.structure.tan, tanager.parameters.frequencies
import tanager.losses
from tanager.classifiers.files import load
times = []
for _ in range(5):
    start = time.process_time()
    load({str(model)!r})
    times.append(time.process_time() - start)
print(json.dumps({{"first": times[0] * 1e3, "least": min(times) * 1e3}}))
"""
    return in_new_process(code)["first"]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_table(folder / "train.parquet", 100_000, seed=1)
        write_table(folder / "few.parquet", 1_000, seed=2)
        write_table(folder / "many.parquet", ROWS, seed=3)
        model = folder / "m.tanager"
        learn = ("--categorical", "all", "-s", "tan", "-p", "m-estimate(m=1)")
        call("fit", folder / "train.parquet", "-t", "y", *learn, "-o", model)
        call(
            "predict", model, folder / "few.parquet", "-o", folder / "p.parquet", "--force"
        )  # warms caches
        few = call("predict", model, folder / "few.parquet", "-o", folder / "p.parquet", "--force")
        many = call(
            "predict", model, folder / "many.parquet", "-o", folder / "p.parquet", "--force"
        )
        show = min((call("show", model) for _ in range(3)), key=lambda run: run["cpu"])
        rate = ROWS / (many["cpu"] - few["cpu"])
        rows = [
            [
                f"`predict`, {ROWS:,} rows × {FEATURES}, Parquet to Parquet",
                f"{many['cpu']:.1f} s CPU, of which start-up {few['cpu']:.1f} s",
            ],
            ["rows a second of CPU beyond start-up", f"{rate:,.0f}"],
            ["peak memory", f"{many['peak']:.0f} MB (start-up alone {few['peak']:.0f} MB)"],
            ["`show`", f"{show['cpu']:.2f} s CPU in all"],
            ["TAN model of 30 features", f"{model.stat().st_size / 1000:.1f} kB"],
            ["loading it, beyond imports", f"{loading(model):.1f} ms CPU"],
        ]
        print(json.dumps({"few": few, "many": many, "show": show, "rate": rate}))
    publish("command_line", "The command line, measured", markdown(["what", "measured"], rows))


if __name__ == "__main__":
    main()
