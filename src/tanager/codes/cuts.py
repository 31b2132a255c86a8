"""Cut points of numeric columns: supervised (Fayyad and Irani) or of equal frequency."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.codes.columns import SeenNumbers
from tanager.errors import invalid
from tanager.estimator import is_whole
from tanager.numerics import Floats, Ints

MAX_BINS = 1000
FINE_BINS = (5_000, 255), (1_500, 64), (0, 32)  # (least number of rows, number of bins)
MOST_FINE = 255  # codes, including "missing": a byte holds them and "unknown"
SEEN_ROWS, SEEN_PARTS = 100_000, 32  # rows sampled by `see_numbers`, and intervals returned
# Integers are counted per value instead of sorted as long as the counts fit into a cache.
_MAX_CELLS = 1 << 18


def check_bins(bins: str | int) -> None:
    """Raise a ConfigurationError for invalid `bins`."""
    named = isinstance(bins, str) and bins in ("mdl", "fine")
    if not named and not (is_whole(bins, 2) and int(bins) <= MAX_BINS):
        allowed = f"'auto', 'mdl', 'fine', or a number of bins from 2 to {MAX_BINS}"
        raise invalid("bins", bins, allowed)


def learn_cuts(
    values: NDArray[Any],
    labels: NDArray[np.uint16],
    n_classes: int,
    weights: Floats | None,
    bins: str | int,
    *,
    missing: bool = False,
) -> Floats:
    """Return the cut points of a numeric column, ascending; rows are passed as in `mdl_cuts`.

    bins: "mdl" cuts by minimum description length; a number adds cuts into that many bins of equal
        frequency, which preserve interactions in columns that MDL leaves whole on few rows; "fine"
        cuts by frequency alone, into the number of bins given by `FINE_BINS`.
    missing: whether "missing" is another value, which leaves room for one fine bin fewer.
    """
    if bins == "fine":
        n_bins = next(number for least, number in FINE_BINS if len(values) >= least)
        return fine_cuts(values, weights, n_bins, MOST_FINE - missing)
    cuts = mdl_cuts(values, labels, n_classes, weights)
    if isinstance(bins, str):
        return cuts
    return np.union1d(cuts, quantile_cuts(values, weights, int(bins)))


def fine_cuts(
    values: NDArray[Any], weights: Floats | None, n_bins: int, most: int = MOST_FINE
) -> Floats:
    """Return cuts that give each heavy value its own bin, and the others bins of similar weight.

    A heavy value has more than one bin's share of the weight. Heavy values split the bins of the
    others, so there may be more than `n_bins`, but at most `most`.
    """
    distinct, mass = _weigh(values, weights)
    heavy = mass * n_bins > mass.sum()
    left = np.cumsum(np.where(heavy, 0.0, mass))
    inside = distinct.shape[0] - 1  # gaps between two values
    own = np.flatnonzero(heavy)
    own = np.union1d(own, own - 1)
    own = own[(own >= 0) & (own < inside)]
    if len(own) >= most:
        own = np.flatnonzero(heavy)[1:] - 1
    after, n_light = own, n_bins - int(heavy.sum())
    while n_light > 1 and inside > 0 and left[-1] > 0:
        after = np.union1d(own, _even(left, n_light))
        if len(after) < most:
            break
        after, n_light = own, n_light - (len(after) - most + 1)
    return _between(distinct, after)


def quantile_cuts(values: NDArray[Any], weights: Floats | None, n_bins: int) -> Floats:
    """Return cuts between distinct values that form bins of similar weight.

    The j-th is the first with at least j / n_bins of the weight to its left; equal cuts are merged.
    """
    distinct, mass = _weigh(values, weights)
    return _between(distinct, np.unique(_even(np.cumsum(mass), n_bins)))


def _even(left: Floats, n_bins: int) -> Ints:
    """Return the values after which to cut, given the weight up to each, for bins of one weight."""
    found = np.searchsorted(left * n_bins, np.arange(1, n_bins) * left[-1:].sum())
    return found[found < len(left) - 1]


def _between(distinct: NDArray[Any], after: Ints) -> Floats:
    """Return cuts after some of the distinct values."""
    return midpoints(distinct[after].astype(np.float64), distinct[after + 1].astype(np.float64))


def see_numbers(values: NDArray[Any], weights: NDArray[np.float64] | None) -> SeenNumbers:
    """Return the distribution of a column's numbers, which must not be missing, to measure drift.

    If there are more than 100,000 rows, one is drawn from each of as many equal stretches; the
    smallest and largest number are still those of all rows. A row of weight 2 counts twice.

    Examples
    --------
    >>> see_numbers(np.array([3.0, 1.0, 3.0, 7.0]), None)
    SeenNumbers(ends=array([1., 3., 7.]), counts=array([1., 2., 1.]))
    """
    low, high = values.min(), values.max()
    if len(values) > SEEN_ROWS:
        drawn = np.random.Generator(np.random.PCG64(0)).random(SEEN_ROWS)
        places = ((np.arange(SEEN_ROWS) + drawn) * (len(values) / SEEN_ROWS)).astype(np.int64)
        values, weights = values[places], None if weights is None else weights[places]
    distinct, mass = _weigh(values, weights)
    distinct = distinct.astype(np.float64)
    left = np.cumsum(mass)
    places = np.searchsorted(left * SEEN_PARTS, np.arange(1, SEEN_PARTS) * left[-1])
    ends = np.unique([float(low), *distinct[places], float(high)])
    counts = np.bincount(np.searchsorted(ends, distinct), mass, len(ends))
    return SeenNumbers(ends, counts.astype(np.float64))


def _weigh(values: NDArray[Any], weights: Floats | None) -> tuple[NDArray[Any], Floats]:
    """Return the distinct values of rows with a positive weight, ascending, and their weights."""
    if weights is None:  # sorting only the values is much faster than an argsort
        distinct, counts = np.unique(values, return_counts=True)
        return distinct, counts.astype(np.float64)
    kept = weights > 0
    distinct, places = np.unique(values[kept], return_inverse=True)
    mass = np.bincount(places, weights[kept], len(distinct))
    return distinct, mass.astype(np.float64, copy=False)


def mdl_cuts(
    values: NDArray[Any], labels: NDArray[np.uint16], n_classes: int, weights: Floats | None = None
) -> Floats:
    r"""Return the cut points of a numeric column, ascending; values equal to a cut go left.

    values, labels, weights: shape (n_rows,); values are finite. A weight of 2 counts as two rows.

    Candidates are the midpoints between neighbouring distinct values, except where both occur only
    with the same class. The one with the least class entropy (the lowest in case of ties) is
    accepted if

    .. math:: G > \frac{\log_2(N - 1)}{N} + \frac{\log_2(3^k - 2) - (kH - k_1H_1 - k_2H_2)}{N}

    where N is the weight of all rows, k the number of classes present, H their entropy in bits and
    G the gain; both sides are then split recursively (Fayyad and Irani 1993, see `MDLDiscretizer`).

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


def midpoints(below: Floats, above: Floats) -> Floats:
    """Return cuts between neighbouring values: `below` goes to the left, `above` to the right."""
    with np.errstate(over="ignore"):
        cuts = (below + above) / 2
    cuts = np.where(np.isfinite(cuts), cuts, below / 2 + above / 2)
    # Between neighbouring floats the midpoint rounds to one of them.
    return np.where(cuts < above, cuts, below)


def _count_integers(
    values: NDArray[Any], labels: NDArray[np.uint16], n_classes: int, weights: Floats
) -> tuple[Floats, NDArray[np.uint16], Floats] | None:
    """Aggregate small-range integers to one weighted row per (value, class), sorted by value."""
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
