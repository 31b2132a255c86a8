"""Networks as a single SQL statement over the user's table.

The statement is a template, `scorer.sql.j2`, which says what its stages are; the expressions of
their columns are here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tanager.errors import ConfigurationError, check_cells, invalid, listed
from tanager.network.decisions import Costs, read_costs
from tanager.network.evidence import read_names
from tanager.network.exports import template
from tanager.network.exports.bif import distinct
from tanager.network.exports.dialects import DIALECTS, Dialect, balanced_sum, name_quoted
from tanager.network.exports.recipe import Input, Recipe, Step, make_recipe
from tanager.network.propagation import require_probabilities
from tanager.numerics import Floats, log_sum_exp

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
        Columns of the table to return with the probabilities, such as a key. By default, those
        that the network reads.
    contributions : bool, default=False
        Add one column per feature and class except the first: what the feature adds to the log-odds
        of the class against the first. NULL in rows with a known feature whose parent is unknown.
    unknowns : bool, default=True
        Whether to support rows with any unknown values. False makes the statement shorter, but
        returns NULL for such rows.
    costs : optional
        As for `Network.decide`: adds ``decision``, and each action's expected ``cost_ACTION``.
    log_probability : bool, default=False
        Add ``log_probability``: log P(row), low for unusual rows; NULL where contributions are.
    """
    if log_probability:
        require_probabilities(network)
    if not isinstance(dialect, str) or dialect not in DIALECTS:
        raise invalid("dialect", dialect, ", ".join(DIALECTS))
    recipe, engine = make_recipe(network), DIALECTS[dialect]()
    sums_out = unknowns and recipe.sums
    if sums_out:
        remedy = "Export with unknowns=False: rows with unknown values then get NULL."
        recipe.check_sums(MAX_TERMS, remedy, "SQL")
        remedy += " ONNX, C and JavaScript take any."
        what = "Summing out unknown features takes"
        n_terms = sum(prod(step.shape) for step in recipe.steps) * recipe.n_classes
        check_cells(what, n_terms, MAX_TERMS, remedy, "unknowns")
    names = read_names(table, "table")
    if not names:
        raise invalid("table", table, "a table's name, or a sequence that includes its schema")
    read = [given.name for given in recipe.inputs]
    kept = read if keep is None else read_names(keep, "keep")
    if engine.folds_names:
        _check_case(dialect, {*read, *kept}, network.codebook.domain.names)
    prices = None if costs is None else read_costs(network, costs)
    writer = _Writer(recipe, engine, log_probability=log_probability)
    stages = writer.stages()
    stages["raw"] = {f"k{at}": _column(name) for at, name in enumerate(kept)} | stages["raw"]
    statement = template("scorer.sql.j2").render(
        recipe=recipe,
        sql=engine,
        table=f"{'.'.join(map(name_quoted, names))} AS {_ROW}",
        kept=[f"k{at}" for at in range(len(kept))],
        weights=writer.weights,
        contributions=contributions,
        prices={} if prices is None else writer.prices(prices),
        result=writer.result(kept, prices, contributions=contributions),
        **stages,
        **(writer.sums() if sums_out and writer.classes else {}),
    )
    own = re.escape(names[0].lower() if engine.folds_names else names[0])
    if len(names) == 1 and re.search(rf"^{own}(?: AS |\()", statement, re.MULTILINE):
        raise ConfigurationError(
            f"table={names[0]!r} is a name that the statement itself uses. Give the schema too: "
            f"table=(SCHEMA, {names[0]!r}); or rename the table."
        )
    return str(statement)


def _check_case(dialect: str, read: set[str], features: Sequence[str]) -> None:
    """Raise if an engine would silently read the first of some columns under all their names."""
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


def _column(name: str) -> str:
    """Return a column of the table; SQLite treats an unknown bare name as a text."""
    return f"{_ROW}.{name_quoted(name)}"


class _Writer:
    """Writes the expressions of a statement's columns.

    Terms and sums are log-odds against the first class, or its own log-probabilities, for log P(x).
    """

    def __init__(self, recipe: Recipe, dialect: Dialect, *, log_probability: bool) -> None:
        self.recipe, self.dialect = recipe, dialect
        self.inputs, self.classes = range(len(recipe.inputs)), range(1, recipe.n_classes)
        self.each = [0, *self.classes] if log_probability else self.classes
        self.grouped = {at: one.groups for at, one in enumerate(recipe.inputs) if one.groups}
        self.weights = [f"w{c}" for c in range(recipe.n_classes)]
        self.total = balanced_sum(self.weights)

    def stages(self) -> dict[str, dict[str, str]]:
        """Return the columns of the stages up to the log-odds: their expressions, by name."""
        inputs = self.recipe.inputs
        groups = {f"g{at}": _group(f"c{at}", some) for at, some in self.grouped.items()}
        shares = {f"a{at}_{c}": self._share(at, c) for at in self.grouped for c in self.each}
        odds = {}
        for c in self.each:
            parts = [self._prior(c), *(f"f{at}_{c}" for at in self.inputs)]
            odds[f"l{c}" if c else "base"] = balanced_sum(parts)
        return {
            "raw": {f"v{at}": self._raw(given) for at, given in enumerate(inputs)},
            "codes": {f"c{at}": self._code(at) for at in self.inputs},
            "groups": groups | shares,
            "places": {f"i{at}": self._place(at) for at in self.inputs if inputs[at].parents},
            "terms": {f"f{at}_{c}": self._term(at, c) for at in self.inputs for c in self.each},
            "odds": odds,
        }

    def sums(self) -> dict[str, Any]:
        """Return the steps that sum out unknown features, and the log-odds that they lead to."""
        # An input without parents and children adds the same to all rows.
        recipe = self.recipe
        alone = [s.input for s in recipe.steps if not s.separator and not s.messages]
        steps = {at: step for at, step in enumerate(recipe.steps) if step.input not in alone}
        summed = {i: self._group_column(i) for i in sorted(s.input for s in steps.values())}
        exact = {}
        for c in self.classes:
            # For isolated inputs, what codes add to their groups is already in the terms.
            shares = [f"a{i}_{c}" for i in summed if i in self.grouped]
            terms = [f"f{i}_{c}" for i in alone]
            message = f"total.x{c} - total.x0"
            exact[f"l{c}"] = balanced_sum([self._prior(c), *shares, *terms, message])
        return {
            "summed": summed,
            "steps": [self._step(at, step, summed) for at, step in steps.items()],
            "last_messages": [f"m{at}" for at, step in steps.items() if not step.separator],
            "exact": exact,
        }

    def _step(self, at: int, step: Step, summed: Mapping[int, str]) -> dict[str, Any]:
        """Return a step's tables, and what its message reads."""
        members = (*step.separator, step.input)
        sent: dict[tuple[int, ...], list[int]] = {}
        for m in step.messages:
            sent.setdefault(self.recipe.steps[m].separator, []).append(m)
        read = [self.recipe.steps[some[0]] for some in sent.values()]
        table, keys = self.recipe.step_table(step), {i: f"e{i}.v" for i in members}
        if not read:  # its sum over unknown values is an additional row of its tables
            table = np.append(table, log_sum_exp(table, axis=-2, keepdims=True), axis=-2)
            keys[step.input] = f"p.{summed[step.input]}"
        shape = table.shape[:-1]
        cells = np.arange(prod(shape))
        groups = dict(zip(members, np.unravel_index(cells, shape), strict=True))
        indices = [cells, cells // shape[-1]]
        for one in read:
            own = tuple(groups[i] for i in one.separator)
            indices.append(np.ravel_multi_index(own, one.shape[:-1]))
        logs = table.reshape(-1, self.recipe.n_classes).T
        return {
            "at": at,
            "table": self.dialect.relation(indices, logs),
            "place": _index("0", [keys[i] for i in members], shape),
            "known": members if read else step.separator,
            "size": prod(step.shape[:-1]),
            "read": [
                ([f"m{m}" for m in some], prod(one.shape[:-1]))
                for some, one in zip(sent.values(), read, strict=True)
            ],
        }

    def result(
        self, kept: Sequence[str], costs: Costs | None, *, contributions: bool
    ) -> list[tuple[str, str]]:
        """Return the columns of the result: quoted names and expressions."""
        # A row without log-odds has no probabilities.
        known = "CASE WHEN l1 IS NOT NULL THEN {} END" if self.classes else "{}"
        labels = [_printable(str(label)) for label in self.recipe.classes]
        shares = [known.format(f"{weight} / ({self.total})") for weight in self.weights]
        shown = list(zip((f"p_{label}" for label in labels), shares, strict=True))
        if costs is not None:
            shown.append(("decision", known.format(self._cheapest(costs))))
            for action, name in enumerate(costs.names):
                shown.append((f"cost_{_printable(name)}", known.format(f"e{action}")))
        for at, given in enumerate(self.recipe.inputs if contributions else ()):
            for c in self.classes:
                label = f"_{labels[c]}" if len(labels) > 2 else ""
                shown.append((f"log_odds_{given.name}{label}", f"f{at}_{c}"))
        if 0 in self.each:
            shown.append(("log_probability", f"base + top + LN({self.total})"))
        # Names are unique; kept ones are unchanged.
        room = self.dialect.name_bytes - 8
        cut = [name.encode()[:room].decode(errors="ignore") for name, _ in shown]
        names = [*kept, *distinct([*kept, *cut])[len(kept) :]]
        expressions = [*(f"k{at}" for at in range(len(kept))), *(what for _, what in shown)]
        return list(zip(map(name_quoted, names), expressions, strict=True))

    def prices(self, costs: Costs) -> dict[str, str]:
        """Return the expected cost of each action."""
        expected, number = {}, self.dialect.number
        for action, row in enumerate(costs.matrix.tolist()):
            parts = [f"{w} * {number(x)}" for w, x in zip(self.weights, row, strict=True)]
            expected[f"e{action}"] = f"({balanced_sum(parts)}) / ({self.total})"
        return expected

    def _cheapest(self, costs: Costs) -> str:
        """Return the action of least expected cost, or the first in case of a tie."""
        names = [self.dialect.literal(_printable(name)) for name in costs.names]
        tie = self.dialect.number(costs.tolerance)
        cases = []
        for a, name in enumerate(names[:-1]):
            least = " AND ".join(f"e{a} <= e{b} + {tie}" for b in range(len(names)) if b != a)
            cases.append(f"WHEN {least} THEN {name} ")
        return f"CASE {''.join(cases)}ELSE {names[-1]} END" if cases else names[-1]

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
        cut = self.dialect.number(cuts[middle])
        return f"CASE WHEN {value}<={cut} THEN {left} ELSE {right} END"

    def _group_column(self, i: int) -> str:
        """Return the column of an input's group, or of its code if each code is its own group."""
        return f"g{i}" if i in self.grouped else f"c{i}"

    def _prior(self, c: int) -> str:
        return self.dialect.constant(float(_odds(self.recipe.log_prior, c)))

    def _share(self, at: int, c: int) -> str:
        """Return what a code adds to its group's log-odds: 0 if it's unknown."""
        logs = self.recipe.inputs[at].log_within
        assert logs is not None  # the input has groups
        return self.dialect.look_up([*_odds(logs, c).tolist(), 0.0], f"c{at}")

    def _place(self, at: int) -> str:
        """Return the index of some groups in a feature's table; unknown is an extra group."""
        given = self.recipe.inputs[at]
        first, *others = (self._group_column(i) for i in (*given.parents, at))
        return _index(first, others, [size + 1 for size in given.log_prob.shape[1:-1]])

    def _term(self, at: int, c: int) -> str:
        """Return a feature's log-odds: 0 if it's unknown, NULL if only a parent is."""
        given = self.recipe.inputs[at]
        odds = _odds(self.recipe.table_with_unknown(at), c).ravel().tolist()
        numbers = [None if x != x else x for x in odds]
        found = self.dialect.look_up(numbers, f"i{at}" if given.parents else self._group_column(at))
        return found if given.log_within is None else f"{found} + a{at}_{c}"


def _odds(logs: Floats, c: int) -> Floats:
    """Return the log-odds of a class against the first, or the log-probability of the first."""
    return logs[..., c] - logs[..., 0] if c else logs[..., 0]


def _index(index: str, columns: Iterable[str], sizes: Iterable[int]) -> str:
    """Return the index of a cell: one more column at a time, each with its number of values."""
    for column, size in zip(columns, sizes, strict=True):
        index = f"({index}*{size}+{column})"
    return index


def _group(column: str, groups: Sequence[int]) -> str:
    """Return the group of a code, by runs; unknown is an extra group."""
    ends = [v for v in range(1, len(groups)) if groups[v] != groups[v - 1]]
    cases = [f"WHEN {column}<{end} THEN {groups[end - 1]}" for end in [*ends, len(groups)]]
    return f"CASE {' '.join(cases)} ELSE {max(groups) + 1} END"


def _printable(text: str) -> str:
    """Return a name without NUL characters, which a statement can't contain."""
    return text.replace("\x00", "\ufffd")
