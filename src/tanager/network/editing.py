r"""Manual changes to a network, all of them recorded.

The *effect* of a feature is what its table contributes to the log-probability of the class:

.. math:: e(v, c \mid u) = \log P(v \mid c, u) - \log P(v \mid u)

for value v, class c and parent values u. An edit replaces effects; the tables then become a proper
network with the same posterior (`tanager.parameters.proper_network`), so an edited network
marginalises unknown values, explains and exports like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from math import prod
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from tanager.errors import ConfigurationError, MemoryBoundError, check_cells, listed
from tanager.network.answers import CLASS, LabelledTable, group_labels, read_table
from tanager.network.evidence import check_count, find_class
from tanager.network.information import TINY, NetworkInformation
from tanager.network.views import renormalise_by_groups
from tanager.numerics import Floats, log_or_zero, log_softmax, log_sum_exp
from tanager.parameters import DenseTable, GroupedTable, Tables
from tanager.parameters.proper_network import MAX_SPELLED
from tanager.parameters.tables import FamilyTable
from tanager.structure import Structure

if TYPE_CHECKING:
    from tanager.network.network import Network

MOST_SET = 0.99  # largest total probability of the values whose effects are set

ACTIONS = {
    "effect": "effect set by hand",
    "smooth": "effect smoothed",
    "neutralise": "effect neutralised",
    "forbid": "taken out of the network",
    "table": "table set by hand",
    "add edge": "parent {parent} added",
    "remove edge": "parent {parent} removed",
}


@dataclass(frozen=True)
class Edit:
    """One manual change; a network lists them in `history` and stores them in its file.

    Attributes
    ----------
    feature : str
    action : {'effect', 'smooth', 'neutralise', 'forbid', 'table', 'add edge', 'remove edge'}
    details : mapping
        The request, as plain data.
    reason, author : str
        Why, and by whom.
    when : str
        Date and time, ISO 8601.
    """

    feature: str
    action: str
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)
    reason: str = ""
    author: str = ""
    when: str = ""

    def __post_init__(self) -> None:
        for name in ("reason", "author", "when"):
            if not isinstance(getattr(self, name), str):
                raise ConfigurationError(f"{name}={getattr(self, name)!r}. Allowed: a text.")

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a model file."""
        return {**asdict(self), "details": dict(self.details)}

    def __str__(self) -> str:
        what = ACTIONS[self.action].format(parent=self.details.get("parent"))
        who = f" by {self.author}" if self.author else ""
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.when[:10]}{who} {self.feature}: {what}{why}".strip()


def edit(
    network: Network,
    feature: str,
    *,
    effect: Mapping[str, Any] | None = None,
    smooth: int | None = None,
    neutralise: bool = False,
    forbid: bool = False,
    reason: str = "",
    author: str = "",
    when: str = "",
) -> Network:
    """Return a network with one feature edited manually, and the edit in its `history`.

    The history is included in the model file, summaries and exports.

    Parameters
    ----------
    feature : str
    effect : mapping, optional
        From values, as labelled in `table`, to their contribution to the log-odds: with two
        classes a number, for the second; otherwise a mapping from classes to numbers. Other
        values keep their effect.
    smooth : int, optional
        Replace the effect of each interval by the mean over this many neighbours on each side,
        weighted by their probability.
    neutralise : bool, default=False
        Remove the feature's information about the class. It stays a parent of its children.
    forbid : bool, default=False
        Remove the feature; its children depend on their other parents and the class.
    reason, author : str
        Stored in the history.
    when : str, optional
        Date and time for the history; by default, now.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> X = [["a", "a"], ["b", "b"], ["a", "b"], ["b", "b"]] * 5
    >>> network = BayesNetClassifier("naive", "laplace").fit(X, [0, 1, 0, 1] * 5).network_
    >>> edited = network.edit("x0", neutralise=True, reason="may not be used")
    >>> odds = edited.log_terms(edited.codebook.encode([["a", "b"]]))[0]
    >>> (odds[:, 1] - odds[:, 0]).round(3)
    array([0.   , 0.606])
    >>> edited.history[0].action
    'neutralise'
    """
    requests = {"effect": effect is not None, "smooth": smooth is not None}
    requests |= {"neutralise": neutralise, "forbid": forbid}
    asked = [action for action, wanted in requests.items() if wanted]
    if len(asked) != 1:
        raise ConfigurationError(
            f"edit makes one change at a time; given: {', '.join(asked) or 'none'}. Choose one of "
            f"{', '.join(requests)}."
        )
    structure = network.structure
    at = structure.position(feature)
    if not network.tables.normalized or not structure.is_moral():
        raise ConfigurationError(
            "Only a proper network on a structure without immoralities can be edited (naive, tan, "
            "kdb(k=1), kdb(k=2, moral=True)): there, effects are well defined. Learn one of these."
        )
    details: dict[str, Any] = {}
    if forbid:
        edited = _forbid(network, feature)
    else:
        effects, share, chance = _effects(network, feature)
        if neutralise:
            effects[:] = 0.0
        elif smooth is not None:
            _smooth(network, feature, effects, chance, smooth)
            details = {"neighbours": int(smooth)}
        else:
            _set(network, feature, effects, share, chance, effect)
            details = {"effect": _plain(effect)}
        logs = np.ascontiguousarray(effects + chance[..., None])
        groups = [network.views.groups[parent] for parent in structure.parent_indices[at]]
        families = list(network.tables.families)
        families[at] = GroupedTable.of(logs, groups)
        scores = Tables(network.log_prior, tuple(families), normalized=False)
        arities = network.codebook.domain.arities
        edited = replace(network, tables=renormalise_by_groups(scores, structure, arities))
    return _noted(edited, Edit(feature, asked[0], details, reason, author, when))


def with_table(
    network: Network,
    feature: str,
    table: Any,
    *,
    reason: str = "",
    author: str = "",
    when: str = "",
) -> Network:
    """Return the network with a feature's table replaced, and the change in its `history`.

    Parameters
    ----------
    feature : str
    table : array, mapping or LabelledTable
        P(feature | class, parents), the class first and the parents in the order of
        ``structure.parents``: an array with one axis each and the feature's values last; or a
        mapping from contexts, tuples of values, to mappings from values to probabilities. Other
        contexts keep their probabilities.
    reason, author, when : str
        As in `edit`.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> network = BayesNetClassifier("naive", "laplace").fit([["a"], ["b"]], [0, 1]).network_
    >>> network = network.with_table("x0", {"0": {"a": 0.9, "b": 0.1}}, author="Ada")
    >>> network.table("x0").probabilities.round(2).tolist()
    [[0.9, 0.1], [0.33, 0.67]]
    """
    note = Edit(feature, "table", {}, reason, author, when)
    codebook, structure = network.codebook, network.structure
    at = structure.position(feature)
    parents, old = structure.parent_indices[at], network.tables.families[at]
    members = (CLASS, *parents, structure.selected[at])
    grouped, contexts = None, None
    if isinstance(table, LabelledTable):
        if isinstance(old, GroupedTable):  # contexts are groups of the parents' values
            grouped, pairs = old, zip(parents, old.groups, strict=True)
            contexts = [group_labels(codebook.columns[p], groups) for p, groups in pairs]
        table = dict(zip(table.contexts, table.probabilities, strict=True))
    chances = read_table(codebook, members, table, feature, contexts)
    if np.isnan(chances).any():
        what = f"Keeping a part of the table of {feature!r} takes"
        check_cells(what, chances.size, MAX_SPELLED, "Give all contexts.")
        before = (grouped or old.to_dense()).log_prob
        chances = np.where(np.isnan(chances), np.exp(np.moveaxis(before, -1, 0)), chances)
    logs = np.ascontiguousarray(np.moveaxis(log_or_zero(chances), 0, -1))
    new = GroupedTable.of(logs, grouped.groups) if grouped else DenseTable(logs)
    return _with_family(network, note, new, parents)


def with_edge(
    network: Network,
    parent: str,
    feature: str,
    *,
    reason: str = "",
    author: str = "",
    when: str = "",
) -> Network:
    """Return the network with an edge added, and the change in its `history`.

    The joint distribution doesn't change until `with_table` defines how the feature depends
    on its new parent. Raises if the edge would close a cycle.
    """
    note = Edit(feature, "add edge", {"parent": parent}, reason, author, when)
    structure, arities = network.structure, network.codebook.domain.arities
    at = structure.position(feature)
    added = structure.selected[structure.position(parent)]
    if added in structure.parent_indices[at]:
        raise ConfigurationError(f"{parent!r} is already a parent of {feature!r}.")
    parents = (*structure.parent_indices[at], added)
    members = (*parents, structure.selected[at])
    n_cells = prod(int(arities[m]) for m in members) * network.log_prior.shape[0]
    what = f"With {parent!r} the table of {feature!r} has"
    check_cells(what, n_cells, MAX_SPELLED, "Take out another parent first.")
    logs = network.tables.families[at].to_dense().log_prob
    wide = np.repeat(logs[..., None, :, :], int(arities[added]), axis=-3)
    return _with_family(network, note, DenseTable(np.ascontiguousarray(wide)), parents)


def without_edge(
    network: Network,
    parent: str,
    feature: str,
    *,
    reason: str = "",
    author: str = "",
    when: str = "",
) -> Network:
    """Return the network without an edge, and the change in its `history`.

    Of all networks without the edge, it's the nearest by Kullback-Leibler divergence.
    """
    note = Edit(feature, "remove edge", {"parent": parent}, reason, author, when)
    table, structure = NetworkInformation(network).table_without(parent, feature), network.structure
    gone = structure.names.index(parent)
    parents = tuple(p for p in structure.parent_indices[structure.position(feature)] if p != gone)
    return _with_family(network, note, table, parents)


def _with_family(
    network: Network, note: Edit, table: FamilyTable, parents: tuple[int, ...]
) -> Network:
    """Return the network with another table, and other parents, of the edited feature."""
    at, above = network.structure.position(note.feature), [*network.structure.parent_indices]
    families = [*network.tables.families]
    families[at], above[at] = table, parents
    tables = replace(network.tables, families=tuple(families))
    structure = replace(network.structure, parent_indices=tuple(above))  # raises if there's a cycle
    return _noted(replace(network, structure=structure, tables=tables), note)


def _noted(edited: Network, note: Edit) -> Network:
    """Return the edited network with the edit appended to its history."""
    when = note.when or datetime.now(UTC).isoformat(timespec="seconds")
    # The tables' uncertainty and their results on training and held-out rows no longer apply.
    tables = replace(edited.tables, spread=None)
    history = (*edited.history, replace(note, when=when))
    reference = edited.reference and edited.reference.after_edit(edited.log_prior)
    return replace(edited, tables=tables, history=history, calibration=None, reference=reference)


def _effects(network: Network, feature: str) -> tuple[Floats, Floats, Floats]:
    """Return e (*parents' views, values, classes), log P(class | parents), log P(value | ...)."""
    at = network.structure.position(feature)
    context = NetworkInformation(network).context(feature)  # P(parents, class)
    arity = network.tables.families[at].member_arities[-1]
    if context is None or context.size * arity > MAX_SPELLED:
        raise MemoryBoundError(
            f"The table of {feature!r} is too large to be edited. Learn a structure with fewer "
            "parents."
        )
    logs = network.views.by_value(at)
    total, prior = context.sum(axis=-1, keepdims=True), np.exp(network.log_prior)
    # If all tables give the parents' values a probability of zero, any share does.
    share = log_or_zero(np.where(total > 0.0, context / np.maximum(total, TINY), prior))
    chance = log_sum_exp(logs + share[..., None, :], axis=-1)
    return logs - chance[..., None], share, chance


def _smooth(network: Network, feature: str, effects: Floats, chance: Floats, beside: Any) -> None:
    """Average the effect of each interval over its neighbours, weighted by probability."""
    column = network.codebook.columns[network.structure.names.index(feature)]
    n = column.n_ordered  # the code of "missing" has no neighbours
    if n == 0:
        raise ConfigurationError(
            f"{feature!r} has no order to smooth along; numbers and ordered categories have. "
            "Use effect=... or neutralise=True."
        )
    check_count("smooth", beside, 1)
    near = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= beside
    weights = np.where(near, chance[..., None, :n], -np.inf)  # (*parents, value, neighbour)
    effects[..., :n, :] = np.exp(log_softmax(weights, axis=-1)) @ effects[..., :n, :]


def _set(
    network: Network, feature: str, effects: Floats, share: Floats, chance: Floats, wanted: Any
) -> None:
    """Replace the effects of some values, scaled to be as requested once tables are normalised."""
    if not isinstance(wanted, Mapping) or not wanted:
        raise ConfigurationError(
            f"effect={wanted!r} is not allowed. Give a mapping from values, as network.table names "
            "them, to log-odds."
        )
    labels = network.codebook.columns[network.structure.names.index(feature)].labels()
    for value in wanted:
        if str(value) not in labels:
            known = listed(labels)
            raise ConfigurationError(f"{feature!r} has no value {value!r}. Its values: {known}.")
    chosen = [labels.index(str(value)) for value in wanted]
    odds = np.array([_read_odds(network, given) for given in wanted.values()])
    # Shifted to keep P(value | parents) unchanged.
    changed = odds - np.log(np.exp(share[..., None, :] + odds).sum(axis=-1, keepdims=True))
    others = np.delete(np.exp(effects + chance[..., None]), chosen, axis=-2).sum(axis=-2)
    sums = (np.exp(changed + chance[..., chosen, None])).sum(axis=-2)
    lowered = np.minimum(1.0, MOST_SET / np.maximum(sums.max(axis=-1, keepdims=True), TINY))
    scale = lowered * others / (1.0 - lowered * sums)
    # Contexts in which all other values are impossible stay as they are.
    scale = np.where((others > 0.0).all(axis=-1, keepdims=True), scale, 1.0)
    effects[..., chosen, :] = changed + np.log(scale)[..., None, :]


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


def _forbid(network: Network, feature: str) -> Network:
    """Return the network without a feature; its children keep their other parents."""
    structure = network.structure
    if len(structure.selected) == 1:
        raise ConfigurationError(f"{feature!r} is the only feature left, so it can't be removed.")
    information, index = NetworkInformation(network), structure.names.index(feature)
    parents, families = [], []
    places = structure.features, structure.parent_indices, network.tables.families
    for name, held, table in zip(*places, strict=True):
        if name != feature:
            parents.append(tuple(p for p in held if p != index))
            families.append(information.table_without(feature, name) if index in held else table)
    selected = tuple(one for one in structure.selected if one != index)
    shorter = Structure(structure.names, selected, tuple(parents))
    return replace(network, structure=shorter, tables=Tables(network.log_prior, tuple(families)))


def _plain(value: Any) -> Any:
    """Return a request as JSON-compatible data."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return float(value) if isinstance(value, Real) else str(value)
