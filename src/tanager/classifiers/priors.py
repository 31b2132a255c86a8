"""Prior knowledge: class weights and frequencies, tables, monotonic features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tanager.codes import Chunk, Codebook, Rows
from tanager.codes.audit import feature_index
from tanager.codes.rows import ADDED_ROWS, code_dtype
from tanager.codes.targets import class_factors
from tanager.counts import Counts, PriorCounts
from tanager.errors import ConfigurationError, MemoryBoundError, invalid, listed
from tanager.network import Network, NetworkInformation
from tanager.network.answers import CLASS, read_family, read_table
from tanager.network.evidence import find_class
from tanager.numerics import Floats
from tanager.parameters import TablePrior, Tables
from tanager.structure import Constraints, Structure

MOST_VALUES = 256  # of an ordered feature


def check_class_weight(class_weight: Any, classes: NDArray[Any]) -> None:
    """Reject invalid weights before the work begins."""
    if not class_factors(class_weight, classes, np.ones(len(classes))).any():
        raise invalid("class_weight", class_weight, "a weight above zero for at least one class")


def parse_signs(texts: Sequence[str]) -> dict[str, Any]:
    """Parse texts into `monotonic` of `BayesNetClassifier`.

    >>> parse_signs(["age=+1", "price=low:-1,high:+1"])
    {'age': 1, 'price': {'low': -1, 'high': 1}}
    """
    found: dict[str, Any] = {}
    signs = {"+1": 1, "1": 1, "+": 1, "-1": -1, "-": -1}
    for text in texts:
        name, equals, asked = text.rpartition("=")
        parts = [part.strip().rpartition(":") for part in asked.split(",")]
        good = all(sign in signs for _, _, sign in parts)
        if not (equals and name and good and (len(parts) == 1 or all(p[1] for p in parts))):
            allowed = "a column and +1 or -1, such as age=+1, or a column and classes with signs"
            raise invalid("monotonic", text, f"{allowed}, such as age=low:-1,high:+1")
        by_class = {label: signs[sign] for label, colon, sign in parts if colon}
        found[name] = by_class or signs[parts[0][2]]
    return found


def _refused(text: str) -> ConfigurationError:
    return ConfigurationError(f"monotonic{text}", parameter="monotonic")


def read_signs(monotonic: Any, codebook: Codebook) -> dict[int, NDArray[np.int8]]:
    """Return the sign of each class, (n_classes,), along each feature that `monotonic` names."""
    if monotonic is None:
        return {}
    if not isinstance(monotonic, Mapping):
        raise invalid("monotonic", monotonic, "a mapping from a feature to +1 or -1, or None")
    found = {}
    for key, asked in monotonic.items():
        at = feature_index(codebook.domain.names, key, "monotonic")
        name, n_ordered = codebook.domain.names[at], codebook.domain.n_ordered[at]
        if n_ordered == 0:
            raise _refused(
                f" names {name!r}, whose values have no order, unlike numbers, dates, booleans and "
                f"ordered categories. Specify the order: ordered={{{name!r}: [...]}}."
            )
        if n_ordered > MOST_VALUES:
            raise _refused(
                f" names {name!r}, which has {n_ordered:,} ordered values. Allowed: at most "
                f"{MOST_VALUES}. Use fewer bins, or merge values."
            )
        signs = _signs_of(name, asked, codebook.classes, ordered=codebook.target.ordered)
        if n_ordered > 1 and len(signs) > 1:
            found[at] = signs
    return found


def _signs_of(name: str, asked: Any, classes: NDArray[Any], *, ordered: bool) -> NDArray[np.int8]:
    """Return each class's sign along a feature; only the outermost of ordered classes have one."""
    signs, labels = np.zeros(len(classes), np.int8), classes.tolist()
    where = f"[{name!r}]"
    for sign in asked.values() if isinstance(asked, Mapping) else (asked,):
        number = isinstance(sign, int | float | np.number) and not isinstance(sign, bool)
        if not (number and abs(sign) == 1):
            allowed = "+1 (rises), -1 (falls), or with more than two classes a mapping from a class"
            raise invalid(f"monotonic{where}", sign, f"{allowed} to one of them")
    if not isinstance(asked, Mapping):
        if len(classes) > 2 and not ordered:
            raise _refused(
                f"{where} is {asked!r}, but there are {len(classes)} classes. Say which one rises "
                f"or falls: {{{name!r}: {{{labels[0]!r}: {asked!r}}}}}."
            )
        asked = {labels[0]: -asked, labels[-1]: asked} if len(classes) > 2 else {labels[-1]: asked}
    for label, sign in asked.items():
        place = next((at for at, one in enumerate(labels) if label in (one, str(one))), None)
        if place is None:
            classes_are = f"The classes are: {listed(labels)}."
            raise _refused(f"{where} names the class {label!r}. {classes_are}")
        signs[place] = sign
    if not signs.any() or (signs > 0).sum() > 1 or (signs < 0).sum() > 1:
        allowed = "one class that rises (+1), one that falls (-1), or both"
        raise invalid(f"monotonic{where}", dict(asked), f"{allowed}, as probabilities sum to one")
    return signs


def _table_prior(prior: Any) -> TablePrior | None:
    """Return a prior with its strength, by default for a mapping or a network."""
    if isinstance(prior, TablePrior | None):
        return prior
    if isinstance(prior, Mapping | Network):
        return TablePrior(prior)
    allowed = "a mapping from families to tables, a Network, TablePrior(tables, strength), or None"
    raise invalid("prior", prior, allowed)


def network_prior(prior: Any) -> Network | None:
    """Return the prior's network, if it's one."""
    found = _table_prior(prior)
    return found.tables if found is not None and isinstance(found.tables, Network) else None


def read_prior(prior: Any, codebook: Codebook) -> PriorCounts | None:
    """Return a prior as counts."""
    found = _table_prior(prior)
    if found is None:
        return None
    strength = found.strength
    if not isinstance(strength, Real) or not 0 < float(strength) < np.inf:
        raise ConfigurationError(f"A prior's strength must be a number above 0, not {strength!r}.")
    if isinstance(found.tables, Network):
        return _of_network(found.tables, float(strength))
    return _of_tables(found.tables, float(strength), codebook)


@dataclass(frozen=True, eq=False)
class _PriorFactor:
    """The factor by which the prior's rows increase a row's weight: one plus those of its cells."""

    classes: Floats  # (n_classes,)
    families: list[tuple[tuple[int, ...], Floats]]  # (*parents, feature); (n_classes, *arities)

    def __call__(self, chunk: Chunk) -> Floats:
        factors = 1.0 + self.classes[chunk.labels]
        for features, table in self.families:
            codes = chunk.codes[list(features)]
            known = (codes < np.array(table.shape[1:])[:, None]).all(axis=0)
            factors[known] += table[(chunk.labels[known], *codes[:, known])]
        return factors


def with_prior_rows(structure: Structure, counts: Counts, prior: PriorCounts) -> Rows:
    """Return the rows and the prior's equivalent rows, for learners trained on rows.

    A family's prior rows are like the training rows, except that the feature's values have the
    prior's probabilities. So each of n rows in a cell to which the prior adds t gets t / (n + 1)
    more weight, and one extra row, with only the family's values known, gets the remainder.
    """
    arities, class_counts = counts.domain.arities, counts.classes
    shares = class_counts / class_counts.sum()
    families: list[tuple[tuple[int, ...], Floats]] = []
    seen_counts = counts.trees(structure).merged()
    for (feature, parents), seen in zip(structure.families, seen_counts, strict=True):
        if feature not in prior.families:
            continue
        given = prior.aligned(feature, parents, seen.arities, structure.names)
        totals, rows = given.sum(axis=-1, keepdims=True), seen.to_dense()
        # Every context gets one extra row, divided among the classes by their frequencies.
        contexts = rows.sum(axis=-1, keepdims=True) + shares.reshape(-1, *[1] * (1 + len(parents)))
        known = totals > 0
        wanted = np.where(known, contexts * given / np.where(known, totals, 1.0), rows)
        wanted *= float(prior.families[feature][1].sum()) / float(wanted.sum())
        families.append(((*parents, feature), wanted / (rows + 1.0)))
    lengths = [int(np.count_nonzero(extra)) for _, extra in families]
    codes = np.repeat(arities.astype(code_dtype(arities))[:, None], sum(lengths), axis=1)
    labels, weights = np.zeros(sum(lengths), np.uint16), np.zeros(sum(lengths))
    for stop, length, (features, extra) in zip(np.cumsum(lengths), lengths, families, strict=True):
        part, places = slice(stop - length, stop), np.nonzero(extra)
        labels[part], weights[part] = places[0], extra[places]
        codes[list(features), part] = places[1:]
    more = Chunk(codes, labels, weights, ADDED_ROWS)
    per_class = prior.classes / np.maximum(class_counts, np.finfo(float).tiny)
    return counts.rows.weighed(_PriorFactor(per_class, families), more)


def _of_tables(tables: Mapping[Any, Any], strength: float, codebook: Codebook) -> PriorCounts:
    n_classes = len(codebook.classes)
    classes, families = np.zeros(n_classes), {}
    for text, given in tables.items():
        *parents, child = members = read_family(codebook, text)
        values = strength * np.nan_to_num(read_table(codebook, members, given, str(text)))
        if child == CLASS:
            classes = values
            continue
        if child in families:
            raise ConfigurationError(f"prior: {text!r} is a second table for the same feature.")
        if CLASS in parents:
            values = np.moveaxis(values, parents.index(CLASS), 0)
        else:
            values = np.repeat(values[None] / n_classes, n_classes, axis=0)
        families[child] = (tuple(p for p in parents if p != CLASS), values)
    return PriorCounts(classes, families)


def _of_network(network: Network, strength: float) -> PriorCounts:
    """Return `strength` rows of a network: the joint of every family times `strength`."""
    information, structure = NetworkInformation(network), network.structure
    prior = np.exp(network.log_prior)
    families = {}
    for at, feature in enumerate(structure.selected):
        name = structure.names[feature]
        context, table = information.context(name), information.table(name)
        if context is None or table is None or not network.tables.normalized:
            raise MemoryBoundError(
                f"The table of {name!r} is too large for a prior, or contains scores instead of "
                "probabilities. Use a network with fewer parents."
            )
        joint = table * context[..., None, :]  # (*parent groups, values, classes)
        for axis, groups in enumerate(information.parent_groups(name)):
            # Values of one group share its probability evenly.
            joint = np.take(joint, groups, axis=axis)
            shares = 1.0 / np.bincount(groups)[groups]
            joint = joint * shares.reshape([-1 if a == axis else 1 for a in range(joint.ndim)])
        families[feature] = (structure.parent_indices[at], strength * np.moveaxis(joint, -1, 0))
    return PriorCounts(strength * prior / prior.sum(), families)


def with_prior_arcs(
    constraints: Any, prior: PriorCounts | None, names: tuple[str, ...]
) -> Constraints | None:
    """Return the constraints, with a prior's arcs added as required arcs."""
    arcs = [
        (names[parent], names[child])
        for child, (parents, _) in (prior.families.items() if prior else ())
        for parent in parents
    ]
    if constraints is not None and not isinstance(constraints, Constraints):
        raise invalid("constraints", constraints, "None, or tanager.Constraints(...)")
    if not arcs:
        return constraints
    known = constraints or Constraints()
    return replace(known, required=[*known.required, *arcs])


def class_shares(class_prior: Any, classes: NDArray[Any], sums: Floats) -> Floats | None:
    """Return the class probabilities; unnamed classes share the rest in proportion to `sums`."""
    if class_prior is None:
        return None
    if not isinstance(class_prior, Mapping) or not class_prior:
        allowed = "None, or a mapping from classes to probabilities, such as {'sick': 0.02}"
        raise invalid("class_prior", class_prior, allowed)
    shares = np.full(len(classes), np.nan)
    for label, share in class_prior.items():
        if not isinstance(share, Real) or not 0 < float(share) <= 1:
            raise invalid(f"class_prior[{label!r}]", share, "a number above 0 and up to 1")
        shares[find_class(tuple(classes.tolist()), label, "class_prior")] = float(share)
    free, rest = np.isnan(shares), 1.0 - np.nansum(shares)
    if free.any():
        shares[free] = rest * sums[free] / max(float(sums[free].sum()), np.finfo(float).tiny)
    if abs(shares.sum() - 1.0) > 1e-6 or (shares <= 0).any():
        raise ConfigurationError(
            f"class_prior={dict(class_prior)!r} sums to {np.nansum(shares):.6g}. It must sum to 1, "
            "or to less if it doesn't name all classes."
        )
    return np.asarray(shares / shares.sum())


def set_class_prior(
    tables: Tables,
    shares: Floats | None,
    class_weight: Any,
    classes: NDArray[Any],
    sums: Floats,
    *,
    counted: bool,
) -> Tables:
    """Return the tables with the given class shares, if any, and class weights.

    Tables from counts get the shares as their prior; trained scores are multiplied by the ratio of
    new to old shares, in proportion to `sums`. A class's weight multiplies its prior, which
    minimises the weighted errors: fifty rows weighted like five thousand are evidence of fifty.
    """
    log_prior = tables.log_prior
    if shares is not None:
        logs = np.log(shares)
        if not counted:
            logs = log_prior + logs - np.log(np.maximum(sums / sums.sum(), 1e-300))
        log_prior = logs - np.logaddexp.reduce(logs)
    if class_weight is not None:
        weights = class_factors(class_weight, classes, sums)
        # Keep the logarithm finite for a class of weight zero.
        log_prior = log_prior + np.log(np.maximum(weights, np.finfo(np.float64).tiny))
        log_prior = log_prior - np.logaddexp.reduce(log_prior)
    return replace(tables, log_prior=log_prior)
