from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import KFold

from tanager.codes import learn_codebook
from tanager.codes.groups import mdl_cuts
from tanager.engines import FitContext
from tests.oracles.mdl import mdl_cuts as plain_cuts

rows = st.lists(st.tuples(st.integers(-6, 6), st.integers(0, 2)), min_size=2, max_size=60)


def as_arrays(pairs):
    values, labels = zip(*pairs, strict=True)
    return np.array(values, dtype=float), np.array(labels, dtype=np.uint16)


@given(rows)
@settings(max_examples=200)
def test_cuts_equal_the_plain_twin_on_floats_and_integers(pairs):
    values, labels = as_arrays(pairs * 4)
    expected = plain_cuts(values.tolist(), labels.tolist())
    assert mdl_cuts(values, labels, 3).tolist() == expected
    assert mdl_cuts(values.astype(np.int64), labels, 3).tolist() == expected


@given(rows, st.randoms(use_true_random=False))
@settings(max_examples=50)
def test_row_order_is_irrelevant(pairs, random):
    shuffled = list(pairs) * 3
    random.shuffle(shuffled)
    assert np.array_equal(
        mdl_cuts(*as_arrays(pairs * 3), n_classes=3), mdl_cuts(*as_arrays(shuffled), n_classes=3)
    )


@given(rows, st.lists(st.integers(0, 3), min_size=60, max_size=60))
@settings(max_examples=100)
def test_a_weight_is_a_repetition_and_zero_is_absence(pairs, times):
    values, labels = as_arrays(pairs)
    weights = np.array(times[: len(values)])
    weighted = mdl_cuts(values, labels, 3, weights.astype(float))
    repeated = mdl_cuts(np.repeat(values, weights), np.repeat(labels, weights), 3)
    assert np.array_equal(weighted, repeated)


def test_neighbouring_floats_stay_apart():
    low = 1.0
    high = np.nextafter(low, 2.0)
    values = np.repeat([low, high], 50)
    labels = np.repeat(np.array([0, 1], dtype=np.uint16), 50)
    (cut,) = mdl_cuts(values, labels, 2)
    assert low <= cut < high


def test_huge_numbers_do_not_overflow():
    values = np.repeat([-1.7e308, 1.5e308, 1.7e308], 40)
    labels = np.repeat(np.array([0, 1, 0], dtype=np.uint16), 40)
    cuts = mdl_cuts(values, labels, 2)
    assert np.isfinite(cuts).all()
    assert np.searchsorted(cuts, [-1.7e308, 1.5e308, 1.7e308]).tolist() == [0, 1, 2]


def test_no_rows_one_value_one_class_give_no_cut():
    none = np.empty(0)
    labels = np.zeros(9, dtype=np.uint16)
    assert mdl_cuts(none, labels[:0], 2).size == 0
    assert mdl_cuts(np.ones(9), labels, 2).size == 0
    assert mdl_cuts(np.arange(9.0), labels, 1).size == 0


def reference_tables(shared):
    with (shared / "reference" / "oracle" / "structures.json").open() as handle:
        tables = json.load(handle)
    tables.pop("_what")
    return tables


@pytest.mark.shared
def test_cuts_and_arities_equal_the_independent_implementation(shared):
    for slug, expected in reference_tables(shared).items():
        table = pq.read_table(shared / "data" / f"{slug}.parquet")
        columns = expected["columns"]
        (target,) = set(table.column_names) - set(columns) - {"Instance_name"}
        train, _ = next(KFold(2, shuffle=True, random_state=0).split(np.zeros(table.num_rows)))
        half = table.take(train)
        codebook, _ = learn_codebook(half.select(columns), half[target], context=FitContext())
        for i, (column, cuts) in enumerate(zip(codebook.columns, expected["cuts"], strict=True)):
            nulls = table[columns[i]].null_count > 0
            if cuts is not None:
                if half[columns[i]].null_count < half.num_rows:
                    assert column.cuts.tolist() == cuts, (slug, column.name)
                    assert len(cuts) + 1 + nulls == expected["arity"][i], (slug, column.name)
            else:
                # The reference takes its domains from the whole file.
                seen = set(half[columns[i]].to_pylist()) - {None}
                assert [str(v) for v in sorted(seen)] == column.labels()[: len(seen)]
                assert column.arity <= expected["arity"][i], (slug, column.name)
