"""What a page knows of each class and feature: values, their probabilities and counts.

From P(value, class) the page draws log-odds; from N(value, class) intervals and the density of
rows. Everything is an aggregate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tanager.codes.columns import CategoricalColumn, Column, NumericColumn
from tanager.network import Network, NetworkInformation
from tanager.network.answers import group_labels
from tanager.report.model_page.rows import pool_neighbours

if TYPE_CHECKING:
    from tanager.report.model_page.rows import PageRows

MAX_CLASSES = 12

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ShownClasses:
    """Which classes have a place of their own."""

    names: tuple[str, ...]  # of the places; the last is that of the rest, where there is one
    places: tuple[int, ...]  # the place of each class

    @property
    def n_hidden(self) -> int:
        """Classes that share the last place; 0 where every class has its own."""
        return len(self.places) - len(self.names) + 1 if len(self.places) > len(self.names) else 0

    def gather(self, by_class: Floats) -> Floats:
        """Add up the last axis, one entry a class, to one entry a place."""
        out = np.zeros((*by_class.shape[:-1], len(self.names)))
        for at, place in enumerate(self.places):
            out[..., place] += by_class[..., at]
        return out

    def of(self, labels: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the places of some classes."""
        return np.array(self.places, np.int64)[labels]


def show_classes(network: Network) -> ShownClasses:
    """Give every class a place, or the most probable ones and one to all others."""
    names = [str(label) for label in network.codebook.classes]
    if len(names) <= MAX_CLASSES:
        return ShownClasses(tuple(names), tuple(range(len(names))))
    order = np.argsort(-network.log_prior, kind="stable")[: MAX_CLASSES - 1]
    chosen = sorted(int(c) for c in order)
    place = {c: at for at, c in enumerate(chosen)}
    rest = f"{len(names) - len(chosen)} other classes"
    return ShownClasses(
        (*(names[c] for c in chosen), rest),
        tuple(place.get(c, len(chosen)) for c in range(len(names))),
    )


MAX_DETAILED = 80  # features with a picture; the others are named with their information
MAX_BANDS = 32  # intervals of confidence along a number
MAX_VALUES = 30  # categories with a bar; the others share one
MAX_CONTEXTS = 12  # parent values with a curve
CONTEXT_CELLS = 1_500  # numbers of all contexts of a feature


def describe_features(
    network: Network,
    information: NetworkInformation,
    classes: ShownClasses,
    rows: PageRows | None,
    order: list[int],
) -> list[dict[str, Any]]:
    """Return plain facts of every feature of the structure; the first of `order` in detail."""
    detailed = set(order[:MAX_DETAILED])
    return [
        _feature(network, information, classes, rows, at, detailed=at in detailed)
        for at in range(len(network.structure.selected))
    ]


def _feature(
    network: Network,
    information: NetworkInformation,
    classes: ShownClasses,
    rows: PageRows | None,
    at: int,
    *,
    detailed: bool,
) -> dict[str, Any]:
    structure, feature = network.structure, network.structure.selected[at]
    column = network.codebook.columns[feature]
    place = {f: i for i, f in enumerate(structure.selected)}
    kind = "category"
    if isinstance(column, NumericColumn):
        kind = "time" if column.temporal == "date" else "number"
    facts: dict[str, Any] = {
        "name": column.name,
        "kind": kind,
        "arity": column.arity,
        "parents": [place[p] for p in structure.parent_indices[at]],
    }
    if isinstance(column, CategoricalColumn) and column.ordered:
        facts["ordered"] = True
    joint = information.joint(column.name)
    if not detailed or joint is None:
        return facts
    shown = classes.gather(joint)
    groups = _groups(column, shown.sum(axis=1))
    facts.update(_values(column, groups))
    facts["p"] = short_numbers(_merge(shown, groups))
    if isinstance(column, NumericColumn) and column.n_ordered > MAX_BANDS:
        # Intervals of so few rows would say nothing: neighbours have one together.
        weights = shown.sum(axis=1)
        facts["bands"] = pool_neighbours(weights, column.n_ordered, MAX_BANDS).tolist()
    if rows is not None:
        counts = rows.value_counts(feature, column.arity, network.codebook.domain.n_classes)
        counted = _merge(classes.gather(counts), groups)
        facts["n"] = counted.astype(int).tolist()
        bands = np.array(facts.get("bands", np.arange(len(counted))))
        inside = _inside(_merge(_merge(shown, groups), bands), _merge(counted, bands))
        facts["inside"] = [int(inside.sum()), inside.size]
    contexts = _contexts(network, information, classes, at, groups)
    if contexts:
        facts["given"] = contexts
    return facts


def counted_bits(counts: Floats) -> tuple[float, float]:
    """Return the mutual information of counts (arity, n_classes) and its standard error, in bits.

    Less what chance alone gives (Miller and Madow's correction), at least 0.
    """
    total = float(counts.sum())
    seen = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0] / max(total, 1.0)
    if seen.size == 0:
        return 0.0, 0.0
    expected = seen.sum(axis=1, keepdims=True) * seen.sum(axis=0)
    told = np.log2(np.where(seen > 0, seen, expected) / expected)
    bits = float((seen * told).sum())
    chance = (seen.shape[0] - 1) * (seen.shape[1] - 1) / (2.0 * total * np.log(2.0))
    spread = float((seen * (told - bits) ** 2).sum())
    return max(0.0, bits - chance), float(np.sqrt(spread / total))


def _inside(said: Floats, counts: Floats) -> NDArray[np.bool_]:
    """Return whether log-odds of P(value, class) lie within the 95 % limits of the counts.

    As the page draws them: of each class that was seen, at each value that was; limits are those
    of counts plus one half.
    """
    k, n, p = counts, counts.sum(axis=1, keepdims=True), np.maximum(said, 1e-12)
    a, b = k.sum(axis=0), counts.sum() - k.sum(axis=0)
    rest = np.maximum(said.sum(axis=1, keepdims=True) - said, 1e-12)
    odds = np.log(p / p.sum(axis=0)) - np.log(rest / rest.sum(axis=0))
    middle = np.log((k + 0.5) / (a + 0.5)) - np.log((n - k + 0.5) / (b + 0.5))
    terms = 1 / (k + 0.5) + 1 / (n - k + 0.5) - 1 / (a + 0.5) - 1 / (b + 0.5)
    close = np.abs(odds - middle) <= 1.96 * np.sqrt(np.maximum(terms, 0.0))
    return np.asarray(close[n[:, 0] > 0][:, (a > 0) & (b > 0)])


def _groups(column: Column, share: Floats) -> NDArray[np.int64]:
    """Return the place of each value; categories past the most probable share the last."""
    n_values = column.arity
    if isinstance(column, NumericColumn) or n_values <= MAX_VALUES:
        return np.arange(n_values)
    kept = np.sort(np.argsort(-share, kind="stable")[: MAX_VALUES - 1])
    if column.missing_code is not None and column.missing_code not in kept:
        kept = np.sort(np.append(kept[1:], column.missing_code))
    groups = np.full(n_values, len(kept))
    groups[kept] = np.arange(len(kept))
    return groups


def _merge(by_value: Floats, groups: NDArray[np.int64]) -> Floats:
    """Add up values (first axis) that share a place."""
    out = np.zeros((int(groups.max(initial=-1)) + 1, *by_value.shape[1:]))
    np.add.at(out, groups, by_value)
    return out


def _values(column: Column, groups: NDArray[np.int64]) -> dict[str, Any]:
    n_places = int(groups.max(initial=-1)) + 1
    missing = None if column.missing_code is None else int(groups[column.missing_code])
    if isinstance(column, NumericColumn):
        cuts = [float(cut) for cut in column.cuts]
        return {"cuts": _short_cuts(cuts), "missing": missing}
    labels = column.labels()
    alone = np.bincount(groups, minlength=n_places) == 1
    names = ["" for _ in range(n_places)]
    for value, group in enumerate(groups):
        if alone[group]:
            names[group] = labels[value]
    if not alone.all():
        names[-1] = f"{int((groups == n_places - 1).sum()):,} other values"
    return {"labels": names, "missing": missing, "merged": bool(not alone.all())}


def _short_cuts(cuts: list[float]) -> list[float]:
    """Return cuts with as few digits as tell them apart."""
    for digits in range(6, 17):
        short = [float(f"{cut:.{digits}g}") for cut in cuts]
        if len(set(short)) == len(cuts):
            return short
    return cuts


def _contexts(
    network: Network,
    information: NetworkInformation,
    classes: ShownClasses,
    at: int,
    groups: NDArray[np.int64],
) -> list[dict[str, Any]]:
    """Return P(value, class | parents' values) for the most probable values of the parents."""
    structure = network.structure
    parents, name = structure.parent_indices[at], structure.features[at]
    context, table = information.context(name), information.table(name)
    if not parents or context is None or table is None:
        return []
    shape = context.shape[:-1]
    joint = (table * context[..., None, :]).reshape(-1, *table.shape[-2:])
    share = joint.sum(axis=(1, 2))
    labels = [
        group_labels(network.codebook.columns[parent], group)
        for parent, group in zip(parents, information.parent_groups(name), strict=True)
    ]
    n_places = int(groups.max(initial=-1)) + 1
    most = max(2, min(MAX_CONTEXTS, CONTEXT_CELLS // max(1, n_places * len(classes.names))))
    chosen = [int(u) for u in np.argsort(-share, kind="stable")[:most] if share[u] > 1e-6]
    facts = []
    for u in sorted(chosen):
        codes = np.unravel_index(u, shape)
        given = _merge(classes.gather(joint[u] / share[u]), groups)
        facts.append(
            {
                "is": [labels[axis][int(code)] for axis, code in enumerate(codes)],
                "share": float(f"{share[u]:.3g}"),
                "p": short_numbers(given),
            }
        )
    return facts


def short_numbers(values: Floats) -> Any:
    """Return an array as nested lists of numbers with four digits."""
    if values.ndim > 1:
        return [short_numbers(part) for part in values]
    return [float(f"{value:.4g}") for value in values.tolist()]
