"""Fuzzing guided by coverage, with atheris (libFuzzer) where it is installed.

    python -m torture.fuzz [--seconds 60] [--targets model,experiment,...] [--keep]

Each target runs in a process of its own, with at most 100 s (the machine may be busy) and 2 GB a
file. What breaks a promise is kept in .cache/torture/fuzz; with --keep some small files that
reached new lines are written to tests/reliability/seeds, where the tests open them again.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torture.campaign import ROOT, Budget, Tally

PLACE = ROOT / ".cache" / "torture" / "fuzz"
SEEDS = ROOT / "tests" / "reliability" / "seeds"
MAX_BYTES = 4096  # of a seed that is kept
MAX_SEEDS = 25  # of a target
N_HASH = 40  # characters of the names that the fuzzer gives
# Of a thousand cases: as many as take each reader about the same time.
SHARES = {
    "network": 480.0,
    "learner": 400.0,
    "experiment": 80.0,
    "checkpoint": 20.0,
    "csv": 8.0,
    "run_file": 8.0,
    "html": 2.0,
    "column": 1.2,
    "model": 0.6,
    "cells": 0.2,
}


def main() -> int:
    """Fuzz every target; print what came of it as JSON."""
    parser = argparse.ArgumentParser(prog="python -m torture.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--targets", help="names, with commas; all by default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep what was found as seeds of tests")
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    given, rest = parser.parse_known_args()
    if given.alone:
        _fuzz(given.alone, rest)
        return 0
    if find_spec("atheris") is None:
        raise SystemExit("atheris is not installed: pip install 'tanager[fuzz]'")
    from torture.targets import TARGETS

    names = given.targets.split(",") if given.targets else list(TARGETS)
    limit = f"-max_total_time={given.seconds}"
    found = {name: fuzz(name, limit, given.seed, keep=given.keep) for name in names}
    print(json.dumps(found, indent=1))
    return 1 if any(facts["failures"] for facts in found.values()) else 0


def fuzzing(budget: Budget, tally: Tally, folder: Path) -> None:  # noqa: ARG001
    """Fuzz every target, with its share of the cases."""
    if find_spec("atheris") is None:
        tally.facts["not tried"] = "atheris is not installed"
        return
    for name, share in SHARES.items():
        runs = max(10, round(budget.cases * share / 1_000))
        found = fuzz(name, f"-runs={runs}", budget.seed, keep=False)
        for failure in found["failures"]:
            tally.fail(f"{name}: {failure}")
        tally.outcomes["refused or read"] += found["tried"] - len(found["failures"])
        tally.facts[name] = f"{found['tried']:,} files, {found['reached']:,} features reached"


def fuzz(name: str, limit: str, seed: int, *, keep: bool) -> dict[str, Any]:
    """Fuzz one target up to a limit, an option of libFuzzer's.

    Returns the files tried, the lines' edges reached, and what failed.
    """
    from torture.targets import seeds_of

    corpus, failed = PLACE / name / "corpus", PLACE / name / "failed"
    shutil.rmtree(PLACE / name, ignore_errors=True)
    corpus.mkdir(parents=True)
    failed.mkdir()
    for at, data in enumerate(seeds_of(name)):
        (corpus / f"whole-{at}").write_bytes(data)
    for path in sorted((SEEDS / name).glob("*")):
        (corpus / path.name).write_bytes(path.read_bytes())
    options = [limit, f"-seed={seed}", "-timeout=100", "-rss_limit_mb=2048"]
    options += ["-max_len=20000", f"-artifact_prefix={failed}/", "-print_final_stats=1"]
    done = _run(name, [*options, str(corpus)])
    text = done.stderr
    tried = re.findall(r"stat::number_of_executed_units:\s+(\d+)", text)
    reached = re.findall(r"\bft: (\d+)", text)
    failures = sorted(p.name for p in failed.iterdir() if not p.name.startswith("slow-unit"))
    if done.returncode and not failures:
        failures = [text[-300:]]
    if keep:
        _keep(name, corpus)
    return {
        "tried": int(tried[-1]) if tried else 0,
        "reached at first": int(reached[0]) if reached else 0,
        "reached": int(reached[-1]) if reached else 0,
        "failures": failures,
    }


def _run(name: str, options: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torture.fuzz", "--alone", name, *options]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False)


def _keep(name: str, corpus: Path) -> None:
    """Keep files that reached something new: small ones, in the order of their hashes."""
    target = SEEDS / name
    target.mkdir(parents=True, exist_ok=True)
    found = [path for path in corpus.iterdir() if len(path.name) == N_HASH]
    small = [path for path in sorted(found) if 0 < path.stat().st_size <= MAX_BYTES]
    for path in small[: max(0, MAX_SEEDS - len(list(target.iterdir())))]:
        (target / path.name[:16]).write_bytes(path.read_bytes())


def _fuzz(name: str, options: list[str]) -> None:
    """Hand one target to libFuzzer; ends the process."""
    import atheris

    with atheris.instrument_imports(include=["tanager"]):
        targets = import_module("torture.targets")
        for part in ("classifiers", "evaluation", "network", "report", "training"):
            import_module(f"tanager.{part}")
        target = targets.TARGETS[name]
        for data in targets.seeds_of(name):  # loads what is loaded late
            target(data)
    targets.quiet()

    def one(data: bytes) -> None:
        outcome = target(bytes(data))
        if outcome not in ("refused", "read", "ran", "loaded", "loaded, rows refused"):
            raise AssertionError(outcome)

    atheris.Setup([sys.argv[0], *options], one)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
