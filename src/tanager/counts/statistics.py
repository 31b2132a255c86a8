"""Counts of the training rows, gathered on demand and kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Chunk, Domain, Rows
from tanager.counts.families import Family, build_trees
from tanager.counts.pairs import PairCounts, PairPass, pair_groups, sparse_information
from tanager.counts.runs import NO_WEIGHTS
from tanager.counts.tree import ContextTree, tree_from_dense
from tanager.engines import FitContext, Passes

__all__ = ["Counts"]

Floats = NDArray[np.float64]

DECIMALS = 10  # to which information is rounded, so that ties are ties whatever the summation


class Counts:
    """Sufficient statistics of the training rows.

    Each is gathered by one pass over the rows when first asked for, then kept.

    Parameters
    ----------
    rows : Rows
        The training rows.
    context : FitContext
        Its engine runs the passes.

    Examples
    --------
    >>> import numpy as np
    >>> from tanager.codes import Domain, Rows
    >>> domain = Domain(("a", "b"), np.array([2, 2]), 2)
    >>> codes = np.array([[0, 0, 1, 1], [0, 1, 0, 1]], np.uint8)
    >>> rows = Rows.in_memory(domain, codes, np.array([0, 1, 1, 0], np.uint16))
    >>> counts = Counts(rows, FitContext())
    >>> counts.classes
    array([2., 2.])
    >>> float(counts.cmi()[0, 1].round(4)), float(counts.mi()[0])
    (0.6931, 0.0)
    """

    def __init__(self, rows: Rows, context: FitContext) -> None:
        self.rows = rows
        self.context = context
        self._pairs: PairCounts | None = None
        self._trees: dict[Family, ContextTree] = {}

    @property
    def domain(self) -> Domain:
        """What the codes range over."""
        return self.rows.domain

    @cached_property
    def _singles(self) -> tuple[Floats, list[Floats]]:
        return self.context.engine.run(
            _SinglePass(self.domain), self.rows, self.context.progress, "value counts"
        )

    @property
    def classes(self) -> Floats:
        """N(y), shape (n_classes,)."""
        return self._singles[0]

    @property
    def values(self) -> list[Floats]:
        """N(x_i, y) of each feature, shape (arity, n_classes)."""
        return self._singles[1]

    def mi(self) -> Floats:
        """Return I(X_i; Y) in nats, shape (n_features,)."""
        return np.array([_information(joint) for joint in self.values]).round(DECIMALS)

    def cmi(self) -> Floats:
        """Return I(X_i; X_j | Y) in nats, shape (n_features, n_features), symmetric."""
        return self._cmi.copy()

    @cached_property
    def _cmi(self) -> Floats:
        from tanager.counts._kernels import conditional_mutual_information

        n = self.domain.n_features
        matrix = np.zeros((n, n))
        for i, j, joint in self._dense_pairs():
            matrix[i, j] = matrix[j, i] = conditional_mutual_information(joint)
        for i, j in pair_groups(self.domain)[1]:
            matrix[i, j] = matrix[j, i] = sparse_information(self.rows, (i, j), self.context)
        return matrix.round(DECIMALS)

    def map_pairs(self, function: Callable[[Floats], float]) -> Floats:
        """Apply a function of N(x_i, x_j, y) to every ordered pair i, j of features.

        Returns its values, shape (n_features, n_features), zero on the diagonal.
        Pairs with too many values to be counted densely are left at zero.
        """
        n = self.domain.n_features
        matrix = np.zeros((n, n))
        for i, j, joint in self._dense_pairs():
            matrix[i, j] = function(joint)
            matrix[j, i] = function(np.ascontiguousarray(joint.transpose(1, 0, 2)))
        return matrix

    def pair(self, i: int, j: int) -> Floats:
        """Return N(x_i, x_j, y), shape (arity_i, arity_j, n_classes)."""
        tree_shape = (self.domain.n_classes, self.domain.arities[i], self.domain.arities[j])
        pairs = self._pairs
        if pairs is not None:
            low, high = min(i, j), max(i, j)
            joint = pairs.joint(_triangular(low, high, self.domain.n_features))
            return joint if i < j else joint.transpose(1, 0, 2)
        tree = build_trees(self.rows, [(j, (i,))], self.context, "pair counts")[0]
        leaf, above = tree.levels[2], tree.levels[1]
        dense = np.zeros(tree_shape)
        node = leaf.cell_nodes()
        dense[above.value[leaf.parent[node]], leaf.value[node], leaf.cell_value] = leaf.cell_count
        return dense.transpose(1, 2, 0)

    def kept_pair(self, i: int, j: int) -> Floats | None:
        """Return N(x_i, x_j, y) where the pair counts are at hand, without another pass.

        They are after `cmi` or `map_pairs`, unless they are too many to be kept.
        """
        return self.pair(i, j) if self._pairs is not None else None

    def _dense_pairs(self) -> Iterator[tuple[int, int, Floats]]:
        """Iterate over (i, j, counts) of the dense pairs; kept where one pass holds all."""
        if self._pairs is not None:
            yield from _each(self._pairs)
            return
        groups, sparse = pair_groups(self.domain)
        for left, right in groups:
            pairs = self._run_with_singles(PairPass(self.domain, left, right), "pair counts")
            if len(groups) == 1 and not sparse:
                self._pairs = pairs
            yield from _each(pairs)

    def _run_with_singles(self, pass_: PairPass, stage: str) -> PairCounts:
        """Run a pass, and gather N(y) and N(x, y) on the way if they are not known."""
        engine, progress = self.context.engine, self.context.progress
        if "_singles" in self.__dict__:
            return engine.run(pass_, self.rows, progress, stage)
        both = Passes(_SinglePass(self.domain), pass_)
        self._singles, pairs = engine.run(both, self.rows, progress, stage)
        return cast(PairCounts, pairs)

    def trees(self, structure: Families) -> list[ContextTree]:
        """Return the context tree of each family of a structure.

        Families with at most one parent come from the pair counts where those
        are at hand; the others are counted in one more pass.
        """
        families = list(zip(structure.selected, structure.parent_indices, strict=True))
        known = self._trees
        for feature, parents in families:
            if (feature, parents) in known:
                continue
            if not parents and "_singles" in self.__dict__:
                known[feature, parents] = tree_from_dense(self.values[feature].T)
            elif len(parents) == 1 and self._pairs is not None:
                joint = self.pair(parents[0], feature)
                known[feature, parents] = tree_from_dense(joint.transpose(2, 0, 1))
        rest = [family for family in families if family not in known]
        if rest:
            known.update(zip(rest, build_trees(self.rows, rest, self.context), strict=True))
        return [known[family] for family in families]


class Families(Protocol):
    """Anything that lists features and their ordered parents, as a structure does."""

    @property
    def selected(self) -> tuple[int, ...]:
        """The features."""

    @property
    def parent_indices(self) -> tuple[tuple[int, ...], ...]:
        """The parents of each."""


def _each(pairs: PairCounts) -> Iterator[tuple[int, int, Floats]]:
    for at, (i, j) in enumerate(zip(pairs.left, pairs.right, strict=True)):
        yield int(i), int(j), pairs.joint(at)


def _triangular(i: int, j: int, n: int) -> int:
    """Return the position of pair i < j among the upper triangle's, row by row."""
    return i * n - i * (i + 1) // 2 + j - i - 1


class _SinglePass:
    """Gathers N(y) and N(x_i, y)."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        cells = domain.arities * domain.n_classes
        self.start = np.concatenate([[0], np.cumsum(cells)]).astype(np.int64)

    def zero(self) -> tuple[Floats, Floats]:
        return np.zeros(self.domain.n_classes), np.zeros(int(self.start[-1]))

    def update(self, state: tuple[Floats, Floats], chunk: Chunk) -> tuple[Floats, Floats]:
        from tanager.counts._kernels import add_value_counts

        weights = NO_WEIGHTS if chunk.weights is None else chunk.weights
        state[0][:] += np.bincount(chunk.labels, chunk.weights, self.domain.n_classes)
        add_value_counts(
            chunk.codes,
            chunk.labels,
            weights,
            self.domain.arities,
            self.domain.n_classes,
            self.start,
            state[1],
        )
        return state

    def merge(self, a: tuple[Floats, Floats], b: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
        return a[0] + b[0], a[1] + b[1]

    def finish(self, state: tuple[Floats, Floats]) -> tuple[Floats, list[Floats]]:
        classes, flat = state
        values = [flat[a:b].reshape(-1, self.domain.n_classes) for a, b in pairwise(self.start)]
        return classes, values


def _information(joint: Floats) -> float:
    """Return I(X; Y) in nats from counts (arity, n_classes)."""
    total = joint.sum()
    if total <= 0:
        return 0.0
    expected = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True) / total
    seen = joint > 0
    return float((joint[seen] * np.log(joint[seen] / expected[seen])).sum() / total)
