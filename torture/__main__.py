"""Run the campaign: python -m torture [--minutes M] [--parts a,b] [--seed S] [--write]."""

from __future__ import annotations

import argparse
import json
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from torture import (
    concurrency,
    disks,
    fuzz,
    interrupts,
    kills,
    mutated_files,
    numbers,
    roads,
    same,
    write_faults,
)
from torture.campaign import ROOT, Budget, Part, Tally, revision
from torture.page import RECORD, read_record, write_page

# Part, cases at least in a run by default, and its share of the time that is left.
PARTS: dict[str, tuple[Part, int, float]] = {
    "same": (same.same, 100, 0.0),
    "promises": (same.promises, 100, 0.0),
    "roads": (roads.roads, 2, 0.0),
    "numbers": (numbers.numbers, 1, 0.0),
    "models": (mutated_files.models, 1_000, 0.4),
    "inputs": (mutated_files.inputs, 1_000, 0.4),
    "experiments": (mutated_files.experiments, 300, 0.1),
    "fuzz": (fuzz.fuzzing, 5, 0.0),  # seconds of each target
    "kills": (kills.kills, 40, 0.05),
    "interrupts": (interrupts.interrupts, 35, 0.05),
    "writers": (write_faults.write_faults, 2, 0.0),
    "disks": (disks.disks, 1, 0.0),
    "concurrency": (concurrency.concurrency, 1, 0.0),
}


def main() -> int:
    """Run the parts that were asked for, each in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=0.0, help="go on for so long")
    parser.add_argument("--cases", type=int, help="of each part, instead of its default")
    parser.add_argument("--parts", default=",".join(PARTS), help="names, with commas")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="structures, by the start of their names")
    parser.add_argument("--record", type=Path, help="JSON file that keeps the results")
    parser.add_argument("--write", action="store_true", help="keep them in the documentation")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    names = given.parts.split(",")
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; there are: {', '.join(PARTS)}")
    if given.alone:
        print(json.dumps(_run(names[0], given)))
        return 0
    record = RECORD if given.write else given.record
    results = read_record(record)
    for name in names:
        print(f"== {name}", flush=True)
        results[name] = _run_apart(name, given)
        _tell(name, results[name])
        if record is not None:
            record.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    if given.write:
        write_page(results, RECORD.with_suffix(".md"))
    return 1 if any(results[name]["failures"] for name in names) else 0


def _run_apart(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """Run one part in a new process: what it does to itself is its own affair."""
    command = [sys.executable, "-m", "torture", "--alone", "--parts", name]
    command += ["--minutes", str(given.minutes), "--seed", str(given.seed), "--only", given.only]
    if given.cases is not None:
        command += ["--cases", str(given.cases)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    if done.returncode:
        what = f"the part ended with code {done.returncode}"
        tally = Tally()
        tally.fail(what)
        return {**tally.to_json(), "revision": revision(), "seconds": 0.0, "seed": given.seed}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


class StoppedEarly(BaseException):
    """The part was asked to end (SIGTERM): what it has found so far counts."""


def _stop(*_: Any) -> None:
    raise StoppedEarly


def _run(name: str, given: argparse.Namespace) -> dict[str, Any]:
    part, cases, share = PARTS[name]
    cases = cases if given.cases is None else given.cases
    budget = Budget(cases, 60.0 * given.minutes * share, given.seed, given.only)
    tally = Tally(say=lambda text: print(f"   {text}", file=sys.stderr, flush=True))
    start, attacked = time.monotonic(), revision()
    signal.signal(signal.SIGTERM, _stop)
    with tempfile.TemporaryDirectory(prefix="torture-", ignore_cleanup_errors=True) as folder:
        try:
            part(budget, tally, Path(folder))
        except StoppedEarly:
            tally.facts["stopped"] = "before its end"
        _keep_failed(name, Path(folder) / "failed")
    return {
        **tally.to_json(),
        "revision": attacked,
        "seconds": round(time.monotonic() - start, 1),
        "cpu_seconds": round(_cpu_seconds(), 1),
        "seed": given.seed,
    }


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of those it waited for."""
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(one.ru_utime + one.ru_stime for one in map(resource.getrusage, whose))


def _keep_failed(name: str, failed: Path) -> None:
    """Move the files that broke a promise to where they can be looked at."""
    if failed.is_dir():
        place = ROOT / ".cache" / "torture" / name
        place.mkdir(parents=True, exist_ok=True)
        for file in failed.iterdir():
            (place / file.name).write_bytes(file.read_bytes())
        print(f"   files that failed: {place}", file=sys.stderr)


def _tell(name: str, result: dict[str, Any]) -> None:
    outcomes = ", ".join(f"{n:,} {what}" for what, n in result["outcomes"].items())
    print(f"{name}: {result['tried']:,} tried: {outcomes}", flush=True)
    for failure in result["failures"][:20]:
        print(f"   FAILED: {failure}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
