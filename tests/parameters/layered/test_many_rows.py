"""Many rows: left where they are, judged by one fold, in memory that does not grow with them."""

from __future__ import annotations

import tracemalloc
from typing import NamedTuple

import numpy as np
import pytest

from tanager.codes import Chunk, Domain, Rows
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.loglinear import fits
from tanager.parameters import Layered, layered
from tanager.progress import Progress
from tanager.structure import FitPlan, Structure


@pytest.fixture(autouse=True)
def _many_are_few(monkeypatch):
    """Let a few thousand rows be many, and a sample of them small."""
    monkeypatch.setattr(layered, "GATHERED_ROWS", 1_000)
    monkeypatch.setattr(layered, "FOLD_ROWS", 1_000)
    monkeypatch.setattr(fits, "MAX_ROWS", 500)


class Part(NamedTuple):
    """Where some rows are to be drawn."""

    start: int
    n_rows: int


def draw(part):
    """Draw the rows of a chunk."""
    generator = np.random.default_rng(part.start)
    codes = generator.integers(0, 9, (10, part.n_rows)).astype(np.uint8)
    labels = ((codes[0] > 4) ^ (codes[1] > 6)).astype(np.uint16)
    yield Chunk(codes, labels, None, part.start)


def test_memory_does_not_grow_with_the_rows():
    peaks = []
    structure = Structure.from_parents("abcdefghij", [(), *((i,) for i in range(9))])
    domain = Domain(tuple("abcdefghij"), np.full(10, 9), 2, (9,) * 10)
    size = 5_000
    for n_rows in (20_000, 120_000):
        context = FitContext(memory_limit=0)
        parts = [Part(start, size) for start in range(0, n_rows, size)]
        pieces = context.engine.keep(draw, parts, 0, Progress(), "draw")
        rows = Rows(domain, pieces, weighted=False, total_weight=float(n_rows))
        tracemalloc.start()
        Layered(max_iter=2).learn(structure, Counts(rows, context), FitPlan(context))
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
        def learn(self, counts, plan):
            raise AssertionError("the structure of many rows is learned once")

    structure = Structure.from_parents("abc", [(), (0,), (1,)])
    tables = Layered().learn(structure, Counts(make_rows(), context), FitPlan(context, Never()))
    record = context.info["parameters"]
    assert record["held_out_loss"][0] < 0.1
    codes = make_rows().gather().codes
    said = tables.log_joint(structure, codes, np.array([3, 3, 3]))
    assert ((said[:, 1] > said[:, 0]) == (codes[0] == codes[1])).all()


def test_about_as_many_rows_are_held_out_of_very_many(monkeypatch):
    seen = []
    monkeypatch.setattr(layered.Trial, "loss", lambda self, said: seen.append(len(said)) or 0.0)
    monkeypatch.setattr(layered, "FOLD_ROWS", 300)
    monkeypatch.setattr(layered, "JUDGING_ROWS", 200)
    structure = Structure.from_parents("abc", [()] * 3)
    context = FitContext()
    Layered().learn(structure, Counts(make_rows(6_000), context), FitPlan(context))
    assert seen
    assert all(200 < n_rows < 400 for n_rows in seen)
