r"""Leave-one-out losses of every kDB with up to k parents and any number of features.

Parents are ranked, so the family with k' parents is a prefix of the one with k, and the features
are ranked, so the model with n' of them is a prefix of the one with all. One walk down a trie per
row and feature therefore scores all (k + 1) n models::

    level 0   x                  N(x, y) for every class y
    level 1   x, p1              N(x, p1, y)
    ...
    level k   x, p1, ..., pk     N(x, p1, ..., pk, y)

Only combinations that occur have a node (a *cell*), and every training row finds its own. Where a
parent has missing values, "unknown" is an extra branch, so that the levels above count those rows
too; a row goes no further down than its first unknown parent. The tries of many features may not
fit in memory together, so they are built for some features at a time, and each row's posterior
after these features is kept for the next ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.codes import Chunk, Domain
from tanager.counts import ContextTree
from tanager.engines import Sums
from tanager.engines.keeping import Store
from tanager.numerics import Floats, Ints, rank_distinct, starts_of

States = dict[int, Any]  # where each chunk's `State` is kept, by the index of its first row
SCORES = ("rmse", "rmse-class-averaged", "zero-one", "log-loss")  # in the kernels' order
SMOOTHING = 1.0  # m of the m-estimate
# Weight of the shorter context's estimate by smoothing method; 0 is the plain m-estimate.
STRENGTH = {"back-off": 30.0, "m-estimate": 0.0}
ROW_NUMBERS = 1 << 22  # odds or posteriors in a batch of rows: 32 MiB
WORST = (1.0, 1.0, 1.0, 1024.0)  # upper bound on one row's loss, by score


class State(NamedTuple):
    """The odds (n_rows, max_k + 1) or posteriors (n_rows, max_k + 1, n_classes) of a chunk."""

    rows: Floats

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.rows.shape[0])


@dataclass(frozen=True)
class LeaveOneOutTask:
    """The models to score, and how."""

    domain: Domain
    class_counts: Floats  # (n_classes,)
    max_k: int  # score 0 .. max_k parents
    score: int  # index into `SCORES`
    strength: float  # weight of the shorter context's estimate
    binary: bool  # whether odds can replace posteriors: two classes, complete rows, unit weights

    @property
    def scale(self) -> float:
        """How many integer units make a loss of one, so that the sum over all rows fits 62 bits."""
        total = max(float(self.class_counts.sum()), 1.0)
        return float(2.0 ** np.floor(62 - np.log2(total * WORST[self.score])))

    def start(self, chunk: Chunk, shares: Floats) -> Floats:
        """Return the odds or posteriors of a chunk's rows before any feature."""
        smoothed = self.class_counts + SMOOTHING / self.domain.n_classes
        if self.binary:
            odds = smoothed[::-1] / np.maximum(smoothed - 1.0, 1e-300)
            return np.repeat(odds[chunk.labels][:, None], self.max_k + 1, axis=1)
        rows = np.repeat(smoothed[None], chunk.n_rows, axis=0)
        rows[np.arange(chunk.n_rows), chunk.labels] -= shares
        rows /= rows.sum(axis=1, keepdims=True)
        return np.repeat(rows[:, None], self.max_k + 1, axis=1)


class Tries(NamedTuple):
    """Tries of some features end to end, level by level, with statistics of their cells."""

    # (n_features + 1,); levels of feature f are ``level_start[f]:level_start[f+1]``
    level_start: Ints
    # (n_levels,); the row of the codes a level branches on: the feature, then its parents
    member: Ints
    cell_start: Ints  # (n_levels,); number of a level's first cell
    width: Ints  # (n_levels,); children per cell above if each has all values, else 0
    # children of cell c are cells ``child[c]:child[c+1]``, sorted by value
    child: NDArray[np.int32]
    value: NDArray[np.uint16]  # the code that leads to a cell
    # (n_cells, 2); with odds: the factor of the odds against a row's own class y, with the row
    # itself left out
    odds: Floats
    joint: Floats  # (n_cells, n_classes); otherwise: N(x, y, parents)
    context: NDArray[np.int32]  # a cell's row in `context_count`
    context_count: Floats  # (n_contexts, n_classes); N(y, parents)

    @classmethod
    def build(
        cls,
        task: LeaveOneOutTask,
        families: Sequence[tuple[int, tuple[int, ...]]],
        trees: Sequence[ContextTree],
        check: Callable[[Mapping[str, int], int], None] = lambda *_: None,
    ) -> Tries:
        """Build the tries of families from their trees; `check` gets a trie's bytes before."""
        level_start, member = [0], list[int]()
        levels: list[_ParentLevel] = []
        for (feature, parents), tree in zip(families, trees, strict=True):
            branches: list[int] = [feature, *parents[: max(tree.seen_depth - 1, 0)]]
            arities = (tree.arity, *tree.context_arities[1 : len(branches)])
            name = task.domain.names[feature]
            told = partial(lambda name, n: check({name: n}, task.domain.n_classes), name)
            levels.extend(_levels(tree, arities, task, told))
            member += branches
            level_start.append(len(member))
        widths, aboves, values, odds, joints, contexts, counts = zip(*levels, strict=True)
        cells, firsts = starts_of(list(map(len, values))), starts_of(list(map(len, counts)))
        below = [*aboves[1:], np.zeros(0, np.int64)]
        children = [
            np.searchsorted(above, np.arange(len(value))) + first
            for value, above, first in zip(values, below, cells[1:], strict=True)
        ]
        child = np.concatenate([*children, cells[-1:]]).astype(np.int32)
        rows = [one + first for one, first in zip(contexts, firsts[:-1], strict=True)]
        context = np.concatenate(rows).astype(np.int32)
        value, factor, joint, count = map(np.concatenate, (values, odds, joints, counts))
        starts = np.array(level_start), np.array(member), cells[:-1], np.array(widths)
        return cls(*starts, child, value, factor, joint, context, count)


@dataclass
class LeaveOneOut(Sums):
    """A pass that sums the leave-one-out losses of some features, given earlier ones.

    The result is the sums of losses, shape (max_k + 1, n_features), and every chunk's odds or
    posteriors after these features. A row's loss is rounded to whole units, so small that the sum
    over all rows fits in 62 bits: integer sums don't depend on the order of rows or the chunking.
    """

    task: LeaveOneOutTask
    tries: Tries
    before: States | None = None  # the chunks' odds or posteriors after the earlier features
    store: Store | None = None  # for those after these features; None: not needed

    def __getstate__(self) -> dict[str, Any]:
        # A store belongs to one process. In another the states stay in memory, with the result.
        return {**self.__dict__, "store": self.store is not None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, store=Store(sys.maxsize) if state["store"] else None)

    def zero(self) -> tuple[Ints, States]:
        """Return the losses of no rows."""
        return np.zeros((self.task.max_k + 1, len(self.tries.level_start) - 1), np.int64), {}

    def update(self, state: tuple[Ints, States], chunk: Chunk) -> tuple[Ints, States]:
        """Add the losses of a chunk's rows, in batches that get smaller with more classes."""
        step = ROW_NUMBERS // ((self.task.max_k + 1) * self.task.domain.n_classes)
        for part in chunk.split(step):
            state = self._add(state, part)
        return state

    def _add(self, state: tuple[Ints, States], chunk: Chunk) -> tuple[Ints, States]:
        """Add the losses of one batch of rows."""
        task, tries, weights = self.task, self.tries, chunk.row_weights
        # An integer weight means repeated rows, one of which is left out.
        shares = np.where((weights == np.floor(weights)) & (weights > 0), 1.0, weights)
        kept = None if self.before is None else self.before[chunk.start]
        in_place = kept is not None and kept.in_memory
        if kept is None:
            rows = task.start(chunk, shares)
        else:
            # States in memory are changed in place: no engine runs a pass of this process twice.
            rows = next(kept.chunks()).rows
            rows = rows if in_place else rows.copy()
        trie = chunk.codes, chunk.labels, *tries[:6]
        scored = task.score, task.scale, rows, state[0]
        if task.binary:
            native.score_odds(*trie, tries.odds, *scored)
        else:
            cells = tries.joint, tries.context, tries.context_count, SMOOTHING, task.strength
            native.score_posteriors(*trie, task.domain.arities, weights, shares, *cells, *scored)
        if self.store is not None:
            state[1][chunk.start] = kept if in_place else self.store.keep(State(rows))
        return state

    def merge(self, a: tuple[Ints, States], b: tuple[Ints, States]) -> tuple[Ints, States]:
        """Add the losses of two sets of rows."""
        return a[0] + b[0], a[1] | b[1]


def mean_losses(task: LeaveOneOutTask, sums: Ints) -> Floats:
    """Turn sums of losses into means, or root means for the squared losses."""
    mean = sums / task.scale / max(float(task.class_counts.sum()), 1e-300)
    return np.sqrt(mean) if task.score < 2 else mean


class _ParentLevel(NamedTuple):
    """One level of one trie, numbered from its own first cell; see `Tries`."""

    width: int  # see `Tries`
    above: Ints  # (n_cells,); each cell's cell of the level above; empty for the first level
    value: NDArray[np.uint16]
    odds: Floats
    joint: Floats
    context: Ints
    context_count: Floats


def _levels(
    tree: ContextTree, widths: Sequence[int], task: LeaveOneOutTask, check: Callable[[int], None]
) -> Iterator[_ParentLevel]:
    """Iterate over the levels of one family."""
    n_classes, n_numbers, n_above = task.domain.n_classes, 0, 0
    cell_id = np.zeros(0, np.int64)  # of each cell of the tree's level, over all classes
    plain, place = tree.without_class()
    estimates = _marginals(tree, n_classes)
    for d, width in enumerate(widths):
        level = tree.levels[d + 1]
        node, node_class = level.cell_nodes(), tree.values(d + 1)[0]
        context_id = place[tree.nodes(d + 1)] - plain.level_node[d]
        if d == 0:
            cell_id, keys = level.cell_value, np.arange(tree.arity)
        else:
            n_possible = n_above * width
            key = cell_id[level.cell_parent] * width + level.value[node]
            cell_id, keys = rank_distinct(key, n_possible)
            if 2 * len(keys) >= n_possible:  # all are numbered
                cell_id, keys = key, np.arange(n_possible)
        n_contexts = int(context_id.max(initial=0)) + 1
        n_numbers += (keys.shape[0] + n_contexts) * n_classes
        check(16 * n_numbers)  # float64, twice during concatenation
        joint = np.zeros((keys.shape[0], n_classes))
        joint[cell_id, node_class[node]] = level.cell_count
        counts = np.zeros((n_contexts, n_classes))
        counts[context_id, node_class] = level.node_counts()
        context = np.zeros(keys.shape[0], np.int64)
        context[cell_id] = context_id[node]
        value = (keys % width).astype(np.uint16)
        above = keys // width if d else keys[:0]
        full = width if d and len(keys) == n_above * width else 0
        none, n_above = np.zeros((0, 2)), len(keys)
        made = _ParentLevel(full, above, value, none, joint, context, counts)
        if task.binary:
            given = above if d else keys
            estimates = _blend(estimates, given, made, d, tree.arity, task.strength)
            odds = estimates[0][:, ::-1] / np.maximum(estimates[1], 1e-300)
            made = made._replace(odds=odds, joint=none, context=context[:0], context_count=none)
        yield made


def _marginals(tree: ContextTree, n_classes: int) -> tuple[Floats, Floats]:
    """Return the back-off for a class without rows: from all rows, and leaving one out."""
    root = np.zeros(tree.arity)
    level = tree.levels[0]
    root[level.cell_value] = level.cell_count
    even, total = SMOOTHING / tree.arity, root.sum()
    seen = (root + even) / (total + SMOOTHING)
    own = (root - 1.0 + even) / (max(total - 1, 0.0) + SMOOTHING)
    return tuple(np.repeat(one[:, None], n_classes, 1) for one in (seen, own))  # type: ignore[return-value]


def _blend(
    estimates: tuple[Floats, Floats],
    above: Ints,
    level: _ParentLevel,
    depth: int,
    arity: int,
    strength: float,
) -> tuple[Floats, Floats]:
    """Move the estimates, from all rows and leaving one out, one level down."""
    seen, own = (one[above] for one in estimates)
    count, context = level.joint, level.context_count[level.context]
    less = np.maximum(context - 1.0, 0.0)
    if strength > 0 and depth > 0:
        seen = (count + strength * seen) / (context + strength)
        own = (np.maximum(count - 1.0, 0.0) + strength * own) / (less + strength)
    else:
        even = SMOOTHING / arity
        seen = np.where(context > 0, (count + even) / (context + SMOOTHING), seen)
        own = np.where(context > 1.0, (count - 1.0 + even) / (less + SMOOTHING), own)
    return seen, own
