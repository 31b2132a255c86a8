"""Tables and queries of databases: DuckDB files and relations, PostgreSQL via ADBC.

``duckdb:///folder/file.db?table=visits`` reads a table, ``?sql=SELECT ...`` the result of a query;
URLs that start with ``postgresql://`` work the same way. A statement runs once: its rows are
streamed to a temporary Parquet file, so that all reads see the same rows.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

import pyarrow as pa

from tanager.errors import ConfigurationError, DataError, explaining, listed, one_line, requiring
from tanager.sources.files import FilePart, open_files
from tanager.sources.gate import cast_batch, plain_schema
from tanager.sources.source import BATCH_ROWS, Source


def open_query(url: str) -> Source:
    """Run the query, or read the table, given by a database URL."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    table, sql = options.pop("table", ""), options.pop("sql", "")
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"  # without password
    if bool(table) == bool(sql):
        raise ConfigurationError(
            f"{shown}: name a table or give a query, for example "
            f"{parts.scheme}:///name?table=visits or ?sql=SELECT%20*%20FROM%20visits."
        )
    sql = sql or f"SELECT * FROM {quoted(table)}"
    address = parts._replace(query=urlencode(options, quote_via=quote))
    package = "duckdb" if parts.scheme == "duckdb" else "'tanager[postgres]'"
    with (
        requiring(f"{parts.scheme}://", package),
        DATABASES[parts.scheme](address, shown, sql) as rows,
    ):
        return _spool(shown, rows)


def open_relation(relation: Any) -> Source:
    """Run a DuckDB relation, without reading its rows into memory."""
    name = "The DuckDB relation"
    with _explained(name):
        batches = _stream(relation)
    return _spool(name, batches)


def quoted(table: str) -> str:
    """Return a table's name, optionally with its schema before a dot, quoted for SQL."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))


@contextmanager
def _run_duckdb(address: SplitResult, shown: str, sql: str) -> Iterator[Any]:
    import duckdb

    path = Path(unquote(address.netloc + address.path))
    if not path.is_file():
        raise DataError(f"No such file: {path}. Check the path.")
    with _explained(shown), duckdb.connect(str(path), read_only=True) as connection:
        yield _stream(connection.sql(sql))


def _stream(relation: Any) -> Any:
    """Run a relation and return its batches; DuckDB has renamed the method."""
    stream = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    return stream(BATCH_ROWS)


@contextmanager
def _run_postgres(address: SplitResult, shown: str, sql: str) -> Iterator[Any]:
    from adbc_driver_postgresql import dbapi

    uri = urlunsplit(address)
    try:
        connection = dbapi.connect(uri)
    except Exception as error:  # the driver's own exception types
        text = one_line(error).replace(uri, shown)
        raise DataError(
            f"{shown} cannot be reached: {text}. Check the address, and that the server takes "
            "connections."
        ) from error
    with _explained(shown), connection, connection.cursor() as cursor:
        cursor.execute(sql)
        with cursor.fetch_record_batch() as reader:
            yield _with_numbers(reader)


def _with_numbers(reader: Any) -> pa.RecordBatchReader:
    """Return batches with exact decimals, which the driver returns as text, as numbers."""
    fields = list(reader.schema)
    exact = [at for at, f in enumerate(fields) if getattr(f.type, "type_name", "") == "numeric"]
    for at in exact:
        fields[at] = pa.field(fields[at].name, pa.float64())
    schema = pa.schema(fields)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            arrays = batch.columns
            for at in exact:
                arrays[at] = arrays[at].storage.cast(pa.float64())
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


DATABASES = {"duckdb": _run_duckdb, "postgres": _run_postgres, "postgresql": _run_postgres}


def _explained(name: str) -> AbstractContextManager[None]:
    hint = "Check the address, the names and the query."
    return explaining(f"{name} cannot be read", hint, Exception)


def _spool(name: str, batches: Any) -> Source:
    """Write record batches to a Parquet file that lives as long as the source."""
    import pyarrow.parquet as pq

    handle, place = tempfile.mkstemp(prefix="tanager-", suffix=".parquet")
    os.close(handle)
    path, schema, n_rows = Path(place), plain_schema(batches.schema), 0
    spans = [field.name for field in schema if pa.types.is_interval(field.type)]
    try:
        if spans:
            raise DataError(
                f"{name} has intervals of months and days in {listed(spans)}. Turn them into "
                "numbers in the query, for example seconds with epoch(...)."
            )
        with _explained(name), pq.ParquetWriter(path, schema, compression="lz4") as writer:
            for batch in batches:
                writer.write_batch(cast_batch(batch, schema), row_group_size=BATCH_ROWS)
                n_rows += batch.num_rows
        if not n_rows:
            raise DataError(f"{name} returned 0 rows. Check the query.")
        source = open_files([path])
    except BaseException:
        path.unlink()
        raise
    part = source.fragments()[0].part
    assert isinstance(part, FilePart)
    weakref.finalize(part.file, path.unlink, missing_ok=True)  # which all views share
    return source
