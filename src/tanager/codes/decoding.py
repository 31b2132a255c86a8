"""Decode codes to values, for sampled and imputed rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tanager.codes.columns import CategoricalColumn, Column, NumericColumn
from tanager.codes.rows import Codes
from tanager.numerics import Floats


def column_edges(column: NumericColumn) -> Floats:
    """Return the edges of a column's intervals, shape (n_intervals + 1,), all finite.

    The outer intervals are taken to be as wide as their neighbours, or to have width one.
    """
    cuts = column.cuts
    if not len(cuts):
        return np.array([-0.5, 0.5])
    first, last = (cuts[1] - cuts[0], cuts[-1] - cuts[-2]) if len(cuts) > 1 else (1.0, 1.0)
    return np.concatenate([[cuts[0] - first], cuts, [cuts[-1] + last]])


def decode(column: Column, codes: Codes, places: Floats | None = None) -> pa.Array:
    """Return the values of codes, shape (n_rows,); "missing" and unknown are null.

    `places`, shape (n_rows,), is the position of each number in its interval, in (0, 1], halfway
    by default. If all cuts are multiples of one half, the numbers are whole.
    """
    if isinstance(column, CategoricalColumn):
        known = codes < len(column.values)
        return column.values.take(pa.array(codes.astype(np.int64), mask=~known))
    edges, n = column_edges(column), len(column.cuts) + 1
    known = codes < n
    at = np.where(known, codes, 0).astype(np.int64)
    inside = 0.5 if places is None else places
    numbers = edges[at] + inside * (edges[at + 1] - edges[at])
    if not column.temporal and bool((column.cuts * 2 % 1 == 0).all()):
        # A number at a cut belongs to its left: whole numbers above one edge, up to the next.
        low, high = np.floor(edges[at]) + 1, np.floor(edges[at + 1])
        whole = np.clip(np.floor(edges[at]) + np.ceil(inside * (high - low + 1)), low, high)
        numbers = np.where(low <= high, whole, numbers)
    return _as_temporal(pa.array(numbers, mask=~known), column.temporal)


def _as_temporal(seconds: pa.Array, temporal: str) -> pa.Array:
    """Return seconds as dates, times of day or durations, to the microsecond."""
    if not temporal:
        return seconds
    import pyarrow.compute as pc

    kinds = {"date": pa.timestamp("us"), "time": pa.time64("us"), "duration": pa.duration("us")}
    micros = pc.round(pc.multiply(seconds, 1e6))
    if temporal == "time":
        micros = pc.min_element_wise(pc.max_element_wise(micros, 0.0), 86_400e6 - 1)
    return micros.cast(pa.int64()).cast(kinds[temporal])
