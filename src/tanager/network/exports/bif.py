"""Networks as BIF and XMLBIF 0.3, with the full table of every node.

A number with hundreds of values that tables read in a few groups would need a huge table. Two nodes
represent the same distribution: one for the groups, with groups as its parents, and its child for
the values, since P(x | y, parents) = P(group of x | y, groups of the parents) P(x | its group, y).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import accumulate, chain, count, product
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tanager.errors import ConfigurationError, check_cells
from tanager.network.answers import group_labels
from tanager.network.exports import template

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
    """Return the class and every feature with full tables, and nodes for groups if that's a lot."""
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
    prior, classes = np.exp(network.log_prior), tuple(codebook.target.labels())
    variables = [Variable(codebook.class_name, classes, (), prior / prior.sum())]
    nodes = accumulate((1 if inside is None else 2 for inside in within), initial=1)
    place = dict(zip(structure.selected, nodes, strict=False))  # the node that children read
    for at, feature in enumerate(structure.selected):
        name, column, inside = structure.names[feature], codebook.columns[feature], within[at]
        labels, chances = tuple(column.labels()), _spell(tables[at], name)
        parents = (0, *(place[p] for p in structure.parent_indices[at]))
        if inside is None:
            variables.append(Variable(name, labels, parents, chances))
            continue
        groups = views.groups[feature]
        states = tuple(group_labels(column, groups))
        variables.append(Variable(f"{name} (group)", states, parents, chances))
        own = groups == np.arange(len(states))[:, None]
        below = np.where(own, np.exp(inside.T)[:, None], 0.0)  # P(value | y, group)
        below /= below.sum(axis=-1, keepdims=True)
        variables.append(Variable(name, labels, (0, place[feature]), below))
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
    result, seen = [], set[str]()
    for name in names:
        tries = chain([name], (f"{name}_{n}" for n in count(2)))
        result.append(next(one for one in tries if one.lower() not in seen))
        seen.add(result[-1].lower())
    return result


_RESERVED = re.compile("network|variable|probability|property|type|discrete|table|default", re.I)
_SIGNS = {"<=": "le_", ">=": "ge_", "<": "lt_", ">": "gt_"}
_WORD = re.compile(r"[^A-Za-z0-9_]+")


def to_bif(network: Network) -> str:
    """Return the network in the Bayesian Interchange Format.

    BIF allows only plain words, so names and values are written with letters, digits and
    underscores: ``<= 2.45`` becomes ``le_2_45``. Names that would collide are numbered. XMLBIF
    keeps all names unchanged.
    """
    plain = _renamed(spell_out(network), _words)

    def rows(variable: Variable) -> Iterator[tuple[tuple[str, ...], list[float]]]:
        contexts = product(*(plain[p].states for p in variable.parents))
        numbers = variable.probabilities.reshape(-1, len(variable.states)).tolist()
        return zip(contexts, numbers, strict=True)

    return str(template("network.bif.j2").render(variables=plain, rows=rows))


def _renamed(variables: Sequence[Variable], spell: Callable[..., list[str]]) -> list[Variable]:
    """Return the nodes with names and states as a format spells them."""
    pairs = zip(variables, spell([v.name for v in variables]), strict=True)
    return [replace(v, name=name, states=tuple(spell(v.states))) for v, name in pairs]


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
        words.append(f"{word}_" if _RESERVED.fullmatch(word) else word)
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
    plain = _renamed(variables, xml_names)
    pairs = [(x.name, v.name) for x, v in zip(plain, variables, strict=True)]
    names, codebook = {x: name for x, name in pairs if x != name}, network.codebook.to_dict()
    note = json.dumps({"codebook": codebook, "names": names, "target": plain[0].name})
    page = template("network.xml.j2")
    return str(page.render(variables=plain, note=f"{NOTE}{note}", escaped=_escaped))


def xml_names(names: Sequence[str]) -> list[str]:
    """Return names or states as XML can represent them, unique when ignoring case."""
    return distinct([_NOT_XML.sub("\ufffd", name).strip() or "(empty)" for name in names])
