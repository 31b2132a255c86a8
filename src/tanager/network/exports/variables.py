"""Every node with its table spelled out, as BIF and XMLBIF want it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tanager.errors import ConfigurationError, MemoryBoundError

if TYPE_CHECKING:
    from tanager.network.network import Network

__all__ = ["Variable", "distinct", "join_numbers", "spell_out", "target_name"]

MAX_CELLS = 1 << 22  # of one table spelled out: about 80 MB of text


@dataclass(frozen=True)
class Variable:
    """A node as other programs want it: the class first among its parents."""

    name: str
    states: tuple[str, ...]
    parents: tuple[int, ...]  # positions among the variables
    probabilities: NDArray[np.float64]  # (*parent states, states)


def spell_out(network: Network) -> list[Variable]:
    """Return the class and every feature, with probabilities spelled out."""
    if not network.tables.normalized:
        raise ConfigurationError(
            "The tables of this network are scores with the right posterior, not probabilities, "
            "and have no place in BIF. Use a generative parameter learner, or a discriminative one "
            "on a structure without immoralities (naive, tan, kdb(k=1))."
        )
    structure, codebook = network.structure, network.codebook
    place = {feature: at + 1 for at, feature in enumerate(structure.selected)}
    prior = np.exp(network.log_prior)
    classes = tuple(codebook.target.labels())
    variables = [Variable(target_name(network), classes, (), prior / prior.sum())]
    for at, feature in enumerate(structure.selected):
        table, name = network.tables.families[at], structure.names[feature]
        n_cells = prod(table.member_arities) * table.n_classes
        if n_cells > MAX_CELLS:
            raise MemoryBoundError(
                f"The table of {name!r} has {n_cells:,} cells spelled out, beyond the bound of "
                f"{MAX_CELLS:,}. Learn a structure with fewer parents to export it."
            )
        chance = np.exp(np.moveaxis(table.to_dense().log_prob, -1, 0))
        chance = chance / chance.sum(axis=-1, keepdims=True)
        parents = (0, *(place[p] for p in structure.parent_indices[at]))
        labels = tuple(codebook.columns[feature].labels())
        variables.append(Variable(name, labels, parents, chance))
    return variables


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
