"""Counts against plain loops, and the laws that make them safe to gather in pieces."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tanager.codes import Domain, Rows
from tanager.codes.rows import exact_weights
from tanager.counts import Counts, build_trees, families, pairs
from tanager.engines import FitContext, LocalEngine
from tests.oracles import counting


def make_rows(seed, n_rows=60, n_features=4, n_classes=3, top=5, weighted=False, **kwargs):
    rng = np.random.default_rng(seed)
    arities = rng.integers(1, top + 1, n_features)
    codes = np.stack([rng.integers(0, a + 1, n_rows) for a in arities])  # a itself: unknown
    labels = rng.integers(0, n_classes, n_rows).astype(np.uint16)
    weights = None
    if weighted:
        raw = rng.exponential(size=n_rows)
        weights = exact_weights(raw, raw.sum())
    names = tuple(f"x{i}" for i in range(n_features))
    domain = Domain(names, arities.astype(np.int64), n_classes)
    dtype = np.uint8 if top < 256 else np.uint16
    return Rows.in_memory(domain, codes.astype(dtype), labels, weights, **kwargs)


def oracle_counts(rows, members):
    codes, labels, weights = rows.gather()[:3]
    weights = np.ones(len(labels)) if weights is None else weights
    return counting.joint_counts(codes, labels, weights, rows.domain.arities, members)


def family_of(*families):
    return SimpleNamespace(families=[(feature, tuple(parents)) for feature, parents in families])


@pytest.mark.parametrize("weighted", [False, True])
@given(seed=st.integers(0, 10_000), n_rows=st.integers(1, 80))
@settings(max_examples=15)
def test_singles_and_pairs_equal_plain_loops(weighted, seed, n_rows):
    rows = make_rows(seed, n_rows, weighted=weighted)
    counts = Counts(rows, FitContext())
    matrix = counts.cmi()
    for i in range(4):
        for (y, x), n in oracle_counts(rows, [i]).items():
            assert counts.values[i][x, y] == n
        for j in range(4):
            if i == j:
                continue
            expected = oracle_counts(rows, [i, j])
            joint = counts.pair(i, j)
            assert joint.sum() == pytest.approx(sum(expected.values()))
            for (y, a, b), n in expected.items():
                assert joint[a, b, y] == n
            if expected:
                information = counting.conditional_information(expected)
                assert matrix[i, j] == pytest.approx(information, abs=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dense_cells", [0, 1 << 18])
@given(seed=st.integers(0, 10_000), n_rows=st.integers(0, 80))
@settings(max_examples=15)
def test_trees_equal_plain_loops(weighted, dense_cells, seed, n_rows):
    rows = make_rows(seed, n_rows, weighted=weighted)
    family = [(0, ()), (1, (0,)), (3, (2, 0)), (2, (3, 1, 0))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(families, "DENSE_CELLS", dense_cells)
        trees = build_trees(rows, family, FitContext())
    for (feature, parents), tree in zip(family, trees, strict=True):
        expected = counting.tree_levels(oracle_counts(rows, [*parents, feature]), len(parents) + 1)
        expected[0].setdefault((), {})
        assert counting.as_dictionaries(tree) == expected


@given(seed=st.integers(0, 10_000), block=st.integers(1, 70), jobs=st.integers(1, 4))
@settings(max_examples=15)
def test_chunking_and_threads_do_not_matter(seed, block, jobs):
    family = family_of((0, ()), (1, (0,)), (2, (3, 1, 0)))
    whole = Counts(make_rows(seed, 70, weighted=True), FitContext())
    parts = make_rows(seed, 70, weighted=True, block_rows=block)
    pieces = Counts(parts, FitContext(engine=LocalEngine(jobs)))
    assert np.array_equal(whole.cmi(), pieces.cmi())
    assert np.array_equal(whole.mi(), pieces.mi())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(families, "DENSE_CELLS", 10)
        for a, b in zip(whole.trees(family), pieces.trees(family), strict=True):
            for one, other in zip(a.levels, b.levels, strict=True):
                assert all(np.array_equal(x, y) for x, y in zip(one, other, strict=True))


def test_a_weight_of_two_equals_a_repeated_row():
    rows = make_rows(3, 40)
    codes, labels, _ = rows.gather()[:3]
    twice = np.arange(40) % 3 == 0
    weighted = Rows.in_memory(rows.domain, codes, labels, 1.0 + twice)
    order = np.concatenate([np.arange(40), np.flatnonzero(twice)])
    repeated = Rows.in_memory(rows.domain, codes[:, order], labels[order])
    a, b = Counts(weighted, FitContext()), Counts(repeated, FitContext())
    assert np.array_equal(a.cmi(), b.cmi())
    assert np.array_equal(a.classes, b.classes)


def test_bits_and_increments_count_the_same():
    rows = make_rows(5, 40_000, n_features=5, n_classes=4, top=7)
    left, right = np.triu_indices(5, 1)
    results = []
    for by_bits in (True, False):
        gather = pairs.PairPass(rows.domain, left, right)
        gather.by_bits[:] = by_bits
        state = gather.zero()
        for chunk in rows.chunks():
            state = gather.update(state, chunk)
        results.append(state)
    assert np.array_equal(*results)
    assert results[0].sum() > 0


def test_many_valued_pairs_are_counted_sparsely_with_the_same_information(monkeypatch):
    rows = make_rows(7, 3000, n_features=3, top=200)
    dense = Counts(rows, FitContext()).cmi()
    monkeypatch.setattr(pairs, "PAIR_CELLS", 10)
    assert Counts(rows, FitContext()).cmi() == pytest.approx(dense, abs=2e-10)


def test_pairs_in_several_passes_give_the_same_information(monkeypatch):
    rows = make_rows(8, 500, n_features=5)
    once = Counts(rows, FitContext()).cmi()
    monkeypatch.setattr(pairs, "PASS_CELLS", 40)
    assert len(pairs.pair_tiles(rows.domain)[0]) > 1
    assert np.array_equal(Counts(rows, FitContext()).cmi(), once)


def test_a_key_beyond_62_bits_is_split():
    rows = make_rows(9, 300, n_features=6, n_classes=5, top=60_000)
    radix = pairs.Radix(
        (5, *(int(a) for a in rows.domain.arities[[0, 1, 2, 3, 4, 5]])), (0, 1, 2, 3, 4, 5)
    )
    assert len(radix.parts()) == 2
    tree = build_trees(rows, [(5, (0, 1, 2, 3, 4))], FitContext())[0]
    expected = counting.tree_levels(oracle_counts(rows, [0, 1, 2, 3, 4, 5]), 6)
    assert counting.as_dictionaries(tree) == expected


@pytest.mark.parametrize("block", [17, 100, 3000])
def test_a_family_past_its_bound_loses_its_last_parents_whatever_the_chunks(block, monkeypatch):
    monkeypatch.setattr(families, "DENSE_CELLS", 0)
    rows = make_rows(11, 3000, n_features=4, top=40, block_rows=block)
    family = [(0, (1, 2, 3))]
    full = build_trees(rows, family, FitContext())[0]
    cells = [len(level.cell_value) for level in full.levels]
    bound = cells[3] + 5
    assert cells[3] < bound < cells[4]
    with pytest.warns(UserWarning, match="only the first 2 parents"):
        tree = build_trees(rows, family, FitContext(engine=LocalEngine(2)), max_cells=bound)[0]
    assert tree.context_arities == full.context_arities
    expected = [*counting.as_dictionaries(full)[:4], {}]
    assert counting.as_dictionaries(tree) == expected


def test_a_bound_that_only_the_last_merge_passes_drops_a_parent_too(monkeypatch):
    monkeypatch.setattr(families, "DENSE_CELLS", 0)
    rows = make_rows(11, 3000, n_features=4, top=40, block_rows=3000)
    arities = rows.domain.arities
    radix = pairs.Radix((rows.domain.n_classes, *arities[[1, 2, 3, 0]].tolist()), (1, 2, 3, 0))
    pass_ = families.FamilyPass([radix], 1 << 40)
    state = pass_.update(pass_.zero(), rows.gather())
    state[0].max_cells = state[0].total()[1].shape[0] - 1
    (counts,) = pass_.finish(state)
    assert counts.n_parents == 2
    assert counts.codes().shape[0] == 4


def test_subset_rows_split_the_counts():
    rows = make_rows(13, 100, block_rows=30)
    chosen = np.isin(np.arange(100), [0, 5, 29, 30, 77, 99])
    inside = Counts(rows.subset(chosen.__getitem__), FitContext())
    outside = Counts(rows.subset((~chosen).__getitem__), FitContext())
    everything = Counts(rows, FitContext())
    assert inside.classes.sum() == 6
    assert np.array_equal(inside.classes + outside.classes, everything.classes)
    for a, b, c in zip(inside.values, outside.values, everything.values, strict=True):
        assert np.array_equal(a + b, c)


def test_exact_weights_sum_alike_in_any_order():
    rng = np.random.default_rng(0)
    raw = rng.lognormal(sigma=3, size=10_000)
    weights = exact_weights(raw, raw.sum())
    assert weights == pytest.approx(raw, rel=1e-6, abs=1e-9)
    sums = {float(np.cumsum(rng.permutation(weights))[-1]) for _ in range(20)}
    assert len(sums) == 1


def test_rows_of_no_weight_leave_no_trace(monkeypatch):
    rng = np.random.default_rng(3)
    domain = Domain(("a", "b", "c"), np.array([4, 5, 6]), 3)
    codes = np.stack([rng.integers(0, v, 80) for v in domain.arities]).astype(np.uint8)
    labels = rng.integers(0, 3, 80).astype(np.uint16)
    weights = np.where(labels == 1, 0.0, 2.0)
    kept = weights > 0
    family = [(2, (0, 1))]
    for cells in (0, 1 << 18):
        monkeypatch.setattr("tanager.counts.families.DENSE_CELLS", cells)
        every = Rows.in_memory(domain, codes, labels, weights, block_rows=7)
        some = every.subset(kept.__getitem__)
        tree, expected = (build_trees(r, family, FitContext())[0] for r in (every, some))
        for level, wanted in zip(tree.levels, expected.levels, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(level, wanted, strict=True))
    monkeypatch.setattr("tanager.counts.pairs.PAIR_CELLS", 0)
    every, some = (Counts(rows, FitContext()).cmi() for rows in (every, some))
    assert np.array_equal(every, some)


def test_features_of_one_value_are_passed_over_and_have_no_information():
    rng = np.random.default_rng(0)
    arities = np.array([1, 1, 3, 1, 2, 1, 1, 4])
    codes = rng.integers(0, arities[:, None], (8, 90)).astype(np.uint8)
    labels = rng.integers(0, 2, 90).astype(np.uint16)
    rows = Rows.in_memory(Domain(tuple("abcdefgh"), arities, 2), codes, labels)
    counts = Counts(rows, FitContext())
    varying = [2, 4, 7]
    few = Domain(("c", "e", "h"), arities[varying], 2)
    alone = Counts(Rows.in_memory(few, codes[varying], labels), FitContext()).cmi()
    found = counts.cmi()
    assert np.array_equal(found[np.ix_(varying, varying)], alone)
    assert np.count_nonzero(found) == np.count_nonzero(alone) == 6


@pytest.mark.parametrize("arity", [3, 5_000])
def test_cells_of_wide_pairs_add_up_as_a_dictionary_would(arity):
    rng = np.random.default_rng(arity)
    n_classes, n_folds, n = 2, 3, 60
    found = rng.integers(0, [[arity], [arity], [n_classes * n_folds]], (3, n))
    left, right, label = np.unique(found, axis=1)
    cells = pairs.PairCells(
        left, right, label, rng.integers(1, 9, len(left)) / 4, (arity, arity, n_classes * n_folds)
    )
    for columns in ((left,), (left, right), (right, label)):
        keys = list(zip(*(column.tolist() for column in columns), strict=True))
        sums = dict.fromkeys(keys, 0.0)
        for key, count in zip(keys, cells.counts, strict=True):
            sums[key] += count
        assert cells.margin(*columns).tolist() == [sums[key] for key in keys]
    radix = pairs.Radix((n_classes * n_folds, arity, arity), (0, 1))
    by_label = np.argsort(radix.keys(np.array([label, left, right]))[0])
    keys = radix.keys(np.array([label, left, right])[:, by_label])
    family = families.FamilyCounts(radix.arities, radix, keys, cells.counts[by_label])
    for left_out in (None, 1):
        expected = {}
        for i, j, y, count in zip(left, right, label, cells.counts, strict=True):
            fold, y = divmod(int(y), n_classes)
            if fold != left_out:
                expected[y, int(i), int(j)] = expected.get((y, int(i), int(j)), 0.0) + count
        kept = family.merged(n_folds, left_out)
        codes, counts = kept.codes(), kept.cells
        codes = map(tuple, codes.T.tolist())
        assert list(zip(codes, counts, strict=True)) == sorted(expected.items())
        assert kept.arities == (n_classes, arity, arity)
