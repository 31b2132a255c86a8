"""Kinds of values that experiment files and run files may contain, which anyone may have written.

A schema maps the keys of a table to their kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from reprlib import repr as short_repr
from typing import Any, NamedTuple

from tanager.errors import TanagerError

LARGEST = 2**53  # whole numbers beyond it don't fit a float


class Kind(NamedTuple):
    """A kind of values, by the name that error messages give it."""

    name: str
    fits: Callable[[Any], bool]

    def listed(self, plural: str, *, length: int | None = None) -> Kind:
        """Return the kind of lists of such values."""
        return Kind(
            f"a list of {plural}",
            lambda value: (
                isinstance(value, list)
                and (length is None or len(value) == length)
                and all(map(self.fits, value))
            ),
        )

    def otherwise(self, other: Kind) -> Kind:
        """Return the kind of values that are of this kind or of another."""
        return Kind(
            f"{self.name} or {other.name}", lambda value: self.fits(value) or other.fits(value)
        )


Schema = Mapping[str, Kind]

TEXT = Kind("text", lambda value: type(value) is str)
FLAG = Kind("true or false", lambda value: type(value) is bool)
WHOLE = Kind("a whole number", lambda value: type(value) is int and abs(value) < LARGEST)
NUMBER = Kind("a number", lambda value: type(value) is float or WHOLE.fits(value))
TABLE = Kind("a table of keys and values", lambda value: isinstance(value, dict))
TEXTS = TEXT.listed("texts")
WHOLES = WHOLE.listed("whole numbers")


def check_keys(
    found: Mapping[str, Any],
    schema: Schema,
    where: str,
    error: type[TanagerError],
    needed: Collection[str] = (),
) -> None:
    """Reject values of another kind than the schema's, and `needed` keys that are missing.

    `where` names the file and the table in it for the error message.
    """
    for key in needed:
        if key not in found:
            raise error(f"{where}: {key!r} is missing.")
    for key, kind in schema.items():
        if key in found and not kind.fits(found[key]):
            raise error(f"{where}: {key} is {short_repr(found[key])}. Allowed: {kind.name}.")
