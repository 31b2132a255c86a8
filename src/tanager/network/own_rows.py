"""Recognise the training rows by a fingerprint of their counts; a model stores no rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tanager.counts import fingerprint_counts
from tanager.numerics import Floats

if TYPE_CHECKING:
    from tanager.codes import Codes, MatchedTable
    from tanager.network.network import Network

CodedRows = tuple["Codes", NDArray[np.uint16]]  # codes and labels of some rows


def own_rows(
    network: Network,
    info: Mapping[str, Any],
    n_rows: int,
    read: Callable[[], Iterable[CodedRows]],
) -> bool | None:
    """Return whether rows are the training rows; None if the model can't tell.

    `info` is what the fit reported: `info_` of an estimator, or ``"info"`` of a model file.
    `read` returns the rows, one part at a time, and is only called if `n_rows` is that of the fit.
    """
    stored = info.get("codes", {})
    if "fingerprint" not in stored:
        return None
    if stored.get("rows") != n_rows:
        return False
    domain = network.codebook.domain
    classes = np.zeros(domain.n_classes)  # N(y), and N(x, y) of every feature
    values = [np.zeros((int(arity), domain.n_classes)) for arity in domain.arities]
    for codes, labels in read():
        classes += np.bincount(labels, minlength=domain.n_classes)
        for known, column in zip(values, codes, strict=True):
            known += count_values(column, labels, *known.shape)
    return bool(stored["fingerprint"] == fingerprint_counts(classes, values))


def count_values(
    codes: NDArray[Any], labels: NDArray[np.uint16], arity: int, n_classes: int
) -> Floats:
    """Return N(x, y) of one feature, shape (arity, n_classes), without unknown values."""
    values = codes.astype(np.int64)
    cells = (values * n_classes + labels)[values < arity]
    counts = np.bincount(cells, minlength=arity * n_classes)
    return counts.reshape(arity, n_classes).astype(np.float64)


def labelled_codes(
    table: MatchedTable, labels: NDArray[np.uint16] | None = None
) -> Iterator[CodedRows]:
    """Iterate over codes and labels; the labels may be an array separate from the table."""
    for batch in table.batches():
        if labels is None:
            yield batch.codes, table.labels(batch)
        else:
            yield batch.codes, labels[batch.start : batch.start + batch.n_rows]
