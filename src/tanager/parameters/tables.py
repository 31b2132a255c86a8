"""Probability tables, as returned by parameter learners."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import compress
from math import prod

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.codes import Codes, Groups
from tanager.codes.groups import tells_all
from tanager.codes.rows import EqualByArrays
from tanager.counts import Contexts
from tanager.numerics import Floats, Ints
from tanager.parameters.lookups import Packed, TreeRows, View
from tanager.structure import Structure

# A family is dense if that's small, or not much larger than its seen cells; otherwise a tree.
SMALL_CELLS = 1 << 14
LARGE_CELLS = 1 << 22
DENSE_FACTOR = 4


class _Stored(EqualByArrays):
    """Pickles only its fields, without anything computed from them."""

    def __getstate__(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class DenseTable(EqualByArrays):
    """log P(x | y, parents) of one family as an array.

    Attributes
    ----------
    log_prob : ndarray of float64, shape ``(*parent_arities, arity, n_classes)``
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

        `members` are the rows of `codes` for the parents, then the child.
        """
        flat = np.append(self.log_prob.ravel(), np.zeros(self.n_classes))
        ends = np.array([0, members.shape[0]])
        native.add_dense_terms(codes, arities, members, ends, flat, np.zeros(1, np.int64), out)

    def pieces(self, members: Ints, view: View) -> Iterator[tuple[Ints, Floats]]:  # noqa: ARG002
        """Yield what each look-up needs: the code rows, and the numbers."""
        yield members, self.log_prob.ravel()

    def to_dense(self) -> DenseTable:
        """Return itself."""
        return self


@dataclass(frozen=True, eq=False)
class GroupedTable(_Stored):
    """log P(x | y, parents) of one family by groups of values.

    It is log P(group of x | y, groups of parents) + log P(x | its group, y).

    Attributes
    ----------
    log_group : ndarray of float64, shape ``(*parent_groups, n_groups, n_classes)``
        For the feature's groups; C-contiguous, the class last.
    log_within : ndarray of float64, shape ``(arity, n_classes)``
        For the feature's values, each within its group.
    lookup : ndarray of uint16, shape (sum of member_arities,)
        The group of each value of the first parent, of the second, ..., of the feature.
    member_arities : tuple of int
        For the parents, then the feature.
    """

    log_group: Floats
    log_within: Floats
    lookup: Groups
    member_arities: tuple[int, ...]

    @classmethod
    def of(cls, log_prob: Floats, groups: Sequence[Groups]) -> FamilyTable:
        """Return a table (*parent_groups, arity, n_classes) under each parent's groups."""
        arity, n_classes = log_prob.shape[-2:]
        own = np.arange(arity, dtype=np.uint16)
        return cls.of_groups(log_prob, np.zeros((arity, n_classes)), [*groups, own])

    @classmethod
    def of_groups(
        cls, log_group: Floats, log_within: Floats, groups: Sequence[Groups]
    ) -> FamilyTable:
        """Return the table of the members' groups; a dense one without parents or groups."""
        if len(groups) == 1 or all(map(tells_all, groups)):
            spelled = np.take(log_group, groups[-1], axis=-2) + log_within
            return DenseTable(np.ascontiguousarray(spelled))
        lookup = np.concatenate(groups).astype(np.uint16)
        return cls(log_group, log_within, lookup, tuple(len(g) for g in groups))

    @property
    def groups(self) -> list[Groups]:
        """The group of each value, parent by parent."""
        return self.member_groups[:-1]

    @cached_property
    def member_groups(self) -> list[Groups]:
        """The group of each value, of the parents, then of the feature."""
        return np.split(self.lookup, np.cumsum(self.member_arities)[:-1])

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.log_group.shape[-1])

    @property
    def n_numbers(self) -> int:
        """Number of entries in `log_prob`."""
        return prod(self.log_group.shape[:-2]) * self.log_within.size

    @cached_property
    def log_prob(self) -> Floats:
        """The table for all values of the feature, (*parent_groups, arity, n_classes)."""
        spelled = np.take(self.log_group, self.member_groups[-1], axis=-2)
        spelled += self.log_within
        return np.ascontiguousarray(spelled)

    def add_terms(self, codes: Codes, arities: Ints, members: Ints, out: Floats) -> None:
        """Add log P(x | y, parents) of each row, for every class, to out (n_rows, n_classes)."""
        Packed.of([(members, self)], len(arities)).add_terms(codes, arities, out)

    def pieces(self, members: Ints, view: View) -> Iterator[tuple[Ints, Floats]]:
        """Yield code rows and numbers: all at once if few, otherwise groups, then values."""
        *parents, feature = members.tolist()
        above = list(map(view, parents, self.groups))
        if self.n_numbers <= max(SMALL_CELLS, self.log_group.size):
            yield np.array([*above, feature], np.int64), self.log_prob.ravel()
            return
        own = view(feature, self.member_groups[-1])
        yield np.array([*above, own], np.int64), self.log_group.ravel()
        # The second part counts only if all parents are known, like the first.
        yield np.array([*(~parent for parent in above), feature], np.int64), self.log_within.ravel()

    def to_dense(self) -> DenseTable:
        """Materialise every value of the parents; the caller checks the size."""
        spelled = self.log_prob
        for axis, groups in enumerate(self.groups):
            spelled = np.take(spelled, groups, axis=axis)
        return DenseTable(np.ascontiguousarray(spelled))


@dataclass(frozen=True, eq=False)
class TreeTable(_Stored):
    """log P(x | y, parents) of one family, on the tree of contexts seen.

    Attributes
    ----------
    contexts : Contexts
    cell_log_prob : (n_cells,)
    node_log_escape : (n_nodes,)
        For a value without a cell in the node: its log-probability or, with `inherit`, the offset
        to its log-probability in the parent node (in the root: to the uniform).
    inherit : bool
    backoff : bool
        Whether an unseen context uses the estimate of its longest seen prefix; otherwise it's
        uniform.
    """

    contexts: Contexts
    cell_log_prob: Floats
    node_log_escape: Floats
    inherit: bool
    backoff: bool = True

    @property
    def member_arities(self) -> tuple[int, ...]:
        """Arities of the parents, then of the feature."""
        return (*self.contexts.context_arities[1:], self.contexts.arity)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.contexts.context_arities[0]

    def add_terms(self, codes: Codes, arities: Ints, members: Ints, out: Floats) -> None:
        """Add log P(x | y, parents) of each row, for every class, to out (n_rows, n_classes)."""
        rows, n_dense = self._rows
        native.add_tree_terms(
            codes, arities, members, *rows, n_dense, self.inherit, self.backoff, out
        )

    @cached_property
    def _rows(self) -> tuple[TreeRows, int]:
        return TreeRows.of(self)

    def shorter(self, n_parents: int) -> TreeTable:
        """Return the table with the first parents only; itself if that is all of them."""
        if n_parents + 1 == self.contexts.depth:
            return self
        less = self.contexts.truncate(n_parents + 1)
        cells, nodes = self.cell_log_prob[: less.n_cells], self.node_log_escape[: less.n_nodes]
        return TreeTable(less, cells, nodes, self.inherit)

    def seen_contexts(self) -> Ints:
        """Return the full contexts with a count: class, then parents, (n_variables, n)."""
        return self.contexts.values(self.contexts.depth)

    def to_dense(self) -> DenseTable:
        """Materialise every context, level by level; the caller checks the size.

        Each context starts as a copy of its prefix, then the seen ones are overwritten.
        """
        tree = self.contexts
        log_uniform = np.full((1, tree.arity), -np.log(tree.arity))
        rows, seen = log_uniform.copy(), np.zeros(1, np.int64)  # seen: the nodes' rows
        for depth in range(tree.depth + 1):
            nodes = tree.nodes(depth)
            if depth:
                width = tree.context_arities[depth - 1]
                rows = np.repeat(rows, width, axis=0)
                prefix = seen[tree.node_parent[nodes] - tree.level_node[depth - 1]]
                seen = prefix * width + tree.node_value[nodes]
            start = tree.node_start[nodes.start : nodes.stop + 1]
            cells = slice(int(start[0]), int(start[-1]))
            node = np.repeat(np.arange(len(start) - 1), np.diff(start))
            written = np.repeat(self.node_log_escape[nodes, None], tree.arity, axis=1)
            if self.inherit:
                written += rows[seen]
            written[node, tree.cell_value[cells]] = self.cell_log_prob[cells]
            if not self.backoff and depth == tree.depth:
                rows = np.repeat(log_uniform, rows.shape[0], axis=0)
            rows[seen] = written
        spelled = rows.reshape(*tree.context_arities, tree.arity)
        return DenseTable(np.ascontiguousarray(np.moveaxis(spelled, 0, -1)))

    def compact(self) -> FamilyTable:
        """Return the table in the form that suits its size."""
        n_cells = prod(self.member_arities) * self.n_classes
        roomy = n_cells <= min(LARGE_CELLS, DENSE_FACTOR * self.contexts.n_cells)
        return self.to_dense() if n_cells <= SMALL_CELLS or roomy else self


#: The table of one family, in any of three forms.
FamilyTable = DenseTable | GroupedTable | TreeTable


@dataclass(frozen=True, eq=False)
class HeldOutRows(EqualByArrays):
    """Training rows with out-of-fold posteriors."""

    log_posteriors: Floats  # (n_rows, n_classes)
    labels: NDArray[np.uint16]  # (n_rows,)
    weights: Floats  # (n_rows,)


@dataclass(frozen=True, eq=False)
class Tables(_Stored):
    """The parameters of a network: class prior and one table per selected feature.

    Attributes
    ----------
    log_prior : ndarray of float64, shape (n_classes,)
    families : tuple of DenseTable, GroupedTable or TreeTable
        Aligned with ``structure.selected``.
    normalized : bool
        Whether each table sums to one over the feature's values. Otherwise the tables are
        scores with the right posterior, but not a joint distribution.
    spread : Tables or None
        The variance of each entry, in the same form, if the learner estimates it.
    held_out : HeldOutRows or None
        Out-of-fold predictions for training rows, if the learner has any.
    """

    log_prior: Floats
    families: tuple[FamilyTable, ...]
    normalized: bool = True
    spread: Tables | None = None
    held_out: HeldOutRows | None = None

    def log_joint(self, structure: Structure, codes: Codes, arities: Ints) -> Floats:
        """Return log P(y) + sum of log P(x | y, parents), shape (n_rows, n_classes).

        Families with an unknown member are skipped; `Network` sums them out where it matters.
        """
        out = np.empty((codes.shape[1], self.log_prior.shape[0]))
        out[:] = self.log_prior
        self._pack(structure).add_terms(codes, arities, out)
        for at, table in enumerate(self.families):
            if isinstance(table, TreeTable):
                table.add_terms(codes, arities, family_members(structure, at), out)
        return out

    def terms(self, structure: Structure, codes: Codes, arities: Ints) -> Floats:
        """Return each family's term separately, shape (n_rows, n_selected, n_classes)."""
        out = np.zeros((len(self.families), codes.shape[1], self.log_prior.shape[0]))
        packed = []
        for at, table in enumerate(self.families):
            if isinstance(table, TreeTable):
                table.add_terms(codes, arities, family_members(structure, at), out[at])
            else:
                packed.append(out[at])
        self._pack(structure).add_each_term(codes, arities, packed)
        return out.transpose(1, 0, 2)

    def _pack(self, structure: Structure) -> Packed:
        # Packed once per structure. The pair is replaced atomically, so that threads with other
        # structures never see half of it.
        known, packed = self.__dict__.get("_packed", (None, None))
        if packed is None or known is not structure:
            families = [
                (family_members(structure, at), table)
                for at, table in enumerate(self.families)
                if not isinstance(table, TreeTable)
            ]
            packed = Packed.of(families, len(structure.names))
            self.__dict__["_packed"] = structure, packed
        return packed


def family_members(structure: Structure, at: int) -> Ints:
    """Return the code rows of family `at`: its parents, then its feature."""
    return np.array([*structure.parent_indices[at], structure.selected[at]], np.int64)


def drop_unread(
    structure: Structure, tables: Tables, required: Sequence[Sequence[int]] | None = None
) -> tuple[Structure, Tables]:
    """Return structure and tables without single-group parents, unless required."""
    parents, families = [], []
    for (feature, held), table in zip(structure.families, tables.families, strict=True):
        if isinstance(table, GroupedTable):
            wanted = required[feature] if required else ()
            read = [
                len(group) == 1 or bool(group.any()) or parent in wanted
                for parent, group in zip(held, table.groups, strict=True)
            ]
            if not all(read):
                unread = tuple(axis for axis, one in enumerate(read) if not one)
                log = np.ascontiguousarray(table.log_group.squeeze(unread))
                groups = list(compress(table.member_groups, [*read, True]))
                table = GroupedTable.of_groups(log, table.log_within, groups)
                held = tuple(compress(held, read))
        parents.append(held)
        families.append(table)
    if tuple(parents) == structure.parent_indices:
        return structure, tables
    rest = replace(structure, parent_indices=tuple(parents))
    spread = tables.spread and drop_unread(structure, tables.spread, required)[1]
    return rest, replace(tables, families=tuple(families), spread=spread)


def log_posterior(log_joint: Floats) -> Floats:
    """Turn a log-joint (n_rows, n_classes) into log-posteriors in place, and return it."""
    native.normalize(log_joint, True)
    return log_joint


def posterior(log_joint: Floats) -> Floats:
    """Turn a log-joint (n_rows, n_classes) into posteriors in place, and return it."""
    native.normalize(log_joint, False)
    return log_joint
