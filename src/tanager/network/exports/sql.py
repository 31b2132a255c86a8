"""Networks as a single SQL statement over the user's table.

The statement is a chain of common table expressions::

    raw      the columns, numbers as doubles
    coded    one code per feature; code `arity` is unknown
    grouped  if tables read codes in groups: the group of each code, and what
             the code adds to its group
    placed   the index of the row's entry in each feature's table
    looked   each feature's log-odds of every class against the first, one lookup
             per feature; NULL if a known feature has an unknown parent
    plain    their sums
    ...      only for rows with NULL: unknown features summed out, exactly
    scored   both kinds of rows, as log-odds
    weighed  as weights, the largest of which is one

The last SELECT divides the weights by their sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tanager.errors import ConfigurationError, check_cells, invalid, listed
from tanager.network.decisions import Costs, read_costs
from tanager.network.evidence import read_names
from tanager.network.exports.bif import distinct
from tanager.network.exports.dialects import DIALECTS, Dialect, balanced_sum, name_quoted
from tanager.network.exports.recipe import Input, Recipe, make_recipe
from tanager.network.exports.sql_stages import Stages, add_sums, group_column
from tanager.network.propagation import require_probabilities

if TYPE_CHECKING:
    from tanager.network.network import Network

MAX_TERMS = 1 << 20  # of all sums over unknown features: about 20 MB of text
_TRUE = "'true', 't', '1', '1.0'"
_FALSE = "'false', 'f', '0', '0.0'"
_ROW = "tanager_row"  # alias of the table


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
        The table's name; a sequence includes its schema.
    dialect : {'duckdb', 'sqlite', 'postgres', 'case'}
        ``'case'`` is standard SQL without lists, for other engines.
    keep : str or sequence of str, optional
        Columns of the table to return with the probabilities, such as a
        key. By default, those that the network reads.
    contributions : bool, default=False
        Add one column per feature and class except the first: what the feature adds
        to the log-odds of the class against the first. NULL in rows with a
        known feature whose parent is unknown.
    unknowns : bool, default=True
        Whether to support rows with any unknown values. False makes the statement
        shorter, but returns NULL for such rows.
    costs : optional
        As for `Network.decide`: adds the column ``decision``, and ``cost_ACTION`` for each
        action, its expected cost.
    log_probability : bool, default=False
        Add the column ``log_probability``: log P(row), low for unusual rows. NULL in rows
        with a known feature whose parent is unknown.
    """
    if log_probability:
        require_probabilities(network)
    if not isinstance(dialect, str) or dialect not in DIALECTS:
        raise invalid("dialect", dialect, ", ".join(DIALECTS))
    recipe, engine = make_recipe(network), DIALECTS[dialect]()
    if unknowns:
        _check(recipe)
    names = read_names(table, "table")
    if not names:
        raise invalid("table", table, "a table's name, or a sequence that includes its schema")
    read = [given.name for given in recipe.inputs]
    kept = read if keep is None else read_names(keep, "keep")
    if engine.folds_names:
        _check_case(dialect, {*read, *kept}, network.codebook.domain.names)
    prices = None if costs is None else read_costs(network, costs)
    options = log_probability, contributions, unknowns
    writer = _QueryWriter(recipe, engine, kept, prices, *options)
    statement = writer.write(".".join(map(name_quoted, names)))
    own = names[0].lower() if engine.folds_names else names[0]
    if len(names) == 1 and own in writer.stages.names:
        raise ConfigurationError(
            f"table={names[0]!r} is a name that the statement itself uses. Give the schema too: "
            f"table=(SCHEMA, {names[0]!r}); or rename the table."
        )
    return statement


def _check_case(dialect: str, read: set[str], features: Sequence[str]) -> None:
    """Raise if the engine can't distinguish some columns.

    It silently reads the first of them under both names. The table may also contain features
    that the statement doesn't read.
    """
    alike: dict[bytes, list[str]] = {}
    for name in [*features, *sorted(read.difference(features))]:
        alike.setdefault(name.encode().lower(), []).append(name)  # bytes: only A to Z
    for names in alike.values():
        if len(names) > 1 and not read.isdisjoint(names):
            raise ConfigurationError(
                f"The columns {listed(names)} differ only in case, which dialect={dialect!r} does "
                "not tell apart, even in quotes. Rename one of them and fit again; "
                "dialect='postgres' tells them apart."
            )


def _check(recipe: Recipe) -> None:
    """Raise if one statement can't sum out the unknowns."""
    remedy = "Export with unknowns=False: rows with unknown values then get NULL."
    recipe.check_probabilities("SQL", remedy)
    recipe.check_width(MAX_TERMS, remedy)
    if recipe.sums:
        remedy += " ONNX, C and JavaScript take any."
        what = "Summing out unknown features takes"
        check_cells(what, recipe.n_terms, MAX_TERMS, remedy, "unknowns")


def _column(name: str) -> str:
    """Return a column of the table; SQLite treats an unknown bare name as a text."""
    return f"{_ROW}.{name_quoted(name)}"


@dataclass
class _QueryWriter:
    """Writes the statement, stage by stage."""

    recipe: Recipe
    dialect: Dialect
    kept: Sequence[str]
    costs: Costs | None
    log_probability: bool
    contributions: bool
    unknowns: bool

    def __post_init__(self) -> None:
        self.sums_out = self.unknowns and self.recipe.sums and self.recipe.n_classes > 1
        self.stages = Stages(self.dialect)
        self.inputs = range(len(self.recipe.inputs))
        self.classes = range(1, self.recipe.n_classes)
        groups = {at: given.groups for at, given in enumerate(self.recipe.inputs)}
        self.grouped = {at: some for at, some in groups.items() if some is not None}

    def write(self, table: str) -> str:
        """Return the statement."""
        dialect, recipe, stages = self.dialect, self.recipe, self.stages
        each = [0, *self.classes] if self.log_probability else self.classes
        known = "cga" if self.sums_out else ""  # what the sums read after the lookups
        kept = {f"k{at}": _column(name) for at, name in enumerate(self.kept)}
        values = {f"v{at}": self._raw(given) for at, given in enumerate(recipe.inputs)}
        stages.add("raw", kept | values or {"one": "1"}, source=f"{table} AS {_ROW}")
        stages.add("coded", {f"c{at}": self._code(at) for at in self.inputs}, "k")
        groups = {f"g{at}": _group(f"c{at}", some) for at, some in self.grouped.items()}
        shares = {f"a{at}_{c}": self._share(at, c) for at in self.grouped for c in each}
        stages.add("grouped", groups | shares, "kc")
        places = {f"i{at}": self._place(at) for at in self.inputs if recipe.families[at].parents}
        stages.add("placed", places, "kcga")
        terms = {f"f{at}_{c}": self._term(at, c) for at in self.inputs for c in each}
        stages.add("looked", terms, f"k{known}")
        sums = {}
        for c in each:  # log-odds, and the value of the first class, to which they are relative
            prior = float(recipe.log_prior[c] - (recipe.log_prior[0] if c else 0.0))
            parts = [dialect.constant(prior), *(f"f{at}_{c}" for at in self.inputs)]
            sums[f"l{c}" if c else "base"] = balanced_sum(parts)
        stages.add("plain", sums, f"kf{known}")
        if self.sums_out:
            add_sums(stages, recipe, dialect)
            stages.unite("scored", "plain WHERE l1 IS NOT NULL", "klbf")
        return self._finish()

    def _finish(self) -> str:
        """Write the stages from the log-odds on."""
        dialect, stages = self.dialect, self.stages
        carried = "klbf" if self.contributions else "klb"
        top = dialect.top(["0.0", *(f"l{c}" for c in self.classes)])
        stages.add("topped", {"top": top}, carried)
        weights = {}
        for c in range(self.recipe.n_classes):  # some engines reject exp of a large negative number
            odds = f"{f'l{c}' if c else '0.0'} - top"
            weights[f"w{c}"] = f"EXP({dialect.greatest}({odds}, -700.0))"
        stages.add("weighed", weights, f"{carried}t")
        total = balanced_sum(list(weights))
        expected = {}
        for action, row in enumerate([] if self.costs is None else self.costs.matrix.tolist()):
            prices = [f"w{c} * {dialect.number(cost)}" for c, cost in enumerate(row)]
            expected[f"e{action}"] = f"({balanced_sum(prices)}) / ({total})"
        stages.add("priced", expected, f"{carried}tw")
        # A row without log-odds has no probabilities.
        known = "CASE WHEN l1 IS NOT NULL THEN {} END" if self.classes else "{}"
        shown = [(f"k{at}", name) for at, name in enumerate(self.kept)]
        labels = [_printable(str(label)) for label in self.recipe.classes]
        for c, label in enumerate(labels):
            shown.append((known.format(f"w{c} / ({total})"), f"p_{label}"))
        if self.costs is not None:
            shown.append((known.format(self._cheapest(self.costs)), "decision"))
            for action, name in enumerate(self.costs.names):
                shown.append((known.format(f"e{action}"), f"cost_{_printable(name)}"))
        for at, given in enumerate(self.recipe.inputs if self.contributions else ()):
            for c in self.classes:
                label = f"_{labels[c]}" if len(labels) > 2 else ""
                shown.append((f"f{at}_{c}", f"log_odds_{given.name}{label}"))
        if self.log_probability:
            shown.append((f"base + top + LN({total})", "log_probability"))
        names = self._names([name for _, name in shown])
        return stages.select([what for what, _ in shown], names)

    def _cheapest(self, costs: Costs) -> str:
        """Return the action of least expected cost, or the first in case of a tie."""
        names = [self.dialect.literal(_printable(name)) for name in costs.names]
        tie = self.dialect.number(costs.tolerance)
        cases = []
        for a, name in enumerate(names[:-1]):
            least = " AND ".join(f"e{a} <= e{b} + {tie}" for b in range(len(names)) if b != a)
            cases.append(f"WHEN {least} THEN {name} ")
        return f"CASE {''.join(cases)}ELSE {names[-1]} END" if cases else names[-1]

    def _names(self, names: Sequence[str]) -> list[str]:
        """Return unique names for the columns of the result; kept ones are unchanged."""
        room, n = self.dialect.name_bytes - 8, len(self.kept)
        cut = [name.encode()[:room].decode(errors="ignore") for name in names[n:]]
        return [*self.kept, *distinct([*self.kept, *cut])[n:]]

    def _raw(self, given: Input) -> str:
        dialect, column = self.dialect, _column(given.name)
        if given.reading is not None:
            read = dialect.read_date if given.reading.kind == "date" else dialect.read_number
            return read(column, given.reading.style)
        if given.temporal:
            return dialect.seconds(column, given.temporal)
        if given.kind in ("text", "boolean"):
            return dialect.to_text.format(column)
        # As doubles, integers past 2^53 would collide.
        plain = given.kind == "null" or given.past_doubles
        return column if plain else dialect.to_double.format(column)

    def _code(self, at: int) -> str:
        given, dialect, value = self.recipe.inputs[at], self.dialect, f"v{at}"
        cases = [f"WHEN {value} IS NULL THEN {given.missing}"]
        if given.kind == "number":
            return f"CASE {cases[0]} ELSE {self._interval(value, given.cuts)} END"
        for code, known in enumerate(given.values):
            test = f"{value} = {{}}"
            if given.kind == "text":
                if "\x00" in known and not dialect.holds_nul:
                    continue
                shown = dialect.literal(known)
            elif given.kind == "boolean":
                test, shown = f"LOWER({value}) IN ({{}})", _TRUE if known else _FALSE
            else:
                shown = str(known) if given.kind == "integer" else dialect.number(known)
            cases.append(f"WHEN {test.format(shown)} THEN {code}")
        return f"CASE {' '.join(cases)} ELSE {given.unlisted} END"

    def _interval(self, value: str, cuts: Sequence[float], low: int = 0) -> str:
        """Return the number of cuts less than a number, by bisection."""
        if not cuts:
            return str(low)
        middle = len(cuts) // 2
        left = self._interval(value, cuts[:middle], low)
        right = self._interval(value, cuts[middle + 1 :], low + middle + 1)
        return (
            f"CASE WHEN {value}<={self.dialect.number(cuts[middle])} THEN {left} ELSE {right} END"
        )

    def _share(self, at: int, c: int) -> str:
        """Return what a code adds to its group's log-odds: 0 if it's unknown.

        For the first class, to its log-probability; the same applies to `_term`.
        """
        logs = self.recipe.families[at].log_within
        assert logs is not None  # the input has groups
        odds = np.append(logs[:, c] - (logs[:, 0] if c else 0.0), 0.0)
        return self.dialect.look_up(odds.tolist(), f"c{at}")

    def _place(self, at: int) -> str:
        """Return the index of some groups in a feature's table; unknown is an extra group."""
        family = self.recipe.families[at]
        place, *others = (group_column(self.recipe, i) for i in (*family.parents, at))
        for column, size in zip(others, family.log_prob.shape[1:-1], strict=True):
            place = f"({place}*{size + 1}+{column})"
        return place

    def _term(self, at: int, c: int) -> str:
        """Return a feature's log-odds: 0 if it's unknown, NULL if only a parent is."""
        family = self.recipe.families[at]
        table = self.recipe.table_with_unknown(at)
        odds = table[..., c] - (table[..., 0] if c else 0.0)
        numbers = [None if x != x else x for x in odds.ravel().tolist()]
        place = f"i{at}" if family.parents else group_column(self.recipe, at)
        found = self.dialect.look_up(numbers, place)
        return found if family.log_within is None else f"{found} + a{at}_{c}"


def _group(column: str, groups: Sequence[int]) -> str:
    """Return the group of a code, by runs; unknown is an extra group."""
    ends = [v for v in range(1, len(groups)) if groups[v] != groups[v - 1]]
    cases = [f"WHEN {column}<{end} THEN {groups[end - 1]}" for end in [*ends, len(groups)]]
    return f"CASE {' '.join(cases)} ELSE {max(groups) + 1} END"


def _printable(text: str) -> str:
    """Return a name without NUL characters, which a statement can't contain."""
    return text.replace("\x00", "\ufffd")
