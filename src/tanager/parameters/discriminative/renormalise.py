r"""Any scores on a structure without immoralities, as a proper Bayesian network.

Scores determine P(y | x) only. Where the parents of every feature are joined
among themselves, the same posterior is a network's: walk the features from the
leaves, divide each table by its sum over the feature's values, and multiply
that sum, a function of the parents' values and the class, into the table of the
last of those parents, which holds them all; in the end into the class prior.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from tanager.numerics.logs import log_sum_exp
from tanager.parameters.tables import DenseTable, Tables
from tanager.structure import Structure

__all__ = ["holders", "is_moral", "normalise", "renormalise"]

Floats = NDArray[np.float64]

MAX_CELLS = 1 << 24  # of one family, spelled out


def is_moral(structure: Structure) -> bool:
    """Return whether the parents of every feature are joined among themselves.

    >>> is_moral(Structure.from_parents("abc", [(), (0,), (0, 1)]))
    True
    >>> is_moral(Structure.from_parents("abc", [(), (), (0, 1)]))
    False
    """
    return all(
        not parents or _holder(structure, parents) >= 0 for parents in structure.parent_indices
    )


def renormalise(structure: Structure, tables: Tables) -> Tables:
    """Return a network with the same posterior, its tables summing to one.

    The structure must be moral; the scores may be any finite numbers. Tables
    that are too large to be spelled out are returned as they are, with
    `normalized` False.
    """
    if any(prod(t.member_arities) * t.n_classes > MAX_CELLS for t in tables.families):
        return tables
    logs = [table.to_dense().log_prob for table in tables.families]
    normal, log_prior, _ = normalise(structure, logs, tables.log_prior)
    return Tables(log_prior, tuple(DenseTable(table) for table in normal), normalized=True)


def normalise(
    structure: Structure, logs: Sequence[Floats], log_prior: Floats
) -> tuple[list[Floats], Floats, float]:
    """Return logarithms that sum to one, the class prior, and the logarithm of their old sum."""
    logs, log_prior = [log.copy() for log in logs], log_prior.copy()
    above = holders(structure)
    for at in reversed(structure.topological_order()):
        parents = structure.parent_indices[at]
        total = log_sum_exp(logs[at], axis=-2)
        logs[at] -= total[..., None, :]
        if not parents:
            log_prior += total
            continue
        holder = above[at]
        members = (*structure.parent_indices[holder], structure.selected[holder])
        logs[holder] += _spread(total, parents, members)
    log_total = log_sum_exp(log_prior, axis=0)
    return logs, log_prior - log_total, float(log_total)


def holders(structure: Structure) -> list[int]:
    """Return for each family the one that holds all its parents; -1 where it has none."""
    position = {feature: at for at, feature in enumerate(structure.selected)}
    return [
        position[_holder(structure, parents)] if parents else -1
        for parents in structure.parent_indices
    ]


def _holder(structure: Structure, parents: tuple[int, ...]) -> int:
    """Return the parent whose family holds all the others, or -1."""
    wanted = set(parents)
    families = dict(zip(structure.selected, structure.parent_indices, strict=True))
    return next((p for p in parents if wanted <= {p, *families[p]}), -1)


def _spread(values: Floats, scope: tuple[int, ...], members: tuple[int, ...]) -> Floats:
    """Bring an array over (*scope, class) to the axes (*members, class), ones elsewhere."""
    order = sorted(range(len(scope)), key=lambda axis: members.index(scope[axis]))
    arranged = values.transpose(*order, len(scope))
    sizes = iter(arranged.shape)
    shape = [next(sizes) if member in scope else 1 for member in members]
    return arranged.reshape(*shape, values.shape[-1])
