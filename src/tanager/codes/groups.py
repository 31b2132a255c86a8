"""Coarse views of fine codes: which values of a feature are grouped together.

Numbers are coded finely, without looking at the classes. As a parent, a feature is read through
groups of neighbouring values learned from counts (for each fold, from the counts without it).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from tanager.codes.cuts import mdl_cuts
from tanager.codes.rows import Chunk, Codes, Domain, PieceView, Rows, code_dtype
from tanager.numerics import Floats, Ints

Groups = NDArray[np.uint16]  # (arity,): the group of each value

FEWEST, MOST = 5, 8  # number of groups of an ordered feature while parents are selected
FINEST = 24  # most groups of a feature, including "missing", if the tables have room
FINE_TABLE = 1 << 15  # cells of a family's table up to which groups are split
CELLS_PER_ROW = 3  # most cells per row in a family with split groups: more would fit noise


def learn_groups(counts: Floats, n_ordered: int) -> Groups:
    """Return the group of each value of a feature, from N(x, y), shape (arity, n_classes).

    Ordered values are split where the classes clearly separate (minimum
    description length), then the heaviest group is halved until there are
    five; if there are more than eight, groups are merged at the least loss of
    information about the class. Unordered values aren't grouped.
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
    """Halve groups of ordered values as long as the tables of all families stay small.

    The feature with the fewest groups goes first, with ties broken by name; groups are halved by
    the `weights` of each feature's values. `limit` is the largest number of cells of a table.
    """
    sizes = [int(group.max()) + 1 for group in groups]
    most = [
        min(size + n - len(np.unique(group[:n])), FINEST)
        for group, size, n in zip(groups, sizes, domain.n_ordered, strict=True)
    ]
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
    """Return at most `most` groups of neighbouring values, the most informative about the class.

    Used for display; expects P(x, y) or N(x, y), shape (arity, n_classes).

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
