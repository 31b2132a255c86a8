"""Networks as one SQL statement over the user's table.

The statement is a chain of common table expressions::

    raw      the columns, numbers as doubles
    coded    one code a feature; code `arity` is unknown
    plain    log-odds of every class against the first, one look-up a feature;
             NULL where a known feature has an unknown parent
    ...      for those rows alone: unknown features summed out, exactly
    scored   both kinds of rows, as log-odds
    weighed  as weights, the largest of them one

The last SELECT divides the weights by their sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tanager.errors import ConfigurationError, MemoryBoundError
from tanager.network.exports.dialects import DIALECTS, Dialect, balanced_sum, name_quoted
from tanager.network.exports.recipe import Input, Recipe, make_recipe
from tanager.network.exports.sql_messages import message_stages
from tanager.network.exports.variables import distinct

if TYPE_CHECKING:
    from tanager.network.network import Network

__all__ = ["to_sql"]

MAX_TERMS = 1 << 14  # of all sums over unknown features: planners take seconds for as many
_TRUE = ("true", "t", "1", "1.0")
_FALSE = ("false", "f", "0", "0.0")
_SAFE_INTEGER = 1 << 53  # doubles hold every whole number up to here


def to_sql(
    network: Network,
    *,
    table: str | Sequence[str] = "rows",
    dialect: str = "duckdb",
    keep: Sequence[str] | None = None,
    contributions: bool = False,
    unknowns: bool = True,
) -> str:
    """Return one SQL statement that scores every row of a table.

    Parameters
    ----------
    network : Network
    table : str or sequence of str
        The table's name; a sequence gives its schema too.
    dialect : {'duckdb', 'sqlite', 'postgres', 'case'}
        ``'case'`` is standard SQL without lists, for other engines.
    keep : sequence of str, optional
        Columns of the table to give back beside the probabilities, such as a
        key. By default those that the network reads.
    contributions : bool, default=False
        Add one column a feature and class but the first: what the feature adds
        to the log-odds of the class against the first. NULL in rows with a
        known feature whose parent is unknown.
    unknowns : bool, default=True
        Whether rows with unknown values are scored, whichever these are. False
        makes a shorter statement, which gives NULL for such rows.
    """
    if dialect not in DIALECTS:
        raise ConfigurationError(
            f"dialect={dialect!r} is not known. Allowed: {', '.join(DIALECTS)}."
        )
    recipe = make_recipe(network)
    if unknowns:
        _check(recipe)
    names = [table] if isinstance(table, str) else list(table)
    kept = [given.name for given in recipe.inputs] if keep is None else list(keep)
    writer = _Writer(recipe, DIALECTS[dialect](), kept)
    return writer.write(".".join(map(name_quoted, names)), contributions, unknowns)


def _check(recipe: Recipe) -> None:
    """Refuse what one statement cannot sum out."""
    if all(not family.parents for family in recipe.families):
        return
    remedy = "Export with unknowns=False: rows with unknown values then get NULL."
    if not recipe.normalized:
        raise ConfigurationError(
            "The tables of this network are scores, not probabilities, and SQL cannot sum unknown "
            f"values out of them. {remedy}"
        )
    n_terms = sum(map(recipe.step_size, recipe.steps)) * recipe.n_classes
    if n_terms > MAX_TERMS:
        recipe.check_width(MAX_TERMS, remedy)
        raise MemoryBoundError(
            f"Summing out unknown features takes {n_terms:,} terms, beyond the bound of "
            f"{MAX_TERMS:,} that databases plan in good time. {remedy} ONNX, C and JavaScript do "
            "it for all."
        )


class _Writer:
    """Writes the statement, stage by stage."""

    def __init__(self, recipe: Recipe, dialect: Dialect, kept: Sequence[str]) -> None:
        self.recipe = recipe
        self.dialect = dialect
        self.kept = kept
        self.stages: list[str] = []
        # Columns of codes by groups, as the tables of children know them.
        self.groups: dict[tuple[int, tuple[int, ...]], str] = {}
        for family in recipe.families:
            for parent, groups in zip(family.parents, family.groups, strict=True):
                if groups is not None:
                    self.groups.setdefault((parent, groups), f"g{len(self.groups)}")

    def write(self, table: str, contributions: bool, unknowns: bool) -> str:
        recipe, dialect = self.recipe, self.dialect
        n, classes = len(recipe.inputs), range(1, recipe.n_classes)
        keeps = [f"k{at}" for at in range(len(self.kept))]
        codes = [f"c{at}" for at in range(n)]
        terms = [f"f{at}_{c}" for at in range(n) for c in classes] if contributions else []
        odds = [f"l{c}" for c in classes]
        raw = [(f"k{at}", name_quoted(name)) for at, name in enumerate(self.kept)]
        raw += [(f"v{at}", self._raw(given)) for at, given in enumerate(recipe.inputs)]
        self._stage("raw", raw, [], table)
        coded = [(f"c{at}", self._code(at)) for at in range(n)]
        self._stage("coded", coded, keeps, "raw")
        source = "coded"
        if self.groups:
            grouped = [(name, self._group(*key)) for key, name in self.groups.items()]
            self._stage("grouped", grouped, [*keeps, *codes], "coded")
            source = "grouped"
        blockable = any(family.parents for family in recipe.families)
        spread = unknowns and blockable
        looked = [(f"f{at}_{c}", self._term(at, c)) for at in range(n) for c in classes]
        sums = {
            c: balanced_sum([self._prior(c), *(f"f{i}_{c}" for i in range(n))]) for c in classes
        }
        self._stage("looked", looked, [*keeps, *(codes if spread else [])], source)
        carried = [*keeps, *terms, *(codes if spread else [])]
        self._stage("plain", [(f"l{c}", sums[c]) for c in classes], carried, "looked")
        source, filled = "plain", [*keeps, *terms, *odds]
        if spread and odds:
            self.stages += message_stages(recipe, dialect, [*keeps, *terms])
            parts = [
                f"SELECT {', '.join(filled)} FROM plain WHERE l1 IS NOT NULL",
                f"SELECT {', '.join(filled)} FROM summed",
            ]
            self.stages.append(f"scored AS ({' UNION ALL '.join(parts)})")
            source = "scored"
        return self._finish(source, keeps, terms, odds)

    def _finish(self, source: str, keeps: list[str], terms: list[str], odds: list[str]) -> str:
        recipe, dialect = self.recipe, self.dialect
        self._stage(
            "topped", [("top", dialect.top(["0.0", *odds]))], [*keeps, *terms, *odds], source
        )
        # Some engines refuse exp of a large negative number.
        weights = [
            (f"w{c}", f"EXP({dialect.greatest}({f'l{c}' if c else '0.0'} - top, -700.0))")
            for c in range(recipe.n_classes)
        ]
        self._stage("weighed", weights, [*keeps, *terms, *(odds[:1])], "topped")
        total = balanced_sum([f"w{c}" for c in range(recipe.n_classes)])
        # Where a row has no log-odds it has no probabilities.
        condition = f"CASE WHEN {odds[0]} IS NOT NULL THEN {{}} END" if odds else "{}"
        chances = [condition.format(f"w{c} / ({total})") for c in range(recipe.n_classes)]
        columns = zip([*keeps, *chances, *terms], self._names(bool(terms)), strict=True)
        shown = ",\n  ".join(f"{what} AS {name_quoted(name)}" for what, name in columns)
        chain = ",\n".join(self.stages)
        return f"WITH\n{chain}\nSELECT\n  {shown}\nFROM weighed\n"

    def _names(self, contributions: bool) -> list[str]:
        """Return the names of the result's columns, all different."""
        recipe = self.recipe
        labels = [str(label).replace("\x00", "\ufffd") for label in recipe.classes]
        names = [*self.kept, *(f"p_{label}" for label in labels)]
        if contributions:
            names += [
                f"log_odds_{given.name}" + (f"_{label}" if recipe.n_classes > 2 else "")
                for given in recipe.inputs
                for label in labels[1:]
            ]
        room = self.dialect.name_bytes - 8
        cut = [name.encode()[:room].decode(errors="ignore") for name in names[len(self.kept) :]]
        return [*self.kept, *distinct([*self.kept, *cut])[len(self.kept) :]]

    def _stage(
        self, name: str, columns: list[tuple[str, str]], carried: Sequence[str], source: str
    ) -> None:
        shown = [*carried, *(f"{what} AS {alias}" for alias, what in columns)]
        listed = ",\n  ".join(shown) or "1 AS one"
        how = self.dialect.materialized
        self.stages.append(f"{name} AS {how}(SELECT\n  {listed}\n FROM {source})")

    def _raw(self, given: Input) -> str:
        dialect, column = self.dialect, name_quoted(given.name)
        if given.kind in ("text", "boolean"):
            return dialect.to_text(column)
        if given.temporal:
            return dialect.epoch(column)
        if given.kind == "integer" and any(abs(v) > _SAFE_INTEGER for v in given.values):
            return column  # as doubles such numbers would fall together
        return dialect.to_double(column) if given.kind != "null" else column

    def _code(self, at: int) -> str:
        given, dialect, value = self.recipe.inputs[at], self.dialect, f"v{at}"
        cases = [f"WHEN {value} IS NULL THEN {given.missing}"]
        if given.kind == "number":
            for code, cut in enumerate(given.cuts):
                cases.append(f"WHEN {value} <= {dialect.number(cut)} THEN {code}")
            return f"CASE {' '.join(cases)} ELSE {len(given.cuts)} END"
        for code, known in enumerate(given.values):
            if given.kind == "text":
                if "\x00" in known and not dialect.holds_nul:
                    continue
                cases.append(f"WHEN {value} = {dialect.literal(known)} THEN {code}")
            elif given.kind == "boolean":
                words = ", ".join(f"'{word}'" for word in (_TRUE if known else _FALSE))
                cases.append(f"WHEN LOWER({value}) IN ({words}) THEN {code}")
            else:
                shown = str(known) if given.kind == "integer" else dialect.number(known)
                cases.append(f"WHEN {value} = {shown} THEN {code}")
        return f"CASE {' '.join(cases)} ELSE {given.arity} END"

    def _prior(self, c: int) -> str:
        prior = self.recipe.log_prior
        return self.dialect.constant(float(prior[c] - prior[0]))

    def _group(self, i: int, groups: tuple[int, ...]) -> str:
        """Return the group of an input's code, by runs of codes; unknown is one more."""
        ends = [v for v in range(1, len(groups)) if groups[v] != groups[v - 1]]
        cases = [f"WHEN c{i}<{end} THEN {groups[end - 1]}" for end in [*ends, len(groups)]]
        return f"CASE {' '.join(cases)} ELSE {max(groups) + 1} END"

    def _term(self, at: int, c: int) -> str:
        """Return a feature's log-odds: 0 if it is unknown, NULL if only a parent is."""
        family = self.recipe.families[at]
        codes = [
            f"c{parent}" if groups is None else self.groups[parent, groups]
            for parent, groups in zip(family.parents, family.groups, strict=True)
        ]
        arities = family.log_prob.shape[:-1]
        odds = np.full([arity + 1 for arity in arities], np.nan)
        known = tuple(slice(arity) for arity in arities)
        odds[known] = family.log_prob[..., c] - family.log_prob[..., 0]
        odds[..., -1] = 0.0
        index, *others = [*codes, f"c{at}"]
        for code, arity in zip(others, arities[1:], strict=True):
            index = f"({index}*{arity + 1}+{code})"
        numbers = [None if x != x else x for x in odds.ravel().tolist()]
        return self.dialect.look_up(numbers, index)
