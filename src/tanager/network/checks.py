"""What a model file must satisfy before anything in it is used, and the tables of any network.

A hostile file may carry a valid checksum, so every number that becomes an index is checked
against what it indexes: compiled look-ups do not check bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Codebook, Domain
from tanager.codes.reading import STYLES
from tanager.codes.rows import MAX_ARITY, MAX_CELLS
from tanager.counts import Contexts
from tanager.errors import ConfigurationError, ModelFileError
from tanager.network.history import ACTIONS, Edit
from tanager.parameters.spread import LEVELS, at_levels, table_arrays
from tanager.parameters.tables import DenseTable, FamilyTable, GroupedTable, Tables, TreeTable
from tanager.structure.structure import Structure

_VALUES = {"integer": int, "real": float, "boolean": bool, "text": str}


def check_codebook(data: Any) -> Codebook:
    """Return the codebook of a header."""
    need(isinstance(data, dict), "the codebook is not an object")
    columns = as_list(data.get("columns"), "the codebook's columns")
    need(len(columns) > 0, "the codebook has no columns")
    for column in [*columns, data.get("target")]:
        _check_column(column)
    names = [column["name"] for column in columns]
    need(len(set(names)) == len(names), "two columns have the same name")
    target = data["target"]
    need(target["kind"] == "categorical", "the target is not categorical")
    need(target["missing_code"] is None, "the target has a code for missing")
    need(len(target["values"]) > 0, "the target has no classes")
    need(data.get("missing") in ("value", "marginalize"), "the policy for missing is unknown")
    need(isinstance(data.get("named"), bool), "'named' is neither true nor false")
    text = data.get("classes_dtype")
    need(isinstance(text, str) and len(text) < 16, "the classes' dtype is not text")
    dtype = np.dtype(text)
    need(dtype.kind in "biufUO" and dtype.fields is None, f"classes of dtype {text!r}")
    _check_readings(data.get("readings", {}), names)
    return Codebook.from_dict(data)


def _check_readings(readings: Any, names: list[str]) -> None:
    need(isinstance(readings, dict), "the columns' readings are not an object")
    for name, reading in readings.items():
        need(name in names, "a reading is of no column")
        good = isinstance(reading, list) and len(reading) == 2
        need(good and all(isinstance(part, str) for part in reading), "a reading is malformed")
        kind, style = reading
        need(kind in STYLES and style in STYLES[kind], "a reading is not known")


def _check_column(column: Any) -> None:
    need(isinstance(column, dict), "a column is not an object")
    name = column.get("name")
    need(isinstance(name, str), "a column's name is not text")
    kind = column.get("kind")
    temporal = column.get("temporal", None if kind == "numeric" else "")
    need(temporal in ("", "date", "time", "duration"), f"{name!r}: 'temporal' is not known")
    if kind == "numeric":
        cuts = as_list(column.get("cuts"), f"the cuts of {name!r}")
        need(all(type(c) is float for c in cuts), f"a cut of {name!r} is not a real number")
        need(all(c - c == 0 for c in cuts), f"a cut of {name!r} is not finite")
        need(all(a < b for a, b in pairwise(cuts)), f"the cuts of {name!r} do not ascend")
        n_values = len(cuts) + 1
    elif kind == "categorical":
        n_values = _check_values(column, name)
    else:
        refuse(f"column {name!r} is of the kind {kind!r}")
    missing = column.get("missing_code")
    need(
        missing is None or (type(missing) is int and missing == n_values),
        f"the code for missing of {name!r} is {missing!r}",
    )
    other = column.get("other_code")
    need(
        other is None
        or (type(other) is int and 0 <= other < n_values and column.get("family") == "text"),
        f"the code for other values of {name!r} is {other!r}",
    )
    arity = n_values + (missing is not None)
    need(arity <= MAX_ARITY, f"column {name!r} has {arity:,} values; {MAX_ARITY:,} are allowed")


def _check_values(column: dict[str, Any], name: Any) -> int:
    values = as_list(column.get("values"), f"the values of {name!r}")
    family = column.get("family")
    if family == "null":
        need(not values, f"column {name!r} has values but no type")
        need(column.get("ordered") is False, f"column {name!r} has an order but no values")
        return 0
    need(family in _VALUES, f"column {name!r} is of the family {family!r}")
    kind = _VALUES[str(family)]
    need(all(type(v) is kind for v in values), f"a value of {name!r} is not of type {family}")
    if kind is int:
        need(all(-(2**63) <= v < 2**63 for v in values), f"a value of {name!r} is too large")
    if kind is float:
        need(all(v - v == 0 for v in values), f"a value of {name!r} is not finite")
    if kind is str:
        keys: list[Any] = [v.encode("utf-8") for v in values]
    else:
        keys = values
    ordered = column.get("ordered")
    need(isinstance(ordered, bool), f"{name!r}: 'ordered' is not a boolean")
    if ordered:
        need(len(set(keys)) == len(keys), f"a value of {name!r} stands twice")
    else:
        need(all(a < b for a, b in pairwise(keys)), f"the values of {name!r} do not ascend")
    return len(values)


def check_structure(data: Any, names: tuple[str, ...]) -> Structure:
    """Return the structure of a header: known features, no cycle."""
    need(isinstance(data, dict), "the structure is not an object")
    selected = _indices(data.get("selected"), len(names), "the selected features")
    parents = as_list(data.get("parents"), "the parents")
    need(len(parents) == len(selected), "features and parents differ in number")
    families = tuple(_indices(p, len(names), "a feature's parents") for p in parents)
    try:
        return Structure(names, selected, families)
    except ValueError as error:
        refuse(str(error))


def check_history(data: Any, names: tuple[str, ...]) -> tuple[Edit, ...]:
    """Return the edits of a header; files of networks never edited may have none."""
    edits = []
    for entry in as_list(data, "the history"):
        need(isinstance(entry, dict), "an edit is not an object")
        facts = {key: entry.get(key) for key in ("feature", "action", "reason", "author", "when")}
        need(all(isinstance(fact, str) for fact in facts.values()), "an edit lacks a text")
        need(facts["feature"] in names, "an edit is of an unknown feature")
        need(facts["action"] in ACTIONS, f"an edit has the action {facts['action']!r}")
        need(isinstance(entry.get("details"), dict), "an edit's details are not an object")
        edits.append(Edit(details=entry["details"], **facts))
    return tuple(edits)


def _indices(data: Any, end: int, what: str) -> tuple[int, ...]:
    numbers = as_list(data, what)
    need(all(type(i) is int and 0 <= i < end for i in numbers), f"{what} are out of range")
    return tuple(numbers)


def as_list(data: Any, what: str) -> list[Any]:
    """Return what must be a list."""
    if not isinstance(data, list):
        refuse(f"{what} are not a list")
    return data


def need(condition: bool, why: str) -> None:
    """Refuse the file where something does not hold."""
    if not condition:
        refuse(why)


def refuse(why: str) -> NoReturn:
    """Refuse the file."""
    raise ModelFileError(f"the model file is malformed: {why}. Write it again with tanager.save.")


TOLERANCE = 1e-6  # how far a distribution's sum may be from one
MOST_SPREAD = 1024  # cells that look-ups spell out for each that a file has
TREE_INTEGERS = ("node_value", "node_parent", "node_child", "node_start", "cell_value")
MOST_LOG = 1e9  # far beyond any learner's; sums of so large ones are still finite

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Tensors = Mapping[str, NDArray[Any]]


def check_tables(data: Any, tensors: Tensors, structure: Structure, domain: Domain) -> Tables:
    """Return the tables: every array of the shape that structure and codebook ask for."""
    need(isinstance(data, dict), "the tables are not an object")
    normalized = data.get("normalized")
    need(isinstance(normalized, bool), "'normalized' is neither true nor false")
    families = as_list(data.get("families"), "the families")
    need(len(families) == len(structure.selected), "features and tables differ in number")
    log_prior = _floats(tensors, "log_prior")
    need(log_prior.shape == (domain.n_classes,), "the class prior has another number of classes")
    parts = _by_family(tensors, len(families))
    tables: list[FamilyTable] = []
    for at, family in enumerate(families):
        need(isinstance(family, dict), f"family {at} is not an object")
        members = (*structure.parent_indices[at], structure.selected[at])
        arities = tuple(int(domain.arities[m]) for m in members)
        what = f"the table of {structure.names[members[-1]]!r}"
        stored = _Stored(family, parts[at], arities, domain.n_classes, what)
        kind = family.get("kind")
        need(kind in _KINDS, f"{what} is of the kind {kind!r}")
        tables.append(_KINDS[kind](stored))
    _check_sizes(tables, structure)
    spread = _spread(data.get("spread"), tables, parts, domain.n_classes)
    return Tables(log_prior, tuple(tables), normalized, spread)


def _spread(
    data: Any, tables: list[FamilyTable], parts: list[dict[str, NDArray[Any]]], n_classes: int
) -> Tables | None:
    """Return how sure the tables are, where the file says it."""
    if data is None:
        return None
    prior = as_list(data, "the prior's levels")
    known = [type(one) is int and 0 <= one < len(LEVELS) for one in prior]
    need(len(prior) == n_classes and all(known), "the prior's levels are out of range")
    families = []
    for table, part in zip(tables, parts, strict=True):
        codes = part.get("spread", np.zeros(0))
        size = sum(array.size for array in table_arrays(table).values())
        fits = codes.dtype == np.uint8 and codes.shape == (size,)
        need(fits, "the levels of a table are not as many as its numbers")
        families.append(at_levels(table, codes))
    return Tables(LEVELS[prior], tuple(families), normalized=False)


def _check_sizes(tables: list[FamilyTable], structure: Structure) -> None:
    """Refuse trees of few cells whose look-ups would spell out any number of them."""
    trees = [at for at, table in enumerate(tables) if isinstance(table, TreeTable)]
    cells = [tables[at].member_arities[-1] * tables[at].n_classes for at in trees]
    stored = sum(t.cell_log_prob.size for t in tables if isinstance(t, TreeTable))
    for at, n_cells in zip(trees, cells, strict=True):
        what = f"the table of {structure.features[at]!r}"
        need(n_cells <= MAX_CELLS, f"{what} has {n_cells:,} cells without its parents")
    most = max(MAX_CELLS, MOST_SPREAD * stored)
    need(sum(cells) <= most, f"the tables have {sum(cells):,} cells without their parents")


def _by_family(tensors: Tensors, n_families: int) -> list[dict[str, NDArray[Any]]]:
    """Sort tensors ``family.<number>.<name>`` by their family."""
    parts: list[dict[str, NDArray[Any]]] = [{} for _ in range(n_families)]
    for full, array in tensors.items():
        if full == "log_prior":
            continue
        head, _, name = full.partition(".")[2].partition(".")
        known = full.startswith("family.") and head.isdecimal() and len(head) < 9
        need(known and int(head) < n_families, f"the tensor {full[:40]!r} belongs to no table")
        parts[int(head)][name] = array
    return parts


class _Stored(NamedTuple):
    """One family as a file has it, with what it has to agree with."""

    facts: dict[str, Any]
    tensors: Tensors
    arities: tuple[int, ...]  # of the parents, then of the feature
    n_classes: int
    what: str


def _dense(stored: _Stored) -> DenseTable:
    shape, what = (*stored.arities, stored.n_classes), stored.what
    log_prob = _floats(stored.tensors, "log_prob")
    need(log_prob.shape == shape, f"{what} has the shape {log_prob.shape}, not {shape}")
    return DenseTable(log_prob)


def _grouped(stored: _Stored) -> GroupedTable:
    what, arities, n_classes = stored.what, stored.arities, stored.n_classes
    lookup, log_group = _ints(stored.tensors, "lookup"), _floats(stored.tensors, "log_group")
    log_within = _floats(stored.tensors, "log_within")
    need(lookup.shape == (sum(arities),), f"{what} has groups of other features")
    need(log_group.ndim == len(arities) + 1, f"{what} has the shape {log_group.shape}")
    need(log_group.shape[-1] == n_classes, f"{what} has the shape {log_group.shape}")
    shape = (arities[-1], n_classes)
    need(log_within.shape == shape, f"{what} has values of the shape {log_within.shape}")
    table = GroupedTable(log_group, log_within, lookup.astype(np.uint16), arities)
    need(np.array_equal(lookup, table.lookup), f"{what} has groups out of range")
    for groups, size in zip(table.member_groups, log_group.shape, strict=False):
        # Every group is some value's, so that a view's size is told by its look-up table.
        found = np.unique(groups)
        need(np.array_equal(found, np.arange(size)), f"{what} has groups of another number")
    return table


def _tree(stored: _Stored) -> TreeTable:
    family, tensors, what = stored.facts, stored.tensors, stored.what
    for flag in ("inherit", "backoff"):
        need(isinstance(family.get(flag), bool), f"{what}: {flag!r} is neither true nor false")
    value, parent, child, start, cell_value = (_ints(tensors, name) for name in TREE_INTEGERS)
    context_arities = (stored.n_classes, *stored.arities[:-1])
    _check_nodes(context_arities, value, parent, child, what)
    contexts = Contexts.from_nodes(
        stored.arities[-1], context_arities, value, parent, child, start, cell_value
    )
    table = TreeTable(
        contexts,
        _floats(tensors, "cell_log_prob"),
        _floats(tensors, "node_log_escape"),
        family["inherit"],
        family["backoff"],
    )
    _check_cells(table, what)
    return table


_KINDS: dict[Any, Callable[[_Stored], FamilyTable]] = {
    "dense": _dense,
    "grouped": _grouped,
    "tree": _tree,
}


def _check_nodes(
    context_arities: tuple[int, ...], value: Ints, parent: Ints, child: Ints, what: str
) -> None:
    """Nodes stand breadth first: each level's children are the next level, in order."""
    n_nodes = value.shape[0]
    need(n_nodes >= 1, f"{what} has no nodes")
    need(child.shape == (n_nodes + 1,) and parent.shape == (n_nodes,), f"{what}: ragged nodes")
    need(bool((np.diff(child) >= 0).all()), f"{what}: children out of order")
    need(int(child[0]) == 1 and int(child[-1]) == n_nodes, f"{what}: children out of range")
    bounds = [0, 1]
    for _ in context_arities:
        bounds.append(int(child[bounds[-1]]))
        need(bounds[-1] >= bounds[-2], f"{what}: children before their parents")
    need(bounds[-1] == n_nodes, f"{what}: a context is deeper than the parents")
    owner = np.repeat(np.arange(n_nodes), np.diff(child))
    need(int(parent[0]) == 0, f"{what}: the root has a parent")
    need(bool((parent[1:] == owner).all()), f"{what}: nodes disagree on their parents")
    limits = np.repeat([1, *context_arities], np.diff(bounds))
    need(bool((value >= 0).all() and (value < limits).all()), f"{what}: a context out of range")
    ascending = (value[2:] > value[1:-1]) | (parent[2:] != parent[1:-1])
    need(bool(ascending.all()), f"{what}: contexts out of order")


def _check_cells(table: TreeTable, what: str) -> None:
    start, value = table.contexts.node_start, table.contexts.cell_value
    n_nodes, n_cells = table.contexts.n_nodes, value.shape[0]
    need(start.shape == (n_nodes + 1,), f"{what}: ragged nodes")
    need(table.node_log_escape.shape == (n_nodes,), f"{what}: ragged nodes")
    need(table.cell_log_prob.shape == (n_cells,), f"{what}: ragged cells")
    need(bool((np.diff(start) >= 0).all()), f"{what}: cells out of order")
    need(int(start[0]) == 0 and int(start[-1]) == n_cells, f"{what}: cells out of range")
    need(
        bool((value >= 0).all() and (value < table.contexts.arity).all()),
        f"{what}: a value out of range",
    )
    node = np.repeat(np.arange(n_nodes), np.diff(start))
    ascending = (value[1:] > value[:-1]) | (node[1:] != node[:-1])
    need(bool(ascending.all()), f"{what}: values out of order")


def _check_tree_sums(table: TreeTable, what: str) -> None:
    """Every node's distribution sums to one, without spelling it out.

    Values without a cell get the escape, times what the parent gives them where
    the node inherits: one minus what the parent gives to the node's own cells.
    """
    tree, node = table.contexts, table.contexts.cell_nodes()
    n_nodes = tree.n_nodes
    own = np.bincount(node, np.exp(table.cell_log_prob), n_nodes)
    if table.inherit:
        above = np.bincount(node, _above(table, node), n_nodes)
        rest = np.maximum(1.0 - above, 0.0)
    else:
        rest = (tree.arity - np.diff(tree.node_start)).astype(np.float64)
    # Nothing rests where every value has a cell, whatever the escape says.
    escape = np.where(rest > TOLERANCE, np.exp(np.minimum(table.node_log_escape, 700.0)), 0.0)
    _check_sums(own + escape * rest, what)


def _above(table: TreeTable, node: Ints) -> Floats:
    """Return, for each cell, the probability that the node's parent gives to its value."""
    tree = table.contexts
    keys = node * tree.arity + tree.cell_value
    probability = np.exp(table.cell_log_prob)
    at = tree.node_parent[node]
    factor = np.ones(node.shape[0])
    result = np.where(node == 0, 1.0 / tree.arity, 0.0)  # the root's parent is uniform
    waiting = np.flatnonzero(node > 0)
    while waiting.size:
        wanted = at[waiting] * tree.arity + tree.cell_value[waiting]
        place = np.minimum(np.searchsorted(keys, wanted), keys.shape[0] - 1)
        found = keys[place] == wanted
        result[waiting[found]] = factor[waiting[found]] * probability[place[found]]
        waiting = waiting[~found]
        factor[waiting] *= np.exp(np.minimum(table.node_log_escape[at[waiting]], 700.0))
        top = waiting[at[waiting] == 0]
        result[top] = factor[top] / tree.arity
        waiting = waiting[at[waiting] > 0]
        at[waiting] = tree.node_parent[at[waiting]]
    return result


def check_probabilities(tables: Tables, structure: Structure, domain: Domain) -> None:
    """Refuse tables of other shapes, with logarithms out of range, or that do not sum to one."""
    n_families, n_classes = len(structure.selected), domain.n_classes
    if len(tables.families) != n_families or tables.log_prior.shape != (n_classes,):
        raise ConfigurationError(
            f"{len(tables.families)} tables and the prior of {tables.log_prior.shape} classes do "
            f"not fit {n_families} features and {n_classes} classes. Give one table per feature."
        )
    _check_logs([tables.log_prior], "the class prior")
    if tables.normalized:
        _check_sums(np.exp(tables.log_prior).sum(keepdims=True), "the class prior")
    for at, table in enumerate(tables.families):
        members = (*structure.parent_indices[at], structure.selected[at])
        wanted = tuple(int(domain.arities[m]) for m in members)
        what = f"the table of {structure.names[members[-1]]!r}"
        if tuple(table.member_arities) != wanted or table.n_classes != n_classes:
            raise ConfigurationError(
                f"{what} has the shape {(*table.member_arities, table.n_classes)}; "
                f"{(*wanted, n_classes)} is expected: the parents, the feature, the classes."
            )
        _check_table(table, what, normalized=tables.normalized)


def _check_table(table: FamilyTable, what: str, *, normalized: bool) -> None:
    if isinstance(table, TreeTable):
        _check_logs([table.node_log_escape, table.cell_log_prob], what)
        if normalized:
            _check_tree_sums(table, what)
    elif isinstance(table, GroupedTable):
        _check_logs([table.log_within, table.log_group], what)
        if normalized:
            inside = np.zeros(table.log_group.shape[-2:])
            np.add.at(inside, table.member_groups[-1], np.exp(table.log_within))
            _check_sums(inside, what)
            _check_sums(np.exp(table.log_group).sum(axis=-2), what)
    else:
        _check_logs([table.log_prob], what)
        if normalized:
            _check_sums(np.exp(table.log_prob).sum(axis=-2), what)


def _check_logs(arrays: list[Floats], what: str) -> None:
    # No learner gives a probability of zero. With one, a row may be impossible in every class,
    # and then has no posterior. A comparison with NaN is false.
    if not all((np.abs(array) <= MOST_LOG).all() for array in arrays):
        raise ConfigurationError(
            f"{what} has a logarithm out of range. Give finite logarithms of probabilities."
        )


def _check_sums(sums: Floats, what: str) -> None:
    if not (np.abs(sums - 1.0) <= TOLERANCE).all():
        raise ConfigurationError(
            f"{what} does not sum to one. Divide by the sums, or mark the tables as scores: "
            "Tables(..., normalized=False)."
        )


def _floats(tensors: Tensors, name: str) -> Floats:
    need(name in tensors, f"the tensor {name!r} is not there")
    array = tensors[name]
    need(array.dtype == np.float64, f"the tensor {name!r} is of type {array.dtype}")
    return np.array(array, dtype=np.float64, order="C")  # a copy: compiled loops want it writable


def _ints(tensors: Tensors, name: str) -> Ints:
    need(name in tensors, f"the tensor {name!r} is not there")
    array = tensors[name]
    need(array.dtype.kind in "iu" and array.ndim == 1, f"the tensor {name!r} is no list of codes")
    return array.astype(np.int64)
