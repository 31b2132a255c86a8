"""PostgreSQL by ADBC: every statement of a source runs in one exported snapshot."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import SplitResult, urlunsplit

import pyarrow as pa

from tanager.errors import DataError
from tanager.sources.queries import PIECE_ROWS, Database, Statement, quoted
from tanager.sources.source import BATCH_ROWS

# Rows come in the order they are stored, whichever statement runs beside.
_STEADY = ("SET synchronize_seqscans = off", "SET max_parallel_workers_per_gather = 0")


class PostgresServer(Database):
    """A PostgreSQL database at one moment.

    The connection that exported the snapshot stays open as long as the source does; other
    connections, also of other machines, read that snapshot.
    """

    def __init__(self, parts: SplitResult) -> None:
        self._uri = urlunsplit(parts)
        self.name = f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"
        anchor = self._connect()
        weakref.finalize(self, anchor.close)
        with anchor.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            cursor.execute("SELECT pg_export_snapshot()")
            self._snapshot = str(cursor.fetchone()[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return _Elsewhere, (self._uri, self.name, self._snapshot)

    def _connect(self) -> Any:
        from adbc_driver_postgresql import dbapi

        try:
            return dbapi.connect(self._uri)
        except Exception as error:  # the driver's own types
            text = " ".join(str(error).split()).rstrip(".").replace(self._uri, self.name)
            raise DataError(
                f"{self.name} cannot be reached: {text}. Check the address, and that the server "
                "takes connections."
            ) from error

    @contextmanager
    def stream(self, sql: str, batch_rows: int) -> Iterator[Any]:  # noqa: ARG002 - the driver's size
        """Run a statement in the snapshot."""
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            cursor.execute(f"SET TRANSACTION SNAPSHOT '{self._snapshot}'")
            for line in _STEADY:
                cursor.execute(line)
            cursor.execute(sql)
            with cursor.fetch_record_batch() as reader:
                yield _Plain(reader)

    def pieces(self, table: str) -> list[Statement]:
        """Return ranges of a table's blocks; none of a view, which has no blocks."""
        name = quoted(table).replace("'", "''")
        kinds = f"SELECT relkind::text FROM pg_class WHERE oid = '{name}'::regclass"
        with self.stream(kinds, 1) as batches:
            kind = batches.read_all().column(0)[0].as_py()
        if kind not in ("r", "m"):
            return []
        block = "(ctid::text::point)[0]::bigint"
        rows = f"SELECT count(*) AS n, max({block}) AS last FROM {quoted(table)}"
        with self.stream(rows, 1) as batches:
            row = batches.read_all().to_pylist()[0]
        if not row["n"]:
            return []
        size = max(1, PIECE_ROWS * (row["last"] + 1) // row["n"])  # blocks with about so many rows
        counts = f"SELECT {block} / {size} AS piece, count(*) AS n FROM {quoted(table)}"
        counts += " GROUP BY 1 ORDER BY 1"
        rows_of = f"SELECT {{columns}} FROM {quoted(table)}"
        with self.stream(counts, BATCH_ROWS) as batches:
            found = batches.read_all().to_pylist()
        return [
            Statement(f"{rows_of} WHERE {_blocks(one['piece'], size)}", one["n"]) for one in found
        ]


def _blocks(piece: int, size: int) -> str:
    return f"ctid >= '({piece * size},0)' AND ctid < '({(piece + 1) * size},0)'"


class _Elsewhere(PostgresServer):
    """The same snapshot in another process: the first one holds it."""

    def __init__(self, uri: str, name: str, snapshot: str) -> None:
        self._uri, self.name, self._snapshot = uri, name, snapshot


class _Plain:
    """Batches in which exact decimals, which the driver gives as text, are numbers."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._decimal = [getattr(f.type, "type_name", "") == "numeric" for f in reader.schema]
        self.schema = pa.schema(
            [
                pa.field(f.name, pa.float64()) if decimal else f
                for f, decimal in zip(reader.schema, self._decimal, strict=True)
            ]
        )

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._reader:
            arrays = [
                column.storage.cast(pa.float64()) if decimal else column
                for column, decimal in zip(batch.columns, self._decimal, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def read_all(self) -> pa.Table:
        """Return all rows."""
        return pa.Table.from_batches(list(self), schema=self.schema)
