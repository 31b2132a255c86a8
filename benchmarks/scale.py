"""Large tables: CPU time and memory, by stage and by learner.

    python -m benchmarks.scale splice --rows 1000000      one fit, stage by stage
    python -m benchmarks.scale learners --rows 1000000    every learner on the same rows

Each fit runs in a process of its own, which reports its CPU time and its peak
memory. Tables are made in --folder, once.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.foundation import random_tan
from benchmarks.measuring import in_new_process, machine, markdown
from tanager_papers.generators import write_splice

FIT = """
import json, time, os
from tanager import BayesNetClassifier
from tanager.engines.keeping import peak_memory_mb, reset_peak_memory
reset_peak_memory()
wall, cpu = time.perf_counter(), time.process_time()
clf = BayesNetClassifier({structure!r}, {parameters!r}, n_jobs={jobs}, memory_limit={limit!r})
clf.fit({path!r}, {target!r})
stages = {{s: [r["seconds"], r["cpu_seconds"]] for s, r in clf.info_.items() if "seconds" in r}}
passes = {{s: r["passes"] for s, r in clf.info_.items() if "seconds" in r}}
print(json.dumps(dict(wall=time.perf_counter() - wall, cpu=time.process_time() - cpu,
                      peak_mb=peak_memory_mb(), stages=stages, passes=passes)))
"""


def windows(folder: Path, n_rows: int) -> Path:
    """Return a folder of splice-like windows, made where it is absent."""
    place = folder / f"splice-{n_rows}"
    if not place.exists():
        unfinished = folder / f"splice-{n_rows}.part"
        write_splice(unfinished, n_rows)
        unfinished.rename(place)
    return place


def fit(
    path: Path, structure: str, parameters: str, jobs: int, limit: str | None
) -> dict[str, Any]:
    """Fit in a new process; return wall and CPU seconds, peak memory and stages."""
    target = pq.read_schema(next(path.glob("*.parquet"))).names[-1]
    code = FIT.format(
        structure=structure,
        parameters=parameters,
        jobs=jobs,
        limit=limit,
        path=str(path),
        target=target,
    )
    return in_new_process(code)


def row(name: str, n_rows: int, found: dict[str, Any]) -> list[str]:
    """Return one line of the report."""
    stages = ", ".join(f"{stage} {wall:.0f}" for stage, (wall, _) in found["stages"].items())
    a_row = found["cpu"] / n_rows * 1e6
    return [
        name,
        f"{n_rows:,}",
        f"{found['wall']:.0f}",
        f"{found['cpu']:.0f}",
        f"{found['peak_mb']:,.0f}",
        f"{a_row:.1f}",
        stages,
    ]


HEAD = ["model", "rows", "wall s", "CPU s", "peak MB", "CPU µs a row", "wall s by stage"]


def splice(options: argparse.Namespace) -> str:
    """Fit once on splice-like windows."""
    path = windows(options.folder, options.rows)
    name = f"{options.structure} / {options.parameters}"
    found = fit(path, options.structure, options.parameters, options.jobs, options.memory_limit)
    return markdown(HEAD, [row(name, options.rows, found)])


LEARNERS = [
    ("naive", "laplace"), ("tan", "hdp"), ("tan", "m-estimate"), ("kdb(k=2)", "hdp"),
    ("kdb(k=5)", "hdp"), ("skdb(max_k=5)", "hdp"), ("acll", "acll"), ("tan", "discriminative"),
    ("auto", "layered"),
]  # fmt: skip


def learners(options: argparse.Namespace) -> str:
    """Fit every learner made of passes on the same rows: 30 columns drawn from a random TAN."""
    path = options.folder / f"tan-{options.rows}"
    if not path.exists():
        path.mkdir()
        X, y = random_tan(options.rows)
        names = [f"x{i}" for i in range(X.shape[1])]
        columns = {name: [f"v{v}" for v in range(9)] for name in names}
        table = pa.table(
            {
                name: pa.DictionaryArray.from_arrays(pa.array(column, pa.int8()), columns[name])
                for name, column in zip(names, X.T, strict=True)
            }
            | {"y": y}
        )
        pq.write_table(table, path / "0.parquet", row_group_size=100_000)
    lines = []
    for structure, parameters in LEARNERS:
        found = fit(path, structure, parameters, options.jobs, options.memory_limit)
        passes = ", ".join(f"{stage} {n}" for stage, n in found["passes"].items())
        line = [
            f"`{structure}` / `{parameters}`",
            passes,
            f"{found['cpu'] / options.rows * 1e6:.1f}",
        ]
        lines.append([*line, f"{found['peak_mb']:,.0f}"])
        print(lines[-1], flush=True)
    return markdown(["model", "passes by stage", "CPU s a million rows", "peak MB"], lines)


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = {"splice": splice, "learners": learners}
    parser.add_argument("what", choices=kinds)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--structure", default="skdb(max_k=5)")
    parser.add_argument("--parameters", default="hdp")
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--memory-limit")
    options = parser.parse_args()
    print(machine())
    print(json.dumps({k: str(v) for k, v in vars(options).items()}))
    print(kinds[options.what](options))


if __name__ == "__main__":
    main()
