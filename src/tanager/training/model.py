"""The layout of a training run's tables, its rows, and its parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from math import prod
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.codes import Chunk
from tanager.errors import check_cells
from tanager.numerics import Floats, Ints, log_softmax

MAX_TRAINED_CELLS = 1 << 27  # 1 GiB of log-probabilities, three times that with Adam's moments
CELL_BYTES = 40  # of a cell in training: its logit, Adam's moments, and a gradient or an average
INITIAL_RANGE = 0.1  # initial logits are U(-0.1, 0.1)
PRIOR_ROWS = 5.0  # prior weight, in rows, of the next shorter context
NO_PARENT = -1

Columns = tuple[NDArray[np.int32], NDArray[np.int32]]  # (n_columns, n_rows); contexts, children


class Slots(NamedTuple):
    """The position of every table; see the drawing in src/native/training.c."""

    column: Ints  # (n_features, n_slots); the context column each slot uses, -1 for the class alone
    n_contexts: Ints  # (n_features, n_slots)
    block: Ints  # (n_features, n_slots); index of the table's first context among all tables
    cell: Ints  # (n_features, n_slots); offset of the table in the array of all cells
    table: Ints  # (n_features, n_slots); index of the table
    shared: Ints  # (n_features, n_slots); its offset with one block per table
    arity: Ints  # (n_features,)
    n_slots: Ints  # (n_features,); the feature's number of slots; beyond, rows above are padding
    n_classes: int

    @classmethod
    def build(
        cls,
        columns: list[list[int]],
        n_contexts: list[list[int]],
        arities: Ints,
        n_classes: int,
        names: Sequence[str] | None = None,
        check: Callable[[dict[str, int], int], None] | None = None,
    ) -> Slots:
        """Lay out the tables of each feature's slots; `check` gets their bytes by name."""
        names = [f"number {at}" for at in range(len(columns))] if names is None else names
        # Python integers: the sizes of deep families may overflow 64 bits.
        each = {
            name: sum(slots) * int(arity) * n_classes
            for name, slots, arity in zip(names, n_contexts, arities, strict=True)
        }
        if check is not None:
            check({name: CELL_BYTES * cells for name, cells in each.items()}, n_classes)
        widest, most = max(each.items(), key=itemgetter(1), default=("", 0))
        remedy = (
            f"Feature {widest!r} needs the most, {most:,}. Use fewer parents or candidates (k), or "
            "features with fewer values."
        )
        what = "The tables of gradient training would have"
        check_cells(what, sum(each.values()), MAX_TRAINED_CELLS, remedy)
        n, width = len(columns), max(map(len, columns), default=1)
        column = np.full((n, width), NO_PARENT, np.int64)
        sizes = np.zeros((n, width), np.int64)
        for i, slots in enumerate(columns):
            column[i, : len(slots)] = slots
            sizes[i, : len(slots)] = n_contexts[i]
        block_sizes, exists = arities[:, None] * n_classes, (sizes > 0).astype(np.int64)
        laid_out = sizes, sizes * block_sizes, exists, exists * block_sizes
        block, cell, table, shared = map(_starts, laid_out)
        arity, n_slots = arities.astype(np.int64), np.array(list(map(len, columns)), np.int64)
        return cls(column, sizes, block, cell, table, shared, arity, n_slots, n_classes)

    def workspace(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Return scratch space for a step on any table: zero before and after it."""
        contexts = self.n_contexts.max(axis=1, initial=1)
        size = int((contexts * self.arity).max(initial=1)) * self.n_classes
        return np.zeros(size), np.zeros(int(contexts.max(initial=1)), np.bool_)

    def used(self) -> NDArray[np.bool_]:
        """Return which slots exist, shape (n_features, n_slots)."""
        used: NDArray[np.bool_] = np.arange(self.column.shape[1]) < self.n_slots[:, None]
        return used


def _starts(sizes: Ints) -> Ints:
    """Return where each piece starts if all are laid out end to end in row order."""
    starts: Ints = np.cumsum(sizes).reshape(sizes.shape) - sizes
    return starts


class TrainingRows(NamedTuple):
    """Rows for training, in row-major order, so a shuffled batch is a few cache lines per row."""

    codes: NDArray[np.integer]  # (n_rows, n_features); values >= the feature's arity are unknown
    labels: Ints
    weights: Floats | None
    # (n_rows, n_joined): the joint values of several features, as contexts numbered after them
    joined: NDArray[np.int32] | None = None

    @classmethod
    def of(cls, chunk: Chunk, features: Sequence[int]) -> TrainingRows:
        """Return the rows, restricted to some features."""
        codes: NDArray[np.integer] = np.ascontiguousarray(chunk.codes[list(features)].T)
        return cls(codes, chunk.labels.astype(np.int64), chunk.weights)

    def join(self, cliques: Sequence[tuple[int, ...]], arities: Ints) -> TrainingRows:
        """Return the rows with the joint values of features; one past the last if unknown."""
        joined = np.empty((self.n_rows, len(cliques)), np.int32)
        for at, clique in enumerate(map(list, cliques)):
            values, shape = self.codes[:, clique], tuple(arities[clique].tolist())
            known = np.all(values < arities[clique], axis=1)
            joined[:, at] = prod(shape)
            joined[known, at] = np.ravel_multi_index(tuple(values[known].T), shape)
        return self._replace(joined=joined)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.labels.shape[0])

    def take(self, rows: Ints) -> TrainingRows:
        """Return a copy of some rows."""
        weights = None if self.weights is None else self.weights[rows]
        joined = None if self.joined is None else self.joined[rows]
        return TrainingRows(self.codes[rows], self.labels[rows], weights, joined)

    def columns(self) -> Columns:
        """Return contexts and children by column."""
        children = np.ascontiguousarray(self.codes.T, np.int32)
        return children if self.joined is None else np.vstack([children, self.joined.T]), children


@dataclass
class Model:
    """Parameters and Adam's state, changed in place by training."""

    theta: Floats  # (n_cells,); log-probabilities of all tables and Adam's moments of their logits
    theta_first: Floats
    theta_second: Floats
    theta_steps: Ints  # number of steps taken by each context's block
    # Adam's moments of the steps shared by all contexts of a table; empty if none are shared
    shared_first: Floats
    shared_second: Floats
    shared_steps: Ints
    prior: Floats  # (n_classes,); log class prior and its moments
    prior_first: Floats
    prior_second: Floats
    phi: Floats  # (n_features, n_slots); logits of the distribution over parents and their moments
    phi_first: Floats
    phi_second: Floats
    n_steps: Ints  # number of batches so far

    @classmethod
    def start(cls, slots: Slots, rng: np.random.Generator) -> Model:
        """Return the initial model: U(-0.1, 0.1) logits, uniform over parents."""
        used, n_classes = slots.used(), slots.n_classes
        tables = [np.zeros(0)]
        for i, s in zip(*np.nonzero(used), strict=True):
            shape = (int(slots.n_contexts[i, s]), int(slots.arity[i]), n_classes)
            logits = rng.uniform(-INITIAL_RANGE, INITIAL_RANGE, shape)
            tables.append(log_softmax(logits, axis=1).ravel())
        theta = np.concatenate(tables)
        prior = log_softmax(rng.uniform(-INITIAL_RANGE, INITIAL_RANGE, n_classes), axis=0)
        zeros, phi = np.zeros_like, np.zeros(used.shape)
        steps = np.zeros(int(slots.n_contexts[used].sum()), np.int64)
        return cls(
            *(theta, zeros(theta), zeros(theta), steps),
            *(np.zeros(0), np.zeros(0), np.zeros(0, np.int64)),
            *(prior, zeros(prior), zeros(prior)),
            *(phi, zeros(phi), zeros(phi)),
            np.zeros(1, np.int64),
        )

    def set_frequencies(self, slots: Slots, rows: TrainingRows) -> None:
        r"""Set the tables to smoothed frequencies.

        With m = `PRIOR_ROWS` the class has :math:`p(x \mid c) = (N_{xc} + m / v) / (N_c + m)`,
        a candidate parent :math:`p(x \mid u, c) = (N_{xuc} + m\, p(x \mid c)) / (N_{uc} + m)`. All
        candidates then compete from their first draw on; with random tables, those that happened
        to be drawn most often would be ahead of the rest.
        """
        labels, weights, n_classes = rows.labels, rows.weights, slots.n_classes
        classes = np.bincount(labels, weights, minlength=n_classes) + PRIOR_ROWS / n_classes
        self.prior[:] = np.log(classes / classes.sum())
        alone = np.zeros(0)
        for i, slot in np.argwhere(slots.used()).tolist():
            column, child, arity = int(slots.column[i, slot]), rows.codes[:, i], slots.arity[i]
            if arity == 0:  # all values were missing: the tables have no cells
                continue
            context = np.zeros_like(labels) if column == NO_PARENT else rows.codes[:, column]
            table = self.table(slots, i, slot)
            known = (child < arity) & (context < len(table))
            cell = (context.astype(np.int64) * arity + child) * n_classes + labels
            some = None if weights is None else weights[known]
            counts = np.bincount(cell[known], some, minlength=table.size).reshape(table.shape)
            prob = counts + PRIOR_ROWS * (alone if slot else 1.0 / arity)
            prob /= prob.sum(axis=1, keepdims=True)
            table[:] = np.log(prob)
            alone = alone if slot else prob

    @property
    def tables(self) -> tuple[Floats, Floats, Floats, Ints, Floats, Floats, Ints]:
        """The arrays changed by a step on the tables, in the kernel's order."""
        own = (self.theta, self.theta_first, self.theta_second, self.theta_steps)
        return (*own, self.shared_first, self.shared_second, self.shared_steps)

    def share(self, slots: Slots) -> None:
        """Add moments for steps shared by a table's contexts."""
        sizes = slots.used().sum(axis=1) * slots.arity * slots.n_classes
        self.shared_first, self.shared_second = np.zeros((2, int(sizes.sum())))
        self.shared_steps = np.zeros(int(slots.n_slots.sum()), np.int64)

    def log_choice(self, slots: Slots) -> Floats:
        """Return the log of the distribution over slots, (n_features, n_slots)."""
        return log_softmax(np.where(slots.used(), self.phi, -np.inf), axis=1)

    def normalise(self, slots: Slots) -> None:
        """Renormalise tables and prior to log-probabilities, in place."""
        for i, slot in np.argwhere(slots.used()).tolist():
            table = self.table(slots, i, slot)
            table[:] = log_softmax(table, axis=1)
        self.prior[:] = log_softmax(self.prior, axis=0)

    def copy(self) -> Model:
        """Return an independent copy."""
        return Model(*(getattr(self, field.name).copy() for field in fields(self)))

    def table(self, slots: Slots, i: int, slot: int) -> Floats:
        """Return one log-table, shape (n_contexts, arity, n_classes)."""
        shape = (int(slots.n_contexts[i, slot]), int(slots.arity[i]), slots.n_classes)
        at = int(slots.cell[i, slot])
        return self.theta[at : at + prod(shape)].reshape(shape)


def log_joint(model: Model, slots: Slots, columns: Columns, chosen: Ints) -> Floats:
    """Return the log-joint of rows, (n_rows, n_classes), under one choice of slots."""
    contexts, children = columns
    out = np.tile(model.prior, (children.shape[1], 1))
    layout = (slots.column, slots.n_contexts, slots.cell, slots.arity)
    native.add_slot_terms(*layout, contexts, children, chosen, model.theta, out)
    return out
