"""Sums over unknown features in engines that comprehend lists, such as DuckDB.

The messages are those of `sql_messages`. What stands there as an expression for
every number is here one comprehension over a constant list of places or weights, so
that the engine plans a large network in no time.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from tanager.network.exports.dialects import DuckDB
from tanager.network.exports.recipe import Codes, Recipe
from tanager.network.exports.sql_messages import FLOOR, OUT, SMALLEST, Messages, group_column

__all__ = ["ListMessages"]


class ListMessages(Messages):
    """Collects stages, with one expression a step and class."""

    def __init__(self, recipe: Recipe, engine: DuckDB) -> None:
        super().__init__(recipe, engine)
        self.engine = engine
        self.known: dict[tuple[int, Codes], str] = {}  # columns of what agrees, by input and view

    def agree(self) -> None:
        """Add for each input and view 0 for the places that agree with what is known, else OUT."""
        for s, step in enumerate(self.recipe.steps):
            if not step.messages:
                continue
            for i, view in self._scope(s).items():
                if (i, view) not in self.known:
                    self.known[i, view] = f"e{len(self.known)}"
                    self._add(self.known[i, view], self._agreement(i, view, "0.0", OUT))

    def gather(self, s: int) -> None:
        """T: a list over the groups of the step's input, or one for each place beside it."""
        step = self.recipe.steps[s]
        if not step.messages:
            return
        scope = self._scope(s)
        lists = []
        for other in product(*(range(max(scope[i]) + 1) for i in self.beside[s])):
            places = []
            for v in scope[step.input]:
                chosen = (*other, v)
                pairs = zip(scope.items(), chosen, strict=True)
                groups = {i: view.index(at) for (i, view), at in pairs}
                sent = [self._message_place(m, groups) for m in step.messages]
                places.append([1 + at for at in (*chosen, *sent)])
            lists.append(places)
        for c in self.now:
            read = [self._read(self.known[i, view]) for i, view in scope.items()]
            read += [self._read(f"m{m}_{c}") for m in step.messages]
            total = " + ".join(f"{name}[p[{at + 1}]]" for at, name in enumerate(read))
            if self.beside[s]:
                given = self.engine.numbers(lists, "INT")
                self._add(f"g{s}_{c}", f"[[{total} for p in q] for q in {given}]")
            else:
                given = self.engine.numbers(lists[0], "INT")
                self._add(f"g{s}_{c}", f"[{total} for p in {given}]")

    def peak(self, s: int) -> None:
        """t: the largest of T."""
        for c in self.now if self.recipe.steps[s].messages else ():
            given = self._read(f"g{s}_{c}")
            largest = f"[list_max(q) for q in {given}]" if self.beside[s] else given
            self._add(f"t{s}_{c}", f"list_max({largest})")

    def weigh(self, s: int) -> None:
        """exp(T - t); of a step that receives nothing, whether each group agrees."""
        step = self.recipe.steps[s]
        if not step.messages:
            every = tuple(range(self.recipe.inputs[step.input].n_groups))
            self._add(f"w{s}", self._agreement(step.input, every, "1.0", "0.0"))
            return
        for c in self.now:
            given, top = self._read(f"g{s}_{c}"), self._read(f"t{s}_{c}")
            weight = f"EXP(GREATEST(x-{top},{FLOOR})) for x in"
            inner = f"[[{weight} q] for q in {given}]" if self.beside[s] else f"[{weight} {given}]"
            self._add(f"w{s}_{c}", inner)

    def send(self, s: int) -> None:
        """m: the message of a step."""
        step = self.recipe.steps[s]
        n_groups = self.recipe.inputs[step.input].n_groups
        table = np.maximum(np.exp(self.recipe.step_table(step)), SMALLEST)
        for c in self.now:
            shown = [
                [self.dialect.constant(x) for x in row]
                for row in table[..., c].reshape(-1, n_groups).tolist()
            ]
            rows = self.engine.numbers(shown)
            weights = self._read(f"w{s}_{c}" if step.messages else f"w{s}")
            top = f"{self._read(f't{s}_{c}')}+" if step.messages else ""
            if self.beside[s]:
                pairs = f"list_zip({rows},{self.engine.numbers(self._lists(s), 'INT')})"
                found = f"[{top}LN(list_dot_product(p[1],{weights}[p[2]])) for p in {pairs}]"
            else:
                found = f"[{top}LN(list_dot_product(k,{weights})) for k in {rows}]"
            self._add(f"m{s}_{c}", found)

    def _scope(self, s: int) -> dict[int, Codes]:
        """Return what T varies over: views of what stands beside, then the step's own groups."""
        step = self.recipe.steps[s]
        views = {i: step.views[step.separator.index(i)] for i in self.beside[s]}
        return views | {step.input: tuple(range(self.recipe.inputs[step.input].n_groups))}

    def _lists(self, s: int) -> list[int]:
        """Return for each value of a message which list of weights it takes, from one on."""
        step = self.recipe.steps[s]
        sizes = dict(zip(step.separator, step.shape, strict=True))
        found = []
        for u in product(*map(range, step.shape)):
            chosen, at = dict(zip(step.separator, u, strict=True)), 0
            for i in self.beside[s]:
                at = at * sizes[i] + chosen[i]
            found.append(1 + at)
        return found

    def _agreement(self, i: int, view: Codes, yes: str, no: str) -> str:
        """Return a list with one text for the places that agree with what is known."""
        group = self._read(group_column(self.recipe, i))
        place = group
        if view != tuple(range(len(view))):
            place = f"({self.engine.numbers(view, 'INT')})[{group}+1]"
        agrees = f"{group}={len(view)} OR p={place}"
        return f"[CASE WHEN {agrees} THEN {yes} ELSE {no} END for p in range({max(view) + 1})]"
