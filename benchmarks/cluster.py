"""Dask: one worker against two, what a pass costs, and what goes wrong around a fit.

    python -m benchmarks.cluster workers --rows 1000000   one worker process against two
    python -m benchmarks.cluster passes                   what an empty pass costs
    python -m benchmarks.cluster kills --fits 20          a worker killed in every fit
    python -m benchmarks.cluster faults                   a lost scheduler, Ctrl-C, short memory

Tables are made in --folder, once.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measuring import ROOT, machine, markdown
from benchmarks.scale import windows
from tanager_papers.generators import splice_table


def workers(options: argparse.Namespace) -> str:
    """Fit on one worker process, then on two.

    On a busy machine the wall time says little. What a fit would take with a core for
    each process is at least the CPU time of the busiest worker and of the client, one
    after the other: the last column compares these.
    """
    from distributed import Client, LocalCluster

    from tanager import BayesNetClassifier

    path = options.path or windows(options.folder, options.rows)
    lines = []
    alone = 0.0
    for n in (1, 2):
        with (
            LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster) as client,
        ):
            start, here = time.perf_counter(), time.process_time()
            before = client.run(time.process_time)
            classifier = BayesNetClassifier(options.structure, options.parameters, engine=client)
            classifier.fit(path, "class")
            wall, here = time.perf_counter() - start, time.process_time() - here
            after = client.run(time.process_time)
            busy = sorted(after[worker] - before[worker] for worker in before)
            alone = alone or busy[-1] + here
            n_rows = classifier.info_["codes"]["rows"]
            shares = " + ".join(f"{seconds:.1f}" for seconds in busy)
            line = [n, f"{n_rows:,}", shares, f"{here:.1f}", f"{wall:.0f}"]
            lines.append([*line, f"{alone / (busy[-1] + here):.2f}", f"{os.getloadavg()[0]:.0f}"])
            print(lines[-1], flush=True)
    head = ["workers", "rows", "CPU s of the workers", "CPU s of the client and scheduler",
            "wall s", "CPU time of one to that of two, one after the other", "load"]  # fmt: skip
    return markdown(head, lines)


def passes(options: argparse.Namespace) -> str:
    """Time passes that have nothing to do, over rows on two workers."""
    from distributed import Client, LocalCluster

    from benchmarks import cluster as importable  # this file, under a name that workers know
    from tanager.codes import Domain, Rows
    from tanager.engines.dask import DaskEngine
    from tanager.progress import Progress

    lines = []
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        engine = DaskEngine(client, small=0)
        for n_pieces in options.pieces:
            rng = np.random.default_rng(0)
            codes = rng.integers(0, 4, (30, n_pieces * 1000), np.uint8)
            domain = Domain(tuple(map(str, range(30))), np.full(30, 4), 2)
            labels = rng.integers(0, 2, n_pieces * 1000, np.uint16)
            whole = Rows.in_memory(domain, codes, labels, None, 1000)
            pieces = [importable.InFile(pickle.dumps(piece)) for piece in whole.pieces()]
            held = engine.keep(importable.read_piece, pieces, 1 << 30, Progress(), "codes")
            rows = Rows(domain, held, weighted=False, total_weight=1.0)
            times = []
            for at in range(N_PASSES + 5):
                if at == 5:
                    here = time.process_time()
                    there = sum(client.run(time.process_time).values())
                start = time.perf_counter()
                engine.run(importable.Nothing(), rows, Progress(), "nothing")
                times.append(time.perf_counter() - start)
            there = sum(client.run(time.process_time).values()) - there
            quick, middle = np.quantile(times[5:], [0.1, 0.5]) * 1e3
            cpu = [(time.process_time() - here) / N_PASSES * 1e3, there / N_PASSES * 1e3]
            figures = [quick, middle, *cpu, os.getloadavg()[0]]
            lines.append([n_pieces, *(f"{figure:.0f}" for figure in figures)])
    head = ["pieces", "a tenth of passes within, ms", "half within, ms",
            "CPU ms here, with the scheduler", "CPU ms of the workers", "load"]  # fmt: skip
    return markdown(head, lines)


class InFile(NamedTuple):
    """A piece of rows as an address: its bytes stand for a file."""

    data: bytes
    n_rows: int = 1000


def read_piece(piece: InFile) -> Any:
    """Read such a piece."""
    return pickle.loads(piece.data).chunks()


class Nothing:
    """A pass that gathers the number of rows."""

    def zero(self) -> int:
        """Return no rows."""
        return 0

    def update(self, state: int, chunk: Any) -> int:
        """Add a chunk."""
        return state + int(chunk.n_rows)

    def merge(self, a: int, b: int) -> int:
        """Add up."""
        return a + b

    def finish(self, state: int) -> int:
        """Return the number."""
        return state


def kills(options: argparse.Namespace) -> str:
    """Kill a worker at a random task of every fit, and compare the model files."""
    from distributed import Client, LocalCluster

    import tanager
    from tanager.engines.dask import DaskEngine

    class Deadly(DaskEngine):
        """Kills a worker when a given task is sent: surely while the fit runs."""

        sent, deadly, victim = 0, -1, 0

        def _submit(self, *arguments: Any, **where: Any) -> Any:
            self.sent += 1
            if self.sent == self.deadly:
                os.kill(self.victim, signal.SIGKILL)
            return super()._submit(*arguments, **where)

    draw = random.Random(options.seed)
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
                suppress(KeyError),  # of a LocalCluster that is closed while a worker goes
                LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
                Client(cluster) as client,
            ):
                calm = Deadly(client, small=0)
                first, seconds = model(calm)
                assert first == expected
                while len(times) < options.fits and _complete(client):
                    engine = Deadly(client, small=0)
                    engine.deadly = draw.randint(1, calm.sent)
                    engine.victim = draw.choice(sorted(client.run(os.getpid).values()))
                    found, took = model(engine)
                    times.append(took)
                    equal += found == expected
                    print(
                        f"{len(times)}: task {engine.deadly} of {calm.sent}, equal "
                        f"{found == expected}, {took:.1f} s",
                        flush=True,
                    )
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


N_PASSES = 40

FIT = """
import sys, time
from distributed import Client
from tanager import BayesNetClassifier
from tanager.engines.dask import DaskEngine
client = Client(sys.argv[1], timeout=30)
print("fitting", flush=True)
try:
    engine = DaskEngine(client, small=0, patience=30)
    BayesNetClassifier("kdb(k=2)", "discriminative", engine=engine).fit(sys.argv[2], "class")
    print("fitted", flush=True)
except (Exception, KeyboardInterrupt) as error:
    print(type(error).__name__, "|", str(error)[:300].replace("\\n", " "), flush=True)
"""


FAULTS = {
    "scheduler": "the scheduler is killed",
    "workers": "both workers are killed",
    "interrupt": "Ctrl-C in the fitting process",
    "memory": "workers of 200 MB each",
}


def faults(options: argparse.Namespace) -> str:
    """Lose the scheduler or all workers, press Ctrl-C, run short of memory; say how a fit ends."""
    path = windows(options.folder, options.rows)
    lines = []
    for fault, what in FAULTS.items():
        lines.append([what, *_fault(path, fault)])
        print(lines[-1], flush=True)
    return markdown(["what happens", "how the fit ends", "seconds later"], lines)


def _fault(path: Path, fault: str) -> list[str]:
    """Start a cluster and a fit, do something to them three seconds into it; return its end."""
    with tempfile.TemporaryDirectory() as folder:
        address = Path(folder) / "scheduler.json"
        scheduler = _start("dask_scheduler", "--scheduler-file", str(address), "--port", "0")
        while not address.exists():
            time.sleep(0.1)
        where = json.loads(address.read_text())["address"]
        # Only with a watching parent process (a nanny) is a worker's memory limited.
        limits = ["--memory-limit", "200MB"] if fault == "memory" else ["--no-nanny"]
        pair = [_start("dask_worker", where, "--nthreads", "1", *limits) for _ in range(2)]
        fit = subprocess.Popen(
            [sys.executable, "-c", FIT, where, str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
        )
        try:
            assert fit.stdout is not None
            fit.stdout.readline()
            time.sleep(3)
            start = time.perf_counter()
            for victim in {"scheduler": [scheduler], "workers": pair}.get(fault, []):
                victim.kill()
            if fault == "interrupt":
                fit.send_signal(signal.SIGINT)
            end = fit.communicate(timeout=600)[0].strip()
            return [end, f"{time.perf_counter() - start:.1f}"]
        except subprocess.TimeoutExpired:
            return ["still waiting", "600"]
        finally:
            for process in (fit, *pair, scheduler):
                process.terminate()
                process.wait(30)


def _start(program: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a part of a cluster."""
    command = [sys.executable, "-m", f"distributed.cli.{program}", *arguments, "--no-dashboard"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = {"workers": workers, "passes": passes, "kills": kills, "faults": faults}
    parser.add_argument("what", choices=kinds)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--path", type=Path, help="of windows that are there already")
    parser.add_argument("--structure", default="skdb(max_k=5)")
    parser.add_argument("--parameters", default="hdp")
    parser.add_argument("--fits", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the kills")
    parser.add_argument("--pieces", type=int, nargs="+", default=[2, 8, 64])
    options = parser.parse_args()
    print(machine())
    print(kinds[options.what](options))


if __name__ == "__main__":
    main()
