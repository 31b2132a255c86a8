"""Exact inference over the unknown features of rows: sums, expected families, and draws.

Each row's families with an unknown member become factors over those members, and a compiled
loop sums out the unknown features, row by row: the result for a row depends only on that row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.codes import Chunk, Codes
from tanager.codes.hashing import row_hash
from tanager.codes.rows import exact_weights
from tanager.counts.pairs import Radix
from tanager.numerics import Floats, Ints, starts_of
from tanager.parameters.tables import Tables, family_members
from tanager.structure import Structure

Bools = NDArray[np.bool_]

BATCH_CELLS = 1 << 20  # in the factors of a batch of rows: 8 MiB


class _Group(NamedTuple):
    """Rows whose families of one feature have the same members missing."""

    family: int
    rows: Ints  # (n,)
    missing: Bools  # which of the members: the parents, then the feature
    start: Ints  # (n,): where each row's cells start


@dataclass(frozen=True, eq=False)
class Unknown:
    """The unknown features of rows, under a network's tables."""

    structure: Structure
    tables: Tables  # normalised: probabilities, not scores, unless only `log_sums` is used
    arities: Ints  # (n_features,)
    # of any intermediate table of one row; rows that need a larger one get no result
    max_cells: int = 1 << 20

    @cached_property
    def _members(self) -> list[Ints]:
        return [family_members(self.structure, at) for at in range(len(self.structure.selected))]

    @cached_property
    def _holds(self) -> Bools:
        """Which features are members of each family, (n_families, n_features)."""
        holds = np.zeros((len(self._members), len(self.arities)), np.bool_)
        for at, members in enumerate(self._members):
            holds[at, members] = True
        return holds

    def _families(self, summed: Bools) -> list[tuple[int, Ints]]:
        """Return the families with a feature to sum out in some row, and their members."""
        some = self._holds[:, summed.any(axis=1)].any(axis=1)
        return [(int(at), self._members[at]) for at in np.flatnonzero(some)]

    def log_sums(self, codes: Codes) -> Floats:
        """Return the sums over families with an unknown member, (n_rows, n_classes), or NaN."""
        unknown = codes >= self.arities[:, None]
        relevant = np.zeros_like(unknown)
        for at in reversed(self.structure.topological_order()):
            # An unknown feature with no observed descendants sums to one.
            feature, parents = self.structure.selected[at], self.structure.parent_indices[at]
            bears = ~unknown[feature] | relevant[feature]
            for parent in parents:
                relevant[parent] |= bears & unknown[parent]
        out = np.zeros((codes.shape[1], self.tables.log_prior.shape[0]))
        out[relevant.any(axis=0)] = np.nan
        for rows in self._batches(relevant):
            out[rows] = _Batch(self, codes[:, rows], unknown[:, rows], relevant[:, rows], None).sums
        return out

    def expected(
        self, chunk: Chunk, total_weight: float, log_likelihood: Floats
    ) -> Iterator[tuple[int, Chunk]]:
        """Yield each family's position and the expected members of rows with an unknown one.

        Weights are the rows' weights times the probabilities given the class and known features, on
        the grid of `total_weight`; members past the bound have none. Writes log P(known features,
        class) of each row to `log_likelihood`, (n_rows,); NaN past the bound.

        Unknown features that share no family with one another are independent: each connected set
        is summed once for all rows that agree in the class and in the set's known neighbours.
        """
        known = self.tables.log_joint(self.structure, chunk.codes, self.arities)
        log_likelihood[:] = known[np.arange(chunk.n_rows), chunk.labels]
        for alike in self._alike(chunk, self._connected(self._unknown(chunk.codes))):
            sums = np.full(alike.codes.shape[1], np.nan)
            for some in self._batches(alike.summed):
                codes, summed = np.ascontiguousarray(alike.codes[:, some]), alike.summed[:, some]
                batch = _Batch(self, codes, summed, summed, alike.labels[some], marginals=True)
                sums[some] = batch.sums[:, 0]
                for group in batch.groups:
                    spelled, n_cells = batch.spell(group)
                    spelled = spelled.reshape(len(spelled), -1, n_cells)
                    shares = batch.cells[group.start[:, None] + np.arange(n_cells), 0]
                    shares[np.isnan(batch.sums[group.rows, 0])] = 0.0
                    place = np.full(len(sums), -1)
                    place[some[group.rows]] = np.arange(len(group.rows))
                    places = place[alike.of]
                    held, step = np.flatnonzero(places >= 0), max(1, BATCH_CELLS // n_cells)
                    for pairs in (held[i : i + step] for i in range(0, len(held), step)):
                        weights = shares[places[pairs]] * alike.weights[pairs, None]
                        weights = exact_weights(weights, total_weight) * alike.times[pairs, None]
                        members = np.ascontiguousarray(spelled[:, places[pairs]])
                        members = members.reshape(len(spelled), -1)
                        labels = np.repeat(alike.labels[alike.of[pairs]], n_cells)
                        yield group.family, Chunk(members, labels, weights.ravel(), 0)
            np.add.at(log_likelihood, alike.rows, sums[alike.which])

    def _alike(self, chunk: Chunk, first: Ints) -> Iterator[_Alike]:
        """Yield the distinct rows of the connected sets of a chunk, those of many sets at once."""
        found: list[_Alike] = []
        for at in np.unique(first[first >= 0]):
            some = first[at] == at
            found.append(_Alike.among(self, chunk, some, first[:, some] == at))
            if sum(one.codes.size for one in found) > BATCH_CELLS:
                yield _Alike.joined(found)
                found = []
        if found:
            yield _Alike.joined(found)

    def _connected(self, unknown: Bools) -> Ints:
        """Return the first feature connected with each unknown one, (n_features, n_rows), or -1."""
        n = len(unknown)
        first = np.where(unknown, np.arange(n, dtype=np.int32)[:, None], n)
        order = [m for at in self.structure.topological_order() if len(m := self._members[at]) > 1]
        before = None
        while before is None or not np.array_equal(before, first):
            before = first.copy()
            for members in (*order, *order[::-1]):
                first[members] = np.where(unknown[members], first[members].min(axis=0), n)
        return np.where(unknown, first, -1)

    def draw(self, chunk: Chunk, n_draws: int, seed: int) -> tuple[Ints, Codes]:
        """Draw unknown features from P(unknown | known, class), `n_draws` times per incomplete row.

        Returns each row's source (n,) and the codes (n_features, n); complete rows occur once,
        and rows past the bound stay incomplete. A row's random numbers depend only on the seed and
        its index, and are evenly spaced.
        """
        unknown = self._unknown(chunk.codes)
        some: Bools = np.asarray(unknown.any(axis=0))
        copies, lacking = np.where(some, n_draws, 1), np.flatnonzero(some)
        source = np.repeat(np.arange(chunk.n_rows), copies)
        first = np.cumsum(copies) - copies
        codes = np.ascontiguousarray(chunk.codes[:, source])
        if not len(lacking):
            return source, codes
        numbers = (np.arange(n_draws) + uniforms(seed, chunk.indices)[:, None]) / n_draws
        alike = _Alike.among(self, chunk._replace(weights=None), some, unknown[:, some])
        order = np.argsort(alike.which, kind="stable")
        start = np.searchsorted(alike.which[order], np.arange(alike.codes.shape[1] + 1))
        for at in self._batches(alike.summed):
            missing, sizes = alike.summed[:, at], start[at + 1] - start[at]
            mine = lacking[order[_spans(start[at], sizes)]]  # one distinct row after the other
            batch = _Batch(
                *(self, np.ascontiguousarray(alike.codes[:, at]), missing, missing),
                alike.labels[at],
                numbers=(numbers[mine].ravel(), starts_of(sizes * n_draws)),
            )
            row, feature = np.nonzero(missing.T)
            # Every unknown feature of a distinct row has as many draws as the rows like it.
            drawn = np.repeat(np.isfinite(batch.sums[row, 0]), sizes[row] * n_draws)
            own = mine[_spans(starts_of(sizes)[row], sizes[row])]
            places = (first[own][:, None] + np.arange(n_draws)).ravel()[drawn]
            feature = np.repeat(feature, sizes[row] * n_draws)[drawn]
            codes[feature, places] = batch.draws[drawn]
        return source, codes

    def _unknown(self, codes: Codes) -> Bools:
        """Return which of the network's features are unknown, (n_features, n_rows)."""
        unknown = codes >= self.arities[:, None]
        rest = np.ones(len(unknown), np.bool_)
        rest[list(self.structure.selected)] = False
        unknown[rest] = False
        return unknown

    def _batches(self, summed: Bools) -> Iterator[Ints]:
        """Yield batches of positions of rows with a feature to sum out, up to the bound."""
        rows = np.flatnonzero(summed.any(axis=0))
        n_classes = self.tables.log_prior.shape[0]
        sizes, largest = np.ones(len(rows)), np.ones(len(rows))
        for _, members in self._families(summed):
            lacks = summed[np.ix_(members, rows)]
            cells = np.where(lacks, self.arities[members, None], 1.0).prod(axis=0)
            sizes += cells
            largest = np.maximum(largest, cells)
        kept = largest * n_classes <= self.max_cells
        rows, sizes = rows[kept], sizes[kept]
        batch = (np.cumsum(sizes) * n_classes // BATCH_CELLS).astype(np.int64)
        ends = np.flatnonzero(np.diff(batch)) + 1
        yield from (part for part in np.split(rows, ends) if len(part))


def uniforms(seed: int, indices: Ints) -> Floats:
    """Return a number in [0, 1) for each row that depends only on seed and index."""
    return (row_hash(seed, indices) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _spans(starts: Ints, sizes: Ints) -> Ints:
    """Return starts[i], starts[i] + 1, .. for `sizes[i]` numbers, one i after the other."""
    return np.arange(sizes.sum()) + np.repeat(starts - starts_of(sizes)[:-1], sizes)


class _Alike(NamedTuple):
    """Rows that lack some features, by what sums over these depend on, and by weight."""

    codes: Codes  # (n_features, n): of each distinct row, zero except in families it sums over
    summed: Bools  # (n_features, n)
    labels: NDArray[np.uint16]  # (n,)
    rows: Ints  # (n_rows,): positions in the chunk
    which: Ints  # (n_rows,): every row's distinct row
    of: Ints  # (n_pairs,): the distinct row of each distinct (row, weight)
    weights: Floats  # (n_pairs,)
    times: Ints  # (n_pairs,): how many rows have both

    @classmethod
    def among(cls, under: Unknown, chunk: Chunk, some: Bools, summed: Bools) -> _Alike:
        """Return the distinct rows of some of a chunk's, and what each sums out."""
        chunk, rows = chunk.take(some), np.flatnonzero(some)
        near = np.zeros_like(summed)
        for _, members in under._families(summed):
            near[members] |= summed[members].any(axis=0)
        arities = under.arities[:, None]
        codes = np.where(summed, arities, np.where(near, chunk.codes, 0)).astype(chunk.codes.dtype)
        used = np.flatnonzero(near.any(axis=1))
        sizes = (under.tables.log_prior.shape[0], *(under.arities[used] + 1).tolist())
        keys = Radix(sizes).keys(np.concatenate([chunk.labels[None], codes[used]]))
        order = np.lexsort((chunk.row_weights, *keys[::-1]))
        keys, weights = keys[:, order], chunk.row_weights[order]
        new = np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0))
        pair = np.flatnonzero(new | np.append(True, weights[1:] != weights[:-1]))
        of, kept = np.cumsum(new) - 1, order[new]
        which = np.empty(len(order), np.int64)
        which[order] = of
        times = np.diff(np.append(pair, len(order)))
        labels, weights = chunk.labels[kept], weights[pair]
        return cls(codes[:, kept], summed[:, kept], labels, rows, which, of[pair], weights, times)

    @classmethod
    def joined(cls, parts: Sequence[_Alike]) -> _Alike:
        """Return the distinct rows of several sets of features together."""
        starts = starts_of([len(one.labels) for one in parts])
        moved = [
            one._replace(which=one.which + start, of=one.of + start)
            for one, start in zip(parts, starts, strict=False)
        ]
        return cls(*(np.concatenate(arrays, axis=-1) for arrays in zip(*moved, strict=True)))


class _Batch:
    """The factors of a batch of rows, laid out and summed."""

    def __init__(
        self,
        under: Unknown,
        codes: Codes,
        unknown: Bools,
        summed: Bools,
        labels: NDArray[np.integer] | None,
        *,
        marginals: bool = False,
        numbers: tuple[Floats, Ints] | None = None,  # of each row's draws, and where they start
    ) -> None:
        self.under, self.codes = under, codes
        n_rows = codes.shape[1]
        local = np.cumsum(summed, axis=0) - 1  # a feature's index among its row's unknown ones
        self.groups: list[_Group] = []
        scopes: list[Ints] = []
        for family, members in under._families(summed):
            lacks = summed[members]
            # A barren child of a summed-out feature doesn't affect the sum.
            lacks = lacks & ~(unknown[members[-1]] & ~summed[members[-1]])
            used = np.flatnonzero(lacks.any(axis=0))
            patterns, which = np.unique(lacks[:, used], axis=1, return_inverse=True)
            for at, missing in enumerate(patterns.T):
                rows = used[which.ravel() == at]
                self.groups.append(_Group(family, rows, missing, rows))
                scopes.append(local[np.ix_(members[missing], rows)].T)
        arities = [under.arities[under._members[g.family][g.missing]] for g in self.groups]
        counts = [
            (len(group.rows), int(np.prod(some)), len(some))
            for group, some in zip(self.groups, arities, strict=True)
        ]
        sizes = np.repeat([size for _, size, _ in counts], [n for n, _, _ in counts])
        widths = np.repeat([width for _, _, width in counts], [n for n, _, _ in counts])
        row = np.concatenate([g.rows for g in self.groups])
        order = np.argsort(row, kind="stable")
        cell_start, member_start = (starts_of(some[order]) for some in (sizes, widths))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        members_flat = np.empty(member_start[-1], np.int64)
        n_classes = under.tables.log_prior.shape[0] if labels is None else 1
        self.cells = np.empty((cell_start[-1], n_classes))
        first = 0
        for at, (group, scope) in enumerate(zip(self.groups, scopes, strict=True)):
            mine = place[first : first + len(group.rows)]
            first += len(group.rows)
            members_flat[member_start[mine][:, None] + np.arange(scope.shape[1])] = scope
            self.groups[at] = group = group._replace(start=cell_start[mine])
            self._fill(group, labels)
        n_variables = summed.sum(axis=0)
        self.sums = np.empty((n_rows, n_classes))
        feature = np.nonzero(summed.T)[1]
        drawn_at, number_start = numbers or (np.zeros(0), np.zeros(n_rows + 1, np.int64))
        n_drawn = int(n_variables @ np.diff(number_start))
        self.draws = np.empty(n_drawn, np.uint16)  # row by row, variable by variable
        native.sum_unknown(
            under.arities[feature],
            starts_of(n_variables),
            members_flat,
            member_start,
            np.searchsorted(row[order], np.arange(n_rows + 1)),
            cell_start,
            self.cells,
            drawn_at,
            number_start,
            under.max_cells,
            int(marginals),
            self.sums,
            self.draws,
        )

    def spell(self, group: _Group) -> tuple[Codes, int]:
        """Return the members' codes of every cell of a group, (n_members, n), and cells per row."""
        members = self.under._members[group.family]
        shape = tuple(self.under.arities[members[group.missing]].tolist())
        grid = np.indices(shape, dtype=self.codes.dtype).reshape(len(shape), -1)
        spelled = np.empty((len(members), len(group.rows), grid.shape[1]), self.codes.dtype)
        spelled[~group.missing] = self.codes[np.ix_(members[~group.missing], group.rows)][..., None]
        spelled[group.missing] = grid[:, None]
        return np.ascontiguousarray(spelled.reshape(len(members), -1)), grid.shape[1]

    def _fill(self, group: _Group, labels: NDArray[np.integer] | None) -> None:
        """Write the logs of a group's cells to their positions."""
        spelled, n_cells = self.spell(group)
        under = self.under
        members = under._members[group.family]
        terms = np.zeros((spelled.shape[1], under.tables.log_prior.shape[0]))
        table = under.tables.families[group.family]
        table.add_terms(spelled, under.arities[members], np.arange(len(members)), terms)
        if labels is not None:
            own = np.repeat(labels[group.rows], n_cells)
            terms = terms[np.arange(len(own)), own][:, None]
        self.cells[(group.start[:, None] + np.arange(n_cells)).ravel()] = terms
