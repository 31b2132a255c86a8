"""Labelled tables: of a feature, as written by users, and the answer to a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from tanager.codes import Codebook, Column, Groups, NumericColumn
from tanager.codes.groups import join_values
from tanager.codes.rows import EqualByArrays
from tanager.drawing.svg import card
from tanager.errors import ConfigurationError, check_cells, listed, nearest
from tanager.network.evidence import check_count
from tanager.numerics import Floats
from tanager.parameters import DenseTable, GroupedTable

if TYPE_CHECKING:
    from tanager.network.network import Network

ORDERS = ("context", "parents", "center")

CLASS = -1  # represents the class among indices of features
TOLERANCE = 1e-3  # largest deviation of the sum of given probabilities from one

SHOWN = 40  # most rows printed
WIDE, JOINED = 12, 8  # most columns printed as they are; number of columns after merging
MAX_ROWS, MAX_COLUMNS = 40, 30  # of a table in a notebook
MAX_CELLS = 1 << 24  # of one expanded table: 128 MiB per class


def align_columns(rows: Sequence[Sequence[str]], n_left: int) -> list[str]:
    """Return rows of texts as lines, the first columns left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.ljust(width) if at < n_left else text.rjust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


@dataclass(frozen=True, eq=False)
class LabelledTable(EqualByArrays):
    """P(feature | class, parents), one row per context.

    Attributes
    ----------
    feature : str
    given : tuple of str
        ``"class"`` and the parents, in back-off order.
    contexts : list of tuple of str
        The values of `given`, one tuple per row; of a huge family, those seen in training.
    values : tuple of str
        The values of the feature, one per column.
    probabilities : ndarray of float64, shape (n_contexts, n_values)
        Each row sums to one.
    column : Column or None
        The feature's column in the codebook, which defines the order of its values.
    """

    feature: str
    given: tuple[str, ...]
    contexts: list[tuple[str, ...]]
    values: tuple[str, ...]
    probabilities: Floats
    column: Column | None = None

    def __str__(self) -> str:
        joined = self.joined() if len(self.values) > WIDE else self
        if joined is not self:
            n_values = len(self.values)
            return f"{joined}\n{n_values} values, neighbours merged: `probabilities` has all"
        rows = zip(self.contexts[:SHOWN], self.probabilities[:SHOWN], strict=True)
        body = [[*context, *(f"{p:.3f}" for p in row)] for context, row in rows]
        lines = align_columns([[*self.given, *self.values], *body], len(self.given))
        if len(self.contexts) > SHOWN:
            lines.append(f"... {len(self.contexts) - SHOWN:,} more contexts")
        return "\n".join([f"P({self.feature} | {', '.join(self.given)})", *lines])

    __repr__ = __str__

    def joined(self, most: int = JOINED) -> LabelledTable:
        """Return the table with neighbouring values of an ordered feature merged, for display.

        Parameters
        ----------
        most : int
            Most values to keep; those most informative about the class stay separate.
        """
        check_count("most", most, 1)
        column = self.column
        if column is None or column.n_ordered <= most:
            return self
        of_class = np.array([context[0] for context in self.contexts], object)
        classes = dict.fromkeys(of_class)
        shares = [self.probabilities[of_class == one].mean(axis=0) for one in classes]
        groups = join_values(np.stack(shares, axis=1), column.n_ordered, most)
        starts = np.flatnonzero(np.diff(groups.astype(np.int64), prepend=-1))
        sums = np.add.reduceat(self.probabilities, starts, axis=1)
        values = tuple(group_labels(column, groups))
        return replace(self, values=values, probabilities=sums, column=None)

    def sorted(self, by: str = "context") -> LabelledTable:
        """Return the table with its contexts in another order.

        Parameters
        ----------
        by : {"context", "parents", "center"}
            "context" sorts by class, then parents; "parents" by parents, then class; "center" by
            the mean position among the columns, so that similar distributions are neighbours.

        Examples
        --------
        >>> table = LabelledTable("x", ("class", "z"), [("n", "a"), ("n", "b"), ("y", "a")],
        ...                       ("0", "1"), np.array([[0.2, 0.8], [0.9, 0.1], [0.5, 0.5]]))
        >>> table.sorted("parents").contexts
        [('n', 'a'), ('y', 'a'), ('n', 'b')]
        >>> table.sorted("center").probabilities[:, 1].tolist()
        [0.1, 0.5, 0.8]
        """
        if by not in ORDERS:
            raise ConfigurationError(
                f"Tables can't be sorted by {by!r}. Allowed: {listed(ORDERS)}."
            )
        # Values are ranked by first occurrence, which keeps the order of intervals and texts.
        firsts = [list(dict.fromkeys(column)) for column in zip(*self.contexts, strict=True)]
        ranks = [{value: at for at, value in enumerate(values)} for values in firsts]
        keys = [tuple(r[v] for r, v in zip(ranks, c, strict=True)) for c in self.contexts]
        if by == "center":
            keys = [(p,) for p in self.probabilities @ np.arange(len(self.values))]
        elif by == "parents":
            keys = [(*parents, c) for c, *parents in keys]
        order = sorted(range(len(keys)), key=keys.__getitem__)
        contexts = [self.contexts[at] for at in order]
        return replace(self, contexts=contexts, probabilities=self.probabilities[order])

    def _repr_html_(self) -> str:
        table = self if len(self.values) <= WIDE else self.joined()
        shares = table.probabilities[:MAX_ROWS, :MAX_COLUMNS]
        return card("table.html.j2", table=table, shares=shares)

    def to_pandas(self):  # type: ignore[no-untyped-def]
        """Return a DataFrame with the contexts as its index; needs pandas."""
        import pandas as pd

        index = pd.MultiIndex.from_tuples(self.contexts, names=self.given)
        return pd.DataFrame(self.probabilities, index=index, columns=list(self.values))


def table(network: Network, feature: str) -> LabelledTable:
    """Return P(feature | class, parents) with the labels of values, to read or plot."""
    codebook, structure, tables = network.codebook, network.structure, network.tables
    at = structure.position(feature)
    parents = structure.parent_indices[at]
    members = (*parents, structure.selected[at])
    labels = [codebook.columns[m].labels() for m in members]
    classes, table = [str(c) for c in codebook.classes], tables.families[at]
    if isinstance(table, GroupedTable):
        read = zip(parents, table.groups, strict=True)
        labels[:-1] = [group_labels(codebook.columns[p], groups) for p, groups in read]
    if isinstance(table, DenseTable | GroupedTable):
        shape = (len(classes), *table.log_prob.shape[:-2])
        grid = np.indices(shape).reshape(len(shape), -1)
        log_prob = np.moveaxis(table.log_prob, -1, 0).reshape(grid.shape[1], -1)
    else:
        grid = table.seen_contexts()
        arity, n_contexts = table.contexts.arity, grid.shape[1]
        remedy = "Learn a structure with fewer parents to read its tables."
        check_cells("Written out, the table has", n_contexts * arity, MAX_CELLS, remedy)
        of_class, *above = np.repeat(grid.astype(np.uint16), arity, axis=1)
        codes = np.array([*above, np.tile(np.arange(arity, dtype=np.uint16), n_contexts)])
        terms, arities = np.zeros((len(of_class), table.n_classes)), np.array(table.member_arities)
        table.add_terms(codes, arities, np.arange(len(members)), terms)
        log_prob = terms[np.arange(len(terms)), of_class].reshape(n_contexts, arity)
    names = [classes, *labels[:-1]]
    columns = [[some[c] for c in codes] for some, codes in zip(names, grid.tolist(), strict=True)]
    contexts = list(zip(*columns, strict=True))
    given = ("class", *(structure.names[p] for p in parents))
    own = codebook.columns[structure.selected[at]]
    return LabelledTable(feature, given, contexts, tuple(labels[-1]), np.exp(log_prob), own)


def group_labels(column: Column, groups: Groups) -> list[str]:
    """Return display names for groups of a column's values, such as merged intervals of a number.

    Groups of an ordered category are named after their first and last value.

    >>> column = NumericColumn("x", np.array([1.0, 2.0, 3.0]), None)
    >>> group_labels(column, np.array([0, 0, 1, 1], np.uint16))
    ['<= 2', '> 2']
    """
    if isinstance(column, NumericColumn):
        edges = np.flatnonzero(np.diff(groups[: len(column.cuts) + 1].astype(np.int64)))
        firsts, missing = [0, *(edges + 1).tolist()], column.missing_code
        own = None if missing is None else len(firsts)
        merged = NumericColumn(column.name, column.cuts[edges], own, column.temporal)
        groups = groups[firsts if missing is None else [*firsts, missing]]
    names = np.array((merged if isinstance(column, NumericColumn) else column).labels(), object)
    members = [names[groups == g] for g in range(int(groups.max()) + 1)]
    if isinstance(column, NumericColumn) or not column.ordered:
        return [", ".join(some) for some in members]
    return [some[0] if len(some) == 1 else f"{some[0]} to {some[-1]}" for some in members]


def read_family(codebook: Codebook, text: Any) -> tuple[int, ...]:
    """Return the indices of a node's parents and of the node, with `CLASS` for the class.

    The family is a text such as ``"cough | sick, smoker"``, or a pair of a name and names.
    """
    names, label = codebook.domain.names, codebook.class_name
    if isinstance(text, str):
        child, _, given = (text, "", "") if text in (label, *names) else text.partition("|")
        parents = [name.strip() for name in given.split(",") if name.strip()]
    elif isinstance(text, Sequence) and len(text) == 2:
        child, parents = str(text[0]), [str(name) for name in text[1]]
    else:
        raise ConfigurationError(
            f"{text!r} names no family. Write 'feature | parent, parent', or a pair of a name and "
            "a list of names."
        )
    members = []
    for name in (*parents, child.strip()):
        if name not in (*names, label, "class"):
            raise ConfigurationError(
                f"The given tables name {name!r}, which is neither a feature nor the class."
                f"{nearest(name, names)} Features: {listed(names)}."
            )
        members.append(names.index(name) if name in names else CLASS)
    if len(set(members)) != len(members):
        raise ConfigurationError(f"{text!r} names a node twice. Name each once.")
    if parents and members[-1] == CLASS:
        raise ConfigurationError(
            f"{text!r} gives the class parents; it has none here. Give the features' tables with "
            "the class among their parents."
        )
    return tuple(members)


def read_table(
    codebook: Codebook,
    members: Sequence[int],
    given: Any,
    name: str,
    contexts: Sequence[list[str]] | None = None,  # labels of parents except the class
) -> Floats:
    """Return probabilities (*parents, values); NaN for contexts that a mapping doesn't contain."""
    columns = [codebook.target if node == CLASS else codebook.columns[node] for node in members]
    *parents, values = [column.labels() for column in columns]
    if contexts is not None:
        parents[1:] = contexts
    shape, what = (*map(len, parents), len(values)), f"The table of {name!r}"

    def find(labels: list[str], value: Any) -> int:
        if str(value) not in labels:
            hint = f"{nearest(value, labels)} Values: {listed(labels)}."
            raise ConfigurationError(f"{what} names the value {value!r}.{hint}")
        return labels.index(str(value))

    def numbers(given: Any) -> Floats:
        try:
            return np.array(given, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"{what} isn't an array of numbers.") from error

    if isinstance(given, Mapping):
        table = np.full(shape, np.nan)
        for context, row in given.items() if parents else [((), given)]:
            place = context if isinstance(context, tuple) else (context,)
            if len(place) != len(parents):
                raise ConfigurationError(
                    f"{what} has the context {context!r}; one value for each of {len(parents)} "
                    "parents is expected."
                )
            if isinstance(row, Mapping):
                chances = {find(values, value): chance for value, chance in row.items()}
                row = [chances.get(at, 0.0) for at in range(len(values))]
            found = numbers(row)
            if found.shape != (len(values),):
                raise ConfigurationError(
                    f"A row of the table of {name!r} has the shape {found.shape}; {len(values)} "
                    "probabilities are expected."
                )
            table[tuple(map(find, parents, place))] = found
    else:
        table = numbers(given)
        if table.shape != shape:
            raise ConfigurationError(
                f"{what} has the shape {table.shape}; {shape} is expected: one axis per parent, "
                "the feature's values last."
            )
        if np.isnan(table).any():
            raise ConfigurationError(f"{what} has a NaN. Give every probability.")
    totals = table.sum(axis=-1)
    wrong = (table < 0).any() or not np.isfinite(table[~np.isnan(table)]).all()
    if wrong or bool((np.abs(totals - 1.0) > TOLERANCE).any()):
        raise ConfigurationError(
            f"{what} has a context whose probabilities are negative or do not sum to one. Give "
            "probabilities of all values."
        )
    normalised: Floats = table / totals[..., None]
    return normalised


@dataclass(frozen=True, eq=False)
class Answer(EqualByArrays):
    """P(targets | evidence).

    Attributes
    ----------
    targets : tuple of str
        The queried features, and possibly the class.
    values : tuple of tuple of str
        The values of each target.
    probabilities : ndarray of float64, shape ``(*n_values)`` or ``(n_rows, *n_values)``
        Sums to one over the axes of the targets. Has rows if the evidence was a table.
    log_evidence : float or ndarray of float64, shape (n_rows,)
        log P(evidence).
    """

    targets: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    probabilities: Floats
    log_evidence: Any

    @property
    def n_rows(self) -> int | None:
        """Number of rows of evidence, or None if it was a mapping."""
        return len(self.probabilities) if self.probabilities.ndim > len(self.targets) else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "targets": list(self.targets),
            "values": [list(names) for names in self.values],
            "probabilities": self.probabilities.tolist(),
            "log_evidence": np.asarray(self.log_evidence).tolist(),
        }

    def to_pandas(self) -> Any:
        """Return a DataFrame, one row per combination, or one per row of evidence; needs pandas."""
        import pandas as pd

        index: Any = pd.MultiIndex.from_product(self.values, names=self.targets)
        if len(self.targets) == 1:
            index = pd.Index(self.values[0], name=self.targets[0])
        if self.n_rows is None:
            return pd.DataFrame({"probability": self.probabilities.ravel()}, index=index)
        return pd.DataFrame(self.probabilities.reshape(self.n_rows, -1), columns=index)

    def _pairs(self) -> list[tuple[tuple[str, ...], float]]:
        """Return each combination of values with its probability, for one row of evidence."""
        return list(zip(product(*self.values), self.probabilities.ravel().tolist(), strict=True))

    def __str__(self) -> str:
        title = f"P({', '.join(self.targets)} | evidence)"
        if self.n_rows is not None:
            sizes = " × ".join(str(len(names)) for names in self.values)
            return f"{title}: {self.n_rows:,} rows, {sizes} values"
        pairs = self._pairs()
        rows = [[*self.targets, "P"], *([*names, f"{p:.4f}"] for names, p in pairs[:SHOWN])]
        more = [f"... {len(pairs) - SHOWN:,} more"] if len(pairs) > SHOWN else []
        return "\n".join([title, *align_columns(rows, len(self.targets) + 1), *more])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        pairs = self._pairs() if self.n_rows is None else []
        return card("answer.html.j2", answer=self, pairs=pairs)


@dataclass(frozen=True)
class Completion:
    """A joint assignment of unknown features, with its probability.

    Attributes
    ----------
    values : dict of str to str
        The value of every unknown feature, and of the class.
    probability : float
        The joint probability of these values, given the evidence.
    """

    values: dict[str, str]
    probability: float
