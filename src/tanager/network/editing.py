r"""Manual changes to a network, all of them recorded.

The *effect* of a feature is what its table contributes to the log-probability of the class:

.. math:: e(v, c \mid u) = \log P(v \mid c, u) - \log P(v \mid u)

for value v, class c and parent values u. An edit replaces effects; the tables are then
converted to a proper network with the same posterior
(`tanager.parameters.proper_network`), so an edited network marginalises unknown values,
explains and exports like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from math import prod
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from tanager.errors import ConfigurationError, MemoryBoundError
from tanager.network.answers import LabelledTable, group_labels
from tanager.network.explanation import find_class
from tanager.network.given_tables import CLASS, GivenFamily, log_or_impossible, read_table
from tanager.network.history import Edit
from tanager.network.information import NetworkInformation
from tanager.network.views import renormalise_by_groups
from tanager.numerics import Floats
from tanager.parameters import DenseTable, GroupedTable, Tables
from tanager.parameters.proper_network import MAX_SPELLED
from tanager.structure import Structure

if TYPE_CHECKING:
    from tanager.network.network import Network


FLAGS = ("neutralise", "forbid")  # actions requested by passing True
MOST_SET = 0.99  # largest total probability of the values whose effects are set


def edit_network(network: Network, feature: str, request: Mapping[str, Any], note: Edit) -> Network:
    """Return the edited network with the edit appended to its history.

    `request` contains one action with its argument; `note` contains the reason and author.
    """
    asked = {
        name: value
        for name, value in request.items()
        if (bool(value) if name in FLAGS else value is not None)
    }
    if len(asked) != 1:
        raise ConfigurationError(
            f"edit makes one change at a time; given: {', '.join(asked) or 'none'}. Choose one of "
            f"{', '.join(request)}."
        )
    _check(network, feature)
    (action, value) = next(iter(asked.items()))
    details: dict[str, Any] = {}
    if action == "forbid":
        edited = _forbid(network, feature)
    else:
        effects, share, chance = _effects(network, feature)
        if action == "neutralise":
            effects = np.zeros_like(effects)
        elif action == "smooth":
            effects = _smooth(network, feature, effects, chance, value)
            details = {"neighbours": int(value)}
        else:
            details = {"effect": _plain(value)}
            effects = _set(network, feature, effects, share, chance, value)
        edited = _with_effects(network, feature, effects, chance)
    return _noted(edited, network, replace(note, action=action, details=details))


def with_table(network: Network, feature: str, given: Any, note: Edit) -> Network:
    """Return the network with the table of a feature replaced."""
    codebook, structure = network.codebook, network.structure
    at = structure.position(feature)
    parents, old = structure.parent_indices[at], network.tables.families[at]
    family = GivenFamily(structure.selected[at], (CLASS, *parents))
    grouped, contexts = None, None
    if isinstance(given, LabelledTable):
        if isinstance(old, GroupedTable):  # contexts are groups of the parents' values
            grouped, pairs = old, zip(parents, old.groups, strict=True)
            contexts = [group_labels(codebook.columns[p], groups) for p, groups in pairs]
        given = dict(zip(given.contexts, given.probabilities, strict=True))
    table = read_table(codebook, family, given, feature, contexts)
    if np.isnan(table).any():
        if table.size > MAX_SPELLED:
            raise MemoryBoundError(
                f"The table of {feature!r} is too large to keep a part of it. Give all contexts."
            )
        before = (grouped or old.to_dense()).log_prob
        table = np.where(np.isnan(table), np.exp(np.moveaxis(before, -1, 0)), table)
    logs = np.ascontiguousarray(np.moveaxis(log_or_impossible(table), 0, -1))
    families = list(network.tables.families)
    families[at] = GroupedTable.of(logs, grouped.groups) if grouped else DenseTable(logs)
    edited = replace(network, tables=replace(network.tables, families=tuple(families)))
    return _noted(edited, network, note)


def with_edge(network: Network, parent: str, feature: str, note: Edit) -> Network:
    """Return the network with another parent of a feature, whose table stays the same."""
    structure, arities = network.structure, network.codebook.domain.arities
    at = structure.position(feature)
    added = structure.selected[structure.position(parent)]
    parents = list(structure.parent_indices)
    if added in parents[at]:
        raise ConfigurationError(f"{parent!r} is already a parent of {feature!r}.")
    parents[at] = (*parents[at], added)
    wider = replace(structure, parent_indices=tuple(parents))  # raises if there is a cycle
    members = (*parents[at], structure.selected[at])
    n_cells = prod(int(arities[m]) for m in members) * network.log_prior.shape[0]
    if n_cells > MAX_SPELLED:
        raise MemoryBoundError(
            f"With {parent!r} the table of {feature!r} has {n_cells:,} cells, beyond the limit of "
            f"{MAX_SPELLED:,}. Take out another parent first."
        )
    logs = network.tables.families[at].to_dense().log_prob
    wide = np.repeat(logs[..., None, :, :], int(arities[added]), axis=-3)
    families = list(network.tables.families)
    families[at] = DenseTable(np.ascontiguousarray(wide))
    tables = replace(network.tables, families=tuple(families))
    return _noted(replace(network, structure=wider, tables=tables), network, note)


def without_edge(network: Network, parent: str, feature: str, note: Edit) -> Network:
    """Return the nearest network without an edge."""
    edited = NetworkInformation(network).without_edge(parent, feature)
    if edited is None:
        raise MemoryBoundError(
            f"The table of {feature!r} is too large to be summed. Take out another parent first."
        )
    return _noted(edited, network, note)


def _noted(edited: Network, before: Network, note: Edit) -> Network:
    """Return the edited network with the edit appended to its history."""
    when = note.when or datetime.now(UTC).isoformat(timespec="seconds")
    # The tables' uncertainty and their results on training and held-out rows no longer apply.
    tables = replace(edited.tables, spread=None)
    history = (*before.history, replace(note, when=when))
    reference = before.reference and before.reference.after_edit(edited.log_prior)
    return replace(edited, tables=tables, history=history, calibration=None, reference=reference)


def _check(network: Network, feature: str) -> None:
    structure = network.structure
    structure.position(feature)  # raises if it doesn't exist
    if not network.tables.normalized or not structure.is_moral():
        raise ConfigurationError(
            "Only a proper network on a structure without immoralities can be edited (naive, tan, "
            "kdb(k=1), kdb(k=2, moral=True)): there, effects are well defined. Learn one of these."
        )


def _effects(network: Network, feature: str) -> tuple[Floats, Floats, Floats]:
    """Return e (*parents, values, classes), log P(class | parents) and log P(value | parents).

    Parents are indexed by their views.
    """
    at = network.structure.position(feature)
    context = NetworkInformation(network).context(feature)  # P(parents, class)
    arity = network.codebook.columns[network.structure.selected[at]].arity
    if context is None or context.size * arity > MAX_SPELLED:
        raise MemoryBoundError(
            f"The table of {feature!r} is too large to be edited. Learn a structure with fewer "
            "parents."
        )
    logs = network.views.by_value(at)
    share = np.log(context) - np.log(context.sum(axis=-1, keepdims=True))
    chance = np.log(np.exp(logs + share[..., None, :]).sum(axis=-1))
    return logs - chance[..., None], share, chance


def _smooth(
    network: Network, feature: str, effects: Floats, chance: Floats, neighbours: Any
) -> Floats:
    """Return the effect of each interval averaged over its neighbours, weighted by probability."""
    column = network.codebook.columns[network.structure.names.index(feature)]
    n = column.n_ordered  # the code of "missing" has no neighbours
    if n == 0:
        raise ConfigurationError(
            f"{feature!r} has no order to smooth along; numbers and ordered categories have. "
            "Use effect=... or neutralise=True."
        )
    counted = isinstance(neighbours, Integral) and not isinstance(neighbours, bool)
    if not counted or neighbours < 1:
        raise ConfigurationError(
            f"smooth={neighbours!r} is not allowed. Give how many neighbours on each side: 1, 2, …"
        )
    near = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= neighbours
    weights: Floats = np.exp(chance[..., None, :n]) * near  # (*parents, value, neighbour)
    weights /= weights.sum(axis=-1, keepdims=True)
    smoothed = effects.copy()
    smoothed[..., :n, :] = weights @ effects[..., :n, :]
    return smoothed


def _set(
    network: Network, feature: str, effects: Floats, share: Floats, chance: Floats, wanted: Any
) -> Floats:
    """Return the effects with those of some values replaced, for all values of the parents.

    Normalising the tables shifts the change in each class's sum to the parents and the prior, out
    of every value's effect: the replaced values are scaled to have the requested effect afterwards.
    """
    if not isinstance(wanted, Mapping):
        raise ConfigurationError(
            f"effect={wanted!r} is not allowed. Give a mapping from values, as network.table names "
            "them, to log-odds."
        )
    labels = network.codebook.columns[network.structure.names.index(feature)].labels()
    for value in wanted:
        if str(value) not in labels:
            known = ", ".join(map(repr, labels[:20]))
            raise ConfigurationError(f"{feature!r} has no value {value!r}. Its values: {known}.")
    chosen = [labels.index(str(value)) for value in wanted]
    odds = np.array([_read_odds(network, given) for given in wanted.values()])
    # Shifted to keep P(value | parents) unchanged.
    changed = odds - np.log(np.exp(share[..., None, :] + odds).sum(axis=-1, keepdims=True))
    others = np.delete(np.exp(effects + chance[..., None]), chosen, axis=-2).sum(axis=-2)
    if (others > 0.0).all():
        sums = (np.exp(changed + chance[..., chosen, None])).sum(axis=-2)
        lowered = np.minimum(1.0, MOST_SET / sums.max(axis=-1, keepdims=True))
        changed += np.log(lowered * others / (1.0 - lowered * sums))[..., None, :]
    effects = effects.copy()
    effects[..., chosen, :] = changed
    return effects


def _read_odds(network: Network, given: Any) -> Floats:
    """Return one number per class from a number (for two classes) or a mapping by class."""
    classes = tuple(network.codebook.classes.tolist())
    odds = np.zeros(len(classes))
    if isinstance(given, Mapping):
        for label, value in given.items():
            if not isinstance(value, Real):
                raise ConfigurationError(f"The effect {value!r} of {label!r} isn't a number.")
            odds[find_class(classes, label)] = value
    elif len(classes) == 2 and isinstance(given, Real):
        odds[1] = given
    else:
        raise ConfigurationError(
            f"The effect {given!r} is not allowed. Give the log-odds of the second of two classes, "
            "or a mapping from classes to numbers."
        )
    if not np.isfinite(odds).all() or np.abs(odds).max() > 100:
        raise ConfigurationError("Effects are log-odds between -100 and 100. Give smaller ones.")
    return odds


def _with_effects(network: Network, feature: str, effects: Floats, chance: Floats) -> Network:
    structure, arities = network.structure, network.codebook.domain.arities
    families, at = list(network.tables.families), structure.position(feature)
    groups = NetworkInformation(network).parent_groups(feature)
    families[at] = GroupedTable.of(np.ascontiguousarray(effects + chance[..., None]), groups)
    scores = Tables(network.log_prior, tuple(families), normalized=False)
    return replace(network, tables=renormalise_by_groups(scores, structure, arities))


def _forbid(network: Network, feature: str) -> Network:
    """Return the network without a feature; its children keep their other parents."""
    structure = network.structure
    if len(structure.selected) == 1:
        raise ConfigurationError(f"{feature!r} is the only feature left, so it can't be removed.")
    information = NetworkInformation(network)
    index = structure.names.index(feature)
    kept, families = [], []
    for at, name in enumerate(structure.features):
        if name == feature:
            continue
        parents, table = structure.parent_indices[at], network.tables.families[at]
        if index in parents:
            without = information.without_edge(feature, name)
            if without is None:
                raise MemoryBoundError(
                    f"The table of {name!r}, a child of {feature!r}, is too large to be summed. "
                    "Learn a structure with fewer parents."
                )
            table = without.tables.families[at]
        kept.append((structure.selected[at], tuple(p for p in parents if p != index)))
        families.append(table)
    shorter = Structure(structure.names, tuple(f for f, _ in kept), tuple(p for _, p in kept))
    return replace(
        network, structure=shorter, tables=Tables(network.log_prior, tuple(families), True)
    )


def _plain(value: Any) -> Any:
    """Return a request as JSON-compatible data."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return float(value) if isinstance(value, Real) else str(value)
