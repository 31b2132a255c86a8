"""Every allocation of every kernel fails once: a MemoryError, nothing written, nothing leaked.

Only the build of `torture.sanitizers` can let allocations fail (`make kernels`).
"""

from __future__ import annotations

import numpy as np
import pytest

from tanager import native
from tests.native.cases import CASES
from tests.native.test_twins import copied

fail_allocation = getattr(native, "fail_allocation", None)
pytestmark = pytest.mark.skipif(fail_allocation is None, reason="not the sanitized build")


@pytest.mark.parametrize("name", CASES)
def test_a_failed_allocation_is_a_memory_error_and_changes_nothing(name):
    kernel = getattr(native, name)
    for given in CASES[name](np.random.default_rng(0)):
        fail_allocation(-1)
        expected = copied(given)
        kernel(*expected)
        n_allocations, n_held = fail_allocation(-1)
        assert n_held == 0
        for at in range(n_allocations):
            arguments = copied(given)
            fail_allocation(at)
            with pytest.raises(MemoryError, match=rf"native\.{name}: no memory"):
                kernel(*arguments)
            assert fail_allocation(-1)[1] == 0
            for before, after in zip(given, arguments, strict=True):
                np.testing.assert_array_equal(before, after)
            kernel(*arguments)
            for wanted, found in zip(expected, arguments, strict=True):
                np.testing.assert_array_equal(wanted, found)


def test_kernels_that_allocate_are_among_those_tried():
    tried = set()
    for name, cases in CASES.items():
        for given in cases(np.random.default_rng(0)):
            fail_allocation(-1)
            getattr(native, name)(*copied(given))
            if fail_allocation(-1)[0]:
                tried.add(name)
    assert {"run_chain", "step_tables", "find_arborescence", "add_forest_sums"} <= tried
