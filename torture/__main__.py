"""Run the campaign: python -m torture [--full] [--parts a,b] [--seed S] [--write].

    python -m torture --full --record run.json --resume    in a frozen copy of the sources
    python -m torture --page run.json                      the page, with that record

A record keeps every part as it ends, also one that is stopped (SIGTERM). With --resume a run
that was stopped goes on with the parts that the record does not have of this revision and seed.
"""

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
from typing import Any, NamedTuple

from torture import (
    checkpoints,
    commands,
    concurrency,
    disks,
    fine,
    fuzz,
    interrupts,
    kills,
    memory,
    mutated_files,
    numbers,
    postgres,
    roads,
    same,
    sanitizers,
    security,
    stores,
    write_faults,
)
from torture.campaign import ROOT, Budget, Part, Tally, environment, revision
from torture.page import RECORD, keep, read_record, write_page


class Stage(NamedTuple):
    """A part, its cases in a run by default and in a full one, its share of more time."""

    part: Part
    cases: int
    full: int
    share: float = 0.0


PARTS = {
    "same": Stage(same.same, 100, 100),
    "promises": Stage(same.promises, 100, 100),
    "fine": Stage(fine.fine, 2, 2),
    "roads": Stage(roads.roads, 2, 2),
    "postgres": Stage(postgres.postgres_exports, 20, 1_000),
    "numbers": Stage(numbers.numbers, 1, 1),
    "models": Stage(mutated_files.models, 1_000, 10_000, 0.4),
    "inputs": Stage(mutated_files.inputs, 1_000, 10_000, 0.4),
    "experiments": Stage(mutated_files.experiments, 300, 1_000, 0.1),
    "checkpoints": Stage(checkpoints.checkpoints, 60, 500, 0.05),
    "fuzz": Stage(fuzz.fuzzing, 2_000, 1_000_000),
    "kills": Stage(kills.kills, 42, 120, 0.05),
    "stores": Stage(stores.stores, 10, 100),
    "interrupts": Stage(interrupts.interrupts, 40, 120, 0.05),
    "writers": Stage(write_faults.write_faults, 2, 2),
    "disks": Stage(disks.disks, 1, 1),
    "concurrency": Stage(concurrency.concurrency, 1, 1),
    "memory": Stage(memory.memory_faults, 5, 60),  # allocations of each kind of work
    "sanitizers": Stage(sanitizers.sanitizers, 1, 1),
    "commands": Stage(commands.commands, 3, 100, 0.05),
    "security": Stage(security.security, 10, 80),
}


def main() -> int:
    """Run the parts that were asked for, each in a process of its own."""
    parser = argparse.ArgumentParser(
        prog="python -m torture",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--full", action="store_true", help="as many cases as the page tells of")
    parser.add_argument("--minutes", type=float, default=0.0, help="go on for so long")
    parser.add_argument("--cases", type=int, help="of each part, instead of its default")
    parser.add_argument("--parts", default=",".join(PARTS), help="names, with commas")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="structures, by the start of their names")
    parser.add_argument("--record", type=Path, help="JSON file that keeps the results")
    parser.add_argument("--resume", action="store_true", help="leave out what the record has")
    parser.add_argument("--write", action="store_true", help="keep them in the documentation")
    parser.add_argument("--page", type=Path, help="run nothing: write the page with a record")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.page:
        keep(RECORD, read_record(given.page))
        write_page(read_record(RECORD), RECORD.with_suffix(".md"))
        return 0
    names = given.parts.split(",")
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; there are: {', '.join(PARTS)}")
    if given.alone:
        print(json.dumps(_run(names[0], given)))
        return 0
    record = RECORD if given.write else given.record
    failed = False
    for name in names:
        if given.resume and _has(read_record(record).get(name), name, given):
            print(f"== {name}: done before", flush=True)
            continue
        print(f"== {name}", flush=True)
        result = _run_apart(name, given)
        failed = failed or bool(result["failures"])
        _tell(name, result)
        if record is not None:
            keep(record, {name: result, "environment": environment()})
        if "stopped" in result["facts"]:
            break
    if given.write:
        write_page(read_record(RECORD), RECORD.with_suffix(".md"))
    return 1 if failed else 0


def _cases(name: str, given: argparse.Namespace) -> int:
    stage = PARTS[name]
    return given.cases or (stage.full if given.full else stage.cases)


def _has(result: dict[str, Any] | None, name: str, given: argparse.Namespace) -> bool:
    """Whether a part was done to its end before, on this revision and from this seed."""
    if result is None or "stopped" in result["facts"]:
        return False
    same = (result["revision"], result["seed"]) == (revision(), given.seed)
    return same and result.get("asked", 0) >= _cases(name, given)


def _run_apart(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """Run one part in a new process: what it does to itself is its own affair."""
    command = [sys.executable, "-m", "torture", "--alone", "--parts", name]
    command += ["--minutes", str(given.minutes), "--seed", str(given.seed), "--only", given.only]
    command += ["--cases", str(_cases(name, given))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())  # it still answers
    out, _ = process.communicate()
    signal.signal(signal.SIGTERM, before)
    if process.returncode:
        what = f"the part ended with code {process.returncode}"
        tally = Tally()
        tally.fail(what)
        tally.facts["stopped"] = "before its end"
        return {**tally.to_json(), "revision": revision(), "seconds": 0.0, "seed": given.seed}
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


class StoppedEarly(BaseException):
    """The part was asked to end (SIGTERM): what it has found so far counts."""


def _stop(*_: Any) -> None:
    raise StoppedEarly


def _run(name: str, given: argparse.Namespace) -> dict[str, Any]:
    part, _, _, share = PARTS[name]
    cases = _cases(name, given)
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
        "asked": cases,
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
