"""Vectorised elementary functions against NumPy's."""

from __future__ import annotations

import numpy as np


def test_exponentials_are_those_of_the_library():
    from tanager.numerics._kernels import exponentials

    values = np.concatenate([np.linspace(-700, 700, 9_999), np.linspace(-3, 3, 9_999), [0.0]])
    out, powers = np.empty_like(values), np.empty_like(values)
    exponentials(values, out, powers)
    np.testing.assert_allclose(out, np.exp(values), rtol=9e-16)
    assert out[-1] == 1.0
    exponentials(np.array([-np.inf, -5000.0]), out[:2], powers[:2])
    assert (out[:2] == out[0]).all()
    assert 0 < out[0] < 1e-300


def test_logarithms_are_those_of_the_library():
    from tanager.numerics._kernels import log1ps

    edges = np.array([2.0**k * root - 1 for k in range(1, 8) for root in (0.5**0.5, 1.0)])
    edges = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 200)])
    values = np.concatenate([np.logspace(-300, 5, 9_999), np.linspace(0, 3, 9_999), edges])
    out, powers = np.empty_like(values), np.empty_like(values)
    log1ps(values, out, powers)
    np.testing.assert_allclose(out, np.log1p(values), rtol=9e-16, atol=0)
    assert out[9_999] == 0.0
