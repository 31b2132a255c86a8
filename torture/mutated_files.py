"""Model files, tables and experiment files, damaged and forged from a seed.

Guided by coverage: a mutant that reaches lines no file reached before becomes a parent of
further mutants.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from torture import input_mutations, model_mutations, toml_mutations
from torture.campaign import Budget, Tally
from torture.watching import Victim, judge

__all__ = ["experiments", "inputs", "models"]

MAX_CORPUS = 400


class Seed(NamedTuple):
    """A file to start from: its ending and its bytes."""

    ending: str
    data: bytes


Mutate = Callable[[Seed, random.Random], bytes]


def models(budget: Budget, tally: Tally, folder: Path) -> None:
    """Model files: bytes changed anywhere, and contents changed under a valid checksum."""
    seeds = [Seed(".tanager", data) for data in model_mutations.seeds()]
    _attack("model", seeds, model_mutations.mutate, budget, tally, folder)


def inputs(budget: Budget, tally: Tally, folder: Path) -> None:
    """Tables: CSV, Parquet, Arrow files and streams."""
    if budget.cases >= 500:
        _open_bombs(tally, folder)
    seeds = [Seed(ending, data) for ending, data in input_mutations.seeds()]
    _attack("input", seeds, input_mutations.mutate, budget, tally, folder)


def _open_bombs(tally: Tally, folder: Path) -> None:
    """Small files that unpack to a lot: the same limits."""
    with Victim("input") as victim:
        for at, (ending, data) in enumerate(input_mutations.bombs()):
            facts = _try(victim, folder / f"bomb{ending}", data)
            broken = judge(facts)
            if broken is None:
                tally.add(str(facts["outcome"]))
            else:
                tally.fail(f"{broken}: file {at} that unpacks to 700 MB", ending=ending)


def experiments(budget: Budget, tally: Tally, folder: Path) -> None:
    """Experiment files: TOML with wrong types, deep nests, long keys, huge numbers."""
    table = input_mutations.table()
    pq.write_table(table.append_column("class", table.column("y")), folder / "small.parquet")
    seeds = [Seed(".toml", text.encode()) for text in toml_mutations.SEEDS]
    _attack("experiment", seeds, toml_mutations.mutate, budget, tally, folder)


def _attack(
    kind: str,
    seeds: Sequence[Seed],
    mutate: Mutate,
    budget: Budget,
    tally: Tally,
    folder: Path,
) -> None:
    corpus = list(seeds)
    kept, most = folder / "failed", {"seconds": 0.0, "megabytes": 0.0}
    with Victim(kind) as victim:
        for at, seed in enumerate(seeds):  # what is whole must work
            facts = _try(victim, folder / f"seed-{at}{seed.ending}", seed.data)
            broken = judge({**facts, "seen": [], "seconds": 0.0})  # the first loads kernels
            if broken is not None or facts["outcome"] == "refused":
                tally.fail(f"a whole {kind} file: {broken or facts['outcome']}", seed=at)
        while budget.more():
            rng = random.Random(f"{kind}-{budget.seed}-{budget.case}")
            parent = rng.choice(corpus)
            data = mutate(parent, rng)
            path = folder / f"mutant{parent.ending}"
            facts = _try(victim, path, data)
            broken = judge(facts)
            for name in most:
                most[name] = max(most[name], facts.get(name, 0.0))
            if broken is None:
                tally.add(facts["outcome"])
                if facts["fresh"] and len(corpus) < MAX_CORPUS and len(data) < 1 << 18:
                    corpus.append(Seed(parent.ending, data))
                continue
            kept.mkdir(exist_ok=True)
            copy = kept / f"{kind}-{budget.seed}-{budget.case}{parent.ending}"
            copy.write_bytes(data)
            tally.fail(broken, file=copy.name)
    tally.facts["parents found by coverage"] = len(corpus) - len(seeds)
    tally.facts["longest, seconds"] = round(most["seconds"], 2)
    tally.facts["peak memory of the process, MB"] = round(most["megabytes"])


def _try(victim: Victim, path: Path, data: bytes) -> dict[str, object]:
    path.write_bytes(data)
    return victim.try_file(path)
