r"""Sums over unknown features in SQL.

Every step of the recipe sends one message, the logarithm of a sum over its input's groups v, as
a function of its separator's places u and of the class c:

.. math:: m(u, c) = t(c) + \log \sum_v K(u, v, c) \exp(T(u, v, c) - t(c))

K are the step's tables, T the messages it receives where the values agree with what is known,
and t the largest of T, so that nothing underflows. Steps that wait for no one else share their
stages; in engines without lists, where every number is a column and columns are few, each has
its own, class by class.

`Messages` writes an expression for every number, which any engine knows. DuckDB and PostgreSQL
make lists: there one expression over a constant list of places or weights gives all numbers of
a step, and the engine plans a large network in no time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tanager.errors import MemoryBoundError
from tanager.network.exports.dialects import Dialect, DuckDB, Postgres, balanced_sum
from tanager.network.exports.recipe import Codes, Recipe, Step

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
    recipe, every = messages.recipe, range(messages.recipe.n_classes)
    if messages.dialect.has_lists:
        rounds: list[tuple[list[int], Sequence[int]]] = [(s, every) for s in _levels(recipe)]
    else:
        rounds = [([s], [c]) for s in _one_by_one(recipe) for c in every]
    for rank, (steps, classes) in enumerate(rounds):
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


# Up to here PostgreSQL is faster with an expression for every number: a subquery for each of
# 30 features and two classes takes it three times as long.
FEW_TERMS = 1 << 13


def messages_of(recipe: Recipe, dialect: Dialect) -> Messages:
    """Return what collects the stages of sums in a dialect."""
    if isinstance(dialect, DuckDB):
        return _Lists(recipe, dialect)
    if isinstance(dialect, Postgres) and recipe.n_terms > FEW_TERMS:
        return _Subqueries(recipe, dialect)
    return Messages(recipe, dialect)


class _Lists(Messages):
    """Collects stages with one expression per step and class, as DuckDB writes lists.

    T and its weights are a list of lists where something stands beside.
    """

    def __init__(self, recipe: Recipe, dialect: Dialect) -> None:
        super().__init__(recipe, dialect)
        self.known: dict[tuple[int, Codes], str] = {}  # columns of what agrees, by input and view

    def agree(self) -> None:
        """Add for each input and view 0 for the places that agree with what is known, else OUT."""
        for s, step in enumerate(self.recipe.steps):
            for i, view in self._scope(s).items() if step.messages else ():
                self._know(i, view)

    def _know(self, i: int, view: Codes) -> None:
        """Add the column of what agrees for an input and a view, once."""
        if (i, view) not in self.known:
            self.known[i, view] = f"e{len(self.known)}"
            self._add(self.known[i, view], self._agreement(i, view, "0.0", OUT))

    def gather(self, s: int) -> None:
        """T: a number for every place beside the step's input, and every group of it."""
        step = self.recipe.steps[s]
        places = self._places(s) if step.messages else []
        for c in self.now if step.messages else ():
            read = [self._read(self.known[one]) for one in self._scope(s).items()]
            read += [self._read(f"m{m}_{c}") for m in step.messages]
            self._add(f"g{s}_{c}", self._gathered(s, read, places))

    def peak(self, s: int) -> None:
        """t: the largest of T."""
        for c in self.now if self.recipe.steps[s].messages else ():
            self._add(f"t{s}_{c}", self._largest(s, self._read(f"g{s}_{c}")))

    def weigh(self, s: int) -> None:
        """exp(T - t); of a step that receives nothing, whether each group agrees."""
        step = self.recipe.steps[s]
        if not step.messages:
            every = tuple(range(self.recipe.inputs[step.input].n_groups))
            self._add(f"w{s}", self._agreement(step.input, every, "1.0", "0.0"))
            return
        for c in self.now:
            weight = f"EXP(GREATEST(x-{self._read(f't{s}_{c}')},{FLOOR}))"
            self._add(f"w{s}_{c}", self._weights(s, weight, self._read(f"g{s}_{c}")))

    def send(self, s: int) -> None:
        """m: the message of a step."""
        step = self.recipe.steps[s]
        n_groups = self.recipe.inputs[step.input].n_groups
        table = np.maximum(np.exp(self.recipe.step_table(step)), SMALLEST)
        for c in self.now:
            weights = self._read(f"w{s}_{c}" if step.messages else f"w{s}")
            top = f"{self._read(f't{s}_{c}')}+" if step.messages else ""
            rows = table[..., c].reshape(-1, n_groups)
            self._add(f"m{s}_{c}", self._sums(s, top, weights, rows))

    def _scope(self, s: int) -> dict[int, Codes]:
        """Return what T varies over: views of what stands beside, then the step's own groups."""
        step = self.recipe.steps[s]
        views = {i: step.views[step.separator.index(i)] for i in self.beside[s]}
        return views | {step.input: tuple(range(self.recipe.inputs[step.input].n_groups))}

    def _places(self, s: int) -> list[list[list[int]]]:
        """Return of every number of T its places in what is known and in messages, from one on.

        A list for every combination of places beside, in it one for every group.
        """
        step, scope = self.recipe.steps[s], self._scope(s)
        lists = []
        for other in product(*(range(max(scope[i]) + 1) for i in self.beside[s])):
            places = []
            for v in scope[step.input]:
                pairs = zip(scope.items(), (*other, v), strict=True)
                groups = {i: view.index(at) for (i, view), at in pairs}
                sent = [self._message_place(m, groups) for m in step.messages]
                places.append([1 + at for at in (*other, v, *sent)])
            lists.append(places)
        return lists

    def _lists(self, s: int) -> list[int]:
        """Return for each value of a message which combination of places beside it has."""
        step = self.recipe.steps[s]
        sizes = dict(zip(step.separator, step.shape, strict=True))
        found = []
        for u in product(*map(range, step.shape)):
            chosen, at = dict(zip(step.separator, u, strict=True)), 0
            for i in self.beside[s]:
                at = at * sizes[i] + chosen[i]
            found.append(at)
        return found

    def _agreement(self, i: int, view: Codes, yes: str, no: str) -> str:
        """Return a list of `yes` for the places that agree with what is known, `no` for others."""
        group = self._read(group_column(self.recipe, i))
        place = group
        if view != tuple(range(len(view))):
            place = f"({self._constant(view, whole=True)})[{group}+1]"
        case = f"CASE WHEN {group}={len(view)} OR p={place} THEN {yes} ELSE {no} END"
        return self._for_places(case, max(view) + 1)

    def _constant(self, values: Sequence[object], *, whole: bool = False) -> str:
        """Return a constant list of numbers; the engine reads it as a text, at once."""
        return DuckDB.numbers(values, "INT" if whole else "DOUBLE")

    def _for_places(self, what: str, n: int) -> str:
        """Return a list of what is said of p, for p from zero on."""
        return f"[{what} for p in range({n})]"

    def _gathered(self, s: int, read: Sequence[str], places: list[list[list[int]]]) -> str:
        """Return T, from the lists it reads and the places of each of its numbers in them."""
        total = " + ".join(f"{name}[p[{at + 1}]]" for at, name in enumerate(read))
        if not self.beside[s]:
            return f"[{total} for p in {self._constant(places[0], whole=True)}]"
        return f"[[{total} for p in q] for q in {self._constant(places, whole=True)}]"

    def _largest(self, s: int, given: str) -> str:
        """Return the largest number of T."""
        return (
            f"list_max([list_max(q) for q in {given}])" if self.beside[s] else f"list_max({given})"
        )

    def _weights(self, s: int, weight: str, given: str) -> str:
        """Return the weight of every number x of T."""
        inner = f"{weight} for x in"
        return f"[[{inner} q] for q in {given}]" if self.beside[s] else f"[{inner} {given}]"

    def _sums(self, s: int, top: str, weights: str, rows: NDArray[np.float64]) -> str:
        """Return the message: for every row of a table the log of its product with the weights."""
        shown = self._constant([[self.dialect.constant(x) for x in row] for row in rows.tolist()])
        if not self.beside[s]:
            return f"[{top}LN(list_dot_product(k,{weights})) for k in {shown}]"
        lists = self._constant([1 + at for at in self._lists(s)], whole=True)
        pairs = f"list_zip({shown},{lists})"
        return f"[{top}LN(list_dot_product(p[1],{weights}[p[2]])) for p in {pairs}]"


class _Subqueries(_Lists):
    """PostgreSQL's arrays, made by subqueries over places.

    Numbers for what does not agree with what is known count nowhere, and are not computed.
    """

    def agree(self) -> None:
        """Add what agrees for the separators of messages too."""
        super().agree()
        for step in self.recipe.steps:
            for i, view in zip(step.separator, step.views, strict=True):
                self._know(i, view)

    def _constant(self, values: Sequence[object], *, whole: bool = False) -> str:
        return Postgres.numbers(values, "int" if whole else "float8")

    def _for_places(self, what: str, n: int) -> str:
        return f"ARRAY(SELECT ({what})::float8 FROM generate_series(0,{n - 1}) AS p)"

    def _gathered(self, s: int, read: Sequence[str], places: list[list[list[int]]]) -> str:
        flat = [one for some in places for one in some]
        shown = [self._constant(column, whole=True) for column in zip(*flat, strict=True)]
        items = [f"{name}[({column})[p]]" for name, column in zip(read, shown, strict=True)]
        n_known = len(self._scope(s))
        agrees = " AND ".join(f"{item}=0" for item in items[:n_known])
        total = f"CASE WHEN {agrees} THEN {' + '.join(items[n_known:])} ELSE {OUT} END"
        return f"ARRAY(SELECT {total} FROM generate_series(1,{len(flat)}) AS p)"

    def _largest(self, s: int, given: str) -> str:  # noqa: ARG002  (always one list)
        return f"(SELECT MAX(x) FROM unnest({given}) AS x)"

    def _weights(self, s: int, weight: str, given: str) -> str:  # noqa: ARG002
        return f"ARRAY(SELECT {weight} FROM unnest({given}) AS x)"

    def _sums(self, s: int, top: str, weights: str, rows: NDArray[np.float64]) -> str:
        step, (n_values, n_groups) = self.recipe.steps[s], rows.shape
        agrees, start, left = [], "0", n_values
        for i, view, size in zip(step.separator, step.views, step.shape, strict=True):
            left //= size
            place = f"p/{left}%{size}"
            agrees.append(f"{self._read(self.known[i, view])}[{place}+1]=0")
            if i in self.beside[s]:
                start = f"({start}*{size}+{place})"
        products = [
            f"k[p*{n_groups}+{at + 1}]*{weights}[{start}*{n_groups}+{at + 1}]"
            for at in range(n_groups)
        ]
        total = f"{top}LN({balanced_sum(products)})"
        if agrees:
            total = f"CASE WHEN {' AND '.join(agrees)} THEN {total} ELSE 0 END"
        shown = self._constant([self.dialect.constant(x) for x in rows.ravel().tolist()])
        source = f"generate_series(0,{n_values - 1}) AS p, (SELECT {shown} AS k) AS c"
        return f"ARRAY(SELECT {total} FROM {source})"
