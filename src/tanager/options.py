"""Options of learners as JSON data, for model files, checkpoints and comparisons.

Tags mark types that JSON doesn't have: ``$tuple``, ``$set``, ``$map``, ``$array``, ``$float``
(NaN and infinities), and ``$object``, one of Tanager's own learners or losses.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import sys
from collections.abc import Callable, Mapping
from functools import partial, reduce
from importlib import import_module
from typing import Any

import numpy as np

from tanager.errors import ModelFileError

Unknown = Callable[[Any, str], Any]  # of a value that isn't data, and the option's name

# Only public classes of these packages are instantiated.
MODULES = ("structure", "parameters", "training", "losses")
MAX_DEPTH = 20


def dump_option(value: Any, name: str, other: Unknown) -> Any:
    """Return an option as JSON data from which `load_option` restores an equal one.

    `other` is called with any value that is neither data nor a Tanager learner, and its name.
    """
    dump = partial(dump_option, name=name, other=other)
    if isinstance(value, np.generic) and value.dtype.kind in "biufU":
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, list):
        return [dump(item) for item in value]
    if isinstance(value, tuple):
        return {"$tuple": [dump(item) for item in value]}
    if isinstance(value, set | frozenset):
        return {"$set": sorted((dump(item) for item in value), key=json.dumps)}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufUO":
        # Fixed-width strings are as wide as the longest, and a forged file could claim any width.
        kind = "|O" if value.dtype.kind == "U" else value.dtype.newbyteorder("=").str
        return {"$array": dump(value.tolist()), "dtype": kind}
    if isinstance(value, Mapping):
        return {"$map": [[dump(key), dump(item)] for key, item in value.items()]}
    place = _public_name(type(value))
    if place is None:
        return other(value, name)
    return {"$object": place, "parameters": _dump_parameters(value, name, other)}


def identify_option(value: Any, name: str, unknown: Unknown) -> Any:
    """Return JSON data of any option: the same in every process, different for other options.

    `unknown` is called with values that another process couldn't recognise, such as a lambda.
    """
    return dump_option(value, name, partial(_identify, unknown=unknown))


def _identify(value: Any, name: str, unknown: Unknown) -> Any:
    other = partial(_identify, unknown=unknown)
    if hasattr(value, "__array__") and not isinstance(value, type):
        return dump_option(np.asarray(value).tolist(), name, other)
    if not isinstance(value, type) and _has_parameters(value):
        return {"$object": _place(type(value)), "parameters": _dump_parameters(value, name, other)}
    if _is_public(value):
        return {"$name": _place(value)}
    text = repr(value)
    if callable(value) or " at 0x" in text:
        return unknown(value, name)
    return {"$object": _place(type(value)), "text": text}


def load_option(data: Any, depth: int = 0) -> Any:
    """Undo `dump_option`; raise a `ModelFileError` for data that it can't have written."""
    if depth > MAX_DEPTH:
        raise ModelFileError("the estimator's parameters are nested too deeply.")
    load = partial(load_option, depth=depth + 1)
    if isinstance(data, list):
        return [load(item) for item in data]
    if not isinstance(data, dict):
        return data
    try:
        if "$float" in data:
            return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[data["$float"]]
        if "$tuple" in data:
            return tuple(load(data["$tuple"]))
        if "$set" in data:
            return set(load(data["$set"]))
        if "$map" in data:
            return {load(key): load(item) for key, item in data["$map"]}
        if "$array" in data:
            dtype = np.dtype(data["dtype"])
            if dtype.kind not in "biufUO" or dtype.itemsize > 4096:
                raise ModelFileError(f"an array of dtype {dtype} is not allowed.")
            return np.array(load(data["$array"]), dtype=dtype)
        kind, stored = _public_class(data["$object"]), data["parameters"].items()
        return make_object(kind, {key: load(item) for key, item in stored})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"a parameter of the estimator is malformed ({error}).") from error


def make_object(kind: Any, parameters: Mapping[str, Any]) -> Any:
    """Create an estimator, a learner or a loss from those stored parameters that it still has."""
    try:
        known = inspect.signature(kind).parameters
        stored = _without_paths(parameters).items()
        return kind(**{key: value for key, value in stored if key in known})
    except (TypeError, ValueError) as error:
        raise ModelFileError(
            f"{kind.__name__} doesn't accept the stored parameters ({error}). "
            "The file was written by another version of Tanager, or forged."
        ) from error


def _dump_parameters(value: Any, name: str, other: Unknown) -> dict[str, Any]:
    if hasattr(value, "get_params"):
        facts = value.get_params(deep=False)
    else:
        facts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {
        key: dump_option(item, f"{name}__{key}", other)
        for key, item in _without_paths(facts).items()
    }


def _without_paths(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters without a checkpoint: a file mustn't choose where a fit writes."""
    return {key: value for key, value in facts.items() if not key.startswith("checkpoint")}


def _has_parameters(kind: Any) -> bool:
    return hasattr(kind, "get_params") or dataclasses.is_dataclass(kind)


def _public_name(kind: type) -> str | None:
    """Return ``module:Class`` of one of Tanager's own public classes."""
    if kind.__module__.partition(".")[0] != "tanager":
        return None
    for module in MODULES:
        home = import_module(f"tanager.{module}")
        if kind.__name__ in home.__all__ and getattr(home, kind.__name__) is kind:
            return f"{module}:{kind.__name__}"
    return None


def _public_class(name: str) -> type:
    module, _, attribute = name.partition(":")
    if module in MODULES:
        home = import_module(f"tanager.{module}")
        kind = getattr(home, attribute, None) if attribute in home.__all__ else None
        if isinstance(kind, type) and _has_parameters(kind):
            return kind
    raise ModelFileError(f"{name[:60]!r} is not one of Tanager's learners.")


def _place(value: Any) -> str:
    return f"{value.__module__}:{value.__qualname__}"


def _is_public(value: Any) -> bool:
    """Return whether a function or class can be imported by name from its module, except main."""
    home, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(home, str) or not isinstance(name, str) or home == "__main__":
        return False
    steps = name.split(".")
    return reduce(lambda at, step: getattr(at, step, None), steps, sys.modules.get(home)) is value
