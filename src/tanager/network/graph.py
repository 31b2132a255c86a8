"""A network as a graph: in notebooks, for drawings, for Graphviz, and for networkx."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Any

import numpy as np

from tanager.drawing import DrawnGraph, plan_drawing
from tanager.drawing.svg import card
from tanager.escaping import visible
from tanager.network.exports import template
from tanager.network.information import SPOKEN_FOR, NetworkInformation, log_odds

if TYPE_CHECKING:
    from tanager.network.network import Network

MAX_EFFECTS = 5
COMMON = 0.01  # share of rows from which a value is worth listing


def network_graph(network: Network, information: NetworkInformation | None = None) -> DrawnGraph:
    """Return a network as drawn by `tanager.drawing`; `information` is computed if not passed."""
    information = information or NetworkInformation(network)
    structure = network.structure
    bits = information.of_features()[list(structure.selected)] / log(2.0)
    place = {name: at for at, name in enumerate(structure.features)}
    edges = information.of_edges().items()
    carried = {(place[one], place[other]): nats / log(2.0) for (one, other), nats in edges}
    facts = structure.parent_positions(), network.codebook.class_name, bits.tolist(), carried
    return DrawnGraph(structure.features, *facts)


def network_html(network: Network, title: str = "Network", facts: str = "") -> str:
    """Return a fitted network as an HTML fragment."""
    prior = np.exp(network.log_prior)
    target = 1 if len(prior) == 2 else int(prior.argmax())
    information = NetworkInformation(network)
    return card(
        "network.html.j2",
        title=title,
        facts=facts or network.summary(),
        network=network,
        prior=[(int(c), float(prior[c])) for c in np.argsort(-prior, kind="stable")],
        plan=plan_drawing(network_graph(network, information)),
        target=target,
        effects=_effects(information, target) if len(prior) > 1 else [],
        spoken_for=SPOKEN_FOR,
    )


def estimator_html(estimator: Any) -> str:
    """Return an estimator, fitted or not, as an HTML fragment."""
    title, network = " ".join(repr(estimator).split()), getattr(estimator, "network_", None)
    if network is None:
        return card("card.html.j2", title=title, facts="not fitted")
    stages = [stage for stage in estimator.info_.values() if isinstance(stage, dict)]
    seconds = sum(stage.get("seconds", 0.0) for stage in stages)
    fitted = f", fitted in {seconds:.2f} s" if seconds else ""  # not stored in model files
    return network_html(network, title, f"{network.summary()}{fitted}")


def _effects(information: NetworkInformation, target: int) -> list[dict[str, Any]]:
    """Return the effects of the most informative features, for and against one class."""
    bits, beyond = information.of_features() / log(2.0), information.beyond_parents() / log(2.0)
    found = []
    for feature in np.argsort(-bits, kind="stable")[:MAX_EFFECTS]:
        column = information.network.codebook.columns[feature]
        joint = information.joint(column.name) if bits[feature] > 0 else None
        if joint is None:
            continue
        effect, shares = log_odds(joint, target), joint.sum(axis=1)
        # With many bins, none may have that many rows; two values are always worth listing.
        common = shares >= min(COMMON, 0.5 / len(shares), *np.sort(shares)[-2:])
        most = int(np.where(common, effect, -np.inf).argmax())
        least, labels = int(np.where(common, effect, np.inf).argmin()), column.labels()
        ends = [(labels[at], float(effect[at])) for at in (most, least)]
        facts = {"name": column.name, "bits": bits[feature], "beyond": beyond[feature]}
        found.append({**facts, "ends": ends})
    return found


def to_dot(network: Network) -> str:
    """Return the graph for Graphviz; the class is a parent of all features.

    The width of arrows and the shade of boxes show how informative they are. The graph is
    complete: leaves aren't folded.
    """
    plan = plan_drawing(network_graph(network), fold=False)
    legend, parts = plan.legend, []
    if legend.shades:
        parts.append(f"darkest box: {legend.shades[0][0]:g} bits about {plan.graph.target}")
    if legend.widths:
        parts.append(f"widest arrow: {legend.widths[0][0]:g} bits beyond it")
    if legend.further:
        parts.append("dashed: further parents")
    page = template("network.dot.j2")
    return str(page.render(plan=plan, legend="; ".join(parts), quoted=_quoted, blue=_blue))


def _blue(shade: float) -> str:
    """Return the colour of a box, from white to a blue on which black text is legible."""
    return "#" + "".join(f"{round(255 + (end - 255) * 0.55 * shade):02x}" for end in (0, 114, 178))


def to_networkx(network: Network) -> Any:
    """Return a `networkx.DiGraph`; the class is a node with the attribute ``role="class"``."""
    import networkx as nx

    structure, codebook = network.structure, network.codebook
    target = codebook.class_name
    graph = nx.DiGraph()
    graph.add_node(target, role="class", values=tuple(codebook.target.labels()))
    for feature, at in zip(structure.features, structure.selected, strict=True):
        graph.add_node(feature, role="feature", values=tuple(codebook.columns[at].labels()))
    for feature, parents in structure.parents.items():
        graph.add_edge(target, feature)
        graph.add_edges_from((p, feature, {"order": at}) for at, p in enumerate(parents))
    return graph


def _quoted(name: str) -> str:
    return '"{}"'.format(visible(name).replace("\\", "\\\\").replace('"', '\\"'))
