"""Sums over unknown features in engines that make lists: DuckDB and PostgreSQL.

The messages are those of `sql_messages`. What stands there as an expression for
every number is here one expression over a constant list of places or weights, so
that the engine plans a large network in no time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tanager.network.exports.dialects import Dialect, DuckDB, Postgres, balanced_sum
from tanager.network.exports.recipe import Codes, Recipe
from tanager.network.exports.sql_messages import FLOOR, OUT, SMALLEST, Messages, group_column

__all__ = ["messages_of"]


# Up to here PostgreSQL is faster with an expression for every number: a subquery for each of
# 30 features and two classes takes it three times as long.
FEW_TERMS = 1 << 13


def messages_of(recipe: Recipe, dialect: Dialect) -> Messages:
    """Return what collects the stages of sums in a dialect."""
    if isinstance(dialect, DuckDB):
        return _Comprehensions(recipe, dialect)
    if isinstance(dialect, Postgres) and recipe.n_terms > FEW_TERMS:
        return _Subqueries(recipe, dialect)
    return Messages(recipe, dialect)


class _Lists(Messages, ABC):
    """Collects stages, with one expression a step and class; the engine's own are below."""

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

    @abstractmethod
    def _constant(self, values: Sequence[object], *, whole: bool = False) -> str:
        """Return a constant list of numbers; the engine reads it as a text, at once."""

    @abstractmethod
    def _for_places(self, what: str, n: int) -> str:
        """Return a list of what is said of p, for p from zero on."""

    @abstractmethod
    def _gathered(self, s: int, read: Sequence[str], places: list[list[list[int]]]) -> str:
        """Return T, from the lists it reads and the places of each of its numbers in them."""

    @abstractmethod
    def _largest(self, s: int, given: str) -> str:
        """Return the largest number of T."""

    @abstractmethod
    def _weights(self, s: int, weight: str, given: str) -> str:
        """Return the weight of every number x of T."""

    @abstractmethod
    def _sums(self, s: int, top: str, weights: str, rows: NDArray[np.float64]) -> str:
        """Return the message: for every row of a table the log of its product with the weights."""


class _Comprehensions(_Lists):
    """DuckDB's lists. T and its weights are a list of lists where something stands beside."""

    def _constant(self, values: Sequence[object], *, whole: bool = False) -> str:
        return DuckDB.numbers(values, "INT" if whole else "DOUBLE")

    def _for_places(self, what: str, n: int) -> str:
        return f"[{what} for p in range({n})]"

    def _gathered(self, s: int, read: Sequence[str], places: list[list[list[int]]]) -> str:
        total = " + ".join(f"{name}[p[{at + 1}]]" for at, name in enumerate(read))
        if not self.beside[s]:
            return f"[{total} for p in {self._constant(places[0], whole=True)}]"
        return f"[[{total} for p in q] for q in {self._constant(places, whole=True)}]"

    def _largest(self, s: int, given: str) -> str:
        return (
            f"list_max([list_max(q) for q in {given}])" if self.beside[s] else f"list_max({given})"
        )

    def _weights(self, s: int, weight: str, given: str) -> str:
        inner = f"{weight} for x in"
        return f"[[{inner} q] for q in {given}]" if self.beside[s] else f"[{inner} {given}]"

    def _sums(self, s: int, top: str, weights: str, rows: NDArray[np.float64]) -> str:
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
