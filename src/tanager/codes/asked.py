"""What the user specifies about columns: the order of categories, and which texts are dates."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tanager.codes.audit import sample_texts
from tanager.codes.reading import DATE_STYLES, Reading, parse_texts
from tanager.codes.values import FAMILY_TYPES, is_temporal, to_family
from tanager.errors import ConfigurationError, DataError, invalid, listed
from tanager.sources import Source
from tanager.sources.gate import admit_column, is_text

_WORDS = {"integer": "whole numbers", "real": "numbers", "boolean": "booleans", "text": "text"}


def feature_index(features: Sequence[str], one: Any, where: str) -> int:
    """Return the index of a feature given by name or index; `where` is the option it's from."""
    if isinstance(one, str) and one in features:
        return list(features).index(one)
    if isinstance(one, int) and -len(features) <= one < len(features):
        return one % len(features)
    raise ConfigurationError(
        f"{where} names {one!r}, which is not a feature. "
        f"The features are: {', '.join(features[:30])}.",
        parameter=where,
    )


def parse_orders(texts: Sequence[str]) -> dict[str, list[str]]:
    """Parse orders given as strings into the mapping that `BayesNetClassifier` accepts.

    >>> parse_orders(["size=S,M,L"])
    {'size': ['S', 'M', 'L']}
    """
    found = {}
    for text in texts:
        name, _, values = text.rpartition("=")
        if not name or "," not in values:
            allowed = "a column, '=', and its values from first to last, such as size=S,M,L"
            raise invalid("ordered", text, allowed)
        found[name] = [value.strip() for value in values.split(",")]
    return found


def read_orders(table: Source, features: Sequence[str], asked: Any) -> dict[int, pa.Array]:
    """Return the values, from first to last, of each feature that the user gave an order for."""
    if asked is not None and not isinstance(asked, Mapping):
        example = "{'size': ['S', 'M', 'L']}"
        allowed = f"a mapping of features to their values from first to last ({example}), or None"
        raise invalid("ordered", asked, allowed)
    found = {}
    for key, values in (asked or {}).items():
        at = feature_index(features, key, "ordered")
        name = features[at]
        listing = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
        given = list(values) if listing else []
        simple = all(isinstance(value, Hashable) and value == value for value in given)
        if len(given) < 2 or not simple or None in given or len(set(given)) < len(given):
            allowed = "a list of at least two different values, first to last, none missing"
            raise invalid(f"ordered[{name!r}]", values, allowed)
        if is_temporal(table.schema.field(name).type):
            raise ConfigurationError(
                f"ordered names {name!r}, a column of dates or times, which have an order of "
                "their own. Leave it out.",
                parameter="ordered",
            )
        try:
            found[at] = admit_column(given, f"ordered[{name!r}]")
        except DataError as error:
            raise ConfigurationError(str(error), parameter="ordered") from error
    return found


def join_orders(a: pa.Array | None, b: pa.Array | None, name: str) -> pa.Array | None:
    """Merge the orders of two parts of a column; one must contain the other."""
    if a is None or b is None or a.equals(b):
        return b if a is None else a
    more, less = (a, b) if len(a) >= len(b) else (b, a)
    part = set(less.to_pylist())
    if [value for value in more.to_pylist() if value in part] == less.to_pylist():
        return more
    raise DataError(
        f"Two parts of the table give the values of {name!r} in different orders: "
        f"{listed(a.to_pylist())}, and {listed(b.to_pylist())}. Say the order with "
        f"ordered={{{name!r}: [...]}}."
    )


def arrange_values(values: pa.Array, order: pa.Array, name: str) -> pa.Array:
    """Return the observed values in the given order; raise if one isn't part of it."""
    family = next(one for one, kind in FAMILY_TYPES.items() if kind == values.type)
    try:
        known = to_family(order, family, name)
    except DataError as error:
        raise ConfigurationError(
            f"ordered[{name!r}] is {listed(order.to_pylist())}, but the column holds "
            f"{_WORDS[family]}. List the values as the column has them.",
            parameter="ordered",
        ) from error
    place = {value: at for at, value in enumerate(known.to_pylist()) if value is not None}
    seen = values.to_pylist()
    strange = [value for value in seen if value not in place]
    if strange:
        raise DataError(
            f"Column {name!r} has the value(s) {listed(strange)}, which aren't in its order: "
            f"{listed(order.to_pylist())}. Add them to ordered[{name!r}], or make them missing."
        )
    return values.take(pa.array(np.argsort([place[value] for value in seen], kind="stable")))


def as_date_styles(dates: Any) -> dict[str, str | None]:
    """Return the user's dates (names, ``name=style`` strings, or a mapping) as styles by column.

    >>> as_date_styles(["born", "paid=%d/%m/%Y"])
    {'born': None, 'paid': '%d/%m/%Y'}
    """
    if dates is None:
        return {}
    given = [dates] if isinstance(dates, str) else dates
    if isinstance(given, Iterable) and not isinstance(given, Mapping):
        given = list(given)
    if not isinstance(given, Iterable) or not all(isinstance(name, str) for name in given):
        raise invalid("dates", dates, "names of columns, a mapping of them to styles, or None")
    if isinstance(given, Mapping):
        styles = dict(given)
    else:
        styles = {}
        for text in given:
            name, mark, style = text.rpartition("=")
            found = mark and (style in DATE_STYLES or "%" in style)
            styles[name if found else text] = style if found else None
    for name, style in styles.items():
        if style not in (None, *DATE_STYLES):
            raise invalid(f"dates[{name!r}]", style, ", ".join(DATE_STYLES))
    return styles


def read_dates(table: Source, features: Sequence[str], dates: Any) -> dict[str, Reading]:
    """Return how to parse the columns declared as dates; columns of a date type need no parsing."""
    readings = {}
    for name, style in as_date_styles(dates).items():
        feature_index(features, name, "dates")
        kind = table.schema.field(name).type
        if is_text(kind):
            readings[name] = Reading("date", _find_style(name, sample_texts(table, name), style))
        elif not is_temporal(kind):
            raise DataError(
                f"dates names {name!r}, which holds {kind}, not text. Convert it to dates "
                "or to text first.",
                parameter="dates",
            )
    return readings


def _find_style(name: str, texts: pa.Array, asked: str | None) -> str:
    """Return the style that parses the most texts; raise if none does or several are tied."""
    styles = DATE_STYLES if asked is None else (asked,)
    known = {style: len(texts) - parse_texts(texts, "date", style).null_count for style in styles}
    most = max(known.values())
    if most == 0:
        shown = f"no text of it, such as {texts[0].as_py()!r}," if len(texts) else "no row of it"
        raise DataError(
            f"dates names {name!r}, and {shown} is a date written as {' or '.join(styles)}. Name "
            "the style, or take the column as it is.",
            parameter="dates",
        )
    best = [style for style, n in known.items() if n == most]
    if len(best) > 1:
        raise ConfigurationError(
            f"dates: {name!r} matches several formats: {' and '.join(best)}. Choose one: "
            f"'{name}={best[0]}'.",
            parameter="dates",
        )
    return best[0]
