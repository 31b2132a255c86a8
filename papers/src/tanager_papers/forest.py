"""Weka's random forest on nominal attributes, which Petitjean et al. (2018) compare with."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt, log2
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from tanager.numerics import Floats, Ints

__all__ = ["MultiwayForest"]

LEAF = -1
LEAST_GAIN = 1e-9  # nats: less is rounding
DRAWN = {"log2": lambda n: int(log2(n) + 1), "sqrt": lambda n: max(isqrt(n), 1)}
SPARSE = 8  # cells per row from which sorting the rows beats counting cells


class MultiwayForest(ClassifierMixin, BaseEstimator):
    """A forest of trees with one branch per value, as Weka's `RandomForest` grows them.

    Each tree is grown on a bootstrap sample. A node with two rows or more and more than one class
    draws features without replacement until it has as many as asked for, or until one gains
    information; the one that gains most splits it into a branch per value. There is no
    pruning. A row whose branch has no training row is answered by the node above it, and the
    forest averages the class frequencies that its trees answer.

    Parameters
    ----------
    n_trees : int, default=100
        As in the paper.
    drawn : {"log2", "sqrt"}, default="log2"
        Features that a node draws of n: ``int(log2(n) + 1)``, or the square root.
    random_state : int or None

    Examples
    --------
    >>> codes = np.array([[0, 2], [0, 1], [1, 2], [1, 0]] * 5)
    >>> forest = MultiwayForest(10, random_state=0).fit(codes, np.array([0, 0, 1, 1] * 5))
    >>> forest.predict_proba(codes[:2]).round(1).tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """

    def __init__(
        self, n_trees: int = 100, drawn: str = "log2", random_state: int | None = None
    ) -> None:
        self.n_trees = n_trees
        self.drawn = drawn
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> MultiwayForest:
        """Grow the trees from codes, shape (n_rows, n_features), and classes."""
        codes = np.asarray(X, np.int64)
        self.classes_, labels = np.unique(y, return_inverse=True)
        self.arities_ = codes.max(axis=0) + 1
        rng = np.random.default_rng(self.random_state)
        n_drawn = DRAWN[self.drawn](codes.shape[1])
        grower = _Grower(codes, labels, len(self.classes_), self.arities_, n_drawn)
        self.trees_ = [grower.grow(rng) for _ in range(self.n_trees)]
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the mean of the trees' class frequencies, shape (n_rows, n_classes)."""
        codes = np.asarray(X, np.int64)
        total = np.zeros((len(codes), len(self.classes_)))
        for tree in self.trees_:
            total += tree.shares(codes, self.arities_)
        return total / len(self.trees_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable classes."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])


class _Tree(NamedTuple):
    feature: Ints  # (n_nodes,): what the node splits on, or LEAF
    first: Ints  # (n_nodes,): its branch for the first value
    counts: Ints  # (n_nodes, n_classes): training rows

    def shares(self, codes: Ints, arities: Ints) -> Floats:
        """Return the class frequencies of the last node with training rows on each row's way."""
        node, moving = np.zeros(len(codes), np.int64), np.arange(len(codes))
        filled = self.counts.sum(axis=1) > 0
        while len(moving):
            feature = self.feature[node[moving]]
            moving, feature = moving[feature != LEAF], feature[feature != LEAF]
            values = codes[moving, feature]
            known = values < arities[feature]
            moving, values = moving[known], values[known]
            branch = self.first[node[moving]] + values
            node[moving[filled[branch]]] = branch[filled[branch]]
            moving = moving[filled[branch]]
        return self.counts[node] / self.counts[node].sum(axis=1, keepdims=True)


class _Level(NamedTuple):
    """The nodes of one depth that are to be split, and their rows."""

    rows: Ints  # (n_rows,)
    node: Ints  # (n_rows,): the number of each row's node, from 0
    counts: Ints  # (n_nodes, n_classes)


@dataclass
class _Grower:
    """Grows a tree level by level: the nodes of a level are split by the same few passes."""

    codes: Ints  # (n_rows, n_features)
    labels: Ints  # (n_rows,)
    n_classes: int
    arities: Ints
    n_drawn: int  # features that a node chooses from

    def __post_init__(self) -> None:
        sizes = np.arange(len(self.labels) + 1, dtype=np.float64)
        self._n_log_n = sizes * np.log(np.maximum(sizes, 1.0))

    def grow(self, rng: np.random.Generator) -> _Tree:
        """Grow a tree on a bootstrap sample."""
        rows = rng.integers(len(self.labels), size=len(self.labels))
        node, n_nodes, n_before = np.zeros(len(rows), np.int64), 1, 0
        features, firsts, every = list[Ints](), list[Ints](), list[Ints]()
        while n_nodes:
            counts = np.bincount(node * self.n_classes + self.labels[rows],
                                 minlength=n_nodes * self.n_classes)  # fmt: skip
            counts = counts.reshape(n_nodes, self.n_classes)
            open_ = (counts.sum(axis=1) >= 2) & (counts.max(axis=1) < counts.sum(axis=1))
            inside, number = open_[node], np.cumsum(open_) - 1
            level = _Level(rows[inside], number[node[inside]], counts[open_])
            best = self._best_features(level, rng)
            feature, first = np.full((2, n_nodes), LEAF)
            feature[open_] = best
            n_before += n_nodes
            width = np.where(best == LEAF, 0, self.arities[best])
            start = np.cumsum(width) - width
            first[open_] = n_before + start
            features, firsts, every = [*features, feature], [*firsts, first], [*every, counts]
            split = best[level.node] != LEAF
            rows, parent = level.rows[split], level.node[split]
            node = start[parent] + self.codes[rows, best[parent]]
            n_nodes = int(width.sum())
        return _Tree(np.concatenate(features), np.concatenate(firsts), np.concatenate(every))

    def _best_features(self, level: _Level, rng: np.random.Generator) -> Ints:
        """Return the feature of each node that gains most of those drawn, or LEAF."""
        n_nodes, n_features = len(level.counts), len(self.arities)
        drawn = np.argsort(rng.random((n_nodes, n_features)), axis=1)
        best, gains = np.full(n_nodes, LEAF), np.full(n_nodes, LEAST_GAIN)
        before = self._disorder(level.counts)
        for place in range(n_features):
            asked = np.flatnonzero((best == LEAF) | (place < self.n_drawn))
            if not len(asked):
                break
            feature = drawn[asked, place]
            gain = before[asked] - self._split_disorder(level, asked, feature)
            better = gain > gains[asked]
            gains[asked[better]] = gain[better]
            best[asked[better]] = feature[better]
        return best

    def _split_disorder(self, level: _Level, asked: Ints, feature: Ints) -> Floats:
        """Return n times the class entropy within the branches of each node asked about."""
        number = np.full(len(level.counts), -1)
        number[asked] = np.arange(len(asked))
        node = number[level.node]
        rows, node = level.rows[node >= 0], node[node >= 0]
        width = self.arities[feature]
        start = np.cumsum(width) - width
        cell = start[node] + self.codes[rows, feature[node]]
        key = cell * self.n_classes + self.labels[rows]
        n_cells = int(width.sum())
        if n_cells * self.n_classes <= SPARSE * len(rows):
            counts = np.bincount(key, minlength=n_cells * self.n_classes)
            each = self._disorder(counts.reshape(n_cells, self.n_classes))
            return np.add.reduceat(each, start)
        key.sort()
        ends = np.flatnonzero(np.append(key[1:] != key[:-1], True))
        by_class = self._n_log_n[np.diff(ends, prepend=-1)]
        within = np.bincount(key[ends] // self.n_classes, by_class, n_cells)
        whole = self._n_log_n[np.bincount(cell, minlength=n_cells)]
        return np.add.reduceat(whole - within, start)

    def _disorder(self, counts: Ints) -> Floats:
        """Return n times the entropy of each row of counts, in nats."""
        return self._n_log_n[counts.sum(axis=1)] - self._n_log_n[counts].sum(axis=1)
