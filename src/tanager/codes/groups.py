"""Cut points of numbers, and coarse views of fine codes: which neighbouring values are grouped.

As a parent, a finely coded feature is read through groups of neighbouring values learned from
counts (for each fold, from the counts without it).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.codes.columns import SeenNumbers
from tanager.codes.rows import Chunk, Codes, Domain, PieceView, Rows, code_dtype
from tanager.errors import invalid
from tanager.estimator import is_whole
from tanager.numerics import Floats, Ints

Groups = NDArray[np.uint16]  # (arity,): the group of each value

FEWEST, MOST = 5, 8  # number of groups of an ordered feature while parents are selected
FINEST = 24  # most groups of a feature, including "missing", if the tables have room
FINE_TABLE = 1 << 15  # cells of a family's table up to which groups are split
CELLS_PER_ROW = 3  # most cells per row in a family with split groups: more would fit noise

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
    """Return cuts into bins of similar weight: the first with j / n_bins of it to their left."""
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
    rows = _count_integers(values, labels, n_classes, weights)
    if rows is None:
        order = np.argsort(values)
        rows = values[order].astype(np.float64), labels[order], weights[order]
    ordered, found = rows[0], np.empty(len(rows[0]), dtype=np.int64)
    firsts = found[: native.split_by_mdl(*rows, n_classes, found)]
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


def learn_groups(counts: Floats, n_ordered: int) -> Groups:
    """Return the group of each value of a feature, from N(x, y), shape (arity, n_classes).

    Ordered values are split where the classes clearly separate (minimum description length), then
    the heaviest group is halved until there are five; more than eight are merged at the least loss
    of information about the class. Unordered values aren't grouped.
    """
    arity, n_classes = counts.shape
    if n_ordered <= FEWEST:
        return np.arange(arity, dtype=np.uint16)
    ordered = counts[:n_ordered].astype(np.float64)
    values = np.repeat(np.arange(n_ordered), n_classes)
    labels = np.tile(np.arange(n_classes), n_ordered).astype(np.uint16)
    found = mdl_cuts(values, labels, n_classes, ordered.ravel())
    edges = [0, *np.ceil(found).astype(int).tolist(), n_ordered]
    return _by_edges(_halve(_merge(edges, ordered), ordered.sum(axis=1)), arity)


def refine_groups(
    groups: Sequence[Groups],
    weights: Sequence[Floats],
    domain: Domain,
    families: Sequence[tuple[int, ...]],
    limit: int,
) -> tuple[Groups, ...]:
    """Halve groups of ordered values as long as no family's table has more than `limit` cells.

    The feature with the fewest groups goes first, with ties broken by name; groups are halved by
    the `weights` of each feature's values.
    """
    sizes = [int(group.max()) + 1 for group in groups]
    known = zip(groups, sizes, domain.n_ordered, strict=True)
    most = [min(size + n - len(np.unique(group[:n])), FINEST) for group, size, n in known]
    held: dict[int, list[tuple[int, ...]]] = {}
    for family in families:
        for one in family:
            held.setdefault(one, []).append(family)
    waiting = {one for one in held if sizes[one] < most[one]}
    while waiting:
        one = min(waiting, key=lambda one: (sizes[one], domain.names[one]))
        sizes[one] += 1
        fits = all(domain.n_classes * prod(sizes[i] for i in f) <= limit for f in held[one])
        sizes[one] -= not fits
        if not fits or sizes[one] == most[one]:
            waiting.remove(one)
    out = list(groups)
    for one, n in enumerate(domain.n_ordered):
        rest = sizes[one] - int(groups[one].max()) - 1
        if rest > 0:
            edges = [0, *(np.flatnonzero(np.diff(groups[one][:n])) + 1).tolist(), n]
            edges = _halve(edges, weights[one][:n], len(edges) - 1 + rest)
            out[one] = _by_edges(edges, len(groups[one]))
    return tuple(out)


def coarsen_groups(groups: Groups, n_ordered: int) -> Groups:
    """Merge neighbouring groups of ordered values evenly, leaving at most eight."""
    size = int(groups[:n_ordered].max(initial=0)) + 1
    each = -(-size // MOST)
    rest = groups.astype(np.int64) - size
    return np.where(rest < 0, groups // each, rest - (-size // each)).astype(np.uint16)


def table_room(n_rows: int, n_classes: int) -> int:
    """Return the number of cells up to which a family's table has room for split groups."""
    return min(FINE_TABLE, CELLS_PER_ROW * n_rows * n_classes)


def finest_sizes(domain: Domain) -> Ints:
    """Return the number of groups each feature has if tables have room for all, (n_features,)."""
    ordered = np.array(domain.n_ordered) > 0
    return np.where(ordered, np.minimum(domain.arities, FINEST), domain.arities)


def _by_edges(edges: list[int], arity: int) -> Groups:
    """Return the groups between edges, and one per value beyond the last edge."""
    groups = np.searchsorted(edges[1:-1], np.arange(edges[-1]), side="right")
    rest = len(edges) - 1 + np.arange(arity - edges[-1])
    return np.concatenate([groups, rest]).astype(np.uint16)


def join_values(shares: Floats, n_ordered: int, most: int) -> Groups:
    """Return at most `most` groups of values, for display, from P(x, y), (arity, n_classes).

    >>> shares = np.array([[3, 1], [3, 1], [2, 2], [0, 4], [0, 4], [1, 1]]) / 22
    >>> join_values(shares, n_ordered=5, most=3).tolist()
    [0, 0, 1, 2, 2, 3]
    """
    edges = _merge(list(range(n_ordered + 1)), shares[:n_ordered], most)
    return _by_edges(edges, len(shares))


def _merge(edges: list[int], counts: Floats, most: int = MOST) -> list[int]:
    """Drop the edges least informative about the class until there are `most` groups."""
    while len(edges) - 1 > most:
        sums = np.add.reduceat(counts, edges[:-1], axis=0)
        lost = [_bits(a + b) - _bits(a) - _bits(b) for a, b in pairwise(sums)]
        del edges[1 + int(np.argmin(lost))]
    return edges


def _bits(counts: Floats) -> float:
    """Return the class entropy of some rows, multiplied by their number."""
    seen = counts[counts > 0]
    return float((seen * np.log(seen.sum() / seen)).sum())


def _halve(edges: list[int], weight: Floats, number: int = FEWEST) -> list[int]:
    """Halve the heaviest group of at least two values until there are `number` groups."""
    while len(edges) - 1 < number:
        sums = np.add.reduceat(weight, edges[:-1])
        divisible = np.diff(edges) > 1
        if not divisible.any():
            break
        at = int(np.argmax(np.where(divisible, sums, -1.0)))
        left = np.cumsum(weight[edges[at] : edges[at + 1]])
        nearest = int(np.argmin(np.abs(left[:-1] - left[-1] / 2)))
        edges.insert(at + 1, edges[at] + nearest + 1)
    return edges


def tells_all(groups: Groups) -> bool:
    """Return whether every value is its own group, in order."""
    return bool(np.array_equal(groups, np.arange(len(groups))))


def group_codes(codes: Codes, groups: Sequence[Groups]) -> Codes:
    """Return the groups of codes, shape (n_features, n_rows); unknown stays unknown."""
    sizes = np.array([int(g.max()) + 1 for g in groups])
    out = np.empty(codes.shape, code_dtype(sizes))
    for at, (group, size) in enumerate(zip(groups, sizes, strict=True)):
        table = np.append(group, size).astype(out.dtype)
        np.take(table, codes[at], out=out[at], mode="clip")
    return out


def grouped_domain(domain: Domain, groups: Sequence[Groups]) -> Domain:
    """Return the domain of grouped codes."""
    sizes = np.array([int(g.max()) + 1 for g in groups], np.int64)
    ordered = tuple(
        int(g[:n].max()) + 1 if n else 0 for g, n in zip(groups, domain.n_ordered, strict=True)
    )
    return Domain(domain.names, sizes, domain.n_classes, ordered)


def group_rows(rows: Rows, groups: Sequence[Groups]) -> Rows:
    """Return a lazy view of the rows with grouped codes."""
    make = partial(_group_chunk, groups=tuple(groups))
    pieces = [PieceView(piece, make) for piece in rows.pieces()]
    return Rows(grouped_domain(rows.domain, groups), pieces, weighted=rows.weighted)


def _group_chunk(chunk: Chunk, groups: tuple[Groups, ...]) -> Chunk:
    return chunk._replace(codes=group_codes(chunk.codes, groups))
