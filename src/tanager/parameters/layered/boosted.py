"""Boosted trees as a member of a layered pool: sharp steps, and rules for part of a table.

A ridge blurs the corners of a table; greedy splits keep them. A branch of a tree only splits a
feature and its parents, so each leaf is a block of cells of that family's table, and the trees
together are tables on the pool's structure.

References
----------
Friedman (2001), DOI 10.1214/aos/1013203451: gradient boosting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.codes import Codes, Rows
from tanager.codes.groups import group_codes
from tanager.counts import Family
from tanager.numerics import Floats, starts_of
from tanager.parameters.layered.members import Member, MemberScores, Trial
from tanager.parameters.layered.part import Part
from tanager.parameters.tables import log_posterior

MOST_WORK = 1_500_000  # rows times features times classes up to which trees are worth their time
LEAST_WIDTH = 8  # features that a tree counts as in that product even if it has fewer
MOST_GROUPS = 63  # of a feature that trees split: those and "unknown" are the bits of a word
N_SPLITS, RATE, RIDGE = 11, 0.1, 3.0  # of a tree
LEAST_LEAF, LEAF_SHARE = 10.0, 0.02  # weight of a leaf's rows, or this share of all if less
BLOCK, MOST_BLOCKS, PATIENCE = 10, 20, 2  # rounds per look at the held-out loss, and looks


class Leaf(NamedTuple):
    """Where a tree adds a value to the score of a class."""

    groups: dict[int, NDArray[np.intp]]  # of the features split on the way
    column: int
    value: float


class Boosting:
    """A model of a part's rows, that grows by rounds of one tree per class."""

    def __init__(self, part: Part, depth: int, held: Rows | None = None) -> None:
        domain = part.grouped_counts.domain
        sizes, orders, names = domain.arities, domain.n_ordered, domain.names
        known = {one for one in part.structure.selected if sizes[one] <= MOST_GROUPS}
        # Of two splits that gain the same, that of the first name counts.
        self.features = sorted(known - set(part.signs), key=lambda one: names[one])
        self.families = [(feature, parents[:depth]) for feature, parents in part.read]
        place = {feature: at for at, feature in enumerate(self.features)}
        cliques = [
            [place[one] for one in (feature, *parents) if one in place]
            for feature, parents in self.families
        ]
        chunk = part.grouped_counts.rows.gather()
        self._codes, weights = self._bytes(chunk.codes), chunk.row_weights
        self._keeps = held is None  # otherwise only the held-out scores are wanted
        self._held = self._codes[:, :0].copy()
        if held is not None:
            self._held = self._bytes(group_codes(held.gather().codes, part.groups))
        smoothed = part.class_counts + 1.0 / domain.n_classes
        self.class_node = np.log(smoothed / smoothed.sum())
        self._given = (
            np.array([sizes[one] for one in self.features], np.int64),
            np.array([orders[one] > 0 for one in self.features], np.uint8),
            starts_of([len(clique) for clique in cliques]),
            np.array([one for clique in cliques for one in clique], np.int64),
        )
        self._labels, self._weights = chunk.labels, weights
        self._least = min(LEAST_LEAF, max(2.0, LEAF_SHARE * float(weights.sum())))
        self._scores = np.tile(self.class_node, (len(self._labels), 1))
        self.held_scores = np.tile(self.class_node, (self._held.shape[1], 1))
        self._trees: list[tuple[NDArray[Any], ...]] = []

    def _bytes(self, groups: Codes) -> NDArray[np.uint8]:
        return np.minimum(groups[self.features], MOST_GROUPS).astype(np.uint8)

    def grow(self, n_rounds: int) -> None:
        """Add rounds of trees."""
        n_trees, n_nodes = n_rounds * len(self.class_node), 2 * N_SPLITS + 1
        found = tuple(
            np.empty((n_trees, n_nodes), dtype)
            for dtype in (np.int32, np.uint64, np.int32, np.float64)
        )
        given = self._codes, self._labels, self._weights, self._held, *self._given, n_rounds
        settings = N_SPLITS, RATE, RIDGE, self._least
        native.boost_groups(*given, *settings, self._scores, self.held_scores, *found)
        if self._keeps:
            self._trees.append(found)

    def leaves(self) -> Iterator[Leaf]:
        """Iterate over the leaves of all trees."""
        sizes, n_classes = self._given[0], len(self.class_node)
        columns = range(1, n_classes) if n_classes == 2 else range(n_classes)
        bits = {size: np.uint64(1) << np.arange(size, dtype=np.uint64) for size in set(sizes)}
        for features, masks, children, values in self._trees:
            for tree in range(len(features) // n_classes * len(columns)):
                waiting: list[tuple[int, dict[int, NDArray[np.bool_]]]] = [(0, {})]
                while waiting:
                    node, inside = waiting.pop()
                    at = int(features[tree, node])
                    if at < 0:
                        groups = {self.features[k]: np.flatnonzero(v) for k, v in inside.items()}
                        yield Leaf(groups, columns[tree % len(columns)], values[tree, node])
                        continue
                    left = (masks[tree, node] & bits[sizes[at]]) != 0
                    for child, side in enumerate((left, ~left)):
                        both = inside[at] & side if at in inside else side
                        waiting.append((children[tree, node] + child, {**inside, at: both}))


class Boosted(Member):
    """Boosted trees on the groups of each feature and up to `depth` parents."""

    def __init__(self, depth: int) -> None:
        self.depth, self.n_rounds = depth, 0

    def choose(self, trial: Trial) -> None:
        """Add trees for as long as the held-out loss falls."""
        runs = [
            Boosting(part, self.depth, held)
            for part, held in zip(trial.parts, trial.held, strict=True)
        ]
        best, said = np.inf, list[Floats]()
        for block in range(1, MOST_BLOCKS + 1):
            for run in runs:
                run.grow(BLOCK)
            now = [log_posterior(run.held_scores.copy()) for run in runs]
            loss = trial.loss(np.concatenate(now))
            if loss < best:
                best, said, self.n_rounds = loss, now, block * BLOCK
            elif block * BLOCK >= self.n_rounds + PATIENCE * BLOCK:
                break
        self.tell(trial, said)

    def scores(self, part: Part) -> MemberScores:
        """Grow the trees from all rows, and add up their leaves as tables."""
        run = Boosting(part, self.depth)
        for _ in range(self.n_rounds // BLOCK):
            run.grow(BLOCK)
        sizes, n_classes = part.group_arities, len(run.class_node)
        node = run.class_node.copy()
        holders: dict[frozenset[int], tuple[int, int]] = {}
        by_family: list[list[Leaf]] = [[] for _ in run.families]
        deep = [0] * len(run.families)
        for leaf in run.leaves():
            split = frozenset(leaf.groups)
            if not split:
                node[leaf.column] += leaf.value
                continue
            if split not in holders:
                holders[split] = _holder(split, run.families)
            at, depth = holders[split]
            deep[at] = max(deep[at], depth)
            by_family[at].append(leaf)
        groups = []
        for (feature, parents), own, depth in zip(run.families, by_family, deep, strict=True):
            members = (*parents[:depth], feature)
            table = np.zeros((*(sizes[one] for one in members), n_classes))
            whole = [np.arange(sizes[one]) for one in members]
            for leaf in own:
                block = [leaf.groups.get(one, w) for one, w in zip(members, whole, strict=True)]
                table[..., leaf.column][np.ix_(*block)] += leaf.value
            groups.append(table)
        return MemberScores(node, [np.zeros((1, 1)) for _ in groups], groups)

    def record(self) -> dict[str, Any]:
        """Return the depth and the number of rounds."""
        return {"member": f"boosted trees, {self.parents}", "rounds": self.n_rounds}


def _holder(split: frozenset[int], families: Sequence[Family]) -> tuple[int, int]:
    """Return the family, and its number of parents, of the smallest table with some features."""
    fits = [
        (max([0, *(parents.index(one) + 1 for one in split - {feature})]), at)
        for at, (feature, parents) in enumerate(families)
        if split <= {feature, *parents}
    ]
    depth, at = min(fits)
    return at, depth
