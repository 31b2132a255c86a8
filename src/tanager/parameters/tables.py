"""Probability tables: what a parameter learner returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Codes
from tanager.codes.rows import EqualByArrays
from tanager.counts import ContextTree
from tanager.structure import Structure

__all__ = ["DenseTable", "FamilyTable", "Tables", "TreeTable", "log_posterior", "posterior"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# A family is held densely where that costs little in itself, or little more
# than its seen cells; otherwise as the tree of its seen contexts.
SMALL_CELLS = 1 << 14
LARGE_CELLS = 1 << 22
DENSE_FACTOR = 4


@dataclass(frozen=True, eq=False)
class DenseTable(EqualByArrays):
    """log P(x | y, parents) of one family as an array.

    Attributes
    ----------
    log_prob : ndarray of float64, shape (*parent_arities, arity, n_classes)
        C-contiguous, the class last: one look-up serves all classes.
    """

    log_prob: Floats

    @property
    def member_arities(self) -> tuple[int, ...]:
        """Arities of the parents, then of the feature."""
        return self.log_prob.shape[:-1]

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.log_prob.shape[-1])

    def add_terms(self, codes: Codes, arities: Ints, members: Ints, out: Floats) -> None:
        """Add log P(x | y, parents) of each row, for every class, to out (n_rows, n_classes).

        `members` are the rows of `codes` that hold the parents, then the child.
        """
        from tanager.parameters._kernels import add_dense_terms

        flat = np.append(self.log_prob.ravel(), np.zeros(self.n_classes))
        ends = np.array([0, members.shape[0]])
        add_dense_terms(codes, arities, members, ends, flat, np.zeros(1, np.int64), out)

    def to_dense(self) -> DenseTable:
        """Return itself."""
        return self


@dataclass(frozen=True, eq=False)
class TreeTable(EqualByArrays):
    """log P(x | y, parents) of one family on the tree of its seen contexts.

    All nodes of a `ContextTree` stand in one row, level by level (breadth
    first), and so do their cells; the class is the first split.

    Attributes
    ----------
    arity : int
    context_arities : tuple of int
        Number of classes, then the parents' arities.
    node_child : (n_nodes + 1,)
        Children of node u are nodes ``node_child[u]:node_child[u+1]``.
    node_value : (n_nodes,)
        The code that leads to the node from its parent.
    node_parent : (n_nodes,)
    node_start : (n_nodes + 1,)
        Cells of node u are ``node_start[u]:node_start[u+1]``.
    node_log_escape : (n_nodes,)
        For a value without a cell in the node: its log-probability, or, with
        `inherit`, what is added to its log-probability in the parent node
        (in the root: to the uniform).
    cell_value, cell_log_prob : (n_cells,)
    inherit : bool
    backoff : bool
        An unseen context answers as its longest seen prefix (True) or
        uniformly (False).
    """

    arity: int
    context_arities: tuple[int, ...]
    node_child: Ints
    node_value: Ints
    node_parent: Ints
    node_start: Ints
    node_log_escape: Floats
    cell_value: Ints
    cell_log_prob: Floats
    inherit: bool
    backoff: bool = True

    @classmethod
    def from_levels(
        cls,
        tree: ContextTree,
        log_prob: Sequence[Floats],
        log_escape: Sequence[Floats],
        *,
        inherit: bool,
        backoff: bool = True,
    ) -> TreeTable:
        """Join per-level estimates: `log_prob` per cell, `log_escape` per node."""
        node_offset = np.cumsum([0] + [level.n_nodes for level in tree.levels])
        cell_offset = np.cumsum([0] + [level.n_cells for level in tree.levels])
        n_nodes = int(node_offset[-1])
        child = [lv.child[:-1] + node_offset[d + 1] for d, lv in enumerate(tree.levels[:-1])]
        child.append(np.full(tree.levels[-1].n_nodes + 1, n_nodes))
        parent = [lv.parent + node_offset[max(d - 1, 0)] for d, lv in enumerate(tree.levels)]
        start = [lv.start[:-1] + cell_offset[d] for d, lv in enumerate(tree.levels)]
        start.append(cell_offset[-1:])
        return cls(
            tree.arity,
            tree.context_arities,
            np.concatenate(child),
            np.concatenate([lv.value for lv in tree.levels]),
            np.concatenate(parent),
            np.concatenate(start),
            np.concatenate(list(log_escape)),
            np.concatenate([lv.cell_value for lv in tree.levels]),
            np.concatenate(list(log_prob)),
            inherit,
            backoff,
        )

    @property
    def member_arities(self) -> tuple[int, ...]:
        """Arities of the parents, then of the feature."""
        return (*self.context_arities[1:], self.arity)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.context_arities[0]

    def add_terms(self, codes: Codes, arities: Ints, members: Ints, out: Floats) -> None:
        """Add log P(x | y, parents) of each row, for every class, to out (n_rows, n_classes)."""
        from tanager.parameters._kernels import add_tree_terms

        add_tree_terms(
            codes,
            arities,
            members,
            self.node_child,
            self.node_value,
            self.node_parent,
            self.node_start,
            self.node_log_escape,
            self.cell_value,
            self.cell_log_prob,
            self.inherit,
            self.backoff,
            out,
        )

    def seen_contexts(self) -> Ints:
        """Return the full contexts with a count: class, then parents, (n_variables, n)."""
        depth = len(self.context_arities)
        first = [0]
        for _ in range(depth):
            first.append(int(self.node_child[first[-1]]))
        nodes = np.arange(first[depth], self.node_value.shape[0])
        contexts = np.empty((depth, nodes.shape[0]), np.int64)
        for variable in range(depth - 1, -1, -1):
            contexts[variable] = self.node_value[nodes]
            nodes = self.node_parent[nodes]
        return contexts

    def to_dense(self) -> DenseTable:
        """Spell out every context; the caller minds the size.

        Level by level: every context starts as its prefix, then the seen ones
        are written over.
        """
        log_uniform = np.full((1, self.arity), -np.log(self.arity))
        rows, seen = log_uniform.copy(), np.zeros(1, np.int64)  # seen: the nodes' rows
        above, low, high = 0, 0, 1  # the level's nodes are low:high, those above it above:low
        for depth in range(len(self.context_arities) + 1):
            if depth:
                width = self.context_arities[depth - 1]
                rows = np.repeat(rows, width, axis=0)
                prefix = seen[self.node_parent[low:high] - above]
                seen = prefix * width + self.node_value[low:high]
            cells = slice(int(self.node_start[low]), int(self.node_start[high]))
            node = np.repeat(np.arange(high - low), np.diff(self.node_start[low : high + 1]))
            written = np.repeat(self.node_log_escape[low:high, None], self.arity, axis=1)
            if self.inherit:
                written += rows[seen]
            written[node, self.cell_value[cells]] = self.cell_log_prob[cells]
            if not self.backoff and depth == len(self.context_arities):
                rows = np.repeat(log_uniform, rows.shape[0], axis=0)
            rows[seen] = written
            above, low, high = low, high, int(self.node_child[high])
        spelled = rows.reshape(*self.context_arities, self.arity)
        return DenseTable(np.ascontiguousarray(np.moveaxis(spelled, 0, -1)))

    def compact(self) -> FamilyTable:
        """Return the table in the form that suits its size."""
        n_cells = prod(self.member_arities) * self.n_classes
        seen = self.node_start[-1] - self.node_start[0]
        roomy = n_cells <= min(LARGE_CELLS, DENSE_FACTOR * int(seen))
        return self.to_dense() if n_cells <= SMALL_CELLS or roomy else self


FamilyTable = DenseTable | TreeTable


class _Packed(NamedTuple):
    """All dense families end to end, for one kernel call."""

    members: Ints
    member_start: Ints
    flat: Floats
    flat_start: Ints


@dataclass(frozen=True, eq=False)
class Tables(EqualByArrays):
    """The numbers of a network: class prior and one table per selected feature.

    Attributes
    ----------
    log_prior : ndarray of float64, shape (n_classes,)
    families : tuple of DenseTable or TreeTable
        Aligned with ``structure.selected``.
    normalized : bool
        Whether each table sums to one over the feature's values. Where it is
        False the tables are scores with the right posterior, not a joint.
    """

    log_prior: Floats
    families: tuple[FamilyTable, ...]
    normalized: bool = True

    def log_joint(self, structure: Structure, codes: Codes, arities: Ints) -> Floats:
        """Return log P(y) + sum of log P(x | y, parents), shape (n_rows, n_classes).

        A family with an unknown member contributes nothing: exact only where no
        kept feature depends on what is unknown (`Network` sees to the rest).
        """
        from tanager.parameters._kernels import add_dense_terms

        out = np.empty((codes.shape[1], self.log_prior.shape[0]))
        out[:] = self.log_prior
        packed = self._pack(structure)
        add_dense_terms(codes, arities, *packed, out)
        for at, table in enumerate(self.families):
            if isinstance(table, TreeTable):
                table.add_terms(codes, arities, family_members(structure, at), out)
        return out

    def terms(self, structure: Structure, codes: Codes, arities: Ints) -> Floats:
        """Return each family's term apart, shape (n_rows, n_selected, n_classes)."""
        out = np.zeros((len(self.families), codes.shape[1], self.log_prior.shape[0]))
        for at, table in enumerate(self.families):
            table.add_terms(codes, arities, family_members(structure, at), out[at])
        return out.transpose(1, 0, 2)

    def _pack(self, structure: Structure) -> _Packed:
        # Packed once per structure. The pair is read and replaced as one, so that
        # threads with other structures never meet half of it.
        held = self._last_packed
        pair = held[0] if held else None
        if pair is None or pair[0] is not structure:
            pair = (structure, _pack(self, structure))
            held[:] = [pair]
        return pair[1]

    @cached_property
    def _last_packed(self) -> list[tuple[Structure, _Packed]]:
        # A list, so that the frozen object can fill it.
        return []

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in self.__dict__.items() if key != "_last_packed"}


def family_members(structure: Structure, at: int) -> Ints:
    """Return the code rows of family `at`: its parents, then its feature."""
    return np.array([*structure.parent_indices[at], structure.selected[at]], np.int64)


def _pack(tables: Tables, structure: Structure) -> _Packed:
    members: list[Ints] = []
    flats: list[Floats] = []
    for at, table in enumerate(tables.families):
        if isinstance(table, DenseTable):
            members.append(family_members(structure, at))
            flats.append(table.log_prob.ravel())
    sizes = [m.shape[0] for m in members]
    lengths = [f.shape[0] for f in flats]
    return _Packed(
        np.concatenate([*members, np.zeros(0, np.int64)]),
        np.cumsum([0, *sizes]),
        np.concatenate([*flats, np.zeros(tables.log_prior.shape[0])]),
        np.cumsum([0, *lengths])[:-1].astype(np.int64),
    )


def log_posterior(log_joint: Floats) -> Floats:
    """Turn a log-joint (n_rows, n_classes) into log-posteriors, in place; returns it."""
    from tanager.parameters._kernels import normalize_in_place

    normalize_in_place(log_joint, True)
    return log_joint


def posterior(log_joint: Floats) -> Floats:
    """Turn a log-joint (n_rows, n_classes) into posteriors, in place; returns it."""
    from tanager.parameters._kernels import normalize_in_place

    normalize_in_place(log_joint, False)
    return log_joint
