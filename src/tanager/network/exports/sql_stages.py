r"""The common table expressions of a statement: its chain of stages, and sums as relations.

Rows with the same groups are summed once: `patterns` contains each distinct pattern of groups,
numbered by rank. Every step s of the recipe sends one message, the logarithm of a sum over its
input's groups v, as a function of its separator's groups u and of the class c:

.. math:: x_c(u) = \log \sum_v \exp(p_c(u, v) + \sum_m x^m_c(u, v))

One relation per input contains the groups that agree with what is known of it, one per step its
tables:

    e3(g, v)              v is g, or g means unknown
    k3(w, u, s0, p0, p1)  the tables of step 3: w is an index into them, u the index into the
                          step's own message, s0 into the first of those it reads
    m3(u, x0, x1)         its message: for pattern r and indices 0 .. n - 1, u starts at r n

Messages with the same separator are added before they are read. Every join has few relations and
one key, for which engines without statistics on a relation plan well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from tanager.network.exports.dialects import Dialect, balanced_sum, name_quoted
from tanager.network.exports.recipe import Recipe, Step
from tanager.numerics import Ints, log_sum_exp

MOST_JOINED = 200  # relations of one UNION: SQLite allows 500
LEAST = "-700.0"  # some engines reject exp of a smaller number


class Stages:
    """Collects the stages that a statement's SELECT reads.

    A stage passes on the columns of the previous one by kind, the first letter of their names:
    most engines keep all columns of a stage, whether they are read or not.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._how = dialect.materialized
        self._written: list[str] = []
        self._last = ""
        self._columns: list[str] = []  # of the last stage
        self.names: set[str] = set()

    def add(self, name: str, columns: Mapping[str, str], keep: str = "", source: str = "") -> None:
        """Add a stage from the expressions of its columns; one that adds nothing is omitted."""
        if columns:
            carried = self._kept(keep)
            shown = [*carried, *(f"{what} AS {column}" for column, what in columns.items())]
            self.relate(
                name, "SELECT\n  " + ",\n  ".join(shown) + f"\n FROM {source or self._last}"
            )
            self._last, self._columns = name, [*carried, *columns]

    def unite(self, name: str, other: str, keep: str) -> None:
        """Add a stage with the rows of the last stage and of another with the same columns."""
        self._columns = self._kept(keep)
        shown = ", ".join(self._columns)
        self.relate(name, f"SELECT {shown} FROM {other} UNION ALL SELECT {shown} FROM {self._last}")
        self._last = name

    def relate(self, name: str, text: str) -> None:
        """Add a relation outside the chain."""
        self._written.append(f"{name} AS {self._how}({text})")
        self.names.add(name.partition("(")[0])

    def select(self, columns: Sequence[str], names: Sequence[str]) -> str:
        """Return the statement that selects expressions under names."""
        pairs = zip(columns, names, strict=True)
        shown = ",\n  ".join(f"{what} AS {name_quoted(name)}" for what, name in pairs)
        chain = ",\n".join(self._written)
        return f"WITH\n{chain}\nSELECT\n  {shown}\nFROM {self._last}\n"

    def _kept(self, keep: str) -> list[str]:
        return [column for column in self._columns if column[0] in keep]


def group_column(recipe: Recipe, i: int) -> str:
    """Return the column of an input's group, or of its code if each code is its own group."""
    return f"c{i}" if recipe.inputs[i].groups is None else f"g{i}"


def add_sums(stages: Stages, recipe: Recipe, dialect: Dialect) -> None:
    """Add the stages from ``plain`` to ``summed``, with l1, l2 etc. of rows that lack them."""
    # An input without parents and children adds the same to all rows.
    alone = [s.input for s in recipe.steps if not s.separator and not s.messages]
    steps = {at: step for at, step in enumerate(recipe.steps) if step.input not in alone}
    inputs = sorted(step.input for step in steps.values())
    known = ", ".join(group_column(recipe, i) for i in inputs)
    rank = {"r": f"DENSE_RANK() OVER (ORDER BY {known})"}
    stages.add("asked", rank, "kfbcga", "plain WHERE l1 IS NULL")
    stages.relate("patterns", f"SELECT DISTINCT r, {known} FROM asked")
    for i in inputs:
        n = recipe.inputs[i].n_groups
        given = [*range(n), *([n] * n)], [*range(n), *range(n)]
        stages.relate(f"e{i}(g, v)", dialect.relation(given))
    for at, step in steps.items():
        _add_step(stages, recipe, dialect, at, step)
    last = [f"m{at}" for at, step in steps.items() if not step.separator]
    stages.relate("total", _added(last, recipe.n_classes))
    odds = {}
    for c in range(1, recipe.n_classes):
        parts = [dialect.constant(float(recipe.log_prior[c] - recipe.log_prior[0]))]
        # For isolated inputs, what codes add to their groups is already in the terms.
        parts += [f"a{i}_{c}" for i in inputs if recipe.inputs[i].groups is not None]
        parts += [f"f{i}_{c}" for i in alone]
        parts.append(f"total.x{c} - total.x0")
        odds[f"l{c}"] = balanced_sum(parts)
    stages.add("summed", odds, "kfb", "asked JOIN total ON total.u = asked.r")


def _add_step(stages: Stages, recipe: Recipe, dialect: Dialect, at: int, step: Step) -> None:
    """Add a step's tables and its message."""
    members, classes = (*step.separator, step.input), range(recipe.n_classes)
    sent: dict[tuple[int, ...], list[int]] = {}
    for m in step.messages:
        sent.setdefault(recipe.steps[m].separator, []).append(m)
    read = {f"s{place}": recipe.steps[some[0]] for place, some in enumerate(sent.values())}
    for name, some in zip(read, sent.values(), strict=True):
        stages.relate(f"{name}_{at}", _added([f"m{m}" for m in some], recipe.n_classes))
    table, key = recipe.step_table(step), {i: f"e{i}.v" for i in members}
    if not read:  # its sum over unknown values is an additional row of its tables
        table = np.append(table, log_sum_exp(table, axis=-2, keepdims=True), axis=-2)
        key[step.input] = f"p.{group_column(recipe, step.input)}"
    shape = table.shape[:-1]
    groups = dict(zip(members, np.indices(shape).reshape(len(members), -1), strict=True))
    places = [_place(groups, one.separator, one.shape) for one in (step, *read.values())]
    columns = ["w", "u", *read, *(f"p{c}" for c in classes)]
    numbers = table.reshape(-1, recipe.n_classes).T
    constant = dialect.relation([np.arange(numbers.shape[1]), *places], numbers)
    stages.relate(f"k{at}({', '.join(columns)})", constant)
    place = "0"
    for i, size in zip(members, shape, strict=True):
        place = f"({place}*{size}+{key[i]})"
    source = ["patterns AS p"]
    source += [
        f"e{i} ON e{i}.g = p.{group_column(recipe, i)}" for i in members if key[i] == f"e{i}.v"
    ]
    source.append(f"k{at} AS k ON k.w = {place}")
    source += [
        f"{s}_{at} AS {s} ON {s}.u = p.r*{prod(one.shape[:-1])}+k.{s}" for s, one in read.items()
    ]
    terms = [dialect.real.format(f"k.p{c}") for c in classes]
    terms = [" + ".join([p, *(f"{s}.x{c}" for s in read)]) for c, p in enumerate(terms)]
    shown = ", ".join(f"{term} AS x{c}" for c, term in enumerate(terms))
    found = (
        f"SELECT p.r*{prod(step.shape[:-1])}+k.u AS u, {shown} "
        f"FROM {f' {dialect.join} '.join(source)}"
    )
    if read:
        tops = ", ".join(f"x{c}, MAX(x{c}) OVER (PARTITION BY u) AS t{c}" for c in classes)
        weight = f"EXP({dialect.greatest}(x{{0}} - t{{0}}, {LEAST}))"
        sums = ", ".join(f"MAX(t{c}) + LN(SUM({weight.format(c)})) AS x{c}" for c in classes)
        topped = f"SELECT u, {tops} FROM ({found}) AS given"
        found = f"SELECT u, {sums} FROM ({topped}) AS topped GROUP BY u"
    stages.relate(f"m{at}", found)


def _added(messages: Sequence[str], n_classes: int) -> str:
    """Return the sum of messages with the same indices."""
    while len(messages) > MOST_JOINED:
        parts = [messages[at : at + MOST_JOINED] for at in range(0, len(messages), MOST_JOINED)]
        messages = [f"({_joined(part)}) AS part" for part in parts]
    sums = ", ".join(f"SUM(x{c}) AS x{c}" for c in range(n_classes))
    return f"SELECT u, {sums} FROM ({_joined(messages)}) AS sent GROUP BY u"


def _joined(relations: Sequence[str]) -> str:
    return " UNION ALL ".join(f"SELECT * FROM {one}" for one in relations)


def _place(groups: Mapping[int, Ints], inputs: Sequence[int], sizes: Sequence[int]) -> Ints:
    """Return the indices of combinations of groups in a message."""
    out = np.zeros_like(next(iter(groups.values())))
    for i, size in zip(inputs, sizes, strict=False):
        out = out * size + groups[i]
    return out
