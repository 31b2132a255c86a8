"""The k-tree by what pairs gain beyond their features alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tanager import BayesNetClassifier, native
from tanager.codes import Domain, Rows
from tanager.codes.hashing import Fold
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.errors import ConfigurationError
from tanager.parameters.layered.part import n_read
from tanager.structure import FitPlan, Structure
from tanager.structure.ktree import KTree, Room, heaviest_tree


@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_tree_is_moral_and_every_feature_has_k_parents(k):
    generator = np.random.default_rng(k)
    weights = generator.random((9, 9))
    parents = heaviest_tree(weights + weights.T, k)
    structure = Structure.from_parents([str(i) for i in range(9)], parents)
    assert structure.is_moral()
    assert sorted(len(held) for held in parents) == [min(i, k) for i in range(9)]


def test_third_parents_are_those_that_have_room():
    generator = np.random.default_rng(4)
    weights = generator.random((9, 9))
    weights += weights.T
    sizes = np.array([24, 24, 24, 24, 24, 2, 2, 2, 3])
    room = Room(np.log(sizes), np.log(24 * 2 * 2 * 2 + 0.5), -np.inf)
    found = heaviest_tree(weights, 3, room=room)
    assert found == heaviest_tree(weights, 4, room=room)  # no room for a fourth
    structure = Structure.from_parents([str(i) for i in range(9)], found)
    assert structure.is_moral()
    held = [np.prod([sizes[i] for i in (at, *parents)]) for at, parents in enumerate(found)]
    deep = [size for size, parents in zip(held, found, strict=True) if len(parents) == 3]
    assert deep
    assert max(deep) <= 24 * 2 * 2 * 2
    assert [len(parents) for parents in found] != [len(p) for p in heaviest_tree(weights, 3)]
    unlimited = heaviest_tree(weights, 3, room=Room(np.log(sizes), np.inf, np.inf))
    assert unlimited == heaviest_tree(weights, 3)
    none = heaviest_tree(weights, 3, room=Room(np.log(sizes), -np.inf, -np.inf))
    assert none == heaviest_tree(weights, 2)


def test_more_than_three_parents_have_two_rows_per_cell(monkeypatch):
    generator = np.random.default_rng(2)
    codes = generator.integers(0, 2, (12, 1_100)).astype(np.uint8)
    domain = Domain(tuple("abcdefghijkl"), np.full(12, 2), 2, (0,) * 12)
    rows = Rows.in_memory(domain, codes, codes[:8].sum(axis=0).astype(np.uint16) % 2)
    counts = Counts(rows, FitContext())
    plan = FitPlan(structure_learner=KTree()).for_rows(counts)

    def found(plan):
        structure = KTree().learn(plan.grouped_counts, plan)
        return max(n_read(structure, plan).values())

    assert found(plan) == 8
    few = plan.for_rows(Counts(rows.subset(Fold(0, 2, 0)), FitContext()))
    assert Room.of(few).more == Room.of(plan).more  # a fold looks as deep as the whole table
    assert found(replace(few, n_rows=550)) == 2
    assert KTree().learn(counts, FitPlan()).max_parents == 3  # value by value, without such limits
    monkeypatch.setattr("tanager.structure.ktree.CELLS_PER_ROW", 63.5 / 1_100)
    assert found(plan) == 4  # a fifth has 64 cells


def test_features_without_any_weight_are_joined_all_the_same():
    assert heaviest_tree(np.zeros((3, 3)), 1) == [(), (0,), (0,)]


def test_one_parent_gives_the_maximum_spanning_tree():
    from scipy.sparse.csgraph import minimum_spanning_tree

    generator = np.random.default_rng(0)
    weights = generator.random((8, 8))
    weights = np.triu(weights, 1) + np.triu(weights, 1).T
    parents = heaviest_tree(weights, 1)
    total = sum(weights[i, held[0]] for i, held in enumerate(parents) if held)
    best = -minimum_spanning_tree(-weights).sum()
    assert total == pytest.approx(best)


@pytest.mark.parametrize("n_classes", [1, 2, 5])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_gains_are_those_of_the_definition(dtype, n_classes):
    generator = np.random.default_rng(0)
    arities = np.array([2, 3, 100])  # of the last, few cells have a row
    codes = np.stack([generator.integers(0, a, 50) for a in arities]).astype(dtype)
    codes[1, :4] = 3  # unknown
    codes[2, 2:9] = 100
    residuals, spreads = generator.normal(size=(50, n_classes)), generator.random((50, n_classes))
    weights = generator.random(50)
    singles, gains = np.zeros(3), np.zeros((3, 3))
    native.score_gains(codes, arities, residuals, spreads, weights, 5.0, singles, gains)

    def slow(features):
        total = 0.0
        known = np.all([codes[f] < arities[f] for f in features], axis=0)
        for cell in np.ndindex(*(arities[f] for f in features)):
            pairs = zip(features, cell, strict=True)
            inside = known & np.all([codes[f] == v for f, v in pairs], axis=0)
            g, h = residuals[inside].sum(axis=0), spreads[inside].sum(axis=0)
            noise = (spreads[inside] * weights[inside, None]).sum(axis=0)
            total += 0.5 * ((g**2 - noise) / (h + 5.0)).sum()
        return total

    for i in range(3):
        assert singles[i] == pytest.approx(slow([i]))
        for j in range(i):
            assert gains[i, j] == gains[j, i] == pytest.approx(slow([i, j]))


def test_gains_of_many_classes_and_values_are_sums_over_what_occurs():
    """More classes and values than are worked on at a time, in few megabytes."""
    generator = np.random.default_rng(1)
    arities, n_classes = np.array([65_535, 60_000]), 23
    codes = np.stack([generator.integers(0, a, 300) for a in arities]).astype(np.uint16)
    codes[:, :100] = codes[:, 100:200]  # some cells with two rows
    residuals = generator.normal(size=(300, n_classes))
    spreads, weights = generator.random((300, n_classes)), generator.random(300)
    singles, gains = np.zeros(2), np.zeros((2, 2))
    native.score_gains(codes, arities, residuals, spreads, weights, 5.0, singles, gains)

    def slow(keys):
        total = 0.0
        for key in np.unique(keys, axis=1).T:
            inside = (keys == key[:, None]).all(axis=0)
            g, h = residuals[inside].sum(axis=0), spreads[inside].sum(axis=0)
            noise = (spreads[inside] * weights[inside, None]).sum(axis=0)
            total += 0.5 * ((g**2 - noise) / (h + 5.0)).sum()
        return total

    assert singles == pytest.approx([slow(codes[:1]), slow(codes[1:])])
    assert gains[0, 1] == gains[1, 0] == pytest.approx(slow(codes))


def make_counts(codes, labels, arities):
    names = tuple(f"x{i}" for i in range(len(arities)))
    domain = Domain(names, np.array(arities), 2)
    rows = Rows.in_memory(domain, codes.astype(np.uint8), labels.astype(np.uint16))
    return Counts(rows, FitContext())


def test_the_pair_that_speaks_only_together_is_joined():
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 2, (6, 400))
    labels = codes[1] ^ codes[4]
    structure = KTree(max_parents=1).learn(make_counts(codes, labels, [2] * 6), FitPlan())
    assert structure.parents["x4"] == ("x1",) or structure.parents["x1"] == ("x4",)


def test_copies_that_add_nothing_together_are_not_preferred():
    # Copies have the greatest conditional information, but no table of the two gains anything.
    generator = np.random.default_rng(1)
    codes = generator.integers(0, 2, (5, 600))
    codes[1] = codes[0]
    labels = codes[2] ^ codes[3]
    context = FitContext()
    KTree(max_parents=1).learn(make_counts(codes, labels, [2] * 5), FitPlan(context))
    best = context.info["structure"]["gains"][0]
    assert {best["feature"], best["parent"]} == {"x2", "x3"}


def test_the_order_of_columns_decides_nothing_where_no_pair_gains():
    draw = np.random.default_rng(2)
    X = pd.DataFrame({name: draw.integers(0, 4, 260).astype(str) for name in "dbace"})
    y = np.digitize(draw.normal(size=260) + 2 * (X["a"] == X["b"]) + X["d"].astype(int), [1, 3])
    trees = set()
    for _ in range(4):
        clf = BayesNetClassifier("ktree", "layered", random_state=0)
        clf.fit(X[draw.permutation(X.columns)], y)
        parents = clf.structure_.parents
        trees.add(tuple((name, tuple(parents[name])) for name in sorted(parents)))
    assert len(trees) == 1


@pytest.mark.parametrize("given", [-1, 1.5, "two", True])
def test_other_numbers_of_parents_are_refused(given):
    codes, labels = np.zeros((2, 20), int), np.arange(20) % 2
    with pytest.raises(ConfigurationError, match="max_parents"):
        KTree(max_parents=given).learn(make_counts(codes, labels, [1, 1]), FitPlan())


def test_of_very_many_features_those_that_tell_most_are_paired(monkeypatch):
    generator = np.random.default_rng(2)
    n_rows = 400
    labels = generator.integers(0, 2, n_rows).astype(np.uint16)
    codes = generator.integers(0, 3, (9, n_rows)).astype(np.uint8)
    for feature in (1, 4, 6):  # the others are noise
        told = generator.random(n_rows) < 0.5
        codes[feature, told] = labels[told]
    domain = Domain(tuple("abcdefghi"), np.full(9, 3), 2)
    rows = Rows.in_memory(domain, codes, labels)
    context = FitContext()
    monkeypatch.setattr("tanager.structure.ktree.MOST_PAIRED", 3)
    structure = KTree().learn(Counts(rows, context), FitPlan(context))
    joined = [name for name in "abcdefghi" if structure.parents[name]]
    assert len(joined) == 2
    assert {*joined, *(p for name in joined for p in structure.parents[name])} == {"b", "e", "g"}
    few = Rows.in_memory(Domain(("b", "e", "g"), np.full(3, 3), 2), codes[[1, 4, 6]], labels)
    assert np.allclose(Counts(rows, context).cmi(np.array([1, 4, 6])), Counts(few, context).cmi())


def test_the_order_of_columns_decides_nothing_between_twins():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(1_600, 5)), columns=list("abcde"))
    X["kind"] = rng.choice(["x", "y", "z"], len(X))
    inside = (X["a"] > 0.4) & (X["b"] < 0.9) | (X["c"] > 1.2) & (X["kind"] == "y")
    y = (inside ^ (rng.random(len(X)) < 0.02)).to_numpy().astype(int)
    X["f"] = X["a"]
    found = [
        BayesNetClassifier(random_state=0).fit(some, y).structure_.parents
        for some in (X, X[X.columns[::-1]])
    ]
    assert found[0] == found[1]
