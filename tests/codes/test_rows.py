"""Codes that come from outside are checked before they reach compiled loops."""

import numpy as np
import pytest

from tanager import BayesNetClassifier
from tanager.codes import Chunk, Domain, Rows
from tanager.errors import DataError

DOMAIN = Domain(("a", "b"), np.array([2, 3]), 2)
CODES = np.array([[0, 1, 2], [2, 1, 0]], np.uint8)
LABELS = np.array([0, 1, 1], np.uint16)


@pytest.fixture(scope="module")
def network():
    X = [["a", "x"], ["b", "y"], ["a", "y"]] * 9
    return BayesNetClassifier("tan", "laplace").fit(X, [0, 1, 1] * 9).network_


@pytest.mark.parametrize("method", ["log_joint_of_codes", "log_terms"])
def test_a_network_refuses_codes_of_another_shape_or_type(network, method):
    ask = getattr(network, method)
    good = np.zeros((2, 4), np.uint8)
    assert np.isfinite(ask(good)).all()
    assert np.isfinite(ask(np.full((2, 4), 255, np.uint8))).all()  # unknown
    np.testing.assert_array_equal(ask(np.asfortranarray(good)), ask(good.astype(np.uint16)))
    for shape in ((1, 4), (3, 4), (4, 2), (2,), (2, 4, 1)):
        with pytest.raises(DataError, match=r"allowed are \(2, n_rows\)"):
            ask(np.zeros(shape, np.uint8))
    for kind in (np.int64, np.int8, np.float64, ">u2", bool):
        with pytest.raises(DataError, match=r"allowed are .* uint8 or uint16"):
            ask(good.astype(kind))


def test_rows_refuse_labels_and_weights_that_do_not_fit():
    assert Rows.in_memory(DOMAIN, CODES, LABELS).n_rows == 3
    for codes, labels, weights in (
        (CODES[:1], LABELS, None),
        (CODES, LABELS[:2], None),
        (CODES, LABELS + np.uint16(1), None),
        (CODES, LABELS, np.ones(2)),
        (CODES.astype(np.int64), LABELS, None),
    ):
        with pytest.raises(DataError, match="allowed"):
            Rows.in_memory(DOMAIN, codes, labels, weights)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("step", [0, 1, 4, 9, 10, 11])
def test_a_chunk_in_parts_has_the_same_rows(step, weighted):
    rng = np.random.default_rng(0)
    whole = Chunk(
        rng.integers(0, 9, (3, 10), np.uint8),
        rng.integers(0, 4, 10, np.uint16),
        rng.random(10) if weighted else None,
        7,
    )
    for chunk in (whole, whole.take(rng.random(10) < 0.7)):
        parts = list(chunk.split(step))
        assert [part.n_rows for part in parts[:-1]] == [max(1, step)] * (len(parts) - 1)
        assert all(part.codes.flags.c_contiguous for part in parts)
        assert [part.start for part in parts] == [int(part.indices[0]) for part in parts]
        for name in ("labels", "indices", *["weights"] * weighted):
            joined = np.concatenate([getattr(part, name) for part in parts])
            assert np.array_equal(joined, getattr(chunk, name))
        assert np.array_equal(np.concatenate([part.codes for part in parts], 1), chunk.codes)
