"""The options of a fit as data, to tell whether two are the same."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np

__all__ = ["describe_option"]


def describe_option(value: Any, name: str, unknown: Callable[[Any, str], Any]) -> Any:
    """Return an option as JSON data, the same in every process and another for another option.

    A tag tells tuples, sets, mappings and objects from lists.

    Parameters
    ----------
    value : object
    name : str
        The option's, such as ``"parameters__loss"``.
    unknown : callable
        Is given what another process could not know again, such as a lambda, and its
        name; what it returns stands for it.
    """

    def describe(item: Any) -> Any:
        return describe_option(item, name, unknown)

    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        items = [describe(item) for item in value]
        return items if isinstance(value, list) else {"tuple": items}
    if isinstance(value, set | frozenset):
        return {"set": sorted((describe(item) for item in value), key=json.dumps)}
    if isinstance(value, Mapping):
        return {"map": [[describe(k), describe(v)] for k, v in value.items()]}
    if hasattr(value, "__array__") and not isinstance(value, np.generic | type):
        array = np.asarray(value)
        return {"array": describe(array.tolist()), "dtype": array.dtype.str}
    facts = _facts_of(value)
    if facts is not None:
        described = {
            key: describe_option(item, f"{name}__{key}", unknown) for key, item in facts.items()
        }
        return {"object": _place(type(value)), "parameters": described}
    if _is_public(value):
        return {"name": _place(value)}
    text = repr(value)
    if callable(value) or " at 0x" in text:
        return unknown(value, name)
    return {"object": _place(type(value)), "text": text}


def _facts_of(value: Any) -> dict[str, Any] | None:
    """Return the parameters of a learner or a dataclass; None of anything else."""
    if isinstance(value, type):
        return None
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "get_params"):
        return dict(value.get_params(deep=False))
    return None


def _place(value: Any) -> str:
    return f"{value.__module__}:{value.__qualname__}"


def _is_public(value: Any) -> bool:
    """Return whether a function or class is what its module has under its name.

    The main module is another one in every script, and in a notebook from cell to cell.
    """
    home, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(home, str) or not isinstance(name, str) or home == "__main__":
        return False
    steps = name.split(".")
    return reduce(lambda at, step: getattr(at, step, None), steps, sys.modules.get(home)) is value
