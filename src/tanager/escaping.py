"""Escaping of untrusted names and labels for terminals, plots and spreadsheets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

# Characters that control a terminal instead of being printed: controls other than tab
# and newline, and bidirectional marks; and characters that XML doesn't allow.
STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
    "\ufffe\uffff]"
)

# What spreadsheets interpret as a formula, some of it also as full-width characters. A sign alone
# doesn't make a harmful formula: labels such as "-", "+" and "-1" stay as they are. Full-width
# characters aren't in brackets, where single bytes would match.
_FORMULA = "(?s)^(=|@|\uff1d|\uff20|(?:[+\\-\t\r\n]|\uff0b|\uff0d).*[(|!])"


def visible(text: str) -> str:
    r"""Return a text with control characters escaped.

    >>> visible("\x1b[31mred")
    '\\x1b[31mred'
    """
    return STEERING.sub(lambda found: ascii(found.group())[1:-1], text)


def one_line(text: object) -> str:
    """Return a text on one line, with control characters escaped."""
    return " ".join(visible(str(text)).split())


def cut(text: object, most: int = 40) -> str:
    """Return a text on one line of at most `most` characters, keeping its start."""
    whole = one_line(text)
    return whole if len(whole) <= most else f"{whole[: most - 1]}…"


def cut_list(names: Sequence[str], most: int = 20) -> str:
    """Return the first names on one line, and the number of others."""
    more = f", … {len(names) - most} more" if len(names) > most else ""
    return ", ".join(cut(name, 60) for name in names[:most]) + more


def template_environment(*packages: str, markup: bool = True) -> Any:
    """Return an environment for packages' templates; the first wins, and markup is escaped."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def spelled_out(value: Any) -> Any:
        return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    return Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in packages]),
        autoescape=markup,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=not markup,
        finalize=spelled_out if markup else None,
    )


def abridged(text: str, most: int = 44) -> str:
    """Return a text of at most `most` characters, keeping its start and its end.

    >>> abridged("kdb(k=2)/discriminative(form='weighted', level=3)", 20)
    'kdb(k=2)/di…level=3)'
    """
    if len(text) <= most:
        return text
    end = (most - 1) * 9 // 20
    return f"{text[: most - 1 - end]}…{text[len(text) - end :]}"


def inert(table: Any) -> Any:
    """Return an Arrow batch or table without names or texts that are formulas.

    A spreadsheet would run cells such as ``=cmd()``; a leading apostrophe makes them text.
    """
    names = [re.sub(_FORMULA, r"'\1", name) for name in table.schema.names]
    return type(table).from_arrays([_inert_texts(column) for column in table.columns], names)


def _inert_texts(column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        return _inert_texts(column.cast(kind.value_type))
    if pa.types.is_string_view(kind):
        column = column.cast(pa.large_string())
    elif pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        column = column.cast(pa.binary())
    if column.type not in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        return column
    return pc.replace_substring_regex(column, _FORMULA, r"'\1")
