r"""How sure an answer is: intervals of probabilities, and how it depends on tables and evidence.

The log-score of a class is a sum of table entries, each with a lower and an upper margin of error
(`tanager.parameters.spread.reaches`). Their squares add up to :math:`l_c` below and
:math:`u_c` above, and the log-odds of a class against all others extend from their estimate down
and up by the square roots of

.. math:: l_c + \sum_{j \ne c} w_j^2 u_j \quad\text{and}\quad u_c + \sum_{j \ne c} w_j^2 l_j,
          \qquad w_j = P(j \mid x) / (1 - P(c \mid x)).

If an entry :math:`\theta = P(x \mid c)` of a table changes, the context's other values change in
proportion, so they still sum to one. With q the probability of value and context, and
:math:`q_\cdot` that of the context,

.. math:: \frac{\partial \log P(e)}{\partial \theta} = \frac{q}{\theta}
          - \frac{q_\cdot - q}{1 - \theta}, \qquad q = P(x, c \mid e)

and the derivative of :math:`P(t \mid e)` is :math:`P(t \mid e)` times the difference between that
of :math:`P(t, e)` and that of :math:`P(e)`. Intervals of sums from those of their terms: Zou and
Donner (2008), DOI 10.1002/sim.3095. Sensitivity: Laskey (1995), DOI 10.1109/21.384252; Chan and
Darwiche (2002), DOI 10.1613/jair.967.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tanager.codes import Codes
from tanager.errors import ConfigurationError, DataError
from tanager.network.answers import align_columns
from tanager.network.evidence import (
    Known,
    Soft,
    as_row,
    check_count,
    is_missing,
    names_of,
    read_evidence,
)
from tanager.network.queries import log_joint_with, refuse_impossible
from tanager.numerics import IMPOSSIBLE, Floats, log_sum_exp
from tanager.parameters import Tables, posterior
from tanager.parameters.spread import reaches, table_arrays

if TYPE_CHECKING:
    from tanager.network.network import Network

NUDGE = 1e-4  # of the tables, if something is summed out
LEAST = 1e-150  # a probability whose square doesn't underflow
MOST_CELLS = 1 << 18  # largest table to analyse


def interval_of_codes(network: Network, codes: Codes, level: float) -> Floats:
    """Return the lower and upper bound of each P(class | row), (n_rows, n_classes, 2)."""
    from scipy.special import expit

    logs = network.log_joint_of_codes(codes)
    below, above = (_summed(network, reach, codes, logs) for reach in _reaches(network, level))
    found = posterior(logs)
    others = 1.0 - np.eye(found.shape[1])
    rest = np.maximum(found @ others, LEAST)
    odds = np.log(np.maximum(found, LEAST)) - np.log(rest)
    low = below + (found**2 * above) @ others / rest**2
    high = above + (found**2 * below) @ others / rest**2
    return np.stack([expit(odds - np.sqrt(low)), expit(odds + np.sqrt(high))], axis=-1)


def _reaches(network: Network, level: float) -> tuple[tuple[Tables, Network], ...]:
    """Return the squared margins (reaches) below and above, each also as a shifted network."""
    spread = network.tables.spread
    if spread is None:
        raise ConfigurationError(
            "This model has no record of how sure its tables are. It was edited by hand, "
            "imported, saved by a release without intervals, or its parameters give none: fit with "
            "parameters 'layered', 'hdp', 'm-estimate', 'laplace', 'friedman', 'ml' or "
            "'discriminative'."
        )
    if level not in network.reaches:
        found = reaches(spread, level)
        network.reaches[level] = tuple((reach, _nudged(network, reach)) for reach in found)
    return network.reaches[level]


def _nudged(network: Network, reach: Tables) -> Network:
    """Return the network with tables shifted by some numbers.

    The change in its answers is their mean over what is unknown, since the derivative of
    log P(known) by the logarithm of an entry is the entry's probability given what is known.
    """
    families = []
    for table, along in zip(network.tables.families, reach.families, strict=True):
        pairs = table_arrays(table).items()
        moved = {name: array + NUDGE * getattr(along, name) for name, array in pairs}
        families.append(replace(table, **moved))
    prior = network.log_prior + NUDGE * reach.log_prior
    return replace(network, tables=Tables(prior, tuple(families), normalized=False))


def _summed(network: Network, reach: tuple[Tables, Network], codes: Codes, logs: Floats) -> Floats:
    """Return each class's sum of squared margins, (n_rows, n_classes): the mean over unknowns."""
    arities, selected = network.codebook.domain.arities, list(network.structure.selected)
    tables, nudged = reach
    out = tables.log_joint(network.structure, codes, arities)
    gaps = np.flatnonzero((codes[selected] >= arities[selected, None]).any(axis=0))
    if gaps.size:
        some = np.ascontiguousarray(codes[:, gaps])
        out[gaps] = (nudged.log_joint_of_codes(some) - logs[gaps]) / NUDGE
    return np.maximum(out, 0.0)


class Entry(NamedTuple):
    """An entry of a table, and how the answer changes with it."""

    entry: str  # such as "P(cough=yes | sick=no, smoker=yes)"
    probability: float
    derivative: float  # of the answer with respect to the entry; 0 if that is 0 or 1, and so fixed
    effect: float  # on the answer, per unit of the entry's log-odds


class EvidenceEffect(NamedTuple):
    """The answer if a piece of evidence were removed, or one were added."""

    feature: str
    given: bool
    low: float  # the answer without it, or the lowest with one more
    high: float
    low_value: str
    high_value: str


@dataclass(frozen=True)
class Sensitivity:
    """How an answer responds to table entries and to pieces of evidence.

    Attributes
    ----------
    question : str
    probability : float
        P(target | evidence).
    entries : tuple of Entry
        The largest effects first.
    evidence : tuple of EvidenceEffect
        The given pieces of evidence; then the unknown features, by how far they could move it.
    left_out : tuple of str
        Features whose tables are too large to analyse.
    """

    question: str
    probability: float
    entries: tuple[Entry, ...]
    evidence: tuple[EvidenceEffect, ...]
    left_out: tuple[str, ...] = ()

    def to_pandas(self, of: str = "entries") -> Any:
        """Return the ``"entries"`` or the ``"evidence"`` as a DataFrame."""
        import pandas as pd

        kinds = {"entries": Entry._fields, "evidence": EvidenceEffect._fields}
        if of not in kinds:
            raise ConfigurationError(f"of={of!r}. Allowed: 'entries', 'evidence'.")
        return pd.DataFrame(getattr(self, of), columns=list(kinds[of]))

    def to_dict(self) -> dict[str, Any]:
        """Return the results as plain data."""
        entries, evidence = ([x._asdict() for x in some] for some in (self.entries, self.evidence))
        facts = {"question": self.question, "probability": self.probability}
        return {**facts, "entries": entries, "evidence": evidence}

    def __str__(self) -> str:
        rows = [["entry", "P", "derivative", "effect"]]
        for x in self.entries:
            numbers = f"{x.probability:.4f}", f"{x.derivative:+.4f}", f"{x.effect:+.4f}"
            rows.append([x.entry, *numbers])
        lines = [f"{self.question} = {self.probability:.4f}", *align_columns(rows, 1)]
        for one in self.evidence:
            low, high = f"{one.low:.4f} ({one.low_value})", f"{one.high:.4f} ({one.high_value})"
            told = f"{one.low:.4f} without it" if one.given else f"{low} to {high}"
            lines.append(f"{one.feature}: {told}")
        if self.left_out:
            lines.append(f"Tables too large to look at: {', '.join(self.left_out)}")
        return "\n".join(lines)

    __repr__ = __str__


def find_sensitivity(
    network: Network,
    target: Mapping[str, Any],
    evidence: Mapping[str, Any] | None = None,
    *,
    n: int = 10,
) -> Sensitivity:
    """Return how P(target | evidence) responds to table entries and to pieces of evidence.

    Parameters
    ----------
    target : mapping or Series
        From one or more names to values: the queried event.
    evidence : mapping, Series or None
        As for `query`.
    n : int, default=10
        How many table entries to return, the largest effects first.

    Returns
    -------
    Sensitivity
        `entries`: the derivative with respect to each, with the other values of its context
        changing in proportion. `evidence`: the answer without each piece, and the range it could
        take if one more feature were known. `to_pandas`.

    Examples
    --------
    >>> from tanager import BayesNetClassifier
    >>> X = [["rain", "cold"], ["rain", "mild"], ["sun", "warm"], ["sun", "mild"]] * 5
    >>> network = BayesNetClassifier("naive", "laplace").fit(X, [1, 1, 0, 0] * 5).network_
    >>> print(network.sensitivity({"class": 1}, {"x1": "cold"}, n=3))
    P(class=1 | x1=cold) = 0.8571
    entry                      P  derivative   effect
    P(class=0)            0.5000     -0.4898  -0.1224
    P(class=1)            0.5000     +0.4898  +0.1224
    P(x1=cold | class=0)  0.0769     -1.5918  -0.1130
    x1: 0.5000 without it
    x0: 0.3529 (sun) to 0.9851 (rain)
    """
    target, evidence = as_row(target), as_row(evidence)
    if not (evidence is None or isinstance(evidence, Mapping)):
        raise ConfigurationError(
            "evidence must be a mapping from names to values, such as {'smoker': 'yes'}; got "
            f"{type(evidence).__name__}.",
            parameter="evidence",
        )
    given = dict(evidence or {})
    if not isinstance(target, Mapping) or not target or set(target) & set(given):
        raise ConfigurationError(
            f"target={target!r}. Allowed: a mapping from one or more names to values, none of "
            "which is also given as evidence."
        )
    names_of(network, list(target))
    arities = network.codebook.domain.arities[:, None]
    for name, value in target.items():
        nothing = is_missing(value) and (read_evidence(network, {name: value}).codes == arities)
        if isinstance(value, Soft) or np.all(nothing):
            raise ConfigurationError(
                f"target={target!r}: {value!r} is no event. Give a value of {name!r}, OneOf or "
                "Interval."
            )
    check_count("n", n, 1)
    before, after = (read_evidence(network, one) for one in (given, {**given, **target}))
    refuse_impossible(np.array([network.log_probability(given)]))
    chance = _chance(network, target, given)
    if network.log_probability({**given, **target}) < IMPOSSIBLE:
        raise DataError(
            f"target={target!r} is impossible given the evidence: its probability is zero, and has "
            "no derivative here. Ask about another value."
        )
    structure, families = network.structure, network.tables.families
    known, left_out = (before, after), []
    entries = _entries(network, (), np.exp(network.log_prior), known, chance, n)
    for at, (feature, family) in enumerate(zip(structure.features, families, strict=True)):
        if prod(family.member_arities) * family.n_classes > MOST_CELLS:
            left_out.append(feature)
            continue
        members = (*structure.parent_indices[at], structure.selected[at])
        table = np.exp(np.moveaxis(family.to_dense().log_prob, -1, 0))
        entries += _entries(network, members, table, known, chance, n)
    entries.sort(key=lambda one: -abs(one.effect))
    asked, told = (", ".join(f"{k}={v}" for k, v in some.items()) for some in (target, given))
    question = f"P({asked} | {told})" if told else f"P({asked})"
    effects = []
    for name in given:
        without = _chance(network, target, {k: v for k, v in given.items() if k != name})
        effects.append(EvidenceEffect(name, True, without, without, "", ""))
    unknown = [one for one in structure.features if one not in given and one not in target]
    more = [_one_more(network, name, before, after) for name in unknown]
    effects += sorted(more, key=lambda one: one.low - one.high)
    return Sensitivity(question, chance, tuple(entries[:n]), tuple(effects), tuple(left_out))


def _chance(network: Network, target: Mapping[str, Any], given: Mapping[str, Any]) -> float:
    """Return P(target | given)."""
    whole = network.log_probability({**given, **target})
    return float(np.exp(whole - network.log_probability(given)))


def _entries(
    network: Network,
    members: tuple[int, ...],
    table: Floats,  # P(last member | class, others), the class first
    known: tuple[Known, Known],  # without the target, and with it
    chance: float,
    n: int,
) -> list[Entry]:
    """Return the n entries of a table with the largest effects."""
    old, new = (_slope(_joint(network, members, one), table) for one in known)
    slope = chance * (new - old)
    effect = slope * table * (1.0 - table)
    columns = [network.codebook.columns[one] for one in members]
    axes = [[f"{network.codebook.class_name}={one}" for one in network.codebook.classes]]
    axes += ([f"{column.name}={value}" for value in column.labels()] for column in columns)
    found = []
    for place in np.argsort(-np.abs(effect), axis=None, kind="stable")[:n]:
        cell = np.unravel_index(place, table.shape)
        *given, own = (said[at] for said, at in zip(axes, cell, strict=True))
        numbers = (float(array[cell]) for array in (table, slope, effect))
        found.append(Entry(f"P({own}{' | ' * bool(given)}{', '.join(given)})", *numbers))
    return found


def _joint(network: Network, members: tuple[int, ...], known: Known) -> Floats:
    """Return P(class, members | what is known), with an axis each."""
    domain, codes = network.codebook.domain, known.codes[:, 0]
    fixed = {one: int(codes[one]) for one in members if codes[one] < domain.arities[one]}
    logs = log_joint_with(network, [one for one in members if one not in fixed], known)[0]
    out = np.zeros((domain.n_classes, *(int(domain.arities[one]) for one in members)))
    place = (slice(None), *(fixed.get(one, slice(None)) for one in members))
    out[place] = np.moveaxis(np.exp(logs - log_sum_exp(logs.ravel(), axis=0)), -1, 0)
    return out


def _slope(joint: Floats, table: Floats) -> Floats:
    """Return the derivative of log P(given) by each entry, with others changing in proportion."""
    rest = joint.sum(axis=-1, keepdims=True) - joint
    free, out = (table > 0.0) & (table < 1.0), np.zeros(table.shape)
    out[free] = joint[free] / table[free] - rest[free] / (1.0 - table[free])
    return out


def _one_more(network: Network, name: str, before: Known, after: Known) -> EvidenceEffect:
    """Return the range of the answer if a feature were known, from evidence without the target."""
    place = [network.structure.names.index(name)]
    joints = (log_joint_with(network, place, known)[0] for known in (before, after))
    given, both = (log_sum_exp(logs, axis=1) for logs in joints)
    possible = given - log_sum_exp(given, axis=0) > np.log(1e-9)
    chances = np.full(len(given), np.nan)
    chances[possible] = np.exp(both[possible] - given[possible])
    low, high = int(np.nanargmin(chances)), int(np.nanargmax(chances))
    values = network.codebook.columns[place[0]].labels()
    ends = float(chances[low]), float(chances[high])
    return EvidenceEffect(name, False, *ends, values[low], values[high])
