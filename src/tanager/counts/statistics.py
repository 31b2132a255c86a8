"""Counts of the training rows, gathered in few passes, optionally by fold."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from tanager import native
from tanager.codes import Chunk, Domain, Rows
from tanager.codes.hashing import Fold
from tanager.counts.families import (
    Family,
    FamilyCounts,
    FamilyPass,
    FoldPass,
    FoldPlan,
    Trees,
    count_families,
    split_families,
)
from tanager.counts.information import (
    DECIMALS,
    ConditionalInformation,
    PairScore,
    chance_cmi,
    chance_mi,
    information,
)
from tanager.counts.pairs import (
    NO_WEIGHTS,
    PairCells,
    PairCounts,
    PairPass,
    Radix,
    pair_tiles,
    tile_pairs,
)
from tanager.engines import FitContext, Sums
from tanager.engines.keeping import release, scratch_array
from tanager.engines.passes import Passes
from tanager.numerics import Floats, Ints, starts_of


class Counts:
    """Sufficient statistics of the training rows, optionally leaving out one fold.

    Singles (N(y), N(x, y)), pairs and families take one pass each on first use, and are kept; the
    pass over the pairs gathers the singles, too, unless they are known. With `folds` every count
    has the fold as an axis, so `without` computes the counts of the other folds by subtraction.

    >>> import numpy as np
    >>> from tanager.codes import Domain, Rows
    >>> domain = Domain(("a", "b"), np.array([2, 2]), 2)
    >>> codes = np.array([[0, 0, 1, 1], [0, 1, 0, 1]], np.uint8)
    >>> rows = Rows.in_memory(domain, codes, np.array([0, 1, 1, 0], np.uint16))
    >>> counts = Counts(rows, FitContext(), FoldPlan(seed=1, n_folds=2))
    >>> counts.classes
    array([2., 2.])
    >>> float(counts.cmi()[0, 1].round(4)), float(counts.mi()[0])
    (0.6931, 0.0)
    >>> (counts.without(0).classes + counts.without(1).classes == counts.classes).all()
    np.True_
    """

    def __init__(self, rows: Rows, context: FitContext, folds: FoldPlan | None = None) -> None:
        self.context, self.folds = context, folds
        self._n_folds = 1 if folds is None else folds.n_folds
        self._left_out: int | None = None
        self._gathered = _Gathered(rows, context, folds)

    def without(self, fold: int) -> Counts:
        """Return the counts of all rows outside one fold, without another pass."""
        assert self.folds is not None, "Counts without folds can't leave one out"
        view = Counts(self._gathered.rows, self.context, self.folds)
        view._gathered, view._left_out = self._gathered, fold
        return view

    def with_expected(self, structure: Families, added: Sequence[FamilyCounts]) -> Counts:
        """Return the counts plus expected counts of a structure's families from incomplete rows."""
        known = self._gathered.families(structure.families)
        view = Counts(self._gathered.rows, self.context, self.folds)
        view._gathered.__dict__["singles"] = self._gathered.singles
        for family, mine, more in zip(structure.families, known, added, strict=True):
            view._gathered._families[family] = mine.plus(more)
        return view

    @cached_property
    def has_gaps(self) -> bool:
        """Whether any row has an unknown value."""
        n_rows = self.classes.sum()
        return any(values.sum() < n_rows for values in self.values)

    @property
    def domain(self) -> Domain:
        """The domain of the codes."""
        return self._gathered.rows.domain

    @property
    def rows(self) -> Rows:
        """The rows counted."""
        rows = self._gathered.rows
        if self._left_out is None or self.folds is None:
            return rows
        return rows.subset(Fold(self.folds.seed, self.folds.n_folds, self._left_out, inside=False))

    @cached_property
    def classes(self) -> Floats:
        """N(y), shape (n_classes,)."""
        return self._select(self._gathered.singles[0])

    @cached_property
    def values(self) -> list[Floats]:
        """N(x_i, y) for each feature, shape (arity, n_classes)."""
        return [self._select(joint) for joint in self._gathered.singles[1]]

    def _select(self, counts: Floats) -> Floats:
        """Sum counts (..., label) over the folds included here, to (..., class)."""
        if self._n_folds == 1:
            return counts
        by_fold = counts.reshape(*counts.shape[:-1], self._n_folds, -1)
        total: Floats = by_fold.sum(axis=-2)
        return total if self._left_out is None else total - by_fold[..., self._left_out, :]

    def mi(self, *, adjusted: bool = False) -> Floats:
        """Return I(X_i; Y) in nats, shape (n_features,); `adjusted` is as in `cmi`."""
        plain = np.array(list(map(information, self.values))).round(DECIMALS)
        if not adjusted:
            return plain
        return np.maximum(plain - chance_mi(self.classes, self.values), 0.0).round(DECIMALS)

    def cmi(self, among: Ints | None = None, *, adjusted: bool = False) -> Floats:
        """Return I(X_i; X_j | Y) in nats, (n_features, n_features), or of `among`, ascending.

        `adjusted` subtracts what is expected under independence, but not below zero.
        """
        plain = self._cmi if among is None else self.score_pairs(ConditionalInformation(), among)
        if not adjusted:
            return plain
        values = self.values if among is None else [self.values[feature] for feature in among]
        found = scratch_array(plain.shape, self.context.work_limit)
        for rows, chance in chance_cmi(self.classes, values):
            found[rows] = np.maximum(plain[rows] - chance, 0.0).round(DECIMALS)
            release(plain)
            release(found)
        return found

    @cached_property
    def _cmi(self) -> Floats:
        varying = np.flatnonzero(self.domain.arities > 1)
        n = self.domain.n_features
        if 2 * len(varying) >= n:
            matrix = self.score_pairs(ConditionalInformation())
        else:
            # A constant feature has no information about others, and wide tables have many of them.
            matrix = scratch_array((n, n), self.context.work_limit)
            matrix[np.ix_(varying, varying)] = self.cmi(varying)
        matrix.flags.writeable = False
        return matrix

    def score_pairs(
        self, score: PairScore, among: Ints | None = None, decimals: int | None = DECIMALS
    ) -> Floats:
        """Return the score of every ordered pair i, j, shape (n_features, n_features).

        Zero on the diagonal, in as few passes as memory allows; a matrix over the limit is in a
        temporary file. `among` is as in `cmi`.
        """
        n = self.domain.n_features if among is None else len(among)
        place = np.arange(self.domain.n_features)
        if among is not None:
            place[among] = np.arange(n)
        matrix = scratch_array((n, n), self.context.work_limit)
        for pairs in self._gathered.each_pairs(among):
            flat = self._select(pairs.flat.reshape(-1, pairs.domain.n_classes)).ravel()
            start = pairs.start // (pairs.domain.n_classes // self.domain.n_classes)
            here = pairs._replace(start=start, flat=flat, domain=self.domain)
            found = _rounded(score.joints(here), decimals)
            size, left, right = pairs.left.shape[0], place[pairs.left], place[pairs.right]
            matrix[left, right] = found[:size]
            matrix[right, left] = found[:size] if score.symmetric else found[size:]
            release(matrix)
        for pair, cells in self._gathered.each_wide(among, self._n_folds, self._left_out):
            both = [cells] if score.symmetric else [cells, cells.swapped()]
            found = _rounded(np.array([score.cells(one) for one in both]), decimals)
            i, j = place[list(pair)]
            matrix[i, j], matrix[j, i] = found[0], found[-1]
        return matrix

    def pair(self, i: int, j: int) -> Floats:
        """Return N(x_i, x_j, y), (arity_i, arity_j, n_classes); the caller checks the size."""
        joint = self._gathered.kept_pair(i, j)
        if joint is None:
            joint = self._gathered.families([(j, (i,))])[0].to_dense().transpose(1, 2, 0)
        return self._select(joint)

    def trees(self, structure: Families) -> Trees:
        """Return the context trees of a structure's families, built on demand from kept counts."""
        return Trees(self._gathered.families(structure.families), self._n_folds, self._left_out)


class Families(Protocol):
    """Anything that lists features and their ordered parents, like a structure."""

    @property
    def families(self) -> list[Family]:
        """Each feature with its parents."""


class _Gathered:
    """The counts so far, by (fold, class); shared by the counts of all folds."""

    def __init__(self, rows: Rows, context: FitContext, plan: FoldPlan | None) -> None:
        self.rows, self._context, self._plan = rows, context, plan
        self._domain = rows.domain if plan is None else plan.domain(rows.domain)
        self._pairs: PairCounts | None = None
        self._families: dict[Family, FamilyCounts] = {}

    def _run(self, pass_: Any, stage: str) -> Any:
        if self._plan is not None:
            pass_ = FoldPass(pass_, self._plan, self.rows.domain.n_classes)
        return self._context.engine.run(pass_, self.rows, self._context.progress, stage)

    @cached_property
    def singles(self) -> tuple[Floats, list[Floats]]:
        """N(label), and N(x, label) for each feature."""
        return self._run(_SinglePass(self._domain), "value counts")

    def _pair_tiles(self, among: Ints | None) -> Any:
        # Each thread has its own counts, and one more array holds their sum.
        n_copies = int(getattr(self._context.engine, "n_jobs", 1)) + 1
        return pair_tiles(self._domain, self._context.work_limit // n_copies, among)

    def each_pairs(self, among: Ints | None = None) -> Iterator[PairCounts]:
        """Iterate over the dense pairs, one pass per tile; kept if one pass holds them all."""
        if self._pairs is not None and among is None:
            yield self._pairs
            return
        tiles, wide = self._pair_tiles(among)
        for tile in tiles:
            left, right = tile_pairs(self._domain, *tile)
            if not len(left):
                continue
            gather = PairPass(self._domain, left, right)
            if "singles" in self.__dict__:
                pairs = self._run(gather, "pair counts")
            else:  # collect them during the iteration
                both = Passes(_SinglePass(self._domain), gather)
                self.__dict__["singles"], pairs = self._run(both, "pair counts")
            if len(tiles) == 1 and not wide and among is None:
                self._pairs = pairs
            yield pairs

    def each_wide(
        self, among: Ints | None, n_folds: int, left_out: int | None
    ) -> Iterator[tuple[tuple[int, ...], PairCells]]:
        """Iterate over the wide pairs and their cells by class, one pass per group."""
        wide, domain = self._pair_tiles(among)[1], self._domain
        radices = [
            Radix((domain.n_classes, *domain.arities[list(pair)].tolist()), pair) for pair in wide
        ]
        for group in split_families(radices, self.rows.n_rows, self._context):
            found = self._run(FamilyPass(group, np.iinfo(np.int64).max), "pair counts")
            for radix, counts in zip(group, found, strict=True):
                merged = counts.merged(n_folds, left_out)
                label, left, right = merged.codes()
                n_classes, *sizes = merged.arities
                cells = PairCells(left, right, label, merged.cells, (*sizes, n_classes))
                yield radix.members, cells

    def kept_pair(self, i: int, j: int) -> Floats | None:
        """Return N(x_i, x_j, label) if all pairs are kept."""
        if self._pairs is None:
            return None
        low, high = min(i, j), max(i, j)
        place = low * self._domain.n_features - low * (low + 1) // 2 + high - low - 1
        joint = self._pairs.joint(place)  # pairs are in row-major order of the upper triangle
        return joint if i < j else joint.transpose(1, 0, 2)

    def families(self, families: list[Family]) -> list[FamilyCounts]:
        """Return the counts of some families, counting only those not yet counted."""
        known = self._families
        for feature, parents in set(families) - known.keys():
            if not parents:
                known[feature, parents] = FamilyCounts.from_dense(self.singles[1][feature].T)
            elif len(parents) == 1:
                joint = self.kept_pair(parents[0], feature)
                if joint is not None:
                    known[feature, parents] = FamilyCounts.from_dense(joint.transpose(2, 0, 1))
        rest = [family for family in families if family not in known]
        if rest:
            counted = count_families(self.rows, rest, self._context, self._plan)
            known.update(zip(rest, counted, strict=True))
        return [known[family] for family in families]


class _SinglePass(Sums):
    """Gathers N(y) and N(x_i, y)."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.start = starts_of(domain.arities * domain.n_classes)

    def zero(self) -> tuple[Floats, Floats]:
        return np.zeros(self.domain.n_classes), np.zeros(int(self.start[-1]))

    def update(self, state: tuple[Floats, Floats], chunk: Chunk) -> tuple[Floats, Floats]:
        weights = NO_WEIGHTS if chunk.weights is None else chunk.weights
        state[0][:] += np.bincount(chunk.labels, chunk.weights, self.domain.n_classes)
        sizes = self.domain.arities, self.domain.n_classes, self.start
        native.count_values(chunk.codes, chunk.labels, weights, *sizes, state[1])
        return state

    def finish(self, state: tuple[Floats, Floats]) -> tuple[Floats, list[Floats]]:
        classes, flat = state
        values = [flat[a:b].reshape(-1, self.domain.n_classes) for a, b in pairwise(self.start)]
        return classes, values


def _rounded(scores: Floats, decimals: int | None) -> Floats:
    return scores if decimals is None else scores.round(decimals)


def fingerprint_counts(classes: Floats, values: Sequence[Floats]) -> str:
    """Return a short hash of N(y) and N(x_i, y): a report recognises training rows by it."""
    tables = (np.ascontiguousarray(table, "<f8").tobytes() for table in (classes, *values))
    return hashlib.sha256(b"".join(tables)).hexdigest()[:16]
