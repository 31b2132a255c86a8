"""A pyarrow dataset that the user made: many files, partitions and filters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tanager.errors import DataError
from tanager.sources.plain import cast_batch, plain_schema
from tanager.sources.source import BATCH_ROWS, Fragment, Source, TableSource


def open_dataset(dataset: Any) -> Source:
    """Open a dataset; one of tables in memory becomes a table in memory."""
    import pyarrow.dataset as ds

    if isinstance(dataset, ds.InMemoryDataset):
        return TableSource(dataset.to_table())
    return DatasetSource(dataset)


class DatasetSource(Source):
    """A pyarrow dataset, read as it says."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        with_rows = [(part, n) for part in _parts(dataset) if (n := int(part.count_rows()))]
        n_rows = int(dataset.count_rows())
        if sum(n for _, n in with_rows) != n_rows:
            # The dataset has a filter, which its parts do not know.
            with_rows = [(dataset, n_rows)]
        super().__init__(plain_schema(dataset.schema), n_rows)
        self._fragments: list[Fragment] = []
        start = 0
        for part, n in with_rows:
            self._fragments.append(DatasetFragment(part, dataset.schema, self.schema, start, n))
            start += n

    def fragments(self) -> list[Fragment]:
        """Return the dataset's files, or their row groups."""
        return list(self._fragments)


def _parts(dataset: Any) -> Iterator[Any]:
    """Iterate over files; those of Parquet in groups of row groups."""
    for fragment in dataset.get_fragments():
        groups = getattr(fragment, "row_groups", None)
        if not groups:
            yield fragment
            continue
        chosen: list[int] = []
        n_rows = 0
        for group in groups:
            chosen.append(group.id)
            n_rows += group.num_rows
            if n_rows >= BATCH_ROWS:
                yield fragment.subset(row_group_ids=chosen)
                chosen, n_rows = [], 0
        if chosen:
            yield fragment.subset(row_group_ids=chosen)


@dataclass(frozen=True, eq=False)
class DatasetFragment(Fragment):
    """Some row groups of a file, a file, or a whole dataset with a filter."""

    part: Any  # pyarrow.dataset.Fragment or Dataset
    stored: pa.Schema
    schema: pa.Schema
    start: int
    n_rows: int

    def batches(
        self, columns: Sequence[str], batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the scanner's batches, with little read ahead."""
        names = list(columns)
        schema = pa.schema([self.schema.field(name) for name in names])
        # Threads come from the engine alone; a dataset knows its schema, a fragment must be told.
        known = {} if hasattr(self.part, "get_fragments") else {"schema": self.stored}
        try:
            scanner = self.part.scanner(
                columns=names,
                batch_size=batch_rows,
                batch_readahead=1,
                fragment_readahead=1,
                use_threads=False,
                **known,
            )
            for batch in scanner.to_batches():
                if batch.num_rows:
                    yield cast_batch(batch, schema)
        except (pa.ArrowException, OSError) as error:
            text = " ".join(str(error).split()).rstrip(".")
            raise DataError(
                f"The dataset cannot be read: {text}. One of its files may be damaged, or of other "
                "types than its schema; write it again."
            ) from error
