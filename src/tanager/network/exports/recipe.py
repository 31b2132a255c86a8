"""What any program must do to score a row as the network does.

Every export reads this one description::

    inputs     one a feature of the structure: how a raw value becomes a code,
               and a code a group of codes
    families   one an input: its parents, log P(group | y, parents' groups), spelled
               out, and log P(code | its group, y)
    order      inputs, parents before children
    steps      how unknown inputs are summed out, one a step

A number may have hundreds of codes, but tables know it as a parent, and under its
parents, by a few groups of them. Where they tell all codes apart every code is a
group of its own.

A row's log-joint is the class prior plus, for each family, one look-up by groups
and, where there are groups, one by code. Of a row with unknown inputs every known
input's look-up by code counts as ever. The families of inputs that are unknown, with
nothing known below them, drop out: they sum to one. The rest, of groups alone, is
summed out step by step.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tanager.codes.columns import NumericColumn
from tanager.errors import ConfigurationError, MemoryBoundError
from tanager.network.coarse import Coarse
from tanager.network.exports.bif import target_name
from tanager.network.history import Edit
from tanager.network.marginal import eliminate
from tanager.parameters.tables import GroupedTable

if TYPE_CHECKING:
    from tanager.codes import Groups
    from tanager.codes.columns import Column
    from tanager.codes.reading import Reading
    from tanager.network.network import Network
    from tanager.parameters.tables import FamilyTable

Floats = NDArray[np.float64]
Codes: TypeAlias = tuple[int, ...]

_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\.\d{6}")
MAX_CELLS = 1 << 22  # of all tables spelled out: about 80 MB of text


@dataclass(frozen=True)
class Input:
    """How one column's raw values become codes.

    Codes are 0 .. arity-1; code `arity` means unknown.
    """

    name: str
    # 'number' or 'integer' or 'real' or 'boolean' or 'text' or 'null'; ``'number'`` is cut
    # into intervals, all others are categories.
    kind: str
    cuts: tuple[float, ...]  # of a number: its code is how many cuts are less than it
    values: tuple[Any, ...]  # of a category: its code is its place here; any other value is unknown
    missing: int  # the code of a missing value; `arity` where missing is unknown
    arity: int
    labels: tuple[str, ...]  # what people call each code
    # '' or 'date' or 'time' or 'duration'; not empty where the numbers are seconds, as in
    # `NumericColumn`, or the categories texts of instants, as in `CategoricalColumn`.
    temporal: str = ""
    # The group of each code; None where every code is a group of its own.
    groups: Codes | None = None
    # How training read numbers or dates from text; None where it read the column as it is.
    reading: Reading | None = None

    @property
    def n_groups(self) -> int:
        """Number of groups of codes; this number itself means unknown."""
        return self.arity if self.groups is None else max(self.groups) + 1


@dataclass(frozen=True, eq=False)
class Family:
    """One input's table."""

    parents: tuple[int, ...]  # inputs, in the order of the table's axes
    # Of each parent, for each of its groups the place on the table's axis; None where that is
    # the group itself. Only tables that divide a parent's codes in different ways have views.
    views: tuple[Codes | None, ...]
    log_prob: Floats  # (*parent_places, n_groups, n_classes)
    # (arity, n_classes): what each code of the input adds to the term of its group; None
    # where every code is a group of its own.
    log_within: Floats | None = None

    def view(self, member: int) -> Codes | None:
        """Return the places of a parent's groups; None for the input itself."""
        return self.views[self.parents.index(member)] if member in self.parents else None


@dataclass(frozen=True)
class Step:
    """Sum out one input's groups."""

    input: int  # the input to sum out
    separator: tuple[int, ...]  # inputs that the sum is a function of, ascending
    # Of each of them, for each of its groups a place: the sum is the same for groups of one
    # place.
    views: tuple[Codes, ...]
    families: tuple[int, ...]  # families multiplied at this step
    messages: tuple[int, ...]  # earlier steps whose sums are multiplied at this step

    @cached_property
    def firsts(self) -> tuple[Codes, ...]:
        """Of each input of the separator, the first group of every place."""
        return tuple(tuple(view.index(of) for of in range(max(view) + 1)) for view in self.views)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of places of each input of the separator."""
        return tuple(map(len, self.firsts))


@dataclass(frozen=True, eq=False)
class Recipe:
    """All that an export needs to know of a network."""

    target: str  # name of the class
    classes: tuple[Any, ...]  # the labels: integers, reals, booleans or texts
    log_prior: Floats  # (n_classes,)
    inputs: tuple[Input, ...]  # aligned
    families: tuple[Family, ...]
    order: tuple[int, ...]  # inputs, parents before children
    steps: tuple[Step, ...]  # in order of execution
    normalized: bool  # whether every table sums to one over its input's values
    ignored: tuple[str, ...]  # columns of the training table that the network does not use
    history: tuple[Edit, ...] = ()  # what was changed by hand

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    def step_size(self, step: Step) -> int:
        """Return the number of terms of a step's sums, for one class."""
        return prod(step.shape) * self.inputs[step.input].n_groups

    @property
    def n_terms(self) -> int:
        """Number of terms of all sums, for all classes."""
        return sum(map(self.step_size, self.steps)) * self.n_classes

    def step_table(self, step: Step) -> Floats:
        """Return the product of a step's tables as logs, (*step.shape, groups, n_classes)."""
        n_groups = self.inputs[step.input].n_groups
        total = np.zeros((*step.shape, n_groups, self.n_classes))
        groups = dict(zip(step.separator, step.firsts, strict=True))
        groups[step.input] = tuple(range(n_groups))
        axes = tuple(groups)
        for at in step.families:
            family = self.families[at]
            members = (*family.parents, at)
            table = family.log_prob
            for axis, member in enumerate(members):
                view = family.view(member)
                read = groups[member] if view is None else [view[g] for g in groups[member]]
                table = np.take(table, read, axis=axis)
            table = np.moveaxis(table, -1, 0)
            order = [members.index(i) for i in axes if i in members]
            table = table.transpose(0, *(1 + o for o in order))
            shape = [len(groups[i]) if i in members else 1 for i in axes]
            total += np.moveaxis(table.reshape(-1, *shape), 0, -1)
        return total

    @property
    def sums(self) -> bool:
        """Whether an unknown input may have something known below it."""
        return any(family.parents for family in self.families)

    def check_probabilities(self, program: str, remedy: str) -> None:
        """Refuse scores where a program cannot sum unknown values out of them."""
        if self.sums and not self.normalized:
            raise ConfigurationError(
                f"The tables of this network are scores, not probabilities, and {program} cannot "
                f"sum unknown values out of them. {remedy}"
            )

    def check_width(self, max_cells: int, remedy: str) -> None:
        """Refuse a network whose unknown inputs cannot be summed out within a bound."""
        if not self.sums:
            return
        widest = max(self.steps, key=self.step_size)
        together = sorted((widest.input, *widest.separator))
        n_cells = self.step_size(widest) * self.n_classes
        if n_cells > max_cells:
            names = ", ".join(repr(self.inputs[i].name) for i in together)
            raise MemoryBoundError(
                f"Rows with unknown values cannot be scored there: {names} would have to be summed "
                f"out together, {n_cells:,} cells, beyond the bound of {max_cells:,}. {remedy}",
                parameter="unknowns",
            )


def make_recipe(network: Network) -> Recipe:
    """Describe a network; an error names the table that is too large to be spelled out."""
    structure, codebook = network.structure, network.codebook
    coarse = Coarse.of(network.tables, structure, codebook.domain.arities)
    tables = network.tables.families if coarse is None else coarse.tables.families
    within = [None] * len(tables) if coarse is None else coarse.within
    _check_tables(structure.features, tables, within)
    # Features with one value for every row, whatever the row has, have a probability of one;
    # only scores could still say something of them.
    left_out = {
        feature
        for feature in structure.selected
        if network.tables.normalized and codebook.leaves_out(structure.names[feature])
    }
    used = [feature for feature in structure.selected if feature not in left_out]
    place = {feature: at for at, feature in enumerate(used)}
    families = tuple(
        _family(parents, table, inside, place)
        for feature, parents, table, inside in zip(
            structure.selected, structure.parent_indices, tables, within, strict=True
        )
        if feature in place
    )
    features = [structure.selected[at] for at in structure.topological_order()]
    order = tuple(place[feature] for feature in features if feature in place)
    inputs = tuple(
        _describe(
            codebook.columns[feature],
            None if coarse is None else coarse.views[feature],
            codebook.readings.get(codebook.columns[feature].name),
        )
        for feature in used
    )
    return Recipe(
        target=target_name(network),
        classes=tuple(codebook.classes.tolist()),
        log_prior=network.log_prior,
        inputs=inputs,
        families=families,
        order=order,
        steps=plan_steps(inputs, families, order if structure.is_moral() else None),
        normalized=network.tables.normalized,
        ignored=tuple(name for at, name in enumerate(structure.names) if at not in place),
        history=network.history,
    )


def plan_steps(
    inputs: tuple[Input, ...], families: tuple[Family, ...], order: Codes | None = None
) -> tuple[Step, ...]:
    """Return how every input is summed out.

    The same steps serve any set of unknown inputs: what is known is a value
    that does not vary. On a structure without immoralities its `order`, parents
    first, is given: children then go before their parents, which joins nothing
    that was not joined, and what they send knows their parents by their tables'
    places. Else the order is that of least fill-in.
    """
    members = [frozenset((*family.parents, at)) for at, family in enumerate(families)]

    def size(some: Iterable[int]) -> int:
        return prod(inputs[i].n_groups for i in some)

    found = eliminate(range(len(inputs)), members, size) if order is None else None
    features = [f for f, _ in found] if found is not None else list(reversed(order or ()))
    left = set(range(len(families)))
    waiting: list[int] = []  # steps whose sums are not yet used
    steps: list[Step] = []
    for feature in features:
        used = tuple(sorted(f for f in left if feature in members[f]))
        left.difference_update(used)
        taken = tuple(at for at in waiting if feature in steps[at].separator)
        waiting = [at for at in waiting if at not in taken]
        scopes = [members[f] for f in used] + [frozenset(steps[at].separator) for at in taken]
        separator = tuple(sorted(frozenset().union(*scopes) - {feature}))
        views = []
        for i in separator:
            read = [families[f].view(i) for f in used if i in members[f]]
            read += [
                steps[at].views[steps[at].separator.index(i)]
                for at in taken
                if i in steps[at].separator
            ]
            views.append(_refine(read, inputs[i].n_groups))
        if separator:
            waiting.append(len(steps))
        steps.append(Step(feature, separator, tuple(views), used, taken))
    return tuple(steps)


def _refine(views: list[Codes | None], n_groups: int) -> Codes:
    """Return places of groups, the same for those that no view tells apart, in their order."""
    if None in views:
        return tuple(range(n_groups))
    known: dict[Codes, int] = {}
    keys = zip(*(view for view in views if view is not None), strict=True)
    return tuple(known.setdefault(key, len(known)) for key in keys)


_EXPECTED = {
    "number": "numbers",
    "real": "numbers",
    "integer": "whole numbers",
    "boolean": "booleans",
    "text": "text",
    "null": "anything: no row had a value",
    "date": "dates or timestamps, in UTC where they have no offset",
    "time": "times of day",
    "duration": "durations, or seconds where the engine has none",
}


def expected_columns(network: Network, *, reads_text: bool) -> dict[str, list[str]]:
    """Return the columns that a scorer reads, by what it takes them for.

    `reads_text` says whether it reads numbers and dates from text as training did.
    """
    codebook, found = network.codebook, dict[str, list[str]]()
    for name in network.structure.features:
        if codebook.leaves_out(name):
            continue
        given = _describe(
            codebook.columns[codebook.domain.names.index(name)], None, codebook.readings.get(name)
        )
        expected = _EXPECTED[given.temporal or given.kind]
        if given.reading is not None:
            style = "" if given.reading.style == "plain" else f" ({given.reading.style})"
            expected += (
                f", or text as in training{style}"
                if reads_text
                else f", which training had as text{style}"
            )
        found.setdefault(expected, []).append(name)
    return found


def _family(
    parents: tuple[int, ...], table: FamilyTable, within: Floats | None, place: dict[int, int]
) -> Family:
    """Return a table of the parents that have a place; of the others it knows one value."""
    if isinstance(table, GroupedTable):
        log_prob, known = table.log_prob, [tuple(view.tolist()) for view in table.groups]
    else:
        log_prob = table.to_dense().log_prob
        known = [tuple(range(arity)) for arity in log_prob.shape[: len(parents)]]
    views: list[Codes | None] = []
    for parent, view in zip(parents, known, strict=True):
        if parent in place:
            views.append(None if view == tuple(range(len(view))) else view)
        else:
            log_prob = np.take(log_prob, 0, axis=len(views))
    kept = tuple(place[p] for p in parents if p in place)
    return Family(kept, tuple(views), log_prob, within)


def _check_tables(
    names: Sequence[str], tables: Sequence[FamilyTable], within: Sequence[Floats | None]
) -> None:
    sizes = [
        table.n_numbers
        if isinstance(table, GroupedTable)
        else prod(table.member_arities) * table.n_classes
        for table in tables
    ]
    sizes = [n + (0 if logs is None else logs.size) for n, logs in zip(sizes, within, strict=True)]
    if sum(sizes) > MAX_CELLS:
        largest = max(range(len(sizes)), key=lambda at: sizes[at])
        raise MemoryBoundError(
            f"The tables have {sum(sizes):,} cells spelled out, beyond the bound of {MAX_CELLS:,}; "
            f"the largest is that of {names[largest]!r} with {sizes[largest]:,}. Learn a structure "
            "with fewer parents, or fewer bins, to export it."
        )


def _describe(column: Column, view: Groups | None, reading: Reading | None) -> Input:
    labels, temporal = tuple(column.labels()), column.temporal
    groups = None if view is None else tuple(view.tolist())
    if groups == tuple(range(column.arity)):
        groups = None
    kind, cuts = column.family, ()
    values: tuple[Any, ...] = ()
    if isinstance(column, NumericColumn):
        kind, cuts = "number", tuple(column.cuts.tolist())
    else:
        values = tuple(column.values.to_pylist())
        if kind == "text" and not temporal and all(map(_INSTANT.fullmatch, values)):
            # A file of 0.1.0 does not say so.
            temporal = "date" if all(" " in text for text in values) else "time"
    coding = cuts, values, column.null_code, column.arity, labels, temporal, groups, reading
    return Input(column.name, kind, *coding)
