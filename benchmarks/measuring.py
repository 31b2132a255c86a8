"""What every benchmark shares: CPU time, peak memory, the machine, a table in Markdown."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
MEASUREMENTS = ROOT / "docs" / "measurements"


def cpu_seconds(work: Callable[[], Any], repeats: int = 3) -> float:
    """Return the least CPU time of a few runs, after one that warms caches."""
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def in_new_process(code: str, **environment: str) -> dict[str, Any]:
    """Run Python code in a new process and return the JSON of its last line."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, cwd=ROOT, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.strip().splitlines()[-1])


def loss_on_new_rows(classifier: Any, X: Any, y: Any) -> float:
    """Return the log-loss on rows; a class that the training rows lack has probability 1e-6."""
    place = {label: at for at, label in enumerate(classifier.classes_)}
    known = np.array([label in place for label in y])
    said = classifier.predict_proba(X)
    own = said[np.arange(len(said)), [place.get(label, 0) for label in y]]
    return float(-np.log(np.where(known, own, 1e-6)).mean())


class KeptRuns:
    """Results of runs by name, in a file where one is given: a killed benchmark goes on."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        there = path is not None and path.is_file()
        self._runs: dict[str, Any] = json.loads(path.read_text()) if there else {}

    def of(self, name: str, work: Callable[[], Any]) -> Any:
        """Return the result of a run; it is run where it was not before."""
        if name not in self._runs:
            self._runs[name] = work()
            if self._path is not None:
                self._path.write_text(json.dumps(self._runs))
        return self._runs[name]


def machine() -> str:
    """Describe the machine and the versions, in one line."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    packages = ("numpy", "scikit-learn", "pyarrow")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    cores = os.cpu_count()
    return f"{model}, {cores} cores, Python {platform.python_version()}, {versions}"


def markdown(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join(lines)


def publish(topic: str, title: str, text: str) -> None:
    """Print a report; with --write, also keep it in docs/measurements."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true", help="keep the report in the documentation")
    arguments, _ = parser.parse_known_args()
    page = f"# {title}\n\nMade by `python -m benchmarks.{topic} --write`. {machine()}.\n\n{text}\n"
    print(page)
    if arguments.write:
        MEASUREMENTS.mkdir(parents=True, exist_ok=True)
        (MEASUREMENTS / f"{topic.replace('_', '-')}.md").write_text(page)
