"""Counts of many families, in as few passes over the rows as memory allows, and their trees."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from tanager import native
from tanager.codes import Chunk, Domain, Rows
from tanager.codes.hashing import folds_of
from tanager.codes.rows import exact_weights
from tanager.counts.pairs import Radix, RunStack, collapse, recode
from tanager.counts.tree import ContextTree, tree_from_cells
from tanager.engines import FitContext, Sums
from tanager.errors import ConfigurationError, MemoryBoundError
from tanager.numerics import Floats, Ints, split_by_size

MOST_LABELS = 65_535  # labels are uint16


class FoldPlan(NamedTuple):
    """How rows are assigned to folds: by a hash of seed and row index."""

    seed: int  # from `FitContext.row_seed`
    n_folds: int

    def domain(self, domain: Domain) -> Domain:
        """Return the domain with (fold, class) instead of the class."""
        if self.n_folds * domain.n_classes > MOST_LABELS:
            raise ConfigurationError(
                f"{self.n_folds} folds of {domain.n_classes:,} classes exceed the limit of "
                f"{MOST_LABELS:,} labels. Use parameters without folds, such as 'hdp'."
            )
        return replace(domain, n_classes=self.n_folds * domain.n_classes)


class FoldPass:
    """Runs a pass over rows whose labels are (fold, class)."""

    def __init__(self, inner: Any, plan: FoldPlan, n_classes: int) -> None:
        self.zero, self.merge, self.finish = inner.zero, inner.merge, inner.finish
        self._inner, self._plan, self._n_classes = inner, plan, n_classes

    def update(self, state: Any, chunk: Chunk) -> Any:
        """Add a relabelled chunk."""
        plan = self._plan
        fold = folds_of(plan.seed, chunk.indices, plan.n_folds).astype(np.uint16)
        labels = chunk.labels + fold * np.uint16(self._n_classes)
        return self._inner.update(state, chunk._replace(labels=labels))


Family = tuple[int, tuple[int, ...]]  # a feature and its parents in back-off order

DENSE_CELLS = 1 << 18  # families up to this size are counted in a dense array
TREE_CELLS = 1 << 26  # seen cells of all families together: 1 GiB of runs
RUN_BYTES = 48  # per cell while sorted runs are merged
LEAST_CELLS = 1 << 16  # always allowed for one family
PRIOR_CELLS = 1 << 22  # in a family that a prior is spread over
LEAST_LOG = -1000.0  # lower bound on the log-likelihood of a row, per feature


class FamilyCounts(NamedTuple):
    """Counts of one family by label, which is the class, or fold and class."""

    arities: tuple[int, ...]  # of the label, the parents in back-off order, the feature
    radix: Radix  # how the cells are numbered, possibly without the last parents
    keys: Ints  # (n_parts, n_cells); the keys of the cells seen, sorted
    cells: Floats  # (n_cells,); their counts

    @classmethod
    def from_dense(cls, counts: Floats) -> FamilyCounts:
        """Return the counts of an array (label, *parents, feature)."""
        flat = counts.ravel()
        keys = np.flatnonzero(flat)
        return cls(counts.shape, Radix(counts.shape), keys[None], flat[keys])

    @property
    def n_parents(self) -> int:
        """Number of parents counted."""
        return len(self.radix.arities) - 2

    def codes(self) -> Ints:
        """Return the codes (label, parents, feature) of the cells seen, (n_variables, n_cells)."""
        return self.radix.decode(self.keys)

    def to_dense(self) -> Floats:
        """Return the counts in shape `arities`; values of parents not counted share them evenly."""
        counted = self.radix.arities
        dense, uncounted = np.zeros(counted), self.arities[len(counted) - 1 : -1]
        dense[tuple(self.codes())] = self.cells
        wide = dense.reshape(*counted[:-1], *(1 for _ in uncounted), counted[-1])
        return np.broadcast_to(wide, self.arities) / prod(uncounted)

    def tree(self, n_folds: int = 1, left_out: int | None = None) -> ContextTree:
        """Return the tree of all rows, or of all rows outside one fold."""
        merged = self.merged(n_folds, left_out)
        return tree_from_cells(merged.codes(), merged.cells, merged.arities)

    def merged(self, n_folds: int = 1, left_out: int | None = None) -> FamilyCounts:
        """Return the counts by class, of all rows or of all rows outside one fold."""
        if n_folds == 1:
            return self
        n_classes = self.arities[0] // n_folds
        codes, cells = self.codes(), self.cells
        fold, codes[0] = np.divmod(codes[0], n_classes)
        if left_out is not None:
            codes, cells = codes[:, fold != left_out], cells[fold != left_out]
        radix = Radix((n_classes, *self.radix.arities[1:]))
        arities = (n_classes, *self.arities[1:])
        return FamilyCounts(arities, radix, *collapse(radix.keys(codes), cells))

    def plus(self, other: FamilyCounts) -> FamilyCounts:
        """Return the summed counts; if one has fewer parents, so has the sum."""
        radix = min(self.radix, other.radix, key=lambda radix: len(radix.arities))
        runs = [recode(one.radix, radix, one.keys, one.cells) for one in (self, other)]
        keys, cells = (np.concatenate(parts, axis=-1) for parts in zip(*runs, strict=True))
        return FamilyCounts(self.arities, radix, *collapse(keys, cells))


@dataclass(frozen=True, eq=False)
class PriorCounts:
    """Counts to add to those of the rows."""

    classes: Floats  # (n_classes,)
    # by feature: some of its parents, and counts of shape (n_classes, *parents, values)
    families: Mapping[int, tuple[tuple[int, ...], Floats]]

    def add(
        self, families: Sequence[Family], counts: Sequence[FamilyCounts], names: Sequence[str]
    ) -> list[FamilyCounts]:
        """Return the families' counts plus the prior's, spread evenly over additional parents."""
        found = list(counts)
        for at, (feature, parents) in enumerate(families):
            if feature in self.families:
                shape = counts[at].arities
                moved = self.aligned(feature, parents, shape, names)
                axes = range(1, 1 + len(parents))
                spread = moved / prod(shape[axis] for axis in axes if moved.shape[axis] == 1)
                more = FamilyCounts.from_dense(np.broadcast_to(spread, shape).copy())
                found[at] = counts[at].plus(more)
        return found

    def aligned(
        self, feature: int, parents: tuple[int, ...], shape: tuple[int, ...], names: Sequence[str]
    ) -> Floats:
        """Return a feature's prior in the `shape` of its family, of length 1 along new parents."""
        own, values = self.families[feature]
        if prod(shape) > PRIOR_CELLS:
            raise MemoryBoundError(
                f"The prior for {names[feature]!r} would need {prod(shape):,} cells, more than the "
                f"limit of {PRIOR_CELLS:,}. Learn a structure with fewer parents."
            )
        # Parents missing from the structure are summed out.
        values = values.sum(axis=tuple(1 + at for at, p in enumerate(own) if p not in parents))
        own = tuple(parent for parent in own if parent in parents)
        order = [own.index(parent) for parent in parents if parent in own]
        moved = values.transpose(0, *(1 + axis for axis in order), values.ndim - 1)
        return np.expand_dims(moved, [1 + at for at, one in enumerate(parents) if one not in own])


@dataclass(frozen=True, eq=False)
class Trees(Sequence[ContextTree]):
    """The context trees of families, each built on demand: they're several times their counts."""

    counts: Sequence[FamilyCounts]
    n_folds: int = 1  # see `FamilyCounts.merged`
    left_out: int | None = None

    def __len__(self) -> int:
        return len(self.counts)

    def merged(self) -> list[FamilyCounts]:
        """Return the counts behind the trees, by class."""
        return [family.merged(self.n_folds, self.left_out) for family in self.counts]

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        return self.counts[at].tree(self.n_folds, self.left_out)


def count_families(
    rows: Rows,
    families: Sequence[Family],
    context: FitContext,
    plan: FoldPlan | None = None,
    max_cells: int | None = None,
    parent_arities: Ints | None = None,
) -> list[FamilyCounts]:
    """Count the given families, in one pass or in as few as the memory limit allows.

    A family with more than `max_cells` distinct (context, value) pairs loses its last parents,
    with a warning: its tree has no nodes at those depths, and every estimator backs off.

    Rows with an unknown member aren't counted. If the `parent_arities` of a feature exceed its
    arity by one, unknown is one more of its values as a parent, so that shorter contexts include
    the rows in which a later parent is unknown.
    """
    if max_cells is None:
        max_cells = most_cells(len(families))
    domain = rows.domain
    counted = domain if plan is None else plan.domain(domain)
    parent_arities = domain.arities if parent_arities is None else parent_arities
    radices = [_radix(counted, parent_arities, family) for family in families]
    found: list[FamilyCounts] = []
    for group in split_families(radices, rows.n_rows, context):
        gather: Any = FamilyPass(group, max_cells)
        if plan is not None:
            gather = FoldPass(gather, plan, domain.n_classes)
        found += context.engine.run(gather, rows, context.progress, "family counts")
    for (feature, parents), counts in zip(families, found, strict=True):
        if counts.n_parents < len(parents):
            warnings.warn(
                f"Feature {domain.names[feature]!r} occurs in more than {max_cells:,} combinations "
                f"with the class and its {len(parents)} parents: only the first "
                f"{counts.n_parents} parents were counted. Merge rare values of the parents, or "
                "lower k.",
                UserWarning,
                stacklevel=2,
            )
    return found


def most_cells(n_families: int) -> int:
    """Return how many cells each of `n_families` may have: 67 million in total."""
    return max(LEAST_CELLS, TREE_CELLS // max(1, n_families))


def build_trees(
    rows: Rows,
    families: Sequence[Family],
    context: FitContext,
    max_cells: int | None = None,
    parent_arities: Ints | None = None,
) -> Trees:
    """Count the given families and return their context trees; see `count_families`."""
    return Trees(count_families(rows, families, context, None, max_cells, parent_arities))


def _radix(domain: Domain, parent_arities: Ints, family: Family) -> Radix:
    """Return the numbering of a family's cells."""
    feature, parents = family
    of_parents = (int(parent_arities[p]) for p in parents)
    arities = (domain.n_classes, *of_parents, int(domain.arities[feature]))
    return Radix(arities, (*parents, feature))


def split_families(radices: Sequence[Radix], n_rows: int, context: FitContext) -> list[list[Radix]]:
    """Split families, in order, so that the counts of a group fit in memory for any rows."""
    jobs = int(getattr(context.engine, "n_jobs", 1))
    dense = [jobs * prod(radix.arities) for radix in radices]
    runs = [RUN_BYTES * min(n_cells, n_rows) for n_cells in dense]
    most = jobs * DENSE_CELLS
    sizes = [8 * n if n <= most else run for n, run in zip(dense, runs, strict=True)]
    return split_by_size(radices, sizes, context.work_limit)


CellCounts = tuple[Floats | RunStack, ...]  # of each family


@dataclass
class FamilyPass(Sums):
    """Counts families: small ones in dense arrays, others in sorted runs."""

    radices: Sequence[Radix]
    max_cells: int

    def zero(self) -> CellCounts:
        """Return no counts."""
        sizes = [prod(radix.arities) for radix in self.radices]
        return tuple(
            np.zeros(size) if size <= DENSE_CELLS else RunStack(radix, self.max_cells)
            for size, radix in zip(sizes, self.radices, strict=True)
        )

    def update(self, state: CellCounts, chunk: Chunk) -> CellCounts:
        """Add the counts of a chunk."""
        for radix, counts in zip(self.radices, state, strict=True):
            _add_keys(radix, counts, *radix.encode(chunk))
        return state

    def finish(self, state: CellCounts) -> list[FamilyCounts]:
        """Wrap the counts."""
        found = []
        for radix, counts in zip(self.radices, state, strict=True):
            if isinstance(counts, RunStack):
                keys, cells = counts.total()  # may drop a parent, so call it before using the radix
                found.append(FamilyCounts(radix.arities, counts.radix, keys, cells))
            else:
                found.append(FamilyCounts.from_dense(counts.reshape(radix.arities)))
        return found


def _add_keys(radix: Radix, counts: Floats | RunStack, keys: Ints, weights: Floats) -> None:
    """Add rows' keys to the counts of a family."""
    if isinstance(counts, RunStack):
        counts.add(*recode(radix, counts.radix, *collapse(keys, weights)))
    else:
        native.count_keys(keys[0], weights, counts)


class Expectation(Protocol):
    """A network's expectations for the unknown features of rows."""

    def expected(
        self, chunk: Chunk, total_weight: float, log_likelihood: Floats
    ) -> Iterator[tuple[int, Chunk]]:
        """Yield a family's position and its weighted members; write each row's log-likelihood."""


class Expected(NamedTuple):
    """Expected counts from rows with unknown members, and the log-likelihood of all rows."""

    families: list[FamilyCounts]
    log_likelihood: float
    n_left_out: int  # rows excluded because their unknown features are too strongly connected


def count_expected(
    rows: Rows, families: Sequence[Family], expectation: Expectation, context: FitContext
) -> Expected:
    """Return the expected counts of the given families from rows with an unknown member."""
    domain = rows.domain
    radices = [_radix(domain, domain.arities, family) for family in families]
    found = Expected([], 0.0, 0)
    for group in split_families(radices, rows.n_rows, context):
        first, most = len(found.families), most_cells(len(families))
        gather = _ExpectedPass(group, most, first, expectation, rows.total_weight)
        one = context.engine.run(gather, rows, context.progress, "expected counts")
        found = one._replace(families=found.families + one.families)
    return found


@dataclass
class _ExpectedPass(FamilyPass):
    """Counts expected members; the last state is the log-likelihood and number of rows left out."""

    first: int  # position of the first of these families among all
    expectation: Expectation
    total_weight: float

    def zero(self) -> CellCounts:
        return (*super().zero(), np.zeros(2))

    def update(self, state: CellCounts, chunk: Chunk) -> CellCounts:
        weights, logs = chunk.row_weights, np.empty(chunk.n_rows)
        for place, part in self.expectation.expected(chunk, self.total_weight, logs):
            at = place - self.first
            if 0 <= at < len(self.radices):
                radix = self.radices[at]
                own = Radix(radix.arities, tuple(range(len(part.codes))))
                _add_keys(radix, state[at], *own.encode(part))
        told = ~np.isnan(logs)
        least = LEAST_LOG * max(1, len(chunk.codes))
        terms = weights[told] * np.maximum(logs[told], least)
        total = cast(Floats, state[-1])
        total[0] += exact_weights(terms, -least * self.total_weight).sum()
        total[1] += len(logs) - told.sum()
        return state

    def finish(self, state: CellCounts) -> Expected:  # type: ignore[override]
        total = cast(Floats, state[-1])
        return Expected(super().finish(state[:-1]), float(total[0]), int(total[1]))
