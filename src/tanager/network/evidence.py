"""What is known about a row: values, sets of values, intervals, likelihoods, or nothing.

Evidence is a mapping from names to what is known, for one row, or a table of values for many. A
feature that isn't included is unknown. ``None`` is a missing cell: a separate value if the training
rows had such cells under ``missing="value"``, otherwise unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tanager.codes import Codes, MatchedTable, NumericColumn
from tanager.codes.columns import column_edges
from tanager.codes.values import refuse_temporal, to_numbers
from tanager.errors import ConfigurationError, DataError, invalid, listed, nearest
from tanager.network.decisions import is_number
from tanager.numerics import Floats, log_or_zero

if TYPE_CHECKING:
    from tanager.codes import Column
    from tanager.network.network import Network


class Evidence:
    """Evidence other than one value: `OneOf`, `Interval` or `Soft`."""


@dataclass(frozen=True, init=False)
class OneOf(Evidence):
    """The value is one of several.

    Parameters
    ----------
    *values
        Raw values, as in the table.

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
    """The number, date or duration is greater than `low` and at most `high`.

    A bin that's partly inside counts in proportion, as if values were uniform within it.

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
        From raw values, `OneOf` or `Interval` to non-negative numbers. Only their ratios
        matter; values that aren't included have a likelihood of zero.

    Examples
    --------
    >>> Soft({"yes": 0.8, "no": 0.2})
    Soft(likelihoods={'yes': 0.8, 'no': 0.2})
    """

    likelihoods: Mapping[Any, float]


@dataclass(frozen=True, eq=False)
class Known:
    """Evidence in codes."""

    codes: Codes  # (n_features, n_rows): the arity means unknown, even with a likelihood
    likelihoods: dict[int, Floats]  # (arity,) of features with other evidence; at most one
    classes: Floats  # (n_classes,): likelihood of each class; at most one
    single: bool  # whether the evidence was a mapping, so answers are for one row

    def fixed(self, network: Network) -> dict[int, int]:
        """Return the codes of the network's known features, for one row."""
        arities = network.codebook.domain.arities
        codes = {f: int(self.codes[f, 0]) for f in sorted(network.structure.selected)}
        return {f: code for f, code in codes.items() if code < arities[f]}

    @property
    def logs(self) -> tuple[dict[int, Floats], Floats]:
        """Log-likelihoods of features and classes, finite even for a likelihood of zero."""
        return {f: log_or_zero(v) for f, v in self.likelihoods.items()}, log_or_zero(self.classes)


def as_row(row: Any) -> Any:
    """Return a pandas Series, such as ``df.iloc[3]``, as a mapping; anything else as it is."""
    is_series = hasattr(row, "to_dict") and getattr(row, "ndim", 2) == 1
    return {str(name): value for name, value in row.to_dict().items()} if is_series else row


def read_evidence(network: Network, evidence: Any) -> Known:
    """Convert evidence to codes and likelihoods: of one row, or of each row of a table."""
    evidence = as_row(evidence)
    codebook = network.codebook
    domain = codebook.domain
    classes = np.ones(domain.n_classes)
    if evidence is not None and not isinstance(evidence, Mapping):
        return Known(_code_table(network, evidence), {}, classes, single=False)
    codes = np.empty((domain.n_features, 1), codebook.dtype)
    codes[:, 0] = domain.arities
    likelihoods: dict[int, Floats] = {}
    columns = [*codebook.columns, codebook.target]
    place = {name: at for at, name in enumerate([*domain.names, codebook.class_name])}
    values = {name: given for name, given in (evidence or {}).items() if _is_value(given)}
    coded = _code_values(network, values)
    for name, given in (evidence or {}).items():
        at = place[name] if name in place else find_feature(list(place), name)
        if name in coded:
            codes[at] = coded[name]
        elif (found := _likelihood(network, columns[at], given)) is None:
            continue
        elif at == domain.n_features:
            classes = found
        elif _is_value(given):
            codes[at] = int(np.argmax(found))
        elif at in network.structure.selected:  # otherwise it's irrelevant
            likelihoods[at] = found
    return Known(codes, likelihoods, classes, single=True)


def one_row(network: Network, row: Any) -> Known:
    """Return the evidence of one row: a mapping, a Series, or a table with one row."""
    known = read_evidence(network, row)
    if known.codes.shape[1] != 1:
        raise ConfigurationError(
            "One row is needed: a mapping, or a table with one row; got "
            f"{known.codes.shape[1]} rows."
        )
    return known


def find_feature(known: Sequence[str], name: Any, option: str = "") -> int:
    """Return the index of a feature among those known; errors name the option it was passed to."""
    if name not in known:
        raise ConfigurationError(
            f"{f'{option}: the' if option else 'The'} model has no feature {name!r}."
            f"{nearest(name, known)} Known: {listed(known)}."
        )
    return known.index(name)


def find_class(classes: tuple[Any, ...], label: Any, parameter: str | None = None) -> int:
    """Return the index of a class, passed as itself or as text; errors name the parameter."""
    for at, known in enumerate(classes):
        same = known == label  # an array if the label is one
        if (isinstance(same, bool | np.bool_) and same) or str(known) == str(label):
            return at
    raise ConfigurationError(
        f"{f'{parameter}: ' if parameter else ''}{label!r} is not one of the classes "
        f"{listed(classes)}.{nearest(label, [str(one) for one in classes])}",
        parameter=parameter,
    )


def check_count(name: str, value: Any, least: int) -> None:
    """Raise if a value isn't an integer of at least `least`."""
    if isinstance(value, bool) or not (isinstance(value, int | np.integer) and value >= least):
        raise ConfigurationError(f"{name}={value!r}. Allowed: an integer of at least {least}.")


_SEVERAL = (list, set, frozenset, tuple, range, slice, dict, np.ndarray)


def _is_value(given: Any) -> bool:
    return not isinstance(given, (Evidence, *_SEVERAL))


def is_missing(value: Any) -> bool:
    """Return whether a raw value is a missing cell."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA is neither equal to itself nor unequal
        return True


def _code_values(network: Network, values: Mapping[str, Any]) -> dict[str, int]:
    """Return the codes of values seen in training, if they can be coded cell by cell as one row."""
    domain = network.codebook.domain
    codes = network.codebook.few.encode([[values.get(name) for name in domain.names]])
    if codes is None:
        return {}
    pairs = zip(domain.names, codes[:, 0].tolist(), domain.arities.tolist(), strict=True)
    return {name: code for name, code, arity in pairs if name in values and code < arity}


def _code_table(network: Network, X: Any) -> Codes:
    """Code rows of raw values; columns that aren't in the table are unknown."""
    from tanager.sources import open_source

    source, domain = open_source(X), network.codebook.domain
    absent = [name for name in domain.names if name not in source.names] if source.named else []
    absent = absent if len(absent) < domain.n_features else []
    source = source.complete(absent) if absent else source
    codes = np.ascontiguousarray(MatchedTable.of(network.codebook, source).encode())
    lacking = [domain.names.index(name) for name in absent]
    codes[lacking] = domain.arities[lacking, None]
    return codes


def _likelihood(network: Network, column: Column, given: Any) -> Floats | None:
    """Return the likelihood of each code of a column, at most one; None if there's no evidence."""
    if isinstance(given, Soft):
        if not isinstance(given.likelihoods, Mapping):
            remedy = "Give Soft a mapping from values to numbers."
            raise ConfigurationError(f"{column.name!r}: {given!r} isn't valid. {remedy}")
        total = np.zeros(column.arity)
        for part, weight in given.likelihoods.items():
            if not (is_number(weight) and weight >= 0):
                what = f"{column.name!r}: the likelihood of {part!r} is {weight!r}"
                raise ConfigurationError(f"{what}. Allowed: numbers of at least 0.")
            found = _likelihood(network, column, part)
            total += float(weight) * (1.0 if found is None else found)
        total /= total.max(initial=0.0) or 1.0  # only ratios matter
    elif isinstance(given, OneOf):
        every = [_likelihood(network, column, value) for value in given.values]
        possible = [found > 0 for found in every if found is not None]
        total = np.any([np.zeros(column.arity), *possible], axis=0).astype(np.float64)
    elif isinstance(given, Interval):
        total = _covered(network, column, given)
    elif isinstance(given, _SEVERAL):
        raise ConfigurationError(
            f"{column.name!r}: {given!r} isn't a single value. Use OneOf(...) for several values, "
            "Interval(low, high) for a range, or Soft({...}) for likelihoods."
        )
    else:
        code = _code(network, column, given)
        if code < column.arity:
            return np.eye(1, column.arity, code)[0]
        if is_missing(given):
            return None
        known = column.labels()
        raise DataError(
            f"{column.name!r} has no value {given!r} in the model."
            f"{nearest(str(given), known)} Known: {listed(known)}. Leave the feature out if its "
            "value is unknown."
        )
    if not total.any():
        raise ConfigurationError(f"{column.name!r}: the evidence leaves no value possible.")
    return total


def _code(network: Network, column: Column, value: Any) -> int:
    """Return the code of one raw value, parsed as in training; classes are named as in the data."""
    codebook = network.codebook
    if column is codebook.target:
        if is_missing(value):
            return column.arity
        return int(codebook.encode_labels([value], name=codebook.class_name)[0])
    codes = np.empty(1, np.uint16)
    column.encode(_cell(network, column, value), codes)
    return int(codes[0])


def _cell(network: Network, column: Column, value: Any) -> pa.Array:
    """Return one raw value as a column of one row."""
    from tanager.sources import open_source

    array = open_source({column.name: [value]}).column(column.name)
    reading = network.codebook.readings.get(column.name)
    return array if reading is None else reading.read(array, column.name)


def _covered(network: Network, column: Column, given: Interval) -> Floats:
    """Return the fraction of each interval of a numeric column covered by `given`."""
    if not isinstance(column, NumericColumn):
        kind = "the class" if column is network.codebook.target else "categorical"
        raise ConfigurationError(
            f"{column.name!r} is {kind}: Interval takes numbers and dates. Use OneOf(...)."
        )

    def number(value: Any, default: float) -> float:
        if value is None:
            return default
        cell = _cell(network, column, value)
        if not column.temporal:
            refuse_temporal(cell, column.name)
        found, nulls = to_numbers(cell, column.name, temporal=column.temporal)
        if nulls is not None and nulls.any():
            raise ConfigurationError(f"{column.name!r}: Interval({value!r}) is not a number.")
        return float(found[0])

    low, high = number(given.low, -np.inf), number(given.high, np.inf)
    if not low < high:
        raise ConfigurationError(
            f"{column.name!r}: {given!r} is empty: `low` must be below `high`."
        )
    edges, part = column_edges(column), np.zeros(column.arity)
    left, right = edges[:-1].copy(), edges[1:].copy()
    # The outer bins are unbounded: one that the interval leaves open on its side is fully covered.
    left[0] = edges[0] if np.isinf(low) else min(edges[0], low)
    right[-1] = edges[-1] if np.isinf(high) else max(edges[-1], high)
    inner = np.minimum(right, high) - np.maximum(left, low)
    covered = np.clip(inner / (right - left), 0.0, 1.0)
    if not covered.any():  # beyond where an outer bin, though unbounded, is taken to end
        covered[0 if high <= edges[0] else -1] = 1.0
    part[: len(left)] = covered
    return part


def read_names(given: Any, option: str) -> list[str]:
    """Return names passed as a text or as several; errors name the option."""
    if isinstance(given, str):
        return [given]
    names = list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(name, str) for name in names):
        raise invalid(option, given, "a name, or a list of names")
    return names


def names_of(network: Network, targets: str | Sequence[str]) -> list[str]:
    """Return the targets as a list of names that the network contains."""
    names = read_names(targets, "targets")
    known = [*network.structure.features, network.codebook.class_name]
    for name in names:
        if name not in known:
            if name in network.codebook.domain.names:
                raise ConfigurationError(
                    f"{name!r} is a column, but the structure left it out of the network."
                )
            find_feature(known, name)
    if not names or len(set(names)) < len(names):
        raise ConfigurationError(f"targets={targets!r}. Name at least one feature, each once.")
    return names
