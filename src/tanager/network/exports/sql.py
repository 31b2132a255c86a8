"""Networks as one SQL statement over the user's table.

The statement is a chain of common table expressions::

    raw      the columns, numbers as doubles
    coded    one code per feature; code `arity` is unknown
    grouped  where tables know codes by groups: the group of each, and what the
             code adds to its group
    placed   where each feature's table has the number for the row
    looked   each feature's log-odds of every class against the first, one look-up
             a feature; NULL where a known feature has an unknown parent
    plain    their sums
    ...      for rows with NULL alone: unknown features summed out, exactly
    scored   both kinds of rows, as log-odds
    weighed  as weights, the largest of them one

The last SELECT divides the weights by their sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tanager.errors import ConfigurationError, MemoryBoundError, listed
from tanager.network.decisions import Costs, read_costs
from tanager.network.exports.bif import distinct
from tanager.network.exports.dialects import (
    DIALECTS,
    Dialect,
    DuckDB,
    balanced_sum,
    name_quoted,
)
from tanager.network.exports.recipe import Codes, Input, Recipe, make_recipe
from tanager.network.exports.sql_sums import group_column, message_stages, messages_of
from tanager.network.propagation import require_probabilities

if TYPE_CHECKING:
    from tanager.network.network import Network

_TRUE = ("true", "t", "1", "1.0")
_FALSE = ("false", "f", "0", "0.0")
_ROW = "tanager_row"  # what the statement calls a row of the table
_SAFE_INTEGER = 1 << 53  # doubles hold every whole number up to here


def to_sql(
    network: Network,
    *,
    table: str | Sequence[str] = "rows",
    dialect: str = "duckdb",
    keep: str | Sequence[str] | None = None,
    contributions: bool = False,
    unknowns: bool = True,
    costs: Any = None,
    log_probability: bool = False,
) -> str:
    """Return one SQL statement that scores every row of a table.

    Parameters
    ----------
    network : Network
    table : str or sequence of str
        The table's name; a sequence gives its schema too.
    dialect : {'duckdb', 'sqlite', 'postgres', 'case'}
        ``'case'`` is standard SQL without lists, for other engines.
    keep : str or sequence of str, optional
        Columns of the table to give back beside the probabilities, such as a
        key. By default those that the network reads.
    contributions : bool, default=False
        Add one column per feature and class but the first: what the feature adds
        to the log-odds of the class against the first. NULL in rows with a
        known feature whose parent is unknown.
    unknowns : bool, default=True
        Whether rows with unknown values are scored, whichever these are. False
        makes a shorter statement, which gives NULL for such rows.
    costs : optional
        As for `Network.decide`: adds the column ``decision``, and ``cost_ACTION`` for each
        action, its expected cost.
    log_probability : bool, default=False
        Add the column ``log_probability``: log P(row), low where a row is strange. NULL in rows
        with a known feature whose parent is unknown.
    """
    if log_probability:
        require_probabilities(network)
    if dialect not in DIALECTS:
        raise ConfigurationError(
            f"dialect={dialect!r} is not known. Allowed: {', '.join(DIALECTS)}.",
            parameter="dialect",
        )
    recipe, engine = make_recipe(network), DIALECTS[dialect]()
    if unknowns:
        _check(recipe, engine)
    names = [table] if isinstance(table, str) else list(table)
    read = [given.name for given in recipe.inputs]
    kept = _listed(keep, read)
    if engine.folds_names:
        _check_case(dialect, {*read, *kept}, network.codebook.domain.names)
    prices = None if costs is None else read_costs(network, costs)
    writer = _QueryWriter(recipe, engine, kept, prices, log_probability)
    statement = writer.write(".".join(map(name_quoted, names)), contributions, unknowns)
    own = names[0].lower() if engine.folds_names else names[0]
    if len(names) == 1 and own in writer.stage_names():
        raise ConfigurationError(
            f"table={names[0]!r} is a name that the statement itself uses. Give the schema too: "
            f"table=(SCHEMA, {names[0]!r}); or rename the table."
        )
    return statement


def _listed(keep: Any, read: list[str]) -> list[str]:
    """Return the columns to give back; one may be named alone."""
    if keep is None or isinstance(keep, str):
        return read if keep is None else [keep]
    if not isinstance(keep, Iterable) or not all(isinstance(name, str) for name in keep):
        raise ConfigurationError(f"keep={keep!r}. Allowed: a column's name, or a list of them.")
    return list(keep)


def _check_case(dialect: str, read: set[str], features: Sequence[str]) -> None:
    """Refuse columns that the engine takes for one.

    It reads the first of them, without a word, under both names. A feature that the statement
    does not read may stand in the table too.
    """
    alike: dict[bytes, list[str]] = {}
    for name in [*features, *sorted(read.difference(features))]:
        alike.setdefault(name.encode().lower(), []).append(name)  # bytes: A to Z alone
    for names in alike.values():
        if len(names) > 1 and not read.isdisjoint(names):
            raise ConfigurationError(
                f"The columns {listed(names)} differ only in case, which dialect={dialect!r} does "
                "not tell apart, even in quotes. Rename one of them and fit again; "
                "dialect='postgres' tells them apart."
            )


def _check(recipe: Recipe, dialect: Dialect) -> None:
    """Refuse what one statement cannot sum out."""
    remedy = "Export with unknowns=False: rows with unknown values then get NULL."
    recipe.check_probabilities("SQL", remedy)
    n_terms = recipe.n_terms if recipe.sums else 0
    if n_terms > dialect.max_terms:
        recipe.check_width(dialect.max_terms, remedy)
        raise MemoryBoundError(
            f"Summing out unknown features takes {n_terms:,} terms, beyond the bound of "
            f"{dialect.max_terms:,} that this dialect plans in good time. {remedy} DuckDB and "
            f"PostgreSQL take up to {DuckDB.max_terms:,}; ONNX, C and JavaScript take any.",
            parameter="unknowns",
        )


def _column(name: str) -> str:
    """Return a column of the table; SQLite would take the bare name of one it lacks for a text."""
    return f"{_ROW}.{name_quoted(name)}"


class _QueryWriter:
    """Writes the statement, stage by stage."""

    def __init__(
        self,
        recipe: Recipe,
        dialect: Dialect,
        kept: Sequence[str],
        costs: Costs | None,
        log_probability: bool,
    ) -> None:
        self.recipe = recipe
        self.dialect = dialect
        self.kept = kept
        self.costs = costs
        self.log_probability = log_probability
        self.stages: list[str] = []
        self.classes = range(1, recipe.n_classes)
        # The columns of groups, and of what tables with a view of a parent's groups know.
        self.views: dict[tuple[int, tuple[int, ...]], str] = {}
        for family in recipe.families:
            for parent, view in zip(family.parents, family.views, strict=True):
                if view is not None:
                    self.views.setdefault((parent, view), f"h{len(self.views)}")

    def write(self, table: str, contributions: bool, unknowns: bool) -> str:
        recipe, classes = self.recipe, self.classes
        n = len(recipe.inputs)
        keeps = [f"k{at}" for at in range(len(self.kept))]
        terms = [f"f{at}_{c}" for at in range(n) for c in classes] if contributions else []
        odds = [f"l{c}" for c in classes]
        raw = [(f"k{at}", _column(name)) for at, name in enumerate(self.kept)]
        raw += [(f"v{at}", self._raw(given)) for at, given in enumerate(recipe.inputs)]
        self._stage("raw", raw, [], f"{table} AS {_ROW}")
        coded = [(f"c{at}", self._code(at)) for at in range(n)]
        self._stage("coded", coded, keeps, "raw")
        spread = unknowns and recipe.sums
        self._look_up(keeps, spread)
        sums = {
            c: balanced_sum([self._prior(c), *(f"f{i}_{c}" for i in range(n))]) for c in classes
        }
        carried = [*keeps, *terms, *(self._for_sums() if spread else [])]
        plain = [(f"l{c}", sums[c]) for c in classes]
        if self.log_probability:  # what the first class has, to which log-odds are relative
            first = self.dialect.constant(float(recipe.log_prior[0]))
            plain.append(("base", balanced_sum([first, *(f"b{i}" for i in range(n))])))
        self._stage("plain", plain, carried, "looked")
        terms += ["base"] if self.log_probability else []
        source, filled = "plain", [*keeps, *terms, *odds]
        if spread and odds:
            shares = {c: f"a{c}" for c in classes} if self._inside() else {}
            messages = messages_of(recipe, self.dialect)
            self.stages += message_stages(messages, [*keeps, *terms], shares)
            parts = [
                f"SELECT {', '.join(filled)} FROM plain WHERE l1 IS NOT NULL",
                f"SELECT {', '.join(filled)} FROM summed",
            ]
            self.stages.append(f"scored AS ({' UNION ALL '.join(parts)})")
            source = "scored"
        return self._finish(source, keeps, terms, odds)

    def stage_names(self) -> set[str]:
        """Return what the statement calls its stages."""
        return {stage.partition(" AS ")[0] for stage in self.stages}

    def _look_up(self, keeps: list[str], spread: bool) -> None:
        """Write the stages from ``coded`` to ``looked``."""
        recipe, classes, inside = self.recipe, self.classes, self._inside()
        each = [0, *classes] if self.log_probability else classes
        groups = [group_column(recipe, at) for at in range(len(recipe.inputs))]
        source = "coded"
        if inside:
            added = [(f"g{at}", self._places(f"c{at}", of)) for at, of in inside.items()]
            added += [(f"a{at}_{c}", self._share(at, c)) for at in inside for c in each]
            codes = [name for name in groups if name.startswith("c")]
            self._stage("grouped", added, [*keeps, *codes], "coded")
            source = "grouped"
        shares = [f"a{at}_{c}" for at in inside for c in each]
        if self.views:
            added = [
                (name, self._places(groups[i], view)) for (i, view), name in self.views.items()
            ]
            self._stage("viewed", added, [*keeps, *groups, *shares], source)
            source = "viewed"
        placed = [(f"i{at}", self._place(at)) for at, f in enumerate(recipe.families) if f.parents]
        if placed:
            self._stage("placed", placed, [*keeps, *groups, *shares], source)
            source = "placed"
        looked = [
            (f"f{at}_{c}" if c else f"b{at}", self._term(at, c))
            for at in range(len(recipe.inputs))
            for c in each
        ]
        if spread and inside:
            looked += [(f"a{c}", balanced_sum([f"a{at}_{c}" for at in inside])) for c in classes]
        self._stage("looked", looked, [*keeps, *(groups if spread else [])], source)

    def _inside(self) -> dict[int, Codes]:
        """Return the inputs whose codes are in groups, with these."""
        inputs = enumerate(self.recipe.inputs)
        return {at: given.groups for at, given in inputs if given.groups is not None}

    def _for_sums(self) -> list[str]:
        """Return the columns that sums over unknown features read."""
        columns = [group_column(self.recipe, at) for at in range(len(self.recipe.inputs))]
        return [*columns, *(f"a{c}" for c in self.classes if self._inside())]

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
        top = ["top"] if self.log_probability else []
        self._stage("weighed", weights, [*keeps, *terms, *top, *(odds[:1])], "topped")
        total = balanced_sum([f"w{c}" for c in range(recipe.n_classes)])
        # Where a row has no log-odds it has no probabilities.
        condition = f"CASE WHEN {odds[0]} IS NOT NULL THEN {{}} END" if odds else "{}"
        chances = [condition.format(f"w{c} / ({total})") for c in range(recipe.n_classes)]
        source, decided = "weighed", []
        if self.costs is not None:
            number = dialect.number
            sums = [
                balanced_sum([f"w{c} * {number(cost)}" for c, cost in enumerate(row)])
                for row in self.costs.matrix.tolist()
            ]
            each = [(f"e{a}", f"({what}) / ({total})") for a, what in enumerate(sums)]
            source = "priced"
            self._stage(
                source, each, [*keeps, *terms, *top, *odds[:1], *(w for w, _ in weights)], "weighed"
            )
            found = [self._cheapest(self.costs), *(name for name, _ in each)]
            decided = [condition.format(what) for what in found]
        if self.log_probability:
            terms[-1] = f"base + top + LN({total})"
        columns = zip([*keeps, *chances, *decided, *terms], self._names(len(terms)), strict=True)
        shown = ",\n  ".join(f"{what} AS {name_quoted(name)}" for what, name in columns)
        chain = ",\n".join(self.stages)
        return f"WITH\n{chain}\nSELECT\n  {shown}\nFROM {source}\n"

    def _cheapest(self, costs: Costs) -> str:
        """Return the action of least expected cost, the first of those that cost the same."""
        names = [self.dialect.literal(_printable(name)) for name in costs.names]
        tie = self.dialect.number(costs.tolerance)
        cases = []
        for a, name in enumerate(names[:-1]):
            least = " AND ".join(f"e{a} <= e{b} + {tie}" for b in range(len(names)) if b != a)
            cases.append(f"WHEN {least} THEN {name} ")
        return f"CASE {''.join(cases)}ELSE {names[-1]} END" if cases else names[-1]

    def _names(self, n_terms: int) -> list[str]:
        """Return the names of the result's columns, all different."""
        recipe = self.recipe
        labels = [_printable(str(label)) for label in recipe.classes]
        names = [*self.kept, *(f"p_{label}" for label in labels)]
        if self.costs is not None:
            names += ["decision", *(f"cost_{_printable(name)}" for name in self.costs.names)]
        if n_terms > self.log_probability:
            names += [
                f"log_odds_{given.name}" + (f"_{label}" if recipe.n_classes > 2 else "")
                for given in recipe.inputs
                for label in labels[1:]
            ]
        names += ["log_probability"] if self.log_probability else []
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
        dialect, column = self.dialect, _column(given.name)
        if given.reading is not None:
            read = dialect.read_date if given.reading.kind == "date" else dialect.read_number
            return read(column, given.reading.style)
        if given.temporal and given.kind == "text":
            return dialect.moment(column, given.temporal)
        if given.temporal:
            seconds = {"time": dialect.since_midnight, "duration": dialect.duration}
            return seconds.get(given.temporal, dialect.epoch)(column)
        if given.kind in ("text", "boolean"):
            return dialect.to_text(column)
        if given.kind == "integer" and any(abs(v) > _SAFE_INTEGER for v in given.values):
            return column  # as doubles such numbers would fall together
        return dialect.to_double(column) if given.kind != "null" else column

    def _code(self, at: int) -> str:
        given, dialect, value = self.recipe.inputs[at], self.dialect, f"v{at}"
        cases = [f"WHEN {value} IS NULL THEN {given.missing}"]
        if given.kind == "number":
            return f"CASE {cases[0]} ELSE {self._interval(value, given.cuts)} END"
        for code, known in enumerate(given.values):
            if given.temporal:
                seconds = dialect.number(_seconds_of(known, given.temporal))
                cases.append(f"WHEN {value} = {seconds} THEN {code}")
            elif given.kind == "text":
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

    def _interval(self, value: str, cuts: Sequence[float], low: int = 0) -> str:
        """Return how many cuts are less than a number, by halves."""
        if not cuts:
            return str(low)
        middle = len(cuts) // 2
        left = self._interval(value, cuts[:middle], low)
        right = self._interval(value, cuts[middle + 1 :], low + middle + 1)
        return (
            f"CASE WHEN {value}<={self.dialect.number(cuts[middle])} THEN {left} ELSE {right} END"
        )

    def _prior(self, c: int) -> str:
        prior = self.recipe.log_prior
        return self.dialect.constant(float(prior[c] - prior[0]))

    def _places(self, column: str, view: Sequence[int]) -> str:
        """Return the group of a code or the place of a group, by runs; unknown is one more."""
        ends = [v for v in range(1, len(view)) if view[v] != view[v - 1]]
        cases = [f"WHEN {column}<{end} THEN {view[end - 1]}" for end in [*ends, len(view)]]
        return f"CASE {' '.join(cases)} ELSE {max(view) + 1} END"

    def _share(self, at: int, c: int) -> str:
        """Return what a code adds to its group's log-odds: 0 if it is unknown.

        Of the first class, to its log-probability; `_term` does the same.
        """
        logs = self.recipe.families[at].log_within
        assert logs is not None  # the input has groups
        odds = np.append(logs[:, c] - (logs[:, 0] if c else 0.0), 0.0)
        return self.dialect.look_up(odds.tolist(), f"c{at}")

    def _place(self, at: int) -> str:
        """Return where a feature's table has the number for some groups; unknown is one more."""
        recipe, family = self.recipe, self.recipe.families[at]
        columns = [
            group_column(recipe, parent) if view is None else self.views[parent, view]
            for parent, view in zip(family.parents, family.views, strict=True)
        ]
        place, *others = [*columns, group_column(recipe, at)]
        for column, size in zip(others, family.log_prob.shape[1:-1], strict=True):
            place = f"({place}*{size + 1}+{column})"
        return place

    def _term(self, at: int, c: int) -> str:
        """Return a feature's log-odds: 0 if it is unknown, NULL if only a parent is."""
        family = self.recipe.families[at]
        sizes = family.log_prob.shape[:-1]
        odds = np.full([size + 1 for size in sizes], np.nan)
        known = tuple(slice(size) for size in sizes)
        odds[known] = family.log_prob[..., c] - (family.log_prob[..., 0] if c else 0.0)
        odds[..., -1] = 0.0
        place = f"i{at}" if family.parents else group_column(self.recipe, at)
        numbers = [None if x != x else x for x in odds.ravel().tolist()]
        found = self.dialect.look_up(numbers, place)
        return found if family.log_within is None else f"{found} + a{at}_{c}"


def _printable(text: str) -> str:
    """Return a name without the character 0, which no statement can hold."""
    return text.replace("\x00", "\ufffd")


def _seconds_of(text: str, temporal: str) -> float:
    """Return the seconds of a category that is an instant, a time of day or a duration.

    >>> _seconds_of("1970-01-02 00:00:00.250000", "date"), _seconds_of("00:01:30.000000", "time")
    (86400.25, 90.0)
    """
    if temporal == "duration":
        return float(text)
    instant = text.replace(" ", "T") if temporal == "date" else f"1970-01-01T{text}"
    return int(np.datetime64(instant, "us").astype(np.int64)) / 10**6
