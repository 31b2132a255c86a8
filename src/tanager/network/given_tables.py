"""Parse tables written by users, given a codebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tanager.codes import Codebook
from tanager.errors import ConfigurationError, listed, nearest
from tanager.numerics import Floats

CLASS = -1  # represents the class among indices of features
TOLERANCE = 1e-3  # largest deviation of the sum of given probabilities from one


class GivenFamily(NamedTuple):
    """The indices of a node and its parents, with `CLASS` for the class."""

    child: int
    parents: tuple[int, ...]


def read_family(codebook: Codebook, text: Any) -> GivenFamily:
    """Parse a family such as ``"cough | sick, smoker"``, or a pair."""
    if isinstance(text, str) and text in _names(codebook):
        child, parents = text, []
    elif isinstance(text, str):
        child, _, given = text.partition("|")
        parents = [name.strip() for name in given.split(",") if name.strip()]
    elif isinstance(text, Sequence) and len(text) == 2:
        child, parents = str(text[0]), [str(name) for name in text[1]]
    else:
        raise ConfigurationError(
            f"{text!r} names no family. Write 'feature | parent, parent', or a pair of a name and "
            "a list of names."
        )
    places = [_place(codebook, name) for name in (child.strip(), *parents)]
    if len(set(places)) != len(places):
        raise ConfigurationError(f"{text!r} names a node twice. Name each once.")
    if places[0] == CLASS and len(places) > 1:
        raise ConfigurationError(
            f"{text!r} gives the class parents; it has none here. Give the features' tables with "
            "the class among their parents."
        )
    return GivenFamily(places[0], tuple(places[1:]))


def _names(codebook: Codebook) -> list[str]:
    return [codebook.class_name, *codebook.domain.names]


def _place(codebook: Codebook, name: str) -> int:
    names = codebook.domain.names
    if name in names:
        return names.index(name)
    if name in ("class", codebook.class_name):
        return CLASS
    raise ConfigurationError(
        f"The given tables name {name!r}, which is neither a feature nor the class."
        f"{nearest(name, names)} Features: {listed(names)}."
    )


def read_table(
    codebook: Codebook,
    family: GivenFamily,
    given: Any,
    name: str,
    contexts: Sequence[list[str]] | None = None,
) -> Floats:
    """Return probabilities (*parents, values); NaN for contexts that a mapping doesn't contain.

    `contexts` are the labels of each parent except the class, if they aren't the codebook's.
    """
    labels = [
        codebook.target.labels() if node == CLASS else codebook.columns[node].labels()
        for node in (*family.parents, family.child)
    ]
    if contexts is not None:
        labels[1:-1] = contexts
    shape = tuple(map(len, labels))
    if isinstance(given, Mapping):
        table = np.full(shape, np.nan)
        rows = given.items() if family.parents else [((), given)]
        for context, row in rows:
            table[_context(labels[:-1], context, name)] = _row(labels[-1], row, name)
    else:
        table = _numbers(given, name)
        if table.shape != shape:
            raise ConfigurationError(
                f"The table of {name!r} has the shape {table.shape}; {shape} is expected: one axis "
                "per parent, the feature's values last."
            )
        if np.isnan(table).any():
            raise ConfigurationError(f"The table of {name!r} has a NaN. Give every probability.")
    totals = table.sum(axis=-1)
    wrong = (table < 0).any() or not np.isfinite(table[~np.isnan(table)]).all()
    if wrong or bool((np.abs(totals - 1.0) > TOLERANCE).any()):
        raise ConfigurationError(
            f"The table of {name!r} has a context whose probabilities are negative or do not sum "
            "to one. Give probabilities of all values."
        )
    normalised: Floats = table / totals[..., None]
    return normalised


def _context(labels: Sequence[list[str]], context: Any, name: str) -> tuple[int, ...]:
    given = context if isinstance(context, tuple) else (context,)
    if not labels:
        return ()
    if len(given) != len(labels):
        raise ConfigurationError(
            f"The table of {name!r} has the context {context!r}; one value for each of "
            f"{len(labels)} parents is expected."
        )
    return tuple(_find(known, value, name) for known, value in zip(labels, given, strict=True))


def _row(labels: list[str], row: Any, name: str) -> Floats:
    if isinstance(row, Mapping):
        chances = {_find(labels, value, name): chance for value, chance in row.items()}
        row = [chances.get(at, 0.0) for at in range(len(labels))]
    found = _numbers(row, name)
    if found.shape != (len(labels),):
        raise ConfigurationError(
            f"A row of the table of {name!r} has the shape {found.shape}; {len(labels)} "
            "probabilities are expected."
        )
    return found


def _numbers(given: Any, name: str) -> Floats:
    try:
        return np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"The table of {name!r} isn't an array of numbers.") from error


def _find(labels: list[str], value: Any, name: str) -> int:
    if str(value) not in labels:
        raise ConfigurationError(
            f"The table of {name!r} names the value {value!r}.{nearest(value, labels)} Values: "
            f"{listed(labels)}."
        )
    return labels.index(str(value))
