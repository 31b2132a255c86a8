"""What any program must do to score a row as the network does.

Every export reads this one description::

    inputs     one a feature of the structure: how a raw value becomes a code
    families   one an input: its parents, and log P(x | y, parents), spelled out
    order      inputs, parents before children
    steps      how unknown inputs are summed out, one a step

A row's log-joint is the class prior plus one look-up a family. Of a row with
unknown inputs the families of inputs that are unknown, with nothing known below
them, drop out: they sum to one. The rest is summed out step by step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tanager.codes.columns import NumericColumn
from tanager.errors import MemoryBoundError
from tanager.network.exports.variables import target_name
from tanager.network.history import Edit
from tanager.network.marginal import eliminate

if TYPE_CHECKING:
    from tanager.codes.columns import Column
    from tanager.network.network import Network

__all__ = ["Family", "Input", "Recipe", "Step", "make_recipe"]

Floats = NDArray[np.float64]

MAX_CELLS = 1 << 22  # of all tables spelled out: about 80 MB of text


@dataclass(frozen=True)
class Input:
    """How one column's raw values become codes.

    Codes are 0 .. arity-1; code `arity` means unknown.

    Attributes
    ----------
    name : str
    kind : {'number', 'integer', 'real', 'boolean', 'text', 'null'}
        ``'number'`` is cut into intervals, all others are categories.
    cuts : tuple of float
        Of a number: its code is how many cuts are less than it.
    values : tuple
        Of a category: its code is its place here; any other value is unknown.
    missing : int
        The code of a missing value; `arity` where missing is unknown.
    arity : int
    labels : tuple of str
        What people call each code.
    temporal : bool
        Whether the numbers are seconds since 1970, of dates or times.
    as_parent : tuple of int or None
        For each code the coarser code by which the tables of its children know
        it; None where they know it by the code itself.
    """

    name: str
    kind: str
    cuts: tuple[float, ...]
    values: tuple[Any, ...]
    missing: int
    arity: int
    labels: tuple[str, ...]
    temporal: bool = False
    as_parent: tuple[int, ...] | None = None

    @property
    def parent_arity(self) -> int:
        """Number of codes that the tables of its children know."""
        return self.arity if self.as_parent is None else max(self.as_parent) + 1


@dataclass(frozen=True, eq=False)
class Family:
    """One input's table.

    Attributes
    ----------
    parents : tuple of int
        Inputs, in the order of the table's axes.
    log_prob : ndarray of float64, shape (*parents, arity, n_classes)
    """

    parents: tuple[int, ...]
    log_prob: Floats


@dataclass(frozen=True)
class Step:
    """Sum out one input.

    Attributes
    ----------
    input : int
        The input to sum out.
    separator : tuple of int
        Inputs that the sum is a function of, ascending.
    families : tuple of int
        Families multiplied at this step.
    messages : tuple of int
        Earlier steps whose sums are multiplied at this step.
    """

    input: int
    separator: tuple[int, ...]
    families: tuple[int, ...]
    messages: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Recipe:
    """All that an export needs to know of a network.

    Attributes
    ----------
    target : str
        Name of the class.
    classes : tuple
        The labels: integers, reals, booleans or texts.
    log_prior : ndarray of float64, shape (n_classes,)
    inputs, families : tuple
        Aligned.
    order : tuple of int
        Inputs, parents before children.
    steps : tuple of Step
        In order of execution.
    normalized : bool
        Whether every table sums to one over its input's values.
    ignored : tuple of str
        Columns of the training table that the network does not use.
    history : tuple of Edit
        What was changed by hand.
    """

    target: str
    classes: tuple[Any, ...]
    log_prior: Floats
    inputs: tuple[Input, ...]
    families: tuple[Family, ...]
    order: tuple[int, ...]
    steps: tuple[Step, ...]
    normalized: bool
    ignored: tuple[str, ...]
    history: tuple[Edit, ...] = ()

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """For each input the inputs that it is a parent of."""
        found: list[list[int]] = [[] for _ in self.inputs]
        for child, family in enumerate(self.families):
            for parent in family.parents:
                found[parent].append(child)
        return tuple(map(tuple, found))

    def size(self, inputs: Iterable[int]) -> int:
        """Return the number of combinations of some inputs' values."""
        return prod(self.inputs[i].arity for i in inputs)

    def spelled(self, at: int) -> Floats:
        """Return the table of family `at` over the codes themselves, (*parents, arity, C)."""
        table = self.families[at].log_prob
        for axis, parent in enumerate(self.families[at].parents):
            coarse = self.inputs[parent].as_parent
            if coarse is not None:
                table = np.take(table, coarse, axis=axis)
        return table

    def step_table(self, step: Step) -> Floats:
        """Return the product of a step's tables as logs, (*separator, values, n_classes)."""
        axes = (*step.separator, step.input)
        total = np.zeros([*(self.inputs[i].arity for i in axes), self.n_classes])
        for at in step.families:
            members = (*self.families[at].parents, at)
            table = np.moveaxis(self.spelled(at), -1, 0)
            order = [members.index(i) for i in axes if i in members]
            table = table.transpose(0, *(1 + o for o in order))
            shape = [self.inputs[i].arity if i in members else 1 for i in axes]
            total += np.moveaxis(table.reshape(-1, *shape), 0, -1)
        return total

    def check_width(self, max_cells: int, remedy: str) -> None:
        """Refuse a network whose unknown inputs cannot be summed out within a bound."""
        if all(not family.parents for family in self.families):
            return
        widest = max(self.steps, key=lambda step: self.size((step.input, *step.separator)))
        together = sorted((widest.input, *widest.separator))
        n_cells = self.size(together) * self.n_classes
        if n_cells > max_cells:
            names = ", ".join(repr(self.inputs[i].name) for i in together)
            raise MemoryBoundError(
                f"Rows with unknown values cannot be scored there: {names} would have to be summed "
                f"out together, {n_cells:,} cells, beyond the bound of {max_cells:,}. {remedy}"
            )


def make_recipe(network: Network) -> Recipe:
    """Describe a network; an error names the table that is too large to be spelled out."""
    structure, codebook = network.structure, network.codebook
    _check_tables(network)
    place = {feature: at for at, feature in enumerate(structure.selected)}
    families = tuple(
        Family(tuple(place[p] for p in parents), table.to_dense().log_prob)
        for parents, table in zip(structure.parent_indices, network.tables.families, strict=True)
    )
    inputs = tuple(_describe(codebook.columns[feature]) for feature in structure.selected)
    return Recipe(
        target=target_name(network),
        classes=tuple(codebook.classes.tolist()),
        log_prior=network.log_prior,
        inputs=inputs,
        families=families,
        order=structure.topological_order(),
        steps=plan_steps(inputs, families),
        normalized=network.tables.normalized,
        ignored=tuple(name for at, name in enumerate(structure.names) if at not in place),
        history=network.history,
    )


def plan_steps(inputs: tuple[Input, ...], families: tuple[Family, ...]) -> tuple[Step, ...]:
    """Return how every input is summed out, by least fill-in.

    The same order serves any set of unknown inputs: what is known is a value
    that does not vary.
    """
    members = [frozenset((*family.parents, at)) for at, family in enumerate(families)]

    def size(some: Iterable[int]) -> int:
        return prod(inputs[i].arity for i in some)

    left = set(range(len(families)))
    waiting: list[tuple[int, frozenset[int]]] = []  # steps whose sums are not yet used
    steps: list[Step] = []
    for feature, around in eliminate(range(len(inputs)), members, size):
        used = tuple(sorted(f for f in left if feature in members[f]))
        left.difference_update(used)
        taken = tuple(at for at, scope in waiting if feature in scope)
        waiting = [(at, scope) for at, scope in waiting if feature not in scope]
        if around:
            waiting.append((len(steps), around))
        steps.append(Step(feature, tuple(sorted(around)), used, taken))
    return tuple(steps)


def _check_tables(network: Network) -> None:
    families = network.tables.families
    sizes = [prod(table.member_arities) * table.n_classes for table in families]
    if sum(sizes) > MAX_CELLS:
        largest = max(range(len(sizes)), key=lambda at: sizes[at])
        name = network.structure.features[largest]
        raise MemoryBoundError(
            f"The tables have {sum(sizes):,} cells spelled out, beyond the bound of {MAX_CELLS:,}; "
            f"the largest is that of {name!r} with {sizes[largest]:,}. Learn a structure with "
            "fewer parents, or fewer bins, to export it."
        )


def _describe(column: Column) -> Input:
    missing = column.arity if column.missing_code is None else column.missing_code
    labels = tuple(column.labels())
    if isinstance(column, NumericColumn):
        cuts = tuple(column.cuts.tolist())
        return Input(
            column.name, "number", cuts, (), missing, column.arity, labels, column.temporal
        )
    values = tuple(column.values.to_pylist())
    return Input(column.name, column.family, (), values, missing, column.arity, labels)
