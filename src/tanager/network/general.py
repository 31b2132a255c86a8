r"""Convert any discrete Bayesian network to a classifier for one of its nodes.

A `Network` has the class as its root and as a parent of every feature. Any other network is
converted without changing its joint distribution:

* Hidden nodes are summed out one at a time. A node's arcs to its children are reversed, child by
  child, until it has none and drops out; each child then has the node's other neighbours as parents
  (Shachter 1986, DOI 10.1287/opre.34.6.871).
* If the class has parents, its ancestors are rewritten. They are eliminated in min-fill order, the
  class last; each becomes :math:`P(v \mid \text{class, its neighbours at that time})`.

Both are exact. Their cost is the size of the largest table; beyond a limit, the network is rejected
with an error that states its width.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from graphlib import TopologicalSorter
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tanager.codes import Codebook
from tanager.codes.columns import CategoricalColumn, Column
from tanager.codes.rows import MAX_ARITY
from tanager.codes.targets import class_array
from tanager.errors import ConfigurationError, MemoryBoundError, check_cells, listed, nearest
from tanager.network.checks import check_codebook
from tanager.network.evidence import read_names
from tanager.network.exports.bif import Variable, xml_names
from tanager.network.network import Network
from tanager.network.propagation import align, eliminate
from tanager.numerics import Floats, log_or_zero
from tanager.parameters import DenseTable, Tables
from tanager.structure import Structure

MAX_CELLS = 1 << 24  # of one table, and four times as many in total: 128 and 512 MiB


def network_of_variables(
    variables: Sequence[Variable],
    target: str,
    *,
    hidden: str | Collection[str] = (),
    notes: Mapping[str, Any] | None = None,
) -> Network:
    """Return the network as a classifier for the node `target`, with hidden nodes summed out.

    `notes` is the additional data written by Tanager, with its codebook.
    """
    names, hidden = [variable.name for variable in variables], read_names(hidden, "hidden")
    for name in (target, *hidden):
        if name not in names:
            hint = f"{nearest(name, names)} Its nodes: {listed(names)}."
            raise ConfigurationError(f"The network has no node {name!r}.{hint}")
    if target in hidden:
        raise ConfigurationError(f"The target {target!r} can't be hidden. Name another node.")
    graph, root = _Graph(variables), names.index(target)
    waiting = {names.index(name) for name in hidden}
    while waiting:  # next, the one whose removal needs the smallest table
        node = min(waiting, key=lambda n: (graph.cells(graph.family(n)), n))
        graph.remove(node)
        waiting.discard(node)
    graph.make_root(root)
    features = [at for at in graph.tables if at != root]
    if not features:
        raise ConfigurationError(
            f"The network has no node besides {target!r} to predict it from. Hide fewer nodes."
        )
    return _assemble(graph, root, _coding(variables, root, features, notes or {}))


class _NodeTable(NamedTuple):
    """P(node | parents), (*parents, node)."""

    parents: tuple[int, ...]
    values: Floats


class _Graph:
    """Nodes and their tables."""

    def __init__(self, variables: Sequence[Variable]) -> None:
        self.names = [variable.name for variable in variables]
        self.sizes = [len(variable.states) for variable in variables]
        self.tables = {at: _NodeTable(v.parents, v.probabilities) for at, v in enumerate(variables)}

    def cells(self, nodes: Iterable[int]) -> int:
        """Return the number of combinations of some nodes' states."""
        return prod(self.sizes[node] for node in nodes)

    def check(self, nodes: Collection[int], why: str) -> None:
        """Raise if a table is too large, and state its width."""
        names = listed((self.names[n] for n in sorted(nodes)), 8)
        what = f"{why} takes a table over {len(nodes)} nodes ({names}): width {len(nodes) - 1},"
        remedy = "Choose another target, or other hidden nodes."
        check_cells(what, self.cells(nodes), MAX_CELLS, remedy)

    def family(self, node: int) -> set[int]:
        """Return the nodes of the largest table needed to remove a node."""
        children = [at for at, table in self.tables.items() if node in table.parents]
        if not children:
            return set()
        joined = {node, *self.tables[node].parents, *children}
        return joined.union(*(self.tables[child].parents for child in children))

    def remove(self, node: int) -> None:
        """Sum out a node: reverse its arcs, child by child, parents before their children."""
        graph = {at: table.parents for at, table in self.tables.items()}
        children = [at for at in TopologicalSorter(graph).static_order() if node in graph[at]]
        own = self.tables.pop(node)
        why = f"Summing out the hidden node {self.names[node]!r}"
        for place, child in enumerate(children):
            table = self.tables[child]
            rest = [p for p in table.parents if p != node]
            rest += [p for p in own.parents if p not in rest]
            scope = (*rest, child, node)
            self.check(scope, why)
            joint = align((*table.parents, child), table.values, scope)
            joint = joint * align((*own.parents, node), own.values, scope)
            summed = joint.sum(axis=-1)
            self.tables[child] = _NodeTable(tuple(rest), summed)
            if place + 1 < len(children):
                own = _NodeTable((*rest, child), _divide(joint, summed[..., None]))

    def make_root(self, root: int) -> None:
        """Rewrite the ancestors of a node so that it has no parents."""
        above, waiting = set[int](), {*self.tables[root].parents}
        while waiting:
            above |= waiting
            waiting = {p for node in waiting for p in self.tables[node].parents} - above
        tables = [(node, *self.tables[node]) for node in sorted({*above, root})]
        factors = [((*parents, node), values) for node, parents, values in tables]
        scopes = [tuple(n for n in scope if n != root) for scope, _ in factors]
        why = f"Making {self.names[root]!r} the class"
        for node, around in list(eliminate(sorted(above), scopes, self.cells)):
            parents = (root, *sorted(around))
            scope = (*parents, node)
            self.check(scope, why)
            touched = [factor for factor in factors if node in factor[0]]
            factors = [factor for factor in factors if node not in factor[0]]
            joint = np.ones([self.sizes[n] for n in scope])
            for members, values in touched:
                joint = joint * align(members, values, scope)
            summed = joint.sum(axis=-1)
            factors.append((parents, summed))
            self.tables[node] = _NodeTable(parents, _divide(joint, summed[..., None]))
        prior = np.ones(self.sizes[root])
        for _, values in factors:
            prior = prior * values
        self.tables[root] = _NodeTable((), prior / prior.sum())


def _divide(joint: Floats, total: Floats) -> Floats:
    """Return joint / total, or uniform values in contexts that can't occur."""
    return np.divide(joint, total, out=np.full(joint.shape, 1.0 / joint.shape[-1]), where=total > 0)


class _Coding(NamedTuple):
    """How the nodes are mapped to columns."""

    codebook: Codebook
    place: dict[int, int]  # the column of each feature's node
    orders: dict[int, list[int]]  # a node's states in the order of its codes


def _coding(
    variables: Sequence[Variable], root: int, features: Sequence[int], notes: Mapping[str, Any]
) -> _Coding:
    written = check_codebook(notes["codebook"]) if "codebook" in notes else None
    known = {} if written is None else _known_columns(variables, written, notes)
    orders = {at: list(range(len(variables[at].states))) for at in (*features, root)}
    if written is not None and {*features, root} <= known.keys() and known[root] is written.target:
        index = {name: at for at, name in enumerate(written.domain.names)}
        return _Coding(written, {at: index[known[at].name] for at in features}, orders)
    columns: dict[int, Any] = {at: column for at, column in known.items() if at != root}
    for at in orders.keys() - columns.keys():
        states = variables[at].states
        if len(states) > MAX_ARITY:
            raise MemoryBoundError(
                f"{variables[at].name!r} has {len(states):,} states; {MAX_ARITY:,} are allowed."
            )
        orders[at].sort(key=states.__getitem__)
        values = pa.array([states[place] for place in orders[at]], pa.string())
        columns[at] = CategoricalColumn(variables[at].name, values, None)
    classes = class_array(columns[root], np.dtype(object))
    ours = tuple(columns[at] for at in features)
    codebook = Codebook(ours, columns[root], classes, missing="marginalize")
    return _Coding(codebook, {at: place for place, at in enumerate(features)}, orders)


def _known_columns(
    variables: Sequence[Variable], codebook: Codebook, notes: Mapping[str, Any]
) -> dict[int, Column]:
    """Return the columns of nodes that Tanager wrote and that haven't changed since."""
    renamed, found = notes.get("names"), dict[int, Column]()
    renamed = renamed if isinstance(renamed, dict) else {}
    columns: dict[Any, Column] = {column.name: column for column in codebook.columns}
    for at, variable in enumerate(variables):
        column = columns.get(renamed.get(variable.name, variable.name))
        if variable.name == notes.get("target"):
            column = codebook.target
        if column is not None and tuple(xml_names(column.labels())) == variable.states:
            found[at] = column
    return found


def _assemble(graph: _Graph, root: int, coding: _Coding) -> Network:
    n_classes, total = graph.sizes[root], 0
    for at in coding.place:
        family = {*graph.tables[at].parents, at, root}
        graph.check(family, f"The table of {graph.names[at]!r} with the class")
        total += graph.cells(family)
    what = "The tables of this network with the class have"
    check_cells(what, total, 4 * MAX_CELLS, "Choose another target.")
    parents, families = [], []
    for at in sorted(coding.place, key=coding.place.__getitem__):
        table = graph.tables[at]
        above = tuple(p for p in table.parents if p != root)
        scope = (*above, at, root)
        values = align((*table.parents, at), table.values, scope)
        for axis, node in enumerate(scope):
            if node != root or node in table.parents:
                values = np.take(values, coding.orders[node], axis=axis)
        spelled = np.broadcast_to(values, (*values.shape[:-1], n_classes))
        families.append(DenseTable(np.ascontiguousarray(log_or_zero(spelled))))
        parents.append(tuple(coding.place[p] for p in above))
    selected, names = sorted(coding.place.values()), coding.codebook.domain.names
    prior = log_or_zero(graph.tables[root].values[coding.orders[root]])
    structure = Structure(names, tuple(selected), tuple(parents))
    return Network(coding.codebook, structure, Tables(prior, tuple(families)))
