"""Weka's forest against a recursive tree, and both ways to cut."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tanager.evaluation import Dataset
from tanager_papers.forest import LEAF, MultiwayForest, _Grower
from tanager_papers.petitjean_forest import cut_table, has_numbers

RNG = np.random.default_rng(3)
CODES = np.column_stack([RNG.integers(0, arity, 80) for arity in (2, 5, 3, 4)])
LABELS = (CODES[:, 0] + CODES[:, 2] + RNG.integers(0, 2, 80)) % 3


class AllFeatures:
    """A generator that draws every row once and every feature in order."""

    def integers(self, n, size):
        return np.arange(size) % n

    def random(self, shape):
        return np.broadcast_to(np.arange(shape[1]), shape)


def entropy(labels):
    shares = np.bincount(labels) / len(labels)
    return -sum(p * np.log(p) for p in shares if p > 0)


def recursive(rows, node, tree, arities):
    """Check a node and those below it against the definition."""
    counts = np.bincount(LABELS[rows], minlength=3)
    assert tree.counts[node].tolist() == counts.tolist()
    if len(rows) < 2 or counts.max() == len(rows):
        assert tree.feature[node] == LEAF
        return 1
    gains = []
    for feature, arity in enumerate(arities):
        parts = [rows[CODES[rows, feature] == v] for v in range(arity)]
        left = sum(len(p) * entropy(LABELS[p]) for p in parts if len(p))
        gains.append(len(rows) * entropy(LABELS[rows]) - left)
    if max(gains) < 1e-9:
        assert tree.feature[node] == LEAF
        return 1
    chosen = tree.feature[node]
    assert gains[chosen] == pytest.approx(max(gains))
    below = 1
    for value in range(arities[chosen]):
        part, child = rows[CODES[rows, chosen] == value], tree.first[node] + value
        if len(part):
            below += recursive(part, child, tree, arities)
        else:
            assert tree.counts[child].sum() == 0
            below += 1
    return below


def test_a_tree_is_the_one_that_recursion_grows():
    arities = CODES.max(axis=0) + 1
    tree = _Grower(CODES, LABELS, 3, arities, 4).grow(AllFeatures())
    assert recursive(np.arange(80), 0, tree, arities) == len(tree.feature)


@pytest.mark.parametrize("sparse", [0, 10**9])
def test_counting_and_sorting_find_the_same_trees(sparse, monkeypatch):
    forest = MultiwayForest(5, random_state=1).fit(CODES, LABELS)
    monkeypatch.setattr("tanager_papers.forest.SPARSE", sparse)
    other = MultiwayForest(5, random_state=1).fit(CODES, LABELS)
    assert other.predict_proba(CODES).tolist() == forest.predict_proba(CODES).tolist()


def test_a_branch_without_rows_is_answered_by_the_node_above():
    codes = np.array([[0], [0], [2], [2]])
    forest = MultiwayForest(30, random_state=0).fit(codes, np.array(["a", "a", "b", "b"]))
    found = forest.predict_proba(np.array([[1], [9]]))
    assert (found > 0.2).all()
    assert forest.predict(codes).tolist() == ["a", "a", "b", "b"]


def test_the_square_root_draws_other_features():
    many = np.column_stack([RNG.integers(0, 3, 80) for _ in range(60)])
    forests = [MultiwayForest(5, drawn, 0).fit(many, LABELS) for drawn in ("log2", "sqrt")]
    assert (forests[0].predict_proba(many) != forests[1].predict_proba(many)).any()


def test_a_table_is_cut_on_all_its_rows():
    numbers = np.sort(RNG.normal(size=80))
    classes = np.where(numbers > numbers[40], "p", "n")
    names = RNG.choice(["u", "v"], 80)
    dataset = Dataset("some", pa.table({"x": numbers, "c": names, "class": classes}))
    assert has_numbers(dataset)
    cut = cut_table(dataset)
    assert cut.name == "some (cut on all rows)"
    assert not has_numbers(cut)
    values = cut.load().features["x"].to_pylist()
    assert len({(v, c) for v, c in zip(values, classes, strict=True)}) == 2
