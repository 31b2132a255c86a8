"""A short piece of every part of the campaign; `make torture` runs the rest."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from torture import (
    checkpoints,
    commands,
    fine,
    memory,
    model_mutations,
    mutated_files,
    numbers,
    postgres,
    roads,
    same,
    security,
    write_faults,
)
from torture.campaign import Budget, Tally

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("part", "cases"),
    [(mutated_files.models, 80), (mutated_files.inputs, 80), (mutated_files.experiments, 60)],
    ids=["models", "inputs", "experiments"],
)
def test_mutated_files_give_typed_errors_or_right_answers(part, cases, tmp_path):
    tally = Tally()
    part(Budget(cases, seed=11), tally, tmp_path)
    assert tally.failures == []
    assert tally.tried == cases


def test_damaged_checkpoints_are_refused_or_give_the_same_model(tmp_path):
    tally = Tally()
    checkpoints.checkpoints(Budget(12, seed=3), tally, tmp_path)
    assert tally.failures == []
    assert tally.tried == 12


def test_exported_sql_gives_the_same_probabilities_in_postgresql(tmp_path):
    tally = Tally()
    postgres.postgres_exports(Budget(10, seed=3), tally, tmp_path)
    assert tally.failures == []
    assert tally.tried == 10 or "not tried" in tally.facts


@pytest.mark.parametrize("work", ["fit from .parquet", "load", "tanager predict"])
def test_a_failed_allocation_is_an_error_that_says_so_and_leaves_nothing(work, tmp_path):
    tally = Tally()
    memory.memory_faults(Budget(8, seed=1, only=work), tally, tmp_path)
    assert tally.failures == []
    assert tally.tried == 8 or tally.facts.get("failing allocations", "").startswith("not tried")


def test_rows_are_the_same_whatever_carries_them(tmp_path):
    tally = Tally()
    same.same(Budget(0), tally, tmp_path)
    assert tally.failures == []
    assert tally.facts["pairs"] == len(same.SHORT)


def test_the_default_on_many_rows_is_one_network(tmp_path):
    tally = Tally()
    fine.fine(Budget(1, seed=1), tally, tmp_path)
    assert tally.failures == []
    assert tally.tried > 100


def test_hostile_names_and_paths_stay_what_they_are(tmp_path):
    tally = Tally()
    security.security(Budget(2, seed=1), tally, tmp_path)
    assert tally.failures == []
    assert tally.facts["writers"] == 24


def test_every_road_leads_to_the_same_answer(tmp_path):
    tally = Tally()
    roads.roads(Budget(1), tally, tmp_path)
    assert tally.failures == []
    assert tally.tried > 180


@pytest.mark.filterwarnings("ignore::tanager.errors.ColumnWarning")
@pytest.mark.parametrize("pair", [("tan", "hdp"), ("naive", "laplace")], ids="/".join)
def test_numbers_at_the_edge_give_probabilities_or_typed_errors(pair):
    for case in numbers.cases(0, large=False):
        outcome, message = numbers.verdict(case, *pair)
        assert outcome in ("probabilities", "refused"), f"{case.name}: {message}"


@pytest.mark.parametrize(("part", "cases"), [("kills", 6), ("interrupts", 7), ("stores", 2)])
def test_stopped_writers_leave_whole_files(part, cases):
    if part == "stores":
        pytest.importorskip("moto.server")
    command = [sys.executable, "-m", "torture", "--alone", "--parts", part, "--cases", str(cases)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["failures"] == []
    assert result["tried"] == cases


def test_failing_writes_leave_whole_files(tmp_path):
    if write_faults.build_shim(tmp_path) is None:
        pytest.skip("needs Linux and a C compiler")
    tally = Tally()
    write_faults.write_faults(Budget(1), tally, tmp_path)
    assert tally.failures == []
    assert tally.facts["writers"] == 24
    assert tally.outcomes["refused"] > 80


def test_what_a_library_imports_late_is_not_put_down_to_a_file():
    code = """
import sys
from torture.victim import Importers
importers = Importers()
sys.meta_path.insert(0, importers)
for name in ("antigravity_absent", "yaml_absent"):
    library = "/lib/site-packages/dask/config.py"
    source = importers._own + "/x.py" if name.startswith("anti") else library
    try:
        exec(compile(f"import {name}", source, "exec"))
    except ImportError:
        pass
print(importers.is_a_library("antigravity_absent"), importers.is_a_library("yaml_absent"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.split() == ["False", "True"], done.stderr


def test_model_files_of_every_kind_are_attacked():
    kinds, normalized = set(), set()
    for data in model_mutations.seeds():
        length = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + length])["__metadata__"]
        tables = json.loads(metadata["header"])["tables"]
        kinds |= {family["kind"] for family in tables["families"]}
        normalized.add(tables["normalized"])
    assert kinds == {"dense", "tree", "grouped"}
    assert normalized == {True, False}


def test_commands_at_once_leave_whole_files(tmp_path):
    tally = Tally()
    commands.commands(Budget(1, seed=2), tally, tmp_path)
    assert tally.failures == []
    assert tally.tried >= commands.AT_ONCE
