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
    from tanager.codes import Codebook, Groups
    from tanager.codes.reading import Reading
    from tanager.network.network import Network
    from tanager.parameters.tables import FamilyTable

Floats = NDArray[np.float64]
Codes: TypeAlias = tuple[int, ...]

_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\.\d{6}")
MAX_CELLS = 1 << 22  # of all tables spelled out: about 80 MB of text
MAX_WITH_UNKNOWN = 1 << 26  # of one table with places for unknown values: 512 MB
SAFE_INTEGER = 1 << 53  # doubles hold every whole number up to here


@dataclass(frozen=True)
class Input:
    """How one column's raw values become codes 0 .. arity-1; code `arity` means unknown."""

    name: str
    kind: str  # 'number' (cut into intervals), or of categories 'integer', 'real', ..., 'null'
    cuts: tuple[float, ...]  # of a number: its code is how many cuts are less than it
    values: tuple[Any, ...]  # of a category: its code is its place here
    unlisted: int  # the code of any other value; `arity` where that is unknown
    missing: int  # the code of a missing value; `arity` where missing is unknown
    arity: int
    labels: tuple[str, ...]  # what people call each code
    # 'date', 'time' or 'duration' where the numbers are seconds, as in `NumericColumn`, or the
    # categories texts of instants, as in `CategoricalColumn`; else ''.
    temporal: str
    groups: Codes | None  # the group of each code; None where every code is a group of its own
    reading: Reading | None  # how training read numbers or dates from text, where it did

    @property
    def n_groups(self) -> int:
        """Number of groups of codes; this number itself means unknown."""
        return self.arity if self.groups is None else max(self.groups) + 1

    @property
    def past_doubles(self) -> bool:
        """Whether a value is a whole number that no double holds."""
        return any(isinstance(v, int) and abs(v) > SAFE_INTEGER for v in self.values)


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
    log_within: Floats | None

    def view(self, member: int) -> Codes | None:
        """Return the places of a parent's groups; None for the input itself."""
        return self.views[self.parents.index(member)] if member in self.parents else None


@dataclass(frozen=True)
class Step:
    """Sum out one input's groups."""

    input: int
    n_groups: int  # of the input
    separator: tuple[int, ...]  # inputs that the sum is a function of, ascending
    # Of each of them, for each of its groups a place: the sum is the same for groups of one
    # place.
    views: tuple[Codes, ...]
    families: tuple[int, ...]  # families multiplied at this step
    messages: tuple[int, ...]  # earlier steps whose sums are multiplied at this step
    beside: tuple[int, ...]  # inputs other than its own that these are functions of, ascending

    @cached_property
    def firsts(self) -> tuple[Codes, ...]:
        """Of each input of the separator, the first group of every place."""
        return tuple(tuple(view.index(of) for of in range(max(view) + 1)) for view in self.views)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of places of each input of the separator."""
        return tuple(map(len, self.firsts))

    @property
    def n_terms(self) -> int:
        """Number of terms of the sums, for one class."""
        return prod(self.shape) * self.n_groups

    @property
    def scope(self) -> dict[int, Codes]:
        """What the messages vary over: views of what is beside, then the input's own groups."""
        views = dict(zip(self.separator, self.views, strict=True))
        return {i: views[i] for i in self.beside} | {self.input: tuple(range(self.n_groups))}


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
    history: tuple[Edit, ...]  # what was changed by hand

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def n_terms(self) -> int:
        """Number of terms of all sums, for all classes."""
        return sum(step.n_terms for step in self.steps) * self.n_classes

    @property
    def sums(self) -> bool:
        """Whether an unknown input may have something known below it."""
        return any(family.parents for family in self.families)

    @cached_property
    def views(self) -> dict[tuple[int, Codes], int]:
        """Number every view that tables have of an input."""
        links = [link for f in self.families for link in zip(f.parents, f.views, strict=True)]
        distinct = dict.fromkeys((i, view) for i, view in links if view is not None)
        return {link: at for at, link in enumerate(distinct)}

    def table_with_unknown(self, at: int) -> Floats:
        """Return an input's table with one place more on every axis, which means unknown.

        An unknown input adds 0; a known one below an unknown parent has no number: NaN.
        """
        log_prob = self.families[at].log_prob
        sizes = log_prob.shape[:-1]
        n_cells = prod(size + 1 for size in sizes) * self.n_classes
        if n_cells > MAX_WITH_UNKNOWN:
            raise MemoryBoundError(
                f"The table of {self.inputs[at].name!r} with its {len(sizes) - 1} parents has "
                f"{n_cells:,} cells once each of them may be unknown, beyond the bound of "
                f"{MAX_WITH_UNKNOWN:,}. Learn a structure with fewer parents to export it."
            )
        table = np.full([*(size + 1 for size in sizes), self.n_classes], np.nan)
        table[tuple(slice(size) for size in sizes)] = log_prob
        table[..., -1, :] = 0.0
        return table

    def step_table(self, step: Step) -> Floats:
        """Return the product of a step's tables as logs, (*step.shape, groups, n_classes)."""
        groups = dict(zip(step.separator, step.firsts, strict=True))
        groups[step.input] = tuple(range(step.n_groups))
        index = dict(zip(groups, np.ix_(*groups.values()), strict=True))  # one axis for each
        total = np.zeros((*step.shape, step.n_groups, self.n_classes))
        for at in step.families:
            family, places = self.families[at], []
            for member in (*family.parents, at):
                view = family.view(member)
                read = index[member]
                places.append(read if view is None else np.array(view)[read])
            total += family.log_prob[tuple(places)]
        return total

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
        widest = max(self.steps, key=lambda step: step.n_terms)
        n_cells = widest.n_terms * self.n_classes
        if n_cells > max_cells:
            together = sorted((widest.input, *widest.separator))
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
    used = [
        feature
        for feature in structure.selected
        if not (network.tables.normalized and codebook.leaves_out(structure.names[feature]))
    ]
    place = {feature: at for at, feature in enumerate(used)}
    given = zip(structure.selected, structure.parent_indices, tables, within, strict=True)
    families = tuple(
        _family(parents, table, inside, place)
        for feature, parents, table, inside in given
        if feature in place
    )
    features = [structure.selected[at] for at in structure.topological_order()]
    order = tuple(place[feature] for feature in features if feature in place)
    inputs = tuple(
        _describe(codebook, feature, None if coarse is None else coarse.views[feature])
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
    inputs: tuple[Input, ...], families: tuple[Family, ...], order: Codes | None
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

    if order is None:
        order = tuple(f for f, _ in eliminate(range(len(inputs)), members, size))[::-1]
    left = set(range(len(families)))
    waiting: list[int] = []  # steps whose sums are not yet used
    steps: list[Step] = []
    for feature in reversed(order):
        used = tuple(sorted(f for f in left if feature in members[f]))
        left.difference_update(used)
        taken = tuple(at for at in waiting if feature in steps[at].separator)
        waiting = [at for at in waiting if at not in taken]
        sent = {i for at in taken for i in steps[at].separator} - {feature}
        separator = sorted(sent.union(*(members[f] for f in used)) - {feature})
        views = []
        for i in separator:
            read = [families[f].view(i) for f in used if i in members[f]]
            about = [dict(zip(steps[at].separator, steps[at].views, strict=True)) for at in taken]
            read += [known[i] for known in about if i in known]
            views.append(_refine(read, inputs[i].n_groups))
        if separator:
            waiting.append(len(steps))
        n_groups, beside = inputs[feature].n_groups, tuple(sorted(sent))
        steps.append(Step(feature, n_groups, tuple(separator), tuple(views), used, taken, beside))
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
    structure, found = network.structure, dict[str, list[str]]()
    for name, feature in zip(structure.features, structure.selected, strict=True):
        if network.codebook.leaves_out(name):
            continue
        given = _describe(network.codebook, feature, None)
        expected = _EXPECTED[given.temporal or given.kind]
        if given.reading is not None:
            style = "" if given.reading.style == "plain" else f" ({given.reading.style})"
            how = ", or text as in training" if reads_text else ", which training had as text"
            expected += how + style
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
    sizes = {}
    for name, table, logs in zip(names, tables, within, strict=True):
        spelled = prod(table.member_arities) * table.n_classes
        n_numbers = table.n_numbers if isinstance(table, GroupedTable) else spelled
        sizes[name] = n_numbers + (0 if logs is None else logs.size)
    if sum(sizes.values()) > MAX_CELLS:
        largest = max(sizes, key=lambda name: sizes[name])
        raise MemoryBoundError(
            f"The tables have {sum(sizes.values()):,} cells spelled out, beyond the bound of "
            f"{MAX_CELLS:,}; the largest is that of {largest!r} with {sizes[largest]:,}. Learn a "
            "structure with fewer parents, or fewer bins, to export it."
        )


def _describe(codebook: Codebook, feature: int, view: Groups | None) -> Input:
    column = codebook.columns[feature]
    kind, temporal, cuts, unlisted = column.family, column.temporal, (), column.arity
    values: tuple[Any, ...] = ()
    if isinstance(column, NumericColumn):
        kind, cuts = "number", tuple(column.cuts.tolist())
    else:
        values, unlisted = tuple(column.values.to_pylist()), column.unlisted_code
        if kind == "text" and not temporal and all(map(_INSTANT.fullmatch, values)):
            # A file of 0.1.0 does not say so.
            temporal = "date" if all(" " in text for text in values) else "time"
    groups = None if view is None else tuple(view.tolist())
    return Input(
        name=column.name,
        kind=kind,
        cuts=cuts,
        values=values,
        unlisted=unlisted,
        missing=column.null_code,
        arity=column.arity,
        labels=tuple(column.labels()),
        temporal=temporal,
        groups=None if groups == tuple(range(column.arity)) else groups,
        reading=codebook.readings.get(column.name),
    )
