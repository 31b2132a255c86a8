"""What columns are before anything is learned: what the user says, and what an audit finds."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tanager.codes.reading import AUDITED_DATES, DATE_STYLES, NUMBER_STYLES, Reading, parse_texts
from tanager.codes.values import has_order, is_temporal
from tanager.errors import ConfigurationError, DataError, invalid
from tanager.sources import Source
from tanager.sources.gate import admit_column
from tanager.sources.plain import is_text, value_type

AUDIT_ROWS = 100_000  # for files; a table in memory is audited completely
NEAR_UNIQUE = 0.9  # distinct values per row from which a column is taken for an identifier
LEAST_ROWS = 50  # with fewer rows, uniqueness isn't judged
STRAYS = 5  # distinct texts among numbers or dates that may count as "missing"
MOSTLY = 0.9  # share of the distinct texts that must parse as numbers or dates
LEAST_INTEGERS, LEAST_REALS, LEAST_DATES = 20, 10, 5  # distinct; fewer may be categories
DENSE = 0.5  # share of its range that a column of whole numbers fills if they are counts
DOMINATING = 0.99  # share of rows from which a single value leaves little to learn
_COUNT = re.compile(r" *[+-]?(0|[1-9]\d{0,8}) *", re.ASCII)  # a leading zero suggests a code
_INDEX_NAMES = ("", "__index_level_0__", "Unnamed: 0", "index", "rownames")
# Usual names of identifiers. Any other column of distinct whole numbers may be a time.
_ID_NAME = re.compile(
    "(?i:ids?|uid|uuid|guid|row|row_?id|rownum|row_number|index|key|.*[-_ ]id)|.*[a-z]I[dD]"
)


@dataclass(frozen=True)
class Finding:
    """The audit's verdict on one column."""

    column: str
    # 'dates', 'numbers', 'categories', 'names of rows', 'row numbers', 'many values', 'spellings'
    verdict: str
    # what a fit does: 'read as dates', 'read as numbers', 'taken as categories', 'left out', 'none'
    action: str
    reason: str  # for people, with figures
    reading: Reading | None = None  # how the column is parsed from now on

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {name: value for name, value in vars(self).items() if name != "reading"}


@dataclass(frozen=True)
class ColumnSheet:
    """One column's line in `tanager audit`."""

    column: str
    type: str
    n_values: int  # distinct values, not counting missing
    missing: float  # share of rows
    top: str  # the most frequent value
    top_share: float  # its share of the rows that aren't missing
    action: str  # what a fit does with the column
    reason: str  # why


def describe_columns(
    table: Source,
    target: str | None = None,
    *,
    categorical: Collection[str] = (),
    dates: Mapping[str, Reading] | None = None,
) -> list[ColumnSheet]:
    """Describe every column, what a fit does with it, and why."""
    import pyarrow.compute as pc

    asked = dates or {}
    features = [name for name in table.names if name != target]
    findings = {one.column: one for one in audit_columns(table, features, [*categorical, *asked])}
    for name, reading in asked.items():
        style = f"as asked, written as {reading.style}"
        findings[name] = Finding(name, "dates", "read as dates", style, reading)
    for name in categorical:
        findings[name] = Finding(name, "categories", "taken as categories", "as asked")
    sheets = []
    for name, audited in _look(table, table.names).items():
        column = audited.cast(value_type(audited.type))
        known = column.filter(pc.invert(column.is_null(nan_is_null=True)))
        if name == target and is_text(known.type):
            spelled = _judge_spellings(name, known.unique())
            findings |= {name: spelled} if spelled is not None else {}
        counts = known.value_counts()
        top, share = "", 0.0
        if len(counts):
            at = int(np.argmax(counts.field("counts").to_numpy(zero_copy_only=False)))
            top = str(counts.field("values")[at].as_py())[:30]
            share = counts.field("counts")[at].as_py() / len(known)
        action, reason = _action(name, target, findings.get(name), len(counts), share)
        gaps = 1.0 - len(known) / max(1, len(column))
        kind = table.schema.field(name).type
        shown = "ordered categories" if has_order(kind) else "text" if is_text(kind) else str(kind)
        sheets.append(ColumnSheet(name, shown, len(counts), gaps, top, share, action, reason))
    return sheets


def _action(
    name: str, target: str | None, finding: Finding | None, n_values: int, share: float
) -> tuple[str, str]:
    if name == target:
        return "the target", "" if finding is None else finding.reason
    if finding is not None:
        return finding.action.replace("none", "taken as it is"), finding.reason
    if n_values <= 1:
        return "taken as it is", "constant: carries no information"
    return "taken as it is", "one value dominates" if share > DOMINATING else ""


def audit_columns(table: Source, features: Collection[str], kept: Collection[str]) -> list[Finding]:
    """Judge the columns that may not be what they seem; those in `kept` are left unchanged."""
    texts = {name for name in features if is_text(table.schema.field(name).type)}
    whole = {name for name in features if pa.types.is_integer(table.schema.field(name).type)}
    # Whole numbers are suspect if their name suggests an identifier.
    named = texts | {n for n in whole if n in _INDEX_NAMES or _ID_NAME.fullmatch(n)}
    suspects = [name for name in features if name in named and name not in kept]
    if not suspects:
        return []
    found = [
        judge_texts(name, *_distinct_texts(column)) if name in texts else _judge_ids(name, column)
        for name, column in _look(table, suspects).items()
    ]
    return [finding for finding in found if finding is not None]


def _look(table: Source, columns: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    """Return all rows of a table in memory, or the first ones of up to eight parts of files."""
    fragments, room = table.fragments(), table.n_rows
    if not table.in_memory:
        chosen = np.unique(np.linspace(0, len(fragments) - 1, 8).astype(int))
        fragments, room = [fragments[at] for at in chosen], AUDIT_ROWS // len(chosen)
    batches = []
    for fragment in fragments:
        left = room
        for batch in fragment.batches(columns):
            batches.append(batch.slice(0, left))
            left -= batch.num_rows
            if left <= 0:
                break
    return {name: pa.chunked_array([one.column(name) for one in batches]) for name in columns}


def _distinct_texts(column: pa.ChunkedArray) -> tuple[pa.Array, int]:
    """Return the distinct texts, and the number of rows that aren't missing."""
    values = column.unify_dictionaries().unique().drop_null()
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return values.cast(pa.string()).unique(), len(column) - column.null_count


def judge_texts(name: str, distinct: pa.Array, n_known: int) -> Finding | None:
    """Judge a text column by its distinct values and the number of rows that aren't missing.

    >>> ages = pa.array([*(str(age) for age in range(18, 80)), "unknown"])
    >>> finding = judge_texts("age", ages, 1000)
    >>> finding.action, finding.reason
    ('read as numbers', "62 numbers; 'unknown' counts as missing")
    """
    if len(distinct) == 0:
        return None
    return (
        _judge_dates(name, distinct)
        or _judge_numbers(name, distinct)
        or _judge_counts(name, distinct, n_known)
        or _judge_names(name, distinct, n_known)
        or _judge_spellings(name, distinct)
    )


def _judge_dates(name: str, distinct: pa.Array) -> Finding | None:
    found = _best_style(distinct, "date", AUDITED_DATES, LEAST_DATES)
    if found is None:
        return None
    style, strays = found
    reason = f"{len(distinct) - len(strays):,} dates{_listed(strays)}"
    return Finding(name, "dates", "read as dates", reason, Reading("date", style))


def _judge_numbers(name: str, distinct: pa.Array) -> Finding | None:
    found = _best_style(distinct, "number", NUMBER_STYLES, LEAST_REALS)
    if found is None:
        return None
    style, strays = found
    texts: list[str] = distinct.to_pylist()
    if any(len(t) > 1 and t[0] == "0" and t.isdigit() for t in texts):
        return None  # a leading zero suggests a code, not a number
    whole = all(t.strip().lstrip("+-").isdigit() for t in texts if t not in strays)
    # Whole numbers stored as text may be codes, and so may a few numbers among other texts.
    if whole and (not strays or len(distinct) - len(strays) < LEAST_INTEGERS):
        return None
    if style == "plain" and not whole and _are_codes(texts, strays):
        return None
    written = "" if style == "plain" else f" written with a {style}"
    reason = f"{len(distinct) - len(strays):,} numbers{written}{_listed(strays)}"
    return Finding(name, "numbers", "read as numbers", reason, Reading("number", style))


def _judge_counts(name: str, distinct: pa.Array, n_known: int) -> Finding | None:
    """Find whole numbers stored as text that fill their range, as ages do; codes leave gaps."""
    texts: list[str] = distinct.to_pylist()
    plausible = LEAST_INTEGERS <= len(texts) <= NEAR_UNIQUE * n_known
    if not plausible or not all(map(_COUNT.fullmatch, texts)):
        return None
    numbers = [int(text) for text in texts]
    if len(texts) < DENSE * (max(numbers) - min(numbers) + 1):
        return None
    reason = f"{len(texts):,} whole numbers from {min(numbers):,} to {max(numbers):,}"
    return Finding(name, "numbers", "read as numbers", reason, Reading("number", "plain"))


def _are_codes(texts: list[str], strays: list[str]) -> bool:
    """Return whether texts that parse as numbers are codes: 3E7 among others, or 1.1 and 1.10."""
    numbers = [text for text in texts if text not in strays]
    if not any("." in text for text in numbers):
        return any(re.search(r"[eE]\d", text) for text in numbers)
    found = [float(re.sub(r"[^\d.eE+-]", "", text)) for text in numbers]
    values = [value for value in found if value]  # 0.0 and -0.0 aren't codes
    return len(set(values)) < len(values)


def _judge_names(name: str, distinct: pa.Array, n_known: int) -> Finding | None:
    share = len(distinct) / max(1, n_known)
    if n_known >= LEAST_ROWS and share > NEAR_UNIQUE:
        reason = f"{len(distinct):,} different texts in {n_known:,} rows: looks like an identifier"
        return Finding(name, "names of rows", "left out", reason, Reading("nothing"))
    if n_known >= LEAST_ROWS and len(distinct) > 50 and n_known < 20 * len(distinct):
        rows = n_known / len(distinct)
        reason = f"{len(distinct):,} different texts, {rows:.1f} rows each: little to learn from"
        return Finding(name, "many values", "none", reason)
    return None


def _judge_spellings(name: str, distinct: pa.Array) -> Finding | None:
    """Find texts that differ only in case or spaces, such as 'yes' and ' Yes'."""
    alike: dict[str, list[str]] = {}
    for text in distinct.to_pylist():
        alike.setdefault(" ".join(text.split()).casefold(), []).append(text)
    double = [spellings for spellings in alike.values() if len(spellings) > 1]
    if not double:
        return None
    shown = " and ".join(repr(text) for text in sorted(double[0])[:3])
    more = ", and so do others" if len(double) > 1 else ""
    reason = f"{shown} differ in case or spaces alone{more}: they stay different values"
    return Finding(name, "spellings", "none", reason)


def _judge_ids(name: str, column: pa.ChunkedArray) -> Finding | None:
    """Find row numbers and unique whole numbers in columns whose name suggests an identifier."""
    values = column.drop_null().slice(0, AUDIT_ROWS).to_numpy()
    if name in _INDEX_NAMES and len(values) > 1 and bool((np.diff(values) == 1).all()):
        reason = f"row numbers from {int(values[0]):,} on"
        return Finding(name, "row numbers", "left out", reason, Reading("nothing"))
    if len(values) < LEAST_ROWS:
        return None
    # A repeated number identifies something that rows share, such as a customer or a shop.
    if bool((np.diff(np.sort(values)) == 0).any()):
        return None
    reason = "whole numbers, all different: looks like an identifier"
    return Finding(name, "names of rows", "left out", reason, Reading("nothing"))


def _best_style(
    distinct: pa.Array, kind: str, styles: Collection[str], least: int
) -> tuple[str, list[str]] | None:
    """Return a style in which all but a few texts parse, and the texts that don't."""
    found = {}
    for style in styles if len(distinct) >= least else ():
        parsed = parse_texts(distinct, kind, style)
        n_good = len(parsed) - parsed.null_count
        if n_good >= max(least, MOSTLY * len(parsed)) and parsed.null_count <= STRAYS:
            found[style] = distinct.filter(parsed.is_null()).to_pylist()
    # 03/04/2020 may be in March or April: if both styles parse, neither is certain.
    if not found or found.keys() >= {"%d/%m/%Y", "%m/%d/%Y"}:
        return None
    return min(found.items(), key=lambda one: len(one[1]))


def _listed(strays: list[str]) -> str:
    if not strays:
        return ""
    shown = ", ".join(repr(s) for s in sorted(strays))
    return f"; {shown} count{'s' if len(strays) == 1 else ''} as missing"


def feature_index(features: Sequence[str], one: Any, where: str) -> int:
    """Return the index of a feature given by name or index; `where` is the option it's from."""
    if isinstance(one, str) and one in features:
        return features.index(one)
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


def as_date_styles(dates: Any) -> dict[str, str | None]:
    """Return the user's dates (names, ``name=style`` strings, or a mapping) as styles by column.

    >>> as_date_styles(["born", "paid=%d/%m/%Y"])
    {'born': None, 'paid': '%d/%m/%Y'}
    """
    if dates is None:
        return {}
    given = [dates] if isinstance(dates, str) else dates
    names: list[Any] = list(given) if isinstance(given, Iterable) else [None]
    if not all(isinstance(name, str) for name in names):
        raise invalid("dates", dates, "names of columns, a mapping of them to styles, or None")
    styles: dict[str, str | None] = dict(given) if isinstance(given, Mapping) else {}
    for text in names if not isinstance(given, Mapping) else ():
        name, mark, style = text.rpartition("=")
        found = mark and (style in DATE_STYLES or "%" in style)
        styles[name if found else text] = style if found else None
    for name, style in styles.items():
        if style not in (None, *DATE_STYLES):
            raise invalid(f"dates[{name!r}]", style, ", ".join(DATE_STYLES))
    return styles


def read_dates(table: Source, features: Sequence[str], dates: Any) -> dict[str, Reading]:
    """Return how to parse the columns declared as dates; columns of a date type need no parsing."""
    readings, styles = {}, as_date_styles(dates)
    table = table.as_text(styles)
    for name, style in styles.items():
        feature_index(features, name, "dates")
        kind = table.schema.field(name).type
        if is_text(kind):
            texts, _ = _distinct_texts(_look(table, [name])[name])
            readings[name] = Reading("date", _find_style(name, texts, style))
        elif not is_temporal(kind):
            raise DataError(
                f"dates names {name!r}, which holds {kind}, not text. Convert it to dates or text.",
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
