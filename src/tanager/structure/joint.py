"""The running log-joint: the effect of one more family on the training rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.codes import Chunk, Codes, Domain
from tanager.errors import MemoryBoundError
from tanager.numerics import Floats, Ints, starts_of

Units = NDArray[np.int32]

SCORES = ("cr", "cl")
MAX_CELLS = 1 << 26  # in one family's table
CELL_BYTES = 20  # of a table while it's counted: counts, logarithms, two kinds of changes
KEPT_BYTES = 1 << 29  # size of the tables kept for later rounds and orders


class FamilyChange(NamedTuple):
    """The change a family makes to the log-joint, per fold, context, value and class."""

    change: Units
    adverse: Units  # how much the most favoured class gains on each
    most_gained: int  # the most a true class can gain on another, over all rows
    most_lost: int


class Pack(NamedTuple):
    """The changes of one child under each single parent, end to end."""

    start: Ints  # (n_features + 1,); offset of each parent's tables
    change: Units  # (sum of sizes,); as in `FamilyChange`, for the parents in `known`
    adverse: Units
    most_gained: Ints  # (n_features,)
    most_lost: Ints
    known: NDArray[np.bool_]


class SortedRows(NamedTuple):
    """The training rows sorted by increasing margin."""

    log_joint: Units  # (n_rows, n_classes), plus one unit for classes before the true one
    labels: NDArray[np.uint16]
    weights: Floats
    folds: NDArray[np.uint8]
    margin: Units  # lead of the true class over its strongest rival; the row is correct if >= 0
    rival: NDArray[np.uint16]


class Grid(NamedTuple):
    """Size of the integer units, in nats."""

    unit: float  # of the log-joint
    step: float  # of the conditional log-likelihood


class RunningJoint:
    """Log-joint of the training rows under a model that grows family by family, from naive Bayes.

    rows: all training rows; copied, since they are kept sorted by margin.
    score: {"cr", "cl"}; classification rate or conditional log-likelihood.
    folds: shape (n_rows,); each row's tables come from the other folds: scores are cross-validated.
    memory: bytes that one table may take while it's counted, and all that are kept.

    A candidate family costs one look-up per row, and most rows are settled by one comparison.
    Log-probabilities are rounded to a grid of :math:`2^{-s}` nats, s at most 20, on which every sum
    fits 32 bits: a log-joint updated edge by edge equals one computed afresh, and no score depends
    on the order of rows. A row whose parent value is unknown is scored without that parent; an
    unknown child contributes nothing.
    """

    def __init__(
        self,
        domain: Domain,
        rows: Chunk,
        *,
        score: str = "cr",
        epsilon: float = 1e-5,
        folds: Ints | None = None,
        memory: int = MAX_CELLS * CELL_BYTES,
    ) -> None:
        self.domain, self.kind, self.epsilon = domain, score, epsilon
        n_rows, weights = rows.n_rows, rows.row_weights
        fold_of = np.zeros(n_rows, np.uint8) if folds is None else folds.astype(np.uint8)
        self._widths = domain.arities.astype(np.int64) + 1  # plus "unknown"
        self.n_folds = 1 if folds is None else int(folds.max(initial=0)) + 1
        self._total = max(float(weights.sum()), 1e-300)
        self._half, self.grid = self._choose_grid()
        self._codes: Codes = rows.codes
        log_joint = np.zeros((n_rows, domain.n_classes), np.int32)
        margin, rival = np.zeros(n_rows, np.int32), np.zeros(n_rows, np.uint16)
        self._rows = SortedRows(log_joint, rows.labels, weights, fold_of, margin, rival)
        self._packs: dict[int, Pack] = {}
        self._packed_bytes = 0
        self._max_cells = min(MAX_CELLS, memory // CELL_BYTES)
        self._kept_bytes = min(KEPT_BYTES, memory)
        self._naive: list[Units] = []
        self._count_naive()
        self.restart()

    def __getstate__(self) -> dict[str, Any]:
        """Drop the tables: another process counts the rows itself."""
        return {**self.__dict__, "_packs": {}, "_packed_bytes": 0}

    def _choose_grid(self) -> tuple[float, Grid]:
        """Return half the units in a nat, and the grid: as fine as the integers allow."""
        widest = float(self.domain.arities.max(initial=1)) + self.domain.n_classes
        deepest = (self.domain.n_features + 1) * np.log((1 + widest * self.epsilon) / self.epsilon)
        half = 2.0 ** min(20, int(np.floor(29 - np.log2(deepest))))
        step = 2.0 ** (int(np.ceil(np.log2(max(self._total, 1.0) * deepest))) - 52)
        return half, Grid(0.5 / half, step)

    def _count_naive(self) -> None:
        """Count the class and every feature given it."""
        rows, n_classes = self._rows, self.domain.n_classes
        prior = np.zeros((self.n_folds, 1, n_classes + 1, 1))
        np.add.at(prior[:, 0, :, 0], (rows.folds, rows.labels), rows.weights)
        log_prior = np.zeros(prior.shape, np.int32)
        known = np.ones(1, bool)
        native.log_table(prior, known, log_prior.copy(), 1, self.epsilon, self._half, log_prior)
        self._log_prior: Units = log_prior[:, 0, :n_classes, 0]
        features = range(self.domain.n_features)
        self._naive = [self._table(i, (), self._count(i, ())) for i in features]

    def restart(self) -> None:
        """Go (back) to naive Bayes; tables already built are kept."""
        rows = self._rows
        ahead = np.arange(self.domain.n_classes) < rows.labels[:, None]
        rows.log_joint[:] = self._log_prior[rows.folds] + ahead
        nowhere = self._contexts(())
        for i, table in enumerate(self._naive):
            native.add_change(nowhere, self._codes[i], rows.folds, table, rows.log_joint)
        self._sort()

    def _sort(self) -> None:
        """Sort the rows by margin and update the score."""
        rows = self._rows
        native.find_margins(rows.log_joint, rows.labels, rows.margin, rows.rival)
        order = np.argsort(rows.margin, kind="stable")
        self._codes = np.take(self._codes, order, axis=1)
        self._rows = SortedRows._make(column[order] for column in rows)
        self._n_wrong = int(np.searchsorted(self._rows.margin, np.int32(0)))
        if self.kind == "cr":
            self.score = float(self._rows.weights[self._n_wrong :].sum())
        else:
            found = np.zeros(1)
            native.likelihood(*self._rows[:3], *self.grid, found)
            self.score = float(found[0])

    @property
    def mean_score(self) -> float:
        """Classification rate, or mean conditional log-likelihood in nats."""
        factor = 1.0 if self.kind == "cr" else self.grid.step
        return self.score * factor / self._total

    def change(self, child: int, parents: tuple[int, ...]) -> FamilyChange:
        """Return the effect of giving a still parentless feature these parents."""
        counts = self._count(child, parents)
        table = self._table(child, parents, counts)
        change, adverse = np.empty_like(table), np.empty_like(table)
        reach = np.zeros(2, np.int64)
        native.replace_table(table, self._naive[child], counts, change, adverse, reach)
        return FamilyChange(change, adverse, *reach.tolist())

    def gain(
        self, child: int, parents: tuple[int, ...], family: FamilyChange, floor: float = -np.inf
    ) -> float:
        """Return the gain in score; if it is at most `floor`, some upper bound at most `floor`."""
        where, rows, out = (self._contexts(parents), self._codes[child]), self._rows, np.zeros(1)
        if self.kind == "cr":
            reach = (self._n_wrong, family.most_gained, family.most_lost)
            native.rate_gain(*rows, *reach, *where, *family[:2], floor, out)
        else:
            given = (*rows[:4], *self.grid, self.score, *where, family.change, floor, out)
            native.likelihood_gain(*given)
        return float(out[0])

    def single_gains(
        self, child: int, parents: Sequence[int], floor: float, *, prune: bool = True
    ) -> Floats:
        """Return `gain` of a child with each parent; with `prune`, bounds for poor ones."""
        out = np.empty(len(parents))
        pack = self._pack(child) if self.kind == "cr" else None
        if pack is None:
            for at, p in enumerate(parents):
                out[at] = self.gain(child, (p,), self.change(child, (p,)), floor)
                floor = max(floor, float(out[at])) if prune else floor
            return out
        for p in parents:
            if not pack.known[p]:
                self._put(pack, child, p)
        where = (self._codes, child, np.array(parents, np.int64), self._widths)
        changes = (*pack[:5], self.n_folds)
        given = (*self._rows, self._n_wrong, *where, *changes, floor, prune, out)
        native.rate_gains(*given)
        return out

    def _pack(self, child: int) -> Pack | None:
        """Return where a child's tables under single parents are stored; None past the bound."""
        known = self._packs.get(child)
        if known is not None:
            return known
        widths = self._widths
        sizes = self.n_folds * self.domain.n_classes * widths[child] * widths
        sizes[child] = 0
        size = int(sizes.sum())
        if self._packed_bytes + 8 * size > self._kept_bytes:
            return None
        self._packed_bytes += 8 * size
        n, start = widths.shape[0], starts_of(sizes)
        empty, none = np.empty((2, size), np.int32), np.zeros((2, n), np.int64)
        pack = Pack(start, empty[0], empty[1], none[0], none[1], np.zeros(n, np.bool_))
        # If two threads get here together, both continue with the first one's.
        return self._packs.setdefault(child, pack)

    def _put(self, pack: Pack, child: int, parent: int) -> None:
        """Build the tables of one parent."""
        family = self.change(child, (parent,))
        where = slice(int(pack.start[parent]), int(pack.start[parent + 1]))
        pack.change[where], pack.adverse[where] = family.change.ravel(), family.adverse.ravel()
        pack.most_gained[parent], pack.most_lost[parent] = family.most_gained, family.most_lost
        pack.known[parent] = True

    def add(self, child: int, parents: tuple[int, ...], family: FamilyChange) -> None:
        """Give a feature these parents permanently."""
        context = self._contexts(parents)
        native.add_change(
            context, self._codes[child], self._rows.folds, family.change, self._rows.log_joint
        )
        self._sort()

    def _contexts(self, parents: tuple[int, ...]) -> Codes | Ints:
        """Return each row's joint parent value, with "unknown" as an extra value per parent."""
        if len(parents) == 1:
            column: Codes = self._codes[parents[0]]
            return column
        context = np.zeros(self._codes.shape[1], np.int64)
        for parent in parents:
            context *= self._widths[parent]
            context += self._codes[parent]
        return context

    def _count(self, child: int, parents: tuple[int, ...]) -> Floats:
        """Count a family, shape (n_folds, contexts, arity + 1, classes)."""
        width, *above = self._widths[[child, *parents]].tolist()
        shape = (self.n_folds, prod(above), width, self.domain.n_classes)
        self._check_size(child, parents, shape)
        counts = np.zeros(shape)
        native.count_family(self._contexts(parents), self._codes[child], *self._rows[1:4], counts)
        return counts

    def _table(self, child: int, parents: tuple[int, ...], counts: Floats) -> Units:
        """Return the family's log-table in units, with the shape of its counts."""
        known, ratio = np.ones(1, bool), 1
        for parent in parents:
            ratio = int(self._widths[parent])
            known = np.repeat(known, ratio)
            known[ratio - 1 :: ratio] = False
        if len(parents) > 1:
            shorter = self._table(child, parents[:-1], self._count(child, parents[:-1]))
        else:
            shorter = self._naive[child] if parents else self._uniform(child)
        table = np.empty(counts.shape, np.int32)
        native.log_table(counts, known, shorter, ratio, self.epsilon, self._half, table)
        return table

    def _uniform(self, child: int) -> Units:
        """Return the uniform table of a feature."""
        arity = int(self.domain.arities[child])
        table = np.zeros((self.n_folds, 1, arity + 1, self.domain.n_classes), np.int32)
        table[:, :, :arity] = 2 * int(np.rint(-self._half * np.log(max(arity, 1))))
        return table

    def _check_size(self, child: int, parents: tuple[int, ...], shape: tuple[int, ...]) -> None:
        if prod(shape) <= self._max_cells:
            return
        names, arities = self.domain.names, self.domain.arities
        blame = ", ".join(f"{names[i]!r} ({arities[i]} values)" for i in (*parents, child))
        raise MemoryBoundError(
            f"The table of {blame} and {shape[-1]} classes in {self.n_folds} folds exceeds "
            f"{self._max_cells:,} cells. Raise memory_limit, drop or group the widest feature, or "
            "lower max_parents."
        )
