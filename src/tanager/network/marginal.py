"""Exact marginalisation of unknown features, for any structure.

What is known is instantiated; only unknown features are summed out. An unknown
feature with nothing known below it sums to one and drops out. On forests
(naive Bayes, TAN, kDB-1) messages run up the tree row by row; on other
structures each row's unknown features are eliminated, those with the smallest
tables first (`tanager.parameters.unknown`). Both loops are compiled.

A row whose unknown features hang together too closely to be eliminated within
a memory bound gets an approximation, and a warning says so: see `_Forward`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from math import prod

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.codes import Codes
from tanager.errors import ApproximationWarning, MemoryBoundError
from tanager.numerics import log_sum_exp
from tanager.parameters import DenseTable, GroupedTable, Tables
from tanager.parameters.tables import family_members
from tanager.parameters.unknown import Unknown
from tanager.structure import Structure

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_CELLS = 1 << 25  # cells of one row's intermediate factor: 256 MiB
ROW_CELLS = 1 << 21  # the same where many rows are predicted: some 10 ms a row
FORWARD_CELLS = 1 << 17  # of a family where even that is too much
Factor = tuple[tuple[int, ...], Floats]  # features; logs (n_rows, n_classes, *their arities)

BATCH_CELLS = 1 << 17  # cells of a batch of rows: 1 MiB, which stays in the cache


def add_unknown_sums(
    tables: Tables, structure: Structure, codes: Codes, arities: Ints, log_joint: Floats
) -> None:
    """Add to the log-joint (n_rows, n_classes) what families with unknown members sum to.

    Rows without an unknown feature stay as they are.
    """
    selected = np.array(structure.selected, np.int64)
    if structure.max_parents == 0 or codes.shape[1] == 0:
        return
    if (codes.max(axis=1) < arities)[selected].all():
        return
    unknown = codes[selected] >= arities[selected, None]  # (n_selected, n_rows)
    rows = np.flatnonzero(unknown.any(axis=0))
    part = log_joint[rows]
    some = np.ascontiguousarray(codes[:, rows])
    spelled = (DenseTable, GroupedTable)
    if structure.max_parents == 1 and all(isinstance(t, spelled) for t in tables.families):
        _add_on_forest(tables, structure, some, arities, part)
    else:
        _add_by_row(tables, structure, some, arities, unknown[:, rows], part)
    log_joint[rows] = part


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
    tables: Tables,
    structure: Structure,
    codes: Codes,
    arities: Ints,
    unknown: NDArray[np.bool_],
    out: Floats,
) -> None:
    sums = Unknown(structure, tables, arities, ROW_CELLS).log_sums(codes)
    entangled = np.flatnonzero(np.isnan(sums[:, 0]))
    sums[entangled] = 0.0
    out += sums
    if not len(entangled):
        return
    packed = np.packbits(unknown[:, entangled], axis=0).T
    _, first, inverse = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    reason = ""
    for at, pattern in enumerate(entangled[first]):
        missing = {structure.selected[at] for at in np.flatnonzero(unknown[:, pattern])}
        summed = _relevant(structure, missing)
        families = _UnknownFamilies(tables, structure, arities, missing, summed)
        forward = _Forward(families, structure)
        forward.add(codes, entangled[inverse.ravel() == at], out)
        reason = reason or families.why_too_large(summed)
    warnings.warn(
        f"The probabilities of {len(entangled)} rows are approximate: too many features that "
        f"depend on one another are unknown there. {reason}",
        ApproximationWarning,
        stacklevel=2,
    )


def _relevant(structure: Structure, missing: set[int]) -> set[int]:
    """Return the unknown features with something known below them."""
    relevant = set(missing)
    children: dict[int, list[int]] = {}
    for feature, parents in zip(structure.selected, structure.parent_indices, strict=True):
        for parent in parents:
            children.setdefault(parent, []).append(feature)
    barren = {f for f in relevant if not children.get(f)}
    while barren:
        relevant -= barren
        gone = missing - relevant
        barren = {f for f in relevant if all(c in gone for c in children.get(f, ()))}
    return relevant


class _UnknownFamilies:
    """The families with an unknown member that matters, for one set of unknown features."""

    def __init__(
        self,
        tables: Tables,
        structure: Structure,
        arities: Ints,
        missing: set[int],
        summed: set[int],
    ) -> None:
        self.tables = tables
        self.arities = arities
        self.names = structure.names
        self.n_classes = tables.log_prior.shape[0]
        self.members: list[tuple[int, Ints]] = []  # place in the structure; parents, feature
        self.scopes: list[tuple[int, ...]] = []  # which of them are summed out
        for at, feature in enumerate(structure.selected):
            members = family_members(structure, at)
            scope = tuple(int(m) for m in members if int(m) in summed)
            if scope and (feature not in missing or feature in summed):
                self.members.append((at, members))
                self.scopes.append(scope)

    def size(self, features: Iterable[int]) -> int:
        """Return the number of combinations of some features' values."""
        return prod(int(self.arities[f]) for f in features)

    def check(self, features: Iterable[int]) -> int:
        """Return their number of combinations; an error that names them past the bound."""
        together = sorted(features)
        size = self.size(together)
        if size * self.n_classes > ROW_CELLS:
            blame = ", ".join(repr(self.names[f]) for f in together)
            raise MemoryBoundError(
                f"Summing out the unknown features {blame} together needs {size:,} "
                f"combinations for each of {self.n_classes} classes, "
                f"{size * self.n_classes:,} cells, beyond the bound of {ROW_CELLS:,}. "
                "Give some of them, or learn a structure with fewer parents."
            )
        return size

    def why_too_large(self, summed: set[int]) -> str:
        """Return what an exact sum would need, and for which features; nothing if it's small."""
        try:
            for feature, around in eliminate(summed, self.scopes, self.size):
                self.check((feature, *around))
        except MemoryBoundError as bound:
            return str(bound)
        return ""

    def in_batches(
        self, largest: int, rows: Ints, out: Floats, log_sum: Callable[[Ints], Floats]
    ) -> None:
        """Add what `log_sum` returns for some rows to those rows of out, batch by batch."""
        step = max(1, BATCH_CELLS // (largest * self.n_classes))
        for low in range(0, rows.shape[0], step):
            some = rows[low : low + step]
            out[some] += log_sum(some)

    def factor(self, codes: Codes, at: int, members: Ints, scope: tuple[int, ...]) -> Floats:
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


class _Forward:
    """An approximation for unknown features that cannot be eliminated within the bound.

    Parents before children, each unknown feature gets its distribution given the
    class and its parents, those taken as independent of each other; a known
    feature's term is averaged over its unknown parents. What is known below an
    unknown feature does not bear on it. Exact where no two unknown features
    share a known child or a chain of unknown ones. Of a family with too many
    unknown parents, the last ones stand at their most probable value.
    """

    def __init__(self, families: _UnknownFamilies, structure: Structure) -> None:
        self.families = families
        self.features = structure.selected
        place = {at: rank for rank, at in enumerate(structure.topological_order())}
        steps = []
        for (at, members), scope in zip(families.members, families.scopes, strict=True):
            kept = self._affordable(scope, self.features[at])
            steps.append((at, members, kept, set(scope) - set(kept)))
        self.steps = sorted(steps, key=lambda step: place[step[0]])
        self.largest = max(families.size(kept) for _, _, kept, _ in steps)

    def _affordable(self, scope: tuple[int, ...], feature: int) -> tuple[int, ...]:
        """Return a family's unknown members without the last parents that are too many."""
        size, n_classes = self.families.size, self.families.n_classes
        parents = [member for member in scope if member != feature]
        while size(scope) * n_classes > FORWARD_CELLS and parents:
            last = parents.pop()
            scope = tuple(member for member in scope if member != last)
        return scope

    def add(self, codes: Codes, rows: Ints, out: Floats) -> None:
        """Add the approximate log-sum for every class to the rows of out."""
        self.families.in_batches(self.largest, rows, out, lambda some: self._sum(codes[:, some]))

    def _sum(self, codes: Codes) -> Floats:
        beliefs: dict[int, Floats] = {}  # P(unknown value | class, above), (n_rows, C, arity)
        total = np.zeros((codes.shape[1], self.families.n_classes))
        for at, members, scope, pinned in self.steps:
            feature = self.features[at]
            if pinned:
                codes = codes.copy()
                for parent in pinned:
                    codes[parent] = beliefs[parent].sum(axis=1).argmax(axis=1)
            term = np.exp(self.families.factor(codes, at, members, scope))
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


def sum_out(factors: list[Factor], order: Iterable[int]) -> Factor:
    """Return the product of factors with some features summed out, one after the other.

    The scope of the answer is sorted. The factors' arrays are written over.
    """
    for feature in order:
        scope, total = multiply([f for f in factors if feature in f[0]])
        first = (feature, *(f for f in scope if f != feature))  # sums run fast over early axes
        summed = log_sum_exp(align(scope, total, first), axis=2, overwrite=True)
        factors = [*(f for f in factors if feature not in f[0]), (first[1:], summed)]
    return multiply(factors)


def multiply(factors: list[Factor]) -> Factor:
    """Multiply factors, writing over their arrays; the scope of the answer is sorted."""
    (scope, total), *rest = _absorbed(factors)
    for more, values in rest:
        joined = tuple(sorted({*scope, *more}))
        total = align(scope, total, joined) + align(more, values, joined)
        scope = joined
    ordered = tuple(sorted(scope))
    return ordered, align(scope, total, ordered)


def _absorbed(factors: list[Factor]) -> list[Factor]:
    """Add each factor to a larger one with all of its scope; return those left, small first."""
    left: list[Factor] = []
    for scope, values in sorted(factors, key=lambda factor: -factor[1].size):
        for wider, larger in left:
            if set(scope) <= set(wider):
                larger += align(scope, values, wider)
                break
        else:
            left.append((scope, values))
    return left[::-1]


def align(scope: tuple[int, ...], values: Floats, wanted: tuple[int, ...]) -> Floats:
    """Reorder and extend a factor's axes (n_rows, n_classes, *scope) to the wanted scope."""
    shared = [f for f in wanted if f in scope]
    moved = values.transpose(0, 1, *(2 + scope.index(f) for f in shared))
    return moved[(slice(None), slice(None), *(slice(None) if f in scope else None for f in wanted))]


def eliminate(
    features: Iterable[int],
    scopes: Iterable[Iterable[int]],
    size: Callable[[Iterable[int]], int],
) -> Iterator[tuple[int, frozenset[int]]]:
    """Yield features in min-fill order, each with those it is then joined to.

    `scopes` are the sets of features that share a table, those that stay among
    them; `size` gives the number of combinations of some features' values, and
    decides where fill-in does not.

    >>> [f for f, around in eliminate([0, 1, 2], [(0, 1), (1, 2)], len)]
    [0, 1, 2]
    """
    waiting = set(features)
    neighbours = {f: set[int]() for f in waiting}
    for scope in scopes:
        for f in scope:
            neighbours.setdefault(f, set()).update(set(scope) - {f})
    while waiting:
        best = min(waiting, key=lambda f: (_fill(neighbours, f), size(neighbours[f]), f))
        waiting.remove(best)
        around = frozenset(neighbours.pop(best))
        for f in around:
            neighbours[f] |= around - {f}
            neighbours[f].discard(best)
        yield best, around


def _fill(neighbours: dict[int, set[int]], feature: int) -> int:
    """Return how many edges eliminating a feature would add."""
    around = list(neighbours[feature])
    return sum(
        b not in neighbours[a] for place, a in enumerate(around) for b in around[place + 1 :]
    )
