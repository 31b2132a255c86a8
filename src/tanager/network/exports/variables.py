"""Every node with its table spelled out, as BIF and XMLBIF want it.

Of a number with hundreds of values, which tables know by a few groups, the table
of all values under all values of its parents is large beyond use. It is

    P(x | y, parents) = P(group of x | y, groups of the parents) P(x | its group, y),

so the same network with two nodes a feature says the same in little space: a node
of groups, with groups as its parents, and below it the node of values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tanager.errors import ConfigurationError, MemoryBoundError
from tanager.network.coarse import Coarse
from tanager.network.labelled import group_labels

if TYPE_CHECKING:
    from tanager.codes import Groups
    from tanager.network.network import Network
    from tanager.parameters.tables import FamilyTable

__all__ = ["Variable", "distinct", "join_numbers", "spell_out", "target_name"]

MAX_CELLS = 1 << 22  # of one table spelled out: about 80 MB of text
MAX_PLAIN = 1 << 18  # of all tables without nodes of groups: about 5 MB of text


@dataclass(frozen=True)
class Variable:
    """A node as other programs want it: the class first among its parents."""

    name: str
    states: tuple[str, ...]
    parents: tuple[int, ...]  # positions among the variables
    probabilities: NDArray[np.float64]  # (*parent states, states)


def spell_out(network: Network) -> list[Variable]:
    """Return the class and every feature, with probabilities spelled out.

    Features that tables know by groups have a second node, of their groups, where
    the tables of values alone would be large.
    """
    if not network.tables.normalized:
        raise ConfigurationError(
            "The tables of this network are scores with the right posterior, not probabilities, "
            "and have no place in BIF. Use a generative parameter learner, or a discriminative one "
            "on a structure without immoralities (naive, tan, kdb(k=1))."
        )
    structure, codebook = network.structure, network.codebook
    coarse = None
    if sum(map(_n_cells, network.tables.families)) > MAX_PLAIN:
        coarse = Coarse.of(network.tables, structure, codebook.domain.arities)
    tables = network.tables.families if coarse is None else coarse.tables.families
    within = [None] * len(tables) if coarse is None else coarse.within
    prior = np.exp(network.log_prior)
    variables = [
        Variable(target_name(network), tuple(codebook.target.labels()), (), prior / prior.sum())
    ]
    place = {}  # of the node that the tables of children read
    n_nodes = 1
    for feature, inside in zip(structure.selected, within, strict=True):
        place[feature] = n_nodes
        n_nodes += 1 if inside is None else 2
    for at, feature in enumerate(structure.selected):
        name, column, inside = structure.names[feature], codebook.columns[feature], within[at]
        parents = (0, *(place[p] for p in structure.parent_indices[at]))
        chances = _spell(tables[at], name)
        if inside is None or coarse is None:
            variables.append(Variable(name, tuple(column.labels()), parents, chances))
            continue
        groups = coarse.views[feature]
        states = tuple(group_labels(column, groups))
        variables.append(Variable(f"{name} (group)", states, parents, chances))
        below = _spell_within(inside, groups)
        variables.append(Variable(name, tuple(column.labels()), (0, place[feature]), below))
    return variables


def _n_cells(table: FamilyTable) -> int:
    return prod(table.member_arities) * table.n_classes


def _spell(table: FamilyTable, name: str) -> NDArray[np.float64]:
    """Return P(x | y, parents), (n_classes, *parents, values)."""
    n_cells = _n_cells(table)
    if n_cells > MAX_CELLS:
        raise MemoryBoundError(
            f"The table of {name!r} has {n_cells:,} cells spelled out, beyond the bound of "
            f"{MAX_CELLS:,}. Learn a structure with fewer parents to export it."
        )
    chances = np.exp(np.moveaxis(table.to_dense().log_prob, -1, 0))
    total: NDArray[np.float64] = chances.sum(axis=-1, keepdims=True)
    return chances / total


def _spell_within(logs: NDArray[np.float64], groups: Groups) -> NDArray[np.float64]:
    """Return P(value | y, group), (n_classes, groups, values), from (values, n_classes)."""
    n_groups = int(groups.max()) + 1
    own = groups == np.arange(n_groups)[:, None]
    chances = np.where(own, np.exp(logs.T)[:, None], 0.0)
    total: NDArray[np.float64] = chances.sum(axis=-1, keepdims=True)
    return chances / total


def target_name(network: Network) -> str:
    """Return the name of the class's node, which no feature has."""
    name = network.codebook.target.name or "class"
    while name in network.structure.names:
        name += "_"
    return name


def distinct(names: Sequence[str]) -> list[str]:
    """Return the names, numbered where two are the same but for their case."""
    seen: set[str] = set()
    result = []
    for name in names:
        unique, n = name, 1
        while unique.lower() in seen:
            n += 1
            unique = f"{name}_{n}"
        seen.add(unique.lower())
        result.append(unique)
    return result


def join_numbers(values: NDArray[np.float64], separator: str) -> str:
    """Return the numbers as text that reads back exactly."""
    return separator.join(map(repr, values.tolist()))
