"""Labelled tables: the conditional probability table of a feature, and the answer to a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Column, Groups, NumericColumn
from tanager.codes.groups import join_values
from tanager.codes.rows import EqualByArrays
from tanager.drawing.svg import card
from tanager.errors import ConfigurationError, check_cells
from tanager.network.evidence import check_count
from tanager.parameters import DenseTable, GroupedTable, TreeTable

if TYPE_CHECKING:
    from tanager.network.network import Network

ORDERS = ("context", "parents", "center")

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
        The values of `given`, one tuple per row. If the family is too large to be
        expanded, only the contexts seen in training.
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
    probabilities: NDArray[np.float64]
    column: Column | None = None

    def __str__(self) -> str:
        if len(self.values) > WIDE:
            joined = self.joined()
            if joined is not self:
                note = f"{len(self.values)} values, neighbours merged: `probabilities` has all"
                return f"{joined}\n{note}"
        shown = self.contexts[:SHOWN]
        body = [
            [*context, *(f"{p:.3f}" for p in row)]
            for context, row in zip(shown, self.probabilities[:SHOWN], strict=True)
        ]
        lines = align_columns([[*self.given, *self.values], *body], len(self.given))
        if len(self.contexts) > len(shown):
            lines.append(f"... {len(self.contexts) - len(shown):,} more contexts")
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
        classes = list(dict.fromkeys(context[0] for context in self.contexts))
        of_class = np.array([classes.index(context[0]) for context in self.contexts])
        shares = [self.probabilities[of_class == c].mean(axis=0) for c in range(len(classes))]
        groups = join_values(np.stack(shares, axis=1), column.n_ordered, most)
        starts = np.flatnonzero(np.diff(groups.astype(np.int64), prepend=-1))
        sums = np.add.reduceat(self.probabilities, starts, axis=1)
        values = tuple(group_labels(column, groups))
        return LabelledTable(self.feature, self.given, self.contexts, values, sums)

    def sorted(self, by: str = "context") -> LabelledTable:
        """Return the table with its contexts in another order.

        Parameters
        ----------
        by : {"context", "parents", "center"}
            "context" sorts by class, then parents; "parents" by parents, then class, so that
            neighbouring rows differ only in the class; "center" by the mean position of the value
            among the columns, so that contexts with similar distributions are neighbours.

        Examples
        --------
        >>> table = LabelledTable("x", ("class", "z"), [("n", "a"), ("n", "b"), ("y", "a")],
        ...                       ("0", "1"), np.array([[0.2, 0.8], [0.9, 0.1], [0.5, 0.5]]))
        >>> table.sorted("parents").contexts
        [('n', 'a'), ('y', 'a'), ('n', 'b')]
        >>> table.sorted("center").probabilities[:, 1].tolist()
        [0.1, 0.5, 0.8]
        """
        order = self.order(by)
        contexts = [self.contexts[at] for at in order]
        return replace(self, contexts=contexts, probabilities=self.probabilities[order])

    def order(self, by: str) -> list[int]:
        """Return the positions of the contexts in an order accepted by `sorted`."""
        if by not in ORDERS:
            known = ", ".join(map(repr, ORDERS))
            raise ConfigurationError(f"A table cannot be sorted by {by!r}. Allowed: {known}.")
        # Values are ranked by first occurrence, which keeps the order of intervals and texts.
        ranks = [
            {value: at for at, value in enumerate(dict.fromkeys(column))}
            for column in zip(*self.contexts, strict=True)
        ]
        keys = [tuple(r[v] for r, v in zip(ranks, c, strict=True)) for c in self.contexts]
        places = range(len(self.contexts))
        if by == "context":
            return sorted(places, key=lambda at: keys[at])
        if by == "parents":
            return sorted(places, key=lambda at: (keys[at][1:], keys[at][0]))
        center = self.probabilities @ np.arange(len(self.values))
        return [int(at) for at in np.argsort(center, kind="stable")]

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
    classes = [str(c) for c in codebook.classes]
    table = tables.families[at]
    if isinstance(table, GroupedTable):
        read = zip(parents, table.groups, strict=True)
        labels[:-1] = [group_labels(codebook.columns[p], groups) for p, groups in read]
    if isinstance(table, DenseTable | GroupedTable):
        shape = (len(classes), *table.log_prob.shape[:-2])
        grid = np.indices(shape).reshape(len(shape), -1)
        log_prob = np.moveaxis(table.log_prob, -1, 0).reshape(grid.shape[1], -1)
    else:
        grid = table.seen_contexts()
        log_prob = _look_up(table, grid)
    names = [classes, *labels[:-1]]
    contexts = [
        tuple(names[v][code] for v, code in enumerate(context)) for context in grid.T.tolist()
    ]
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
        firsts, own = [0, *(edges + 1).tolist()], None
        if column.missing_code is not None:
            own = len(firsts)
            firsts.append(column.missing_code)
        merged = NumericColumn(column.name, column.cuts[edges], own, column.temporal)
        names, groups = np.array(merged.labels(), dtype=object), groups[firsts]
    else:
        names = np.array(column.labels(), dtype=object)
    members = [names[groups == g] for g in range(int(groups.max()) + 1)]
    if isinstance(column, NumericColumn) or not column.ordered:
        return [", ".join(some) for some in members]
    return [some[0] if len(some) == 1 else f"{some[0]} to {some[-1]}" for some in members]


def _look_up(table: TreeTable, contexts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return log P(x | context) for every value, (n_contexts, arity)."""
    arity = table.contexts.arity
    n_cells = contexts.shape[1] * arity
    remedy = "Learn a structure with fewer parents to read its tables."
    check_cells("Written out, the table has", n_cells, MAX_CELLS, remedy)
    arities = np.array(table.member_arities, np.int64)
    codes = np.empty((len(arities), contexts.shape[1], arity), np.uint16)
    codes[:-1] = contexts[1:, :, None]
    codes[-1] = np.arange(arity)
    flat = np.ascontiguousarray(codes.reshape(len(arities), -1))
    terms = np.zeros((flat.shape[1], table.n_classes))
    table.add_terms(flat, arities, np.arange(len(arities)), terms)
    of_class = np.repeat(contexts[0], arity)
    return terms[np.arange(flat.shape[1]), of_class].reshape(contexts.shape[1], arity)


SHOWN = 40  # most combinations printed


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
    probabilities: NDArray[np.float64]
    log_evidence: Any

    @property
    def n_rows(self) -> int | None:
        """Number of rows of evidence, or None if it was a mapping."""
        many = self.probabilities.ndim > len(self.targets)
        return len(self.probabilities) if many else None

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

        if len(self.targets) == 1:
            index: Any = pd.Index(self.values[0], name=self.targets[0])
        else:
            index = pd.MultiIndex.from_product(self.values, names=self.targets)
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
        lines = [[*names, f"{p:.4f}"] for names, p in pairs[:SHOWN]]
        shown = align_columns([[*self.targets, "P"], *lines], len(self.targets) + 1)
        rest = len(pairs) - len(lines)
        return "\n".join([title, *shown, *([f"... {rest:,} more"] if rest else [])])

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
