"""Some training rows at two resolutions: each feature's values, and their groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import permutations
from math import prod

from tanager.codes import Groups, Rows
from tanager.codes.groups import group_rows, refine_groups
from tanager.codes.hashing import Fold
from tanager.counts import Counts
from tanager.engines import FitContext
from tanager.loglinear import Columns, LocatedTerms, Signs, Terms, can_hold
from tanager.loglinear.cells import Slant
from tanager.numerics import Floats
from tanager.structure import FitPlan, KTree, Structure

MAX_TABLE = 1 << 16  # numbers of a feature's table of groups
FINE_TABLE = 1 << 15  # up to which groups are divided further
CELLS_PER_ROW = 3  # of a family with divided groups, at most: more couldn't be told from noise
OWN_TABLE_ROWS = 1_000  # from which on parents have tables, and layers strengths, of their own
LEAST_SLANTED = 4  # groups of either number of a slanted pair
LEAST_CLASS_ROWS = 10  # per class in the mean, without which a slant is noise, and large
# Two numbers have a table, and a curve along each of these weighted sums of their ranks.
SLANTS: tuple[Slant, ...] = ((1, 1), (1, -1), (2, 1), (2, -1), (1, 2), (1, -2))
WIDE_TABLE = 1 << 14  # numbers of a table with parents that P(x) alone reads
WIDE_TABLES = 1 << 16  # of all of them together
JOINT_ROWS = 5_000  # from which on a feature has a table with more than two parents together


@dataclass(frozen=True, eq=False)
class Part:
    """Rows to learn from, with groups and a structure, and rows that are left out."""

    rows: Rows  # all rows, with the features' own codes
    groups: tuple[Groups, ...]  # of each feature, by which it is read as a parent
    structure: Structure
    plan: FitPlan  # of the rows to learn from
    context: FitContext  # where all rows are read
    fold: Fold | None = None  # the rows to learn from; None is all
    value_weights: list[Floats] = field(default_factory=list)  # of each feature's values
    _terms: dict[int, Terms] = field(default_factory=dict)  # by depth; of all rows

    @property
    def has_many_rows(self) -> bool:
        """Whether held-out rows can tell more choices from chance."""
        return self.rows.n_rows >= OWN_TABLE_ROWS

    @property
    def n_read(self) -> int:
        """The most parents of a feature that scores may read."""
        return n_read(self.structure, self.plan)

    @property
    def _families(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Each selected feature with its parents."""
        return zip(self.structure.selected, self.structure.parent_indices, strict=True)

    @property
    def signs(self) -> Signs:
        """Of the features along which classes rise or fall."""
        return self.plan.signs

    @classmethod
    def of(
        cls, rows: Rows, counts: Counts, structure: Structure, plan: FitPlan, context: FitContext
    ) -> Part:
        """Return the part that learns from all rows, with the plan's groups."""
        assert plan.groups is not None
        part = cls(rows, plan.groups, structure, plan, context, None, _weights(counts))
        return part._refined()

    def without(self, fold: Fold) -> Part:
        """Return the part that learns scores from the rows of a `Fold` alone."""
        return replace(self, fold=fold)

    def shortened(self, depth: int) -> Part:
        """Return the part without parents beyond the first `depth`, but for those a network needs.

        Without immoralities there is a network with the posterior of the scores.
        """
        return replace(self, structure=_shorten(self.structure, depth))

    def widened(self, whole: Structure) -> Part:
        """Return the part with more of the parents in a `whole` structure, where tables stay small.

        The part itself where none can be added.
        """
        sizes, held = [int(groups.max()) + 1 for groups in self.groups], dict(self._families)

        def fits(feature: int, parents: tuple[int, ...]) -> bool:
            size = prod(sizes[one] for one in (feature, *parents)) * self.rows.domain.n_classes
            return parents[-1] in held[feature] or size <= limit

        limit, most = WIDE_TABLE, self.n_numbers() + WIDE_TABLES
        while (wide := replace(self, structure=whole.restricted(fits))).n_numbers() > most:
            limit //= 2
        more = [len(parents) - len(held[feature]) for feature, parents in wide._families]
        kept = all(set(held[feature]) <= set(parents) for feature, parents in wide._families)
        return wide if kept and any(more) else self

    def anew(self, fold: Fold) -> Part:
        """Learn everything from the rows of a `Fold`: groups and, with a learner, the structure."""
        counts = Counts(self.rows.subset(fold), self.context)
        plan = replace(self.plan, context=self.context).for_rows(counts)
        assert plan.groups is not None
        structure, learner = self.structure, plan.structure_learner
        if learner is not None:
            grouped = plan.grouped_counts
            structure = learner.learn(grouped, plan).within(grouped.domain, MAX_TABLE)
        # The plan is kept without the residuals, which may be large.
        given = plan.groups, structure, replace(plan), self.context, fold, _weights(counts)
        part = Part(self.rows, *given)._refined()
        if structure.selected == self.structure.selected:  # features alone have no groups
            part._terms[0] = self.terms(0)
        return part

    def _refined(self) -> Part:
        """Divide groups as finely as the tables of the parents found allow."""
        families = [
            (feature, *parents[: self.n_read]) for feature, parents in self._families if parents
        ]
        rows, domain = self.rows.n_rows, self.rows.domain
        limit = min(FINE_TABLE, CELLS_PER_ROW * rows * domain.n_classes)
        groups = refine_groups(self.groups, self.value_weights, domain, families, limit)
        return replace(self, groups=groups, _terms={})

    @cached_property
    def grouped_counts(self) -> Counts:
        """Counts of the groups, of the rows to learn from."""
        rows = self.rows if self.fold is None else self.rows.subset(self.fold)
        return Counts(group_rows(rows, self.groups), self.context)

    @property
    def class_counts(self) -> Floats:
        """The weight of each class among the rows to learn from."""
        return self.grouped_counts.classes

    @property
    def class_shares(self) -> Floats:
        """The classes' shares of the rows to learn from."""
        total = float(self.class_counts.sum())
        return self.class_counts / total if total > 0 else self.class_counts

    @property
    def smoothed_shares(self) -> Floats:
        """The same with one virtual row, spread evenly over the classes."""
        smoothed = self.class_counts + 1.0 / len(self.class_counts)
        return smoothed / smoothed.sum()

    @cached_property
    def columns(self) -> Columns:
        """The features, then their groups."""
        return Columns.of(self.rows.domain, self.groups)

    def terms(self, depth: int) -> Terms:
        """Return the terms of each feature, and of its groups under 1, 2, .. `depth` parents."""
        if depth not in self._terms:
            n_features = self.rows.domain.n_features
            families: list[tuple[int, ...]] = [(one,) for one in self.structure.selected]
            slants: list[Slant | None] = [None] * len(families)
            for feature, parents, slant in self.interactions(depth):
                families.append(tuple(n_features + one for one in (*parents, feature)))
                slants.append(slant)
            signs = {one: sign for at, sign in self.signs.items() for one in (at, n_features + at)}
            given = families, self.columns, self.rows, self.context, signs, slants
            self._terms[depth] = Terms(*given)
        return self._terms[depth]

    def interactions(self, depth: int) -> list[tuple[int, tuple[int, ...], Slant | None]]:
        """Return each feature with its first, first two, ... up to `depth` parents, and a slant.

        With many rows also with the second, third, ... alone: such a table needs far
        fewer numbers than one of all of them, and where rows do not suffice for more, it
        stands for it. A table is left out where it cannot rise and fall as is asked along
        all its features.
        """
        return [
            (feature, chosen, slant)
            for feature, parents in self._families
            for number in range(1, min(depth, self.n_read, len(parents)) + 1)
            for chosen in self._with_last(parents[:number])
            if can_hold((feature, *chosen), self.signs)
            for slant in self._slants((*chosen, feature))
        ]

    def _slants(self, members: tuple[int, ...]) -> tuple[Slant | None, ...]:
        """Return how a family is read: as a table and, of two numbers, along slants."""
        orders = [self.columns.n_ordered[self.rows.domain.n_features + one] for one in members]
        enough = self.rows.n_rows >= LEAST_CLASS_ROWS * self.rows.domain.n_classes
        slanted = enough and len(members) == 2 and min(orders) >= LEAST_SLANTED
        return (None, *SLANTS) if slanted and not set(members) & set(self.signs) else (None,)

    def _with_last(self, parents: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return the parents whose tables come with the last of some parents."""
        if len(parents) == 1 or not self.has_many_rows:
            return [parents]
        if len(parents) > 2 and self.rows.n_rows < JOINT_ROWS:
            return [parents[-1:]]
        return [parents[-1:], parents]

    def n_numbers(self, depth: int | None = None) -> int:
        """Return how many numbers the tables of groups with up to `depth` parents have."""
        sizes, domain = [int(groups.max()) + 1 for groups in self.groups], self.rows.domain
        families = [(feature, *parents[:depth]) for feature, parents in self._families]
        return domain.n_classes * sum(prod(sizes[one] for one in family) for family in families)

    def located(self, depth: int) -> LocatedTerms:
        """Return the rows as cells of the terms."""
        return LocatedTerms(self.terms(depth), self.rows, self.context, self.fold)


def n_read(structure: Structure, plan: FitPlan) -> int:
    """Return the most parents that scores may read: all but those an automatic k-tree has for P(x).

    More where constraints require more.
    """
    learner, limits = plan.structure_learner, plan.limits
    if plan.rows is None or not isinstance(learner, KTree) or learner.max_parents != "auto":
        return structure.max_parents
    required = 0 if limits is None else limits.n_required
    return min(max(learner.most(plan.rows.n_rows), required), structure.max_parents)


def _weights(counts: Counts) -> list[Floats]:
    return [values.sum(axis=1) for values in counts.values]


def _shorten(structure: Structure, depth: int) -> Structure:
    """Leave out parents beyond the first `depth`; a moral structure stays moral."""
    parents = dict(zip(structure.selected, structure.parent_indices, strict=True))
    kept = {feature: set(held[:depth]) for feature, held in parents.items()}
    waiting = list(kept) if structure.is_moral() else []
    while waiting:
        held = kept[waiting.pop()]
        for one, other in permutations(held, 2):
            if one in parents[other] and one not in kept[other]:
                kept[other].add(one)  # that joined parents stay joined
                waiting.append(other)
    rest = tuple(
        tuple(parent for parent in held if parent in kept[feature])
        for feature, held in parents.items()
    )
    return Structure(structure.names, structure.selected, rest)
