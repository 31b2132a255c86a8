"""Delta Lake and Apache Iceberg tables, pinned to the snapshot they had when they were opened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow as pa

from tanager.errors import ConfigurationError, DataError
from tanager.sources.plain import cast_batch, plain_schema
from tanager.sources.source import BATCH_ROWS, Fragment, Source

LOG = "_delta_log"


def open_lake_table(table: Any) -> Source:
    """Open a table object at the snapshot it shows."""
    if type(table).__name__ == "DeltaTable":
        return _open_delta(table)
    return IcebergSource(table, None)


def is_delta_folder(path: str) -> bool:
    """Return whether a path or URL is a folder with a Delta table's log.

    Its Parquet files alone are not the table: some were replaced or deleted.
    """
    from tanager.sources.remote import exists, is_url, local_path

    if is_url(path) and local_path(path) is None:
        address, mark, query = path.partition("?")
        if "*" in address or "." in address.rstrip("/").rpartition("/")[2]:
            return False
        return exists(f"{address.rstrip('/')}/{LOG}{mark}{query}")
    return ((local_path(path) or Path(path)) / LOG).is_dir()


def open_lake(url: str) -> Source:
    """Open a table by its address.

    ``delta:///folder`` and ``delta+s3://bucket/table``, with ``?version=3`` for an older one; a
    folder with a Delta log; ``iceberg://catalog/namespace.table``, with ``?snapshot=ID``, the
    catalog as pyiceberg's configuration names it.
    """
    scheme = url.partition("://")[0] if "://" in url else ""
    try:
        if scheme == "iceberg":
            return _open_iceberg(url)
        from deltalake import DeltaTable

        address, _, query = url.partition("?")
        version = _whole(dict(parse_qsl(query)), "version", url)
        place = address.removeprefix("delta+")
        if place.startswith(("delta://", "file://")):
            place = unquote(place.partition("://")[2])
        return _open_delta(_explained(url, lambda: DeltaTable(place, version=version)))
    except ModuleNotFoundError as error:
        raise DataError(
            f"{url} is a Delta or Iceberg table, which needs the package {error.name}. Install it: "
            "pip install 'tanager[lakes]'."
        ) from error


def _open_delta(table: Any) -> Source:
    from tanager.sources.datasets import open_dataset

    # The dataset lists the files of this version; none of them is ever rewritten.
    return open_dataset(_explained(table.table_uri, table.to_pyarrow_dataset))


def _open_iceberg(url: str) -> Source:
    from pyiceberg.catalog import load_catalog

    parts = urlsplit(url)
    name = unquote(parts.path.strip("/"))
    if not parts.netloc or "." not in name:
        raise ConfigurationError(
            f"{url} does not name a table. Write iceberg://catalog/namespace.table."
        )
    table = _explained(url, lambda: load_catalog(parts.netloc).load_table(name))
    return IcebergSource(table, _whole(dict(parse_qsl(parts.query)), "snapshot", url))


def _whole(options: dict[str, str], name: str, url: str) -> int | None:
    strange = [key for key in options if key != name]
    value = options.get(name)
    if strange or (value is not None and not value.isdecimal()):
        raise ConfigurationError(f"{url}: only {name}=NUMBER can follow the question mark.")
    return None if value is None else int(value)


def _explained(name: str, work: Any) -> Any:
    """Do something with a library whose errors have types of its own."""
    try:
        return work()
    except ModuleNotFoundError:
        raise
    except Exception as error:
        text = " ".join(str(error).split()).rstrip(".")
        raise DataError(
            f"{name} cannot be opened: {text}. Check the address, the version and the store's "
            "credentials."
        ) from error


class IcebergSource(Source):
    """An Iceberg table at one snapshot."""

    def __init__(self, table: Any, snapshot: int | None) -> None:
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        current = table.current_snapshot()
        pinned = snapshot if snapshot is not None or current is None else current.snapshot_id
        scan = table.scan(snapshot_id=pinned)
        tasks = _explained(".".join(table.name()), lambda: list(scan.plan_files()))
        tasks.sort(key=lambda task: task.file.file_path)
        stored = scan.projection()
        schema = plain_schema(schema_to_pyarrow(stored, include_field_ids=False))
        self._fragments: list[Fragment] = []
        start = 0
        for task in tasks:
            place = _DataFile(table.metadata, table.io, stored, task)
            n_rows = place.n_rows(schema.names[:1])
            if n_rows:
                self._fragments.append(IcebergFragment(place, schema, start, n_rows))
            start += n_rows
        super().__init__(schema, start)

    def fragments(self) -> list[Fragment]:
        """Return the table's data files."""
        return list(self._fragments)


@dataclass(frozen=True, eq=False)
class _DataFile:
    """A data file of a table, with the rows deleted from it."""

    metadata: Any
    io: Any
    stored: Any
    task: Any

    def n_rows(self, columns: Sequence[str]) -> int:
        """Return the number of rows; where some are deleted, the file is read for it."""
        if self.task.delete_files:
            return sum(batch.num_rows for batch in self.read(columns))
        return int(self.task.file.record_count)

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows that are left."""
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        wanted = self.stored.select(*columns)
        return iter(
            ArrowScan(self.metadata, self.io, wanted, AlwaysTrue()).to_record_batches([self.task])
        )


@dataclass(frozen=True, eq=False)
class IcebergFragment(Fragment):
    """A data file of an Iceberg table."""

    place: _DataFile
    schema: pa.Schema
    start: int
    n_rows: int

    def batches(
        self, columns: Sequence[str], batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows, in the table's types."""
        names = list(columns)
        schema = pa.schema([self.schema.field(name) for name in names])
        try:
            for batch in self.place.read(names):
                for start in range(0, batch.num_rows, batch_rows):
                    yield cast_batch(batch.slice(start, batch_rows).select(names), schema)
        except (pa.ArrowException, OSError) as error:
            text = " ".join(str(error).split()).rstrip(".")
            raise DataError(
                f"{self.place.task.file.file_path} cannot be read: {text}. The snapshot may have "
                "expired; open the table again."
            ) from error
