"""Validate model files before any of their content is used.

A malicious file may carry a valid checksum, so every number used as an index is checked against the
size of what it indexes: compiled lookups don't check bounds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Codebook, Domain, NumericColumn
from tanager.codes.reading import STYLES
from tanager.codes.rows import MAX_ARITY, MAX_CELLS
from tanager.counts import Contexts
from tanager.errors import ModelFileError
from tanager.network.editing import ACTIONS, Edit
from tanager.network.information import n_probabilities
from tanager.network.network import Calibration
from tanager.network.reference import LEVELS, MOST_GROUPS, Reference
from tanager.numerics import Floats, Ints
from tanager.parameters.spread import LEVELS as VARIANCES
from tanager.parameters.spread import at_levels
from tanager.parameters.tables import DenseTable, FamilyTable, GroupedTable, Tables, TreeTable
from tanager.structure.structure import Structure

MOST_SPREAD = 1024  # most cells that lookups may expand per cell in the file
TREE_INTEGERS = ("node_value", "node_parent", "node_child", "node_start", "cell_value")

Tensors = Mapping[str, NDArray[Any]]

_TYPES: dict[type, str] = {dict: "an object", list: "a list", str: "text"}
_TYPES |= {bool: "true or false", int: "a whole number", float: "a real number"}


def refuse(why: str) -> NoReturn:
    """Reject the file."""
    raise ModelFileError(f"the model file is malformed: {why}. Write it again with tanager.save.")


def need(condition: Any, why: str) -> None:
    """Reject the file unless a condition holds."""
    if not condition:
        refuse(why)


def conform(data: Any, shape: Any, what: str) -> None:
    """Reject data of a different shape.

    A shape is a type; a tuple of allowed texts; a list with one shape, which all items have; or a
    mapping from names to shapes, for an object that has these and possibly other entries.
    """
    if isinstance(shape, dict):
        conform(data, dict, what)
        for name, inner in shape.items():
            conform(data.get(name), inner, f"{what}.{name}")
    elif isinstance(shape, list):
        conform(data, list, what)
        for at, item in enumerate(data):
            if type(item) is not shape[0]:
                conform(item, shape[0], f"{what}[{at}]")
    elif isinstance(shape, tuple):
        need(isinstance(data, str) and data in shape, f"{what} is {str(data)[:40]!r}")
    else:
        need(type(data) is shape, f"{what} is not {_TYPES[shape]}")


_VALUES = {"integer": int, "real": float, "boolean": bool, "text": str}
_COLUMN = {"name": str, "kind": ("numeric", "categorical")}
_CODEBOOK = {
    "columns": [_COLUMN],
    "target": _COLUMN,
    "missing": ("value", "marginalize"),
    "named": bool,
    "classes_dtype": str,
}


def check_codebook(data: Any) -> Codebook:
    """Return the codebook in a header."""
    conform(data, _CODEBOOK, "codebook")
    columns, target, text = data["columns"], data["target"], data["classes_dtype"]
    need(len(columns) > 0, "the codebook has no columns")
    for column in [*columns, target]:
        _check_column(column)
    names = [column["name"] for column in columns]
    need(len(set(names)) == len(names), "two columns have the same name")
    need(target["kind"] == "categorical", "the target is not categorical")
    need(target["missing_code"] is None, "the target has a code for missing")
    need(len(target["values"]) > 0, "the target has no classes")
    need(len(text) < 16, "the classes' dtype is too long")
    dtype = np.dtype(text)
    need(dtype.kind in "biufUO" and dtype.fields is None, f"classes of dtype {text!r}")
    readings = data.get("readings", {})
    conform(readings, dict, "codebook.readings")
    need(set(readings) <= set(names), "a reading is of no column")
    for reading in readings.values():
        conform(reading, [str], "a reading")
        known = len(reading) == 2 and reading[1] in STYLES.get(reading[0], ())
        need(known, "a reading isn't valid")
    return Codebook.from_dict(data)


def _check_column(column: dict[str, Any]) -> None:
    numeric, what = column["kind"] == "numeric", f"the column {column['name']!r}"
    temporal = column.get("temporal", None if numeric else "")
    conform(temporal, ("", "date", "time", "duration"), f"{what}: 'temporal'")
    need("missing_code" in column, f"{what} has no code for missing")
    if numeric:
        conform(column, {"cuts": [float]}, what)
        need(all(c - c == 0 for c in column["cuts"]), f"{what} has a cut that is not finite")
        need(_ascend(column["cuts"]), f"the cuts of {what} do not ascend")
        n_values = len(column["cuts"]) + 1
    else:
        _check_values(column, what)
        n_values = len(column["values"])
    missing = column["missing_code"]
    known = missing is None or (type(missing) is int and missing == n_values)
    need(known, f"the code for missing of {what} is {missing!r}")
    other = column.get("other_code")
    coded = type(other) is int and 0 <= other < n_values and column.get("family") == "text"
    need(other is None or coded, f"the code for other values of {what} is {other!r}")
    arity = n_values + (missing is not None)
    need(arity <= MAX_ARITY, f"{what} has {arity:,} values; {MAX_ARITY:,} are allowed")


def _check_values(column: dict[str, Any], what: str) -> None:
    conform(column, {"values": list, "family": ("null", *_VALUES), "ordered": bool}, what)
    values, family, ordered = column["values"], column["family"], column["ordered"]
    if family == "null":
        need(not values and not ordered, f"{what} has values, or an order, but no type")
        return
    conform(values, [_VALUES[family]], f"{what}: 'values'")
    if family == "integer":
        need(all(-(2**63) <= v < 2**63 for v in values), f"{what} has a value that is too large")
    if family == "real":
        need(all(v - v == 0 for v in values), f"{what} has a value that is not finite")
    keys = [v.encode("utf-8") for v in values] if family == "text" else values
    need(not ordered or len(set(keys)) == len(keys), f"{what} has a value twice")
    need(ordered or _ascend(keys), f"the values of {what} do not ascend")


def _ascend(values: list[Any]) -> bool:
    return all(a < b for a, b in pairwise(values))


def check_structure(data: Any, names: tuple[str, ...]) -> Structure:
    """Return the structure in a header: known features, no cycle."""
    conform(data, {"selected": [int], "parents": [[int]]}, "structure")
    selected, parents = data["selected"], data["parents"]
    known = all(0 <= i < len(names) for some in (selected, *parents) for i in some)
    need(known, "a feature of the structure is out of range")
    try:
        return Structure(names, tuple(selected), tuple(map(tuple, parents)))
    except ValueError as error:
        refuse(str(error).removesuffix("."))


def check_history(data: Any, names: tuple[str, ...]) -> tuple[Edit, ...]:
    """Return the edits in a header, which may be absent if the network was never edited."""
    texts = {"reason": str, "author": str, "when": str}
    edit = {"feature": names, "action": tuple(ACTIONS), "details": dict, **texts}
    conform(data, [edit], "history")
    return tuple(Edit(**{name: entry[name] for name in edit}) for entry in data)


class _Stored(NamedTuple):
    """A family as stored in a file, with the sizes it must match."""

    facts: dict[str, Any]
    tensors: Tensors
    arities: tuple[int, ...]  # of the parents, then the feature
    n_classes: int
    what: str

    def array(self, name: str, shape: tuple[int | None, ...], kinds: str) -> NDArray[Any]:
        """Return an array with a given shape, None for any size, and given kinds of numbers."""
        need(name in self.tensors, f"{self.what} lacks the tensor {name!r}")
        array = self.tensors[name]
        need(array.dtype.kind in kinds, f"{name!r} of {self.what} is of type {array.dtype}")
        fits = len(shape) == array.ndim and all(
            wanted in (None, size) for wanted, size in zip(shape, array.shape, strict=True)
        )
        need(fits, f"{name!r} of {self.what} has the shape {array.shape}, not {shape}")
        return array

    def floats(self, name: str, *shape: int | None) -> Floats:
        """Return a copy of a numeric array: compiled loops need it to be writable."""
        return np.array(self.array(name, shape, "f"), dtype=np.float64, order="C")

    def ints(self, name: str, size: int | None = None) -> Ints:
        """Return an array of codes."""
        return self.array(name, (size,), "iu").astype(np.int64)


def check_tables(data: Any, tensors: Tensors, structure: Structure, domain: Domain) -> Tables:
    """Return the tables, whose arrays must have the shapes defined by structure and codebook."""
    conform(data, {"normalized": bool, "families": [{"kind": tuple(_KINDS)}]}, "tables")
    families, n_classes = data["families"], domain.n_classes
    need(len(families) == len(structure.selected), "features and tables differ in number")
    prior = _Stored({}, tensors, (), n_classes, "the class prior")
    parts, tables = _by_family(tensors, len(families)), list[FamilyTable]()
    for at, family in enumerate(families):
        members = (*structure.parent_indices[at], structure.selected[at])
        arities = tuple(int(domain.arities[m]) for m in members)
        what = f"the table of {structure.names[members[-1]]!r}"
        tables.append(_KINDS[family["kind"]](_Stored(family, parts[at], arities, n_classes, what)))
    _check_sizes(tables, structure)
    spread = _spread(data.get("spread"), tables, parts, n_classes)
    return Tables(prior.floats("log_prior", n_classes), tuple(tables), data["normalized"], spread)


def _spread(
    data: Any, tables: list[FamilyTable], parts: list[dict[str, NDArray[Any]]], n_classes: int
) -> Tables | None:
    """Return the uncertainty of the tables, if the file contains it."""
    if data is None:
        return None
    conform(data, [int], "tables.spread")
    known = len(data) == n_classes and all(0 <= one < len(VARIANCES) for one in data)
    need(known, "the prior's levels are out of range")
    families = []
    for table, part in zip(tables, parts, strict=True):
        codes = part.get("spread", np.zeros(0))
        fits = codes.dtype == np.uint8 and codes.shape == (n_probabilities(table),)
        need(fits, "the levels of a table are not as many as its numbers")
        families.append(at_levels(table, codes))
    return Tables(VARIANCES[data], tuple(families), normalized=False)


def _check_sizes(tables: list[FamilyTable], structure: Structure) -> None:
    """Reject trees with few cells whose lookups would expand to an arbitrary number of cells."""
    total, stored = 0, 0
    for name, table in zip(structure.features, tables, strict=True):
        if isinstance(table, TreeTable):
            n_cells = table.member_arities[-1] * table.n_classes
            what = f"the table of {name!r} has {n_cells:,} cells without its parents"
            need(n_cells <= MAX_CELLS, what)
            total, stored = total + n_cells, stored + table.cell_log_prob.size
    fits = total <= max(MAX_CELLS, MOST_SPREAD * stored)
    need(fits, f"the tables have {total:,} cells without their parents")


def _by_family(tensors: Tensors, n_families: int) -> list[dict[str, NDArray[Any]]]:
    """Group tensors ``family.<number>.<name>`` by family."""
    parts: list[dict[str, NDArray[Any]]] = [{} for _ in range(n_families)]
    for full, array in tensors.items():
        if full == "log_prior":
            continue
        head, _, name = full.partition(".")[2].partition(".")
        known = full.startswith("family.") and head.isdecimal() and len(head) < 9
        need(known and int(head) < n_families, f"the tensor {full[:40]!r} belongs to no table")
        parts[int(head)][name] = array
    return parts


def _grouped(stored: _Stored) -> GroupedTable:
    what, arities, n_classes = stored.what, stored.arities, stored.n_classes
    lookup = stored.ints("lookup", sum(arities))
    log_group = stored.floats("log_group", *(None for _ in arities), n_classes)
    log_within = stored.floats("log_within", arities[-1], n_classes)
    table = GroupedTable(log_group, log_within, lookup.astype(np.uint16), arities)
    need(np.array_equal(lookup, table.lookup), f"{what} has groups out of range")
    for groups, size in zip(table.member_groups, log_group.shape, strict=False):
        # Every group contains a value, so the lookup table defines the number of views.
        found = np.unique(groups)
        need(np.array_equal(found, np.arange(size)), f"{what} has groups of another number")
    return table


def _tree(stored: _Stored) -> TreeTable:
    conform(stored.facts, {"inherit": bool, "backoff": bool}, stored.what)
    value, cell_value = stored.ints("node_value"), stored.ints("cell_value")
    n_nodes, n_cells = len(value), len(cell_value)
    parent, child = stored.ints("node_parent", n_nodes), stored.ints("node_child", n_nodes + 1)
    start, arity = stored.ints("node_start", n_nodes + 1), stored.arities[-1]
    context_arities = (stored.n_classes, *stored.arities[:-1])
    _check_nodes(context_arities, value, parent, child, stored.what)
    _check_cells(arity, start, cell_value, stored.what)
    return TreeTable(
        Contexts.from_nodes(arity, context_arities, value, parent, child, start, cell_value),
        stored.floats("cell_log_prob", n_cells),
        stored.floats("node_log_escape", n_nodes),
        stored.facts["inherit"],
        stored.facts["backoff"],
    )


_KINDS: dict[str, Callable[[_Stored], FamilyTable]] = {
    "dense": lambda x: DenseTable(x.floats("log_prob", *x.arities, x.n_classes)),
    "grouped": _grouped,
    "tree": _tree,
}


def _check_nodes(
    context_arities: tuple[int, ...], value: Ints, parent: Ints, child: Ints, what: str
) -> None:
    """Check the breadth-first order: each level's children are the next level, in order."""
    n_nodes = len(value)
    need(n_nodes >= 1, f"{what} has no nodes")
    need((np.diff(child) >= 0).all(), f"{what}: children out of order")
    need(int(child[0]) == 1 and int(child[-1]) == n_nodes, f"{what}: children out of range")
    bounds = [0, 1]
    for _ in context_arities:
        bounds.append(int(child[bounds[-1]]))
        need(bounds[-1] >= bounds[-2], f"{what}: children before their parents")
    need(bounds[-1] == n_nodes, f"{what}: a context is deeper than the parents")
    owner = np.repeat(np.arange(n_nodes), np.diff(child))
    need(int(parent[0]) == 0, f"{what}: the root has a parent")
    need((parent[1:] == owner).all(), f"{what}: nodes disagree on their parents")
    limits = np.repeat([1, *context_arities], np.diff(bounds))
    need((value >= 0).all() and (value < limits).all(), f"{what}: a context out of range")
    ascending = (value[2:] > value[1:-1]) | (parent[2:] != parent[1:-1])
    need(ascending.all(), f"{what}: contexts out of order")


def _check_cells(arity: int, start: Ints, value: Ints, what: str) -> None:
    need((np.diff(start) >= 0).all(), f"{what}: cells out of order")
    need(int(start[0]) == 0 and int(start[-1]) == len(value), f"{what}: cells out of range")
    need((value >= 0).all() and (value < arity).all(), f"{what}: a value out of range")
    node = np.repeat(np.arange(len(start) - 1), np.diff(start))
    ascending = (value[1:] > value[:-1]) | (node[1:] != node[:-1])
    need(ascending.all(), f"{what}: values out of order")


def check_reference(data: Any, codebook: Codebook) -> Reference | None:
    """Return the validated reference in a model file's header, or None if it has none."""
    if data is None:
        return None
    of_columns = {"ends": [list], "cells": [list], "bounds": [list]}
    conform(data, {**of_columns, "pairs": [[int]], "calibration": [list]}, "reference")
    columns, n_classes, pairs = codebook.columns, len(codebook.classes), data["pairs"]
    for name in of_columns:
        need(len(data[name]) == len(columns), f"the reference's {name} are malformed")
    known = all(len(pair) == 2 and all(0 <= i < len(columns) for i in pair) for pair in pairs)
    need(known, "a pair of the reference isn't known")
    shapes: dict[str, tuple[int, ...]] = {
        **dict.fromkeys(("classes", "expected", "assumed"), (n_classes,)),
        "estimated": (n_classes if data.get("estimated") else 0,),
        "pair_counts": (len(pairs), MOST_GROUPS, MOST_GROUPS),
        "class_counts": (len(columns), MOST_GROUPS, n_classes),
    }
    found: dict[str, Any]
    found = {name: _numbers(data.get(name), name, *shape) for name, shape in shapes.items()}
    found |= {name: [] for name in of_columns}
    for at, column in enumerate(columns):
        end = _numbers(data["ends"][at], "ends", len(data["ends"][at]))
        numeric, what = isinstance(column, NumericColumn), f"of {column.name!r}"
        need(not len(end) or numeric, f"the reference has ends {what}, no number")
        need((np.diff(end) > 0).all(), f"the reference's ends {what} descend")
        size = len(end) or column.arity - (column.missing_code is not None)
        bound = _numbers(data["bounds"][at], "bounds", MOST_GROUPS - 1)
        whole = (bound == np.rint(bound)).all()
        need(whole and (np.diff(bound) >= 0).all(), f"the reference's groups {what} descend")
        found["ends"].append(end)
        found["cells"].append(_numbers(data["cells"][at], "cells", size + 3))
        found["bounds"].append(bound.astype(np.int64))
    counted = [*(found[name] for name in shapes), *found["cells"]]
    need(all((one >= 0).all() for one in counted), "the reference has a negative count")
    need(found["classes"].sum() > 0, "the reference has no rows")
    shares = [found[name] for name in ("expected", "assumed", "estimated") if found[name].size]
    good = all(abs(float(one.sum()) - 1) < 1e-6 for one in shares)
    need(good, "the reference's shares don't sum to one")
    scores = _numbers(data.get("scores"), "scores", len(LEVELS) if data.get("scores") else 0)
    need((np.diff(scores) >= 0).all(), "the reference's scores descend")
    calibration = [_numbers(one, "calibration", 2) for one in data["calibration"]]
    need(len(calibration) == n_classes, "the reference's calibration is malformed")
    found |= {name: tuple(found[name]) for name in of_columns}
    found |= {"calibration": np.array(calibration), "pairs": tuple(map(tuple, pairs))}
    return Reference(**found, scores=scores)


def _numbers(data: Any, name: str, *shape: int) -> Floats:
    """Return finite numbers as an array of a given shape."""
    conform(data, list, f"the reference's {name}")
    good = all(type(x) in (int, float) and abs(x) <= sys.float_info.max for x in data)
    need(good and len(data) == prod(shape), f"the reference's {name} are malformed")
    return np.array(data, np.float64).reshape(shape)


def check_calibration(data: Any, n_classes: int) -> Calibration | None:
    """Return the calibration in a model file; raise if it's invalid."""
    if data is None:
        return None
    lists = {"labels": [int], "scores": [int], "rows": [int]}
    conform(data, lists, "the calibration")
    whole = all(0 <= one < 2**53 for name in lists for one in data[name])
    need(whole, "the calibration holds something that isn't a count")
    labels, scores, rows = (np.array(data[name], np.int64) for name in lists)
    need(len(rows) == n_classes and len(labels) == len(scores), "the calibration is ragged")
    need((labels < n_classes).all(), "the calibration has other classes")
    weights = [1.0] * len(labels) if data.get("weights") is None else data["weights"]
    conform(weights, list, "the calibration's weights")
    fits = all(type(one) in (int, float) and one > 0 for one in weights)
    need(fits and len(weights) == len(labels), "the calibration has other weights")
    return Calibration(labels, scores, np.array(weights, np.float64), rows)
