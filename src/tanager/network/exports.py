"""Networks for other programs: BIF, XMLBIF, Graphviz, networkx."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from tanager.errors import ConfigurationError, MemoryBoundError
from tanager.escaping import visible

if TYPE_CHECKING:
    from tanager.network.network import Network

__all__ = ["to_bif", "to_dot", "to_networkx", "to_xmlbif"]

MAX_CELLS = 1 << 22  # of one table spelled out: about 80 MB of text

# Words with a meaning of their own in BIF.
_RESERVED = {
    *("network", "variable", "probability", "property"),
    *("type", "discrete", "table", "default"),
}
_WORD = re.compile(r"[^A-Za-z0-9_]+")
# Controls have no place in XML 1.0, escaped or not.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class _Variable:
    """A node as other programs want it: the class first among its parents."""

    name: str
    states: tuple[str, ...]
    parents: tuple[int, ...]  # positions among the variables
    probabilities: NDArray[np.float64]  # (*parent states, states)


def to_bif(network: Network) -> str:
    """Return the network in the Bayesian Interchange Format.

    BIF knows only plain words, so names and values are spelled with letters,
    digits and underscores: ``<= 2.45`` becomes ``le_2_45``. Names that would
    fall together are numbered. XMLBIF keeps every name as it is.
    """
    variables = _variables(network)
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
            lines.append(f"  table {_numbers(variable.probabilities, ', ')};")
        else:
            given = ", ".join(names[p] for p in variable.parents)
            lines.append(f"probability ( {names[at]} | {given} ) {{")
            rows = variable.probabilities.reshape(-1, len(variable.states))
            contexts = product(*(states[p] for p in variable.parents))
            for context, row in zip(contexts, rows, strict=True):
                lines.append(f"  ({', '.join(context)}) {_numbers(row, ', ')};")
        lines.append("}")
    return "\n".join(lines) + "\n"


def to_xmlbif(network: Network) -> str:
    """Return the network as XMLBIF 0.3, names and values as they are, escaped for XML."""
    variables = _variables(network)
    names = _distinct([_text(v.name) for v in variables])
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<BIF VERSION="0.3">',
        "<NETWORK>",
        "<NAME>tanager</NAME>",
    ]
    for name, variable in zip(names, variables, strict=True):
        lines += ['<VARIABLE TYPE="nature">', f"  <NAME>{escape(name)}</NAME>"]
        states = _distinct([_text(state) for state in variable.states])
        lines += [f"  <OUTCOME>{escape(state)}</OUTCOME>" for state in states]
        lines.append("</VARIABLE>")
    for name, variable in zip(names, variables, strict=True):
        lines += ["<DEFINITION>", f"  <FOR>{escape(name)}</FOR>"]
        lines += [f"  <GIVEN>{escape(names[p])}</GIVEN>" for p in variable.parents]
        lines.append(f"  <TABLE>{_numbers(variable.probabilities.ravel(), ' ')}</TABLE>")
        lines.append("</DEFINITION>")
    return "\n".join([*lines, "</NETWORK>", "</BIF>", ""])


def to_dot(network: Network) -> str:
    """Return the graph for Graphviz; the class is the parent of all."""
    structure = network.structure
    target = _quoted(_target_name(network))
    lines = [
        "digraph tanager {",
        "  node [shape=box, style=rounded, fontname=sans];",
        f"  {target} [style=filled];",
    ]
    for feature in structure.features:
        lines.append(f"  {target} -> {_quoted(feature)} [color=gray80];")
    for feature, parents in structure.parents.items():
        lines += [f"  {_quoted(parent)} -> {_quoted(feature)};" for parent in parents]
    return "\n".join([*lines, "}", ""])


def to_networkx(network: Network) -> Any:
    """Return a `networkx.DiGraph`; the class is a node with the attribute ``role="class"``."""
    import networkx as nx

    structure, codebook = network.structure, network.codebook
    target = _target_name(network)
    graph = nx.DiGraph()
    graph.add_node(target, role="class", values=tuple(codebook.target.labels()))
    for feature, at in zip(structure.features, structure.selected, strict=True):
        values = tuple(codebook.columns[at].labels())
        graph.add_node(feature, role="feature", values=values)
    for feature, parents in structure.parents.items():
        graph.add_edge(target, feature)
        for order, parent in enumerate(parents):
            graph.add_edge(parent, feature, order=order)
    return graph


def _variables(network: Network) -> list[_Variable]:
    """Return the class and every feature, with probabilities spelled out."""
    if not network.tables.normalized:
        raise ConfigurationError(
            "The tables of this network are scores with the right posterior, not probabilities, "
            "and have no place in BIF. Use a generative parameter learner, or a discriminative one "
            "on a structure without immoralities (naive, tan, kdb(k=1))."
        )
    structure, codebook = network.structure, network.codebook
    place = {feature: at + 1 for at, feature in enumerate(structure.selected)}
    prior = np.exp(network.log_prior)
    classes = tuple(codebook.target.labels())
    variables = [_Variable(_target_name(network), classes, (), prior / prior.sum())]
    for at, feature in enumerate(structure.selected):
        table, name = network.tables.families[at], structure.names[feature]
        n_cells = prod(table.member_arities) * table.n_classes
        if n_cells > MAX_CELLS:
            raise MemoryBoundError(
                f"The table of {name!r} has {n_cells:,} cells spelled out, beyond the bound of "
                f"{MAX_CELLS:,}. Learn a structure with fewer parents to export it."
            )
        chance = np.exp(np.moveaxis(table.to_dense().log_prob, -1, 0))
        chance = chance / chance.sum(axis=-1, keepdims=True)
        parents = (0, *(place[p] for p in structure.parent_indices[at]))
        labels = tuple(codebook.columns[feature].labels())
        variables.append(_Variable(name, labels, parents, chance))
    return variables


def _target_name(network: Network) -> str:
    name = network.codebook.target.name or "class"
    while name in network.structure.names:
        name += "_"
    return name


def _words(texts: Iterable[str]) -> list[str]:
    """Return plain words, all different even where case is ignored."""
    words = []
    for text in texts:
        spelled = re.sub(r"(?<![\w.])-(?=\d)", "minus_", text)
        spelled = re.sub(r"^<= (?=\S)", "le_", spelled)
        spelled = re.sub(r"^> (?=\S)", "gt_", spelled)
        spelled = re.sub(r"^\((\S+), (\S+)\]$", r"\1_to_\2", spelled)
        word = _WORD.sub("_", spelled).strip("_") or "x"
        word = f"v{word}" if word[0].isdigit() else word
        words.append(f"{word}_" if word.lower() in _RESERVED else word)
    return _distinct(words)


def _distinct(names: Sequence[str]) -> list[str]:
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


def _text(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text).strip() or "(empty)"


def _quoted(name: str) -> str:
    escaped = visible(name).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _numbers(values: NDArray[np.float64], separator: str) -> str:
    return separator.join(map(repr, values.tolist()))
