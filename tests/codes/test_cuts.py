"""Cut points by equal frequency, alone and beside those of minimum description length."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tanager.codes import learn_codebook
from tanager.codes.columns import LookupTables, NumericColumn
from tanager.codes.groups import check_bins, fine_cuts, learn_cuts, mdl_cuts, quantile_cuts
from tanager.engines import FitContext
from tanager.errors import ConfigurationError

NUMBERS = st.lists(st.integers(-4, 4) | st.floats(-5, 5, width=16), min_size=1, max_size=40)


def slow_cuts(values, weights, n_bins):
    """Try every gap between distinct values, for every share, from the left."""
    distinct = sorted(set(values))
    cuts = set()
    for j in range(1, n_bins):
        for low, high in pairwise(distinct):
            left = sum(w for v, w in zip(values, weights, strict=True) if v <= low)
            if left * n_bins >= j * sum(weights):
                cuts.add((low + high) / 2)
                break
    return sorted(cuts)


@given(NUMBERS, st.integers(2, 7))
def test_cuts_are_those_of_the_definition(numbers, n_bins):
    values = np.array(numbers, np.float64)
    assert quantile_cuts(values, None, n_bins).tolist() == slow_cuts(
        values.tolist(), [1] * len(values), n_bins
    )


@given(NUMBERS, st.integers(2, 7), st.data())
def test_weights_are_repetitions(numbers, n_bins, data):
    counts = data.draw(st.lists(st.integers(0, 3), min_size=len(numbers), max_size=len(numbers)))
    values = np.array(numbers, np.float64)
    repeated = np.repeat(values, counts)
    weighted = quantile_cuts(values, np.array(counts, np.float64), n_bins)
    np.testing.assert_array_equal(weighted, quantile_cuts(repeated, None, n_bins))


@given(NUMBERS, st.integers(2, 7))
def test_every_cut_separates_rows_and_bins_are_as_even_as_ties_allow(numbers, n_bins):
    values = np.array(numbers, np.float64)
    cuts = quantile_cuts(values, None, n_bins)
    sizes = np.bincount(np.searchsorted(cuts, values, side="left"), minlength=len(cuts) + 1)
    assert (sizes > 0).all()
    assert len(cuts) < n_bins
    if len(set(numbers)) == len(numbers) and len(numbers) % n_bins == 0:
        assert (sizes == len(numbers) // n_bins).all()


def test_integers_and_floats_cut_alike():
    values = np.random.default_rng(0).integers(0, 50, 300)
    one, two = quantile_cuts(values, None, 6), quantile_cuts(values.astype(float), None, 6)
    np.testing.assert_array_equal(one, two)


def test_both_kinds_of_cuts_are_there():
    rng = np.random.default_rng(1)
    values = rng.normal(size=400)
    labels = (values > 1.3).astype(np.uint16)
    by_class = mdl_cuts(values, labels, 2)
    assert len(by_class) == 1
    cuts = learn_cuts(values, labels, 2, None, 4)
    assert set(cuts) == {*by_class, *quantile_cuts(values, None, 4)}
    np.testing.assert_array_equal(learn_cuts(values, labels, 2, None, "mdl"), by_class)


def test_a_streamed_table_has_the_same_cuts(tmp_path):
    rng = np.random.default_rng(2)
    table = pa.table({"a": rng.normal(size=500), "y": rng.integers(0, 2, 500)})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=70)
    one, _ = learn_codebook(table, "y", bins=7, context=FitContext())
    two, _ = learn_codebook(tmp_path / "t.parquet", "y", bins=7, context=FitContext())
    np.testing.assert_array_equal(one.columns[0].cuts, two.columns[0].cuts)
    assert len(one.columns[0].cuts) >= 6


@pytest.mark.parametrize("bins", ["quantile", 1, 0, True, 2.5, None, 5000])
def test_other_bins_are_refused(bins):
    with pytest.raises(ConfigurationError, match="bins="):
        check_bins(bins)


@pytest.mark.parametrize(("every", "most"), [(6, 255), (6, 254), (2, 255), (1, 255)])
def test_heavy_values_make_no_more_bins_than_a_byte_has_codes(every, most):
    # Each `every`-th of 400 values is heavy, and stands alone where there is room for that.
    mass = np.where(np.arange(400) % every == 0, 2_000 // (400 // every) + 20, 1)
    cuts = fine_cuts(np.repeat(np.arange(400), mass), None, 255, most)
    bins = np.searchsorted(cuts, np.arange(400))
    heavy = np.flatnonzero(mass * 255 > mass.sum())
    assert 200 <= len(cuts) + 1 <= most
    assert len(np.unique(bins[heavy])) == len(heavy)
    if 2 * len(heavy) < most:
        assert (np.bincount(bins)[bins[heavy]] == 1).all()


def test_missing_takes_the_place_of_a_fine_bin():
    numbers = np.random.default_rng(0).normal(size=6_000)
    labels = np.zeros(6_000, np.uint16)
    assert len(learn_cuts(numbers, labels, 1, None, "fine")) + 1 == 255
    assert len(learn_cuts(numbers, labels, 1, None, "fine", missing=True)) + 1 == 254


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
@pytest.mark.parametrize("n_cuts", [0, 1, 2, 3, 6, 254, 300])
def test_a_code_is_how_many_cuts_are_below(n_cuts, dtype):
    generator = np.random.default_rng(n_cuts)
    cuts = np.unique(generator.integers(-400, 400, 4 * n_cuts))[:n_cuts] / 2.0
    numbers = generator.integers(-250, 250, 300).astype(dtype)
    numbers[: len(cuts)] = cuts[: len(numbers)]  # a cut itself is not below
    expected = np.searchsorted(cuts, numbers)
    if dtype is np.float64:
        numbers[-3:], expected[-3:] = np.nan, n_cuts + 1
    codes = np.zeros((1, 300), np.uint16)
    LookupTables([NumericColumn("x", cuts, n_cuts + 1)]).encode(numbers[:, None], codes)
    np.testing.assert_array_equal(codes[0], expected)
