"""A page's data about each class and feature: values, their probabilities and counts.

From P(value, class) the page draws log-odds; from N(value, class) intervals and the density of
rows. Everything is an aggregate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tanager.codes.columns import CategoricalColumn, Column, NumericColumn
from tanager.network import Network, NetworkInformation
from tanager.network.answers import group_labels
from tanager.network.information import log_odds
from tanager.report.model_page.rows import pool_neighbours

if TYPE_CHECKING:
    from tanager.report.model_page.rows import PageRows

MAX_CLASSES = 12

Floats = NDArray[np.float64]


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

    def of(self, labels: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the places of some classes."""
        return np.array(self.places, np.int64)[labels]


def show_classes(network: Network) -> ShownClasses:
    """Give every class a place, or the most probable ones and one for all others."""
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


MAX_DETAILED = 80  # features with a plot; the others are listed with their information
MAX_BANDS = 32  # confidence intervals along a number
MAX_VALUES = 30  # categories with a bar; the others share one
MAX_CONTEXTS = 12  # parent values with a curve
CONTEXT_CELLS = 1_500  # numbers of all contexts of a feature


class FeatureFacts:
    """Facts about every feature of a structure, as plain data."""

    def __init__(
        self, information: NetworkInformation, classes: ShownClasses, rows: PageRows | None
    ) -> None:
        self.network, self.information = information.network, information
        self.classes, self.rows = classes, rows

    def describe(self, order: Sequence[int]) -> list[dict[str, Any]]:
        """Return the facts of all features, in detail for the first ones of `order`."""
        features = range(len(self.network.structure.selected))
        return [self._facts(at, detailed=at in order[:MAX_DETAILED]) for at in features]

    def _facts(self, at: int, *, detailed: bool) -> dict[str, Any]:
        structure, feature = self.network.structure, self.network.structure.selected[at]
        column = self.network.codebook.columns[feature]
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
        joint = self.information.joint(column.name)
        if not detailed or joint is None:
            return facts
        shown = self.classes.gather(joint)
        groups = _groups(column, shown.sum(axis=1))
        facts.update(_values(column, groups))
        facts["p"] = short_numbers(_merge(shown, groups))
        if isinstance(column, NumericColumn) and column.n_ordered > MAX_BANDS:
            # Intervals of so few rows would be meaningless: neighbours share one.
            weights = shown.sum(axis=1)
            facts["bands"] = pool_neighbours(weights, column.n_ordered, MAX_BANDS).tolist()
        if self.rows is not None:
            n_classes = self.network.codebook.domain.n_classes
            counts = self.rows.value_counts(feature, column.arity, n_classes)
            counted = _merge(self.classes.gather(counts), groups)
            facts["n"] = counted.astype(int).tolist()
            bands = np.array(facts.get("bands", np.arange(len(counted))))
            inside = _inside(_merge(_merge(shown, groups), bands), _merge(counted, bands))
            facts["inside"] = [int(inside.sum()), inside.size]
        contexts = self._contexts(at, groups)
        return {**facts, "given": contexts} if contexts else facts

    def _contexts(self, at: int, groups: NDArray[np.int64]) -> list[dict[str, Any]]:
        """Return P(value, class | parents' values) for the most probable values of the parents."""
        structure, columns = self.network.structure, self.network.codebook.columns
        parents, name = structure.parent_indices[at], structure.features[at]
        context, table = self.information.context(name), self.information.table(name)
        if not parents or context is None or table is None:
            return []
        joint = (table * context[..., None, :]).reshape(-1, *table.shape[-2:])
        share = joint.sum(axis=(1, 2))
        labels = [
            group_labels(columns[parent], group)
            for parent, group in zip(parents, self.information.parent_groups(name), strict=True)
        ]
        n_numbers = max(1, (int(groups.max(initial=-1)) + 1) * len(self.classes.names))
        most = max(2, min(MAX_CONTEXTS, CONTEXT_CELLS // n_numbers))
        chosen = [int(u) for u in np.argsort(-share, kind="stable")[:most] if share[u] > 1e-6]
        return [
            {
                "is": [
                    labels[axis][int(code)]
                    for axis, code in enumerate(np.unravel_index(u, context.shape[:-1]))
                ],
                "share": float(f"{share[u]:.3g}"),
                "p": short_numbers(_merge(self.classes.gather(joint[u] / share[u]), groups)),
            }
            for u in sorted(chosen)
        ]


def counted_bits(counts: Floats) -> tuple[float, float]:
    """Return the mutual information of counts (arity, n_classes) and its standard error, in bits.

    Corrected for the bias of chance (Miller and Madow), at least 0.
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

    As the page draws them: for each class that was observed, at each observed value.
    """
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
    own = counts[:, target] + 0.5
    other = counts.sum(axis=1) - counts[:, target] + 0.5
    n_own = counts[:, target].sum() + 0.5
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


def _merge(by_value: Floats, groups: NDArray[np.int64]) -> Floats:
    """Sum the values (first axis) that share a place."""
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
