"""Tables of other libraries: Arrow datasets, Delta, Iceberg, Dask DataFrames, databases.

``duckdb:///folder/file.db?table=visits`` reads a table of a database, ``?sql=SELECT ...`` the
result of a query; URLs that start with ``postgresql://`` work the same way. A statement runs once:
its rows are streamed to a temporary Parquet file, so that all reads see the same rows.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

import pyarrow as pa

from tanager.errors import ConfigurationError, DataError, explaining, listed, one_line, requiring
from tanager.sources.files import FilePart, open_files
from tanager.sources.formats import batched, unify_schemas
from tanager.sources.gate import pandas_to_arrow
from tanager.sources.plain import cast_batch, cast_schema, plain_schema
from tanager.sources.remote import exists, is_url, local_path
from tanager.sources.source import BATCH_ROWS, Batches, Source, StoredPart

LOG = "_delta_log"


def open_dataset(dataset: Any) -> Source:
    """Open a dataset; a dataset of tables in memory becomes a table in memory."""
    import pyarrow.dataset as ds

    if isinstance(dataset, ds.InMemoryDataset):
        return Source.of_table(dataset.to_table())
    try:
        with_rows = [(part, n) for part in _parts(dataset) if (n := int(part.count_rows()))]
    except ValueError:  # the dataset has a filter, which its parts wouldn't apply
        with_rows = [(dataset, int(dataset.count_rows()))]
    parts = [_DatasetPart(part, dataset.schema, n) for part, n in with_rows]
    return Source(plain_schema(dataset.schema), parts)


def _parts(dataset: Any) -> Iterator[Any]:
    """Iterate over the files; Parquet files are split into groups of row groups."""
    for fragment in dataset.get_fragments():
        groups = getattr(fragment, "row_groups", None)
        if not groups:
            yield fragment
            continue
        for places in batched([group.num_rows for group in groups]):
            yield fragment.subset(row_group_ids=[groups[at].id for at in places])


@dataclass(frozen=True, eq=False)
class _DatasetPart(StoredPart):
    """Some row groups of a file, a file, or an entire dataset with a filter."""

    part: Any  # pyarrow.dataset.Fragment or Dataset
    stored: pa.Schema
    n_rows: int

    name = "The dataset"
    hint = "One of its files may be damaged, or of other types than its schema; write it again."

    def stream(self, schema: pa.Schema) -> Batches:
        """Iterate over the batches of the scanner, with little readahead."""
        # Only the engine starts threads. A dataset knows its schema, a fragment doesn't.
        known = {} if hasattr(self.part, "get_fragments") else {"schema": self.stored}
        ahead = {"batch_readahead": 1, "fragment_readahead": 1, "use_threads": False}
        scanner = self.part.scanner(columns=schema.names, batch_size=BATCH_ROWS, **ahead, **known)
        return iter(scanner.to_batches())


def is_delta_folder(path: str) -> bool:
    """Return whether a path or URL is a folder that contains a Delta log."""
    if is_url(path) and local_path(path) is None:
        address, mark, query = path.partition("?")
        if "*" in address or "." in address.rstrip("/").rpartition("/")[2]:
            return False
        return exists(f"{address.rstrip('/')}/{LOG}{mark}{query}")
    log = (local_path(path) or Path(path)) / LOG
    return os.path.isdir(log)  # noqa: PTH112 (Path.is_dir raises if the name is too long)


def open_lake(url: str) -> Source:
    """Open a table by its URL.

    ``delta:///folder`` and ``delta+s3://bucket/table``, with ``?version=3`` for an older version;
    a folder with a Delta log; ``iceberg://catalog/namespace.table``, with ``?snapshot=ID``.
    """
    with requiring(f"{url}, a Delta or Iceberg table,", "'tanager[lakes]'"):
        if url.startswith("iceberg://"):
            return _load_iceberg(url)
        from deltalake import DeltaTable

        address, _, query = url.partition("?")
        version = _whole(dict(parse_qsl(query)), "version", url)
        place = address.removeprefix("delta+")
        if place.startswith(("delta://", "file://")):
            place = unquote(place.partition("://")[2])
        with _opening(url):
            return open_delta(DeltaTable(place, version=version))


def open_delta(table: Any) -> Source:
    """Open a Delta table at the version that it was loaded with."""
    # The dataset lists the files of this version, which are never rewritten.
    with _opening(table.table_uri):
        return open_dataset(table.to_pyarrow_dataset())


def _load_iceberg(url: str) -> Source:
    from pyiceberg.catalog import load_catalog

    parts = urlsplit(url)
    name = unquote(parts.path.strip("/"))
    if not parts.netloc or "." not in name:
        raise ConfigurationError(f"{url} names no table. Write iceberg://catalog/namespace.table.")
    with _opening(url):
        table = load_catalog(parts.netloc).load_table(name)
    return open_iceberg(table, _whole(dict(parse_qsl(parts.query)), "snapshot", url))


def _whole(options: dict[str, str], name: str, url: str) -> int | None:
    strange = [key for key in options if key != name]
    value = options.get(name)
    if strange or (value is not None and not value.isdecimal()):
        raise ConfigurationError(f"{url}: only {name}=NUMBER can follow the question mark.")
    return None if value is None else int(value)


def _opening(name: str) -> AbstractContextManager[None]:
    """Explain errors of a library that has its own exception types."""
    hint = "Check the address, the names, the version or query, and the credentials."
    return explaining(f"{name} cannot be read", hint, Exception)


def open_iceberg(table: Any, snapshot: int | None = None) -> Source:
    """Open an Iceberg table at a snapshot, by default the current one."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    current = table.current_snapshot()
    pinned = snapshot if snapshot is not None or current is None else current.snapshot_id
    scan = table.scan(snapshot_id=pinned)
    with _opening(".".join(table.name())):
        tasks = sorted(scan.plan_files(), key=lambda task: task.file.file_path)
    stored = scan.projection()
    schema = plain_schema(schema_to_pyarrow(stored, include_field_ids=False))
    return Source(schema, [_DataFile(table.metadata, table.io, stored, task) for task in tasks])


@dataclass(frozen=True, eq=False)
class _DataFile(StoredPart):
    """A data file of a table, with its deleted rows."""

    metadata: Any
    io: Any
    stored: Any
    task: Any

    hint = "The snapshot may have expired; open the table again."

    @property
    def name(self) -> str:  # type: ignore[override]
        """The path of the file."""
        return str(self.task.file.file_path)

    @cached_property
    def n_rows(self) -> int:  # type: ignore[override]
        """Number of rows; the file has to be read for it if some are deleted."""
        if self.task.delete_files:
            first = pa.schema([(self.stored.fields[0].name, pa.null())])
            return sum(batch.num_rows for batch in self.stream(first))
        return int(self.task.file.record_count)

    def stream(self, schema: pa.Schema) -> Batches:
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        scan = ArrowScan(self.metadata, self.io, self.stored.select(*schema.names), AlwaysTrue())
        return iter(scan.to_record_batches([self.task]))


def is_dask_frame(X: Any) -> bool:
    """Return whether this is a Dask DataFrame, without importing anything."""
    is_dask = type(X).__module__.partition(".")[0] == "dask"
    return is_dask and hasattr(type(X), "columns") and X.ndim == 2


def open_dask(frame: Any) -> Source:
    """Open a Dask DataFrame; every partition is computed once for its size and types."""
    import cloudpickle
    import dask

    parts = frame.to_delayed()
    facts = dask.compute(*[dask.delayed(_facts)(part) for part in parts])
    # Empty partitions don't reveal the types of object columns.
    schemas = [schema for n_rows, schema in facts if n_rows] or [facts[0][1]]
    for at, (_, schema) in enumerate(facts):
        odd = sorted(set(schema.names) ^ set(facts[0][1].names))
        if odd:
            raise DataError(
                f"The partitions 0 and {at} of the Dask DataFrame differ in the column(s) "
                f"{listed(odd)}. Give every partition the same columns."
            )
    schema = unify_schemas(schemas, "The partitions of the Dask DataFrame")
    pairs = zip(parts, facts, strict=True)
    return Source(schema, [_Partition(cloudpickle.dumps(part), n) for part, (n, _) in pairs])


@dataclass(frozen=True, eq=False)
class _Partition(StoredPart):
    """A partition: a task that is computed in the thread that reads it."""

    work: bytes
    n_rows: int

    name = "A partition of the Dask DataFrame"
    hint = "Convert the column with astype first."

    def stream(self, schema: pa.Schema) -> Batches:
        import cloudpickle

        frame = cloudpickle.loads(self.work).compute(scheduler="synchronous")
        return iter(pandas_to_arrow(frame[schema.names]).to_batches(BATCH_ROWS))


def _facts(frame: Any) -> tuple[int, pa.Schema]:
    return len(frame), plain_schema(pandas_to_arrow(frame).schema)


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
    with _opening(name):
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
    with _opening(shown), duckdb.connect(str(path), read_only=True) as connection:
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
            f"{shown} cannot be reached: {text}. Check the address, and that the server runs."
        ) from error
    with _opening(shown), connection, connection.cursor() as cursor:
        cursor.execute(sql)
        with cursor.fetch_record_batch() as reader:
            yield _with_numbers(reader)


def _with_numbers(reader: Any) -> pa.RecordBatchReader:
    """Return batches with exact decimals, which the driver returns as text, as numbers."""
    fields = enumerate(reader.schema)
    exact = {at: f for at, f in fields if getattr(f.type, "type_name", "") == "numeric"}
    schema = cast_schema(reader.schema, {f.name: pa.float64() for f in exact.values()})

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            arrays = batch.columns
            for at in exact:
                arrays[at] = arrays[at].storage.cast(pa.float64())
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


DATABASES = {"duckdb": _run_duckdb, "postgres": _run_postgres, "postgresql": _run_postgres}


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
        with _opening(name), pq.ParquetWriter(path, schema, compression="lz4") as writer:
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
