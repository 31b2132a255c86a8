"""CSV files: types are determined once, then rows are streamed."""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tanager.errors import (
    ColumnWarning,
    ConfigurationError,
    DataError,
    explaining,
    invalid,
    one_line,
)
from tanager.sources.formats import TableFile, open_unpacked
from tanager.sources.plain import plain_array
from tanager.sources.remote import RemoteFile
from tanager.sources.source import Batches, Source, check_names, without_texts

# Cells that mean "missing", even if quoted: writers quote either all cells or none.
NULLS = ["", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "#N/A", "<NA>"]
_BOOLEANS = plain_array(["true", "True", "TRUE", "false", "False", "FALSE"], pa.string())
_NUMBER = re.compile(r"\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*")
_DELIMITERS = (",", ";", "\t", "|")
BLOCK_BYTES = 1 << 22  # a row must fit into one block

# From narrow to wide. A text that parses as one type also parses as every wider one, in
# the same row, so a column's type only ever moves to the right.
_WIDER = {
    pa.null(): (pa.int64(), pa.float64(), pa.bool_(), pa.string()),
    pa.int64(): (pa.int64(), pa.float64(), pa.string()),
    pa.float64(): (pa.float64(), pa.string()),
    pa.bool_(): (pa.bool_(), pa.string()),
    pa.string(): (pa.string(),),
}


@dataclass(frozen=True)
class TextStyle:
    """How the texts of a CSV file are interpreted."""

    na_values: tuple[str, ...] = ()  # cells that mean "missing", in addition to the defaults
    encoding: str = "utf-8"  # such as "latin-1"
    decimal: str = "."  # the decimal separator: "." or ","
    header: bool | None = None  # whether line 1 has the names; None: unless all of it is numeric

    def __post_init__(self) -> None:
        if self.decimal not in (".", ","):
            raise invalid("decimal", self.decimal, "'.' and ','")
        if not isinstance(self.header, bool | None):
            raise invalid("header", self.header, "True, False, or None to look at the first line")
        try:
            io.TextIOWrapper(io.BytesIO(), encoding=codecs.lookup(self.encoding).name)
        except (LookupError, ValueError, TypeError) as error:  # or the codec isn't one for text
            allowed = "a codec for text, such as 'utf-8', 'latin-1' or 'cp1252'"
            raise invalid("encoding", self.encoding, allowed) from error
        texts = [text for text in self.na_values if isinstance(text, str)]
        known = [text.encode("utf-8", "replace").decode() for text in texts]
        if known != list(self.na_values):
            raise invalid("na_values", self.na_values, "texts")


def apply_style(source: Source, style: TextStyle) -> Source:
    """Treat texts as missing in a table other than CSV; raise if options for CSV are set."""
    usual = TextStyle(style.na_values)
    for name in ("encoding", "decimal", "header"):
        if getattr(style, name) != getattr(usual, name):
            raise ConfigurationError(
                f"{name}={getattr(style, name)!r} applies only to CSV files. Leave it out here."
            )
    return without_texts(source, style.na_values) if style.na_values else source


class CsvTable(TableFile):
    """A CSV file; without a header, its columns are x0, x1, ...

    One scan determines each column's type from all rows, so every pass reads the same types. The
    delimiter is the most frequent one in the header outside quotes.
    """

    guessed = True

    def __init__(self, path: Path | RemoteFile, style: TextStyle | None = None) -> None:
        self.path = path
        self._style = style or TextStyle()
        names, self._delimiter = _header(path, self._style)
        self.named = self._style.header is not False
        if self._style.header is None and all(map(_NUMBER.fullmatch, names)):
            self.named = False
            warnings.warn(
                f"The first line of {path} is numbers only, so it is read as a row, and the "
                f"columns are called x0 to x{len(names) - 1}. If it names the columns, say "
                "header=True.",
                ColumnWarning,
                stacklevel=2,
            )
        if not self.named:
            names = [f"x{at}" for at in range(len(names))]
        check_names(names)
        self._names = names
        types = dict.fromkeys(names, pa.null())
        rows = 0
        for batch in self.read(None, pa.schema([(name, pa.string()) for name in names])):
            rows += batch.num_rows
            for name, column in zip(names, batch.columns, strict=True):
                types[name] = _settle(column, types[name], self._style.decimal)
        self.n_rows = rows
        self.schema = pa.schema(list(types.items()))

    def read(self, piece: Any, schema: pa.Schema) -> Batches:  # noqa: ARG002
        """Iterate over the rows, block by block of the file, with the requested types."""
        types = {field.name: field.type for field in schema}
        try:
            with self._open(types) as reader:
                for batch in reader:
                    if batch.num_rows:
                        yield batch
        except pa.ArrowInvalid as error:
            if " columns, got " not in str(error):
                raise
            raise DataError(
                f"{self.path}: {one_line(error).removeprefix('CSV parse error: ')}. Quote cells "
                f"that hold the delimiter {self._delimiter!r}, or mend the row."
            ) from error

    def _open(self, types: dict[str, pa.DataType]) -> Any:
        import pyarrow.csv as pacsv

        style, names = self._style, None if self.named else self._names
        read = {"block_size": BLOCK_BYTES, "use_threads": False, "encoding": style.encoding}
        nulls = {"null_values": [*NULLS, *style.na_values], "strings_can_be_null": True}
        wanted = {"column_types": types, "include_columns": list(types)}
        return pacsv.open_csv(
            open_unpacked(self.path),
            read_options=pacsv.ReadOptions(column_names=names, **read),
            parse_options=pacsv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
            convert_options=pacsv.ConvertOptions(decimal_point=style.decimal, **nulls, **wanted),
        )


def widest_type(kinds: Sequence[pa.DataType]) -> pa.DataType:
    """Return the narrowest type that can represent the values of several types."""
    some = (pa.null(), *_WIDER[pa.null()])
    return next(one for one in some if all(one == kind or one in _WIDER[kind] for kind in kinds))


def _settle(column: pa.Array, current: pa.DataType, decimal: str) -> pa.DataType:
    """Return the narrowest type, not narrower than the current one, that parses the column."""
    if column.null_count == len(column):
        return current
    import pyarrow.compute as pc

    # A leading zero suggests a code (a zip code, a ward), not a number.
    if pc.any(pc.match_substring_regex(column, r"^\s*0\d+\s*$")).as_py():
        return pa.string()
    for kind in _WIDER[current]:
        if kind == pa.string():
            break
        if kind == pa.bool_():
            # Casts accept more spellings than the CSV reader, which accepts these.
            if pc.all(pc.is_in(column.drop_null(), value_set=_BOOLEANS)).as_py():
                return kind
            continue
        with suppress(pa.ArrowInvalid):
            # The CSV reader trims numbers, so do the same here.
            texts = pc.utf8_trim_whitespace(column)
            if decimal == ",":
                if pc.any(pc.match_substring(texts, ".")).as_py():
                    continue  # a point isn't the decimal separator here
                texts = pc.replace_substring(texts, ",", ".")
            texts.cast(kind)
            return kind
    return pa.string()


def _open_text(path: Path | RemoteFile, style: TextStyle) -> Any:
    """Open a file as text, decompressed according to its suffix."""
    plain = "utf-8-sig" if style.encoding in ("utf-8", "utf8", "UTF-8") else style.encoding
    return io.TextIOWrapper(open_unpacked(path), encoding=plain, newline="")


def _lines(handle: Any) -> Iterator[str]:
    """Iterate over lines, splitting long ones: a small compressed file may hold huge lines."""
    return iter(lambda: handle.readline(BLOCK_BYTES), "")


def _header(path: Path | RemoteFile, style: TextStyle) -> tuple[list[str], str]:
    """Return the cells of the first line that isn't blank, and the delimiter."""
    packed = (zlib.error, EOFError, pa.ArrowException, OSError)
    damaged = "The file may be truncated or damaged; write it again."
    encoding = "Name its encoding, for example latin-1 or cp1252."
    with (
        explaining(f"{path} is not written in {style.encoding}", encoding, UnicodeError),
        explaining(f"{path}: the header cannot be read", "Look for an unclosed quote.", csv.Error),
        explaining(f"{path} cannot be unpacked", damaged, *packed),
    ):
        with _open_text(path, style) as handle:
            line = next((line for line in _lines(handle) if line.strip()), "")
        if not line:
            raise DataError(f"{path} is empty: no header and no rows. Pass a file with both.")
        if len(line) == BLOCK_BYTES and not line.endswith("\n"):
            raise DataError(
                f"{path}: the header has more than {BLOCK_BYTES:,} characters. Pass a file whose "
                "first line names the columns."
            )
        delimiter = max(_DELIMITERS, key=re.sub(r'"[^"]*"', "", line).count)
        with _open_text(path, style) as handle:
            return next(filter(None, csv.reader(_lines(handle), delimiter=delimiter))), delimiter
