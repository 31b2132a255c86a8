"""SQL as its engines speak it: quoting, numbers, lists."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tanager.codes.reading import ISO_DATE, NUMBER_SIGNS, NUMBER_STYLES, YEAR_FIRST
from tanager.errors import ConfigurationError

__all__ = ["DIALECTS", "Dialect", "name_quoted"]

_MAX_ARGUMENTS = 100  # of one function: SQLite allows 127
_EXACT_DIGITS = 15  # decimal texts up to here are read exactly by any engine


class Dialect:
    """Standard SQL, a table as nested CASE; engines with lists of numbers override.

    Texts are ``'...'`` with quotes doubled. A backslash, which some engines read
    as the start of an escape, never stands in one.
    """

    double = "DOUBLE PRECISION"
    text = "VARCHAR"
    materialized = ""
    greatest = "GREATEST"
    character = "CHR"
    has_lists = False
    holds_nul = True
    max_columns = 1000
    max_terms = 1 << 15  # of all sums over unknown features: planners take seconds for as many
    name_bytes = 10_000
    folds_names = True  # "Age" and "age" are one column, also in quotes; so in most engines

    def literal(self, text: str) -> str:
        """Return a text as an expression."""
        parts, plain = [], ""
        for letter in text:
            if letter in "\\\x00":
                parts += [self._quoted(plain), f"{self.character}({ord(letter)})"]
                plain = ""
            else:
                plain += letter
        if not parts:
            return self._quoted(plain)
        return self.join([*parts, self._quoted(plain)])

    def join(self, parts: Sequence[str]) -> str:
        """Return texts one after the other."""
        return f"CONCAT({', '.join(parts)})"

    @staticmethod
    def _quoted(text: str) -> str:
        doubled = text.replace("'", "''")
        return f"'{doubled}'"

    def number(self, value: float) -> str:
        """Return a number that must be exact to the last bit, such as a cut."""
        shown = repr(float(value))
        digits = shown.partition("e")[0].lstrip("-").replace(".", "").strip("0")
        if len(digits) <= _EXACT_DIGITS and (value == 0 or 1e-7 <= abs(value) < 1e22):
            return self.real(shown)
        return self.long_number(value)

    def long_number(self, value: float) -> str:
        """Return a number of many digits, exactly.

        Not every engine rounds long decimals correctly; whole numbers below 2^53
        and powers of two are exact everywhere.
        """
        mantissa, exponent = math.frexp(value)
        result, exponent = self.real(f"{int(mantissa * 2**53)}.0"), exponent - 53
        while exponent:
            step = min(abs(exponent), 60)
            result += f"{'*' if exponent > 0 else '/'}{2**step}"
            exponent -= step if exponent > 0 else -step
        return f"({result})"

    def real(self, shown: str) -> str:
        """Return a decimal text as a double."""
        return f"CAST({shown} AS {self.double})"

    def constant(self, value: float) -> str:
        """Return a number to 12 digits, as tables have them."""
        shown = f"{value:.12g}"
        if "e" in shown or "." in shown:
            return shown.replace("0.", ".", 1) if shown.lstrip("-").startswith("0.") else shown
        return f"{shown}.0"

    def to_double(self, column: str) -> str:
        """Return a column of numbers as doubles; missing is NULL."""
        return f"CAST({column} AS {self.double})"

    def to_text(self, column: str) -> str:
        """Return a column as text."""
        return f"CAST({column} AS {self.text})"

    def epoch(self, column: str) -> str:
        """Return a column of dates as seconds since 1970."""
        return f"CAST(EXTRACT(EPOCH FROM {column}) AS {self.double})"

    def since_midnight(self, column: str) -> str:
        """Return a column of times of day as seconds."""
        return self.epoch(column)

    def duration(self, column: str) -> str:
        """Return a column of durations as seconds."""
        return self.epoch(column)

    def read_number(self, column: str, style: str) -> str:
        """Return a column of numbers written as text in a style; a blank is missing."""
        text = f"TRIM(CAST({column} AS {self.text}))"
        for old, new in NUMBER_STYLES[style][1]:
            text = f"REPLACE({text}, '{old}', '{new}')"
        return f"CAST(NULLIF({text}, '') AS {self.double})"

    def read_date(self, column: str, style: str) -> str:  # noqa: ARG002
        """Return a column of dates written as text in a style as seconds since 1970."""
        return self.epoch(column)  # standard SQL reads none: they have to come as dates

    def moment(self, column: str, temporal: str) -> str:
        """Return a column of dates, times of day or durations, as categories, as seconds."""
        seconds = {"time": self.since_midnight, "duration": self.duration}
        return seconds.get(temporal, self.epoch)(column)

    def top(self, items: Sequence[str]) -> str:
        """Return the largest of some numbers."""
        if len(items) == 1:
            return items[0]
        if len(items) <= _MAX_ARGUMENTS:
            return f"{self.greatest}({', '.join(items)})"
        parts = [items[at : at + _MAX_ARGUMENTS] for at in range(0, len(items), _MAX_ARGUMENTS)]
        return self.top([self.top(part) for part in parts])

    def look_up(self, numbers: Sequence[float | None], index: str) -> str:
        """Return the number at an index; None gives NULL."""
        return self._halve([None if x is None else self.constant(x) for x in numbers], index, 0)

    def _halve(self, shown: Sequence[str | None], index: str, low: int) -> str:
        if len(set(shown)) == 1:
            return shown[0] or "NULL"
        middle = len(shown) // 2
        left = self._halve(shown[:middle], index, low)
        right = self._halve(shown[middle:], index, low + middle)
        return f"CASE WHEN {index}<{low + middle} THEN {left} ELSE {right} END"

    def top_of(self, name: str, n: int) -> str:
        """Return the largest number of a pack."""
        return self.top([self.item(name, at) for at in range(n)])

    def pack(self, name: str, items: Sequence[str]) -> list[tuple[str, str]]:
        """Return columns that hold several numbers: names and expressions."""
        return [(f"{name}_{at}", item) for at, item in enumerate(items)]

    def item(self, name: str, at: int) -> str:
        """Return one number of a pack."""
        return f"{name}_{at}"

    def holder(self, name: str, at: int) -> str:
        """Return the column that holds one number of a pack."""
        return name if self.has_lists else f"{name}_{at}"

    def dot(self, name: str, weights: Sequence[float]) -> str:
        """Return the weighted sum of a pack."""
        parts = [f"{self.constant(w)}*{self.item(name, at)}" for at, w in enumerate(weights)]
        return balanced_sum(parts)


class SQLite(Dialect):
    """SQLite 3.35 or later, with its mathematical functions."""

    double = "REAL"
    text = "TEXT"
    materialized = "MATERIALIZED "
    greatest = "MAX"
    character = "CHAR"
    max_columns = 1900

    def join(self, parts: Sequence[str]) -> str:
        return f"({' || '.join(parts)})"

    def real(self, shown: str) -> str:
        return shown  # with a point it is a double

    def to_double(self, column: str) -> str:
        # SQLite reads any text as a number, a blank or a word as 0: it is missing here.
        odd = f"(trim({column}) = '' OR trim({column}) GLOB '*[^-+.0-9eE]*')"
        return (
            f"CASE WHEN NOT (typeof({column}) = 'text' AND {odd}) THEN CAST({column} AS REAL) END"
        )

    def to_text(self, column: str) -> str:
        # A column's own collation, such as NOCASE, would reach through the CAST.
        return f"CAST({column} AS TEXT) COLLATE BINARY"

    def epoch(self, column: str) -> str:
        return self._instant(column, 19)

    def since_midnight(self, column: str) -> str:
        return self._instant(column, 8, "'1970-01-01 ' || ")

    @staticmethod
    def _instant(column: str, digits: int, day: str = "", *, fine: bool = True) -> str:
        """Return a text of `digits` characters, a fraction and an offset as seconds.

        SQLite's own functions round to milliseconds, up past the last second of a year. Whole
        microseconds divided once are the number that the library has.
        """
        fraction = f"substr({column}, {digits + 2})"
        rest = f"ltrim({fraction}, '0123456789')"
        has = f"substr({column}, {digits + 1}, 1) = '.'"
        zone = f"CASE WHEN {has} THEN {rest} ELSE substr({column}, {digits + 1}) END"
        whole = f"CAST(strftime('%s', {day}substr({column}, 1, {digits}) || {zone}) AS INTEGER)"
        if not fine:
            return f"CAST({whole} AS REAL)"
        micros = f"substr({fraction}, 1, length({fraction}) - length({rest}))||'00000'"
        micros = f"CASE WHEN {has} THEN CAST(substr({micros}, 1, 6) AS INTEGER) ELSE 0 END"
        return f"(({whole}*1000000 + {micros}) / 1000000.0)"

    def read_number(self, column: str, style: str) -> str:
        text = f"trim({column})"
        for sign in "€$£¥%":
            text = f"replace({text}, '{sign}', '')"
        for old, new in NUMBER_STYLES[style][1]:
            text = f"replace({text}, '{old}', '{new}')"
        text = f"trim({text})"
        # There are no regular expressions: what CAST would read in part is missing.
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
            seconds = self._instant(iso, 19, fine=False)  # training read text to the second
            shape = "-".join(("[0-9]" * 4, "[0-9]" * 2, "[0-9]" * 2))
            tries.append(f"CASE WHEN {iso} GLOB '{shape}*' THEN {seconds} END")
        return f"COALESCE({', '.join(tries)})"

    @staticmethod
    def _joined_date(text: str, style: str) -> str:
        """Return a date of three parts with a mark between them as ISO has it."""
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

    def duration(self, column: str) -> str:
        return self.to_double(column)  # SQLite has none: they are numbers of seconds


class PatternDialect(Dialect):
    """An engine with regular expressions: texts are read as training read them.

    No pattern has a backslash, which `literal` would take apart.
    """

    cast = "CAST"

    def is_text(self, column: str) -> str:
        """Return whether a column holds text."""
        raise NotImplementedError

    def matches(self, text: str, pattern: str) -> str:
        """Return whether a text is written so."""
        raise NotImplementedError

    def try_double(self, text: str) -> str:
        """Return a text that is written as a number as a double."""
        return self.to_double(text)

    def parse_date(self, text: str, style: str) -> str:
        """Return a day that is written in a style other than ISO as seconds since 1970."""
        raise NotImplementedError

    def remove(self, text: str, pattern: str) -> str:
        """Return a text without what a pattern finds."""
        return f"regexp_replace({text}, {self.literal(_bare(pattern))}, '', 'g')"

    def instant(self, text: str) -> str:
        """Return the text of an instant as seconds; without an offset it is in UTC."""
        zoned, local = (
            self.epoch(f"{self.cast}({text} AS {kind})") for kind in ("TIMESTAMPTZ", "TIMESTAMP")
        )
        offset = self.matches(f"substr({text}, 11)", "[-+Z]")
        return f"CASE WHEN {offset} THEN {zoned} ELSE {local} END"

    def moment(self, column: str, temporal: str) -> str:
        # By way of text, which says the offset: a session's time zone must not matter.
        if temporal == "date":
            return self.instant(self.to_text(column))
        if temporal == "time":
            return self.since_midnight(f"{self.cast}({self.to_text(column)} AS TIME)")
        return self.duration(column)

    def read_number(self, column: str, style: str) -> str:
        pattern, changes = NUMBER_STYLES[style]
        text = self.remove(self._trimmed(column), NUMBER_SIGNS)
        bare = text
        for old, new in changes:
            bare = f"replace({bare}, '{old}', '{new}')"
        read = f"CASE WHEN {self.matches(text, pattern)} THEN {self.try_double(bare)} END"
        return f"CASE WHEN {self.is_text(column)} THEN {read} ELSE {self.try_double(column)} END"

    def read_date(self, column: str, style: str) -> str:
        text, tries = self._trimmed(column), []
        for one in dict.fromkeys((style, *YEAR_FIRST)):
            if one == "ISO":  # training read text to the second
                pattern, seconds = ISO_DATE, self.instant(self.remove(text, "[.][0-9]+"))
            else:
                short = one.replace("%d", "[0-9]{1,2}").replace("%m", "[0-9]{1,2}")
                pattern = f"^{short.replace('%Y', '[0-9]{4}').replace('.', '[.]')}$"
                seconds = self.parse_date(text, one)
            tries.append(f"CASE WHEN {self.matches(text, pattern)} THEN {seconds} END")
        typed = self.instant(self.to_text(column))
        return (
            f"CASE WHEN {self.is_text(column)} THEN COALESCE({', '.join(tries)}) ELSE {typed} END"
        )

    def _trimmed(self, column: str) -> str:
        return self.remove(self.to_text(column), r"^\s+|\s+$")


def _bare(pattern: str) -> str:
    """Return a pattern without a backslash."""
    for short, long in ((r"\d", "[0-9]"), (r"\s", "[[:space:]]"), (r"\.", "[.]")):
        pattern = pattern.replace(short, long)
    return pattern


class Postgres(PatternDialect):
    """PostgreSQL 12 or later."""

    text = "TEXT"
    materialized = "MATERIALIZED "
    has_lists = True
    max_terms = 1 << 20  # about 20 MB of text
    holds_nul = False  # no text of PostgreSQL has the character 0
    name_bytes = 63
    folds_names = False

    def literal(self, text: str) -> str:
        # E'' reads a backslash in one way under every setting.
        escaped = text.replace("\\", "\\\\").replace("'", "''")
        return f"E'{escaped}'" if "\\" in text else f"'{escaped}'"

    def long_number(self, value: float) -> str:
        return f"'{value!r}'::float8"

    def to_double(self, column: str) -> str:
        return f"NULLIF(CAST({column} AS {self.double}), 'NaN')"

    def is_text(self, column: str) -> str:
        return f"pg_typeof({column})::text IN ('text', 'character varying', 'character')"

    def matches(self, text: str, pattern: str) -> str:
        return f"{text} ~ {self.literal(_bare(pattern))}"

    def parse_date(self, text: str, style: str) -> str:
        named = style.replace("%Y", "YYYY").replace("%m", "MM").replace("%d", "DD")
        return self.epoch(f"to_date({text}, '{named}')")

    def look_up(self, numbers: Sequence[float | None], index: str) -> str:
        # An array without NULLs is indexed at once; past its end the answer is NULL.
        shown = ["NaN" if x is None else self.constant(x) for x in numbers]
        found = f"({self.numbers(shown)})[{index}+1]"
        return f"NULLIF({found}, 'NaN')" if None in numbers else found

    @staticmethod
    def numbers(values: Sequence[Any], kind: str = "float8") -> str:
        """Return a constant array; as a text it is read at once."""
        return f"'{{{','.join(map(str, values))}}}'::{kind}[]"

    def pack(self, name: str, items: Sequence[str]) -> list[tuple[str, str]]:
        return [(name, f"ARRAY[{','.join(items)}]::float8[]")]

    def item(self, name: str, at: int) -> str:
        return f"{name}[{at + 1}]"


class DuckDB(PatternDialect):
    """DuckDB 1.0 or later."""

    double = "DOUBLE"
    cast = "TRY_CAST"
    has_lists = True
    max_terms = 1 << 20  # about 20 MB of text

    def join(self, parts: Sequence[str]) -> str:
        return f"({' || '.join(parts)})"

    def real(self, shown: str) -> str:
        return shown if "e" in shown else f"{shown}e0"  # else it would be a decimal

    def long_number(self, value: float) -> str:
        return f"'{value!r}'::DOUBLE"

    def to_double(self, column: str) -> str:
        return f"NULLIF(CAST({column} AS DOUBLE), 'NaN'::DOUBLE)"

    def try_double(self, text: str) -> str:
        number = f"TRY_CAST({text} AS DOUBLE)"
        return f"CASE WHEN isfinite({number}) THEN {number} END"

    def is_text(self, column: str) -> str:
        return f"typeof({column}) = 'VARCHAR' OR typeof({column}) LIKE 'ENUM%'"

    def matches(self, text: str, pattern: str) -> str:
        return f"regexp_matches({text}, {self.literal(_bare(pattern))})"

    def parse_date(self, text: str, style: str) -> str:
        return self.epoch(f"try_strptime({text}, '{style}')")

    def epoch(self, column: str) -> str:
        return f"CAST(epoch({column}) AS DOUBLE)"

    def look_up(self, numbers: Sequence[float | None], index: str) -> str:
        shown = ["NULL" if x is None else self.constant(x) for x in numbers]
        return f"({self.numbers(shown)})[{index}+1]"

    def item(self, name: str, at: int) -> str:
        return f"{name}[{at + 1}]"

    @staticmethod
    def numbers(values: Sequence[Any], kind: str = "DOUBLE") -> str:
        """Return a list, or a list of lists, as one constant.

        The engine reads it as a text, once: a list of expressions takes it far longer.
        """
        depth, inner = 1, values
        while isinstance(inner[0], list | tuple):
            depth, inner = depth + 1, inner[0]
        return f"'{_bracketed(values)}'::{kind}{'[]' * depth}"


DIALECTS: dict[str, type[Dialect]] = {
    "duckdb": DuckDB,
    "sqlite": SQLite,
    "postgres": Postgres,
    "case": Dialect,
}


def _bracketed(values: Any) -> str:
    if isinstance(values, list | tuple):
        return f"[{','.join(map(_bracketed, values))}]"
    return str(values)


def balanced_sum(parts: Sequence[str]) -> str:
    """Return a sum whose nesting stays shallow: engines allow about 1,000 levels."""
    if len(parts) <= 50:
        return " + ".join(parts)
    middle = len(parts) // 2
    return f"({balanced_sum(parts[:middle])}) + ({balanced_sum(parts[middle:])})"


def name_quoted(name: Any) -> str:
    """Return a column's or a table's name in quotes."""
    if not name:
        raise ConfigurationError(
            "A column or the table has an empty name, which no name in SQL is. Rename it."
        )
    if "\x00" in name:
        raise ConfigurationError(
            f"The name {name!r} has the character 0, which no name in SQL has. Rename the column."
        )
    doubled = str(name).replace('"', '""')
    return f'"{doubled}"'
