"""Columns that aren't read as written: texts parsed as numbers or dates, or ignored columns."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from tanager.errors import ColumnWarning, DataError
from tanager.sources.plain import is_text
from tanager.sources.source import Source

_SIGN = r"^[+-]?"
# How a number may be written: its pattern, then the replacements to make.
NUMBER_STYLES: Mapping[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "plain": (_SIGN + r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$", ()),
    "comma for thousands": (_SIGN + r"(\d{1,3}(,\d{3})+|\d+)(\.\d+)?$", ((",", ""),)),
    "decimal comma": (_SIGN + r"(\d{1,3}(\.\d{3})+|\d+)(,\d+)?$", ((".", ""), (",", "."))),
    "space for thousands": (_SIGN + r"(\d{1,3}( \d{3})+|\d+)([.,]\d+)?$", ((" ", ""), (",", "."))),
}
NUMBER_SIGNS = r"^[€$£¥]\s*|\s*[€$£¥%]$"  # a currency or percent sign next to a number
ISO_DATE = r"^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2})(:\d{2})?(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?$"
_OFFSET = r"^.{10}.*(?P<sign>[+-])(?P<hours>\d{2}):?(?P<minutes>\d{2})$"
# The audit tries the first six; the others must be requested, since digits alone are more
# often a number or a code, and 03-04-2020 may be in March or April.
YEAR_FIRST = ("ISO", "%Y/%m/%d")  # texts that no other style parses differently
AUDITED_DATES = ("ISO", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y")
DATE_STYLES = (*AUDITED_DATES, "%m-%d-%Y", "%Y%m%d")
STYLES = {"number": NUMBER_STYLES, "date": DATE_STYLES, "nothing": ("",)}


@dataclass(frozen=True)
class Reading:
    """How the values of one column are parsed."""

    kind: str  # 'number', 'date', or 'nothing': every row has the same value
    # Texts in another style are missing; dates with the year first are parsed whatever the style.
    style: str = ""

    def __post_init__(self) -> None:
        if self.kind not in STYLES or self.style not in STYLES[self.kind]:
            raise DataError(f"A column cannot be read as {self.kind!r} written {self.style!r}.")

    @property
    def type(self) -> pa.DataType:
        """The type of the parsed values."""
        return {"number": pa.float64(), "date": pa.timestamp("s"), "nothing": pa.int64()}[self.kind]

    def read(self, array: pa.Array, name: str) -> pa.Array:
        """Return the parsed column; numbers and dates are left unchanged."""
        if self.kind == "nothing":
            return pa.array(np.zeros(len(array), dtype=np.int64))
        if not is_text(array.type):
            return array
        array = array.dictionary_encode()
        return self._parse(array.dictionary, name).take(array.indices)

    def _parse(self, texts: pa.Array, name: str) -> pa.Array:
        import pyarrow.compute as pc

        read = parse_texts(texts, self.kind, self.style)
        if read.null_count == texts.null_count:
            return read
        if self.kind == "date":
            for style in YEAR_FIRST:
                read = pc.coalesce(read, parse_texts(texts, "date", style))
        lost = texts.filter(pc.and_(read.is_null(), texts.is_valid()))
        for style in DATE_STYLES if self.kind == "date" else NUMBER_STYLES:
            if parse_texts(lost, self.kind, style).null_count < len(lost):
                warnings.warn(
                    f"Column {name!r} is read as {self.kind}s in the format {self.style!r}, but "
                    f"some are in the format {style!r} and count as missing. Use one format, or "
                    f"convert the column to {self.kind}s first.",
                    ColumnWarning,
                    stacklevel=2,
                )
                break
        return read


def read_columns(source: Source, readings: Mapping[str, Reading]) -> Source:
    """Return a source that parses some of its columns."""
    known = [(field, readings[field.name]) for field in source.schema if field.name in readings]
    kinds = {f.name: one.type for f, one in known if one.kind == "nothing" or is_text(f.type)}
    changes = {name: partial(reading.read, name=name) for name, reading in readings.items()}
    return source.change(changes, kinds)


def parse_texts(texts: pa.Array, kind: str, style: str) -> pa.Array:
    """Parse texts as numbers or dates of one style; null if one isn't written that way."""
    import pyarrow.compute as pc

    texts = pc.utf8_trim_whitespace(texts.cast(pa.string()))
    if kind == "date":
        return _parse_dates(texts, style)
    pattern, changes = NUMBER_STYLES[style]
    bare = pc.replace_substring_regex(texts, NUMBER_SIGNS, "")
    good = pc.match_substring_regex(bare, pattern)
    for old, new in changes:
        bare = pc.replace_substring(bare, old, new)
    numbers = pc.if_else(good, bare, pa.scalar(None, pa.string())).cast(pa.float64())
    # Different numbers beyond the range of floats can't be distinguished.
    return pc.if_else(pc.is_finite(numbers), numbers, pa.scalar(None, pa.float64()))


def _parse_dates(texts: pa.Array, style: str) -> pa.Array:
    import pyarrow.compute as pc

    if style != "ISO":
        dates = pc.strptime(texts, format=style, unit="s", error_is_null=True)
        return _real_days(dates, texts, style)
    filled = pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, ISO_DATE, r"\1 \2\3"))
    for short, rest in ((10, " 00:00"), (16, ":00")):
        filled = pc.replace_substring_regex(filled, f"^(.{{{short}}})$", rf"\1{rest}")
    good = pc.match_substring_regex(texts, ISO_DATE)
    checked = pc.if_else(good, filled, pa.scalar(None, pa.string()))
    dates = pc.strptime(checked, format="%Y-%m-%d %H:%M:%S", unit="s", error_is_null=True)
    dates = _real_days(dates, texts, "%Y-%m-%d")
    # 02:00+02:00 is midnight in UTC.
    sign, hours, minutes = pc.extract_regex(texts, _OFFSET).flatten()
    ahead = pc.multiply(hours.cast(pa.int64()), 3600)
    ahead = pc.add(ahead, pc.multiply(minutes.cast(pa.int64()), 60))
    ahead = pc.if_else(pc.equal(sign, "-"), pc.negate(ahead), ahead)
    return pc.subtract(dates.cast(pa.int64()), pc.fill_null(ahead, 0)).cast(dates.type)


def _real_days(dates: pa.Array, texts: pa.Array, style: str) -> pa.Array:
    """Return the dates without those like 31 February, which strptime turns into a day in March."""
    import pyarrow.compute as pc

    pattern = style.replace(".", "[.]").replace("%Y", r"\s*\d{1,4}").replace("%m", r"\s*\d{1,2}")
    days = pc.extract_regex(texts, "^" + pattern.replace("%d", r"\s*(?P<day>\d{1,2})")).flatten()[0]
    real = pc.fill_null(pc.equal(pc.day(dates), days.cast(pa.int64())), False)
    return pc.if_else(real, dates, pa.scalar(None, dates.type))
