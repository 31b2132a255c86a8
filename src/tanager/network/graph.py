"""A network as a graph: scaled by information for drawings, for Graphviz, and for networkx."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Any

from tanager.drawing import DrawingPlan, DrawnGraph, plan_drawing
from tanager.escaping import visible
from tanager.network.exports.bif import target_name
from tanager.network.information import NetworkInformation

if TYPE_CHECKING:
    from tanager.network.network import Network


def network_graph(network: Network, information: NetworkInformation | None = None) -> DrawnGraph:
    """Return a network as drawn by `tanager.drawing`; `information` is computed if not passed."""
    information = information or NetworkInformation(network)
    structure = network.structure
    bits = information.of_features()[list(structure.selected)] / log(2.0)
    place = {name: at for at, name in enumerate(structure.features)}
    carried = {
        (place[parent], place[feature]): nats / log(2.0)
        for (parent, feature), nats in information.of_edges().items()
    }
    parents = structure.parent_positions()
    target = network.codebook.target.name or "class"
    return DrawnGraph(structure.features, parents, target, bits.tolist(), carried)


def to_dot(network: Network) -> str:
    """Return the graph for Graphviz; the class is a parent of all features.

    The width of arrows and the shade of boxes show how informative they are. The graph is
    complete: leaves aren't folded.
    """
    plan = plan_drawing(network_graph(network), fold=False)
    target = _quoted(target_name(network))
    lines = [
        "digraph tanager {",
        f"  graph [label={_quoted(_legend(plan))}, fontname=sans, fontsize=10];",
        '  node [shape=box, style="rounded,filled", fillcolor=white, fontname=sans];',
        f"  {target} [style=filled, fillcolor=gray90];",
    ]
    names = [_quoted(box.label) for box in plan.boxes]
    for box, name in zip(plan.boxes, names, strict=True):
        lines.append(f"  {name} [fillcolor={_quoted(_blue(box.shade))}];")
        lines.append(f"  {target} -> {name} [color=gray80];")
    for arrow in plan.arrows:
        look = f"penwidth={1 + 4 * arrow.width:.1f}"
        if arrow.bits is not None:
            look += f", tooltip={_quoted(f'{arrow.bits:.4f} bits')}"
        if not arrow.main:
            look += ", style=dashed"
        lines.append(f"  {names[arrow.parent]} -> {names[arrow.child]} [{look}];")
    return "\n".join([*lines, "}", ""])


def _legend(plan: DrawingPlan) -> str:
    parts = []
    if plan.legend.shades:
        parts.append(f"darkest box: {plan.legend.shades[0][0]:g} bits about {plan.graph.target}")
    if plan.legend.widths:
        parts.append(f"widest arrow: {plan.legend.widths[0][0]:g} bits beyond it")
    if plan.legend.further:
        parts.append("dashed: further parents")
    return "; ".join(parts)


def _blue(shade: float) -> str:
    """Return the colour of a box, from white to a blue on which black text is legible."""
    return "#" + "".join(f"{round(255 + (end - 255) * 0.55 * shade):02x}" for end in (0, 114, 178))


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
