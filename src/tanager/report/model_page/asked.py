"""The part of a network that a page can query: all of it, or the most useful part that fits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from tanager.network import Costs, Network
from tanager.network.exports.javascript import describe
from tanager.network.exports.recipe import make_recipe
from tanager.parameters import GroupedTable, Tables
from tanager.parameters.spread import reaches
from tanager.parameters.tables import FamilyTable
from tanager.structure import Structure

MAX_CELLS = 200_000  # probabilities of the scorer: about 2.5 MB of text
LARGE_TEXT = 500_000  # characters; a larger scorer is written with nine decimals
MAX_INTERVAL_CELLS = 80_000  # maximum size of a scorer for a page with intervals: 400 kB
MAX_ASKED = 80  # features; nobody would fill in more controls


def asked_network(
    network: Network,
    order: Sequence[int],
    *,
    max_cells: int = MAX_CELLS,
    max_features: int = MAX_ASKED,
) -> Network:
    """Return the network of the most important features that fit, with all their ancestors.

    Features that are left out aren't ancestors of those kept, so they sum to one: for
    any values of the kept features the posterior is exactly that of the full
    network with all others unknown. `order` has positions in the structure, most important
    first; `max_cells` limits the total size of all tables.
    """
    structure = network.structure
    place = {feature: at for at, feature in enumerate(structure.selected)}
    parents = [[place[p] for p in ps] for ps in structure.parent_indices]
    size = [_n_cells(table) for table in network.tables.families]
    kept: set[int] = set()
    cells = 0
    for at in order:
        family = _with_ancestors(at, parents) - kept
        cost = sum(size[member] for member in family)
        if cells + cost <= max_cells and len(kept) + len(family) <= max_features:
            kept |= family
            cells += cost
    if len(kept) == len(structure.selected):
        return network
    chosen = sorted(kept)
    smaller = Structure(
        structure.names,
        tuple(structure.selected[at] for at in chosen),
        tuple(structure.parent_indices[at] for at in chosen),
    )
    families = tuple(network.tables.families[at] for at in chosen)
    return Network(
        network.codebook, smaller, Tables(network.log_prior, families, network.tables.normalized)
    )


def scorer_json(network: Network, costs: Costs | None = None) -> str:
    """Return the network for the page's scorer, with nine decimals if it's large.

    A probability then differs from the model's by a few billionths, which is invisible.
    """
    text = network.to_json(unknowns=False, costs=costs)
    if len(text) < LARGE_TEXT:
        return text
    model = json.loads(text)
    for feature in model["features"]:
        for part in ("log_prob", "log_group", "log_within"):
            if part in feature:
                feature[part] = [v if v is None else round(v, 9) for v in feature[part]]
    return json.dumps(model, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def interval_tables(network: Network, level: float) -> dict[str, Any] | None:
    """Return what the page needs to compute the interval of a complete row (`predict_interval`).

    For each number of the scorer in turn (prior, then each feature's `log_prob` and
    `log_within`), the index into `pairs` of its squared deviations below and above.
    None if the tables have no spread, or too many cells.
    """
    spread = network.tables.spread
    if spread is None or sum(map(_n_cells, network.tables.families)) > MAX_INTERVAL_CELLS:
        return None
    ends, used = [], {given.name for given in make_recipe(network).inputs}
    for reach in reaches(spread, level):
        scorer = describe(make_recipe(replace(network, tables=reach)))
        numbers = [scorer["log_prior"]]
        for feature in scorer["features"]:
            if feature["name"] in used:
                numbers += [feature["log_prob"], feature.get("log_within", [])]
        ends.append(np.concatenate(numbers))
    short = np.array([f"{value:.4g}" for value in np.ravel(ends)], float).reshape(2, -1)
    pairs, codes = np.unique(short, axis=1, return_inverse=True)
    return {"level": level, "pairs": pairs.T.tolist(), "codes": codes.ravel().tolist()}


def _n_cells(table: FamilyTable) -> int:
    """Return the number of probabilities of a table in a scorer."""
    if isinstance(table, GroupedTable):
        return table.log_group.size + table.log_within.size
    return prod(table.member_arities) * table.n_classes


def _with_ancestors(at: int, parents: Sequence[Sequence[int]]) -> set[int]:
    found, waiting = {at}, [at]
    while waiting:
        for parent in parents[waiting.pop()]:
            if parent not in found:
                found.add(parent)
                waiting.append(parent)
    return found
