"""Marginalisation against enumeration of every completion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tanager.codes import Domain, Rows
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.errors import ApproximationWarning
from tanager.network import views
from tanager.network.views import Views
from tanager.parameters import Laplace, MEstimate, TreeTable, tables
from tanager.structure import FitPlan, Structure
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
    counts = Counts(Rows.in_memory(domain, codes, labels), context)
    gaps = np.stack([rng.integers(0, a + 1, 25) for a in arities]).astype(np.uint8)
    return structure, learner.learn(structure, counts, FitPlan(context)), domain.arities, gaps


@pytest.mark.parametrize("as_tree", [False, True])
@pytest.mark.parametrize("parents", STRUCTURES.values(), ids=STRUCTURES)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=5)
def test_unknown_features_are_summed_out_exactly(parents, as_tree, seed):
    learner = MEstimate(m=0.7) if seed % 2 else Laplace()
    with pytest.MonkeyPatch.context() as patch:
        if as_tree:
            patch.setattr(tables, "SMALL_CELLS", 0)
            patch.setattr(tables, "DENSE_FACTOR", 0)
        structure, fitted, arities, codes = make(parents, seed, learner)
    assert isinstance(fitted.families[0], TreeTable) == as_tree
    got = fitted.log_joint(structure, codes, arities)
    views.add_unknown_sums(fitted, structure, codes, arities, got)
    assert got == pytest.approx(joint.log_joint(fitted, structure, arities, codes), abs=1e-10)


def test_rows_in_small_batches_give_the_same(monkeypatch):
    structure, fitted, arities, codes = make(STRUCTURES["deep"], 1, Laplace())
    whole = fitted.log_joint(structure, codes, arities)
    parts = whole.copy()
    views.add_unknown_sums(fitted, structure, codes, arities, whole)
    monkeypatch.setattr(views, "BATCH_CELLS", 300)
    views.add_unknown_sums(fitted, structure, codes, arities, parts)
    assert np.array_equal(whole, parts)


def test_past_the_bound_rows_are_approximated_and_a_warning_names_the_features(monkeypatch):
    # Four unknown features in a ring: eliminating one joins its neighbours.
    ring = [(), (), (), (), (0, 1), (1, 2), (2, 3), (3, 0)]
    structure, fitted, arities, codes = make(ring, 197, Laplace(), n_rows=400, n_features=8)
    assert (arities[:4] >= 2).all()
    codes = np.minimum(codes, arities[:, None] - 1).astype(np.uint8)
    codes[:4, ::2] = arities[:4, None]
    exact = joint.log_joint(fitted, structure, arities, codes)
    got = fitted.log_joint(structure, codes, arities)
    pairs = [int(arities[i] * arities[j]) for i, j in ring[4:]]
    monkeypatch.setattr(views, "ROW_CELLS", 3 * max(pairs))
    with pytest.warns(ApproximationWarning, match=r"13 rows are approximate.*'a'.*limit"):
        views.add_unknown_sums(fitted, structure, codes, arities, got)
    assert got[1::2] == pytest.approx(exact[1::2], abs=1e-10)
    error = np.abs(got - exact)[::2]
    assert 1e-6 < error.max() < 0.2  # neither exact nor far off


def test_the_approximation_is_exact_for_independent_unknown_parents(monkeypatch):
    parents = [(), (), (0, 1), (), ()]
    structure, fitted, arities, codes = make(parents, 4, Laplace())
    codes[2] = np.minimum(codes[2], arities[2] - 1)  # the child is known
    exact = joint.log_joint(fitted, structure, arities, codes)
    got = fitted.log_joint(structure, codes, arities)
    found = views.Unknown.log_sums
    refuse = lambda unknown, codes: np.where(found(unknown, codes) == 0, 0.0, np.nan)  # noqa: E731
    monkeypatch.setattr(views.Unknown, "log_sums", refuse)
    with pytest.warns(ApproximationWarning):
        views.add_unknown_sums(fitted, structure, codes, arities, got)
    assert got == pytest.approx(exact, abs=1e-10)


@pytest.mark.parametrize("pinned", [(1,), (0, 1)])
def test_of_a_family_past_the_bound_the_last_parents_stand_at_their_likeliest_value(
    monkeypatch, pinned
):
    parents = [(), (), (0, 1), (), ()]
    structure, fitted, arities, codes = make(parents, 4, Laplace())
    codes = np.minimum(codes, arities[:, None] - 1).astype(np.uint8)
    codes[:2] = arities[:2, None]
    for bound in ("ROW_CELLS", "FORWARD_CELLS"):
        monkeypatch.setattr(views, bound, int(3 * arities[: pinned[0]].prod()))
    got = fitted.log_joint(structure, codes, arities)
    with pytest.warns(ApproximationWarning, match="'a', 'b'"):
        views.add_unknown_sums(fitted, structure, codes, arities, got)
    likeliest = {}
    for feature in pinned:
        log_prob = fitted.families[feature].to_dense().log_prob
        codes[feature] = np.argmax(np.exp(log_prob).sum(axis=1))
        likeliest[feature] = log_prob[codes[feature, 0]]
    expected = joint.log_joint(fitted, structure, arities, codes) - sum(likeliest.values())
    assert got == pytest.approx(expected, abs=1e-10)


# Of each feature the groups of its values; how its own table and its children's read them.
GROUPS = [[0, 0, 1, 1], [0, 1, 1], [0, 0, 1], [0, 1, 2], [0, 0]]
READ = {
    "grouped": lambda f, at: GROUPS[f],
    "some by value": lambda f, at: GROUPS[f] if (f + at) % 3 else list(range(len(GROUPS[f]))),
    "by other groups": lambda f, at: GROUPS[f] if f != 0 or at != 2 else [0, 1, 1, 1],
}


def make_grouped(parents, read, seed):
    rng = np.random.default_rng(seed)
    arities = np.array([len(groups) for groups in GROUPS])
    families = []
    for at, held in enumerate(parents):
        groups = [np.array(read(f, at), np.uint16) for f in (*held, at)]
        log_group = rng.normal(size=(*(int(g.max()) + 1 for g in groups), 3))
        families.append(
            tables.GroupedTable.of_groups(log_group, rng.normal(size=(arities[at], 3)), groups)
        )
    structure = Structure.from_parents("abcde", parents)
    gaps = np.stack([rng.integers(0, a + 1, 8) for a in arities]).astype(np.uint8)
    return structure, tables.Tables(rng.normal(size=3), tuple(families), False), arities, gaps


@pytest.mark.parametrize("read", READ.values(), ids=READ)
@pytest.mark.parametrize("parents", STRUCTURES.values(), ids=STRUCTURES)
def test_groups_of_values_are_summed_out_exactly(parents, read):
    structure, fitted, arities, codes = make_grouped(parents, read, 3)
    # Tables of no probabilities: an unknown feature counts only with something known below.
    last = [f for f in range(5) if not any(f in held for held in parents)]
    codes[last] = np.minimum(codes[last], arities[last, None] - 1)
    got = fitted.log_joint(structure, codes, arities)
    grouped = Views.of(fitted, structure, arities)
    assert grouped.joined == any(parents)  # only tables with parents have groups
    grouped.add_unknown_sums(codes, got)
    dense = tables.Tables(fitted.log_prior, tuple(f.to_dense() for f in fitted.families))
    assert got == pytest.approx(joint.log_joint(dense, structure, arities, codes), abs=1e-10)
    by_value = fitted.log_joint(structure, codes, arities)
    views.add_unknown_sums(fitted, structure, codes, arities, by_value)
    assert got == pytest.approx(by_value, abs=1e-10)


def test_where_tables_tell_all_values_apart_each_is_a_view():
    structure, fitted, arities, _ = make(STRUCTURES["two-parents"], 0, Laplace())
    each = Views.of(fitted, structure, arities)
    assert not each.joined
    assert np.array_equal(each.sizes, arities)
