r"""Variances of a table's entries, in the table's own form.

With counts, a context's probabilities are Dirichlet with as many rows as it has, including those
of the prior. A probability p supported by a of M such rows has the squared coefficient of variation

.. math:: v = \frac{1 - p}{a + p}, \qquad p = a / M,

which is close to the variance of its logarithm with many rows. With back-off, a share
:math:`\rho` of an estimate comes from the parent context, and contributes :math:`\rho^2` of its v.
The error of the logarithm is modelled by a Gamma variable of shape 1 / v, which has the same
coefficient, and the long left tail of a probability supported by hardly any rows (`reaches`).

Each v is stored as one of 256 levels, one byte in a model file: adjacent levels differ by 8 %, so
the error of a standard deviation is at most 2 %.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tanager.counts import ContextTree
from tanager.loglinear.rows import RowCells
from tanager.numerics import Floats
from tanager.parameters.tables import DenseTable, FamilyTable, GroupedTable, Tables, TreeTable

LEVELS = 1e-7 * np.exp(0.08 * np.arange(256))  # up to 72: nothing is known
LEAST_ROWS = 0.02  # minimum weight of any value
FURTHEST = 20.0  # largest error of a logarithm
ROUNDS = 10  # scaling iterations
BLOCK_CELLS = 1 << 17  # rows times classes of temporary arrays
LEAST = 1e-9  # variance
STEADY = 8.0  # weight, in rows, of an entry's current variance


def count_spread(
    tree: ContextTree,
    cells: Floats,
    unseen: Floats,
    totals: Floats,
    *,
    backoff: bool = True,
    shares: Floats | None = None,
    doubt: Floats | float = 0.0,
) -> FamilyTable | None:
    """Return the variances of a family from the number of rows behind each probability.

    Those rows are `cells` (n_cells,), `unseen` (n_nodes,) for a value without a cell, and `totals`
    (n_nodes,). With `shares` (n_cells,), the parent's part of each estimate, variances are passed
    down from all but the root, whose own is the same for all classes. `doubt` (n_cells,) is an
    additional variance. Without `backoff`, None for a table too large to materialise.
    """
    own = _variation(cells, totals[tree.cell_nodes()]) + doubt
    if shares is not None:
        own[: tree.level_cell[1]] = 0.0
        for depth in range(2, tree.depth + 1):
            at = slice(int(tree.level_cell[depth]), int(tree.level_cell[depth + 1]))
            own[at] += shares[at] ** 2 * own[tree.cell_parent[at]]
    given = tree.without_counts(), own, _variation(unseen, totals)
    table = TreeTable(*given, inherit=shares is not None, backoff=backoff)
    found = from_root(table).compact()
    if not isinstance(found, TreeTable):
        return found
    return table if backoff else None


def from_root(table: TreeTable) -> TreeTable:
    """Return a tree whose sums start from zero instead of the uniform distribution's logarithm."""
    escape = table.node_log_escape.copy()
    escape[0] += np.log(table.contexts.arity) if table.inherit else 0.0
    return replace(table, node_log_escape=escape)


def _variation(rows: Floats, total: Floats) -> Floats:
    rows = np.maximum(rows, LEAST_ROWS)
    share = np.minimum(rows / np.maximum(total, rows), 1.0)
    return np.asarray((1.0 - share) / (rows + share))


def reaches(spread: Tables, level: float) -> tuple[Tables, Tables]:
    """Return how far below and above each logarithm may lie, squared, in the form of the tables."""
    from scipy.special import gammaincinv

    shape = 1.0 / LEVELS
    tails = np.array([[0.5 - 0.5 * level], [0.5 + 0.5 * level]])
    ends = np.log(np.maximum(gammaincinv(shape, tails), np.finfo(float).tiny)) - np.log(shape)
    # With hardly any rows behind a probability, even a high quantile may be below the mean.
    below, above = np.clip(ends * [[-1.0], [1.0]], 0.0, FURTHEST) ** 2
    return _mapped(spread, below), _mapped(spread, above)


def _mapped(spread: Tables, values: Floats) -> Tables:
    """Return the tables with each level replaced by a value, (256,)."""
    found = (at_levels(table, level_codes(table), values) for table in spread.families)
    families = (from_root(one) if isinstance(one, TreeTable) else one for one in found)
    return Tables(values[_nearest(spread.log_prior)], tuple(families), normalized=False)


def spread_of_families(prior: Floats, families: Sequence[FamilyTable | None]) -> Tables | None:
    """Return the variances of a network, at the nearest levels; None if any is unknown."""
    found = [at_levels(one, level_codes(one)) for one in families if one is not None]
    if len(found) < len(families):
        return None
    return Tables(LEVELS[_nearest(prior)], tuple(found), normalized=False)


def level_codes(table: FamilyTable) -> NDArray[np.uint8]:
    """Return the levels of a family's variances as one list."""
    return np.concatenate([_nearest(array).ravel() for array in table_arrays(table).values()])


def prior_levels(spread: Tables) -> list[int]:
    """Return the levels of the class prior's variances."""
    return [int(level) for level in _nearest(spread.log_prior)]


def at_levels(like: FamilyTable, codes: NDArray[np.uint8], values: Floats = LEVELS) -> FamilyTable:
    """Return the values for a list of levels, in the form of a table."""
    arrays = table_arrays(like)
    ends = np.cumsum([array.size for array in arrays.values()])[:-1]
    parts = zip(arrays.items(), np.split(values[codes], ends), strict=True)
    found: dict[str, Any] = {name: part.reshape(array.shape) for (name, array), part in parts}
    return replace(like, **found)


def table_arrays(table: FamilyTable) -> dict[str, Floats]:
    """Return a table's arrays by name."""
    names = {
        DenseTable: ("log_prob",),
        GroupedTable: ("log_group", "log_within"),
        TreeTable: ("cell_log_prob", "node_log_escape"),
    }
    return {name: getattr(table, name) for name in names[type(table)]}


def _nearest(variances: Floats) -> NDArray[np.uint8]:
    steps = np.log(np.maximum(variances, LEVELS[0]) / LEVELS[0]) / 0.08
    return np.minimum(np.rint(steps), len(LEVELS) - 1).astype(np.uint8)


def of_log_odds(variances: Floats, chances: Floats) -> Floats:
    """Return variances of log-odds from those of the classes' scores, (n_rows, n_classes)."""
    out = np.empty_like(variances)
    for rows in row_blocks(variances):
        own, shares = variances[rows], chances[rows]
        rest = np.maximum(sum_others(shares), 1e-150)
        out[rows] = own + sum_others(shares**2 * own) / rest**2
    return out


def row_blocks(array: Floats) -> Iterator[slice]:
    """Yield the rows of an array (n_rows, n_classes) in blocks, so that temporaries stay small."""
    step = max(1, BLOCK_CELLS // array.shape[1])
    for low in range(0, len(array), step):
        yield slice(low, low + step)


def sum_others(values: Floats) -> Floats:
    """Return the sums over all other classes, (n_rows, n_classes), without subtraction."""
    before, after = np.cumsum(values, axis=1), np.cumsum(values[:, ::-1], axis=1)[:, ::-1]
    out = np.zeros_like(values)
    out[:, 1:] = before[:, :-1]
    out[:, :-1] += after[:, 1:]
    return out


def of_scores(wanted: Floats, chances: Floats) -> Floats:
    """Return variances of the classes' scores that match those of log-odds, (n_rows, n_classes)."""
    out = 0.5 * wanted
    for rows in row_blocks(out):
        for _ in range(ROUNDS if wanted.shape[1] > 2 else 0):
            known = of_log_odds(out[rows], chances[rows])
            out[rows] *= np.sqrt(wanted[rows] / np.maximum(known, LEAST))
    return out


def scale_entries(entries: Floats, rows: RowCells, wanted: Floats) -> Floats:
    """Scale variances, (n_entries, n_classes), until rows' sums approximate (n_rows, n_classes).

    Each step lowers the Itakura-Saito divergence, which suits variances estimated from few draws.
    """
    out = entries.copy()
    for _ in range(ROUNDS):
        down = rows.totals(out)
        np.divide(1.0, np.maximum(down, LEAST, out=down), out=down)
        steady = STEADY * down.mean(axis=0)
        less = rows.share(down, len(out)) + steady
        np.multiply(np.square(down, out=down), wanted, out=down)
        out *= np.sqrt((rows.share(down, len(out)) + steady) / less)
        del down  # the next round has its own
    return out
