"""Exact marginalisation of unknown features, for any structure.

What is known is instantiated; only unknown features are summed out. An unknown
feature with nothing known below it sums to one and drops out. On forests
(naive Bayes, TAN, kDB-1) messages run up the tree row by row, compiled; on
other structures rows are grouped by which features are unknown, and the
unknown are eliminated in min-fill order.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Codes
from tanager.errors import MemoryBoundError
from tanager.parameters import DenseTable, Tables
from tanager.parameters.tables import family_members
from tanager.structure import Structure

__all__ = ["add_unknown_sums"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_CELLS = 1 << 25  # cells of one row's intermediate factor: 256 MiB
BATCH_CELLS = 1 << 17  # cells of a batch of rows: 1 MiB, which stays in the cache


def add_unknown_sums(
    tables: Tables, structure: Structure, codes: Codes, arities: Ints, log_joint: Floats
) -> None:
    """Add to the log-joint (n_rows, n_classes) what families with unknown members sum to.

    Rows without an unknown feature stay as they are.
    """
    from tanager.parameters._kernels import has_unknown

    selected = np.array(structure.selected, np.int64)
    if structure.max_parents == 0 or not has_unknown(codes, arities, selected):
        return
    unknown = codes[selected] >= arities[selected, None]  # (n_selected, n_rows)
    rows = np.flatnonzero(unknown.any(axis=0))
    part = log_joint[rows]
    some = np.ascontiguousarray(codes[:, rows])
    if structure.max_parents == 1 and all(isinstance(t, DenseTable) for t in tables.families):
        _add_on_forest(tables, structure, some, arities, part)
    else:
        _add_by_pattern(tables, structure, some, arities, unknown[:, rows], part)
    log_joint[rows] = part


def _add_on_forest(
    tables: Tables, structure: Structure, codes: Codes, arities: Ints, out: Floats
) -> None:
    from tanager.network._kernels import add_forest_sums

    order = structure.topological_order()
    features = np.array([structure.selected[at] for at in order], np.int64)
    parents = np.array([(*structure.parent_indices[at], -1)[0] for at in order], np.int64)
    arrays = [tables.families[at].to_dense().log_prob.ravel() for at in order]
    start = np.cumsum([0, *(a.shape[0] for a in arrays)])[:-1].astype(np.int64)
    add_forest_sums(codes, arities, features, parents, np.concatenate(arrays), start, out)


def _add_by_pattern(
    tables: Tables,
    structure: Structure,
    codes: Codes,
    arities: Ints,
    unknown: NDArray[np.bool_],
    out: Floats,
) -> None:
    packed = np.packbits(unknown, axis=0).T
    _, first, inverse = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(inverse.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(inverse.ravel()))
    for pattern, rows in zip(first, np.split(order, ends[:-1]), strict=True):
        missing = {structure.selected[at] for at in np.flatnonzero(unknown[:, pattern])}
        summed = _relevant(structure, missing)
        if summed:
            _Elimination(tables, structure, arities, missing, summed).add(codes, rows, out)


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


class _Elimination:
    """The plan for one set of unknown features, and its execution on rows."""

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
        self.members: list[tuple[int, Ints]] = []
        self.scopes: list[tuple[int, ...]] = []
        for at, feature in enumerate(structure.selected):
            members = family_members(structure, at)
            scope = tuple(int(m) for m in members if int(m) in summed)
            if scope and (feature not in missing or feature in summed):
                self.members.append((at, members))
                self.scopes.append(scope)
        self.order, self.largest = self._plan(set(summed))

    def _plan(self, waiting: set[int]) -> tuple[list[int], int]:
        """Choose the order of elimination by least fill-in, then by size."""
        neighbours = {f: set[int]() for f in waiting}
        for scope in self.scopes:
            for f in scope:
                neighbours[f].update(set(scope) - {f})
        order: list[int] = []
        largest = max(self._size(scope) for scope in self.scopes)
        while waiting:
            best = min(waiting, key=lambda f: (_fill(neighbours, f), self._size(neighbours[f]), f))
            clique = neighbours.pop(best)
            size = self._size((best, *clique))
            n_classes = self.tables.log_prior.shape[0]
            if size * n_classes > MAX_CELLS:
                blame = ", ".join(repr(self.names[f]) for f in sorted((best, *clique)))
                raise MemoryBoundError(
                    f"Summing out the unknown features {blame} together needs {size:,} "
                    f"combinations for each of {n_classes} classes, {size * n_classes:,} cells, "
                    f"beyond the bound of {MAX_CELLS:,}. "
                    "Give some of them, or learn a structure with fewer parents."
                )
            largest = max(largest, size)
            for f in clique:
                neighbours[f] |= clique - {f}
                neighbours[f].discard(best)
            waiting.remove(best)
            order.append(best)
        return order, largest

    def _size(self, features: Iterable[int]) -> int:
        return prod(int(self.arities[f]) for f in features)

    def add(self, codes: Codes, rows: Ints, out: Floats) -> None:
        """Add the log-sum for every class to the rows of out."""
        step = max(1, BATCH_CELLS // (self.largest * self.tables.log_prior.shape[0]))
        for low in range(0, rows.shape[0], step):
            some = rows[low : low + step]
            out[some] += self._sum(codes[:, some])

    def _sum(self, codes: Codes) -> Floats:
        factors = [
            (scope, self._factor(codes, at, members, scope))
            for (at, members), scope in zip(self.members, self.scopes, strict=True)
        ]
        for feature in self.order:
            touched = [f for f in factors if feature in f[0]]
            factors = [f for f in factors if feature not in f[0]]
            scope = tuple(sorted({f for s, _ in touched for f in s} - {feature}))
            total: Floats = np.add.reduce(
                np.broadcast_arrays(*(_align(s, v, (*scope, feature)) for s, v in touched))
            )
            top = total.max(axis=-1, keepdims=True)
            top = np.where(np.isfinite(top), top, 0.0)
            with np.errstate(divide="ignore"):
                summed = np.log(np.exp(total - top).sum(axis=-1)) + top[..., 0]
            factors.append((scope, summed))
        result: Floats = np.add.reduce([value for _, value in factors])
        return result

    def _factor(self, codes: Codes, at: int, members: Ints, scope: tuple[int, ...]) -> Floats:
        """Return log P(x | y, parents) over the unknown members, (n_rows, n_classes, *scope)."""
        n_rows = codes.shape[1]
        shape = tuple(int(self.arities[f]) for f in scope)
        grid = np.indices(shape, dtype=codes.dtype).reshape(len(scope), -1)
        spelled = np.empty((len(members), n_rows, grid.shape[1]), codes.dtype)
        for place, member in enumerate(members):
            known = int(member) not in scope
            spelled[place] = codes[member][:, None] if known else grid[scope.index(int(member))]
        n_classes = self.tables.log_prior.shape[0]
        terms = np.zeros((n_rows * grid.shape[1], n_classes))
        flat = np.ascontiguousarray(spelled.reshape(len(members), -1))
        places = np.arange(len(members))
        self.tables.families[at].add_terms(flat, self.arities[members], places, terms)
        return np.moveaxis(terms.reshape(n_rows, *shape, n_classes), -1, 1)


def _align(scope: tuple[int, ...], values: Floats, wanted: tuple[int, ...]) -> Floats:
    """Reorder and extend a factor's axes (n_rows, n_classes, *scope) to the wanted scope."""
    order = [scope.index(f) for f in wanted if f in scope]
    moved = values.transpose(0, 1, *(2 + o for o in order))
    shape = [*values.shape[:2]]
    at = 2
    for f in wanted:
        shape.append(moved.shape[at] if f in scope else 1)
        at += f in scope
    return moved.reshape(shape)


def _fill(neighbours: dict[int, set[int]], feature: int) -> int:
    """Return how many edges eliminating a feature would add."""
    around = list(neighbours[feature])
    return sum(
        b not in neighbours[a] for place, a in enumerate(around) for b in around[place + 1 :]
    )
