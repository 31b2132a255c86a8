"""Tables in the layout used for prediction.

Dense and grouped families are packed end to end for one call of a compiled loop. The tree of a
larger family branches on the class first, so each class would need its own walk. Here its
contexts are those of the parents alone, and each lists the classes seen in it::

    first parents     a dense table (p1, ..., pj, x, class): one look-up for all classes
    each further one  the context's entries: classes seen there, and their cells

A class not seen in a context keeps the value of the next shorter one, so deep contexts, with
their few rows, cost little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tanager import native
from tanager.codes import Codes, Groups
from tanager.codes.groups import group_codes, tells_all
from tanager.numerics import Floats, Ints, starts_of

if TYPE_CHECKING:
    from tanager.counts import Contexts
    from tanager.parameters.tables import DenseTable, GroupedTable, TreeTable

MOST_LOOKUPS = 1 << 22  # entries in the materialised look-up tables of all views
FEW_ROWS = 16  # up to which indexing all groups at once is cheaper than one call each
# Cells of the dense part: few in absolute terms, or relative to the cells of the tree.
SMALL_CELLS = 1 << 14
LARGE_CELLS = 1 << 20
DENSE_FACTOR = 4

# Maps a feature and groups of its values to the code row with those groups.
View = Callable[[int, Groups], int]


class _Views(NamedTuple):
    """Features used through groups of their values."""

    features: Ints
    groups: list[Groups]
    sizes: Ints
    group_of: NDArray[np.uint16] | None  # by view and code; None if that would be large

    @classmethod
    def of(cls, views: Sequence[tuple[int, Groups]]) -> _Views:
        groups = [group for _, group in views]
        sizes = np.array([int(group.max()) + 1 for group in groups], np.int64)
        widest = max((len(group) for group in groups), default=0) + 1
        group_of = None
        if len(groups) * widest <= MOST_LOOKUPS:
            # The code for unknown comes after the last value.
            group_of = np.repeat(sizes[:, None].astype(np.uint16), widest, axis=1)
            for row, group in zip(group_of, groups, strict=True):
                row[: len(group)] = group
        return cls(np.array([f for f, _ in views], np.int64), groups, sizes, group_of)

    def add(self, codes: Codes, arities: Ints) -> tuple[Codes, Ints]:
        """Return codes and arities with one additional row per view."""
        n_views, (n_features, n_rows) = len(self.groups), codes.shape
        if n_views == 0:
            return codes, arities
        out = np.empty((n_features + n_views, n_rows), codes.dtype)
        out[:n_features] = codes
        if self.group_of is not None and n_rows <= FEW_ROWS:
            out[n_features:] = self.group_of[np.arange(n_views)[:, None], codes[self.features]]
        else:
            out[n_features:] = group_codes(codes[self.features], self.groups)
        return out, np.concatenate([arities, self.sizes])


class Packed(NamedTuple):
    """All dense and grouped families end to end, for one kernel call."""

    members: Ints
    member_start: Ints
    flat: Floats
    flat_start: Ints
    family_start: Ints  # where each family's look-ups start
    views: _Views  # grouped features, numbered after the features

    @classmethod
    def of(
        cls, families: Sequence[tuple[Ints, DenseTable | GroupedTable]], n_features: int
    ) -> Packed:
        """Pack tables with their members: the code rows of the parents, then of the feature."""
        views: dict[tuple[int, bytes], int] = {}

        def view(feature: int, groups: Groups) -> int:
            # One code row per feature and view, however many families use it.
            if tells_all(groups):
                return feature
            return n_features + views.setdefault((feature, groups.tobytes()), len(views))

        by_family = [list(table.pieces(members, view)) for members, table in families]
        pieces = [piece for some in by_family for piece in some]
        n_classes = families[0][1].n_classes if families else 1
        return cls(
            np.concatenate([*(members for members, _ in pieces), np.zeros(0, np.int64)]),
            starts_of([len(members) for members, _ in pieces]),
            np.concatenate([*(flat for _, flat in pieces), np.zeros(n_classes)]),
            starts_of([len(flat) for _, flat in pieces])[:-1],
            starts_of(list(map(len, by_family))),
            _Views.of([(feature, np.frombuffer(groups, np.uint16)) for feature, groups in views]),
        )

    def add_terms(self, codes: Codes, arities: Ints, out: Floats) -> None:
        """Add each row's terms, for every class, to out (n_rows, n_classes)."""
        read, sizes = self.views.add(codes, arities)
        native.add_dense_terms(read, sizes, *self[:4], out)

    def add_each_term(self, codes: Codes, arities: Ints, outs: Iterable[Floats]) -> None:
        """Add each family's terms to its own array, (n_rows, n_classes)."""
        read, sizes = self.views.add(codes, arities)
        for (first, end), out in zip(pairwise(self.family_start.tolist()), outs, strict=True):
            start = self.member_start[first : end + 1]
            members = self.members[start[0] : start[-1]]
            flat = (members, start - start[0], self.flat, self.flat_start[first:end])
            native.add_dense_terms(read, sizes, *flat, out)


class TreeRows(NamedTuple):
    """The arrays of one family, as passed to the kernel.

    Context c's children (one more parent) are ``child[c]:child[c+1]``, sorted by value; the
    classes seen in it are entries ``entry_start[c]:entry_start[c+1]``.
    """

    dense: Floats  # (first arities..., arity, n_classes), flat
    first: NDArray[np.int32]  # the context of each value of the first parents, -1 for none
    child: NDArray[np.int32]  # (n_contexts + 1,)
    value: NDArray[np.uint16]  # (n_contexts,): the code of the last parent
    entry_start: NDArray[np.int32]  # (n_contexts + 1,)
    entry_class: NDArray[np.uint16]  # (n_entries,)
    entry_log_escape: Floats  # (n_entries,): as `TreeTable.node_log_escape`
    cell_start: NDArray[np.int32]  # (n_entries + 1,)
    cell_value: NDArray[np.uint16]  # (n_cells,)
    cell_log_prob: Floats  # (n_cells,)

    @classmethod
    def of(cls, table: TreeTable) -> tuple[TreeRows, int]:
        """Lay out a table; also return the number of parents covered by the dense part."""
        tree = table.contexts
        n_dense = _dense_parents(tree)
        plain, place = tree.without_class()
        low, depths = int(plain.level_node[n_dense]), range(n_dense + 2, tree.depth + 1)
        first = np.full(prod(plain.context_arities[:n_dense]), -1)
        combination = np.zeros(plain.level_node[n_dense + 1] - low, np.int64)
        for values, arity in zip(plain.values(n_dense), plain.context_arities, strict=False):
            combination = combination * arity + values
        first[combination] = np.arange(len(combination))
        # Nodes are sorted by class: a stable sort keeps the classes of a context in order.
        nodes = np.arange(tree.level_node[n_dense + 2], tree.n_nodes)
        label = np.concatenate([np.zeros(0, np.int64), *(tree.values(d)[0] for d in depths)])
        context = place[nodes] - low
        order = np.argsort(context, kind="stable")
        entries = nodes[order]
        sizes = np.diff(tree.node_start)[entries]
        cell_start = starts_of(sizes)
        moved = np.repeat(tree.node_start[entries] - cell_start[:-1], sizes)
        cells = np.arange(cell_start[-1]) + moved  # of the entries, in order
        rows = cls(
            table.shorter(n_dense).to_dense().log_prob.ravel(),
            first.astype(np.int32),
            (plain.node_child[low:] - low).astype(np.int32),
            plain.node_value[low:].astype(np.uint16),
            starts_of(np.bincount(context, minlength=plain.n_nodes - low)).astype(np.int32),
            label[order].astype(np.uint16),
            table.node_log_escape[entries],
            cell_start.astype(np.int32),
            tree.cell_value[cells].astype(np.uint16),
            table.cell_log_prob[cells],
        )
        return rows, n_dense


def _dense_parents(tree: Contexts) -> int:
    """Return how many parents the dense part has: as many as fit the size limits."""
    most = max(SMALL_CELLS, min(LARGE_CELLS, DENSE_FACTOR * tree.n_cells))
    parents = tree.context_arities[1:]
    sizes = [prod(parents[:n]) * tree.arity * tree.context_arities[0] for n in range(tree.depth)]
    return max(0, sum(size <= most for size in sizes) - 1)
