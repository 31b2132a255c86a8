"""Fayyad and Irani's discretisation by minimum description length."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tanager import native

# Integers are counted per value instead of sorted while the counts fit a cache.
_MAX_CELLS = 1 << 18


def mdl_cuts(
    values: NDArray[Any],
    labels: NDArray[np.uint16],
    n_classes: int,
    weights: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    r"""Return the cut points of a numeric column, ascending.

    A value goes to the left of a cut if it is at most the cut.

    values: shape (n_rows,); finite; rows with a missing value are left out by the caller.
    labels: shape (n_rows,); the classes' codes.
    weights: shape (n_rows,); row weights: a row of weight 2 counts as two rows, in the entropies
        and in N. Rows of weight zero are ignored.

    Candidates are the midpoints between neighbouring distinct values, except
    where both values occur with one and the same class only. The one with the
    least class entropy (the lowest among equals) is taken if

    .. math:: G > \frac{\log_2(N - 1)}{N} + \frac{\log_2(3^k - 2) - (kH - k_1H_1 - k_2H_2)}{N}

    with N the (weighted) number of rows, k the number of classes present, H
    their entropy in bits and G the gain; both sides are then split further.
    One sort, then time in proportion to rows times depth.

    U. M. Fayyad and K. B. Irani (1993). Multi-interval discretization of
    continuous-valued attributes for classification learning. Proceedings of
    the 13th International Joint Conference on Artificial Intelligence, 1022-1027.

    >>> values = np.array([1.0, 2.0, 3.0, 4.0, 7.0, 8.0, 9.0, 10.0])
    >>> labels = np.array([0, 0, 0, 0, 1, 1, 1, 1], dtype=np.uint16)
    >>> mdl_cuts(values, labels, n_classes=2).tolist()
    [5.5]
    """
    if weights is not None and not weights.all():
        kept = weights > 0
        values, labels, weights = values[kept], labels[kept], weights[kept]
    if values.shape[0] == 0 or n_classes < 2:
        return np.empty(0)
    if weights is None:
        weights = np.ones(values.shape[0])
    counted = _count_integers(values, labels, n_classes, weights)
    if counted is None:
        order = np.argsort(values)
        ordered = values[order].astype(np.float64)
        labels, weights = labels[order], weights[order]
    else:
        ordered, labels, weights = counted
    found = np.empty(ordered.shape[0], dtype=np.int64)
    n_cuts = native.split_by_mdl(ordered, labels, weights, n_classes, found)
    firsts = found[:n_cuts]
    return midpoints(ordered[firsts - 1], ordered[firsts])


def midpoints(below: NDArray[np.float64], above: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return cuts between neighbouring values: `below` goes to the left, `above` to the right."""
    cuts = below / 2 + above / 2 if _overflows(below, above) else (below + above) / 2
    # Between neighbouring floats the midpoint rounds to one of them.
    return np.where(cuts < above, cuts, below)


def _overflows(below: NDArray[np.float64], above: NDArray[np.float64]) -> bool:
    limit = np.finfo(np.float64).max / 2
    return bool((np.abs(below) > limit).any() or (np.abs(above) > limit).any())


def _count_integers(
    values: NDArray[Any], labels: NDArray[np.uint16], n_classes: int, weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.uint16], NDArray[np.float64]] | None:
    """Return one weighted row per (value, class) of small-range integers, by value."""
    if values.dtype.kind not in "iu":
        return None
    low, high = int(values.min()), int(values.max())
    n_cells = (high - low + 1) * n_classes
    if n_cells > min(_MAX_CELLS, 4 * values.shape[0] + 1024):
        return None
    cells = np.zeros(n_cells)
    native.count_cells(values.astype(np.int64, copy=False), labels, weights, low, n_classes, cells)
    filled = np.flatnonzero(cells)
    value, label = np.divmod(filled, n_classes)
    return (value + low).astype(np.float64), label.astype(np.uint16), cells[filled]
