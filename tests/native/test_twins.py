"""Every kernel against its slow twin in `tests.oracles.kernels`, on the arguments of `cases`."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import numpy as np
import pytest

from tanager import native
from tests.native.cases import CASES
from tests.native.stub import files
from tests.oracles import kernels

TWINS = {
    name: twin
    for module in iter_modules(kernels.__path__)
    for name, twin in vars(import_module(f"{kernels.__name__}.{module.name}")).items()
    if callable(twin)
}
KERNELS = [name for names in files().values() for name in names]


def copied(arguments):
    """Return copies of arrays; an array that stands twice is copied once."""
    known = {}
    return [
        known.setdefault(id(each), each.copy()) if isinstance(each, np.ndarray) else each
        for each in arguments
    ]


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_writes_what_its_twin_writes(name):
    assert name in TWINS, f"{name} has no twin in tests/oracles/kernels"
    assert name in CASES, f"{name} has no cases in tests/native/cases.py"
    given_cases = list(CASES[name](np.random.default_rng(0)))
    assert given_cases, f"no case for {name}"
    for given in given_cases:
        ours, theirs = copied(given), copied(given)
        answer, expected = getattr(native, name)(*ours), TWINS[name](*theirs)
        assert answer == (expected or 0)
        for mine, its in zip(ours, theirs, strict=True):
            if isinstance(mine, np.ndarray):
                told = ~np.isnan(its)  # a twin writes NaN where anything will do
                np.testing.assert_allclose(mine[told], its[told], rtol=1e-11, atol=1e-13)
