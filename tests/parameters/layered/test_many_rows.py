"""Many rows: left where they are, judged by one fold, in memory that does not grow with them."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tanager import BayesNetClassifier
from tanager.additive import residuals
from tanager.codes import Domain, Rows
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.parameters.layered import Layered, learner
from tanager.structure import Structure


@pytest.fixture(autouse=True)
def _many_are_few(monkeypatch):
    """Let a few thousand rows be many, and a sample of them small."""
    monkeypatch.setattr(learner, "MANY_ROWS", 1_000)
    monkeypatch.setattr(learner, "FOLD_ROWS", 1_000)
    monkeypatch.setattr(residuals, "MAX_ROWS", 500)


def write_rows(path, n_rows):
    generator = np.random.default_rng(0)
    columns = {f"x{i}": generator.integers(0, 9, n_rows).astype(np.float32) for i in range(10)}
    columns["y"] = ((columns["x0"] > 4) ^ (columns["x1"] > 6)).astype(np.int64)
    pq.write_table(pa.table(columns), path, row_group_size=5_000)
    return path


def test_memory_does_not_grow_with_the_rows(tmp_path):
    peaks = []
    for n_rows in (20_000, 120_000):
        path = write_rows(tmp_path / f"{n_rows}.parquet", n_rows)
        model = BayesNetClassifier("ktree(max_parents=1)", "layered(max_iter=2)", memory_limit=1)
        tracemalloc.start()
        model.fit(path, "y")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # Codes and places of 100,000 rows are at least 3 MB.
    assert peaks[1] < peaks[0] + 1_000_000


def make_rows(n_rows=3_000):
    generator = np.random.default_rng(1)
    codes = generator.integers(0, 3, (3, n_rows)).astype(np.uint8)
    labels = (codes[0] == codes[1]).astype(np.uint16)
    return Rows.in_memory(Domain(tuple("abc"), np.array([3, 3, 3]), 2), codes, labels)


def test_one_fold_of_many_rows_judges_and_the_structure_is_that_of_all():
    context = FitContext()

    class Never:
        def learn(self, counts, context):
            raise AssertionError("the structure of many rows is learned once")

    context.carry["structure_learner"] = Never()
    structure = Structure.from_parents("abc", [(), (0,), (1,)])
    tables = Layered().learn(structure, Counts(make_rows(), context), context)
    record = context.info["parameters"]
    assert record["held_out_loss"][0] < 0.1
    codes = make_rows().gather().codes
    said = tables.log_joint(structure, codes, np.array([3, 3, 3]))
    assert ((said[:, 1] > said[:, 0]) == (codes[0] == codes[1])).all()


def test_about_as_many_rows_are_held_out_of_very_many(monkeypatch):
    seen = []
    monkeypatch.setattr(learner.Trial, "loss", lambda self, said: seen.append(len(said)) or 0.0)
    monkeypatch.setattr(learner, "FOLD_ROWS", 300)
    monkeypatch.setattr(learner, "ENOUGH_ROWS", 200)
    structure = Structure.from_parents("abc", [()] * 3)
    context = FitContext()
    Layered().learn(structure, Counts(make_rows(6_000), context), context)
    assert seen
    assert all(200 < n_rows < 400 for n_rows in seen)
