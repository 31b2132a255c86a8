"""The graph alone: Graphviz and networkx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tanager.escaping import visible
from tanager.network.exports.variables import target_name

if TYPE_CHECKING:
    from tanager.network.network import Network

__all__ = ["to_dot", "to_networkx"]


def to_dot(network: Network) -> str:
    """Return the graph for Graphviz; the class is the parent of all."""
    structure = network.structure
    target = _quoted(target_name(network))
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
    target = target_name(network)
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


def _quoted(name: str) -> str:
    escaped = visible(name).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
