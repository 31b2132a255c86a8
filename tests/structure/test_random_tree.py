from __future__ import annotations

import numpy as np

from tanager.codes import Domain, Rows
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.losses import HybridMargin, resolve_loss
from tanager.structure import FitPlan, RandomTree


def test_trees_are_whole_and_differ_by_seed():
    n = 7
    domain = Domain(tuple(f"f{i}" for i in range(n)), np.full(n, 2), 2)
    rows = Rows.in_memory(domain, np.zeros((n, 4), np.uint8), np.zeros(4, np.uint16))
    seen = set()
    for seed in range(30):
        context = FitContext(seed=np.random.SeedSequence(seed))
        structure = RandomTree().learn(Counts(rows, context), FitPlan(context))
        assert sum(map(len, structure.parent_indices)) == n - 1  # one root: a tree
        assert len(structure.topological_order()) == n  # no cycle
        seen.add(structure.parent_indices)
    assert len(seen) > 25


def test_a_mapping_is_a_hybrid_loss():
    assert resolve_loss({"lambda_": 100.0, "gamma": 20.0}) == HybridMargin(100.0, 20.0)
