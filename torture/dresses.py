"""The same rows in every dress: libraries, types, orders of columns, chunks, files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

__all__ = ["dresses"]

CODED = ("word", "flag", "zip", "large", "size", "level")
TYPES = (
    (("whole", "zip", "flag"), pa.float64()),
    (("whole", "flag"), pa.int8()),
    (("whole", "zip"), pa.int32()),
    (("zip",), pa.uint64()),
    (("whole", "zip", "real"), pa.decimal128(24, 3)),
    (("whole", "zip", "large"), pa.string()),
    (("real", "level"), pa.float32()),
    (("word", "size"), pa.large_string()),
    (("word", "size"), pa.binary()),
    (("day",), pa.timestamp("ns")),
    (("day",), pa.timestamp("us", "UTC")),
    (("day",), pa.date64()),
)


def dresses(table: pa.Table, folder: Path) -> Iterator[tuple[str, Any]]:
    """Iterate over names and tables, all of the same rows."""
    yield from _frames(table)
    yield "columns turned", table.select(table.column_names[::-1])
    yield "chunks of 3", pa.concat_tables([table.slice(at, 3) for at in range(0, len(table), 3)])
    yield (
        "dictionaries, others in each chunk",
        pa.concat_tables(
            [_coded(table.slice(at, 50).combine_chunks()) for at in range(0, len(table), 50)]
        ),
    )
    yield "lists of columns", table.to_pydict()
    yield "a list of rows", table.to_pylist()
    nan = [_nan(column) for column in table.columns]
    yield "NaN for gaps", pa.table(nan, names=table.column_names)
    for names, kind in TYPES:
        dressed = table
        for name in names:
            dressed = _cast(dressed, name, kind)
        yield f"{', '.join(names)} of type {kind}", dressed
    yield from _files(table, folder)


def _frames(table: pa.Table) -> Iterator[tuple[str, Any]]:
    import pandas as pd

    frame = table.to_pandas()
    yield "pandas", frame
    yield "pandas, columns turned", frame[frame.columns[::-1]]
    yield "pandas objects", frame.astype(object)
    yield "pandas with NA", frame.convert_dtypes()
    yield "pandas on Arrow", frame.convert_dtypes(dtype_backend="pyarrow")
    categories = frame.copy()
    for name in CODED:
        values = sorted(set(frame[name].dropna()), reverse=True)
        other = "never seen" if isinstance(values[0], str) else -99
        categories[name] = pd.Categorical(frame[name], categories=[other, *values])
    yield "pandas categories in another order", categories
    try:
        import polars
    except ImportError:
        return
    yield "polars", polars.from_arrow(table)


def _coded(table: pa.Table) -> pa.Table:
    columns = [table[n].dictionary_encode() if n in CODED else table[n] for n in table.column_names]
    return pa.table(columns, names=table.column_names)


def _nan(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.fill_null(float("nan")) if pa.types.is_floating(column.type) else column


def _cast(table: pa.Table, name: str, kind: pa.DataType) -> pa.Table:
    column = table[name]
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return table.set_column(table.column_names.index(name), name, column.cast(kind))


def _files(table: pa.Table, folder: Path) -> Iterator[tuple[str, Any]]:
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

    pq.write_table(table, folder / "dress.parquet", row_group_size=33)
    yield "Parquet", str(folder / "dress.parquet")
    pacsv.write_csv(table, folder / "dress.csv")
    yield "CSV", str(folder / "dress.csv")
    place = folder / "dress"
    place.mkdir(exist_ok=True)
    for at, part in enumerate((table.slice(0, 70), table.slice(0, 0), table.slice(70))):
        pacsv.write_csv(part, place / f"{at}.csv")
    yield "CSV files, one without rows", str(place)
