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
