"""skops: which types of a persisted classifier to trust."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module

__all__ = ["trusted_types"]

# Whose classes a fitted classifier may consist of.
ROOMS = (
    "classifiers",
    "codes",
    "counts",
    "losses",
    "network",
    "parameters",
    "structure",
    "training",
)


def trusted_types() -> list[str]:
    """Return the names of Tanager's types that ``skops.io.load`` may create.

    Model files (`tanager.save`) are safer: their content is checked when it's loaded. skops is for
    a classifier inside a scikit-learn pipeline or search. Types of other packages are for you to
    judge: ``skops.io.get_untrusted_types`` lists them.

    Examples
    --------
    >>> from tanager.skops import trusted_types
    >>> "tanager.structure.tan.TAN" in trusted_types()
    True
    """
    names = set()
    for room in ROOMS:
        home = import_module(f"tanager.{room}")
        files = pkgutil.walk_packages(getattr(home, "__path__", ()), f"{home.__name__}.")
        for module in (home, *(import_module(file.name) for file in files)):
            for _, kind in inspect.getmembers(module, inspect.isclass):
                if kind.__module__ == module.__name__:
                    names.add(f"{kind.__module__}.{kind.__qualname__}")
    return sorted(names)
