"""A network as the graph that drawings show: parents, and bits of features and arrows."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

from tanager.drawing import DrawnGraph
from tanager.network.information import NetworkInformation

if TYPE_CHECKING:
    from tanager.network.network import Network

__all__ = ["network_graph"]


def network_graph(network: Network, information: NetworkInformation | None = None) -> DrawnGraph:
    """Return what `tanager.drawing` draws of a network.

    Parameters
    ----------
    network : Network
    information : NetworkInformation, optional
        Of the network, where it is at hand.
    """
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
