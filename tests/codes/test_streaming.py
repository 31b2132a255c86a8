from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tanager.codes import learn_codebook
from tanager.codes import rows as rows_module
from tanager.codes.sample import RowSample, hash_rows
from tanager.codes.weights import exact_sums, to_float
from tanager.engines import FitContext, LocalEngine
from tanager.errors import DataError, MemoryBoundError
from tanager.sources import Source


class Streamed(Source):
    """A table in memory that pretends to be a stream of small batches."""

    def __init__(self, table, batch_rows):
        super().__init__(table.schema, None)
        self._table, self._batch_rows = table, batch_rows
        self.passes = 0

    def batches(self, columns=None, batch_rows=65_536):
        self.passes += 1
        table = self._table if columns is None else self._table.select(list(columns))
        yield from table.combine_chunks().to_batches(max_chunksize=self._batch_rows)


def example(n=500, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    gaps = x + rng.normal(size=n)
    gaps[rng.random(n) < 0.1] = np.nan
    text = rng.choice(["p", "q", None], size=n)
    y = np.where(x + rng.normal(size=n) * 0.3 > 0, "yes", "no")
    return pa.table(
        {
            "x": x,
            "text": pa.array(text, pa.string()),
            "gaps": pa.array(gaps, from_pandas=True),
            "whole": rng.integers(-2, 40, size=n),
            "y": y,
            "w": rng.choice([0.0, 0.1, 0.7, 3.0], size=n),
        }
    )


def assert_same_rows(a, b):
    one, two = a.gather(), b.gather()
    assert np.array_equal(one.codes, two.codes)
    assert np.array_equal(one.labels, two.labels)
    assert (one.weights is None) == (two.weights is None)
    if one.weights is not None:
        assert np.array_equal(one.weights, two.weights)
    assert a.n_rows == b.n_rows
    assert a.total_weight == pytest.approx(b.total_weight, rel=1e-12)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {"yes": 0.3}])
@pytest.mark.parametrize("features", ["from_dtype", "all"])
def test_streaming_learns_what_memory_learns(threads, weight, class_weight, features):
    table = example()
    if features == "all":
        table = table.drop_columns(["x", "gaps"])
    if weight is None:
        table = table.drop_columns(["w"])
    options = {
        "sample_weight": weight,
        "class_weight": class_weight,
        "categorical_features": features,
    }
    expected, in_memory = learn_codebook(table, "y", context=FitContext(), **options)
    for batch_rows in (7, 64, 1000):
        source = Streamed(table, batch_rows)
        context = FitContext(engine=LocalEngine(threads))
        codebook, rows = learn_codebook(source, "y", context=context, **options)
        assert source.passes == 2
        assert codebook == expected
        assert_same_rows(rows, in_memory)
        assert source.passes == 2
        indices = np.concatenate([chunk.indices for chunk in rows.chunks()])
        expected_indices = np.flatnonzero(table["w"].to_numpy()) if weight else np.arange(500)
        assert indices.tolist() == expected_indices.tolist()


def test_targets_and_weights_may_be_arrays_beside_a_stream():
    table = example()
    X = table.drop_columns(["y", "w"])
    y = pd.Series(table["y"].to_pylist(), dtype="category")
    w = table["w"].to_numpy()
    expected, in_memory = learn_codebook(X, y, sample_weight=w, context=FitContext())
    codebook, rows = learn_codebook(Streamed(X, 33), y, sample_weight=w, context=FitContext())
    assert codebook == expected
    assert_same_rows(rows, in_memory)
    with pytest.raises(DataError, match=r"inconsistent numbers of samples"):
        learn_codebook(Streamed(X, 33), y[:-1], context=FitContext())


def test_the_sample_bounds_what_cuts_are_learned_from():
    table = example(4000).drop_columns(["w"])
    books = []
    for batch_rows, threads in ((10, 1), (333, 2), (4000, 1)):
        context = FitContext(engine=LocalEngine(threads))
        source = Streamed(table, batch_rows)
        books.append(learn_codebook(source, "y", context=context, max_sample=300)[0])
    assert books[0] == books[1] == books[2]
    seeded = FitContext(seed=np.random.SeedSequence(1))
    other, _ = learn_codebook(Streamed(table, 100), "y", context=seeded, max_sample=300)
    assert other.columns[0] != books[0].columns[0]


@given(st.integers(1, 200), st.integers(1, 60), st.integers(1, 50), st.integers(0, 2**62))
@settings(max_examples=60, deadline=None)
def test_the_sample_is_the_rows_of_the_smallest_hashes(n, step, size, key):
    numbers = np.arange(n, dtype=float)
    samples = [RowSample(key, size, 1), RowSample(key, size, 1)]
    for k, start in enumerate(range(0, n, step)):
        part = numbers[start : start + step]
        samples[k % 2].add(start, [part], np.zeros(len(part), dtype=np.int64), None)
    samples[0].merge(samples[1], np.zeros(1, dtype=np.int64))
    samples[0].shrink()
    taken = samples[0].take(np.zeros(1, dtype=np.int64), np.ones(1), 1.0)
    best = np.sort(np.argsort(hash_rows(0, n, key))[:size])
    assert taken.numbers[0].tolist() == best.tolist()


def test_sampled_rows_are_spread_evenly():
    picked = np.argsort(hash_rows(0, 100_000, 12345))[:10_000]
    counts = np.bincount(picked // 10_000, minlength=10)
    # 10 cells of expectation 1,000; five standard deviations.
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(900)


@given(st.lists(st.floats(0, 1e300), max_size=50), st.randoms(use_true_random=False))
def test_exact_sums_do_not_depend_on_order_or_grouping(values, random):
    import math

    shuffled = list(values)
    random.shuffle(shuffled)
    zeros = np.zeros(len(values), dtype=np.int64)
    (whole,) = exact_sums(np.array(values), zeros, 1)
    half = len(values) // 2
    parts = [
        exact_sums(np.array(part), np.zeros(len(part), dtype=np.int64), 1)[0]
        for part in (shuffled[:half], shuffled[half:])
    ]
    assert sum(parts) == whole
    assert to_float(whole) == math.fsum(values)


def test_gather_refuses_past_its_bound(monkeypatch):
    monkeypatch.setattr(rows_module, "LEAST_MEMORY", 1000)
    monkeypatch.setattr(rows_module, "free_memory", lambda: 2000)
    _, rows = learn_codebook(Streamed(example(), 50), "y", context=FitContext())
    with pytest.raises(MemoryBoundError, match=r"needs all 500 rows in memory"):
        rows.gather()


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_files_equal_memory(tmp_path, suffix):
    table = example(3000).drop_columns(["w"])
    path = tmp_path / f"t.{suffix}"
    if suffix == "csv":
        table.to_pandas().to_csv(path, index=False)
    else:
        pq.write_table(table, path, row_group_size=700)
    expected, in_memory = learn_codebook(table, "y", context=FitContext())
    codebook, rows = learn_codebook(path, "y", context=FitContext())
    assert codebook == expected
    assert_same_rows(rows, in_memory)
    features = table.drop_columns(["y"])
    assert np.array_equal(codebook.encode(features), in_memory.gather().codes)


def test_bad_streams_are_refused():
    table = example(100)
    columns = {name: table[name] for name in ("x", "text", "y", "w")}

    def learn(target="y", weight=None, **changed):
        source = Streamed(pa.table({**columns, **changed}), 30)
        return learn_codebook(source, target, sample_weight=weight, context=FitContext())

    bad = table["x"].to_numpy().copy()
    bad[77] = np.inf
    with pytest.raises(DataError, match=r"'x' contains infinity"):
        learn(x=bad)
    with pytest.raises(DataError, match=r"No target column 'z' in the table"):
        learn(target="z")
    with pytest.raises(DataError, match=r"No sample_weight column 'z'"):
        learn(weight="z")
    with pytest.raises(DataError, match=r"Target column 'text'.*null"):
        learn(target="text")
    with pytest.raises(DataError, match=r"Unknown label type: continuous"):
        learn(target="x")
    with pytest.raises(DataError, match=r"sample_weight of row 3\d is -"):
        learn(weight="w", w=np.where(np.arange(100) >= 35, -1.0, 1.0))
    with pytest.raises(DataError, match=r"Every sample_weight is zero"):
        learn(weight="w", w=np.zeros(100))
    many = pa.table({"text": [str(i) for i in range(70_000)], "y": [0, 1] * 35_000})
    with pytest.raises(DataError, match=r"'text' has more than 65,535 distinct values"):
        learn_codebook(Streamed(many, 10_000), "y", context=FitContext())
    nothing = pa.table({"x": pa.array([], pa.float64()), "y": pa.array([], pa.int64())})
    with pytest.raises(DataError, match=r"0 sample\(s\)"):
        learn_codebook(Streamed(nothing, 10), "y", context=FitContext())
