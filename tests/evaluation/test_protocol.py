from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tanager.errors import ConfigurationError
from tanager.evaluation import CrossValidation


@given(st.integers(2, 60), st.integers(2, 5), st.integers(0, 99), st.booleans())
def test_every_row_is_tested_once_a_round(n_rows, folds, seed, stratified):
    if n_rows < folds:
        return
    labels = np.random.default_rng(seed).integers(3, size=n_rows)
    protocol = CrossValidation(2, folds, stratified=stratified)
    for round_ in range(2):
        splits = [protocol.split(labels, seed, round_, fold) for fold in range(folds)]
        assert sorted(np.concatenate([s.test for s in splits]).tolist()) == list(range(n_rows))
        for split in splits:
            joined = np.concatenate([split.train, split.test])
            assert sorted(joined.tolist()) == list(range(n_rows))
        sizes = [len(s.test) for s in splits]
        assert max(sizes) - min(sizes) <= 1


def test_stratified_folds_share_every_class():
    labels = np.repeat([0, 1, 2], [50, 20, 6])
    protocol = CrossValidation(1, 5, stratified=True)
    for fold in range(5):
        counts = np.bincount(labels[protocol.split(labels, 0, 0, fold).test], minlength=3)
        assert np.all(np.abs(counts - [10, 4, 1.2]) <= 1)


def test_folds_depend_on_seed_and_round_only():
    labels = np.zeros(40, int)
    a = CrossValidation(2, 2).split(labels, 7, 1, 0)
    b = CrossValidation(9, 2).split(labels, 7, 1, 0)
    np.testing.assert_array_equal(a.train, b.train)
    assert not np.array_equal(a.train, CrossValidation(2, 2).split(labels, 8, 1, 0).train)
    assert not np.array_equal(a.train, CrossValidation(2, 2).split(labels, 7, 0, 0).train)


@pytest.mark.parametrize("options", [{"rounds": 0}, {"folds": 1}])
def test_impossible_protocols_are_refused(options):
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        CrossValidation(**options)


def test_more_folds_than_rows_is_refused():
    with pytest.raises(ConfigurationError, match="folds=5"):
        CrossValidation(1, 5).split(np.zeros(3, int), 0, 0, 0)
