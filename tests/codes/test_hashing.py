from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tanager.codes.hashing import folds_of, row_hash
from tanager.engines import FitContext

GAMMA = 0x9E3779B97F4A7C15
WORD = (1 << 64) - 1


def mix(z):
    """SplitMix64's finaliser in Python's integers."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**62), st.integers(1, 40))
@settings(max_examples=50)
def test_the_hash_is_splitmix64_in_any_chunking(seed, start, n):
    indices = np.arange(start, start + n)
    expected = [mix((mix((seed + 1) * GAMMA & WORD) + i * GAMMA) & WORD) for i in indices.tolist()]
    assert row_hash(seed, indices).tolist() == expected
    parts = [row_hash(seed, indices[k : k + 7]) for k in range(0, n, 7)]
    assert np.concatenate(parts).tolist() == expected


@pytest.mark.parametrize("n_folds", [2, 5, 7])
def test_folds_are_even_and_seeds_unrelated(n_folds):
    n = 70_000
    first, second = (folds_of(seed, np.arange(n), n_folds) for seed in (0, 1))
    pairs = np.bincount(first.astype(int) * n_folds + second, minlength=n_folds**2)
    share = 1 / n_folds**2
    # Cells of a binomial count; five standard deviations.
    assert np.abs(pairs - n * share).max() < 5 * np.sqrt(n * share * (1 - share))


def test_row_seeds_depend_on_their_key_alone():
    context = FitContext()
    assert context.row_seed(3) == FitContext().row_seed(3) != context.row_seed(4)
    assert context.row_seed(3) != FitContext(seed=np.random.SeedSequence(1)).row_seed(3)
    assert 0 <= context.row_seed(3) < 2**64
