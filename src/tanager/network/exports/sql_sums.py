r"""Sums over unknown features in SQL.

Every step of the recipe sends one message, the logarithm of a sum over its input's groups v, as
a function of its separator's places u and of the class c:

.. math:: m(u, c) = t(c) + \log \sum_v K(u, v, c) \exp(T(u, v, c) - t(c))

K are the step's tables, T the messages it receives where the values agree with what is known,
and t the largest of T, so that nothing underflows. A step takes four stages:

    g   T, for every place beside the step's input, and in it every group: one vector a class
    t   the largest of T
    w   exp(T - t); of a step that receives nothing, whether each group agrees
    m   the message

Steps that wait for no one else share their stages; in engines without lists, where every number
is a column and columns are few, each has its own, class by class.

`Messages` writes an expression for every number, which any engine knows. DuckDB and PostgreSQL
make lists: there one expression over a constant list of places or weights gives all numbers of
a step, and the engine plans a large network in no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tanager.network.exports.dialects import Dialect, DuckDB, Postgres, balanced_sum
from tanager.network.exports.recipe import Codes, Recipe, Step
from tanager.network.exports.sql_stages import Stages

# What is less likely than this by comparison counts as this, in messages and in
# tables: the product of both stays within a double.
FLOOR = "-250.0"
SMALLEST = 1e-190
OUT = "-1e300"  # instead of a message's value that does not agree with what is known
# Up to here PostgreSQL is faster with an expression for every number: a subquery for each of
# 30 features and two classes takes it three times as long.
FEW_TERMS = 1 << 13

Vector = str | list[str]  # one expression, or one for every number


def group_column(recipe: Recipe, i: int) -> str:
    """Return the column of an input's group: that of its code where each is a group of its own."""
    return f"c{i}" if recipe.inputs[i].groups is None else f"g{i}"


def add_sums(stages: Stages, recipe: Recipe, dialect: Dialect) -> None:
    """Add the stages from ``plain`` to ``summed``, with l1, l2 and so on of rows that lack them."""
    stages.open("asked", "plain WHERE l1 IS NULL")
    if isinstance(dialect, DuckDB):
        _Lists(stages, recipe, dialect).add()
    elif isinstance(dialect, Postgres):
        how = _Subqueries if recipe.n_terms > FEW_TERMS else _Arrays
        how(stages, recipe, dialect).add()
    else:
        Messages(stages, recipe, dialect).add()


class _Sum:
    """One step, with the places of its numbers."""

    def __init__(self, recipe: Recipe, step: Step) -> None:
        self.step = step
        self.scope = step.scope
        sizes = [max(view) + 1 for view in self.scope.values()]
        table = np.maximum(np.exp(recipe.step_table(step)), SMALLEST)
        self.table = table.reshape(-1, step.n_groups, recipe.n_classes)
        # Of every number of T its places in the scope's views, then in the messages.
        self.places = []
        sent = [recipe.steps[m] for m in step.messages]
        for chosen in product(*map(range, sizes)):
            pairs = zip(self.scope.items(), chosen, strict=True)
            group = {i: view.index(at) for (i, view), at in pairs}
            self.places.append((*chosen, *(_message_place(one, group) for one in sent)))
        # Of every value of the message, where the numbers of T that it sums begin.
        self.starts = []
        for u in product(*map(range, step.shape)):
            at = dict(zip(step.separator, u, strict=True))
            beside = [at[i] for i in step.beside]
            first = np.ravel_multi_index(beside, sizes[:-1]) if beside else 0
            self.starts.append(int(first) * step.n_groups)


def _message_place(step: Step, group: dict[int, int]) -> int:
    at = 0
    for i, view, size in zip(step.separator, step.views, step.shape, strict=True):
        at = at * size + view[group[i]]
    return at


class Messages:
    """Adds the stages; here a vector is a column for every number."""

    def __init__(self, stages: Stages, recipe: Recipe, dialect: Dialect) -> None:
        self.stages = stages
        self.recipe = recipe
        self.dialect = dialect
        self.sums = [_Sum(recipe, step) for step in recipe.steps]

    def add(self) -> None:
        """Add all stages."""
        for rank, (steps, classes) in enumerate(self.rounds):
            for part in (self.gather, self.peak, self.weigh, self.send):
                self.stages.open(f"{part.__name__}{rank}", bounded=True)
                for s in steps:
                    for c in classes:
                        part(s, c)
        self.stages.open("summed", bounded=True)
        self.conclude()

    @cached_property
    def rounds(self) -> list[tuple[list[int], Sequence[int]]]:
        """The steps, and classes, that share their stages: each soon after those it waits for."""
        order: list[int] = []
        stack = [s for s, step in enumerate(self.recipe.steps) if not step.separator]
        while stack:
            order.append(stack.pop())
            stack.extend(self.recipe.steps[order[-1]].messages)
        return [([s], [c]) for s in order[::-1] for c in range(self.recipe.n_classes)]

    def gather(self, s: int, c: int) -> None:
        """T: the sum of what arrives, where it agrees with what is known."""
        if messages := self.recipe.steps[s].messages:
            self.put(f"g{s}_{c}", self.gathered(self.sums[s], [f"m{m}_{c}" for m in messages]))

    def peak(self, s: int, c: int) -> None:
        """t: the largest of T."""
        if self.recipe.steps[s].messages:
            self.put(f"t{s}_{c}", self.largest(self.sums[s], f"g{s}_{c}"))

    def weigh(self, s: int, c: int) -> None:
        """exp(T - t); of a step that receives nothing, whether each group agrees."""
        step = self.recipe.steps[s]
        if step.messages:
            weight = f"EXP({self.dialect.greatest}({{}}-{self.read(f't{s}_{c}')},{FLOOR}))"
            self.put(f"w{s}_{c}", self.weights(self.sums[s], f"g{s}_{c}", weight))
        elif c == 0:  # the same for every class
            every = tuple(range(step.n_groups))
            self.put(f"w{s}", self.agreement(step.input, every, "1.0", "0.0"))

    def send(self, s: int, c: int) -> None:
        """m: the message of a step."""
        receives = bool(self.recipe.steps[s].messages)
        top = f"{self.read(f't{s}_{c}')}+" if receives else ""
        name = f"w{s}_{c}" if receives else f"w{s}"
        self.put(f"m{s}_{c}", self.sent(self.sums[s], c, top, name))

    def conclude(self) -> None:
        """Add the log-odds: the prior's, the codes', and what steps without a separator sent."""
        prior = self.recipe.log_prior
        last = [s for s, step in enumerate(self.recipe.steps) if not step.separator]
        grouped = any(given.groups is not None for given in self.recipe.inputs)
        for c in range(1, self.recipe.n_classes):
            parts = [self.dialect.constant(float(prior[c] - prior[0]))]
            parts += [self.read(f"a{c}")] if grouped else []
            parts += [f"({self.item(f'm{s}_{c}', 0)} - {self.item(f'm{s}_0', 0)})" for s in last]
            self.stages.add(f"l{c}", balanced_sum(parts))

    def read(self, column: str) -> str:
        """Return a column."""
        return self.stages.read(column)

    def put(self, name: str, what: Vector) -> None:
        """Add a vector, or a number."""
        if isinstance(what, str):
            self.stages.add(name, what)
        else:
            for at, item in enumerate(what):
                self.stages.add(f"{name}_{at}", item)

    def item(self, name: str, at: int) -> str:
        """Return one number of a vector."""
        return self.read(f"{name}_{at}")

    def agreement(self, i: int, view: Codes, yes: str, no: str) -> Vector:
        """Return `yes` for the places of a view that agree with what is known, `no` for others."""
        places = range(max(view) + 1)
        return [f"CASE WHEN {self.agrees(i, view, at)} THEN {yes} ELSE {no} END" for at in places]

    def agrees(self, i: int, view: Codes, place: int) -> str:
        """Return whether a place of a view agrees with what is known of an input."""
        groups = [group for group, found in enumerate(view) if found == place]
        shown = ",".join(map(str, [*groups, len(view)]))
        return f"{self.read(group_column(self.recipe, i))} IN ({shown})"

    def gathered(self, sum_: _Sum, messages: list[str]) -> Vector:
        """Return T."""
        items = []
        for places in sum_.places:
            known = zip(sum_.scope.items(), places, strict=False)
            agrees = " AND ".join(self.agrees(i, view, at) for (i, view), at in known)
            pairs = zip(messages, places[len(sum_.scope) :], strict=True)
            total = balanced_sum([self.item(name, at) for name, at in pairs])
            items.append(f"CASE WHEN {agrees} THEN {total} ELSE {OUT} END")
        return items

    def largest(self, sum_: _Sum, name: str) -> str:
        """Return the largest number of T."""
        return self.dialect.top([self.item(name, at) for at in range(len(sum_.places))])

    def weights(self, sum_: _Sum, name: str, weight: str) -> Vector:
        """Return the weight of every number of T."""
        return [weight.format(self.item(name, at)) for at in range(len(sum_.places))]

    def sent(self, sum_: _Sum, c: int, top: str, name: str) -> Vector:
        """Return the message: of every value the log of its table's product with the weights."""
        items = []
        for start, row in zip(sum_.starts, sum_.table[:, :, c].tolist(), strict=True):
            products = [
                f"{self.dialect.constant(weight)}*{self.item(name, start + at)}"
                for at, weight in enumerate(row)
            ]
            items.append(f"{top}LN({balanced_sum(products)})")
        return items


class _Arrays(Messages):
    """A vector is an array, as PostgreSQL writes it."""

    @cached_property
    def rounds(self) -> list[tuple[list[int], Sequence[int]]]:
        """The steps by how many others they have to wait for, one after the other."""
        rank: list[int] = []
        for step in self.recipe.steps:
            rank.append(1 + max((rank[m] for m in step.messages), default=-1))
        every = range(self.recipe.n_classes)
        levels = range(max(rank) + 1)
        return [([s for s, r in enumerate(rank) if r == level], every) for level in levels]

    def put(self, name: str, what: Vector) -> None:
        if not isinstance(what, str):
            what = f"ARRAY[{','.join(what)}]::float8[]"
        self.stages.add(name, what)

    def item(self, name: str, at: int) -> str:
        return f"{self.read(name)}[{at + 1}]"


class _Lists(_Arrays):
    """One expression gives a vector, as DuckDB makes lists.

    T and its weights are a list of lists where something stands beside: slices would copy.
    """

    def add(self) -> None:
        # Of each input and view 0 for the places that agree with what is known, else OUT.
        self.stages.open("known")
        self.known: dict[tuple[int, Codes], str] = {}
        for sum_ in self.sums:
            for i, view in self.views(sum_):
                if (i, view) not in self.known:
                    self.known[i, view] = f"e{len(self.known)}"
                    self.put(self.known[i, view], self.agreement(i, view, "0.0", OUT))
        super().add()

    def views(self, sum_: _Sum) -> list[tuple[int, Codes]]:
        """Return the inputs and views of which a step reads what agrees."""
        return list(sum_.scope.items()) if sum_.step.messages else []

    def agreement(self, i: int, view: Codes, yes: str, no: str) -> Vector:
        group = self.read(group_column(self.recipe, i))
        place = group
        if view != tuple(range(len(view))):
            place = f"({self.constant(view, whole=True)})[{group}+1]"
        case = f"CASE WHEN {group}={len(view)} OR p={place} THEN {yes} ELSE {no} END"
        return self.for_places(case, max(view) + 1)

    def constant(self, values: Sequence[object], *, whole: bool = False) -> str:
        """Return a constant list of numbers; the engine reads it as a text, at once."""
        return DuckDB.numbers(values, "INT" if whole else "DOUBLE")

    def shown(self, rows: NDArray[np.float64]) -> Any:
        """Return numbers as tables have them."""
        return [[self.dialect.constant(x) for x in row] for row in rows.tolist()]

    def for_places(self, what: str, n: int) -> str:
        """Return a list of what is said of p, for p from zero on."""
        return f"[{what} for p in range({n})]"

    def gathered(self, sum_: _Sum, messages: list[str]) -> Vector:
        names = [*(self.known[one] for one in sum_.scope.items()), *messages]
        total = " + ".join(f"{self.read(name)}[p[{at + 1}]]" for at, name in enumerate(names))
        places: list[Any] = [[1 + at for at in some] for some in sum_.places]
        if not sum_.step.beside:
            return f"[{total} for p in {self.constant(places, whole=True)}]"
        n = sum_.step.n_groups
        places = [places[at : at + n] for at in range(0, len(places), n)]
        return f"[[{total} for p in q] for q in {self.constant(places, whole=True)}]"

    def largest(self, sum_: _Sum, name: str) -> str:
        given = self.read(name)
        each = f"[list_max(q) for q in {given}]" if sum_.step.beside else given
        return f"list_max({each})"

    def weights(self, sum_: _Sum, name: str, weight: str) -> Vector:
        each, given = f"{weight.format('x')} for x in", self.read(name)
        return f"[[{each} q] for q in {given}]" if sum_.step.beside else f"[{each} {given}]"

    def sent(self, sum_: _Sum, c: int, top: str, name: str) -> Vector:
        rows, weights = self.constant(self.shown(sum_.table[:, :, c])), self.read(name)
        if not sum_.step.beside:
            return f"[{top}LN(list_dot_product(k,{weights})) for k in {rows}]"
        lists = [1 + start // sum_.step.n_groups for start in sum_.starts]
        pairs = f"list_zip({rows},{self.constant(lists, whole=True)})"
        return f"[{top}LN(list_dot_product(p[1],{weights}[p[2]])) for p in {pairs}]"


class _Subqueries(_Lists):
    """Subqueries over places give PostgreSQL's arrays.

    Numbers for what does not agree with what is known count nowhere, and are not computed.
    """

    def views(self, sum_: _Sum) -> list[tuple[int, Codes]]:
        separator = zip(sum_.step.separator, sum_.step.views, strict=True)
        return [*super().views(sum_), *separator]

    def constant(self, values: Sequence[object], *, whole: bool = False) -> str:
        return Postgres.numbers(values, "int" if whole else "float8")

    def for_places(self, what: str, n: int) -> str:
        return f"ARRAY(SELECT ({what})::float8 FROM generate_series(0,{n - 1}) AS p)"

    def gathered(self, sum_: _Sum, messages: list[str]) -> Vector:
        names = [*(self.known[one] for one in sum_.scope.items()), *messages]
        columns = zip(names, np.array(sum_.places).T + 1, strict=True)
        items = [f"{self.read(name)}[({self.constant(at, whole=True)})[p]]" for name, at in columns]
        n_known = len(sum_.scope)
        agrees = " AND ".join(f"{item}=0" for item in items[:n_known])
        total = f"CASE WHEN {agrees} THEN {' + '.join(items[n_known:])} ELSE {OUT} END"
        return f"ARRAY(SELECT {total} FROM generate_series(1,{len(sum_.places)}) AS p)"

    def largest(self, sum_: _Sum, name: str) -> str:  # noqa: ARG002  (always one array)
        return f"(SELECT MAX(x) FROM unnest({self.read(name)}) AS x)"

    def weights(self, sum_: _Sum, name: str, weight: str) -> Vector:  # noqa: ARG002
        return f"ARRAY(SELECT {weight.format('x')} FROM unnest({self.read(name)}) AS x)"

    def sent(self, sum_: _Sum, c: int, top: str, name: str) -> Vector:
        step, (n_values, n_groups, _) = sum_.step, sum_.table.shape
        agrees, start, left = [], "0", n_values
        for i, view, size in zip(step.separator, step.views, step.shape, strict=True):
            left //= size
            place = f"p/{left}%{size}"
            agrees.append(f"{self.read(self.known[i, view])}[{place}+1]=0")
            if i in step.beside:
                start = f"({start}*{size}+{place})"
        products = [
            f"k[p*{n_groups}+{at + 1}]*{self.read(name)}[{start}*{n_groups}+{at + 1}]"
            for at in range(n_groups)
        ]
        total = f"{top}LN({balanced_sum(products)})"
        if agrees:
            total = f"CASE WHEN {' AND '.join(agrees)} THEN {total} ELSE 0 END"
        rows = [number for row in self.shown(sum_.table[:, :, c]) for number in row]
        source = f"generate_series(0,{n_values - 1}) AS p, (SELECT {self.constant(rows)} AS k) AS c"
        return f"ARRAY(SELECT {total} FROM {source})"
