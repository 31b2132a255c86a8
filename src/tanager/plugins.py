"""Plugins: entry points of installed packages, looked up only when they're needed.

A package declares a name and an object in its ``pyproject.toml``, under
``[project.entry-points."GROUP"]``. The groups:

======================  =========================================================================
``tanager.structures``  a subclass of `tanager.structure.StructureLearner`
``tanager.parameters``  a subclass of `tanager.parameters.ParameterLearner`
``tanager.exports``     a function of a `Network` that returns text or bytes; the name is the
                        format, and the file ending
``tanager.sources``     a function of a URL that returns any table Tanager reads; the name is the
                        URL's scheme
``tanager.commands``    a function with typer's annotations: a command of the program
======================  =========================================================================

Built-in names come first: no package can replace one.
"""

from __future__ import annotations

from typing import Any

from tanager.errors import ConfigurationError


def plugin_names(group: str) -> list[str]:
    """Return the names that installed packages add to a group, sorted."""
    from importlib.metadata import entry_points

    return sorted({point.name for point in entry_points(group=group)})


def describe_plugin(group: str, name: str) -> str:
    """Return which package a name comes from, without loading it."""
    from importlib.metadata import entry_points

    found = min(entry_points(group=group, name=name), key=lambda point: point.value)
    return f"From the package {found.module if found.dist is None else found.dist.name}."


def load_plugin(group: str, name: str) -> Any | None:
    """Return the object that an installed package provides for a name, or None."""
    from importlib.metadata import entry_points

    found = list(entry_points(group=group, name=name))
    if not found:
        return None
    point = min(found, key=lambda point: point.value)  # deterministic if two claim a name
    package = point.dist.name if point.dist is not None else point.module
    try:
        return point.load()
    except Exception as error:
        raise ConfigurationError(
            f"{name!r} of {group} comes from the package {package}, which can't be loaded: "
            f"{type(error).__name__}: {error}. Update or uninstall {package}."
        ) from error
