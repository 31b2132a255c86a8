"""How any program can score a row exactly as the network does.

All exports are based on this description::

    inputs     one per feature of the structure: how a raw value becomes a code, and a code a group
               of codes; its parents, log P(group | y, parents' groups) as a full table, and
               log P(code | its group, y)
    order      inputs, parents before children
    steps      how unknown inputs are summed out, one per step

A number may have hundreds of codes, but as a parent, and given its parents, tables only read it in
a few groups of them. If tables distinguish all codes, every code is its own group.

A row's log-joint is the class prior plus, for each family, one lookup by groups and, if there are
groups, one by code. If a row has unknown inputs, the lookups by code of its known inputs are the
same. The families of unknown inputs with nothing known below them sum to one and drop out. The
others, which only involve groups, are summed out step by step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tanager.codes.columns import NumericColumn
from tanager.codes.groups import tells_all
from tanager.errors import ConfigurationError, check_cells, listed
from tanager.network.editing import Edit
from tanager.network.propagation import eliminate
from tanager.numerics import Floats

if TYPE_CHECKING:
    from tanager.codes.columns import Column
    from tanager.codes.reading import Reading
    from tanager.network.network import Network
    from tanager.network.views import Views

Codes: TypeAlias = tuple[int, ...]

MAX_CELLS = 1 << 22  # of all expanded tables: about 80 MB of text
MAX_WITH_UNKNOWN = 1 << 26  # of one table with entries for unknown values: 512 MB
SAFE_INTEGER = 1 << 53  # doubles represent every integer up to here


@dataclass(frozen=True, eq=False)
class Input:
    """How a column's raw values become codes 0 .. arity-1 (`arity`: unknown), and its table."""

    name: str
    kind: str  # 'number' (cut into intervals), or for categories 'integer', 'real', ..., 'null'
    cuts: tuple[float, ...]  # of a number: its code is the number of cuts less than it
    values: tuple[Any, ...]  # of a category: its code is its index here
    unlisted: int  # the code of any other value; `arity` if that is unknown
    missing: int  # the code of a missing value; `arity` if missing is unknown
    arity: int
    labels: tuple[str, ...]  # display name of each code
    temporal: str  # what numbers in seconds, or texts of instants, are: as in their columns
    groups: Codes | None  # the group of each code; None if every code is its own group
    reading: Reading | None  # how training parsed numbers or dates stored as text
    parents: tuple[int, ...]  # inputs, in the order of the table's axes
    log_prob: Floats  # (*parents' groups, n_groups, n_classes)
    log_within: Floats | None  # (arity, n_classes): what each code adds to its group's term

    @property
    def n_groups(self) -> int:
        """Number of groups of codes; the number itself means unknown."""
        return self.arity if self.groups is None else max(self.groups) + 1

    @property
    def past_doubles(self) -> bool:
        """Whether any value is an integer that a double can't represent."""
        return any(isinstance(v, int) and abs(v) > SAFE_INTEGER for v in self.values)


@dataclass(frozen=True)
class Step:
    """Sum out the groups of one input."""

    input: int
    separator: tuple[int, ...]  # inputs that the sum depends on, ascending
    families: tuple[int, ...]  # inputs whose tables are multiplied at this step
    messages: tuple[int, ...]  # earlier steps whose sums are multiplied at this step
    shape: tuple[int, ...]  # number of groups of the separator's inputs, then of the input


@dataclass(frozen=True, eq=False)
class Recipe:
    """Everything that an export needs to know about a network."""

    target: str  # name of the class
    classes: tuple[Any, ...]  # the labels: integers, floats, booleans or texts
    log_prior: Floats  # (n_classes,)
    inputs: tuple[Input, ...]
    order: tuple[int, ...]  # inputs, parents before children
    steps: tuple[Step, ...]  # in order of execution
    normalized: bool  # whether every table sums to one over its input's values
    ignored: tuple[str, ...]  # columns of the training table that the network doesn't use
    history: tuple[Edit, ...]  # manual changes

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def sums(self) -> bool:
        """Whether an unknown input may have something known below it."""
        return any(given.parents for given in self.inputs)

    def table_with_unknown(self, at: int) -> Floats:
        """Return a table with an entry for unknown on every axis: 0, or NaN if only a parent is."""
        log_prob = self.inputs[at].log_prob
        sizes = log_prob.shape[:-1]
        n_cells = prod(size + 1 for size in sizes) * self.n_classes
        table_of = f"the table of {self.inputs[at].name!r} with its {len(sizes) - 1} parents"
        what = f"Where each member may be unknown, {table_of} has"
        remedy = "Learn a structure with fewer parents to export it."
        check_cells(what, n_cells, MAX_WITH_UNKNOWN, remedy)
        table = np.pad(log_prob, [*((0, 1) for _ in sizes), (0, 0)], constant_values=np.nan)
        table[..., -1, :] = 0.0
        return table

    def step_table(self, step: Step) -> Floats:
        """Return the product of a step's tables as logs, (*step.shape, n_classes)."""
        members = (*step.separator, step.input)
        axes = dict(zip(members, np.ix_(*map(range, step.shape)), strict=True))
        total = np.zeros((*step.shape, self.n_classes))
        for at in step.families:
            given = self.inputs[at]
            total += given.log_prob[tuple(axes[member] for member in (*given.parents, at))]
        return total

    def check_sums(self, max_cells: int, remedy: str, program: str = "") -> None:
        """Raise if unknown inputs exceed a limit, or a `program` can't sum them out of scores."""
        if not self.sums:
            return
        if program and not self.normalized:
            raise ConfigurationError(
                f"The tables of this network are scores, not probabilities, and {program} cannot "
                f"sum unknown values out of them. {remedy}"
            )
        widest = max(self.steps, key=lambda step: prod(step.shape))
        together = sorted((widest.input, *widest.separator))
        names = listed((self.inputs[i].name for i in together), len(together))
        what = f"Rows with unknown values can't be scored there: summing out {names} together takes"
        check_cells(what, prod(widest.shape) * self.n_classes, max_cells, remedy, "unknowns")


def make_recipe(network: Network) -> Recipe:
    """Describe a network; errors name the table that is too large to be expanded."""
    structure, codebook = network.structure, network.codebook
    _check_tables(structure.features, network.views)
    # A feature with the same value for every row has a probability of one; scores may depend on it.
    constant = codebook.leaves_out if network.tables.normalized else lambda _: False
    used = [f for f in structure.selected if not constant(structure.names[f])]
    place = {feature: at for at, feature in enumerate(used)}
    inputs = tuple(_describe(network, feature, place) for feature in used)
    features = [structure.selected[at] for at in structure.topological_order()]
    order = tuple(place[feature] for feature in features if feature in place)
    return Recipe(
        target=codebook.class_name,
        classes=tuple(codebook.classes.tolist()),
        log_prior=network.log_prior,
        inputs=inputs,
        order=order,
        steps=plan_steps(inputs, order if structure.is_moral() else None),
        normalized=network.tables.normalized,
        ignored=tuple(name for at, name in enumerate(structure.names) if at not in place),
        history=network.history,
    )


def plan_steps(inputs: Sequence[Input], order: Codes | None) -> tuple[Step, ...]:
    """Return the steps that sum out every input; a known one just doesn't vary.

    For a structure without immoralities, pass its `order`, parents first: eliminating children
    before their parents adds no fill-in. Otherwise the min-fill order is used.
    """
    members = [frozenset((*given.parents, at)) for at, given in enumerate(inputs)]

    def size(some: Iterable[int]) -> int:
        return prod(inputs[i].n_groups for i in some)

    if order is None:
        order = tuple(f for f, _ in eliminate(range(len(inputs)), members, size))[::-1]
    left = set(range(len(inputs)))
    waiting: set[int] = set()  # steps whose sums aren't used yet
    steps: list[Step] = []
    for feature in reversed(order):
        used = tuple(sorted(f for f in left if feature in members[f]))
        taken = tuple(sorted(at for at in waiting if feature in steps[at].separator))
        joined = {i for at in taken for i in steps[at].separator}
        separator = tuple(sorted(joined.union(*(members[f] for f in used)) - {feature}))
        left.difference_update(used)
        waiting.difference_update(taken)
        if separator:
            waiting.add(len(steps))
        shape = tuple(inputs[i].n_groups for i in (*separator, feature))
        steps.append(Step(feature, separator, used, taken, shape))
    return tuple(steps)


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
    """Return the columns a scorer reads by expected type; `reads_text` if it parses text."""
    structure, found = network.structure, dict[str, list[str]]()
    for name, feature in zip(structure.features, structure.selected, strict=True):
        if network.codebook.leaves_out(name):
            continue
        column, reading = network.codebook.columns[feature], network.codebook.readings.get(name)
        expected = _EXPECTED[column.temporal or _kind(column)]
        if reading is not None:
            expected += ", or text as in training" if reads_text else ", which training had as text"
            expected += "" if reading.style == "plain" else f" ({reading.style})"
        found.setdefault(expected, []).append(name)
    return found


def _check_tables(names: Sequence[str], views: Views) -> None:
    sizes = {}
    for name, table, logs in zip(names, views.tables.families, views.within, strict=True):
        inside = 0 if logs is None else logs.size
        sizes[name] = prod(table.member_arities) * table.n_classes + inside
    largest = max(sizes, key=sizes.__getitem__, default="")
    what = f"Written out, the tables, of which that of {largest!r} is the largest, have"
    remedy = "Learn a structure with fewer parents, or fewer bins, to export it."
    check_cells(what, sum(sizes.values()), MAX_CELLS, remedy)


def _kind(column: Column) -> str:
    return "number" if isinstance(column, NumericColumn) else column.family


def _describe(network: Network, feature: int, place: Mapping[int, int]) -> Input:
    """Describe one feature; `place` tells which features are inputs."""
    codebook, structure, views = network.codebook, network.structure, network.views
    at = structure.selected.index(feature)
    parents = structure.parent_indices[at]
    column, groups = codebook.columns[feature], views.groups[feature]
    if isinstance(column, NumericColumn):
        cuts, values, unlisted = column.cuts.tolist(), [], column.arity
    else:
        cuts, values, unlisted = [], column.values.to_pylist(), column.unlisted_code
    return Input(
        name=column.name,
        kind=_kind(column),
        cuts=tuple(cuts),
        values=tuple(values),
        unlisted=unlisted,
        missing=column.null_code,
        arity=column.arity,
        labels=tuple(column.labels()),
        temporal=column.temporal,
        groups=None if tells_all(groups) else tuple(groups.tolist()),
        reading=codebook.readings.get(column.name),
        parents=tuple(place[p] for p in parents if p in place),
        log_prob=views.spell(at, {p: 0 for p in parents if p not in place}),
        log_within=views.within[at],
    )
