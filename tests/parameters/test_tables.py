"""Look-ups in tables: dense, as a tree, and by hand."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tanager.codes import Domain, Rows
from tanager.counts import build_trees, families
from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.parameters import (
    HDP,
    Friedman,
    Laplace,
    MaximumLikelihood,
    MEstimate,
    Tables,
    TreeTable,
    lookups,
    tables,
)
from tanager.structure import Structure
from tests.oracles import counting


def make(seed, n_rows=30, top=4):
    rng = np.random.default_rng(seed)
    arities = rng.integers(1, top, 4)
    domain = Domain(("a", "b", "c", "d"), arities.astype(np.int64), 2)
    codes = np.stack([rng.integers(0, a, n_rows) for a in arities]).astype(np.uint8)
    labels = rng.integers(0, 2, n_rows).astype(np.uint16)
    return Rows.in_memory(domain, codes, labels), np.indices(arities).reshape(4, -1).astype(
        np.uint8
    )


def tree_and_levels(rows, family):
    feature, parents = family
    codes, labels, _ = rows.gather()[:3]
    members = [*parents, feature]
    counts = counting.joint_counts(
        codes, labels, np.ones(len(labels)), rows.domain.arities, members
    )
    tree = build_trees(rows, [family], FitContext())[0]
    return tree, counting.tree_levels(counts, len(parents) + 1)


def estimate(levels, context, value, arity, rule, backoff):
    """Return the probability by walking prefixes, as a person would."""
    full = len(context)
    for depth in range(full, -1, -1):
        cells = levels[depth].get(context[:depth])
        if cells:
            if depth < full and not backoff:
                return 1 / arity
            return rule(cells.get(value, 0), sum(cells.values()), len(cells))
    return 1 / arity


RULES = {
    "m-estimate": (MEstimate(m=2.0), True, lambda v: lambda n, N, _: (n + 2 / v) / (N + 2)),
    "laplace": (Laplace(0.5), False, lambda v: lambda n, N, _: (n + 0.5) / (N + 0.5 * v)),
    "ml": (
        MaximumLikelihood(1e-3),
        True,
        lambda v: lambda n, N, seen: (n / N if n else 1e-3) / (1 + 1e-3 * (v - seen)),
    ),
}


@pytest.mark.parametrize("as_tree", [False, True])
@pytest.mark.parametrize("name", RULES)
@given(seed=st.integers(0, 10_000), dense_cells=st.sampled_from([0, 12, 48, 1 << 14]))
@settings(max_examples=12)
def test_estimates_and_back_off_by_hand(name, as_tree, seed, dense_cells):
    learner, backoff, rule_for = RULES[name]
    rows, grid = make(seed, n_rows=12)
    arities = rows.domain.arities
    family = (3, (0, 1, 2))
    tree, levels = tree_and_levels(rows, family)
    with pytest.MonkeyPatch.context() as patch:
        if as_tree:
            patch.setattr(tables, "SMALL_CELLS", 0)
            patch.setattr(tables, "DENSE_FACTOR", 0)
        # How many parents the dense part of a tree's look-up has.
        patch.setattr(lookups, "SMALL_CELLS", dense_cells)
        patch.setattr(lookups, "DENSE_FACTOR", 0)
        table = learner.family(tree)
        out = np.zeros((grid.shape[1], 2))
        table.add_terms(grid, arities, np.array([0, 1, 2, 3]), out)
    assert isinstance(table, TreeTable) == as_tree
    rule = rule_for(int(arities[3]))
    for r, row in enumerate(grid.T.tolist()):
        for y in (0, 1):
            expected = estimate(levels, (y, *row[:3]), row[3], int(arities[3]), rule, backoff)
            assert out[r, y] == pytest.approx(np.log(expected), abs=1e-12)
    # Every context's probabilities sum to one.
    sums = np.exp(out).reshape(*arities, 2).sum(axis=3)
    assert sums == pytest.approx(np.ones_like(sums))


@pytest.mark.parametrize("as_tree", [False, True])
def test_friedman_leans_on_the_marginal(as_tree, monkeypatch):
    if as_tree:
        monkeypatch.setattr(tables, "SMALL_CELLS", 0)
        monkeypatch.setattr(tables, "DENSE_FACTOR", 0)
    for seed in range(4):
        rows, grid = make(seed, n_rows=12)
        tree, levels = tree_and_levels(rows, (3, (0, 1)))
        out = np.zeros((grid.shape[1], 2))
        Friedman(n0=5.0).family(tree).add_terms(grid, rows.domain.arities, np.array([0, 1, 3]), out)
        marginal = levels[0][()]
        for r, (a, b, _, x) in enumerate(grid.T.tolist()):
            for y in (0, 1):
                cells = levels[3].get((y, a, b), {})
                frequency = marginal.get(x, 0) / sum(marginal.values())
                expected = (cells.get(x, 0) + 5 * frequency) / (sum(cells.values()) + 5)
                assert np.exp(out[r, y]) == pytest.approx(expected, abs=1e-8)


def test_mixed_dense_and_tree_families_add_up(monkeypatch):
    rows, grid = make(1, n_rows=40)
    structure = Structure.from_parents(rows.domain.names, [(), (0,), (1, 0), (2, 1, 0)])
    trees = build_trees(
        rows, list(zip(structure.selected, structure.parent_indices, strict=True)), FitContext()
    )
    learner = MEstimate(m=1.0)
    dense = [learner.family(tree) for tree in trees]
    monkeypatch.setattr(tables, "SMALL_CELLS", 0)
    monkeypatch.setattr(tables, "DENSE_FACTOR", 0)
    sparse = [learner.family(tree) for tree in trees]
    prior = np.log([0.3, 0.7])
    arities = rows.domain.arities
    first = Tables(prior, tuple(dense)).log_joint(structure, grid, arities)
    mixed = (dense[0], sparse[1], dense[2], sparse[3])
    second = Tables(prior, mixed)
    assert second.log_joint(structure, grid, arities) == pytest.approx(first, abs=1e-12)
    terms = second.terms(structure, grid, arities)
    assert terms.sum(axis=1) + prior == pytest.approx(first, abs=1e-12)


@pytest.mark.parametrize("dense_cells", [0, 200, 3000])
def test_a_tree_of_many_classes_is_its_dense_table_bit_for_bit(dense_cells, monkeypatch):
    rng = np.random.default_rng(3)
    arities = np.array([3, 4, 5, 6])
    n_classes = 11
    domain = Domain(("a", "b", "c", "d"), arities, n_classes)
    codes = np.stack([rng.integers(0, a, 300) for a in arities]).astype(np.uint8)
    labels = rng.integers(0, n_classes - 1, 300).astype(np.uint16)  # the last class is unseen
    rows = Rows.in_memory(domain, codes, labels)
    monkeypatch.setattr(tables, "SMALL_CELLS", 0)
    monkeypatch.setattr(tables, "DENSE_FACTOR", 0)
    monkeypatch.setattr(lookups, "SMALL_CELLS", dense_cells)
    monkeypatch.setattr(lookups, "DENSE_FACTOR", 0)
    monkeypatch.setattr(families, "DENSE_CELLS", 0)
    grid = np.indices(arities + 1).reshape(4, -1).astype(np.uint8)  # with unknown members
    members = np.array([0, 1, 2, 3])
    for max_cells in (None, 200):  # counted whole, and without the last parents
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = build_trees(rows, [(3, (0, 1, 2))], FitContext(), max_cells)[0]
        assert tree.seen_depth == (4 if max_cells is None else 2)
        for learner in (HDP(), Laplace(0.5), MEstimate(1.0)):
            table = learner.family(tree)
            assert isinstance(table, TreeTable)
            found, expected = (np.zeros((grid.shape[1], n_classes)) for _ in range(2))
            table.add_terms(grid, arities, members, found)
            table.to_dense().add_terms(grid, arities, members, expected)
            assert found.tobytes() == expected.tobytes()


def test_seen_contexts_of_a_tree_table(monkeypatch):
    monkeypatch.setattr(tables, "SMALL_CELLS", 0)
    monkeypatch.setattr(tables, "DENSE_FACTOR", 0)
    rows, _ = make(2)
    tree, levels = tree_and_levels(rows, (3, (0, 1)))
    table = MEstimate(m=1.0).family(tree)
    assert [tuple(c) for c in table.seen_contexts().T.tolist()] == sorted(levels[-1])


@pytest.mark.parametrize(
    "learner", [Laplace(alpha=0), MaximumLikelihood(epsilon=-1), MEstimate(m=-1), MEstimate("x")]
)
def test_wrong_settings_are_named(learner):
    rows, _ = make(0)
    tree = build_trees(rows, [(0, ())], FitContext())[0]
    with pytest.raises(ConfigurationError, match=type(learner).__name__):
        learner.from_counts(np.ones(2), [tree], FitContext())
