"""The rows that a page evaluates the model on, read once and coded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from tanager.codes import Codes, MatchedTable, Rows
from tanager.codes.hashing import row_hash
from tanager.errors import DataError
from tanager.network import Network
from tanager.network.reference import count_values, labelled_rows
from tanager.sources import Source


def pool_neighbours(weights: ArrayLike, n_ordered: int, most: int) -> NDArray[np.uint16]:
    """Return groups of neighbours of about equal weight, at most `most`.

    `weights` (arity,) is the number or share of rows of each value. The first `n_ordered`
    values are ordered, and left ungrouped if there are at most `most`; the others ("missing")
    are never grouped.

    >>> pool_neighbours([10, 10, 10, 10, 40, 5], n_ordered=5, most=2).tolist()
    [0, 0, 0, 0, 1, 2]
    """
    share = np.asarray(weights, float)
    if n_ordered <= most:
        return np.arange(len(share), dtype=np.uint16)
    ends = np.cumsum(share[:n_ordered])
    middles = (ends - share[:n_ordered] / 2) / max(ends[-1], np.finfo(float).tiny)
    groups = np.unique(np.minimum((middles * most).astype(np.int64), most - 1), return_inverse=True)
    rest = groups[1].max() + 1 + np.arange(len(share) - n_ordered)
    return np.concatenate([groups[1], rest]).astype(np.uint16)


def n_groups(groups: NDArray[np.uint16]) -> int:
    """Return the number of groups.

    >>> n_groups(np.array([0, 0, 1], np.uint16)), n_groups(np.array([], np.uint16))
    (2, 0)
    """
    return int(groups.max()) + 1 if len(groups) else 0


MAX_ROWS = 100_000
_SEED = 18  # for sampling rows of a large source

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PageRows:
    """Rows with their classes."""

    table: pa.Table  # the features, under the model's names
    codes: Codes  # (n_features, n_rows): from the model's codebook
    labels: NDArray[np.uint16]  # (n_rows,): the classes, as codes
    index: NDArray[np.int64]  # (n_rows,): the rows' positions in the source
    n_source: int  # rows of the source, of which only a sample is kept if large
    every: Rows  # all rows; those of a large source are read again

    def value_counts(self, feature: int, arity: int, n_classes: int) -> Floats:
        """Return N(x, y) of one feature, shape (arity, n_classes), without unknown values."""
        return count_values(self.codes[feature], self.labels, arity, n_classes)


def read_rows(network: Network, X: Any, y: Any, *, max_rows: int = MAX_ROWS) -> PageRows:
    """Read rows and their classes; of a large source, a sample drawn by a hash of the index.

    `y` are the classes, or the name of their column in `X`; other columns that the model
    doesn't know are ignored.
    """
    codebook, target = network.codebook, y if isinstance(y, str) else None
    matched = MatchedTable.of(codebook, X, target=target, ignore_extra=True)
    table, index = _read(matched.values, matched.columns, max_rows)
    n_source = matched.values.n_rows
    every = None
    if target is None:
        every = codebook.encode_labels(y)
        if every.shape[0] != n_source:
            raise DataError(f"X has {n_source} rows, but y has {every.shape[0]}.")
        labels = every[index]
    else:
        missing = np.flatnonzero(np.asarray(table[target].is_null()))
        # Errors give the row number in the table, also for a sample.
        start = int(index[missing[0]] - missing[0]) if len(missing) else 0
        labels = codebook.encode_labels(table[target], name=target, start=start)
    table = table.select(matched.features).rename_columns(codebook.domain.names)
    codes = codebook.encode(table)
    if len(labels) == n_source:
        all_rows = Rows.in_memory(codebook.domain, codes, labels)
    else:
        all_rows = labelled_rows(matched, every)
    return PageRows(table, codes, labels, index, n_source, all_rows)


def _read(source: Source, columns: list[str], max_rows: int) -> tuple[pa.Table, NDArray[np.int64]]:
    """Return the rows with the smallest hashes, and their positions."""
    # A bound that slightly more rows meet than are kept.
    share = min(1.0, (1.1 * max_rows + 100) / source.n_rows)
    bound, before = np.uint64(min(int(share * 2**64), 2**64 - 1)), 0
    batches: list[pa.RecordBatch] = []
    places: list[NDArray[np.int64]] = []
    for batch in source.batches(columns):
        index = np.arange(before, before + batch.num_rows)
        before += batch.num_rows
        chosen = row_hash(_SEED, index) <= bound
        batches.append(batch.filter(pa.array(chosen)) if not chosen.all() else batch)
        places.append(index[chosen])
    table, index = pa.Table.from_batches(batches), np.concatenate(places)
    if len(index) > max_rows:
        least = np.sort(np.argsort(row_hash(_SEED, index), kind="stable")[:max_rows])
        table, index = table.take(pa.array(least)), index[least]
    return table, index
