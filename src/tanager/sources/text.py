"""CSV files: types settled once, then streamed."""

from __future__ import annotations

import copy
import csv
import gzip
import zlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tanager.errors import DataError
from tanager.sources.formats import TableFile
from tanager.sources.source import check_names

__all__ = ["CsvTable"]

# Cells that mean "missing". A quoted one counts too: writers quote all or nothing.
NULLS = ["", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "#N/A", "<NA>"]
_BOOLEANS = ["true", "True", "TRUE", "false", "False", "FALSE"]
BLOCK_BYTES = 1 << 22  # a row must fit into one

# From narrow to wide. A text that reads as one type reads as every wider one
# in the same row, so a column's type only ever moves to the right.
_WIDER = {
    pa.null(): (pa.int64(), pa.float64(), pa.bool_(), pa.string()),
    pa.int64(): (pa.int64(), pa.float64(), pa.string()),
    pa.float64(): (pa.float64(), pa.string()),
    pa.bool_(): (pa.bool_(), pa.string()),
    pa.string(): (pa.string(),),
}


class CsvTable(TableFile):
    """A CSV file with a header.

    One scan settles every column's type from all rows (integer, float,
    boolean, else string) and counts the rows. So a value of another type late
    in the file widens the column instead of failing, and every pass reads the
    same types. `as_text` overrules the guess. The delimiter is the comma, or,
    where the header has none, the semicolon or the tab.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        names, self._delimiter = _header(path)
        check_names(names)
        types = dict.fromkeys(names, pa.null())
        rows = 0
        for batch in self._read(names, dict.fromkeys(names, pa.string())):
            rows += batch.num_rows
            for name, column in zip(names, batch.columns, strict=True):
                types[name] = _settle(column, types[name])
        self.n_rows = rows
        self.schema = pa.schema(list(types.items()))

    def read(self, part: Any, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Iterate over the rows, block by block of the file."""
        return self._read(columns, {name: self.schema.field(name).type for name in columns})

    def as_text(self, columns: Collection[str]) -> CsvTable:
        """Return the same file with some columns as text."""
        twin = copy.copy(self)
        twin.schema = pa.schema(
            [(f.name, pa.string() if f.name in columns else f.type) for f in self.schema]
        )
        return twin

    def _read(
        self, columns: Sequence[str], types: dict[str, pa.DataType]
    ) -> Iterator[pa.RecordBatch]:
        try:
            with self._open(columns, types) as reader:
                for batch in reader:
                    if batch.num_rows:
                        yield batch
        except pa.ArrowInvalid as error:
            if " columns, got " in str(error):
                # Arrow counts records; only a re-read knows the line.
                raise _ragged(self.path, self._delimiter) from error
            raise

    def _open(self, columns: Sequence[str], types: dict[str, pa.DataType]) -> Any:
        import pyarrow.csv as pacsv

        return pacsv.open_csv(
            str(self.path),
            read_options=pacsv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False),
            parse_options=pacsv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
            convert_options=pacsv.ConvertOptions(
                column_types=types,
                include_columns=list(columns),
                null_values=NULLS,
                strings_can_be_null=True,
            ),
        )


def _settle(column: pa.Array, current: pa.DataType) -> pa.DataType:
    """Return the narrowest type, not narrower than the current one, that reads the column."""
    if column.null_count == len(column):
        return current
    import pyarrow.compute as pc

    # A leading zero is a code's (a zip code, a ward), not a number's.
    if pc.any(pc.match_substring_regex(column, r"^\s*0\d+\s*$")).as_py():
        return pa.string()
    for kind in _WIDER[current]:
        if kind == pa.string():
            break
        if kind == pa.bool_():
            # Casts know more spellings than the CSV reader, which knows these.
            if pc.all(pc.is_in(column.drop_null(), value_set=pa.array(_BOOLEANS))).as_py():
                return kind
            continue
        try:
            # The CSV reader trims numbers, so the test must too.
            pc.utf8_trim_whitespace(column).cast(kind)
        except pa.ArrowInvalid:
            continue
        return kind
    return pa.string()


def _open_text(path: Path) -> Any:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _header(path: Path) -> tuple[list[str], str]:
    if path.suffix in (".bz2", ".zst", ".lz4"):
        raise DataError(f"{path}: of packed CSV files only .gz is read. Unpack it first.")
    try:
        with _open_text(path) as handle:
            line = handle.readline()
    except (zlib.error, EOFError) as error:
        raise DataError(
            f"{path} cannot be unpacked ({error}). The file may be truncated or damaged; write it "
            "again."
        ) from error
    if not line.strip():
        raise DataError(f"{path} is empty: no header and no rows. Pass a file with both.")
    delimiter = next((mark for mark in (",", ";", "\t") if mark in line), ",")
    with _open_text(path) as handle:
        names = next(csv.reader(handle, delimiter=delimiter))
    return names, delimiter


def _ragged(path: Path, delimiter: str) -> DataError:
    """Find the first row whose number of cells differs from the header's."""
    with _open_text(path) as handle:
        reader = csv.reader(handle, delimiter=delimiter)
        expected = len(next(reader))
        for row in reader:
            if row and len(row) != expected:
                return DataError(
                    f"{path}, line {reader.line_num}: {len(row)} cells where the header has "
                    f"{expected}. Quote cells that hold the delimiter {delimiter!r}, or mend the "
                    "line."
                )
    return DataError(
        f"{path} has a row whose number of cells differs from the header's {expected}."
    )
