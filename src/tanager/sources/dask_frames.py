"""Dask DataFrames: every partition is a fragment, computed where it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tanager.errors import DataError, listed
from tanager.sources.gate import pandas_to_arrow
from tanager.sources.source import BATCH_ROWS, Fragment, Source


def is_dask_frame(X: Any) -> bool:
    """Return whether this is a Dask DataFrame; imports nothing for it."""
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(type(X), "to_delayed")


def open_dask(frame: Any) -> Source:
    """Open a Dask DataFrame; every partition is computed once for its size and types.

    That runs on the current client's workers, where there is one.
    """
    import cloudpickle
    import dask

    parts = frame.to_delayed()
    facts = dask.compute(*[dask.delayed(_facts)(part) for part in parts])
    # Partitions without rows know nothing of the types of their objects.
    schemas = [schema for n_rows, schema in facts if n_rows] or [facts[0][1]]
    for at, (_, schema) in enumerate(facts):
        odd = sorted(set(schema.names) ^ set(facts[0][1].names))
        if odd:
            raise DataError(
                f"The partitions 0 and {at} of the Dask DataFrame differ in the column(s) "
                f"{listed(odd)}. Give every partition the same columns."
            )
    try:
        schema = pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(
            f"The partitions of the Dask DataFrame have different types: {error} Convert the "
            "column with astype first."
        ) from error
    fragments, start = [], 0
    for part, (n_rows, _) in zip(parts, facts, strict=True):
        if n_rows:
            fragments.append(DaskFragment(cloudpickle.dumps(part), schema, start, n_rows))
        start += n_rows
    return DaskSource(schema, fragments)


class DaskSource(Source):
    """A Dask DataFrame."""

    def __init__(self, schema: pa.Schema, fragments: list[DaskFragment]) -> None:
        super().__init__(schema, sum(fragment.n_rows for fragment in fragments))
        self._fragments = fragments

    def fragments(self) -> list[Fragment]:
        """Return one fragment a partition; those without rows are left out."""
        return list(self._fragments)


@dataclass(frozen=True, eq=False)
class DaskFragment(Fragment):
    """A partition: the work that gives it, computed in the thread that reads it."""

    part: bytes
    schema: pa.Schema
    start: int
    n_rows: int

    def batches(
        self, columns: Sequence[str], batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Compute the partition and iterate over its rows."""
        import cloudpickle

        frame = cloudpickle.loads(self.part).compute(scheduler="synchronous")
        if len(frame) != self.n_rows:
            raise DataError(
                f"A partition of the Dask DataFrame had {self.n_rows} rows and now has "
                f"{len(frame)}. Its source has changed, or its work is random: write the table to "
                "files first, or persist it."
            )
        schema = pa.schema([self.schema.field(name) for name in columns])
        yield from _to_arrow(frame[list(columns)]).cast(schema).to_batches(batch_rows)


def _facts(frame: Any) -> tuple[int, pa.Schema]:
    return len(frame), _to_arrow(frame).schema.remove_metadata()


def _to_arrow(frame: Any) -> pa.Table:
    """Return a partition as a table whose dictionaries have one type in all partitions."""
    table = pandas_to_arrow(frame)
    for at, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            wide = pa.dictionary(pa.int32(), field.type.value_type, field.type.ordered)
            table = table.set_column(at, field.name, table.column(at).cast(wide))
    return table
