r"""Leave-one-out losses of every kDB with up to k parents and any number of features.

Parents are ranked, so the family with k' parents is a prefix of the one with
k, and the features are ranked, so the model with n' of them is a prefix of the
one with all. One walk down a trie per row and feature therefore scores all
(k + 1) n models::

    level 0   x                  N(x, y) for every class y
    level 1   x, p1              N(x, p1, y)
    ...
    level k   x, p1, ..., pk     N(x, p1, ..., pk, y)

Only combinations that occur have a node (a *cell*), and every training row
finds its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Chunk, Domain
from tanager.counts import ContextTree

__all__ = ["SCORES", "LeaveOneOut"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SCORES = ("rmse", "rmse-class-averaged", "zero-one", "log-loss")  # in the kernels' order
SMOOTHING = 1.0  # m of the m-estimate
# Weight of the shorter context's estimate by kind of smoothing; 0 is the plain m-estimate.
LEAN = {"back-off": 30.0, "m-estimate": 0.0}
WORST = (1.0, 1.0, 1.0, 1024.0)  # a bound on one row's loss, by score


class Trie(NamedTuple):
    """Tries of all features end to end, level by level.

    Attributes
    ----------
    level_start : (n_features + 1,)
        Levels of feature f are ``level_start[f]:level_start[f+1]``.
    member : (n_levels,)
        The row of the codes that a level branches on: the feature, then its parents.
    width : (n_levels,)
        That variable's arity; 0 on a first level, whose cells are the values.
    cell_start : (n_levels,)
        Number of a level's first cell.
    step_start : (n_levels,)
    step : (n_steps,) of int32
        From cell c of the level above by code v to cell
        ``step[step_start + c * width + v]`` of the level, both counted from
        their level's first.
    """

    level_start: Ints
    member: Ints
    width: Ints
    cell_start: Ints
    step_start: Ints
    step: NDArray[np.int32]


class CellTable(NamedTuple):
    """What is known of every cell, each (n_cells, n_classes); what is not needed is empty."""

    probability: Floats  # smoothed P(x | y, parents)
    joint: Floats  # N(x, y, parents)
    context: Floats  # N(y, parents)
    odds: Floats  # two classes: factor of the odds against a row's own class y, itself left out


class LeaveOneOut:
    """A pass that adds up the leave-one-out loss of every (k', n').

    Parameters
    ----------
    domain : Domain
    families : sequence of (feature, parents)
        In order of selection, each with its ranked parents.
    trees : sequence of ContextTree
        Theirs.
    class_counts : ndarray, shape (n_classes,)
    max_k : int
        Numbers of parents 0 .. max_k are scored.
    score : one of SCORES
    smoothing : one of LEAN
    weighted : bool
        Whether the rows carry weights.

    Notes
    -----
    The loss of a row is rounded to an integer number of units so small that all
    rows together fit 62 bits; sums of integers depend neither on the order of
    the rows nor on the chunking.
    """

    def __init__(
        self,
        domain: Domain,
        families: Sequence[tuple[int, tuple[int, ...]]],
        trees: Sequence[ContextTree],
        class_counts: Floats,
        max_k: int,
        score: str,
        smoothing: str,
        *,
        weighted: bool,
    ) -> None:
        self.domain = domain
        self.class_counts = class_counts
        self.shape = (max_k + 1, len(families))
        self.score = SCORES.index(score)
        total = float(class_counts.sum())
        self.scale = 2.0 ** np.floor(62 - np.log2(max(total, 1.0) * WORST[self.score]))
        self.lean = LEAN[smoothing]
        complete = all(tree.total == total for tree in trees)
        self.binary = complete and domain.n_classes == 2 and not weighted
        self.trie, self.table = _join(domain, families, trees, self.lean, binary=self.binary)

    def zero(self) -> Ints:
        """Return the losses of no rows."""
        return np.zeros(self.shape, np.int64)

    def update(self, state: Ints, chunk: Chunk) -> Ints:
        """Add the losses of a chunk's rows."""
        from tanager.structure._loo_kernels import score_binary, score_general

        if self.binary:
            score_binary(
                chunk.codes,
                chunk.labels,
                self.trie,
                self.table.odds,
                self._prior_odds(),
                self.score,
                self.scale,
                state,
            )
            return state
        weights = np.ones(chunk.n_rows) if chunk.weights is None else chunk.weights
        # An integer weight stands for repeated rows, of which one is left out.
        shares = np.where((weights == np.floor(weights)) & (weights > 0), 1.0, weights)
        score_general(
            chunk.codes,
            self.domain.arities,
            chunk.labels,
            weights,
            shares,
            self.trie,
            self.table,
            SMOOTHING,
            self.lean,
            self.class_counts,
            self.score,
            self.scale,
            state,
        )
        return state

    def merge(self, a: Ints, b: Ints) -> Ints:
        """Add the losses of two sets of rows."""
        return a + b

    def finish(self, state: Ints) -> Floats:
        """Return the mean loss (its root for the squared ones), shape (max_k + 1, n)."""
        mean = state / self.scale / max(float(self.class_counts.sum()), 1e-300)
        loss: Floats = np.sqrt(mean) if self.score < 2 else mean
        return loss

    def _prior_odds(self) -> Floats:
        """Return the odds against each class, one row of it left out."""
        smoothed = self.class_counts + SMOOTHING / 2
        odds: Floats = smoothed[::-1] / np.maximum(smoothed - 1.0, 1e-300)
        return odds


def _join(
    domain: Domain,
    families: Sequence[tuple[int, tuple[int, ...]]],
    trees: Sequence[ContextTree],
    lean: float,
    *,
    binary: bool,
) -> tuple[Trie, CellTable]:
    """Build the tries of all families, and their odds (`binary`) or counts and estimates."""
    level_start = [0]
    member: list[int] = []
    width: list[int] = []
    steps: list[NDArray[np.int32]] = []
    tables: list[CellTable] = []
    sizes = [0]
    for (feature, parents), tree in zip(families, trees, strict=True):
        depth = tree.seen_depth - 1
        branches = [feature, *parents[: max(depth, 0)]]
        widths = [0, *(int(domain.arities[p]) for p in branches[1:])]
        for step, table in _descend_levels(tree, widths, domain.n_classes, lean):
            nothing = np.zeros((0, domain.n_classes))
            sizes.append(table.joint.shape[0])
            steps.append(step)
            if binary:
                tables.append(CellTable(nothing, nothing, nothing, table.odds))
            else:
                tables.append(table._replace(odds=nothing))
        member += branches
        width += widths
        level_start.append(len(member))
    trie = Trie(
        np.array(level_start),
        np.array(member),
        np.array(width),
        np.cumsum(sizes)[:-1],
        np.cumsum([0] + [step.shape[0] for step in steps])[:-1],
        np.concatenate(steps),
    )
    return trie, CellTable(*(np.concatenate(arrays) for arrays in zip(*tables, strict=True)))


def _descend_levels(
    tree: ContextTree, widths: Sequence[int], n_classes: int, lean: float
) -> Iterator[tuple[NDArray[np.int32], CellTable]]:
    """Iterate over the levels of one family: steps, and what is known of the cells."""
    root = np.zeros(tree.arity)
    root[tree.levels[0].cell_value] = tree.levels[0].cell_count
    even = SMOOTHING / tree.arity
    total = root.sum()
    # The estimate a class falls back on where nothing of it was seen: all rows,
    # and for a row's own class all rows but itself.
    seen = np.repeat((root + even)[:, None] / (total + SMOOTHING), n_classes, 1)
    own = np.repeat((root - 1.0 + even)[:, None] / (max(total - 1, 0.0) + SMOOTHING), n_classes, 1)
    cell_id = np.zeros(0, np.int64)  # of each cell of the tree's level, over all classes
    context_id = node_class = np.zeros(1, np.int64)  # of each node
    for d, width in enumerate(widths):
        level = tree.levels[d + 1]
        node = level.cell_nodes()
        if d == 0:
            node_class = level.value
            context_id = np.zeros(level.n_nodes, np.int64)
            cell_id, step, n_cells = level.cell_value, np.zeros(0, np.int32), tree.arity
            above = np.arange(tree.arity)
        else:
            node_class = node_class[level.parent]
            context_id, _, _ = _number(context_id[level.parent] * width + level.value)
            key = cell_id[level.cell_parent] * width + level.value[node]
            up = cell_id[level.cell_parent]
            cell_id, step, n_cells = _number(key, seen.shape[0] * width)
            above = np.empty(n_cells, np.int64)
            above[cell_id] = up
        count = np.zeros((n_cells, n_classes))
        count[cell_id, node_class[node]] = level.cell_count
        nodes = np.zeros((int(context_id.max(initial=0)) + 1, n_classes))
        nodes[context_id, node_class] = level.node_counts()
        at = np.zeros(n_cells, np.int64)
        at[cell_id] = context_id[node]
        context = nodes[at]
        less = np.maximum(context - 1.0, 0.0)
        if lean > 0 and d > 0:
            seen = (count + lean * seen[above]) / (context + lean)
            own = (np.maximum(count - 1.0, 0.0) + lean * own[above]) / (less + lean)
        else:
            seen = np.where(context > 0, (count + even) / (context + SMOOTHING), seen[above])
            own = np.where(context > 1.0, (count - 1.0 + even) / (less + SMOOTHING), own[above])
        odds = seen[:, ::-1] / np.maximum(own, 1e-300)
        yield step, CellTable(seen, count, context, odds)


def _number(keys: Ints, size: int = 0) -> tuple[Ints, NDArray[np.int32], int]:
    """Return the rank of each key among the distinct ones, the look-up of ranks, and how many.

    The look-up spans 0 .. size - 1 and holds arbitrary numbers where no key is.
    """
    lookup = np.zeros(max(size, int(keys.max(initial=-1)) + 1), np.int32)
    lookup[keys] = 1
    np.cumsum(lookup, out=lookup)
    lookup -= 1
    numbers = lookup[keys].astype(np.int64)
    return numbers, lookup, int(lookup[-1]) + 1 if lookup.shape[0] else 0
