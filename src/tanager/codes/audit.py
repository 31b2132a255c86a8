"""Audit columns before learning: find those that aren't what they seem, and decide what to do."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.codes.reading import AUDITED_DATES, NUMBER_STYLES, Reading, parse_texts
from tanager.codes.values import has_order
from tanager.sources import Source
from tanager.sources.plain import is_text

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
        return {k: v for k, v in asdict(self).items() if k != "reading"}


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

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


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
    kept = [*categorical, *asked]
    findings = {finding.column: finding for finding in audit_columns(table, features, kept)}
    for name, reading in asked.items():
        style = f"as asked, written as {reading.style}"
        findings[name] = Finding(name, "dates", "read as dates", style, reading)
    for name in categorical:
        findings[name] = Finding(name, "categories", "taken as categories", "as asked")
    sheets = []
    for name, chunks in _look(table, table.names).items():
        plain = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in chunks]
        column = pa.chunked_array(plain)
        known = column.drop_null()
        if pa.types.is_floating(known.type):
            known = known.filter(pc.invert(pc.is_nan(known)))
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
        kind = str(table.schema.field(name).type)
        kind = "text" if is_text(table.schema.field(name).type) else kind
        if has_order(table.schema.field(name).type):
            kind = "ordered categories"
        sheets.append(ColumnSheet(name, kind, len(counts), gaps, top, share, action, reason))
    return sheets


def _action(
    name: str, target: str | None, finding: Finding | None, n_values: int, share: float
) -> tuple[str, str]:
    if name == target:
        return "the target", "" if finding is None else finding.reason
    if finding is not None:
        action = finding.action if finding.action != "none" else "taken as it is"
        return action, finding.reason
    if n_values <= 1:
        return "taken as it is", "constant: carries no information"
    if share > DOMINATING:
        return "taken as it is", "one value dominates"
    return "taken as it is", ""


def audit_columns(table: Source, features: Collection[str], kept: Collection[str]) -> list[Finding]:
    """Judge the columns that may not be what they seem; those in `kept` are left unchanged."""
    suspects = [
        name
        for name in features
        if name not in kept
        and (
            is_text(table.schema.field(name).type)
            or (_may_be_id(name) and pa.types.is_integer(table.schema.field(name).type))
        )
    ]
    if not suspects:
        return []
    found = [
        _judge_chunks(name, chunks)
        if is_text(table.schema.field(name).type)
        else _judge_ids(name, chunks)
        for name, chunks in _look(table, suspects).items()
    ]
    return [finding for finding in found if finding is not None]


def _look(table: Source, columns: Sequence[str]) -> dict[str, list[pa.Array]]:
    """Return the audited rows of some columns, in chunks."""
    batches = list(_sample(table, list(columns)))
    return {name: [batch.column(name) for batch in batches] for name in columns}


def _sample(table: Source, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Iterate over all rows in memory, or over the first rows of up to eight fragments of files."""
    if table.in_memory:
        yield from table.batches(columns)
        return
    fragments = table.fragments()
    chosen = np.unique(np.linspace(0, len(fragments) - 1, 8).astype(int))
    room = AUDIT_ROWS // len(chosen)
    for at in chosen:
        left = room
        for batch in fragments[at].batches(columns):
            yield batch.slice(0, left)
            left -= batch.num_rows
            if left <= 0:
                break


def _judge_chunks(name: str, chunks: list[pa.Array]) -> Finding | None:
    known, distinct = _distinct_texts(chunks)
    return None if len(distinct) == 0 else judge_texts(name, distinct, known)


def sample_texts(table: Source, column: str) -> pa.Array:
    """Return the distinct texts of a column in the audited rows."""
    return _distinct_texts(_look(table, [column])[column])[1]


def _distinct_texts(chunks: list[pa.Array]) -> tuple[int, pa.Array]:
    """Return the number of rows that aren't missing, and their distinct texts."""
    known, distinct = 0, pa.array([], pa.string())
    for chunk in chunks:
        known += len(chunk) - chunk.null_count
        if pa.types.is_dictionary(chunk.type):
            used = np.unique(chunk.indices.drop_null().to_numpy(zero_copy_only=False))
            values = chunk.dictionary.take(pa.array(used))
        else:
            values = chunk.drop_null()
        distinct = pa.concat_arrays([distinct, values.cast(pa.string())]).unique()
    return known, distinct


def judge_texts(name: str, distinct: pa.Array, n_known: int) -> Finding | None:
    """Judge a text column by its distinct values and the number of rows that aren't missing.

    >>> ages = pa.array([*(str(age) for age in range(18, 80)), "unknown"])
    >>> finding = judge_texts("age", ages, 1000)
    >>> finding.action, finding.reason
    ('read as numbers', "62 numbers; 'unknown' counts as missing")
    """
    return (
        _judge_dates(name, distinct)
        or _judge_numbers(name, distinct)
        or _judge_counts(name, distinct, n_known)
        or _judge_names(name, distinct, n_known)
        or _judge_spellings(name, distinct)
    )


def _judge_dates(name: str, distinct: pa.Array) -> Finding | None:
    good = []
    for style in AUDITED_DATES:
        strays = _strays(distinct, "date", style, LEAST_DATES)
        if strays is not None:
            good.append((style, strays))
    # 03/04/2020 may be in March or April: if both styles parse, neither is certain.
    if not good or (len(good) > 1 and {s for s, _ in good} >= {"%d/%m/%Y", "%m/%d/%Y"}):
        return None
    style, strays = min(good, key=lambda pair: len(pair[1]))
    reason = f"{len(distinct) - len(strays):,} dates{_listed(strays)}"
    return Finding(name, "dates", "read as dates", reason, Reading("date", style))


def _judge_numbers(name: str, distinct: pa.Array) -> Finding | None:
    best: tuple[str, list[str]] | None = None
    for style in NUMBER_STYLES:
        strays = _strays(distinct, "number", style, LEAST_REALS)
        if strays is not None and (best is None or len(strays) < len(best[1])):
            best = (style, strays)
    if best is None:
        return None
    style, strays = best
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
    if len(texts) < LEAST_INTEGERS or len(texts) > NEAR_UNIQUE * n_known:
        return None
    if not all(_COUNT.fullmatch(text) for text in texts):
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


def _may_be_id(name: str) -> bool:
    """Return whether the name of a column of whole numbers suggests an identifier."""
    return name in _INDEX_NAMES or _ID_NAME.fullmatch(name) is not None


def _judge_ids(name: str, chunks: list[pa.Array]) -> Finding | None:
    """Find row numbers and unique whole numbers in columns whose name suggests an identifier."""
    values = _first_numbers(chunks)
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


def _first_numbers(chunks: list[pa.Array]) -> NDArray[Any]:
    """Return the known numbers of the first rows, as many as the audit reads from a file."""
    parts, left = [], AUDIT_ROWS
    for chunk in chunks:
        parts.append(chunk.slice(0, left).drop_null().to_numpy(zero_copy_only=False))
        left -= len(parts[-1])
        if left <= 0:
            break
    return np.concatenate(parts)


def _strays(distinct: pa.Array, kind: str, style: str, least: int) -> list[str] | None:
    """Return the texts that don't parse in this style; None if there are too many to ignore."""
    if len(distinct) < least:
        return None
    parsed = parse_texts(distinct, kind, style)
    n_good = len(parsed) - parsed.null_count
    n_bad = len(parsed) - n_good
    if n_good < least or n_bad > STRAYS or n_good < MOSTLY * len(parsed):
        return None
    strays: list[str] = distinct.filter(parsed.is_null()).to_pylist()
    return strays


def _listed(strays: list[str]) -> str:
    if not strays:
        return ""
    shown = ", ".join(repr(s) for s in sorted(strays))
    return f"; {shown} count{'s' if len(strays) == 1 else ''} as missing"
