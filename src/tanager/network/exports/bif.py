"""Networks as BIF and XMLBIF 0.3, with the full table of every node.

A number with hundreds of values that tables read in a few groups would need a huge table. Since

    P(x | y, parents) = P(group of x | y, groups of the parents) P(x | its group, y),

two nodes per feature represent the same distribution compactly: one for the groups, with groups
as its parents, and its child for the values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tanager.errors import ConfigurationError, check_cells
from tanager.network.answers import group_labels

if TYPE_CHECKING:
    from tanager.network.network import Network
    from tanager.parameters.tables import FamilyTable

MAX_CELLS = 1 << 22  # of one expanded table: about 80 MB of text
MAX_PLAIN = 1 << 18  # of all tables without group nodes: about 5 MB of text


@dataclass(frozen=True)
class Variable:
    """A node as other programs expect it: the class is its first parent."""

    name: str
    states: tuple[str, ...]
    parents: tuple[int, ...]  # indices of variables
    probabilities: NDArray[np.float64]  # (*parent states, states)


def spell_out(network: Network) -> list[Variable]:
    """Return the class and every feature, with expanded probability tables.

    Features that tables read in groups have a second node for the groups if
    the tables of values alone would be large.
    """
    if not network.tables.normalized:
        raise ConfigurationError(
            "The tables of this network are scores with the right posterior, not probabilities, "
            "and have no place in BIF. Use a generative parameter learner, or a discriminative one "
            "on a structure without immoralities (naive, tan, kdb(k=1))."
        )
    structure, codebook = network.structure, network.codebook
    views, tables = network.views, network.tables.families
    within: list[NDArray[np.float64] | None] = [None] * len(tables)
    if sum(map(_n_cells, tables)) > MAX_PLAIN:
        tables, within = views.tables.families, views.within
    prior = np.exp(network.log_prior)
    variables = [
        Variable(codebook.class_name, tuple(codebook.target.labels()), (), prior / prior.sum())
    ]
    place = {}  # of the node that the children's tables read
    n_nodes = 1
    for feature, inside in zip(structure.selected, within, strict=True):
        place[feature] = n_nodes
        n_nodes += 1 if inside is None else 2
    for at, feature in enumerate(structure.selected):
        name, column, inside = structure.names[feature], codebook.columns[feature], within[at]
        parents = (0, *(place[p] for p in structure.parent_indices[at]))
        chances = _spell(tables[at], name)
        if inside is None:
            variables.append(Variable(name, tuple(column.labels()), parents, chances))
            continue
        groups = views.groups[feature]
        states = tuple(group_labels(column, groups))
        variables.append(Variable(f"{name} (group)", states, parents, chances))
        own = groups == np.arange(len(states))[:, None]
        below = np.where(own, np.exp(inside.T)[:, None], 0.0)  # P(value | y, group)
        below /= below.sum(axis=-1, keepdims=True)
        variables.append(Variable(name, tuple(column.labels()), (0, place[feature]), below))
    return variables


def _n_cells(table: FamilyTable) -> int:
    return prod(table.member_arities) * table.n_classes


def _spell(table: FamilyTable, name: str) -> NDArray[np.float64]:
    """Return P(x | y, parents), (n_classes, *parents, values)."""
    remedy = "Learn a structure with fewer parents to export it."
    check_cells(f"Written out, the table of {name!r} has", _n_cells(table), MAX_CELLS, remedy)
    chances = np.exp(np.moveaxis(table.to_dense().log_prob, -1, 0))
    total: NDArray[np.float64] = chances.sum(axis=-1, keepdims=True)
    return chances / total


def distinct(names: Sequence[str]) -> list[str]:
    """Return the names, numbered if two differ at most in case."""
    seen: set[str] = set()
    result = []
    for name in names:
        unique, n = name, 1
        while unique.lower() in seen:
            n += 1
            unique = f"{name}_{n}"
        seen.add(unique.lower())
        result.append(unique)
    return result


def join_numbers(values: NDArray[np.float64], separator: str) -> str:
    """Return the numbers as text that round-trips exactly."""
    return separator.join(map(repr, values.tolist()))


# Reserved words in BIF.
_RESERVED = {
    *("network", "variable", "probability", "property"),
    *("type", "discrete", "table", "default"),
}
_SIGNS = {"<=": "le_", ">=": "ge_", "<": "lt_", ">": "gt_"}
_WORD = re.compile(r"[^A-Za-z0-9_]+")


def to_bif(network: Network) -> str:
    """Return the network in the Bayesian Interchange Format.

    BIF allows only plain words, so names and values are written with letters,
    digits and underscores: ``<= 2.45`` becomes ``le_2_45``. Names that would
    collide are numbered. XMLBIF keeps all names unchanged.
    """
    variables = spell_out(network)
    names = _words(v.name for v in variables)
    states = [_words(v.states) for v in variables]
    lines = ["network tanager {", "}"]
    for name, values in zip(names, states, strict=True):
        lines.append(f"variable {name} {{")
        lines.append(f"  type discrete [ {len(values)} ] {{ {', '.join(values)} }};")
        lines.append("}")
    for at, variable in enumerate(variables):
        if not variable.parents:
            lines.append(f"probability ( {names[at]} ) {{")
            lines.append(f"  table {join_numbers(variable.probabilities, ', ')};")
        else:
            given = ", ".join(names[p] for p in variable.parents)
            lines.append(f"probability ( {names[at]} | {given} ) {{")
            rows = variable.probabilities.reshape(-1, len(variable.states))
            contexts = product(*(states[p] for p in variable.parents))
            for context, row in zip(contexts, rows, strict=True):
                lines.append(f"  ({', '.join(context)}) {join_numbers(row, ', ')};")
        lines.append("}")
    return "\n".join(lines) + "\n"


def _words(texts: Iterable[str]) -> list[str]:
    """Return plain words that are unique, ignoring case."""
    words = []
    for text in texts:
        spelled = re.sub(r"(?<![\w.])-(?=\d)", "minus_", text)
        for sign, word in _SIGNS.items():
            spelled = re.sub(rf"^{sign} ?(?=[^\s<>=])", word, spelled)
        spelled = re.sub(r"^\((\S+), (\S+)\]$", r"\1_to_\2", spelled)
        word = _WORD.sub("_", spelled).strip("_") or "x"
        word = f"v{word}" if word[0].isdigit() else word
        words.append(f"{word}_" if word.lower() in _RESERVED else word)
    return distinct(words)


def _escaped(text: str) -> str:
    """Escape text for XML, whose readers turn a bare carriage return into a line feed."""
    return escape(text, quote=False).replace("\r", "&#13;")


NOTE = "tanager = "  # start of the property that contains the codebook

# XML 1.0 doesn't allow control characters, escaped or not.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_xmlbif(network: Network) -> str:
    """Return the network as XMLBIF 0.3, with names and values unchanged but escaped for XML.

    A property of the network contains the codebook, so `read_network` can restore cut points,
    types and the code for missing.
    """
    variables = spell_out(network)
    names = xml_names([v.name for v in variables])
    renamed = {x: v.name for x, v in zip(names, variables, strict=True) if x != v.name}
    codebook = network.codebook.to_dict()
    note = json.dumps({"codebook": codebook, "names": renamed, "target": names[0]})
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<BIF VERSION="0.3">',
        "<NETWORK>",
        "<NAME>tanager</NAME>",
        f"<PROPERTY>{NOTE}{_escaped(note)}</PROPERTY>",
    ]
    for name, variable in zip(names, variables, strict=True):
        lines += ['<VARIABLE TYPE="nature">', f"  <NAME>{_escaped(name)}</NAME>"]
        states = xml_names(variable.states)
        lines += [f"  <OUTCOME>{_escaped(state)}</OUTCOME>" for state in states]
        lines.append("</VARIABLE>")
    for name, variable in zip(names, variables, strict=True):
        lines += ["<DEFINITION>", f"  <FOR>{_escaped(name)}</FOR>"]
        lines += [f"  <GIVEN>{_escaped(names[p])}</GIVEN>" for p in variable.parents]
        lines.append(f"  <TABLE>{join_numbers(variable.probabilities.ravel(), ' ')}</TABLE>")
        lines.append("</DEFINITION>")
    return "\n".join([*lines, "</NETWORK>", "</BIF>", ""])


def xml_names(names: Sequence[str]) -> list[str]:
    """Return names or states as XML can represent them, unique when ignoring case."""
    return distinct([_NOT_XML.sub("\ufffd", name).strip() or "(empty)" for name in names])
