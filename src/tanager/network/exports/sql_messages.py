r"""Sums over unknown features in SQL.

Every step of the recipe sends one message, the logarithm of a sum over its
input's groups v, as a function of its separator's places u and of the class c:

.. math:: m(u, c) = t(c) + \log \sum_v K(u, v, c) \exp(T(u, v, c) - t(c))

K are the step's tables, T the messages it receives where the values agree with
what is known, and t the largest of T, so that nothing underflows. Steps that
wait for no one else share their stages; in engines without lists, where every
number is a column and columns are few, each has its own, class by class.

Here every number is an expression of its own, which any engine knows. `sql_lists`
has one expression for all numbers of a step, for engines that can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from tanager.errors import MemoryBoundError
from tanager.network.exports.dialects import Dialect, balanced_sum
from tanager.network.exports.recipe import Recipe, Step

__all__ = ["FLOOR", "OUT", "SMALLEST", "Messages", "group_column", "message_stages"]

# What is less likely than this by comparison counts as this, in messages and in
# tables: the product of both stays within a double.
FLOOR = "-250.0"
SMALLEST = 1e-190
OUT = "-1e300"  # instead of a message's value that does not agree with what is known


def group_column(recipe: Recipe, i: int) -> str:
    """Return the column of an input's group: that of its code where each is a group of its own."""
    return f"c{i}" if recipe.inputs[i].groups is None else f"g{i}"


def message_stages(
    messages: Messages, carried: Sequence[str], shares: Mapping[int, str]
) -> list[str]:
    """Return the stages from ``plain`` to ``summed``: the carried columns, and l1, l2 and so on.

    `shares` has for each class the column of what the known codes add to their groups.
    """
    messages.open("known")
    messages.agree()
    for rank, (steps, classes) in enumerate(_rounds(messages.recipe, messages.dialect)):
        messages.now = classes
        for part in (messages.gather, messages.peak, messages.weigh, messages.send):
            messages.open(f"{part.__name__}{rank}")
            for s in steps:
                part(s)
    messages.open("summed")
    messages.conclude(shares)
    return messages.write(list(carried))


@dataclass
class _Stage:
    """One common table expression: what it adds, and what it reads."""

    name: str
    added: list[tuple[str, str]] = field(default_factory=list)
    reads: set[str] = field(default_factory=set)


class Messages:
    """Collects stages; `gather`, `peak`, `weigh` and `send` add one step's columns each."""

    def __init__(self, recipe: Recipe, dialect: Dialect) -> None:
        self.recipe = recipe
        self.dialect = dialect
        self.classes = range(recipe.n_classes)
        self.now: Sequence[int] = self.classes  # those whose columns are being added
        self.stages: list[_Stage] = []
        # The inputs other than its own over which what a step receives varies.
        self.beside = [
            tuple(
                sorted({i for m in step.messages for i in recipe.steps[m].separator} - {step.input})
            )
            for step in recipe.steps
        ]

    def open(self, name: str) -> None:
        """Begin a stage."""
        self.stages.append(_Stage(name))

    def agree(self) -> None:
        """Add what tells which groups agree with what is known, where steps read it."""

    def gather(self, s: int) -> None:
        """T: the sum of what arrives, where it agrees with what is known."""
        step = self.recipe.steps[s]
        for c in self.now if step.messages else ():
            for at, other in enumerate(self._grid(s)):
                beside = [self._agrees_in_place(step, i, of) for i, of in other.items()]
                groups = {i: step.firsts[step.separator.index(i)][of] for i, of in other.items()}
                items = []
                for v in range(self.recipe.inputs[step.input].n_groups):
                    groups[step.input] = v
                    parts = [self._message(m, groups, c) for m in step.messages]
                    agrees = " AND ".join([*beside, self._agrees(step.input, [v])])
                    items.append(f"CASE WHEN {agrees} THEN {balanced_sum(parts)} ELSE {OUT} END")
                self._add_pack(f"g{s}_{c}_{at}", items)

    def peak(self, s: int) -> None:
        """t: the largest of T."""
        step = self.recipe.steps[s]
        for c in self.now if step.messages else ():
            tops = []
            for at in range(len(self._grid(s))):
                items = self._items(f"g{s}_{c}_{at}", step.input)
                tops.append(self.dialect.top_of(f"g{s}_{c}_{at}", len(items)))
            self._add(f"t{s}_{c}", self.dialect.top(tops))

    def weigh(self, s: int) -> None:
        """exp(T - t); of a step that receives nothing, whether each group agrees."""
        step = self.recipe.steps[s]
        if not step.messages:
            values = range(self.recipe.inputs[step.input].n_groups)
            agree = [
                f"CASE WHEN {self._agrees(step.input, [v])} THEN 1.0 ELSE 0.0 END" for v in values
            ]
            if 0 in self.now:  # the same for every class
                self._add_pack(f"w{s}", agree)
            return
        for c in self.now:
            for at in range(len(self._grid(s))):
                top = self._read(f"t{s}_{c}")
                items = [
                    f"EXP({self.dialect.greatest}({item}-{top},{FLOOR}))"
                    for item in self._items(f"g{s}_{c}_{at}", step.input)
                ]
                self._add_pack(f"w{s}_{c}_{at}", items)

    def send(self, s: int) -> None:
        """m: the message of a step."""
        step = self.recipe.steps[s]
        table = np.maximum(np.exp(self.recipe.step_table(step)), SMALLEST)
        places = {tuple(other.values()): at for at, other in enumerate(self._grid(s))}
        for c in self.now:
            items = []
            for u in product(*map(range, step.shape)):
                weights = table[u][:, c].tolist()
                if not step.messages:
                    items.append(f"LN({self._dot(f'w{s}', weights)})")
                    continue
                chosen = dict(zip(step.separator, u, strict=True))
                at = places[tuple(chosen[i] for i in self.beside[s])]
                total = self._dot(f"w{s}_{c}_{at}", weights)
                items.append(f"{self._read(f't{s}_{c}')}+LN({total})")
            self._add_pack(f"m{s}_{c}", items)

    def conclude(self, shares: Mapping[int, str]) -> None:
        """Add the log-odds: the prior's, the codes', and what steps without a separator sent."""
        prior = self.recipe.log_prior
        last = [s for s, step in enumerate(self.recipe.steps) if not step.separator]
        for c in self.classes[1:]:
            parts = [self.dialect.constant(float(prior[c] - prior[0]))]
            parts += [self._read(shares[c])] if c in shares else []
            parts += [f"({self._message(s, {}, c)} - {self._message(s, {}, 0)})" for s in last]
            self._add(f"l{c}", balanced_sum(parts))

    def write(self, carried: list[str]) -> list[str]:
        """Return the stages as text, each with the columns that later ones read."""
        needed: set[str] = set()
        kept: list[list[str]] = []
        for stage in reversed(self.stages):
            needed -= {name for name, _ in stage.added}
            kept.append(sorted(needed))
            needed |= stage.reads
        written, source = [], "plain WHERE l1 IS NULL"
        for stage, columns in zip(self.stages, reversed(kept), strict=True):
            if not stage.added:
                continue
            shown = [*carried, *columns, *(f"{what} AS {name}" for name, what in stage.added)]
            if len(shown) > self.dialect.max_columns:
                raise MemoryBoundError(
                    f"Summing out unknown features takes {len(shown):,} columns at a time in this "
                    f"dialect, beyond the bound of {self.dialect.max_columns:,}. Export with "
                    "unknowns=False, or use another dialect or a structure with fewer parents.",
                    parameter="unknowns",
                )
            how, listed = self.dialect.materialized, ",\n ".join(shown)
            written.append(f"{stage.name} AS {how}(SELECT\n {listed}\n FROM {source})")
            source = stage.name
        return written

    def _grid(self, s: int) -> list[dict[int, int]]:
        """Return every combination of the places of what stands beside a step's input."""
        step = self.recipe.steps[s]
        sizes = [step.shape[step.separator.index(i)] for i in self.beside[s]]
        return [
            dict(zip(self.beside[s], chosen, strict=True)) for chosen in product(*map(range, sizes))
        ]

    def _agrees(self, i: int, groups: Sequence[int]) -> str:
        shown = ",".join(map(str, [*groups, self.recipe.inputs[i].n_groups]))
        return f"{self._read(group_column(self.recipe, i))} IN ({shown})"

    def _agrees_in_place(self, step: Step, i: int, place: int) -> str:
        view = step.views[step.separator.index(i)]
        return self._agrees(i, [group for group, found in enumerate(view) if found == place])

    def _message(self, s: int, groups: dict[int, int], c: int) -> str:
        return self._item(f"m{s}_{c}", self._message_place(s, groups))

    def _message_place(self, s: int, groups: dict[int, int]) -> int:
        step, at = self.recipe.steps[s], 0
        for i, view, size in zip(step.separator, step.views, step.shape, strict=True):
            at = at * size + view[groups[i]]
        return at

    def _items(self, name: str, i: int) -> list[str]:
        return [self._item(name, at) for at in range(self.recipe.inputs[i].n_groups)]

    def _item(self, name: str, at: int) -> str:
        self.stages[-1].reads.add(self.dialect.holder(name, at))
        return self.dialect.item(name, at)

    def _dot(self, name: str, weights: Sequence[float]) -> str:
        self.stages[-1].reads.update(self.dialect.holder(name, at) for at in range(len(weights)))
        return self.dialect.dot(name, weights)

    def _read(self, column: str) -> str:
        self.stages[-1].reads.add(column)
        return column

    def _add(self, name: str, what: str) -> None:
        self.stages[-1].added.append((name, what))

    def _add_pack(self, name: str, items: Sequence[str]) -> None:
        self.stages[-1].added += self.dialect.pack(name, items)


def _rounds(recipe: Recipe, dialect: Dialect) -> list[tuple[list[int], Sequence[int]]]:
    """Return which steps and classes share their stages, one round after the other."""
    classes = range(recipe.n_classes)
    if dialect.has_lists:
        return [(steps, classes) for steps in _levels(recipe)]
    return [([s], [c]) for s in _one_by_one(recipe) for c in classes]


def _levels(recipe: Recipe) -> list[list[int]]:
    """Return the steps by how many others they have to wait for, one after the other."""
    rank: list[int] = []
    for step in recipe.steps:
        rank.append(1 + max((rank[m] for m in step.messages), default=-1))
    return [[s for s, r in enumerate(rank) if r == level] for level in range(max(rank) + 1)]


def _one_by_one(recipe: Recipe) -> list[int]:
    """Return the steps so that each comes soon after those it waits for: little is held."""
    order: list[int] = []
    stack = [s for s, step in enumerate(recipe.steps) if not step.separator]
    while stack:
        order.append(stack.pop())
        stack.extend(recipe.steps[order[-1]].messages)
    return order[::-1]
