"""DuckDB tables, queries and relations.

``duckdb:///folder/file.db?table=visits`` reads a table, ``?sql=SELECT ...`` the result of a query.
A statement runs once: its rows are streamed to a temporary Parquet file, so that all reads see the
same rows.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tanager.errors import ConfigurationError, DataError, explaining
from tanager.sources.files import FilePart, open_files
from tanager.sources.plain import cast_batch, plain_schema
from tanager.sources.source import BATCH_ROWS, Source


def open_query(url: str) -> Source:
    """Run the query, or read the table, given by the URL of a DuckDB file."""
    parts = urlsplit(url)
    options, path = dict(parse_qsl(parts.query)), Path(unquote(parts.netloc + parts.path))
    table, sql = options.get("table", ""), options.get("sql", "")
    if bool(table) == bool(sql):
        raise ConfigurationError(
            f"duckdb://{path}: name a table or give a query, for example "
            "duckdb:///name?table=visits or ?sql=SELECT%20*%20FROM%20visits."
        )
    if not path.is_file():
        raise DataError(f"No such file: {path}. Check the path.")
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise DataError(
            "duckdb:// needs the package duckdb. Install it: pip install duckdb."
        ) from error
    with (
        _explained(f"duckdb://{path}"),
        duckdb.connect(str(path), read_only=True) as connection,
    ):
        return open_relation(connection.sql(sql or f"SELECT * FROM {quoted(table)}"))


def _explained(name: str) -> Any:
    hint = "Check the address, the names and the query."
    return explaining(f"{name} cannot be read", hint, Exception)


def quoted(table: str) -> str:
    """Return a table's name, optionally with its schema before a dot, quoted for SQL."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))


def open_relation(relation: Any) -> Source:
    """Run a DuckDB relation: write its rows to a Parquet file that lives as long as the source."""
    import pyarrow.parquet as pq

    handle, place = tempfile.mkstemp(prefix="tanager-", suffix=".parquet")
    os.close(handle)
    path, n_rows = Path(place), 0
    try:
        with _explained("The DuckDB relation"):
            # DuckDB has renamed the method.
            stream = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
            batches = stream(BATCH_ROWS)
            schema = plain_schema(batches.schema)
            with pq.ParquetWriter(path, schema, compression="lz4") as writer:
                for batch in batches:
                    writer.write_batch(cast_batch(batch, schema), row_group_size=BATCH_ROWS)
                    n_rows += batch.num_rows
        if not n_rows:
            raise DataError("The query returned 0 rows. Check it.")
        source = open_files([path])
    except BaseException:
        path.unlink()
        raise
    part = source.fragments()[0].part
    assert isinstance(part, FilePart)
    weakref.finalize(part.file, path.unlink, missing_ok=True)  # which all views share
    return source
