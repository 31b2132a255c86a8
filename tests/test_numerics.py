"""Sums in log-space against SciPy's."""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax as scipy_log_softmax
from scipy.special import logsumexp

from tanager.numerics import log_softmax, log_sum_exp


def test_log_sum_exp_is_scipys():
    logs = np.random.default_rng(0).normal(scale=300, size=(4, 5, 3))
    logs[0, :, 0] = -np.inf
    for axis in range(3):
        np.testing.assert_allclose(log_sum_exp(logs, axis), logsumexp(logs, axis=axis), rtol=1e-14)


def test_of_nothing_is_the_logarithm_of_zero():
    assert log_sum_exp(np.zeros((2, 0)), axis=1).tolist() == [-np.inf, -np.inf]


def test_log_softmax_is_scipys():
    logs = np.random.default_rng(1).normal(scale=50, size=(4, 5))
    expected = scipy_log_softmax(logs, axis=1)
    np.testing.assert_allclose(log_softmax(logs, 1), expected, rtol=1e-13, atol=1e-13)
