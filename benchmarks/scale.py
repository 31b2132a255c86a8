"""Large tables: cost a row, memory and time by stage, workers, and workers that are killed.

    python benchmarks/scale.py splice --rows 1000000      one fit, stage by stage
    python benchmarks/scale.py growth --rows 1000000      cost a row, from a tenth to all
    python benchmarks/scale.py workers --rows 1000000     one Dask worker against two
    python benchmarks/scale.py kills --fits 20            a worker killed in every fit

Each fit runs in a process of its own, which reports its CPU time and its peak
memory. Tables are made in --folder, once.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measuring import in_new_process, machine, markdown
from tanager.evaluation.generators import splice_table, write_splice

FIT = """
import json, time, os
from tanager import BayesNetClassifier
from tanager.engines.memory import peak_memory_mb, reset_peak_memory
reset_peak_memory()
wall, cpu = time.perf_counter(), time.process_time()
clf = BayesNetClassifier({structure!r}, {parameters!r}, n_jobs={jobs}, memory_limit={limit!r})
clf.fit({path!r}, {target!r})
stages = {{s: [r["seconds"], r["cpu_seconds"]] for s, r in clf.info_.items() if "seconds" in r}}
print(json.dumps(dict(wall=time.perf_counter() - wall, cpu=time.process_time() - cpu,
                      peak_mb=peak_memory_mb(), stages=stages)))
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


def growth(options: argparse.Namespace) -> str:
    """Fit the same model on a tenth, a third and all of the rows."""
    lines = []
    for n_rows in (options.rows // 10, options.rows // 3, options.rows):
        found = fit(
            windows(options.folder, n_rows),
            options.structure,
            options.parameters,
            options.jobs,
            options.memory_limit,
        )
        name = f"{options.structure} / {options.parameters}"
        lines.append(row(name, n_rows, found))
    return markdown(HEAD, lines)


def workers(options: argparse.Namespace) -> str:
    """Fit on one worker process, then on two."""
    from distributed import Client, LocalCluster

    from tanager import BayesNetClassifier

    path = windows(options.folder, options.rows)
    lines = []
    for n in (1, 2):
        with (
            LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster) as client,
        ):
            start = time.perf_counter()
            classifier = BayesNetClassifier(options.structure, options.parameters, engine=client)
            classifier.fit(path, "class")
            lines.append([n, f"{options.rows:,}", f"{time.perf_counter() - start:.1f}"])
    return markdown(["workers", "rows", "wall s"], lines)


def kills(options: argparse.Namespace) -> str:
    """Kill a worker at a random moment of every fit, and compare the model files."""
    from distributed import Client, LocalCluster

    import tanager
    from tanager.engines.dask import DaskEngine

    draw = random.Random(0)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for part in range(8):
            table: pa.Table = splice_table(options.rows // 8, seed=part)
            pq.write_table(table, folder / f"{part}.parquet")
        target = table.schema.names[-1]
        out = folder.with_name(f"{folder.name}.tanager")

        def model(engine: Any) -> tuple[bytes, float]:
            start = time.perf_counter()
            classifier = tanager.BayesNetClassifier("kdb(k=2)", "hdp", engine=engine)
            tanager.save(classifier.fit(folder, target), out)
            return out.read_bytes(), time.perf_counter() - start

        expected, _ = model("local")
        equal, times, seconds = 0, [], 0.0
        while len(times) < options.fits:
            with (
                LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
                Client(cluster) as client,
            ):
                first, seconds = model(DaskEngine(client, small=0))
                assert first == expected
                while len(times) < options.fits and _complete(client):
                    victim = draw.choice(sorted(client.run(os.getpid).values()))
                    killer = threading.Timer(
                        draw.uniform(0, seconds), os.kill, (victim, signal.SIGKILL)
                    )
                    killer.start()
                    found, took = model(DaskEngine(client, small=0))
                    killer.cancel()
                    times.append(took)
                    equal += found == expected
                    print(f"{len(times)}: {found == expected}, {took:.1f} s", flush=True)
        out.unlink()
    return markdown(
        ["fits with a kill", "models equal to the local one", "wall s without", "longest with"],
        [[options.fits, equal, f"{seconds:.1f}", f"{max(times):.1f}"]],
    )


def _complete(client: Any) -> bool:
    """Return whether both workers are there: sometimes one that was killed does not come back."""
    try:
        client.wait_for_workers(2, timeout=20)
        client.run(os.getpid)
    except OSError:  # a time-out, or a worker that is just going
        return False
    return True


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = {"splice": splice, "growth": growth, "workers": workers, "kills": kills}
    parser.add_argument("what", choices=kinds)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--structure", default="skdb(max_k=5)")
    parser.add_argument("--parameters", default="hdp")
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--memory-limit")
    parser.add_argument("--fits", type=int, default=20)
    options = parser.parse_args()
    print(machine())
    print(json.dumps({k: str(v) for k, v in vars(options).items()}))
    print(kinds[options.what](options))


if __name__ == "__main__":
    main()
