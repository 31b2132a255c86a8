"""The cells of a structure's families as tables that located rows read.

One look-up costs the same whether it adds one family's term or the sum of several, so small
families are joined (see `tanager.loglinear.joining`). A family with too many joint values stands
apart, with a cell for every context that has one in the layout, and a blank one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Codes, Rows
from tanager.engines import FitContext
from tanager.loglinear.joining import Columns, Joint, join_families, weigh_joints
from tanager.parameters.scores import FamilyCells, Layout

__all__ = ["join_layout"]

Ints = NDArray[np.int64]

MAX_JOINT = 1 << 16  # joint values are held as uint16


def join_layout(layout: Layout, rows: Rows, context: FitContext) -> Joint:
    """Return the tables that rows read, of the cells of a layout."""
    columns = Columns.of(layout.domain)
    narrow = [family for family in layout.families if _fits(family, columns)]
    apart = [family for family in layout.families if not _fits(family, columns)]
    families = [tuple(family.members.tolist()) for family in narrow]
    n_columns = 1 if layout.n_classes == 2 else layout.n_classes
    tables = join_families(families, columns, rows.n_rows, n_columns)
    weighed = weigh_joints(tables, columns, rows, context)
    blank = layout.n_cells - 1
    wide = [np.append(np.arange(one.cells.start, one.cells.stop), blank) for one in apart]
    cells = _Narrow(tuple(narrow), layout.n_cells)
    locator = partial(_Apart, tuple(apart))
    return Joint.summed(families, columns, tables, weighed, cells, wide, locator)


def _fits(family: FamilyCells, columns: Columns) -> bool:
    n_values = prod(int(columns.arities[member]) + 1 for member in family.members)
    return family.contexts is None and n_values <= MAX_JOINT


@dataclass(frozen=True)
class _Narrow:
    """Families whose every joint value has a cell."""

    families: tuple[FamilyCells, ...]
    n_cells: int

    def find(self, at: int, digits: Sequence[Ints]) -> Ints:
        """Return the cells of joint values of a family; the last cell where one is unknown."""
        family = self.families[at]
        known = np.all([d < a for d, a in zip(digits, family.shape, strict=True)], axis=0)
        clipped = [np.minimum(d, a - 1) for d, a in zip(digits, family.shape, strict=True)]
        cells = family.start + np.ravel_multi_index(clipped, family.shape)
        return np.where(known, cells, self.n_cells - 1)


@dataclass(frozen=True)
class _Apart:
    """Families with tables of their own, and where these start."""

    families: tuple[FamilyCells, ...]
    starts: Sequence[int]

    def locate(self, codes: Codes) -> NDArray[np.int32]:
        """Return each row's cell of each of these tables, (n_rows, n_families)."""
        out = np.empty((codes.shape[1], len(self.families)), np.int32)
        for at, (family, start) in enumerate(zip(self.families, self.starts, strict=True)):
            out[:, at] = start + family.find(codes, family.n_contexts * family.arity)
        return out
