"""The rows that a page measures the model on, read once and coded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.codes.hashing import row_hash
from tanager.errors import ConfigurationError, DataError
from tanager.sources import open_source

if TYPE_CHECKING:
    from tanager.codes import Codes
    from tanager.network import Network
    from tanager.sources import Source

__all__ = ["MAX_ROWS", "Rows", "read_rows"]

MAX_ROWS = 100_000
_SEED = 18  # of the rows that are kept where there are more

Floats = NDArray[np.float64]
CodedRows = tuple["Codes", NDArray[np.uint16]]  # codes and labels


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows with their classes.

    Attributes
    ----------
    table : pyarrow.Table
        The features, under the model's names.
    codes : ndarray, shape (n_features, n_rows)
        By the model's codebook.
    labels : ndarray of uint16, shape (n_rows,)
        The classes, as codes.
    index : ndarray of int64, shape (n_rows,)
        The rows' places in the source.
    n_source : int
        Rows of the source; more than are here where it is large.
    read_all : callable
        Reads the source again, a part at a time: codes and labels of all rows.
    """

    table: pa.Table
    codes: Codes
    labels: NDArray[np.uint16]
    index: NDArray[np.int64]
    n_source: int
    read_all: Callable[[], Iterator[CodedRows]]

    def value_counts(self, feature: int, arity: int, n_classes: int) -> Floats:
        """Return N(x, y) of one feature, shape (arity, n_classes); unknown values left out."""
        return _count_values(self.codes[feature], self.labels, arity, n_classes)

    def count_all(self, network: Network) -> tuple[Floats, list[Floats]]:
        """Return N(y) and N(x, y) of every feature over all rows of the source."""
        domain = network.codebook.domain
        whole = self.n_source == len(self.labels)
        classes = np.zeros(domain.n_classes)
        values = [np.zeros((int(arity), domain.n_classes)) for arity in domain.arities]
        for codes, labels in [(self.codes, self.labels)] if whole else self.read_all():
            classes += np.bincount(labels, minlength=domain.n_classes)
            for known, column in zip(values, codes, strict=True):
                known += _count_values(column, labels, *known.shape)
        return classes, values


def _count_values(
    codes: NDArray[Any], labels: NDArray[np.uint16], arity: int, n_classes: int
) -> Floats:
    values = codes.astype(np.int64)
    cells = (values * n_classes + labels)[values < arity]
    counts = np.bincount(cells, minlength=arity * n_classes)
    return counts.reshape(arity, n_classes).astype(np.float64)


def read_rows(network: Network, X: Any, y: Any, *, max_rows: int = MAX_ROWS) -> Rows:
    """Read rows and their classes; of a large source a sample that a hash of the index draws.

    Parameters
    ----------
    network : Network
    X : table
        Anything `fit` takes. Columns that the model does not know are passed over.
    y : array-like or str
        The classes, or the name of their column in X.
    max_rows : int
        So many rows are kept at most.
    """
    source = network.codebook.complete(open_source(X))
    target = _target(source, y)
    features = _features(network, source, target)
    source = network.codebook.read_as_trained(source, features, target)
    columns = [*features, *([target] if target else [])]
    table, index, n_source = _read(source, columns, max_rows)
    given = None
    if target is None:
        given = network.codebook.encode_labels(y)
        if given.shape[0] != n_source:
            raise DataError(f"X has {n_source} rows, but y has {given.shape[0]}.")

    def code(part: pa.Table, places: Any) -> tuple[pa.Table, Codes, NDArray[np.uint16]]:
        codebook = network.codebook
        labels = codebook.encode_labels(part[target]) if given is None else given[places]
        part = part.select(features).rename_columns(list(codebook.domain.names))
        return part, codebook.encode(part), labels

    def read_all() -> Iterator[CodedRows]:
        before = 0
        for batch in source.batches(columns):
            yield code(pa.Table.from_batches([batch]), slice(before, before + batch.num_rows))[1:]
            before += batch.num_rows

    return Rows(*code(table, index), index, n_source, read_all)


def _target(source: Source, y: Any) -> str | None:
    if not isinstance(y, str):
        return None
    if y not in source.names:
        raise ConfigurationError(
            f"There is no column {y!r} for the target. The table has: {', '.join(source.names)}."
        )
    return y


def _features(network: Network, source: Source, target: str | None) -> list[str]:
    """Return the columns that are the model's features, in its order."""
    wanted = network.codebook.domain.names
    rest = [name for name in source.names if name != target]
    if not (network.codebook.named and source.named):
        if len(rest) != len(wanted):
            raise DataError(
                f"The model knows {len(wanted)} columns by their place; the table has {len(rest)} "
                "besides the target. Pass the columns of the training table, in its order."
            )
        return rest
    absent = [name for name in wanted if name not in rest]
    if absent:
        raise DataError(
            f"The table lacks the column(s) {', '.join(map(repr, absent))} of the model. "
            f"It has: {', '.join(rest)}. Rename or add columns."
        )
    return list(wanted)


def _read(
    source: Source, columns: list[str], max_rows: int
) -> tuple[pa.Table, NDArray[np.int64], int]:
    """Return the kept rows, their places, and the number of all rows.

    Those of the smallest hashes are kept. Whenever rows below a bound are twice
    too many the bound is halved: no row is read twice, and the number of rows
    need not be known before.
    """
    bound, before = np.uint64(2**64 - 1), 0
    batches: list[pa.RecordBatch] = []
    places: list[NDArray[np.int64]] = []
    for batch in source.batches(columns):
        index = np.arange(before, before + batch.num_rows)
        before += batch.num_rows
        chosen = row_hash(_SEED, index) <= bound
        batches.append(batch.filter(pa.array(chosen)) if not chosen.all() else batch)
        places.append(index[chosen])
        while sum(map(len, places)) > 2 * max_rows:
            bound = bound >> np.uint64(1)
            kept = [row_hash(_SEED, index) <= bound for index in places]
            batches = [b.filter(pa.array(k)) for b, k in zip(batches, kept, strict=True)]
            places = [index[k] for index, k in zip(places, kept, strict=True)]
    if before == 0:
        raise DataError("The table has no rows. Pass at least one.")
    table, index = pa.Table.from_batches(batches), np.concatenate(places)
    if len(index) > max_rows:
        least = np.sort(np.argsort(row_hash(_SEED, index), kind="stable")[:max_rows])
        table, index = table.take(pa.array(least)), index[least]
    return table, index, before
