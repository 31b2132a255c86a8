"""Splice-like windows: accuracy, time and memory beside gradient boosting.

    python -m benchmarks.splice_accuracy windows/ --files 5 --results results.jsonl
    python -m benchmarks.splice_accuracy windows/ --results results.jsonl --plot growth.svg

As table 6 of Petitjean et al. (2018): 0-1 loss and RMSE on rows that no model has
seen. `windows/` is a folder that `benchmarks/splice.py` wrote: the first --files
files are for training, the last --test-files are for the test. Each model runs in
a process of its own, which reports its CPU time and peak memory; each result is a
line of JSON added to --results. XGBoost has one thread: on a busy machine its threads
spend their time waiting for one another.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measuring import in_new_process, machine, markdown

TANAGER = """
import json, time
import numpy as np
from tanager import BayesNetClassifier
from tanager.engines.keeping import peak_memory_mb, reset_peak_memory
from benchmarks.splice_accuracy import losses
reset_peak_memory()
wall, cpu = time.perf_counter(), time.process_time()
clf = BayesNetClassifier({structure!r}, {parameters!r}, n_jobs=2,
                         memory_limit={limit!r}).fit({train!r}, "class")
found = dict(cpu=time.process_time() - cpu, wall=time.perf_counter() - wall,
             peak_mb=peak_memory_mb(), rows=clf.info_["codes"]["rows"])
found["stages"] = {{s: r["cpu_seconds"] for s, r in clf.info_.items() if "cpu_seconds" in r}}
found["passes"] = {{s: r.get("passes") for s, r in clf.info_.items() if "cpu_seconds" in r}}
found["k"] = clf.info_["structure"].get("k")
cpu = time.process_time()
found |= losses(lambda batch: clf.predict_proba(batch.drop_columns(["class"]))[:, 1], {test!r})
print(json.dumps(found | dict(predict_cpu=time.process_time() - cpu)))
"""

XGBOOST = """
import json, tempfile, time
import numpy as np, xgboost
from tanager.engines.keeping import peak_memory_mb, reset_peak_memory
from benchmarks.splice_accuracy import codes_of, losses, batches
reset_peak_memory()
wall, cpu = time.perf_counter(), time.process_time()
kinds = dict(feature_types=["c"] * 140, enable_categorical=True)

class Files(xgboost.DataIter):
    def __init__(self, paths, folder):
        super().__init__(cache_prefix=folder + "/cache")
        self.paths, self.at = paths, 0
    def reset(self):
        self.at = 0
    def next(self, take):
        if self.at == len(self.paths):
            return False
        parts = [codes_of(batch) for batch in batches([self.paths[self.at]])]
        X, y = (np.concatenate(part) for part in zip(*parts))
        self.at += 1
        take(data=X, label=y, feature_types=kinds["feature_types"])
        return True

with tempfile.TemporaryDirectory() as folder:
    rows = xgboost.ExtMemQuantileDMatrix(Files({train!r}, folder), enable_categorical=True)
    n_rows = rows.num_row()
    options = dict(objective="binary:logistic", tree_method="hist", nthread=1)
    model = xgboost.train(options, rows, num_boost_round={rounds})
    del rows
found = dict(cpu=time.process_time() - cpu, wall=time.perf_counter() - wall,
             peak_mb=peak_memory_mb(), rows=n_rows)
cpu = time.process_time()
found |= losses(lambda b: model.predict(xgboost.DMatrix(codes_of(b)[0], **kinds)), {test!r})
print(json.dumps(found | dict(predict_cpu=time.process_time() - cpu)))
"""

MODELS = {
    "SkDB-HDP": ("skdb(max_k=5, smoothing='back-off')", "hdp"),
    "SkDB-m": ("skdb(max_k=5, smoothing='m-estimate')", "m-estimate"),
    "default": ("auto", "layered"),
    "XGBoost": None,
}


HEAD = ["model", "training rows", "0–1 loss", "RMSE", "fit, CPU s", "peak MB",
        "prediction, CPU µs a row"]  # fmt: skip


def batches(paths: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Iterate over Arrow batches of Parquet files."""
    for path in paths:
        yield from pq.ParquetFile(path).iter_batches(65_536)


def codes_of(batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the nucleotides (n_rows, 140) and the labels, for XGBoost."""
    columns = [column.indices.to_numpy() for column in batch.columns]
    return np.stack(columns[:-1], axis=1).astype(np.float32), columns[-1].astype(np.float32)


def losses(
    probability: Callable[[pa.RecordBatch], np.ndarray], paths: Sequence[str]
) -> dict[str, float]:
    """Return the 0-1 loss and the RMSE of the true class over test files, batch by batch."""
    n = wrong = 0
    squares = 0.0
    for batch in batches(paths):
        is_site = batch.column("class").indices.to_numpy() == 1
        p = np.asarray(probability(batch), float)
        wrong += int(((p > 0.5) != is_site).sum())
        squares += float((np.where(is_site, 1 - p, p) ** 2).sum())
        n += len(p)
    return {"test_rows": n, "zero_one": wrong / n, "rmse": (squares / n) ** 0.5}


def table(results: list[dict[str, Any]]) -> str:
    """Return the results as a table."""
    lines = [
        [
            one["model"],
            f"{one['rows']:,}",
            f"{one['zero_one']:.5f}",
            f"{one['rmse']:.5f}",
            f"{one['cpu']:.0f}",
            f"{one['peak_mb']:,.0f}",
            f"{one['predict_cpu'] / one['test_rows'] * 1e6:.1f}",
        ]
        for one in results
    ]
    return markdown(HEAD, lines)


def plot(results: Path, path: Path) -> None:
    """Draw the cost a row and the peak memory of SkDB-HDP over the rows, as SVG."""
    from matplotlib.figure import Figure

    lines = map(json.loads, results.read_text().splitlines())
    found = sorted(
        (one for one in lines if one["model"] == "SkDB-HDP"), key=lambda one: one["rows"]
    )
    rows = np.array([one["rows"] for one in found]) / 1e6
    stages = ["codes", "structure", "parameters"]
    costs = np.array([[one["stages"][stage] for stage in stages] for one in found]) / rows[:, None]
    figure = Figure(figsize=(8, 3), layout="constrained")
    cost, memory = figure.subplots(1, 2)
    bottom = np.zeros(len(rows))
    for stage, part in zip(stages, costs.T, strict=True):
        cost.fill_between(rows, bottom, bottom + part, label=stage, alpha=0.7)
        bottom += part
    cost.set(xlabel="million rows", ylabel="CPU µs a row", xscale="log", ylim=(0, None))
    cost.legend(loc="lower left")
    memory.plot(rows, [one["peak_mb"] / 1000 for one in found], marker="o")
    memory.set(xlabel="million rows", ylabel="peak memory, GB", xscale="log", ylim=(0, None))
    for axes in (cost, memory):
        axes.set_xticks(rows, [f"{n:.0f}" for n in rows])
        axes.minorticks_off()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Read the arguments, fit and score, add to the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=5)
    parser.add_argument("--test-files", type=int, default=1)
    parser.add_argument("--only", choices=MODELS, nargs="+", default=list(MODELS))
    parser.add_argument("--memory-limit", default="2GB", help="of Tanager")
    parser.add_argument("--rounds", type=int, default=100, help="trees of XGBoost")
    parser.add_argument("--results", type=Path, default=Path("splice-accuracy.jsonl"))
    parser.add_argument("--plot", type=Path, help="draw the results there, fit nothing")
    options = parser.parse_args()
    if options.plot is not None:
        print(table([json.loads(line) for line in options.results.read_text().splitlines()]))
        plot(options.results, options.plot)
        return
    paths = sorted(map(str, options.folder.glob("*.parquet")))
    train, test = paths[: options.files], paths[len(paths) - options.test_files :]
    if set(train) & set(test):
        parser.error(f"{len(paths)} files are too few for --files and --test-files.")
    print(machine(), "load", os.getloadavg(), flush=True)
    results = []
    for name in options.only:
        model = MODELS[name]
        if model is None:
            code = XGBOOST.format(train=train, test=test, rounds=options.rounds)
        else:
            given = {"structure": model[0], "parameters": model[1], "limit": options.memory_limit}
            code = TANAGER.format(**given, train=train, test=test)
        results.append({"model": name, **in_new_process(code)})
        with options.results.open("a") as file:
            file.write(json.dumps(results[-1]) + "\n")
        print(json.dumps(results[-1]), flush=True)
    print(table(results))


if __name__ == "__main__":
    main()
