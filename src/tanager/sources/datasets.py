"""Tables partitioned by other libraries: Arrow datasets, Delta, Iceberg, Dask DataFrames."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow as pa

from tanager.errors import ConfigurationError, DataError, explaining, listed, requiring
from tanager.sources.formats import batched, unify_schemas
from tanager.sources.gate import pandas_to_arrow, plain_schema
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

    def stream(self, schema: pa.Schema, batch_rows: int) -> Batches:
        """Iterate over the batches of the scanner, with little readahead."""
        # Only the engine starts threads. A dataset knows its schema, a fragment doesn't.
        known = {} if hasattr(self.part, "get_fragments") else {"schema": self.stored}
        scanner = self.part.scanner(
            columns=schema.names,
            batch_size=batch_rows,
            batch_readahead=1,
            fragment_readahead=1,
            use_threads=False,
            **known,
        )
        return iter(scanner.to_batches())


def open_lake_table(table: Any) -> Source:
    """Open a table object at its current snapshot."""
    if type(table).__name__ == "DeltaTable":
        return _open_delta(table)
    return _read_snapshot(table, None)


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
            return _open_iceberg(url)
        from deltalake import DeltaTable

        address, _, query = url.partition("?")
        version = _whole(dict(parse_qsl(query)), "version", url)
        place = address.removeprefix("delta+")
        if place.startswith(("delta://", "file://")):
            place = unquote(place.partition("://")[2])
        with _opening(url):
            return _open_delta(DeltaTable(place, version=version))


def _open_delta(table: Any) -> Source:
    # The dataset lists the files of this version, which are never rewritten.
    with _opening(table.table_uri):
        return open_dataset(table.to_pyarrow_dataset())


def _open_iceberg(url: str) -> Source:
    from pyiceberg.catalog import load_catalog

    parts = urlsplit(url)
    name = unquote(parts.path.strip("/"))
    if not parts.netloc or "." not in name:
        raise ConfigurationError(
            f"{url} does not name a table. Write iceberg://catalog/namespace.table."
        )
    with _opening(url):
        table = load_catalog(parts.netloc).load_table(name)
    return _read_snapshot(table, _whole(dict(parse_qsl(parts.query)), "snapshot", url))


def _whole(options: dict[str, str], name: str, url: str) -> int | None:
    strange = [key for key in options if key != name]
    value = options.get(name)
    if strange or (value is not None and not value.isdecimal()):
        raise ConfigurationError(f"{url}: only {name}=NUMBER can follow the question mark.")
    return None if value is None else int(value)


def _opening(name: str) -> AbstractContextManager[None]:
    """Explain errors of a library that has its own exception types."""
    hint = "Check the address, the names, the version or query, and the store's credentials."
    return explaining(f"{name} cannot be read", hint, Exception)


def _read_snapshot(table: Any, snapshot: int | None) -> Source:
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
            return sum(batch.num_rows for batch in self.stream(first, BATCH_ROWS))
        return int(self.task.file.record_count)

    def stream(self, schema: pa.Schema, batch_rows: int) -> Batches:  # noqa: ARG002
        """Iterate over the rows that aren't deleted."""
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        wanted = self.stored.select(*schema.names)
        scan = ArrowScan(self.metadata, self.io, wanted, AlwaysTrue())
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

    def stream(self, schema: pa.Schema, batch_rows: int) -> Batches:
        """Compute the partition and iterate over its rows."""
        import cloudpickle

        frame = cloudpickle.loads(self.work).compute(scheduler="synchronous")
        return iter(pandas_to_arrow(frame[schema.names]).to_batches(batch_rows))


def _facts(frame: Any) -> tuple[int, pa.Schema]:
    return len(frame), plain_schema(pandas_to_arrow(frame).schema)
