"""Marginalisation against enumeration of every completion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tanager.codes import Domain, MemoryRows
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.errors import MemoryBoundError
from tanager.network import marginal
from tanager.parameters import Laplace, MEstimate, TreeTable, tables
from tanager.structure import Structure
from tests.oracles import joint

STRUCTURES = {
    "naive": [(), (), (), (), ()],
    "chain": [(), (0,), (1,), (2,), (3,)],
    "forest": [(), (0,), (0,), (), (3,)],
    "two-parents": [(), (0,), (1, 0), (2, 1), (2, 3)],
    "immoral": [(), (), (0, 1), (2,), (0, 2)],
    "deep": [(), (0,), (1, 0), (2, 1, 0), (3, 2, 1, 0)],
}


def make(parents, seed, learner, n_rows=40, n_features=5):
    rng = np.random.default_rng(seed)
    arities = rng.integers(1, 4, n_features)
    names = tuple("abcdefghijkl"[:n_features])
    domain = Domain(names, arities.astype(np.int64), 3)
    codes = np.stack([rng.integers(0, a, n_rows) for a in arities]).astype(np.uint8)
    labels = rng.integers(0, 3, n_rows).astype(np.uint16)
    structure = Structure.from_parents(names, parents)
    context = FitContext(info={"structure": {}, "parameters": {}})
    counts = Counts(MemoryRows(domain, codes, labels), context)
    gaps = np.stack([rng.integers(0, a + 1, 25) for a in arities]).astype(np.uint8)
    return structure, learner.learn(structure, counts, context), domain.arities, gaps


@pytest.mark.parametrize("as_tree", [False, True])
@pytest.mark.parametrize("parents", STRUCTURES.values(), ids=STRUCTURES)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=5, deadline=None)
def test_unknown_features_are_summed_out_exactly(parents, as_tree, seed):
    learner = MEstimate(m=0.7) if seed % 2 else Laplace()
    with pytest.MonkeyPatch.context() as patch:
        if as_tree:
            patch.setattr(tables, "SMALL_CELLS", 0)
            patch.setattr(tables, "DENSE_FACTOR", 0)
        structure, fitted, arities, codes = make(parents, seed, learner)
    assert isinstance(fitted.families[0], TreeTable) == as_tree
    got = fitted.log_joint(structure, codes, arities)
    marginal.add_unknown_sums(fitted, structure, codes, arities, got)
    assert got == pytest.approx(joint.log_joint(fitted, structure, arities, codes), abs=1e-10)


def test_rows_in_small_batches_give_the_same(monkeypatch):
    structure, fitted, arities, codes = make(STRUCTURES["deep"], 1, Laplace())
    whole = fitted.log_joint(structure, codes, arities)
    parts = whole.copy()
    marginal.add_unknown_sums(fitted, structure, codes, arities, whole)
    monkeypatch.setattr(marginal, "BATCH_CELLS", 300)
    marginal.add_unknown_sums(fitted, structure, codes, arities, parts)
    assert np.array_equal(whole, parts)


def test_past_the_memory_bound_the_error_names_the_features(monkeypatch):
    structure, fitted, arities, codes = make(STRUCTURES["deep"], 1, Laplace())
    codes[:4] = arities[:4, None]
    codes[4] = 0
    monkeypatch.setattr(marginal, "MAX_CELLS", 10)
    with pytest.raises(MemoryBoundError, match="'a', 'b', 'c'"):
        marginal.add_unknown_sums(fitted, structure, codes, arities, np.zeros((25, 3)))
