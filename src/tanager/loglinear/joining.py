"""Families joined into a few look-ups per row.

One look-up costs the same whether it adds one family's score or the sum of several. So with many
rows, families with few joint values between them are combined: a feature's tables with one, two and
three parents become a single look-up, and so do the curves of two features. The tables used by rows
hold the sums; the learned parameters are still the families' own scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from math import prod
from operator import mul
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.codes import Chunk, Codes, Domain, Groups, Rows
from tanager.engines import FitContext, Sums
from tanager.numerics import Floats, Ints, split_by_size, starts_of
from tanager.progress import Progress

JoinedTable = tuple[tuple[int, ...], tuple[int, ...]]  # columns, and the families over them

# From codes to each row's cell in tables with more than a uint16 can count, (n_rows, n_wide).
Wide = Callable[[Codes], NDArray[np.int32]]

# Maps a family and its members' digits to the cells of these joint values; a digit past its
# member's arity means unknown.
Find = Callable[[int, Sequence[Ints]], NDArray[np.integer]]

MOST_JOINT = 1 << 12  # scores per joined table: several of them fit in the cache
ROWS_PER_VALUE = 8  # with fewer rows joining doesn't pay off
FEWEST_ROWS = 1_000  # with fewer, joining takes longer than it saves
LOOK_BACK = 16  # candidate tables for each family
MOST_WEIGHED = 1 << 23  # joint values weighed in one pass


class Columns(NamedTuple):
    """The features at one or more resolutions."""

    features: tuple[int, ...]  # the feature of each column
    digits: tuple[Ints, ...]  # (arity + 1,): a column's value for each code; last, for "unknown"
    arities: Ints  # (n_columns,)
    n_ordered: tuple[int, ...]  # number of leading values of a column that are ordered
    lines: Mapping[int, Floats] = {}  # straight lines that curves may follow, see `with_line`

    @classmethod
    def of(
        cls, domain: Domain, *groupings: Sequence[Groups], lines: Mapping[int, Floats] | None = None
    ) -> Columns:
        """Return the features themselves, followed by their groups, grouping by grouping."""
        digits = [np.arange(arity + 1) for arity in domain.arities]
        arities, ordered = list(domain.arities), list(domain.n_ordered)
        for groups in groupings:
            for group, n_ordered in zip(groups, domain.n_ordered, strict=True):
                size = int(group.max()) + 1
                digits.append(np.append(group, size).astype(np.int64))
                arities.append(size)
                ordered.append(int(group[:n_ordered].max()) + 1 if n_ordered else 0)
        features = tuple(range(domain.n_features)) * (1 + len(groupings))
        sizes = np.array(arities, np.int64)
        return cls(features, tuple(digits), sizes, tuple(ordered), lines or {})


def join_families(
    families: Sequence[tuple[int, ...]], columns: Columns, n_rows: int, n_scores: int
) -> list[JoinedTable]:
    """Combine families of the same columns into one table and, with many rows, more of them.

    Each goes into the table that it enlarges least. `n_scores` are the scores per joint value.
    """
    same: dict[tuple[int, ...], list[int]] = {}
    for at, family in enumerate(families):
        same.setdefault(family, []).append(at)
    alone: list[JoinedTable] = [(members, tuple(inside)) for members, inside in same.items()]
    if n_rows < FEWEST_ROWS:
        return alone
    most, radices = n_rows // ROWS_PER_VALUE, (columns.arities + 1).tolist()
    joined = join_sets(list(same), radices, min(MOST_JOINT // n_scores, most), most)
    if len(joined) == len(alone):
        return alone
    return [(held, tuple(at for one in chosen for at in alone[one][1])) for held, chosen in joined]


def join_sets(
    families: Sequence[tuple[int, ...]], radices: Sequence[int], cap: int, most: int
) -> list[JoinedTable]:
    """Assign each family, largest first, to the table that it enlarges least.

    Tables grow up to `cap` joint values; one of up to `most` takes families that add no column.
    """
    own = [prod(radices[column] for column in family) for family in families]
    joined: list[tuple[set[int], list[int]]] = []
    sizes: list[int] = []  # sizes of the joined tables
    near: dict[int, list[int]] = {}  # tables with a column, newest last
    for at in sorted(range(len(families)), key=lambda at: (-own[at], at)):
        members = set(families[at])
        best, growth = -1, cap + most  # more than any possible growth
        if own[at] <= most:
            found = {place for column in members for place in near.get(column, [])[-LOOK_BACK:]}
            found.update(range(max(len(joined) - LOOK_BACK, 0), len(joined)))
            for place in sorted(found):
                ratio = prod([radices[column] for column in members - joined[place][0]])
                grown = sizes[place] * ratio
                if (grown <= cap or ratio == 1) and grown <= most and ratio < growth:
                    best, growth = place, ratio
        if best < 0:
            best, growth = len(joined), own[at]
            joined.append((set(), []))
            sizes.append(1)
        for column in members - joined[best][0]:
            near.setdefault(column, []).append(best)
        joined[best][0].update(members)
        joined[best][1].append(at)
        sizes[best] *= growth
    return [(tuple(sorted(held)), tuple(inside)) for held, inside in joined]


class _Lookups(NamedTuple):
    """How joint values of tables are added up; see `locate_rows` in src/native/loglinear.c."""

    features: Ints
    table_start: Ints
    shares: NDArray[np.int32]
    share_start: Ints
    sizes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, tables: Sequence[tuple[int, ...]], columns: Columns) -> _Lookups:
        arities = columns.arities.tolist()
        sizes = [tuple(arities[c] + 1 for c in members) for members in tables]
        held = [column for members in tables for column in members]
        digits = [columns.digits[column] for column in held]
        lengths = [len(one) for one in digits]
        strides: list[int] = []
        for size in sizes:
            strides += [*accumulate(size[:0:-1], mul, initial=1)][::-1]
        shares = np.concatenate([np.zeros(0, np.int64), *digits])
        shares *= np.repeat(np.array(strides, np.int64), lengths)
        return cls(
            np.array([columns.features[column] for column in held], np.int64),
            starts_of(list(map(len, tables))),
            shares.astype(np.int32),
            starts_of(lengths)[:-1],
            tuple(sizes),
        )


def weigh_joints(
    tables: Sequence[JoinedTable], columns: Columns, rows: Rows, context: FitContext
) -> list[Floats]:
    """Return the weight of the rows with each joint value of each table, (*(arity + 1))."""
    held = [members for members, _ in tables]
    sizes = [prod(int(columns.arities[c]) + 1 for c in members) for members in held]
    out: list[Floats] = []
    for batch in split_by_size(held, sizes, MOST_WEIGHED):
        pass_ = _WeighPass(_Lookups.of(batch, columns))
        out += context.engine.run(pass_, rows, Progress(), "joint values")
    return out


class _WeighPass(Sums):
    """Weighs the joint values of some tables; exact, since the rows' weights are."""

    def __init__(self, sums: _Lookups) -> None:
        self._sums, self._start = sums, starts_of(list(map(prod, sums.sizes)))

    def zero(self) -> Floats:
        return np.zeros(int(self._start[-1]))

    def update(self, state: Floats, chunk: Chunk) -> Floats:
        weights = np.zeros(0) if chunk.weights is None else chunk.weights
        native.weigh_joints(chunk.codes, *self._sums[:4], weights, self._start[:-1], state)
        return state

    def finish(self, state: Floats) -> list[Floats]:
        parts = zip(self._start[:-1], self._start[1:], self._sums.sizes, strict=True)
        return [state[low:high].reshape(size) for low, high, size in parts]


class Places(NamedTuple):
    """The positions of rows in each table; picklable, for whoever reads the rows."""

    sums: _Lookups
    places: NDArray[np.uint16]
    place_start: Ints
    wide: Wide | None = None

    @classmethod
    def of(
        cls, tables: Sequence[tuple[int, ...]], columns: Columns, places: Sequence[Ints]
    ) -> Places:
        """Return them from the position of each table's joint values."""
        flat = np.concatenate([np.zeros(0, np.int64), *places]).astype(np.uint16)
        return cls(_Lookups.of(tables, columns), flat, starts_of(list(map(len, places)))[:-1])

    def locate(self, codes: Codes) -> tuple[NDArray[np.uint16], NDArray[np.int32]]:
        """Return each row's cell in each table, relative to its start, and in the wide ones."""
        n_rows = codes.shape[1]
        out = np.empty((n_rows, len(self.place_start)), np.uint16)
        native.locate_rows(codes, *self.sums[:4], self.places, self.place_start, out)
        if self.wide is None:
            return out, np.zeros((n_rows, 0), np.int32)
        return out, self.wide(codes)


class _Sources(NamedTuple):
    """The cells of the families, `n_cells` in total, summed by each cell of the tables."""

    ends: Ints  # (n_table_cells + 1,): offsets of each cell's sources
    cells: NDArray[np.int32]
    n_cells: int


@dataclass(frozen=True, eq=False)
class Joint:
    """The tables used by rows, each with the scores of one family or the sums of several."""

    starts: Ints  # (n_tables,): the tables' first cells
    n_cells: int
    places: Places
    sources: _Sources | None = None  # None: the tables are the families' own cells

    @classmethod
    def summed(
        cls,
        families: Sequence[tuple[int, ...]],
        columns: Columns,
        tables: Sequence[JoinedTable],
        weighed: Sequence[Floats],
        find: Find,
        n_cells: int,
        wide: Sequence[Ints] = (),
        locate_wide: Callable[[Sequence[int], Codes], NDArray[np.int32]] | None = None,
    ) -> Joint:
        """Return tables of the joint values that occur in rows: sums of `n_cells` family cells.

        `wide` are the cells of separate tables, in which `locate_wide` finds rows, given starts.
        """
        found: list[NDArray[np.integer]] = [np.zeros(1, np.int64)]
        numbers = [1]  # number of sources of each cell of a table
        sizes, places = [1], []  # cells of the class node, then of each table
        for (members, inside), mass in zip(tables, weighed, strict=True):
            seen = mass.ravel().nonzero()[0]
            place = np.zeros(mass.size, np.int64)
            place[seen] = np.arange(len(seen))
            places.append(place)
            digits = dict(zip(members, np.unravel_index(seen, mass.shape), strict=True))
            cells = np.empty((len(seen), len(inside)), np.int32)
            for place_of, at in enumerate(inside):
                cells[:, place_of] = find(at, [digits[column] for column in families[at]])
            found.append(cells.ravel())
            sizes.append(max(len(seen), 1))
            numbers.append(len(inside) if len(seen) else 0)
        found += wide
        starts = np.cumsum(sizes + [len(own) for own in wide])
        numbers += [1] * len(wide)
        each = np.repeat(numbers, np.diff(starts, prepend=0))
        where = Places.of([members for members, _ in tables], columns, places)
        if locate_wide is not None and wide:
            where = where._replace(wide=partial(locate_wide, starts[len(tables) : -1].tolist()))
        sources = _Sources(starts_of(each), np.concatenate(found).astype(np.int32), n_cells)
        return cls(starts[: len(tables)], int(starts[-1]), where, sources)

    def expand(self, scores: Floats) -> Floats:
        """Return the scores used by rows, from the families' scores (n_family_cells, n_columns)."""
        if self.sources is None:
            return scores
        out = np.empty((self.n_cells, scores.shape[1]))
        native.sum_cells(self.sources.ends, self.sources.cells, scores, out)
        return out

    def pull(self, slopes: Floats) -> Floats:
        """Return the transpose of `expand`."""
        if self.sources is None:
            return slopes
        out = np.zeros((self.sources.n_cells, slopes.shape[1]))
        native.share_slopes(self.sources.ends, self.sources.cells, slopes, out)
        return out
