"""Any scores on a moral structure become a network with the same posterior."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tanager.parameters import DenseTable, Tables
from tanager.parameters.proper_network import renormalise
from tanager.structure import Structure


@st.composite
def moral_structures(draw):
    """Each feature takes as parents a clique: a part of an earlier feature's family."""
    n = draw(st.integers(1, 6))
    parents = []
    for i in range(n):
        if i == 0 or (draw(st.booleans()) and draw(st.booleans())):
            parents.append(())
            continue
        host = draw(st.integers(0, i - 1))
        others = draw(st.permutations(parents[host]))
        parents.append(tuple(draw(st.permutations([host, *others[: draw(st.integers(0, 2))]]))))
    order = draw(st.permutations(range(n)))
    place = {feature: at for at, feature in enumerate(order)}
    shuffled = [tuple(place[p] for p in parents[feature]) for feature in order]
    return Structure.from_parents([f"x{i}" for i in range(n)], shuffled)


@settings(max_examples=60)
@given(moral_structures(), st.integers(0, 2**32 - 1), st.sampled_from([1.0, 30.0, 1000.0]))
def test_posterior_is_kept_and_tables_sum_to_one(structure, seed, size):
    assert structure.is_moral()
    rng = np.random.default_rng(seed)
    arities = rng.integers(1, 4, len(structure.names))
    n_classes = int(rng.integers(2, 4))
    families = tuple(
        DenseTable(rng.normal(size=(*arities[list(ps)], arities[i], n_classes)) * size)
        for i, ps in zip(structure.selected, structure.parent_indices, strict=True)
    )
    scores = Tables(rng.normal(size=n_classes) * size, families, normalized=False)
    network = renormalise(structure, scores)
    assert network.normalized
    assert np.exp(network.log_prior).sum() == pytest.approx(1.0, abs=1e-9)
    for table in network.families:
        np.testing.assert_allclose(np.exp(table.log_prob).sum(axis=-2), 1.0, atol=1e-9)
    grid = np.indices(arities).reshape(len(arities), -1).astype(np.uint8)
    before = scores.log_joint(structure, grid, arities)
    after = network.log_joint(structure, grid, arities)
    for joint in (before, after):
        joint -= np.logaddexp.reduce(joint, axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(before), np.exp(after), atol=1e-9)


def test_an_immorality_is_seen():
    assert not Structure.from_parents("abc", [(), (), (1, 0)]).is_moral()
    assert not Structure.from_parents("abcd", [(), (0,), (0,), (1, 2)]).is_moral()


def test_tables_too_large_to_spell_out_stay_scores(monkeypatch):
    monkeypatch.setattr("tanager.parameters.proper_network.MAX_SPELLED", 3)
    structure = Structure.from_parents("a", [()])
    tables = Tables(np.zeros(2), (DenseTable(np.zeros((2, 2))),), normalized=False)
    assert not renormalise(structure, tables).normalized
