"""Database tables and queries, streamed: DuckDB files and relations, PostgreSQL via ADBC.

``duckdb:///folder/file.db?table=visits`` reads a table, ``?sql=SELECT ...`` the result of a query;
URLs that start with ``postgresql://`` work the same way. Both reads of a fit see the same rows:
either they use one snapshot, or an error is raised if the rows have changed.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

import numpy as np
import pyarrow as pa

from tanager.errors import ConfigurationError, DataError, explaining, one_line
from tanager.sources.plain import plain_schema
from tanager.sources.remote import Stamp
from tanager.sources.source import BATCH_ROWS, Batches, Source, StoredPart

PIECE_ROWS = 4 * BATCH_ROWS  # rows of a table that are read independently
MIXER, MOST = 0x9E3779B97F4A7C15, (1 << 64) - 1
RELATION = "tanager_relation"
HINT = "Check the address, the names and the query."
# Return rows in storage order, whatever else is running.
_STEADY = ("SET synchronize_seqscans = off", "SET max_parallel_workers_per_gather = 0")


class Statement(NamedTuple):
    """A statement that returns rows, and the number of its rows."""

    sql: str  # with {columns} for the columns of a table
    n_rows: int


class Database(ABC):
    """Where statements run: an address, small and picklable, and the snapshot to read."""

    name: str  # for messages, without password

    @abstractmethod
    def stream(self, sql: str, batch_rows: int) -> AbstractContextManager[Any]:
        """Run a statement; return an iterator over record batches that has a schema."""

    @abstractmethod
    def pieces(self, table: str) -> list[Statement]:
        """Return statements that together return the rows of a table, in order."""

    def count(self, sql: str) -> int:
        """Return the number of rows of a statement."""
        with self.stream(f"SELECT count(*) AS n FROM ({sql}) AS r", 1) as batches:
            return int(next(iter(batches)).column(0)[0].as_py())


def quoted(table: str) -> str:
    """Return a table's name, optionally with its schema before a dot, quoted for SQL.

    >>> quoted("main.visits 2024")
    '"main"."visits 2024"'
    """
    return ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))


def _open_rows(database: Database, table: str, sql: str = "") -> Source:
    """Open a table in pieces, or the result of a query as a single piece."""
    with explaining(f"{database.name} cannot be read", HINT, Exception):
        sql = sql or f"SELECT * FROM {quoted(table)}"
        with database.stream(f"SELECT * FROM ({sql}) AS r LIMIT 0", 1) as empty:
            schema = plain_schema(empty.schema)
        pieces = database.pieces(table) if table else []
        pieces = pieces or [Statement(sql, database.count(sql))]
    return Source(schema, [QueryPart(database, piece) for piece in pieces])


@dataclass(frozen=True, eq=False)
class QueryPart(StoredPart):
    """The rows of one statement, which runs when they are read."""

    database: Database
    piece: Statement
    seen: dict[str, int] = field(default_factory=dict)  # column to its checksum in the first read

    foreign = (Exception,)  # each library has its own exception types
    hint = HINT

    @property
    def name(self) -> str:  # type: ignore[override]
        """The database's name in messages."""
        return self.database.name

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        """Number of rows."""
        return self.piece.n_rows

    def stream(self, schema: pa.Schema, batch_rows: int) -> Batches:
        """Run the statement and iterate over its rows."""
        names = ", ".join(map(quoted_name, schema.names))
        with self.database.stream(self.piece.sql.replace("{columns}", names), batch_rows) as found:
            yield from found

    def read(self, schema: pa.Schema, batch_rows: int) -> Batches:
        """Iterate over the rows; raise if they differ from those of the first read."""
        tallies = dict.fromkeys(schema.names, 0)
        for batch in super().read(schema, batch_rows):
            for name, column in zip(schema.names, batch.columns, strict=True):
                tallies[name] = (tallies[name] + _tally(column)) & MOST
            yield batch
        if any(self.seen.setdefault(name, tally) != tally for name, tally in tallies.items()):
            raise self.changed(0)

    def changed(self, n_rows: int) -> DataError:  # noqa: ARG002 - the number of rows isn't needed
        """Return the error for rows that have changed since the first read."""
        return DataError(
            f"{self.database.name} returned different rows than before. All reads must see the "
            "same rows: leave the tables alone until the work is done, remove anything random from "
            "the query, or write the result to a Parquet file first."
        )


def quoted_name(name: str) -> str:
    """Return a column's name, quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def _tally(column: pa.Array) -> int:
    """Return a 64-bit checksum of the values that ignores their order; sums wrap around."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    n_null, column = column.null_count, column.drop_null()
    start, end = column.offset, column.offset + len(column)
    data = np.frombuffer(column.buffers()[-1] or b"", np.uint8)
    if pa.types.is_boolean(column.type):
        total = int(column.true_count)
    elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        wide = np.int64 if pa.types.is_large_string(column.type) else np.int32
        ends = np.frombuffer(column.buffers()[1] or b"", wide)
        data = data[ends[start] : ends[end]] if len(column) else data[:0]
        total = int(data.sum(dtype=np.uint64)) + (data.size << 40)
    else:
        width = column.type.bit_width // 8
        data = data[start * width : end * width]
        total = int((data.view(f"u{width}") if width <= 8 else data).sum(dtype=np.uint64))
    return (n_null + total * MIXER) & MOST


class DuckFile(Database):
    """A DuckDB file, which must not change while in use."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise DataError(f"No such file: {path}. Check the path.")
        self.path, self.name = path, f"duckdb://{path}"
        self._stamp = Stamp.of(path)

    @contextmanager
    def stream(self, sql: str, batch_rows: int) -> Iterator[Any]:
        """Run a statement over its own connection."""
        import duckdb

        self._stamp.check()
        with duckdb.connect(str(self.path), read_only=True) as connection:
            yield arrow_reader(connection.sql(sql), batch_rows)
        self._stamp.check()

    def pieces(self, table: str) -> list[Statement]:
        """Return ranges of row ids, or an empty list for a view, which has no row ids."""
        import duckdb

        ids = f"SELECT rowid // {PIECE_ROWS} AS piece FROM {quoted(table)}"
        try:
            with self.stream(
                f"SELECT piece, count(*) AS n FROM ({ids}) GROUP BY piece ORDER BY piece",
                BATCH_ROWS,
            ) as batches:
                counts = [row for batch in batches for row in batch.to_pylist()]
        except duckdb.BinderException:
            return []
        return [
            Statement(
                f"SELECT {{columns}} FROM {quoted(table)} WHERE rowid >= "
                f"{row['piece'] * PIECE_ROWS} AND rowid < {(row['piece'] + 1) * PIECE_ROWS}",
                row["n"],
            )
            for row in counts
        ]


class DuckRelation(Database):
    """A DuckDB relation of this process, run again for every read."""

    name = "The DuckDB relation"

    def __init__(self, relation: Any) -> None:
        self._relation = relation

    @contextmanager
    def stream(self, sql: str, batch_rows: int) -> Iterator[Any]:
        """Run the relation, or a statement that refers to it by the name it has here."""
        relation = self._relation.query(RELATION, sql) if sql else self._relation
        yield arrow_reader(relation, batch_rows)

    def pieces(self, table: str) -> list[Statement]:  # noqa: ARG002 - there is only one
        """Return a single piece."""
        return [Statement("", self.count(f"SELECT 1 FROM {RELATION}"))]

    def __reduce__(self) -> Any:
        raise DataError(
            "A DuckDB relation can only be read in the process that made it. For a cluster, write "
            "it to Parquet, or name the database: duckdb:///file.db?sql=..."
        )


def arrow_reader(relation: Any, batch_rows: int) -> Any:
    """Run a relation and return its batches as a stream; DuckDB has renamed the method."""
    stream = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    return stream(batch_rows)


def open_relation(relation: Any) -> Source:
    """Open a DuckDB relation without reading its rows into memory."""
    return _open_rows(DuckRelation(relation), RELATION)


DATABASES = ("duckdb", "postgres", "postgresql")  # the schemes of their URLs


def open_query(url: str) -> Source:
    """Open the table or query given by a database URL."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    table, sql = options.pop("table", ""), options.pop("sql", "")
    if bool(table) == bool(sql):
        shown = url.partition("?")[0].rpartition("@")[2]
        raise ConfigurationError(
            f"{shown}: name a table or give a query, for example "
            f"{parts.scheme}:///name?table=visits or ?sql=SELECT%20*%20FROM%20visits."
        )
    try:
        if parts.scheme == "duckdb":
            return _open_rows(DuckFile(Path(unquote(parts.netloc + parts.path))), table, sql)
        address = parts._replace(query=urlencode(options, quote_via=quote))
        return _open_rows(PostgresServer(address), table, sql)
    except ModuleNotFoundError as error:
        package = "duckdb" if parts.scheme == "duckdb" else "'tanager[postgres]'"
        raise DataError(
            f"{parts.scheme}:// needs the package {error.name}. Install it: pip install {package}."
        ) from error


class PostgresServer(Database):
    """A PostgreSQL database at a point in time.

    The connection that exported the snapshot stays open; others, on any machine, read it. Pickling
    stores a reference to that snapshot, which the first process holds.
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

    def _connect(self) -> Any:
        from adbc_driver_postgresql import dbapi

        try:
            return dbapi.connect(self._uri)
        except Exception as error:  # the driver's own exception types
            text = one_line(error).replace(self._uri, self.name)
            raise DataError(
                f"{self.name} cannot be reached: {text}. Check the address, and that the server "
                "takes connections."
            ) from error

    @contextmanager
    def stream(self, sql: str, batch_rows: int) -> Iterator[Any]:  # noqa: ARG002 - driver decides
        """Run a statement in the snapshot."""
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            cursor.execute(f"SET TRANSACTION SNAPSHOT '{self._snapshot}'")
            for line in _STEADY:
                cursor.execute(line)
            cursor.execute(sql)
            with cursor.fetch_record_batch() as reader:
                yield _with_numbers(reader)

    def pieces(self, table: str) -> list[Statement]:
        """Return ranges of a table's blocks, or an empty list for a view, which has no blocks."""
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
        size = max(1, PIECE_ROWS * (row["last"] + 1) // row["n"])  # blocks per piece
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


def _with_numbers(reader: Any) -> pa.RecordBatchReader:
    """Return batches with exact decimals, which the driver returns as text, as numbers."""
    fields = list(reader.schema)
    exact = [at for at, f in enumerate(fields) if getattr(f.type, "type_name", "") == "numeric"]
    for at in exact:
        fields[at] = pa.field(fields[at].name, pa.float64())
    schema = pa.schema(fields)

    def batches() -> Batches:
        for batch in reader:
            arrays = batch.columns
            for at in exact:
                arrays[at] = arrays[at].storage.cast(pa.float64())
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())
