from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tanager.codes import encode_rows, learn_codebook
from tanager.codes import rows as rows_module
from tanager.codes.hashing import RowSample, row_hash
from tanager.codes.targets import exact_sum
from tanager.engines import FitContext, LocalEngine
from tanager.errors import DataError, MemoryBoundError
from tanager.sources import Source
from tanager.sources.source import SourcePart


class Streamed(Source):
    """A table in memory that pretends to be files of some rows, read in small batches."""

    def __init__(self, table, batch_rows):
        self.rows_read = []
        pieces = range(0, table.num_rows, 3 * batch_rows)
        parts = [SlicedPart(table.slice(at, 3 * batch_rows), batch_rows, self) for at in pieces]
        super().__init__(table.schema, parts)

    @property
    def passes(self):
        return sum(self.rows_read) / self.n_rows


class SlicedPart(SourcePart):
    def __init__(self, table, batch_rows, source):
        self.n_rows = table.num_rows
        self._table, self._batch_rows, self._source = table.combine_chunks(), batch_rows, source

    def read(self, schema):
        for batch in self._table.select(schema.names).to_batches(max_chunksize=self._batch_rows):
            self._source.rows_read.append(batch.num_rows)
            yield batch


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
@pytest.mark.parametrize("features", ["from_dtype", "all"])
def test_streaming_learns_what_memory_learns(threads, weight, features):
    table = example()
    if features == "all":
        table = table.drop_columns(["x", "gaps"])
    if weight is None:
        table = table.drop_columns(["w"])
    options = {"sample_weight": weight, "categorical_features": features}
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


def test_the_sample_bounds_what_cuts_are_learned_from(monkeypatch):
    monkeypatch.setattr("tanager.codes.learning.MAX_SAMPLE", 300)
    table = example(4000).drop_columns(["w"])
    books = []
    for batch_rows, threads in ((10, 1), (333, 2), (4000, 1)):
        context = FitContext(engine=LocalEngine(threads))
        source = Streamed(table, batch_rows)
        books.append(learn_codebook(source, "y", context=context)[0])
    assert books[0] == books[1] == books[2]
    seeded = FitContext(seed=np.random.SeedSequence(1))
    other, _ = learn_codebook(Streamed(table, 100), "y", context=seeded)
    assert other.columns[0] != books[0].columns[0]


@given(st.integers(1, 200), st.integers(1, 60), st.integers(1, 50), st.integers(0, 2**62))
@settings(max_examples=60)
def test_the_sample_is_the_rows_of_the_smallest_hashes(n, step, size, key):
    numbers = np.arange(n, dtype=float)
    samples = [RowSample(key, size), RowSample(key, size)]
    for k, start in enumerate(range(0, n, step)):
        part = numbers[start : start + step]
        indices = np.arange(start, start + len(part))
        samples[k % 2].add(indices, [part], np.zeros(len(part), dtype=np.int64), None)
    samples[0].merge(samples[1], np.zeros(1, dtype=np.int64))
    samples[0].tighten()
    taken = samples[0].take(np.zeros(1, dtype=np.int64))
    best = np.sort(np.argsort(row_hash(key, np.arange(n)))[:size])
    assert taken[0][0].tolist() == best.tolist()


@given(st.lists(st.floats(0, 1e300), max_size=50), st.randoms(use_true_random=False))
def test_exact_sums_do_not_depend_on_order_or_grouping(values, random):
    import math

    shuffled = list(values)
    random.shuffle(shuffled)
    whole = exact_sum(np.array(values))
    half = len(values) // 2
    parts = [exact_sum(np.array(part)) for part in (shuffled[:half], shuffled[half:])]
    assert sum(parts) == whole
    assert float(whole) == math.fsum(values)


def test_gather_refuses_past_its_bound(monkeypatch):
    monkeypatch.setattr(rows_module, "LEAST_MEMORY", 1000)
    monkeypatch.setattr(rows_module, "free_memory", lambda: 2000)
    _, rows = learn_codebook(Streamed(example(), 50), "y", context=FitContext())
    with pytest.raises(MemoryBoundError, match=r"needs all 500 rows in memory"):
        rows.gather()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("limit", [0, 4000, 1 << 30])
def test_rows_past_the_memory_limit_are_kept_in_a_file(threads, limit):
    table = example(3000)
    results = []
    for memory_limit in (1 << 40, limit):
        context = FitContext(LocalEngine(threads), memory_limit=memory_limit)
        source = Streamed(table, 100)
        _, rows = learn_codebook(source, "y", sample_weight="w", context=context)
        assert source.passes == 2
        results.append(rows)
    kept, stored = results
    assert_same_rows(kept, stored)
    in_memory = [piece.in_memory for piece in stored.pieces()]
    assert any(in_memory) == (limit > 0)
    assert all(in_memory) == (limit == 1 << 30)
    sent = pickle.loads(pickle.dumps(stored))
    assert_same_rows(kept, sent)


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
    many = Streamed(pa.table({"real": np.arange(70_000) / 2, "y": [0, 1] * 35_000}), 10_000)
    with pytest.raises(DataError, match=r"'real' has more than 65,535 distinct values"):
        learn_codebook(many, "y", categorical_features="all", context=FitContext())
    nothing = pa.table({"x": pa.array([], pa.float64()), "y": pa.array([], pa.int64())})
    with pytest.raises(DataError, match=r"0 sample\(s\)"):
        learn_codebook(Streamed(nothing, 10), "y", context=FitContext())


@pytest.mark.parametrize("stream", [False, True])
def test_a_row_of_weight_zero_still_names_its_class(stream):
    table = pa.table({"x": ["a", "b", "c"], "y": ["no", "yes", "perhaps"], "w": [1.0, 2.0, 0.0]})
    source = Streamed(table, 2) if stream else table
    codebook, rows = learn_codebook(source, "y", sample_weight="w", context=FitContext())
    assert codebook.classes.tolist() == ["no", "perhaps", "yes"]
    assert codebook.columns[0].labels() == ["a", "b"]
    assert rows.gather().indices.tolist() == [0, 1]
    assert rows.total_weight == 3.0


def test_classes_may_be_given_beside_a_stream():
    table = pa.table({"x": ["a", "b", "c"], "y": ["no", "yes", "no"]})
    codebook, rows = learn_codebook(
        Streamed(table, 2), "y", classes=["yes", "no", "perhaps"], context=FitContext()
    )
    assert codebook.classes.tolist() == ["no", "perhaps", "yes"]
    assert rows.gather().labels.tolist() == [0, 2, 0]
    with pytest.raises(DataError, match=r"label 'yes' is not one of the classes 'no'"):
        learn_codebook(Streamed(table, 2), "y", classes=["no"], context=FitContext())


def null_at(table, name, row):
    """Return the table with one null."""
    values = table[name].to_pylist()
    values[row] = None
    return table.set_column(table.schema.get_field_index(name), name, pa.array(values))


@pytest.mark.parametrize("weight", [None, "w"])
def test_a_null_label_is_told_by_its_column_and_its_row_in_the_table(weight):
    table = example(60)
    codebook, _ = learn_codebook(
        table.drop_columns(["y", "w"]), np.array(table["y"]), context=FitContext()
    )
    assert codebook.target.name == "class"
    if weight is None:
        table = table.drop_columns("w")
    source = Streamed(null_at(table, "y", 46), 7)
    with pytest.raises(DataError, match=r"Target column 'y': .* \(first in row 46, counted"):
        encode_rows(codebook, source, "y", sample_weight=weight, context=FitContext())


def test_labels_that_are_part_of_a_column_are_told_by_their_rows():
    codebook, _ = learn_codebook(example(60), "y", context=FitContext())
    part = pa.array(["yes", None])
    with pytest.raises(DataError, match=r"Target column 'true': .* \(first in row 71, counted"):
        codebook.encode_labels(part, name="true", start=70)
    with pytest.raises(DataError, match=r"Input y .* \(first in row 1, counted"):
        codebook.encode_labels(part)


def test_a_null_weight_is_told_by_its_row_in_the_table():
    source = Streamed(null_at(example(60), "w", 46), 7)
    with pytest.raises(DataError, match=r"column 'w' have a null \(row 46\)"):
        learn_codebook(source, "y", sample_weight="w", context=FitContext())
