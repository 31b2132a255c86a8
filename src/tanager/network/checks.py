"""What the header of a model file must satisfy before anything in it is used.

Codebook, structure and history; `table_checks` has the tables.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

from tanager.codes import Codebook
from tanager.codes.reading import STYLES
from tanager.codes.rows import MAX_ARITY
from tanager.errors import ModelFileError
from tanager.network.history import ACTIONS, Edit
from tanager.structure.structure import Structure

__all__ = ["as_list", "check_codebook", "check_history", "check_structure", "need", "refuse"]

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
    _check_class_dtype(data.get("classes_dtype"))
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


def _check_class_dtype(text: Any) -> None:
    need(isinstance(text, str) and len(text) < 16, "the classes' dtype is not text")
    dtype = np.dtype(text)
    need(dtype.kind in "biufUO" and dtype.fields is None, f"classes of dtype {text!r}")


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
