"""Exact marginalisation of unknown features, by groups of values that no table distinguishes.

Tables often read a feature with hundreds of values in a few groups: those of its children, and its
own, which is P(group of x | y, parents) times P(x | its group, y). Given its view and the class, a
value is independent of all other features. Values are therefore summed out by view, and each known
value adds a term within its view; the cost is the number of views to the power of the number of
connected unknown features.

One with nothing known below it sums to one and drops out. On forests (naive Bayes, TAN, kDB-1),
messages run up the tree row by row; on other structures each row's unknown features are eliminated,
the smallest tables first (`tanager.parameters.unknown`). Both loops are compiled. If that exceeds
the memory limit, the row's sum is approximate, and a warning is issued: see `_Forward`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from tanager import native
from tanager.codes import Codes, Groups
from tanager.codes.groups import group_codes, tells_all
from tanager.errors import ApproximationWarning, MemoryBoundError, check_cells
from tanager.network.propagation import elimination_order
from tanager.numerics import Floats, Ints, log_sum_exp, starts_of
from tanager.parameters import DenseTable, FamilyTable, GroupedTable, Tables, TreeTable
from tanager.parameters.proper_network import MAX_SPELLED, renormalise
from tanager.parameters.tables import LARGE_CELLS, family_members
from tanager.parameters.unknown import Unknown
from tanager.structure import Structure

ROW_CELLS = 1 << 21  # cells of one row's intermediate factor: some 10 ms per row
FORWARD_CELLS = 1 << 17  # of a family if even that is too much
BATCH_CELLS = 1 << 17  # cells of a batch of rows: 1 MiB, which stays in the cache


class Views(NamedTuple):
    """A network of the values that its tables distinguish."""

    structure: Structure
    arities: Ints  # (n_features,): of the features' own values
    # For each feature, the group of each value: those that no other table, and no part of its own
    # that reads parents, distinguishes from it. Without parents and children, each is its own.
    groups: list[Groups]
    sizes: Ints  # (n_features,): number of views
    tables: Tables  # of views
    within: list[Floats | None]  # (arity, n_classes): what values add to their views' terms, if any

    @classmethod
    def of(cls, tables: Tables, structure: Structure, arities: Ints) -> Views:
        """Find the values that tables don't distinguish."""
        groups = _views(tables, structure, arities, own=True)
        families, within = [], []
        for at, table in enumerate(tables.families):
            members = family_members(structure, at).tolist()
            family, inside = _by_views(table, [groups[one] for one in members])
            families.append(family)
            within.append(inside)
        sizes = np.array([len(np.unique(view)) for view in groups], np.int64)
        by_view = Tables(tables.log_prior, tuple(families), tables.normalized)
        return cls(structure, arities, groups, sizes, by_view, within)

    @property
    def joined(self) -> bool:
        """Whether any view contains several values."""
        return any(inside is not None for inside in self.within)

    def spell(self, at: int, known: Mapping[int, int]) -> Floats:
        """Return log P(x | y, parents) by views given known ones, (*unknown members, n_classes)."""
        table, members = self.tables.families[at], family_members(self.structure, at).tolist()
        if isinstance(table, DenseTable):
            return table.log_prob[tuple(known.get(m, slice(None)) for m in members)]
        shape = [1 if m in known else int(self.sizes[m]) for m in members]
        n_cells = prod(shape) * table.n_classes
        what = f"Spelled out, the table of {self.structure.features[at]!r} has"
        check_cells(what, n_cells, LARGE_CELLS, "Learn a structure with fewer parents.")
        codes = np.indices(shape, np.uint16).reshape(len(shape), -1)
        for place, member in enumerate(members):
            codes[place] += known.get(member, 0)
        logs = np.zeros((codes.shape[1], table.n_classes))
        table.add_terms(codes, self.sizes[members], np.arange(len(shape)), logs)
        free = [n for m, n in zip(members, shape, strict=True) if m not in known]
        return logs.reshape(*free, table.n_classes)

    def by_value(self, at: int) -> Floats:
        """Return log P(value | y, parents' views), (*parents, arity, n_classes)."""
        groups, within = self.groups[self.structure.selected[at]], self.within[at]
        spelled = np.take(self.tables.families[at].to_dense().log_prob, groups, axis=-2)
        return spelled if within is None else spelled + within

    def add_unknown_sums(self, codes: Codes, log_joint: Floats) -> None:
        """Add to the log-joint (n_rows, n_classes) the sums of families with unknown members."""
        selected = list(self.structure.selected)
        rows = np.flatnonzero((codes[selected] >= self.arities[selected, None]).any(axis=0))
        if self.structure.max_parents == 0 or rows.size == 0:
            return
        some = np.ascontiguousarray(codes[:, rows])
        views = group_codes(some, self.groups) if self.joined else some
        part = log_joint[rows]
        add_unknown_sums(self.tables, self.structure, views, self.sizes, part)
        unknown = some >= self.arities[:, None]
        for at, inside in enumerate(self.within):
            if inside is not None:
                feature, above = selected[at], list(self.structure.parent_indices[at])
                # A term with a known value and known parents is already in the log-joint.
                open_ = ~unknown[feature] & unknown[above].any(axis=0)
                part[open_] += inside[some[feature, open_]]
        log_joint[rows] = part


def renormalise_by_groups(tables: Tables, structure: Structure, arities: Ints) -> Tables:
    """Return proper tables with the posterior of scores, for a structure without immoralities."""
    views = Views.of(tables, structure, arities)
    for name, table in zip(structure.features, views.tables.families, strict=True):
        n_cells = prod(table.member_arities) * table.n_classes
        what = f"Editing takes the table of {name!r},"
        check_cells(what, n_cells, MAX_SPELLED, "Learn a structure with fewer parents.")
    proper = renormalise(structure, views.tables)
    # A sum over a child's values depends on a parent as the child does: by these groups.
    known = _views(tables, structure, arities, own=False)
    families = []
    for at, (table, within) in enumerate(zip(proper.families, views.within, strict=True)):
        parents, feature = structure.parent_indices[at], structure.selected[at]
        logs = table.to_dense().log_prob
        for axis, parent in enumerate(parents):
            firsts = np.unique(known[parent], return_index=True)[1]
            logs = np.take(logs, views.groups[parent][firsts], axis=axis)
        inside = np.zeros((int(arities[feature]), table.n_classes)) if within is None else within
        groups = [*(known[parent] for parent in parents), views.groups[feature]]
        families.append(GroupedTable.of_groups(np.ascontiguousarray(logs), inside, groups))
    return Tables(proper.log_prior, tuple(families), proper.normalized)


def _views(tables: Tables, structure: Structure, arities: Ints, *, own: bool) -> list[Groups]:
    """Return each feature's groups of values that no child's table distinguishes, in order.

    With `own`, neither does the part of the feature's own table that reads parents.
    """
    read: list[list[Groups]] = [[] for _ in arities]
    for at, table in enumerate(tables.families):
        members = family_members(structure, at).tolist()
        if isinstance(table, GroupedTable):
            groups = table.member_groups
        else:
            groups = [np.arange(arities[member], dtype=np.uint16) for member in members]
        for member, view in zip(members, groups, strict=True):
            if member != members[-1] or (own and len(members) > 1):
                read[member].append(view)
    return [_refine(some, int(arity)) for some, arity in zip(read, arities, strict=True)]


def _refine(views: Sequence[Groups], arity: int) -> Groups:
    """Return the groups of values that no view distinguishes; without views, all are separate."""
    if not views or any(map(tells_all, views)):
        return np.arange(arity, dtype=np.uint16)
    _, first, found = np.unique(np.stack(views), axis=1, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[found.ravel()].astype(np.uint16)


def _by_views(table: FamilyTable, views: Sequence[Groups]) -> tuple[FamilyTable, Floats | None]:
    """Return the table of groups of values, and what each value adds to it."""
    own = views[-1]
    n_own = len(np.unique(own))
    if isinstance(table, GroupedTable):
        firsts = [np.unique(view, return_index=True)[1] for view in views]
        groups = [group[first] for group, first in zip(table.member_groups, firsts, strict=True)]
        sums, inside = _divide(table.log_within, own, n_own)
        return GroupedTable.of_groups(table.log_group, sums, groups), inside
    if tells_all(own):
        return table, None
    # Only tables without parents are dense with grouped values.
    sums, inside = _divide(table.to_dense().log_prob, own, n_own)
    return DenseTable(sums), inside


def _divide(logs: Floats, classes: Groups, number: int) -> tuple[Floats, Floats | None]:
    """Return the log of each group's sum, and what each value adds to it, for (arity, n) logs."""
    if number == len(classes):
        return logs, None
    sums = np.stack([log_sum_exp(logs[classes == one], axis=0) for one in range(number)])
    return sums, logs - np.where(np.isneginf(sums), 0.0, sums)[classes]


def add_unknown_sums(
    tables: Tables, structure: Structure, codes: Codes, arities: Ints, log_joint: Floats
) -> None:
    """Add to the log-joint (n_rows, n_classes) the sums of families with unknown members."""
    if structure.max_parents == 0 or codes.shape[1] == 0:
        return
    if structure.max_parents > 1 or any(isinstance(t, TreeTable) for t in tables.families):
        _by_row(tables, structure, codes, arities, log_joint)
        return
    order = structure.topological_order()
    features = np.array([structure.selected[at] for at in order], np.int64)
    parents = np.array([(*structure.parent_indices[at], -1)[0] for at in order], np.int64)
    arrays = [tables.families[at].to_dense().log_prob.ravel() for at in order]
    start = starts_of([len(array) for array in arrays])[:-1]
    flat = np.concatenate(arrays)
    native.add_forest_sums(codes, arities, features, parents, flat, start, log_joint)


def _by_row(tables: Tables, structure: Structure, codes: Codes, arities: Ints, out: Floats) -> None:
    sums = Unknown(structure, tables, arities, ROW_CELLS).log_sums(codes)
    entangled = np.flatnonzero(np.isnan(sums[:, 0]))
    sums[entangled] = 0.0
    out += sums
    if not len(entangled):
        return
    selected = np.array(structure.selected)
    unknown = codes[selected[:, None], entangled] >= arities[selected, None]
    patterns, which = np.unique(unknown, axis=1, return_inverse=True)
    reason = ""
    for at, pattern in enumerate(patterns.T):
        forward = _Forward(tables, structure, arities, set(selected[pattern].tolist()))
        forward.add(codes, entangled[which.ravel() == at], out)
        reason = reason or forward.reason
    warnings.warn(
        f"The probabilities of {len(entangled)} rows are approximate: too many features that "
        f"depend on one another are unknown there. {reason}",
        ApproximationWarning,
        stacklevel=2,
    )


class _Forward:
    """An approximation for one set of unknown features too entangled to be eliminated exactly.

    Parents before children, each unknown feature gets its distribution given the class and its
    parents, which are treated as independent; a known feature's term is averaged over its unknown
    parents. What's known below an unknown feature doesn't affect it. Exact if no two unknown
    features share a known child or a chain of unknown ones. If a family has too many unknown
    parents, the last ones are fixed at their most probable value.
    """

    def __init__(self, tables: Tables, structure: Structure, arities: Ints, gaps: set[int]) -> None:
        self.tables, self.arities, self.features = tables, arities, structure.selected
        self.n_classes = tables.log_prior.shape[0]
        order = structure.topological_order()
        summed: set[int] = set()  # unknown features with known descendants
        for at in reversed(order):
            if self.features[at] not in gaps or self.features[at] in summed:
                summed.update(gaps.intersection(structure.parent_indices[at]))
        scopes = []
        # For each family: its index, members, unknown members to sum over, and those fixed.
        self.steps: list[tuple[int, Ints, tuple[int, ...], list[int]]] = []
        for at in order:
            members, feature = family_members(structure, at), self.features[at]
            scope = tuple(int(m) for m in members if int(m) in summed)
            if not scope or (feature in gaps and feature not in summed):
                continue
            scopes.append(scope)
            parents, fixed = [member for member in scope if member != feature], []
            while self._size(scope) > FORWARD_CELLS and parents:
                fixed.append(parents.pop())
                scope = tuple(member for member in scope if member != fixed[-1])
            self.steps.append((at, members, scope, fixed))
        self.reason = ""  # why the exact sum takes too much memory
        try:
            elimination_order(summed, scopes, self._size, ROW_CELLS, structure.names)
        except MemoryBoundError as bound:
            self.reason = str(bound)

    def _size(self, features: Iterable[int]) -> int:
        return prod(int(self.arities[f]) for f in features) * self.n_classes

    def add(self, codes: Codes, rows: Ints, out: Floats) -> None:
        """Add the approximate log-sum for every class to the rows of out, batch by batch."""
        step = max(1, BATCH_CELLS // max(self._size(scope) for _, _, scope, _ in self.steps))
        for low in range(0, rows.shape[0], step):
            some = rows[low : low + step]
            out[some] += self._sum(codes[:, some])

    def _sum(self, codes: Codes) -> Floats:
        beliefs: dict[int, Floats] = {}  # P(unknown value | class, above), (n_rows, C, arity)
        total = np.zeros((codes.shape[1], self.n_classes))
        for at, members, scope, fixed in self.steps:
            feature = self.features[at]
            codes = codes.copy() if fixed else codes
            for parent in fixed:
                codes[parent] = beliefs[parent].sum(axis=1).argmax(axis=1)
            term = np.exp(self._factor(codes, at, members, scope))
            for axis, member in reversed(list(enumerate(scope))):
                if member != feature:
                    after = (1,) * (len(scope) - axis - 1)
                    belief = beliefs[member].reshape(*term.shape[:2], *(1,) * axis, -1, *after)
                    term = (term * belief).sum(axis=2 + axis, keepdims=True)
            if feature in scope:
                beliefs[feature] = term.reshape(*term.shape[:2], -1)
            else:
                with np.errstate(divide="ignore"):
                    total += np.log(term.reshape(term.shape[:2]))
        return total

    def _factor(self, codes: Codes, at: int, members: Ints, scope: tuple[int, ...]) -> Floats:
        """Return log P(x | y, parents) over the unknown members, (n_rows, n_classes, *scope)."""
        n_rows, shape = codes.shape[1], tuple(int(self.arities[f]) for f in scope)
        n_cells = prod(shape)
        spelled = np.repeat(codes[members, :, None], n_cells, axis=2)
        grid = np.indices(shape, codes.dtype).reshape(len(scope), n_cells)
        spelled[np.isin(members, scope)] = grid[:, None]
        terms = np.zeros((n_rows * n_cells, self.n_classes))
        flat, places = spelled.reshape(len(members), -1), np.arange(len(members))
        self.tables.families[at].add_terms(flat, self.arities[members], places, terms)
        by_class = np.moveaxis(terms.reshape(n_rows, *shape, self.n_classes), -1, 1)
        return np.ascontiguousarray(by_class)
