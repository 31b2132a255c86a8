"""A small memory limit: more passes, less memory, the same model."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import tanager
from tanager.codes import Domain, Rows
from tanager.counts import Counts, build_trees, families
from tanager.engines import FitContext, LocalEngine, passes
from tanager.engines.keeping import Store, release, scratch_array
from tanager.errors import MemoryBoundError
from tanager.structure import KDB, TAN, FitPlan, Fixed, SelectiveKDB


@pytest.fixture
def no_least(monkeypatch):
    """Let a limit be as small as it is said."""
    monkeypatch.setattr(passes, "LEAST_WORK", 1)


def make_table(n_rows=4000, n_values=40):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n_rows)
    X = rng.integers(0, n_values, (n_rows, 6))
    X[:, 1] = np.where(rng.random(n_rows) < 0.5, X[:, 0], X[:, 1])
    X[:, 2] = np.where(rng.random(n_rows) < 0.3, y, X[:, 2])
    return X, y


@pytest.mark.parametrize("structure", ["kdb(k=3)", "skdb(max_k=3)"])
@pytest.mark.parametrize("parameters", ["hdp", "m-estimate"])
def test_the_model_does_not_depend_on_the_limit(structure, parameters, tmp_path, no_least):
    X, y = make_table()
    files, passes = [], []
    for limit in ("4GB", "400KB"):
        engine = LocalEngine(2)
        model = tanager.BayesNetClassifier(
            structure,
            parameters,
            categorical_features="all",
            engine=engine,
            memory_limit=limit,
            random_state=0,
        ).fit(X, y)
        files.append(tmp_path / f"{limit}.tanager")
        tanager.save(model, files[-1])
        passes.append(engine.n_passes)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert passes[1] > passes[0]


@pytest.mark.parametrize(
    "learner",
    [
        TAN(),
        TAN(adjusted=True),
        TAN("ear"),
        KDB(k=2),
        KDB(k=2, adjusted=True),
        SelectiveKDB(max_k=2),
    ],
    ids=repr,
)
def test_a_matrix_of_pairs_beyond_the_limit_lies_in_a_file(learner, no_least):
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 3, (70, 400), np.uint8)
    codes[1:] = np.where(rng.random((69, 400)) < 0.3, codes[:-1], codes[1:])
    domain = Domain(tuple(f"x{i}" for i in range(70)), np.full(70, 3), 2)
    rows = Rows.in_memory(domain, codes, rng.integers(0, 2, 400, np.uint16))
    found = []
    for limit, kind in ((1 << 30, np.ndarray), (100_000, np.memmap)):
        plan = FitPlan(FitContext(LocalEngine(2), memory_limit=limit))
        counts = Counts(rows, plan.context)
        assert type(counts.cmi()) is kind
        found.append((learner.learn(counts, plan), np.array(counts.cmi())))
    assert found[0][0] == found[1][0]
    assert np.array_equal(found[0][1], found[1][1])


def test_a_scratch_array_is_zeros_wherever_it_lies(tmp_path, monkeypatch):
    for limit, kind in ((1 << 20, np.ndarray), (0, np.memmap)):
        array = scratch_array((300, 70), limit)
        assert type(array) is kind
        assert not array.any()
        array[3:5] = 1.0
        release(array)
        assert array.sum() == 140
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(MemoryBoundError, match="TMPDIR"):
        scratch_array((300, 70), 0)


def count_with(limit: int) -> tuple[float, list[object]]:
    """Count 24 families with a cell for every row; return the peak in bytes, and the trees."""
    rng = np.random.default_rng(1)
    n_rows, n_features = 20_000, 25
    domain = Domain(tuple("abcdefghijklmnopqrstuvwxy"), np.full(n_features, 60), 2)
    codes = rng.integers(0, 60, (n_features, n_rows), np.uint8)
    rows = Rows.in_memory(domain, codes, rng.integers(0, 2, n_rows, np.uint16), None, 1000)
    chosen = [(f, tuple(g for g in range(n_features) if g != f)[:4]) for f in range(24)]
    tracemalloc.start()
    try:
        trees = build_trees(rows, chosen, FitContext(LocalEngine(2), memory_limit=limit))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return peak, list(trees)


def test_counts_under_way_stay_within_the_limit(no_least):
    one_family = families.RUN_BYTES * 20_000
    kept = 24 * 16 * 20_000  # the counts themselves: a key and a number for each cell
    # Once in a while one thread is done before the other begins, and needs less.
    roomy, expected = max((count_with(1 << 30) for _ in range(5)), key=lambda found: found[0])
    peak, found = count_with(4 * one_family)  # a fourth is for counts under way
    assert found == expected
    assert peak < kept + 2 * one_family < roomy


def test_partial_fit_adds_to_sparse_counts():
    X, y = make_table(2000)
    fixed = Fixed({"x3": ["x4", "x1", "x0"], "x5": ["x3", "x4", "x0"]})
    parts, whole = (
        tanager.BayesNetClassifier(fixed, "hdp", categorical_features="all") for _ in range(2)
    )
    parts.partial_fit(X, y).partial_fit(X[:500], y[:500])
    whole.fit(X, y, sample_weight=np.where(np.arange(2000) < 500, 2.0, 1.0))
    assert parts.network_.tables == whole.network_.tables


class Block(NamedTuple):
    """A chunk of one array."""

    values: np.ndarray

    @property
    def n_rows(self):
        return len(self.values)


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux's list of memory")
def test_rows_in_a_file_do_not_stay_in_memory():
    store = Store(0)
    blocks = [store.keep(Block(np.full(1 << 20, at))) for at in range(8)]  # 8 MiB each
    before = mapped_memory()
    held = []
    for at, block in enumerate(blocks):
        for chunk in block.chunks():
            assert chunk.values.sum() == at << 20
            held.append(chunk.values)
    assert mapped_memory() - before < 16 << 20
    assert [int(values.sum()) for values in held] == [at << 20 for at in range(8)]


def mapped_memory():
    """Return the bytes of mapped files that are in memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssFile"))


def test_tables_beyond_the_limit_are_refused_by_name():
    rng = np.random.default_rng(0)
    sizes = {"a": 40, "b": 40, "c": 40, "wide": 400}
    X = {name: [f"v{v}" for v in rng.integers(0, n, 4000)] for name, n in sizes.items()}
    y = rng.integers(0, 3, 4000)
    fixed = Fixed({"wide": ["a", "b"], "c": ["a"]})
    model = tanager.BayesNetClassifier(fixed, "dfe", memory_limit="4GB").fit(X, y)
    assert model.predict(X).shape == (4000,)
    small = tanager.BayesNetClassifier(fixed, "dfe", memory_limit="1MB")
    with pytest.raises(
        MemoryBoundError, match=r"the table of 'wide' alone takes .* Raise memory_limit"
    ):
        small.fit(X, y)


WIDE = {"narrow": 5, "wide": 1200, "wider": 1500}  # with three classes 5.4 million cells
TOLD = "'wide(r?)' .*Raise memory_limit"


@pytest.mark.parametrize(
    ("structure", "parameters"),
    [
        ("tan", "discriminative"),
        ("tan", "discriminative(level=3)"),
        ("tan", "hybrid"),
        ("tan", "dfe"),
        ("differentiable(candidates='all')", "hybrid"),
        ("order", "ml"),
        ("greedy", "ml"),
    ],
)
def test_learners_of_whole_tables_are_refused_before_they_take_them(structure, parameters):
    rng = np.random.default_rng(0)
    base = rng.integers(0, 1500, 12_000)
    X = {name: [f"v{v}" for v in base % n] for name, n in WIDE.items()}
    clf = tanager.BayesNetClassifier(structure, parameters, memory_limit="1MB", random_state=0)
    clf.fit({name: ["a", "b"] * 20 for name in WIDE}, [0, 1, 1, 0] * 10)  # loads all modules
    tracemalloc.start()
    try:
        with pytest.raises(MemoryBoundError, match=TOLD):
            clf.fit(X, rng.integers(0, 3, 12_000))
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_residuals_of_many_values_and_classes_are_refused_before_they_are_fitted():
    rng = np.random.default_rng(0)
    y = np.concatenate([np.arange(300), rng.integers(0, 300, 3_700)])
    X = {name: [f"v{v}" for v in rng.integers(0, 2000, 4_000)] for name in "abc"}
    clf = tanager.BayesNetClassifier("ktree", "laplace", memory_limit="1MB", random_state=0)
    with pytest.raises(
        MemoryBoundError, match=r"table of '[abc]' alone .* some of the 300 classes"
    ):
        clf.fit(X, y)
