"""The paired t-test of Pernkopf and Bilmes."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from tanager_papers.pernkopf_claims import paired_t


@given(st.integers(0, 2**32))
def test_paired_t_agrees_with_scipy(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.random(20), rng.random(20)
    result, reference = (
        paired_t(a, b, "less"),
        scipy.stats.ttest_rel(a, b, alternative="less"),
    )
    assert_allclose(result, (reference.statistic, reference.pvalue))


def test_paired_t_of_equal_losses():
    assert paired_t([0.1, 0.2], [0.1, 0.2]) == (0.0, 1.0)


@pytest.mark.parametrize(("alternative", "p"), [("two-sided", 0), ("less", 1), ("greater", 0)])
def test_paired_t_of_one_difference_knows_the_side(alternative, p):
    assert paired_t([0.5, 0.75], [0.25, 0.5], alternative) == (np.inf, p)
    other = {"less": "greater", "greater": "less"}.get(alternative, alternative)
    assert paired_t([0.25, 0.5], [0.5, 0.75], other) == (-np.inf, p)
