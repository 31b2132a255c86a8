from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose
from sklearn.dummy import DummyClassifier

from tanager.evaluation import CrossValidation, Dataset, Experiment, Results
from tanager.evaluation.metrics import COSTS
from tanager.evaluation.runner import (
    Bench,
    complete_probabilities,
    pack_codes,
    unpack_codes,
)
from tanager.evaluation.runs import RunFile

TREE = "sklearn.tree.DecisionTreeClassifier(max_features=1)@native"
DUMMY = "sklearn.dummy.DummyClassifier(strategy='stratified')@native"


class Failing(DummyClassifier):
    def fit(self, X, y, sample_weight=None):
        raise RuntimeError("no such luck")


class Deadly(DummyClassifier):
    def fit(self, X, y, sample_weight=None):
        os._exit(3)


class Unsure(DummyClassifier):
    """Doesn't know the fourth row of the second fold."""

    def predict_proba(self, X):
        found = np.full((len(X), 2), 0.5)
        found[3] = np.nan if len(X) % 2 else 0.5
        return found


def numbers(results: Results) -> pa.Table:
    """The table without what a clock measured."""
    return results.table().drop_columns(list(COSTS))


def test_cells_are_what_a_person_would_compute(small):
    results = Experiment([small], [TREE], CrossValidation(1, 2), seed=5).run()
    record = results.records[1]
    data = small.load()
    split = CrossValidation(1, 2).split(data.labels, 5, 0, 1)
    bench = Bench(Experiment([small], [TREE], CrossValidation(1, 2), seed=5))
    cell = list(bench.experiment.cells())[1]
    np.testing.assert_array_equal(bench.split(cell).train, split.train)
    seed = int(np.random.SeedSequence([5, 0, 1]).generate_state(1)[0] >> 1)
    model = bench.experiment.contenders[0].build(seed)
    model.fit(data.features.take(split.train), data.labels[split.train])
    p = model.predict_proba(data.features.take(split.test))
    assert record["zero_one_loss"] == np.mean(p.argmax(1) != data.labels[split.test])
    assert (record["n_train"], record["n_test"]) == (45, 45)
    assert record["peak_memory_mb"] > 1


def test_a_run_resumes_and_repeats_nothing(tmp_path, small, other, monkeypatch):
    path = tmp_path / "run.jsonl"
    experiment = Experiment([small, other], [TREE], CrossValidation(2, 2))
    whole = experiment.run(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4]) + lines[4][:30])
    computed = []
    run = Bench.run
    monkeypatch.setattr(Bench, "run", lambda self, cell: computed.append(cell) or run(self, cell))
    again = experiment.run(path)
    assert len(computed) == 8 - 3
    assert numbers(again).equals(numbers(whole))
    assert len(experiment.run(path).records) == 8
    assert len(computed) == 5


def test_more_rounds_keep_the_earlier_cells(tmp_path, small, monkeypatch):
    path = tmp_path / "run.jsonl"
    Experiment([small], [TREE], CrossValidation(1, 2)).run(path)
    computed = []
    run = Bench.run
    monkeypatch.setattr(Bench, "run", lambda self, cell: computed.append(cell) or run(self, cell))
    Experiment([small], [TREE], CrossValidation(2, 2)).run(path)
    assert [(c.round, c.fold) for c in computed] == [(1, 0), (1, 1)]


def test_a_changed_table_is_another_dataset(tmp_path, small):
    file = tmp_path / "t.parquet"
    table = small.source
    pq.write_table(table, file)
    keys = [c.key for c in Experiment([Dataset("t", file)], [TREE]).cells()]
    pq.write_table(table.slice(1), file)
    assert keys != [c.key for c in Experiment([Dataset("t", file)], [TREE]).cells()]


def test_processes_change_no_number(tmp_path, small, other):
    experiment = Experiment(
        [small, other], [TREE, DUMMY], CrossValidation(2, 2), keep=["predictions"]
    )
    one = experiment.run(tmp_path / "one.jsonl", n_jobs=1)
    two = experiment.run(tmp_path / "two.jsonl", n_jobs=2)
    assert numbers(one).equals(numbers(two))
    assert [r["predictions"] for r in one.records] == [r["predictions"] for r in two.records]
    assert numbers(Results.read(tmp_path / "two.jsonl")).equals(numbers(one))


def test_a_failing_cell_is_recorded_and_the_rest_goes_on(tmp_path, small):
    experiment = Experiment([small], [f"{__name__}.Failing@native", TREE], CrossValidation(1, 2))
    results = experiment.run(tmp_path / "run.jsonl")
    assert [r["classifier"] for r in results.failures] == [f"{__name__}.Failing@native"] * 2
    assert "no such luck" in results.failures[0]["error"]
    assert results.mean("log_loss").datasets == ("small",)  # the other's results stand
    assert results.mean("log_loss").classifiers == (TREE,)
    assert "no such luck" in results.failed_classifiers()[f"{__name__}.Failing@native"]
    assert sum(r["status"] == "ok" for r in results.records) == 2
    assert len(list(RunFile(tmp_path / "run.jsonl").cells())) == 4
    experiment.run(tmp_path / "run.jsonl", retry_failed=True)
    assert len(list(RunFile(tmp_path / "run.jsonl").cells())) == 6


def test_probabilities_that_are_no_numbers_fail_their_cell():
    table = pa.table({"a": range(31), "class": ["n", "p"] * 15 + ["n"]})
    results = Experiment(
        [Dataset("odd", table)],
        [f"{__name__}.Unsure@native", DUMMY],
        CrossValidation(1, 2),
        metrics=["log_loss"],
    ).run()
    [failure] = results.failures
    assert "aren't finite" in failure["error"]
    assert failure["classifier"] in results.failed_classifiers()


def test_a_dying_worker_fails_its_own_cell_only(small):
    dataset = Dataset("own", small.source, train_rows=60)
    experiment = Experiment([dataset], [f"{__name__}.Deadly@native", DUMMY])
    results = experiment.run(n_jobs=2)
    assert [r["status"] for r in results.records] == ["failed", "ok"]
    assert "died" in results.failures[0]["error"]


def test_an_own_division_is_used_once(small):
    dataset = Dataset("own", small.source, train_rows=60)
    results = Experiment([dataset], [TREE], CrossValidation(5, 2)).run()
    assert [(r["round"], r["n_train"], r["n_test"]) for r in results.records] == [(0, 60, 30)]


def test_absent_classes_get_the_prior_of_an_unseen_class():
    p = complete_probabilities(np.array([[0.25, 0.75]]), np.array([0, 2]), 3, 9)
    assert_allclose(p, [[0.25 * 29 / 30, 1 / 30, 0.75 * 29 / 30]])
    assert_allclose(p.sum(), 1.0)


def test_codes_survive_packing():
    codes = np.array([0, 1, 300, 2])
    assert unpack_codes(pack_codes(codes)).tolist() == codes.tolist()


# One process imports what runs need, and forks for each that it is told of.
SCRIPT = """
import os
import sys
import sklearn.dummy
import tanager.evaluation.runner
from tanager.evaluation import Dataset, Experiment, CrossValidation

def run(folder, path, jobs):
    datasets = [Dataset(n, f"{folder}/{n}.parquet") for n in ("small", "other")]
    uses = ["sklearn.dummy.DummyClassifier(strategy='stratified')@native",
            "sklearn.dummy.DummyClassifier(strategy='uniform')@native"]
    Experiment(datasets, uses, CrossValidation(30, 2)).run(path, n_jobs=int(jobs))

if __name__ == "__main__":
    for line in sys.stdin:
        number = os.fork()
        if number == 0:
            code = 1
            try:
                run(*sys.argv[1:], *line.split())
                code = 0
            finally:
                os._exit(code)
        print(number, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]), flush=True)
"""

needs_forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system with forks")


@pytest.fixture
def start(tmp_path, small, other):
    """Start a run of that file, in so many processes; returns its number and how to wait for it."""
    for dataset in (small, other):
        pq.write_table(dataset.source, tmp_path / f"{dataset.name}.parquet")
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, str(script), str(tmp_path)], **pipes) as process:

        def run(name, jobs):
            process.stdin.write(f"{tmp_path / name} {jobs}\n")
            process.stdin.flush()
            return int(process.stdout.readline()), lambda: int(process.stdout.readline())

        yield run


def goes_on(number):
    """Whether the process is there; one that ended is waited for at once."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def size(path):
    return path.stat().st_size if path.exists() else 0


@needs_forks
def test_a_run_killed_ten_times_ends_with_the_same_table(tmp_path, start):
    path = tmp_path / "killed.jsonl"
    chance = random.Random(1)
    for kill in range(10):
        before = size(path)
        # The last kills hit a run with workers.
        number, wait = start(path.name, 2 if kill >= 8 else 1)
        while kill % 3 and goes_on(number) and size(path) == before:
            time.sleep(0.002)
        time.sleep(chance.random() * 0.05)
        if goes_on(number):
            os.kill(number, signal.SIGKILL)
        assert wait() == -signal.SIGKILL, "the run ended before it was killed"
    for name in (path.name, "whole.jsonl"):
        assert start(name, 1)[1]() == 0
    killed, whole = Results.read(path), Results.read(tmp_path / "whole.jsonl")
    assert numbers(killed).equals(numbers(whole))
    keys = [record["cell"] for record in RunFile(path).cells()]
    assert len(keys) == len(set(keys)) == 240


@needs_forks
def test_workers_end_with_their_parent(tmp_path, start):
    psutil = pytest.importorskip("psutil")
    path = tmp_path / "run.jsonl"
    number, wait = start(path.name, 2)
    while len(path.read_bytes().splitlines() if path.exists() else []) < 2:
        assert goes_on(number)
        time.sleep(0.01)
    workers = psutil.Process(number).children(recursive=True)
    assert workers
    os.kill(number, signal.SIGKILL)
    assert wait() == -signal.SIGKILL
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert alive == []
