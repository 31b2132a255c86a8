"""Groups of values: coarse views of fine codes."""

from __future__ import annotations

import numpy as np
import pytest

from tanager.codes import Domain, Rows
from tanager.codes.groups import (
    FINEST,
    coarsen_groups,
    group_codes,
    group_rows,
    grouped_domain,
    learn_cuts,
    learn_groups,
    refine_groups,
)


def fine_counts(seed: int = 0, n_values: int = 32, n_classes: int = 3):
    generator = np.random.default_rng(seed)
    return generator.integers(0, 20, (n_values, n_classes)).astype(float)


@pytest.mark.parametrize("seed", range(5))
def test_groups_are_neighbours_and_five_to_eight(seed):
    counts = fine_counts(seed)
    counts[: 4 + 3 * seed, 0] += 200
    counts[20:, 1] += 100
    groups = learn_groups(counts, 32)
    steps = np.diff(groups.astype(int))
    assert set(steps.tolist()) <= {0, 1}
    assert 5 <= groups.max() + 1 <= 8


def test_a_clear_change_of_the_classes_is_an_edge():
    counts = np.zeros((32, 2))
    counts[:3, 0] = counts[3:, 1] = 30
    groups = learn_groups(counts, 32)
    assert groups[2] != groups[3]


def test_many_clear_changes_are_merged_to_eight():
    counts = np.zeros((32, 2))
    counts[np.arange(32), np.arange(32) // 2 % 2] = 500
    assert learn_groups(counts, 32).max() + 1 == 8


def test_missing_and_categories_keep_their_own():
    counts = fine_counts(n_values=33)
    groups = learn_groups(counts, 32)
    assert groups[-1] == groups[:-1].max() + 1
    assert learn_groups(counts, 0).tolist() == list(range(33))


def refined(limit, families, seed=0):
    """Refine the groups of two numbers (one with gaps) and a category."""
    generator = np.random.default_rng(seed)
    domain = Domain(("b", "a", "c"), np.array([60, 41, 3]), 2, (60, 40, 0))
    weights = [generator.integers(1, 50, arity).astype(float) for arity in domain.arities]
    counts = [w[:, None] * generator.random((len(w), 2)) for w in weights]
    given = [learn_groups(c, n) for c, n in zip(counts, domain.n_ordered, strict=True)]
    return domain, given, refine_groups(given, weights, domain, families, limit)


@pytest.mark.parametrize("limit", [10, 150, 400, 3_000, 1 << 16])
@pytest.mark.parametrize("families", [[(0, 1)], [(0,), (1, 0), (2, 1, 0)]])
def test_groups_are_divided_as_far_as_every_table_has_room(limit, families):
    _, given, found = refined(limit, families)
    sizes = [int(group.max()) + 1 for group in found]
    for before, after in zip(given, found, strict=True):
        assert set(np.diff(after.astype(int)).tolist()) <= {0, 1}
        # Every new group lies within an old one.
        assert all(len(set(before[after == one].tolist())) == 1 for one in range(after.max() + 1))
    assert found[2].tolist() == given[2].tolist()
    assert found[1][-1] == sizes[1] - 1
    assert (found[1] == sizes[1] - 1).sum() == 1

    def numbers(sizes):
        return max(2 * int(np.prod([sizes[i] for i in family])) for family in families)

    start = [int(group.max()) + 1 for group in given]
    assert numbers(sizes) <= max(limit, numbers(start))
    for one in (0, 1):  # nothing more would fit
        more = [size + (at == one) for at, size in enumerate(sizes)]
        assert sizes[one] == FINEST or numbers(more) > limit


@pytest.mark.parametrize("n_groups", [1, 5, 8, 9, 16, 17, 24])
@pytest.mark.parametrize("n_beyond", [0, 2])
def test_coarse_groups_are_whole_neighbouring_groups(n_groups, n_beyond):
    given = np.append(np.repeat(np.arange(n_groups), 3), n_groups + np.arange(n_beyond))
    found = coarsen_groups(given.astype(np.uint16), 3 * n_groups)
    assert found.dtype == np.uint16
    assert set(np.diff(found.astype(int)).tolist()) <= {0, 1}
    ordered = found[: 3 * n_groups].reshape(n_groups, 3)
    assert np.all(ordered == ordered[:, :1])
    n_coarse = int(ordered.max()) + 1
    assert n_coarse == n_groups if n_groups <= 8 else 5 <= n_coarse <= 8
    assert found[3 * n_groups :].tolist() == [n_coarse + at for at in range(n_beyond)]


def test_features_in_no_table_keep_their_groups():
    _, given, found = refined(1 << 16, [(1, 2)])
    assert found[0].tolist() == given[0].tolist()
    assert found[1].max() > given[1].max()


def test_rows_are_grouped_and_unknown_stays_unknown():
    domain = Domain(("x", "c"), np.array([6, 2]), 2, (6, 0))
    codes = np.array([[0, 3, 5, 6], [0, 1, 2, 1]], np.uint8)
    groups = [np.array([0, 0, 1, 1, 1, 2], np.uint16), np.arange(2, dtype=np.uint16)]
    expected = [[0, 1, 2, 3], [0, 1, 2, 1]]
    assert group_codes(codes, groups).tolist() == expected
    rows = group_rows(Rows.in_memory(domain, codes, np.zeros(4, np.uint16)), groups)
    assert rows.gather().codes.tolist() == expected
    assert rows.domain == grouped_domain(domain, groups)
    assert rows.domain.arities.tolist() == [3, 2]
    assert rows.domain.n_ordered == (3, 0)


def test_fine_bins_do_not_look_at_the_classes():
    values = np.random.default_rng(0).normal(size=500)
    labels = (values > 0).astype(np.uint16)
    fine = learn_cuts(values, labels, 2, None, "fine")
    assert len(fine) == 31
    np.testing.assert_array_equal(fine, learn_cuts(values, 1 - labels, 2, None, "fine"))
    shuffled = np.random.default_rng(1).permutation(labels)
    np.testing.assert_array_equal(fine, learn_cuts(values, shuffled, 2, None, "fine"))
