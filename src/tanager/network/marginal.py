"""Exact marginalisation of unknown features, for any structure.

Only unknown features are summed out, and one with nothing known below it sums to one and drops
out. On forests (naive Bayes, TAN, kDB-1), messages run up the tree row by row; on other structures
each row's unknown features are eliminated, the smallest tables first
(`tanager.parameters.unknown`). Both loops are compiled.

If a row's unknown features are too entangled to be eliminated within the memory limit, its sum is
approximate, and a warning is issued: see `_Forward`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from math import prod

import numpy as np

from tanager import native
from tanager.codes import Codes
from tanager.errors import ApproximationWarning, MemoryBoundError, check_cells, listed
from tanager.numerics import Floats, Ints
from tanager.parameters import DenseTable, GroupedTable, Tables
from tanager.parameters.tables import family_members
from tanager.parameters.unknown import Unknown
from tanager.structure import Structure

MAX_CELLS = 1 << 25  # cells of one row's intermediate factor: 256 MiB
ROW_CELLS = 1 << 21  # the same if many rows are predicted: some 10 ms per row
FORWARD_CELLS = 1 << 17  # of a family if even that is too much

BATCH_CELLS = 1 << 17  # cells of a batch of rows: 1 MiB, which stays in the cache


def add_unknown_sums(
    tables: Tables, structure: Structure, codes: Codes, arities: Ints, log_joint: Floats
) -> None:
    """Add to the log-joint (n_rows, n_classes) the sums of families with unknown members.

    Rows without unknown features aren't changed.
    """
    spelled = (DenseTable, GroupedTable)
    if structure.max_parents == 0 or codes.shape[1] == 0:
        return
    if structure.max_parents == 1 and all(isinstance(t, spelled) for t in tables.families):
        _add_on_forest(tables, structure, codes, arities, log_joint)
    else:
        _add_by_row(tables, structure, codes, arities, log_joint)


def _add_on_forest(
    tables: Tables, structure: Structure, codes: Codes, arities: Ints, out: Floats
) -> None:
    order = structure.topological_order()
    features = np.array([structure.selected[at] for at in order], np.int64)
    parents = np.array([(*structure.parent_indices[at], -1)[0] for at in order], np.int64)
    arrays = [tables.families[at].to_dense().log_prob.ravel() for at in order]
    start = np.cumsum([0, *(a.shape[0] for a in arrays)])[:-1].astype(np.int64)
    flat = np.concatenate(arrays)
    native.add_forest_sums(codes, arities, features, parents, flat, start, out)


def _add_by_row(
    tables: Tables, structure: Structure, codes: Codes, arities: Ints, out: Floats
) -> None:
    sums = Unknown(structure, tables, arities, ROW_CELLS).log_sums(codes)
    entangled = np.flatnonzero(np.isnan(sums[:, 0]))
    sums[entangled] = 0.0
    out += sums
    if not len(entangled):
        return
    selected = list(structure.selected)
    unknown = codes[selected] >= arities[selected, None]  # (n_selected, n_rows)
    packed = np.packbits(unknown[:, entangled], axis=0).T
    _, first, inverse = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    reason = ""
    for at, pattern in enumerate(entangled[first]):
        missing = {structure.selected[at] for at in np.flatnonzero(unknown[:, pattern])}
        forward = _Forward(tables, structure, arities, missing)
        forward.add(codes, entangled[inverse.ravel() == at], out)
        reason = reason or forward.reason
    warnings.warn(
        f"The probabilities of {len(entangled)} rows are approximate: too many features that "
        f"depend on one another are unknown there. {reason}",
        ApproximationWarning,
        stacklevel=2,
    )


class _Forward:
    """An approximation for one set of unknown features too entangled to be eliminated exactly.

    Parents before children, each unknown feature gets its distribution given the class and its
    parents, which are treated as independent; a known feature's term is averaged over its unknown
    parents. What's known below an unknown feature doesn't affect it. Exact if no two unknown
    features share a known child or a chain of unknown ones. If a family has too many unknown
    parents, the last ones are fixed at their most probable value.
    """

    def __init__(
        self, tables: Tables, structure: Structure, arities: Ints, missing: set[int]
    ) -> None:
        self.tables, self.arities, self.features = tables, arities, structure.selected
        self.n_classes = tables.log_prior.shape[0]
        order = structure.topological_order()
        summed: set[int] = set()  # unknown features with known descendants
        for at in reversed(order):
            if self.features[at] not in missing or self.features[at] in summed:
                summed.update(missing.intersection(structure.parent_indices[at]))
        scopes = []
        # For each family: its index, members, unknown members to sum over, and those fixed.
        self.steps: list[tuple[int, Ints, tuple[int, ...], list[int]]] = []
        for at in order:
            members, feature = family_members(structure, at), self.features[at]
            scope = tuple(int(m) for m in members if int(m) in summed)
            if not scope or (feature in missing and feature not in summed):
                continue
            scopes.append(scope)
            parents, fixed = [member for member in scope if member != feature], []
            while self._size(scope) > FORWARD_CELLS and parents:
                fixed.append(parents.pop())
                scope = tuple(member for member in scope if member != fixed[-1])
            self.steps.append((at, members, scope, fixed))
        self.reason = ""  # why the exact sum takes too much memory
        try:
            elimination_order(summed, scopes, self._size, ROW_CELLS, structure.names)
        except MemoryBoundError as bound:
            self.reason = str(bound)

    def _size(self, features: Iterable[int]) -> int:
        return prod(int(self.arities[f]) for f in features) * self.n_classes

    def add(self, codes: Codes, rows: Ints, out: Floats) -> None:
        """Add the approximate log-sum for every class to the rows of out, batch by batch."""
        step = max(1, BATCH_CELLS // max(self._size(scope) for _, _, scope, _ in self.steps))
        for low in range(0, rows.shape[0], step):
            some = rows[low : low + step]
            out[some] += self._sum(codes[:, some])

    def _sum(self, codes: Codes) -> Floats:
        beliefs: dict[int, Floats] = {}  # P(unknown value | class, above), (n_rows, C, arity)
        total = np.zeros((codes.shape[1], self.n_classes))
        for at, members, scope, fixed in self.steps:
            feature = self.features[at]
            if fixed:
                codes = codes.copy()
                for parent in fixed:
                    codes[parent] = beliefs[parent].sum(axis=1).argmax(axis=1)
            term = np.exp(self._factor(codes, at, members, scope))
            for axis in range(len(scope) - 1, -1, -1):
                if scope[axis] != feature:
                    belief = beliefs[scope[axis]]
                    shape = [*belief.shape[:2], *(1 for _ in scope)]
                    shape[2 + axis] = belief.shape[2]
                    term = (term * belief.reshape(shape)).sum(axis=2 + axis, keepdims=True)
            if feature in scope:
                beliefs[feature] = term.reshape(*term.shape[:2], -1)
            else:
                with np.errstate(divide="ignore"):
                    total += np.log(term.reshape(term.shape[:2]))
        return total

    def _factor(self, codes: Codes, at: int, members: Ints, scope: tuple[int, ...]) -> Floats:
        """Return log P(x | y, parents) over the unknown members, (n_rows, n_classes, *scope)."""
        n_rows = codes.shape[1]
        shape = tuple(int(self.arities[f]) for f in scope)
        grid = np.indices(shape, dtype=codes.dtype).reshape(len(scope), -1)
        spelled = np.empty((len(members), n_rows, grid.shape[1]), codes.dtype)
        for place, member in enumerate(members):
            known = int(member) not in scope
            spelled[place] = codes[member][:, None] if known else grid[scope.index(int(member))]
        terms = np.zeros((n_rows * grid.shape[1], self.n_classes))
        flat = np.ascontiguousarray(spelled.reshape(len(members), -1))
        places = np.arange(len(members))
        self.tables.families[at].add_terms(flat, self.arities[members], places, terms)
        by_class = np.moveaxis(terms.reshape(n_rows, *shape, self.n_classes), -1, 1)
        return np.ascontiguousarray(by_class)


def align(scope: tuple[int, ...], values: Floats, wanted: tuple[int, ...]) -> Floats:
    """Reorder and extend axes (..., *scope) to a wider scope, with length 1 for what is new."""
    first = values.ndim - len(scope)
    places = [first + scope.index(f) for f in wanted if f in scope]
    moved = values.transpose(*range(first), *places)
    return moved[(..., *(slice(None) if f in scope else None for f in wanted))]


def eliminate(
    features: Iterable[int],
    scopes: Iterable[Iterable[int]],
    size: Callable[[Iterable[int]], int],
) -> Iterator[tuple[int, frozenset[int]]]:
    """Yield features in min-fill order, each with those it's joined to at that time.

    `scopes` are the sets of features that share a table, including those that stay; `size` returns
    the number of combinations of some features' values, and breaks ties.

    >>> [f for f, around in eliminate([0, 1, 2], [(0, 1), (1, 2)], len)]
    [0, 1, 2]
    """
    waiting = set(features)
    neighbours = {f: set[int]() for f in waiting}
    for scope in scopes:
        for f in scope:
            neighbours.setdefault(f, set()).update(set(scope) - {f})

    def cost(feature: int) -> tuple[int, int, int]:
        near = neighbours[feature]
        fill = sum(b not in neighbours[a] for a, b in combinations(near, 2))
        return fill, size(near), feature

    while waiting:
        best = min(waiting, key=cost)
        waiting.remove(best)
        around = frozenset(neighbours.pop(best))
        for f in around:
            neighbours[f] |= around - {f}
            neighbours[f].discard(best)
        yield best, around


def elimination_order(
    features: Iterable[int],
    scopes: Iterable[Iterable[int]],
    size: Callable[[Iterable[int]], int],
    bound: int,
    names: Sequence[str],
) -> list[int]:
    """Return features in elimination order; raise if a step needs more cells than the limit."""
    order = []
    for feature, around in eliminate(features, scopes, size):
        together = sorted((feature, *around))
        if size(together) > bound:
            unknown = listed((names[f] for f in together), len(together))
            what = f"The unknown features {unknown} depend on one another: summing them out takes"
            remedy = "Give the value of some of them, or learn a structure with fewer parents."
            check_cells(what, size(together), bound, remedy)
        order.append(feature)
    return order
