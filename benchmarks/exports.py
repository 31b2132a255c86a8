"""Exports: rows a second, differences from the library, sizes, what a program takes to be ready.

A TAN of 30 features (20 numbers, 10 texts) and the default of 20 of them, of two
classes. One thread everywhere; CPU time.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import onnxruntime as ort
import pyarrow as pa

from benchmarks.measuring import markdown, publish
from tanager import BayesNetClassifier
from tanager.errors import MemoryBoundError
from tanager.network import Network
from tanager.network.exports.c import _literal
from tanager.network.exports.javascript import _compact, scorer_source

ROWS = int(os.environ.get("ROWS", 1_000_000))
FIT_ROWS = 20_000
BATCH = 10_000  # rows that onnxruntime gets at a time
UNKNOWN = 0.2
COMPLETE = "complete"


class Rows(NamedTuple):
    """Rows to score, and what the library says of them."""

    table: pa.Table
    expected: np.ndarray


class Result(NamedTuple):
    """Seconds before the first row, rows a second, and the largest difference from the library."""

    program: str
    rows: str
    n_rows: int
    ready: float
    rate: float
    difference: float


class Subject(NamedTuple):
    """A model to export, and how many rows it is measured on."""

    title: str
    clf: BayesNetClassifier
    n_features: int
    pairs: bool
    n_rows: int

    @property
    def network(self) -> Network:
        """What is exported."""
        return self.clf.network_


def make_table(
    n_rows: int, seed: int, n_features: int = 30, pairs: bool = False
) -> tuple[pa.Table, np.ndarray]:
    """Return rows of a chain of features that also depend on the class.

    With `pairs` the sign of what two features have together depends on it too.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_rows)
    words = np.array([f"value {v}" for v in range(8)])
    columns: dict[str, Any] = {}
    before = earlier = np.zeros(n_rows)
    for i in range(n_features):
        hidden = 0.6 * before + rng.normal(0, 1, n_rows) + 0.25 * y
        if pairs:
            hidden += 0.5 * (2 * y - 1) * np.tanh(before * earlier)
        earlier, before = before, hidden
        if i % 3 == 2:
            columns[f"f{i}"] = words[np.clip(hidden * 1.5 + 4, 0, 7).astype(int)]
        else:
            columns[f"f{i}"] = hidden
    return pa.table(columns), y


def punch(table: pa.Table, seed: int) -> pa.Table:
    """Return the table with a share of unknown cells."""
    rng = np.random.default_rng(seed)
    columns = [
        pa.array(column.to_numpy(), mask=rng.random(len(column)) < UNKNOWN)
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return CPU seconds and the result."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def run_library(clf: BayesNetClassifier, rows: Rows, what: str) -> Result:
    clf.predict_proba(rows.table.slice(0, 100))
    seconds, found = timed(lambda: clf.predict_proba(rows.table))
    return result("library", what, 0.0, seconds, found, rows)


def result(
    program: str, what: str, ready: float, seconds: float, found: np.ndarray, rows: Rows
) -> Result:
    difference = float(np.abs(found - rows.expected).max())
    return Result(program, what, len(found), ready, len(found) / seconds, difference)


def run_duckdb(network: Network, rows: Rows, what: str) -> Result:
    connection = duckdb.connect(config={"threads": 1})
    connection.register("given", rows.table)
    connection.execute("CREATE TABLE rows AS SELECT *, row_number() OVER () AS id FROM given")
    statement = network.to_sql(keep=["id"])
    ready, _ = timed(lambda: connection.execute(f"PREPARE planned AS {statement}"))
    seconds, _ = timed(lambda: connection.execute(f"CREATE TABLE scored AS {statement}"))
    found = connection.execute('SELECT "p_0", "p_1" FROM scored ORDER BY id').fetchnumpy()
    seconds = max(seconds - ready, 1e-9)
    return result("DuckDB", what, ready, seconds, np.column_stack(list(found.values())), rows)


def run_sqlite(network: Network, rows: Rows, what: str) -> Result:
    connection = sqlite3.connect(":memory:")
    names = rows.table.column_names
    connection.execute(f"CREATE TABLE rows (id, {', '.join(names)})")
    cells = zip(
        range(rows.table.num_rows), *(c.to_pylist() for c in rows.table.columns), strict=True
    )
    marks = ", ".join("?" for _ in range(len(names) + 1))
    connection.executemany(f"INSERT INTO rows VALUES ({marks})", cells)
    statement = network.to_sql(keep=["id"], dialect="sqlite", unknowns=what != COMPLETE)
    ready, _ = timed(lambda: connection.execute(f"EXPLAIN {statement}"))
    seconds, found = timed(lambda: connection.execute(statement).fetchall())
    connection.close()
    seconds = max(seconds - ready, 1e-9)
    return result("SQLite", what, ready, seconds, np.array(sorted(found))[:, 1:], rows)


def run_onnx(network: Network, rows: Rows, what: str) -> Result:
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    graph = network.to_onnx().SerializeToString()
    ready, session = timed(lambda: ort.InferenceSession(graph, options))
    feeds = {}
    for name, column in zip(rows.table.column_names, rows.table.columns, strict=True):
        if pa.types.is_string(column.type):
            feeds[name] = column.fill_null("").to_numpy().astype(object).reshape(-1, 1)
        else:
            feeds[name] = column.to_numpy().reshape(-1, 1)

    def score() -> np.ndarray:
        parts = [
            session.run(["probabilities"], {n: a[low : low + BATCH] for n, a in feeds.items()})[0]
            for low in range(0, rows.table.num_rows, BATCH)
        ]
        return np.concatenate(parts)

    session.run(["probabilities"], {n: a[:100] for n, a in feeds.items()})
    seconds, found = timed(score)
    return result("onnxruntime", what, ready, seconds, found, rows)


C_PROGRAM = """
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "model.h"
static const char *const words[] = {%(words)s};
int main(void)
{
    long n = %(n)s, r;
    double *given = malloc(n * %(width)d * sizeof(double));
    double *p = malloc(n * tanager_N_CLASSES * sizeof(double));
    tanager_row *rows = malloc(n * sizeof(tanager_row));
    FILE *file = fopen("rows.bin", "rb");
    struct timespec a, b;
    if (fread(given, sizeof(double), n * %(width)d, file) != (size_t)n * %(width)d)
        return 1;
    for (r = 0; r < n; r++) {
        const double *x = given + r * %(width)d;
%(fill)s
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    for (r = 0; r < n; r++)
        tanager_score(&rows[r], p + r * tanager_N_CLASSES);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    printf("%%.9f\\n", (b.tv_sec - a.tv_sec) + 1e-9 * (b.tv_nsec - a.tv_nsec));
    file = fopen("p.bin", "wb");
    return fwrite(p, sizeof(double), n * tanager_N_CLASSES, file) == 0;
}
"""


def run_c(network: Network, rows: Rows, what: str, folder: Path) -> Result:
    (folder / "model.h").write_text(network.to_c(), encoding="ascii")
    words = sorted({f"value {v}" for v in range(8)})
    columns, fill = [], []
    for at, (name, column) in enumerate(
        zip(rows.table.column_names, rows.table.columns, strict=True)
    ):
        if pa.types.is_string(column.type):
            places = np.array([-1 if w is None else words.index(w) for w in column.to_pylist()])
            columns.append(places.astype(float))
            fill.append(f"rows[r].x_{name} = x[{at}] < 0 ? NULL : words[(int)x[{at}]];")
        else:
            columns.append(column.to_numpy())
            fill.append(f"rows[r].x_{name} = x[{at}];")
    np.column_stack(columns).tofile(folder / "rows.bin")
    source = C_PROGRAM % {
        "words": ", ".join(map(_literal, words)),
        "n": rows.table.num_rows,
        "width": len(columns),
        "fill": "\n".join(f"        {line}" for line in fill),
    }
    (folder / "main.c").write_text(source, encoding="ascii")
    compiler = shutil.which("gcc") or "cc"
    before = os.times()
    subprocess.run(
        [compiler, "-O2", "-std=c99", "main.c", "-o", "main", "-lm"], cwd=folder, check=True
    )
    after = os.times()
    ready = after.children_user + after.children_system
    ready -= before.children_user + before.children_system
    done = subprocess.run(["./main"], cwd=folder, check=True, capture_output=True, text=True)
    found = np.fromfile(folder / "p.bin").reshape(rows.table.num_rows, -1)
    return result("C, gcc -O2", what, ready, float(done.stdout), found, rows)


NODE_PROGRAM = """
const fs = require("fs"), loaded = process.cpuUsage();
const model = require(process.argv[1] + "/model.js");
const load = process.cpuUsage(loaded);
const rows = JSON.parse(fs.readFileSync(process.argv[1] + "/rows.json", "utf8"));
rows.slice(0, 200).map(model.proba);
const start = process.cpuUsage();
const found = rows.map(model.proba);
const { user, system } = process.cpuUsage(start);
fs.writeFileSync(process.argv[1] + "/p.json", JSON.stringify(found));
console.log((load.user + load.system) / 1e6, (user + system) / 1e6);
"""


def run_node(network: Network, rows: Rows, what: str, folder: Path) -> Result:
    (folder / "model.js").write_text(network.to_javascript(), encoding="utf-8")
    (folder / "rows.json").write_text(json.dumps(rows.table.to_pylist()), encoding="utf-8")
    done = subprocess.run(
        ["node", "-e", NODE_PROGRAM, str(folder)], check=True, capture_output=True, text=True
    )
    found = np.array(json.loads((folder / "p.json").read_text()))
    ready, seconds = map(float, done.stdout.split())
    return result("JavaScript, node", what, ready, seconds, found, rows)


def measure(subject: Subject, folder: Path) -> Iterator[Result]:
    """Yield every program's speed, on complete rows and on those with gaps."""
    clf, network, n_rows = subject.clf, subject.network, subject.n_rows
    n_few = max(n_rows // 50, 1000)  # for programs that take a row at a time, or hold rows as text
    table, _ = make_table(n_rows, 1, subject.n_features, subject.pairs)
    gaps = punch(table.slice(0, n_rows // 10), seed=2)
    for what, given in ((COMPLETE, table), (f"{UNKNOWN:.0%} unknown", gaps)):
        rows = Rows(given, clf.predict_proba(given))
        few = Rows(given.slice(0, n_few), rows.expected[:n_few])
        yield run_library(clf, rows, what)
        yield run_duckdb(network, rows, what)
        with suppress(MemoryBoundError):  # the sizes say which dialects are refused
            yield run_sqlite(network, few, what)
        yield run_onnx(network, rows, what)
        yield run_c(network, rows, what, folder)
        yield run_node(network, few, what, folder)


def sizes(network: Network, folder: Path) -> list[list[str]]:
    """Return the size of every export beside that of the model file."""
    path = folder / "m.tanager"
    network.save(path)
    base = path.stat().st_size
    contents = {"model file": path.read_bytes()}
    for dialect in ("duckdb", "sqlite", "postgres"):
        for unknowns, only in ((True, ""), (False, ", complete rows alone")):
            try:
                statement = network.to_sql(dialect=dialect, unknowns=unknowns)
            except MemoryBoundError:
                statement = ""
            contents[f"SQL, {dialect}{only}"] = statement.encode()
    contents |= {
        "ONNX": network.to_onnx().SerializeToString(),
        "JSON": network.to_json().encode(),
        "JavaScript": network.to_javascript().encode(),
        "C": network.to_c().encode(),
        "BIF": network.to_bif().encode(),
        "XMLBIF": network.to_xmlbif().encode(),
        "the JavaScript scorer alone": _compact(scorer_source()).encode(),
    }
    return [
        [name, f"{len(data):,}", f"{len(data) / base:.2f}", f"{len(gzip.compress(data)):,}"]
        if data
        else [name, "refused", "", ""]
        for name, data in contents.items()
    ]


def describe(subject: Subject) -> str:
    """Return one model's tables of speeds and sizes, in Markdown."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size_table = sizes(subject.network, folder)
        found = list(measure(subject, folder))
    rows = [
        [
            r.program,
            r.rows,
            f"{r.n_rows:,}",
            f"{r.ready:.2f}",
            f"{r.rate:,.0f}",
            f"{1e6 / r.rate:.2f}",
            f"{r.difference:.0e}",
        ]
        for r in found
    ]
    head = ["program", "rows", "number", "ready, s", "rows a second", "µs a row", "difference"]
    arities = subject.network.codebook.domain.arities
    return (
        f"## {subject.title}\n\nTwo classes, {subject.n_features} features with "
        f"{int(arities.min())} to {int(arities.max())} values each; parents of a feature beside "
        f"the class: at most {subject.network.structure.max_parents}.\n\n"
        + markdown(head, rows)
        + "\n\n"
        + markdown(["export", "bytes", "times the model file", "bytes, gzip"], size_table)
    )


def main() -> None:
    """Fit, export, score, compare."""
    subjects = [
        Subject("A TAN", BayesNetClassifier("tan", "hdp", n_jobs=1), 30, False, ROWS),
        Subject("The default", BayesNetClassifier(n_jobs=1, random_state=0), 20, True, ROWS // 10),
    ]
    parts = []
    for subject in subjects:
        table, y = make_table(FIT_ROWS, 0, subject.n_features, subject.pairs)
        subject.clf.fit(table, y)
        parts.append(describe(subject))
    text = (
        f"Two models of {FIT_ROWS:,} rows of numbers and texts. One thread, CPU time; every "
        "program takes the raw columns. Ready is what it takes before the first row: gcc compiles, "
        f"databases plan, others load. onnxruntime {ort.__version__} gets {BATCH:,} rows at a "
        f"time, DuckDB {duckdb.__version__} writes a table, SQLite {sqlite3.sqlite_version} "
        "returns rows. The difference is the largest of probabilities from `predict_proba`.\n\n"
        + "\n\n".join(parts)
    )
    publish("exports", "Scoring anywhere", text)


if __name__ == "__main__":
    main()
