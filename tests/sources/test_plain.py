"""Arrow arrays made and read without Arrow's own way, which imports pandas."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tanager.sources.plain import plain_array, plain_numbers

CASES = [
    (["é", "", "two words"], pa.string()),
    ([True, False, True] * 7, pa.bool_()),
    ([1, -(2**62), 3], pa.int64()),
    ([1, 2, 3], pa.int32()),
    ([0.5, float("nan"), -1e300], pa.float64()),
    ([], pa.string()),
    ([], pa.float64()),
]


@pytest.mark.parametrize(("values", "kind"), CASES)
def test_arrays_are_arrows_own(values, kind):
    made = plain_array(values, kind)
    made.validate(full=True)
    assert made.type == kind
    assert str(made.to_pylist()) == str(pa.array(values, kind).to_pylist())


@pytest.mark.parametrize(("values", "kind"), [case for case in CASES if case[1] != pa.string()])
@pytest.mark.parametrize("part", [slice(None), slice(1, None), slice(2, 3)])
def test_numbers_are_arrows_own(values, kind, part):
    array = pa.array(values, kind)[part]
    found, expected = plain_numbers(array), array.to_numpy(zero_copy_only=False)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_gaps_are_refused():
    with pytest.raises(ValueError, match="gaps"):
        plain_numbers(pa.array([1, None]))
