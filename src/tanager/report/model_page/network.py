"""A page's data about the network: the part that it can query, its classes and its features.

From P(value, class) the page draws log-odds; from N(value, class) intervals and the density of
rows. Everything is an aggregate.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tanager.codes.columns import CategoricalColumn, Column, NumericColumn
from tanager.network import Costs, Network, NetworkInformation
from tanager.network.answers import group_labels
from tanager.network.exports.javascript import describe
from tanager.network.exports.recipe import make_recipe
from tanager.network.information import log_odds
from tanager.numerics import Floats
from tanager.parameters import GroupedTable, Tables
from tanager.parameters.spread import reaches
from tanager.parameters.tables import FamilyTable
from tanager.report.model_page.rows import PageRows, n_groups, pool_neighbours

MAX_CELLS = 200_000  # probabilities of the scorer: about 2.5 MB of text
LARGE_TEXT = 500_000  # characters; a larger scorer is written with nine decimals
MAX_INTERVAL_CELLS = 80_000  # maximum size of a scorer for a page with intervals: 400 kB
MAX_ASKED = 80  # features; nobody would fill in more controls
MAX_CLASSES = 12
MAX_DETAILED = 80  # features with a plot; the others are listed with their information
MAX_BANDS = 32  # confidence intervals along a number
MAX_VALUES = 30  # categories with a bar; the others share one
MAX_CONTEXTS = 12  # parent values with a curve
CONTEXT_CELLS = 1_500  # numbers of all contexts of a feature


def asked_network(
    network: Network,
    order: Sequence[int],
    *,
    max_cells: int = MAX_CELLS,
    max_features: int = MAX_ASKED,
) -> Network:
    """Return the network of the most important features that fit, with all their ancestors.

    Features that are left out aren't ancestors of those kept, so they sum to one: the posterior is
    exactly that of the full network with all others unknown. `order` has positions in the
    structure, most important first; `max_cells` limits the total size of all tables.
    """
    structure = network.structure
    parents = structure.parent_positions()
    size = [_n_cells(table) for table in network.tables.families]
    kept, cells = set[int](), 0
    for at in order:
        family = _with_ancestors(at, parents) - kept
        cost = sum(size[member] for member in family)
        if cells + cost <= max_cells and len(kept) + len(family) <= max_features:
            kept |= family
            cells += cost
    if len(kept) == len(structure.selected):
        return network
    smaller = structure.without({f for at, f in enumerate(structure.selected) if at not in kept})
    families = tuple(network.tables.families[at] for at in sorted(kept))
    tables = Tables(network.log_prior, families, network.tables.normalized)
    return Network(network.codebook, smaller, tables)


def scorer_json(network: Network, costs: Costs | None = None) -> str:
    """Return the network for the page's scorer; nine decimals are enough if it's large."""
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

    For each number of the scorer in turn (prior, then each feature's `log_prob` and `log_within`),
    the index into `pairs` of its squared deviations below and above. None without spread, or if too
    large.
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


@dataclass(frozen=True)
class ShownClasses:
    """Which classes are shown individually."""

    names: tuple[str, ...]  # of the places; the last is for all other classes, if any
    places: tuple[int, ...]  # the place of each class

    @property
    def n_hidden(self) -> int:
        """Number of classes that share the last place; 0 if every class has its own."""
        return len(self.places) - len(self.names) + 1 if len(self.places) > len(self.names) else 0

    def gather(self, by_class: NDArray[Any]) -> Floats:
        """Sum the last axis, one entry per class, to one entry per place."""
        out = np.zeros((*by_class.shape[:-1], len(self.names)))
        for at, place in enumerate(self.places):
            out[..., place] += by_class[..., at]
        return out


def show_classes(network: Network) -> ShownClasses:
    """Give every class a place, or the most probable ones and one for all others."""
    names = [str(label) for label in network.codebook.classes]
    if len(names) <= MAX_CLASSES:
        return ShownClasses(tuple(names), tuple(range(len(names))))
    order = np.argsort(-network.log_prior, kind="stable")[: MAX_CLASSES - 1]
    chosen = sorted(int(c) for c in order)
    place = {c: at for at, c in enumerate(chosen)}
    rest = f"{len(names) - len(chosen)} other classes"
    places = tuple(place.get(c, len(chosen)) for c in range(len(names)))
    return ShownClasses((*(names[c] for c in chosen), rest), places)


def feature_facts(column: Column, parents: Sequence[int]) -> dict[str, Any]:
    """Return what a feature is; its parents are positions in the structure."""
    kind = "category"
    if isinstance(column, NumericColumn):
        kind = "time" if column.temporal == "date" else "number"
    facts = {"name": column.name, "kind": kind, "arity": column.arity, "parents": list(parents)}
    in_order = isinstance(column, CategoricalColumn) and column.ordered
    return {**facts, "ordered": True} if in_order else facts


def feature_details(
    information: NetworkInformation, at: int, classes: ShownClasses, rows: PageRows | None
) -> dict[str, Any]:
    """Return what a feature says about the classes; nothing if its table is too large."""
    feature = information.network.structure.selected[at]
    column = information.network.codebook.columns[feature]
    joint = information.joint(column.name)
    if joint is None:
        return {}
    shown = classes.gather(joint)
    groups = _groups(column, shown.sum(axis=1))
    merged = merge_values(shown, groups)
    facts: dict[str, Any] = {**_values(column, groups), "p": short_numbers(merged)}
    if isinstance(column, NumericColumn) and column.n_ordered > MAX_BANDS:
        # Intervals of so few rows would be meaningless: neighbours share one.
        facts["bands"] = pool_neighbours(merged.sum(axis=1), column.n_ordered, MAX_BANDS).tolist()
    if rows is not None:
        counted = merge_values(classes.gather(rows.value_counts(feature)), groups)
        facts["n"] = counted.astype(int).tolist()
        bands = np.array(facts.get("bands", np.arange(len(counted))))
        inside = _inside(merge_values(merged, bands), merge_values(counted, bands))
        facts["inside"] = [int(inside.sum()), inside.size]
    contexts = _contexts(information, at, classes, groups)
    return {**facts, "given": contexts} if contexts else facts


def _contexts(
    information: NetworkInformation, at: int, classes: ShownClasses, groups: NDArray[np.int64]
) -> list[dict[str, Any]]:
    """Return P(value, class | parents' values) for the most probable values of the parents."""
    structure, columns = information.network.structure, information.network.codebook.columns
    parents, name = structure.parent_indices[at], structure.features[at]
    context, table = information.context(name), information.table(name)
    if not parents or context is None or table is None:
        return []
    joint = (table * context[..., None, :]).reshape(-1, *table.shape[-2:])
    share = joint.sum(axis=(1, 2))
    labels = [
        group_labels(columns[parent], group)
        for parent, group in zip(parents, information.parent_groups(name), strict=True)
    ]
    n_numbers = max(1, n_groups(groups) * len(classes.names))
    most = max(2, min(MAX_CONTEXTS, CONTEXT_CELLS // n_numbers))
    chosen = [int(u) for u in np.argsort(-share, kind="stable")[:most] if share[u] > 1e-6]
    return [
        {
            "is": [
                labels[axis][int(code)]
                for axis, code in enumerate(np.unravel_index(u, context.shape[:-1]))
            ],
            "share": float(f"{share[u]:.3g}"),
            "p": short_numbers(merge_values(classes.gather(joint[u] / share[u]), groups)),
        }
        for u in sorted(chosen)
    ]


def counted_bits(counts: Floats) -> tuple[float, float]:
    """Return the mutual information in bits of counts (arity, n_classes) and its standard error."""
    total = float(counts.sum())
    seen = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0] / max(total, 1.0)
    if seen.size == 0:
        return 0.0, 0.0
    expected = seen.sum(axis=1, keepdims=True) * seen.sum(axis=0)
    told = np.log2(np.where(seen > 0, seen, expected) / expected)
    bits = float((seen * told).sum())
    # The bias of chance (Miller and Madow).
    chance = (seen.shape[0] - 1) * (seen.shape[1] - 1) / (2.0 * total * np.log(2.0))
    spread = float((seen * (told - bits) ** 2).sum())
    return max(0.0, bits - chance), float(np.sqrt(spread / total))


def _inside(said: Floats, counts: Floats) -> NDArray[np.bool_]:
    """Return whether log-odds lie within the 95 % limits of each observed value and class."""
    rows, classes = counts.sum(axis=1) > 0, counts.sum(axis=0)
    close = []
    for c in np.flatnonzero((classes > 0) & (classes < classes.sum())).tolist():
        low, high = count_interval(counts, c)
        odds = log_odds(np.maximum(said, 1e-12), c)
        close.append(((low <= odds) & (odds <= high))[rows])
    return np.array(close, bool)


def count_interval(counts: Floats, target: int) -> Floats:
    """Return 95 % intervals of the log-odds from counts (arity, n_classes), shape (2, arity).

    The normal interval of a log odds ratio, with one half added to every count
    (Haldane and Anscombe).
    """
    own, n_own = counts[:, target] + 0.5, counts[:, target].sum() + 0.5
    other = counts.sum(axis=1) - counts[:, target] + 0.5
    n_other = counts.sum() - counts[:, target].sum() + 0.5
    middle = np.log(own / n_own) - np.log(other / n_other)
    variance = 1 / own + 1 / other - 1 / n_own - 1 / n_other
    half = 1.96 * np.sqrt(np.maximum(variance, 0.0))
    return np.stack([middle - half, middle + half])


def _groups(column: Column, share: Floats) -> NDArray[np.int64]:
    """Return the place of each value; categories beyond the most probable share the last."""
    n_values = column.arity
    if isinstance(column, NumericColumn) or n_values <= MAX_VALUES:
        return np.arange(n_values)
    kept = np.sort(np.argsort(-share, kind="stable")[: MAX_VALUES - 1])
    if column.missing_code is not None and column.missing_code not in kept:
        kept = np.sort(np.append(kept[1:], column.missing_code))
    groups = np.full(n_values, len(kept))
    groups[kept] = np.arange(len(kept))
    return groups


def merge_values(by_value: Floats, groups: NDArray[np.integer]) -> Floats:
    """Sum the values (first axis) that share a place."""
    out = np.zeros((n_groups(groups), *by_value.shape[1:]))
    np.add.at(out, groups, by_value)
    return out


def _values(column: Column, groups: NDArray[np.int64]) -> dict[str, Any]:
    missing = None if column.missing_code is None else int(groups[column.missing_code])
    if isinstance(column, NumericColumn):
        return {"cuts": _short_cuts([float(cut) for cut in column.cuts]), "missing": missing}
    labels, sizes = column.labels(), np.bincount(groups)
    names = [labels[value] for value in np.flatnonzero(sizes[groups] == 1)]
    merged = len(names) < len(sizes)
    if merged:
        names.append(f"{sizes[-1]:,} other values")
    return {"labels": names, "missing": missing, "merged": merged}


def _short_cuts(cuts: list[float]) -> list[float]:
    """Return cuts with as few digits as distinguish them."""
    for digits in range(6, 17):
        short = [float(f"{cut:.{digits}g}") for cut in cuts]
        if len(set(short)) == len(cuts):
            return short
    return cuts


def short_numbers(values: Floats) -> Any:
    """Return an array as nested lists of numbers with four digits."""
    if values.ndim > 1:
        return [short_numbers(part) for part in values]
    return [float(f"{value:.4g}") for value in values.tolist()]
