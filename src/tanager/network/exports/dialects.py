"""SQL dialects: quoting, numbers, lists.

Attributes are templates of an engine's own syntax, with ``{}`` for an expression, often a column.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from tanager.codes.reading import ISO_DATE, NUMBER_SIGNS, NUMBER_STYLES, YEAR_FIRST
from tanager.errors import ConfigurationError

__all__ = ["DIALECTS", "Dialect", "name_quoted"]

_MAX_ARGUMENTS = 100  # of one function: SQLite allows 127
_EXACT_DIGITS = 15  # all engines parse decimal texts of up to this many digits exactly


class Dialect:
    """Standard SQL, with tables as nested CASE; engines with lists of numbers override it.

    Quoted texts never contain a backslash, which some engines read as the start of an escape.
    """

    materialized = ""
    greatest = "GREATEST"
    character = "CHR"
    joined = "CONCAT({})", ", "  # template and separator for concatenating texts
    real = "CAST({} AS DOUBLE PRECISION)"  # a decimal text as a double
    to_double = real  # a column of numbers; missing is NULL
    to_text = "CAST({} AS VARCHAR)"
    # Dates as seconds since 1970, times of day as seconds since midnight, and durations.
    epoch = "CAST(EXTRACT(EPOCH FROM {}) AS DOUBLE PRECISION)"
    since_midnight = ""  # '' is as `epoch`
    duration = ""
    holds_nul = True
    join = "JOIN"
    name_bytes = 10_000
    folds_names = True  # "Age" and "age" are the same column, even in quotes, as in most engines

    def literal(self, text: str) -> str:
        """Return a text as an expression."""
        first, *others = re.split(r"([\\\x00])", text)
        parts = [_quoted(first)]
        for letter, plain in zip(others[::2], others[1::2], strict=True):
            parts += [f"{self.character}({ord(letter)})", _quoted(plain)]
        whole, between = self.joined
        return whole.format(between.join(parts)) if others else parts[0]

    def number(self, value: float) -> str:
        """Return a number that must be exact to the last bit, such as a cut."""
        shown = repr(float(value))
        digits = shown.partition("e")[0].lstrip("-").replace(".", "").strip("0")
        if len(digits) <= _EXACT_DIGITS and (value == 0 or 1e-7 <= abs(value) < 1e22):
            return self.real.format(shown)
        return self.long_number(value)

    def long_number(self, value: float) -> str:
        """Return a number with many digits, exactly."""
        # Not all engines round long decimals; integers below 2^53 and powers of two are exact.
        mantissa, exponent = math.frexp(value)
        result, exponent = self.real.format(f"{int(mantissa * 2**53)}.0"), exponent - 53
        while exponent:
            step = min(abs(exponent), 60)
            result += f"{'*' if exponent > 0 else '/'}{2**step}"
            exponent -= step if exponent > 0 else -step
        return f"({result})"

    def constant(self, value: float) -> str:
        """Return a number with 12 digits, as used in tables."""
        shown = f"{value:.12g}"
        if "e" in shown or "." in shown:
            return shown.replace("0.", ".", 1) if shown.lstrip("-").startswith("0.") else shown
        return f"{shown}.0"

    def seconds(self, column: str, temporal: str) -> str:
        """Return a column of dates, times of day or durations as numbers."""
        templates = {"time": self.since_midnight, "duration": self.duration}
        return (templates.get(temporal) or self.epoch).format(column)

    def read_number(self, column: str, style: str) -> str:
        """Return a column of numbers stored as text in a style; blank texts are missing."""
        text = _replaced(f"TRIM({self.to_text.format(column)})", NUMBER_STYLES[style][1])
        return self.real.format(f"NULLIF({text}, '')")

    def read_date(self, column: str, style: str) -> str:  # noqa: ARG002
        """Return a column of dates stored as text in a style as seconds since 1970."""
        return self.epoch.format(column)  # standard SQL can't parse: they must be dates

    def top(self, items: Sequence[str]) -> str:
        """Return the largest of some numbers."""
        if len(items) <= _MAX_ARGUMENTS:
            return f"{self.greatest}({', '.join(items)})" if len(items) > 1 else items[0]
        parts = [items[at : at + _MAX_ARGUMENTS] for at in range(0, len(items), _MAX_ARGUMENTS)]
        return self.top([self.top(part) for part in parts])

    def relation(self, whole: Iterable[Any], real: Iterable[Any] = ()) -> str:
        """Return constant rows, from columns of integers followed by columns of floats."""
        columns = [*(map(str, one) for one in whole), *(map(self.constant, one) for one in real)]
        rows = (f"({','.join(row)})" for row in zip(*columns, strict=True))
        return f"VALUES {','.join(rows)}"

    def look_up(self, numbers: Sequence[float | None], index: str) -> str:
        """Return the number at an index; None becomes NULL."""
        return _halved([None if x is None else self.constant(x) for x in numbers], index)


def _halved(shown: Sequence[str | None], index: str, low: int = 0) -> str:
    if len(set(shown)) == 1:
        return shown[0] or "NULL"
    middle = len(shown) // 2
    left = _halved(shown[:middle], index, low)
    right = _halved(shown[middle:], index, low + middle)
    return f"CASE WHEN {index}<{low + middle} THEN {left} ELSE {right} END"


def _quoted(text: str) -> str:
    return "'{}'".format(text.replace("'", "''"))


def _replaced(text: str, changes: Sequence[tuple[str, str]]) -> str:
    for old, new in changes:
        text = f"REPLACE({text}, '{old}', '{new}')"
    return text


def _sqlite_instant(text: str, digits: int, day: str = "", *, fine: bool = True) -> str:
    """Return a text of `digits` characters, a fraction and an offset as seconds."""
    # SQLite's own functions round to milliseconds, up past the last second of a year. Dividing
    # whole microseconds once gives the same number as the library.
    fraction = f"substr({text}, {digits + 2})"
    rest = f"ltrim({fraction}, '0123456789')"
    has = f"substr({text}, {digits + 1}, 1) = '.'"
    zone = f"CASE WHEN {has} THEN {rest} ELSE substr({text}, {digits + 1}) END"
    whole = f"CAST(strftime('%s', {day}substr({text}, 1, {digits}) || {zone}) AS INTEGER)"
    if not fine:
        return f"CAST({whole} AS REAL)"
    micros = f"substr({fraction}, 1, length({fraction}) - length({rest}))||'00000'"
    micros = f"CASE WHEN {has} THEN CAST(substr({micros}, 1, 6) AS INTEGER) ELSE 0 END"
    return f"(({whole}*1000000 + {micros}) / 1000000.0)"


class SQLite(Dialect):
    """SQLite 3.35 or later, with its mathematical functions."""

    materialized = "MATERIALIZED "
    greatest = "MAX"
    character = "CHAR"
    joined = "({})", " || "
    real = "{}"  # with a decimal point, it's a double
    # SQLite casts any text to a number, and blanks or words to 0: these are missing here.
    to_double = (
        "CASE WHEN NOT (typeof({0}) = 'text' AND "
        "(trim({0}) = '' OR trim({0}) GLOB '*[^-+.0-9eE]*')) THEN CAST({0} AS REAL) END"
    )
    # A column's collation, such as NOCASE, would otherwise survive the CAST.
    to_text = "CAST({} AS TEXT) COLLATE BINARY"
    epoch = _sqlite_instant("{0}", 19)
    since_midnight = _sqlite_instant("{0}", 8, "'1970-01-01 ' || ")
    duration = to_double  # SQLite has none: they are stored as seconds
    join = "CROSS JOIN"  # preserves the order in which tables are written

    def read_number(self, column: str, style: str) -> str:
        signs = [(sign, "") for sign in "€$£¥%"]
        text = f"trim({_replaced(f'trim({column})', [*signs, *NUMBER_STYLES[style][1]])})"
        # There are no regular expressions: texts that CAST would only parse in part are missing.
        good = (
            f"({text} GLOB '[0-9.]*' OR {text} GLOB '[-+][0-9.]*') AND {text} GLOB '*[0-9]*' "
            f"AND NOT {text} GLOB '*[^-+.0-9eE]*' AND NOT {text} GLOB '*.*.*' AND "
            f"({text} GLOB '*[0-9.][eE][-+][0-9]*' OR NOT substr({text}, 2) GLOB '*[-+]*' AND "
            f"({text} GLOB '*[0-9.][eE][0-9]*' OR NOT {text} GLOB '*[eE]*'))"
        )
        return (
            f"CASE WHEN typeof({column}) <> 'text' THEN CAST({column} AS REAL) "
            f"WHEN {good} THEN CAST({text} AS REAL) END"
        )

    def read_date(self, column: str, style: str) -> str:
        text = f"trim({column})"
        tries = []
        for one in dict.fromkeys((style, *YEAR_FIRST)):
            iso = text
            if one == "%Y%m%d":
                iso = f"substr({text}, 1, 4)||'-'||substr({text}, 5, 2)||'-'||substr({text}, 7)"
            elif one != "ISO":
                iso = self._joined_date(text, one)
            seconds = _sqlite_instant(iso, 19, fine=False)  # training parsed text to the second
            shape = "-".join("[0-9]" * n for n in (4, 2, 2))
            tries.append(f"CASE WHEN {iso} GLOB '{shape}*' THEN {seconds} END")
        return f"COALESCE({', '.join(tries)})"

    @staticmethod
    def _joined_date(text: str, style: str) -> str:
        """Return a date of three parts with a separator in ISO format."""
        mark = style[2]
        rest = f"substr({text}, instr({text}, '{mark}') + 1)"
        parts = (
            f"substr({text}, 1, instr({text}, '{mark}') - 1)",
            f"substr({rest}, 1, instr({rest}, '{mark}') - 1)",
            f"substr({rest}, instr({rest}, '{mark}') + 1)",
        )
        found = dict(zip(style.split(mark), parts, strict=True))
        day = ", ".join(found[part] for part in ("%Y", "%m", "%d"))
        return f"printf('%04d-%02d-%02d', {day})"


class PatternDialect(Dialect):
    """An engine with regular expressions (without backslashes): texts are parsed as in training."""

    cast = "CAST({} AS {})"
    is_text: str  # whether a column holds text
    matches: str  # whether a text matches a pattern
    try_double: str  # a text that contains a number, as a double
    double: str  # the name of the type
    array: str  # constant numbers, as a text, which is parsed in one go, and their type
    nothing = "NULL"  # in an array

    def long_number(self, value: float) -> str:
        return f"'{value!r}'::{self.double}"

    def relation(self, whole: Iterable[Any], real: Iterable[Any] = ()) -> str:
        arrays = [self.array.format(",".join(map(str, column)), "INT") for column in whole]
        arrays += map(self._reals, real)
        return f"SELECT {', '.join(f'unnest({numbers})' for numbers in arrays)}"

    def look_up(self, numbers: Sequence[float | None], index: str) -> str:
        return f"({self._reals(numbers)})[{index}+1]"  # NULL past the end

    def _reals(self, numbers: Iterable[float | None]) -> str:
        shown = (self.nothing if x is None else self.constant(x) for x in numbers)
        return self.array.format(",".join(shown), self.double)

    def parse_date(self, text: str, style: str) -> str:
        """Return a day that is written in a style other than ISO."""
        raise NotImplementedError

    def read_number(self, column: str, style: str) -> str:
        pattern, changes = NUMBER_STYLES[style]
        text = self._without(self._trimmed(column), NUMBER_SIGNS)
        number = self.try_double.format(_replaced(text, changes))
        read = f"CASE WHEN {self._matches(text, pattern)} THEN {number} END"
        plain = self.try_double.format(column)
        return f"CASE WHEN {self.is_text.format(column)} THEN {read} ELSE {plain} END"

    def read_date(self, column: str, style: str) -> str:
        text, tries = self._trimmed(column), []
        for one in dict.fromkeys((style, *YEAR_FIRST)):
            if one == "ISO":  # training parsed text to the second
                pattern, seconds = ISO_DATE, self._instant(self._without(text, "[.][0-9]+"))
            else:
                short = one.replace("%d", "[0-9]{1,2}").replace("%m", "[0-9]{1,2}")
                pattern = f"^{short.replace('%Y', '[0-9]{4}').replace('.', '[.]')}$"
                seconds = self.epoch.format(self.parse_date(text, one))
            tries.append(f"CASE WHEN {self._matches(text, pattern)} THEN {seconds} END")
        typed, read = self._instant(self.to_text.format(column)), ", ".join(tries)
        return f"CASE WHEN {self.is_text.format(column)} THEN COALESCE({read}) ELSE {typed} END"

    def _instant(self, text: str) -> str:
        """Return the text of an instant as seconds; without an offset, it's in UTC."""
        casts = [self.cast.format(text, kind) for kind in ("TIMESTAMPTZ", "TIMESTAMP")]
        zoned, local = map(self.epoch.format, casts)
        offset = self._matches(f"substr({text}, 11)", "[-+Z]")
        return f"CASE WHEN {offset} THEN {zoned} ELSE {local} END"

    def _matches(self, text: str, pattern: str) -> str:
        return self.matches.format(text, self._pattern(pattern))

    def _without(self, text: str, pattern: str) -> str:
        return f"regexp_replace({text}, {self._pattern(pattern)}, '', 'g')"

    def _trimmed(self, column: str) -> str:
        return self._without(self.to_text.format(column), r"^\s+|\s+$")

    def _pattern(self, pattern: str) -> str:
        for short, long in ((r"\d", "[0-9]"), (r"\s", "[[:space:]]"), (r"\.", "[.]")):
            pattern = pattern.replace(short, long)
        return self.literal(pattern)


class Postgres(PatternDialect):
    """PostgreSQL 12 or later."""

    materialized = "MATERIALIZED "
    to_text = "CAST({} AS TEXT)"
    to_double = "NULLIF(CAST({} AS DOUBLE PRECISION), 'NaN')"
    try_double = to_double
    double = "float8"
    array = "'{{{}}}'::{}[]"
    nothing = "NaN"  # an array without NULLs has constant-time access
    is_text = "pg_typeof({})::text IN ('text', 'character varying', 'character')"
    matches = "{} ~ {}"
    holds_nul = False  # PostgreSQL texts can't contain NUL characters
    name_bytes = 63
    folds_names = False

    def parse_date(self, text: str, style: str) -> str:
        named = style.replace("%Y", "YYYY").replace("%m", "MM").replace("%d", "DD")
        return f"to_date({text}, '{named}')"

    def look_up(self, numbers: Sequence[float | None], index: str) -> str:
        found = super().look_up(numbers, index)
        return f"NULLIF({found}, 'NaN')" if None in numbers else found


class DuckDB(PatternDialect):
    """DuckDB 1.0 or later; a list of expressions takes much longer than its text."""

    cast = "TRY_CAST({} AS {})"
    joined = "({})", " || "
    real = "{}"
    epoch = "CAST(epoch({}) AS DOUBLE)"
    to_double = "NULLIF(CAST({} AS DOUBLE), 'NaN'::DOUBLE)"
    try_double = "CASE WHEN isfinite(TRY_CAST({0} AS DOUBLE)) THEN TRY_CAST({0} AS DOUBLE) END"
    double = "DOUBLE"
    array = "'[{}]'::{}[]"
    is_text = "typeof({0}) = 'VARCHAR' OR typeof({0}) LIKE 'ENUM%'"
    matches = "regexp_matches({}, {})"

    def number(self, value: float) -> str:
        shown = super().number(value)
        return shown if "e" in shown or "'" in shown else f"{shown}e0"  # otherwise it's a decimal

    def parse_date(self, text: str, style: str) -> str:
        return f"try_strptime({text}, '{style}')"


DIALECTS: dict[str, type[Dialect]] = {
    "duckdb": DuckDB,
    "sqlite": SQLite,
    "postgres": Postgres,
    "case": Dialect,
}


def balanced_sum(parts: Sequence[str]) -> str:
    """Return a sum with shallow nesting: engines allow about 1,000 levels."""
    if len(parts) <= 50:
        return " + ".join(parts)
    middle = len(parts) // 2
    return f"({balanced_sum(parts[:middle])}) + ({balanced_sum(parts[middle:])})"


def name_quoted(name: Any) -> str:
    """Return the quoted name of a column or table."""
    if not name:
        raise ConfigurationError(
            "A column or the table has an empty name, which SQL doesn't allow. Rename it."
        )
    if "\x00" in name:
        raise ConfigurationError(
            f"The name {name!r} has the character 0, which SQL doesn't allow. Rename the column."
        )
    return '"{}"'.format(str(name).replace('"', '""'))
