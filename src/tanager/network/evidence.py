"""What is known of a row: values, sets of values, intervals, likelihoods, or nothing.

Evidence is a mapping from names to what is known, for one row, or a table of values for many.
A feature that isn't named is unknown. ``None`` is a missing cell: a value of its own where
the training rows had such cells under ``missing="value"``, otherwise unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tanager.codes import Codes, MatchedTable, NumericColumn
from tanager.codes.decoding import column_edges
from tanager.codes.values import to_numbers
from tanager.errors import ConfigurationError, DataError, listed, nearest

if TYPE_CHECKING:
    from tanager.codes import Column
    from tanager.network.network import Network

Floats = NDArray[np.float64]


class Evidence:
    """Evidence other than one value: `OneOf`, `Interval` or `Soft`."""


@dataclass(frozen=True, init=False)
class OneOf(Evidence):
    """The value is one of several.

    Parameters
    ----------
    *values
        Raw values, as they stand in the table.

    Examples
    --------
    >>> OneOf("DSL", "Fiber optic")
    OneOf('DSL', 'Fiber optic')
    """

    values: tuple[Any, ...]

    def __init__(self, *values: Any) -> None:
        object.__setattr__(self, "values", values)

    def __repr__(self) -> str:
        return f"OneOf({', '.join(map(repr, self.values))})"


@dataclass(frozen=True)
class Interval(Evidence):
    """The number, date or duration lies above `low` and is at most `high`.

    A bin that the interval covers in part counts by the part that is covered: values are
    taken to be spread evenly over their bin.

    Parameters
    ----------
    low, high : number, date or None
        None leaves that side open.

    Examples
    --------
    >>> Interval(18, 65)
    Interval(low=18, high=65)
    """

    low: Any = None
    high: Any = None


@dataclass(frozen=True)
class Soft(Evidence):
    """Uncertain evidence: how likely the observation is under each value (virtual evidence).

    Parameters
    ----------
    likelihoods : mapping
        From raw values, `OneOf` or `Interval` to numbers of at least zero. Only their ratios
        matter; values that aren't named have a likelihood of zero.

    Examples
    --------
    >>> Soft({"yes": 0.8, "no": 0.2})
    Soft(likelihoods={'yes': 0.8, 'no': 0.2})
    """

    likelihoods: Mapping[Any, float]


@dataclass(frozen=True, eq=False)
class Known:
    """Evidence in codes."""

    # (n_features, n_rows): a feature's arity stands for unknown, also where it has a
    # likelihood.
    codes: Codes
    # (arity,): features with evidence other than one value; at most one.
    likelihoods: dict[int, Floats]
    classes: Floats  # (n_classes,): likelihood of each class; at most one
    single: bool  # whether the evidence was a mapping, so that answers are of one row


def class_name(network: Network) -> str:
    """Return what the class is called: the target column's name, or "class"."""
    return network.codebook.target.name or "class"


def read_evidence(network: Network, evidence: Any) -> Known:
    """Turn evidence into codes and likelihoods.

    A mapping from names to evidence is one row; any other table has one row of raw values per
    answer, and may lack columns.
    """
    codebook = network.codebook
    domain = codebook.domain
    classes = np.ones(domain.n_classes)
    if evidence is not None and not isinstance(evidence, Mapping):
        return Known(_code_table(network, evidence), {}, classes, single=False)
    codes = np.empty((domain.n_features, 1), codebook.dtype)
    codes[:, 0] = domain.arities
    likelihoods: dict[int, Floats] = {}
    place = {name: at for at, name in enumerate(domain.names)}
    values = {name: given for name, given in (evidence or {}).items() if _is_value(given)}
    coded = _code_values(network, values)
    for name, given in (evidence or {}).items():
        if name in coded:
            codes[place[name], 0] = coded[name]
        elif name in place:
            found = _likelihood(network, codebook.columns[place[name]], given)
            if found is None:
                continue
            if _is_value(given):
                codes[place[name], 0] = int(np.argmax(found))
            else:
                likelihoods[place[name]] = found
        elif name == class_name(network):
            classes = _class_likelihood(network, given)
        else:
            known = [*domain.names, class_name(network)]
            raise ConfigurationError(
                f"The model has no feature {name!r}.{nearest(name, known)} Known: {listed(known)}."
            )
    return Known(codes, likelihoods, classes, single=True)


def _is_value(given: Any) -> bool:
    return not isinstance(given, Evidence | list | set | tuple | range | slice)


def _code_values(network: Network, values: Mapping[str, Any]) -> dict[str, int]:
    """Return the codes of raw values that training saw, all coded as one row.

    The others, and all where the row can't be coded cell by cell, are left to `_likelihood`.
    """
    domain = network.codebook.domain
    row = {name: values.get(name) for name in domain.names}
    codes = network.codebook.encode_few([row]) if network.codebook.named else None
    if codes is None:
        return {}
    pairs = zip(domain.names, codes[:, 0].tolist(), domain.arities.tolist(), strict=True)
    return {name: code for name, code, arity in pairs if name in values and code < arity}


def _code_table(network: Network, X: Any) -> Codes:
    """Code rows of raw values; columns that the table lacks are unknown."""
    from tanager.sources import open_source
    from tanager.sources.source import complete_columns

    source, domain = open_source(X), network.codebook.domain
    absent = [name for name in domain.names if name not in source.names] if source.named else []
    if absent and len(absent) < domain.n_features:
        source = complete_columns(source, absent)
    else:
        absent = []
    codes = MatchedTable.of(network.codebook, source).encode()
    for name in absent:
        at = domain.names.index(name)
        codes[at] = domain.arities[at]
    return np.ascontiguousarray(codes)


def _likelihood(network: Network, column: Column, given: Any) -> Floats | None:
    """Return the likelihood of each code of a column, at most one; None where nothing is said."""

    def of_value(value: Any) -> Floats | None:
        codes = np.empty(1, np.uint16)
        column.encode(_cell(network, column, value), codes)
        if codes[0] < column.arity:
            return np.eye(1, column.arity, int(codes[0]))[0]
        if value is None or value != value:
            return None
        known = column.labels()
        raise DataError(
            f"{column.name!r} never had the value {value!r} in training."
            f"{nearest(str(value), known)} Known: {listed(known)}. Leave the feature out if its "
            "value is unknown."
        )

    def of_interval(interval: Interval) -> Floats:
        return _covered(network, column, interval)

    return _weigh(given, column.name, column.arity, of_value, of_interval)


def _weigh(
    given: Any,
    name: str,
    size: int,
    of_value: Callable[[Any], Floats | None],
    of_interval: Callable[[Interval], Floats],
) -> Floats | None:
    """Return the likelihood of each value, at most one, by those of one value and an interval."""
    if isinstance(given, Soft):
        total = np.zeros(size)
        for part, weight in given.likelihoods.items():
            if not (np.isfinite(weight) and weight >= 0):
                raise ConfigurationError(
                    f"{name!r}: the likelihood of {part!r} is {weight!r}. Allowed: numbers of at "
                    "least 0."
                )
            found = _weigh(part, name, size, of_value, of_interval)
            total += float(weight) * (1.0 if found is None else found)
        return _scaled(total, name)
    if isinstance(given, OneOf):
        every = [_weigh(value, name, size, of_value, of_interval) for value in given.values]
        return _scaled(sum((one for one in every if one is not None), np.zeros(size)) > 0, name)
    if isinstance(given, Interval):
        return _scaled(of_interval(given), name)
    if isinstance(given, list | set | tuple | range | slice):
        raise ConfigurationError(
            f"{name!r}: {given!r} is not one value. Use OneOf(...) for several values, "
            "Interval(low, high) for a range, or Soft({...}) for likelihoods."
        )
    return of_value(given)


def _cell(network: Network, column: Column, value: Any) -> pa.Array:
    """Return one raw value as a column of one row."""
    from tanager.sources import open_source

    array = open_source({column.name: [value]}).column(column.name)
    reading = network.codebook.readings.get(column.name)
    return array if reading is None else reading.read(array, column.name)


def _covered(network: Network, column: Column, given: Interval) -> Floats:
    """Return the part of each interval of a numeric column that `given` covers."""
    if not isinstance(column, NumericColumn):
        raise ConfigurationError(
            f"{column.name!r} is categorical: Interval takes numbers and dates. Use OneOf(...)."
        )

    def number(value: Any, default: float) -> float:
        if value is None:
            return default
        found, nulls = to_numbers(
            _cell(network, column, value), column.name, temporal=column.temporal
        )
        if nulls is not None and nulls.any():
            raise ConfigurationError(f"{column.name!r}: Interval({value!r}) is not a number.")
        return float(found[0])

    low, high = number(given.low, -np.inf), number(given.high, np.inf)
    if not low < high:
        raise ConfigurationError(
            f"{column.name!r}: {given!r} is empty. `low` must be less than `high`."
        )
    edges = column_edges(column)
    part = np.zeros(column.arity)
    left, right = edges[:-1].copy(), edges[1:].copy()
    # The outer bins have no end: one that the interval leaves open on that side is covered whole.
    left[0], right[-1] = min(left[0], low), max(right[-1], high)
    if np.isinf(low):
        left[0] = edges[0]
    if np.isinf(high):
        right[-1] = edges[-1]
    inner = np.minimum(right, high) - np.maximum(left, low)
    part[: len(left)] = np.clip(inner / (right - left), 0.0, 1.0)
    return part


def _class_likelihood(network: Network, given: Any) -> Floats:
    """Return the likelihood of each class; evidence on it names classes as the data do."""
    name, n_classes = class_name(network), len(network.codebook.classes)

    def of_value(value: Any) -> Floats | None:
        if value is None:
            return None
        return np.eye(1, n_classes, int(network.codebook.encode_labels([value], name=name)[0]))[0]

    def of_interval(_: Interval) -> Floats:
        raise ConfigurationError(f"{name!r} is the class: use OneOf(...) or Soft({{...}}).")

    found = _weigh(given, name, n_classes, of_value, of_interval)
    return np.ones(n_classes) if found is None else found


def _scaled(likelihood: NDArray[Any], name: str) -> Floats:
    """Divide by the greatest, so that it is one; all zeros are refused."""
    likelihood = likelihood.astype(np.float64)
    top = float(likelihood.max(initial=0.0))
    if top <= 0:
        raise ConfigurationError(f"{name!r}: the evidence leaves no value possible.")
    return likelihood / top


def names_of(network: Network, targets: str | Sequence[str]) -> list[str]:
    """Return what is asked about as a list of names the network knows."""
    names = [targets] if isinstance(targets, str) else list(targets)
    known = [*network.structure.features, class_name(network)]
    for name in names:
        if name not in known:
            if name in network.codebook.domain.names:
                raise ConfigurationError(
                    f"{name!r} is a column, but not in the network: the structure left it out."
                )
            raise ConfigurationError(
                f"The model has no feature {name!r}.{nearest(name, known)} Known: {listed(known)}."
            )
    if not names or len(set(names)) < len(names):
        raise ConfigurationError(f"targets={targets!r}. Name at least one feature, each once.")
    return names
