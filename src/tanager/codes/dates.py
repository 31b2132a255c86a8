"""Columns of text that the user calls dates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tanager.codes.audit import sample_texts
from tanager.codes.reading import DATE_STYLES, Reading, is_text, parse_texts
from tanager.codes.values import is_temporal
from tanager.errors import ConfigurationError, DataError, listed
from tanager.sources import Source


def as_date_styles(dates: Any) -> dict[str, str | None]:
    """Return what the user says of dates as a mapping from column to style.

    dates: names of columns, each alone or as ``name=style``; or styles by name.

    >>> as_date_styles(["born", "paid=%d/%m/%Y"])
    {'born': None, 'paid': '%d/%m/%Y'}
    """
    if dates is None:
        return {}
    if isinstance(dates, Mapping):
        styles = dict(dates)
    else:
        styles = {}
        for text in [dates] if isinstance(dates, str) else dates:
            name, mark, style = str(text).rpartition("=")
            found = mark and (style in DATE_STYLES or "%" in style)
            styles[name if found else str(text)] = style if found else None
    for name, style in styles.items():
        if style is not None and style not in DATE_STYLES:
            raise ConfigurationError(
                f"dates: column {name!r} is said to be written as {style!r}. "
                f"Allowed: {', '.join(DATE_STYLES)}.",
                parameter="dates",
            )
    return styles


def read_dates(table: Source, features: Sequence[str], dates: Any) -> dict[str, Reading]:
    """Return how the columns that the user calls dates are read; those that are dates need none."""
    readings = {}
    for name, style in as_date_styles(dates).items():
        if name not in features:
            raise ConfigurationError(
                f"dates names {name!r}, which is not a feature. The features are: "
                f"{listed(features)}.",
                parameter="dates",
            )
        kind = table.schema.field(name).type
        if is_temporal(kind):
            continue
        if not is_text(kind):
            raise DataError(
                f"dates names {name!r}, which holds {kind} and no text. Convert it to dates "
                "or to text first.",
                parameter="dates",
            )
        readings[name] = Reading("date", _find_style(name, sample_texts(table, name), style))
    return readings


def _find_style(name: str, texts: pa.Array, asked: str | None) -> str:
    """Return the style that reads the most texts; refuse where none, or two of them, would do."""
    styles = DATE_STYLES if asked is None else (asked,)
    known = {style: len(texts) - parse_texts(texts, "date", style).null_count for style in styles}
    most = max(known.values())
    if most == 0:
        raise DataError(
            f"dates names {name!r}, and no text of it, such as {texts[0].as_py()!r}, is a date "
            f"written as {' or '.join(styles)}. Name the style, or take the column as it is."
            if len(texts)
            else f"dates names {name!r}, which has no value.",
            parameter="dates",
        )
    best = [style for style, n in known.items() if n == most]
    if len(best) > 1:
        raise ConfigurationError(
            f"dates: {name!r} may be written as {' or as '.join(best)}. Say which: "
            f"'{name}={best[0]}'.",
            parameter="dates",
        )
    return best[0]
