"""Some training rows at two resolutions: each feature's values, and their groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, permutations
from math import prod

import numpy as np

from tanager.codes import Groups, Rows
from tanager.codes.groups import (
    coarsen_groups,
    group_rows,
    grouped_domain,
    refine_groups,
    table_room,
)
from tanager.codes.hashing import Fold
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.loglinear.cells import Terms
from tanager.loglinear.curves import LEAST_SLANTED, Signs, Slant, can_hold, find_slants, scales
from tanager.loglinear.joining import Columns
from tanager.loglinear.rows import LocatedTerms
from tanager.numerics import Floats, Ints
from tanager.parameters.tables import FamilyTable, GroupedTable
from tanager.structure import FitPlan, KTree, Structure
from tanager.structure.ktree import ROOMY_PARENTS, Room

MAX_TABLE = 1 << 16  # numbers in a feature's table of groups
OWN_TABLE_ROWS = 1_000  # minimum for separate tables per parent, and strengths per layer
LEAST_LINED, MOST_LINED = 8, 64  # ordered values of a feature whose curve may follow a line
LEAST_CLASS_ROWS = 10  # minimum mean per class: with fewer, a slant is large and mostly noise
WIDE_TABLE = 1 << 14  # numbers in a table with parents used only by P(x)
WIDE_TABLES = 1 << 16  # for all of them in total


@dataclass(frozen=True, eq=False)
class Part:
    """Rows to learn from, with groups and a structure, and rows left out."""

    rows: Rows  # all rows, with the features' own codes
    groups: tuple[Groups, ...]  # of each feature, used when it is a parent
    structure: Structure
    plan: FitPlan  # for the rows to learn from
    context: FitContext  # for passes over all rows
    fold: Fold | None = None  # the rows to learn from; None for all
    value_weights: list[Floats] = field(default_factory=list)  # weights of each feature's values
    reads: dict[int, int] = field(default_factory=dict)  # how many parents scores may use
    # by parent and feature: the curves of pairs of numbers
    slants: dict[tuple[int, ...], tuple[Slant, ...]] = field(default_factory=dict)
    lines: Mapping[int, Floats] = field(default_factory=dict)  # of features with straight lines
    _terms: dict[int, Terms] = field(default_factory=dict)  # by depth; of all rows

    @property
    def has_many_rows(self) -> bool:
        """Whether held-out rows can distinguish more choices from chance."""
        return self.rows.n_rows >= OWN_TABLE_ROWS

    @property
    def n_read(self) -> int:
        """The maximum number of parents that scores may use."""
        return max(self.reads.values(), default=0)

    @property
    def read(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Each selected feature with the parents that its scores may use."""
        return ((one, parents[: self.reads[one]]) for one, parents in self.structure.families)

    @property
    def signs(self) -> Signs:
        """The signs of the features along which classes rise or fall."""
        return self.plan.signs

    @classmethod
    def of(
        cls,
        rows: Rows,
        counts: Counts,
        structure: Structure,
        plan: FitPlan,
        context: FitContext,
        fold: Fold | None = None,
    ) -> Part:
        """Return the part that learns from all rows, or those of a `Fold`, counted in `counts`.

        The plan's groups are divided as finely as the tables of the chosen parents allow.
        """
        assert plan.groups is not None
        weights, domain = [values.sum(axis=1) for values in counts.values], rows.domain
        # The plan is kept without the residuals, which may be large.
        given = plan.groups, structure, replace(plan), context, fold, weights
        part = cls(rows, *given, n_read(structure, plan))
        families = [(feature, *parents) for feature, parents in part.read if parents]
        room = table_room(rows.n_rows, domain.n_classes)
        part = replace(part, groups=refine_groups(part.groups, weights, domain, families, room))
        return replace(part, slants=part._find_slants(plan))

    def shortened(self, depth: int) -> Part:
        """Return the part with only the first `depth` parents, plus those a network needs.

        Without immoralities there is a network with the posterior of the scores.
        """
        reads = {feature: min(depth, number) for feature, number in self.reads.items()}
        return replace(self, structure=_shorten(self.structure, reads))

    def widened(self, whole: Structure) -> Part:
        """Return the part with more parents whose tables are small, or itself if there are none."""
        sizes = [int(groups.max()) + 1 for groups in self.groups]
        held = dict(self.structure.families)

        def fits(feature: int, parents: tuple[int, ...]) -> bool:
            size = prod(sizes[one] for one in (feature, *parents)) * self.rows.domain.n_classes
            return parents[-1] in held[feature] or size <= limit

        limit, most = WIDE_TABLE, self.n_numbers() + WIDE_TABLES
        while (wide := replace(self, structure=whole.restricted(fits))).n_numbers() > most:
            limit //= 2
        found = wide.structure.families
        more = any(len(parents) > len(held[feature]) for feature, parents in found)
        kept = all(set(held[feature]) <= set(parents) for feature, parents in found)
        return wide if kept and more else self

    def anew(self, fold: Fold) -> Part:
        """Learn everything from the rows of a `Fold`: groups and, with a learner, the structure."""
        counts = Counts(self.rows.subset(fold), self.context)
        plan = replace(self.plan, context=self.context).for_rows(counts)
        assert plan.groups is not None
        structure, learner = self.structure, plan.structure_learner
        if learner is not None:
            grouped = plan.grouped_counts
            structure = learner.learn(grouped, plan).within(grouped.domain, MAX_TABLE)
        part = Part.of(self.rows, counts, structure, plan, self.context, fold)
        if structure.selected == self.structure.selected:  # features without parents have no groups
            part._terms[0] = self.terms(0)
        return part

    def _find_slants(self, plan: FitPlan) -> dict[tuple[int, ...], tuple[Slant, ...]]:
        """Return the curves of pairs of numbers, based on the residuals of a plan."""
        domain = self.rows.domain
        orders = grouped_domain(domain, self.groups).n_ordered
        numbers = {one for one, n in enumerate(orders) if n >= LEAST_SLANTED} - set(self.signs)
        pairs = [(p, one) for one, parents in self.read for p in parents if {p, one} <= numbers]
        if not pairs or self.rows.n_rows < LEAST_CLASS_ROWS * domain.n_classes:
            return {}
        given = plan.residuals, domain, self.groups, self.value_weights, plan.numbers
        return find_slants(pairs, *given, has_many_rows=self.has_many_rows)

    def find_lines(self) -> dict[int, Floats]:
        """Return a straight line for each numeric feature, an addend per ordered value."""
        out: dict[int, Floats] = {}
        numbers = self.plan.numbers
        for feature in self.structure.selected if numbers else ():
            n_ordered = self.rows.domain.n_ordered[feature]
            if LEAST_LINED <= n_ordered <= MOST_LINED and feature not in self.signs:
                values = np.arange(n_ordered, dtype=np.uint16)
                line = scales(values, self.value_weights[feature][:n_ordered], numbers[feature])[1]
                if line is not None:
                    out[feature] = line
        return out

    def with_lines(self, lines: Mapping[int, Floats], other: Part | None = None) -> Part:
        """Return the part with straight lines in its curves; terms are those of an `other` part."""
        part = replace(self, lines=lines, _terms={})
        if other is not None and self.groups is other.groups:
            return replace(part, _terms=other._terms)
        if other is not None and self.structure.selected == other.structure.selected:
            part._terms[0] = other.terms(0)
        return part

    @cached_property
    def grouped_counts(self) -> Counts:
        """Counts of the groups in the rows to learn from."""
        rows = self.rows if self.fold is None else self.rows.subset(self.fold)
        return Counts(group_rows(rows, self.groups), self.context)

    @property
    def group_arities(self) -> Ints:
        """The number of groups of each feature."""
        return self.grouped_counts.domain.arities

    @property
    def class_counts(self) -> Floats:
        """The weight of each class among the rows to learn from."""
        return self.grouped_counts.classes

    @property
    def class_shares(self) -> Floats:
        """The class shares in the rows to learn from."""
        total = float(self.class_counts.sum())
        return self.class_counts / total if total > 0 else self.class_counts

    @cached_property
    def columns(self) -> Columns:
        """The features, then their groups, then the coarse groups of larger tables."""
        return Columns.of(self.rows.domain, self.groups, self._coarse, lines=self.lines)

    @cached_property
    def _coarse(self) -> tuple[Groups, ...]:
        """Groups of groups, used in tables of three and more features."""
        pairs = zip(self.groups, self.rows.domain.n_ordered, strict=True)
        return tuple(coarsen_groups(group, n_ordered) for group, n_ordered in pairs)

    def terms(self, depth: int) -> Terms:
        """Return the terms of each feature, and of its groups given 1, 2, .. `depth` parents."""
        if depth not in self._terms:
            n_features = self.rows.domain.n_features
            families: list[tuple[int, ...]] = [(one,) for one in self.structure.selected]
            slants: list[Slant | None] = [None] * len(families)
            for feature, parents, slant in self.interactions(depth):
                start = n_features if len(parents) == 1 else 2 * n_features
                families.append(tuple(start + one for one in (*parents, feature)))
                slants.append(slant)
            starts = range(0, 3 * n_features, n_features)
            signs = {at + start: sign for at, sign in self.signs.items() for start in starts}
            given = families, self.columns, self.rows, self.context, signs, slants
            self._terms[depth] = Terms(*given)
        return self._terms[depth]

    def by_feature(
        self, depth: int, families: Sequence[Floats]
    ) -> tuple[list[Floats], list[Floats]]:
        """Return arrays (*sizes, n) of the families of `terms`: of values, and sums over tables.

        Sums are (*parent_groups, n_groups, n), given a feature's first parents.
        """
        held = dict(self.structure.families)
        groups = {feature: np.zeros((1, 1)) for feature in held}
        layers = zip(self.interactions(depth), families[len(held) :], strict=True)
        for (feature, parents, _), layer in layers:
            members = (*parents, feature)
            if len(members) > 2:  # of coarse groups: expanded to those of pairs
                whole = [np.unique(self.groups[one], return_index=True)[1] for one in members]
                coarse = zip(members, whole, strict=True)
                layer = layer[np.ix_(*(self._coarse[one][first] for one, first in coarse))]
            axes = [held[feature].index(parent) for parent in parents]
            groups[feature] = add_layer(groups[feature], layer, axes)
        return list(families[: len(held)]), list(groups.values())

    def split(self, values: Sequence[Floats]) -> list[tuple[Floats, Floats]]:
        """Split the scores (arity, n_classes) of each selected feature's values: see `_within`."""
        return [
            _within(scores, self.groups[feature], self.value_weights[feature])
            for feature, scores in zip(self.structure.selected, values, strict=True)
        ]

    def tables(
        self, parents: Sequence[Sequence[int]], logs: Sequence[Floats], inside: Sequence[Floats]
    ) -> tuple[FamilyTable, ...]:
        """Return the families' tables with more parents, which have one group.

        Both addends are (*parent_groups, n_groups, n_classes) and (arity, n_classes).
        """
        out = []
        for wide, (feature, held), log, within in zip(
            parents, self.structure.families, logs, inside, strict=True
        ):
            groups = [self.groups[one] if one in held else 0 * self.groups[one] for one in wide]
            unread = tuple(axis for axis, one in enumerate(wide) if one not in held)
            spelled = np.ascontiguousarray(np.expand_dims(log, unread))
            out.append(GroupedTable.of_groups(spelled, within, [*groups, self.groups[feature]]))
        return tuple(out)

    def interactions(self, depth: int) -> list[tuple[int, tuple[int, ...], Slant | None]]:
        """Return each feature with its first, first two, ... up to `depth` parents, and a slant.

        With many rows also with only the second, third, ... parent: such a table needs far fewer
        numbers than one with all of them, and replaces it if there aren't enough rows for more. A
        table is left out if it can't satisfy the signs of all its features.
        """
        return [
            (feature, parents[first:number], slant)
            for feature, parents in self.read
            for number in range(1, min(depth, len(parents)) + 1)
            for first in ((number - 1, 0) if number > 1 and self.has_many_rows else (0,))
            if can_hold((feature, *parents[first:number]), self.signs)
            for slant in (None, *self.slants.get((*parents[first:number], feature), ()))
        ]

    def n_numbers(self, depth: int | None = None) -> int:
        """Return how many numbers the tables of groups have, using up to `depth` parents."""
        sizes = [int(groups.max()) + 1 for groups in self.groups]
        held = self.structure.families if depth is None else self.read
        tables = (prod(sizes[one] for one in (feature, *above[:depth])) for feature, above in held)
        return self.rows.domain.n_classes * sum(tables)

    def located(self, depth: int) -> LocatedTerms:
        """Return the rows as cells of the terms."""
        return LocatedTerms(self.terms(depth), self.rows, self.context, self.fold)


def under_parents(scores: Floats, n_parents: int) -> Floats:
    """Expand scores given the first parents, (*groups, number, n_classes), to more parents."""
    ones = (1,) * (n_parents + 2 - scores.ndim)
    return scores.reshape(*scores.shape[:-2], *ones, *scores.shape[-2:])


def add_layer(scores: Floats, layer: Floats, axes: Sequence[int] | None = None) -> Floats:
    """Add a table (*groups, n_groups, n_classes) over the first parents, or those on some axes."""
    axes = range(layer.ndim - 2) if axes is None else axes
    n_parents = max(scores.ndim - 2, max(axes, default=-1) + 1)
    shape = [1] * n_parents
    for axis, size in zip(axes, layer.shape, strict=False):
        shape[axis] = size
    return under_parents(scores, n_parents) + layer.reshape(*shape, *layer.shape[-2:])


def _within(scores: Floats, groups: Groups, weights: Floats) -> tuple[Floats, Floats]:
    """Split a feature's scores (arity, n_classes) into log P(x | its group, y) and the groups'.

    They add up to the scores again, up to a term shared by all classes.
    """
    known = weights + 1.0 / len(weights)
    joint = scores - scores.mean(axis=-1, keepdims=True) + np.log(known)[:, None]
    tops = np.full((int(groups.max()) + 1, scores.shape[1]), -np.inf)
    np.maximum.at(tops, groups, joint)
    sums = np.zeros_like(tops)
    np.add.at(sums, groups, np.exp(joint - tops[groups]))
    totals = tops + np.log(sums)
    return joint - totals[groups], totals


def n_read(structure: Structure, plan: FitPlan) -> dict[int, int]:
    """Return how many of its first parents each feature's scores may use.

    All, except those an automatic k-tree has only for P(x); at most two, or as many as required, if
    the table of more has no room for fine groups. They are connected by parents that scores use.
    """
    families = dict(structure.families)
    out = {feature: len(parents) for feature, parents in families.items()}
    learner, limits = plan.structure_learner, plan.limits
    if plan.rows is None or not isinstance(learner, KTree) or learner.max_parents != "auto":
        return out
    required = 0 if limits is None else limits.n_required
    most, room = max(learner.most(plan.n_rows), required), Room.of(plan)
    assert room is not None
    joined: set[tuple[int, int]] = set()
    for at in structure.topological_order():
        feature = structure.selected[at]
        parents = families[feature][:most]
        while len(parents) > max(ROOMY_PARENTS, required) and not (
            room.holds(feature, parents)
            and all({pair, pair[::-1]} & joined for pair in combinations(parents, 2))
        ):
            parents = parents[:-1]
        out[feature] = len(parents)
        joined.update((feature, parent) for parent in parents)
    return out


def _shorten(structure: Structure, reads: Mapping[int, int]) -> Structure:
    """Keep only the first parents of each feature; a moral structure stays moral."""
    parents = dict(structure.families)
    kept = {feature: set(held[: reads[feature]]) for feature, held in parents.items()}
    waiting = list(kept) if structure.is_moral() else []
    while waiting:
        held = kept[waiting.pop()]
        for one, other in permutations(held, 2):
            if one in parents[other] and one not in kept[other]:
                kept[other].add(one)  # so that connected parents stay connected
                waiting.append(other)
    rest = (tuple(p for p in held if p in kept[feature]) for feature, held in parents.items())
    return Structure(structure.names, structure.selected, tuple(rest))
